"""The sign-in history of a user, and the login before a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from presence_core import Login, Place, SignIn, Worker
from presence_core.models import read_sign_ins, sign_in_text
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.place_file import city, write_place_file

DAY = 86_400
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
MAX_BYTES = 1 + 50 * (2 + 2 * 64 + 1 + 2 + 5 * 64 + 4 + 9)


def _history(bed: Bed, p: P, uid: str = "ada") -> bytes | None:
    stored: bytes | None = bed.raw.get(p.context.shard(uid).sign_ins(uid))
    return stored


@every_topology
def test_each_login_of_a_user_is_kept_with_time_place_and_device(bed: Bed, tmp_path: Path) -> None:
    places = write_place_file(tmp_path / "places.mmdb", {"5.5.5.0/24": city("FR", "Lyon", (45, 5))})
    p = bed.connect(keep_sign_ins=90, place_file=str(places))
    p.freeze()
    plain = p.login("ada", device="phone", app="Shop", app_version="1.2", user_agent=FIREFOX).session
    p.advance(60)
    decided = p.login("ada", ip="5.5.5.5", device_id="device-1", session_id="session-1", device="laptop").session
    p.advance(60)
    new = p.login("ada", ip="5.5.5.5", device_id="device-2", device="laptop").session
    assert p.sign_ins("ada") == [
        SignIn(at=new.login_at, place=Place(country="FR", city="Lyon"), device="laptop", new_device=True),
        SignIn(at=decided.login_at, place=Place(country="FR", city="Lyon"), device="laptop"),
        SignIn(at=plain.login_at, device="phone", app="Shop", app_version="1.2", os="Linux", browser="Firefox"),
    ]
    assert p.sign_ins("bob") == []


def test_without_the_setting_nothing_is_kept(bed: Bed, p: P) -> None:
    p.login("ada")
    p.login("ada", session_id="session-1")
    assert p.sign_ins("ada") == []
    assert _history(bed, p) is None


def test_a_login_that_is_repeated_refused_or_made_by_staff_is_no_further_sign_in(bed: Bed) -> None:
    p = bed.connect(keep_sign_ins=1)
    for _ in range(2):
        p.login("ada", session_id="session-1")
    p.block("bob", by="sue", reason="why")
    rows = [{"uid": "bob"}, {"uid": "ada", "on_behalf_by": "sue", "reason": "help"}]
    p.login_many(rows)
    assert len(p.sign_ins("ada")) == 1
    assert p.sign_ins("bob") == []


def test_an_imported_session_is_kept_at_its_own_time_and_once(bed: Bed) -> None:
    p = bed.connect(keep_sign_ins=10, absolute_timeout=20 * DAY, idle_timeout=20 * DAY)
    now = p.freeze() / 1000
    p.login("ada", device="today")
    rows = [{"uid": "ada", "device": "old", "login_at": now - 2 * DAY, "session_id": "session-1"},
            {"uid": "ada", "device": "too old", "login_at": now - 11 * DAY}]  # fmt: skip
    for _ in range(2):
        p.login_many(rows, imported=True)
    bed.raw.unlink(p.context.shard("ada").record("ada", "session-1"))  # lost, and imported again
    p.repair()
    p.login_many([rows[0]], imported=True)
    assert [sign_in.device for sign_in in p.sign_ins("ada")] == ["today", "old"]


def test_the_history_lapses_after_its_days_and_readers_see_none_that_is_older(bed: Bed) -> None:
    p = bed.connect(keep_sign_ins=2)
    p.freeze()
    p.login("ada", device="first")
    p.advance(1.5 * DAY)
    p.login("ada", device="second")
    key = p.context.shard("ada").sign_ins("ada")
    assert 3.4 * DAY < bed.raw.ttl(key) <= 3.6 * DAY, "two days after the second"
    p.advance(0.6 * DAY)
    assert [sign_in.device for sign_in in p.sign_ins("ada")] == ["second"]
    p.login("ada", device="third")
    assert [sign_in.device for sign_in in read_sign_ins(_history(bed, p))] == ["third", "second"], "and none stored"


@given(logins=some.lists(
    some.tuples(some.text(max_size=80), some.text(max_size=80), some.integers(0, 400), some.booleans()), max_size=30,
))  # fmt: skip
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_newest_fifty_are_kept_in_few_bytes_with_any_names(bed: Bed, logins: list[Any]) -> None:
    p = bed.connect(keep_sign_ins=400, max_sessions=5)
    now, rows = p.freeze() / 1000, []
    for device, app, days, is_imported in logins * 3:
        row = {"uid": "ada", "device": device, "app": app, "user_agent": device + app}
        rows.append(row | {"login_at": now - days / 1000} if is_imported else row)
    assert p.counts().sessions >= 0
    bed.raw.unlink(p.context.shard("ada").sign_ins("ada"))  # of the example before
    answers = p.login_many(rows, imported=True)
    times = [answer.session.login_at for answer in answers if isinstance(answer, Login)]
    assert len(times) == len(rows)
    found = p.sign_ins("ada")
    assert len(found) <= 50
    assert found == sorted(found, key=lambda sign_in: sign_in.at, reverse=True)
    assert {sign_in.at for sign_in in found} <= {*times}
    if times:
        assert found[0].at == max(times)
        assert len(_history(bed, p) or b"") <= MAX_BYTES


def test_another_programs_value_is_no_history_and_stops_no_login(bed: Bed) -> None:
    p = bed.connect(keep_sign_ins=5)
    assert p.sign_ins("ada") == []
    key = p.context.shard("ada").sign_ins("ada")
    for value in (b"\x05", b"\x01\x00\x09ab", b"\x00" * 40, b"\xff" * 90, b"\x01\x00\x01\n" + bytes(9), b"{}"):
        bed.raw.set(key, value)
        assert p.sign_ins("ada") == []
        p.login("ada")
        assert len(p.sign_ins("ada")) == 1
    bed.raw.unlink(key)
    bed.raw.rpush(key, value)
    p.login("ada")
    p.login("ada", session_id="session-1")
    assert p.sign_ins("ada") == []


def test_a_text_is_cut_at_64_bytes_a_part_and_never_within_a_character() -> None:
    packed = sign_in_text(Place(country="FR", city="é" * 99), "d" * 70, "two\nlines", "", "", "")
    country, town, device, app, *others = packed.decode().split("\n")
    assert (country, town, device, app) == ("FR", "é" * 32, "d" * 64, "two lines")
    assert len(others) == 3


@every_backend
@pytest.mark.parametrize("days", [0, 30])
def test_the_login_before_a_session_is_known(bed: Bed, days: int) -> None:
    p = bed.connect(keep_sign_ins=days)
    p.freeze()
    first = p.login("ada", device="phone").session
    assert p.previous_login("ada", first.session_id) is None
    p.advance(60)
    second = p.login("ada", device="laptop", user_agent=FIREFOX).session
    p.advance(60)
    p.login("ada", on_behalf_by="sue", reason="help")
    p.advance(60)
    third = p.login("ada", device="tablet").session
    p.login("bob")
    want = SignIn(at=second.login_at, device="laptop", os="Linux", browser="Firefox")
    assert p.previous_login("ada", third.session_id) == want
    before_second = p.previous_login("ada", second.session_id)
    assert before_second is not None
    assert before_second.device == "phone"
    p.logout("ada", second.session_id)
    assert p.previous_login("ada", third.session_id) == want, "its tombstone is kept"
    assert p.previous_login("ada", second.session_id) is None, "it is not live"
    p.advance(3 * DAY)
    later = p.login("ada").session
    before = p.previous_login("ada", later.session_id)
    if days:
        assert before is not None
        assert before.at == third.login_at


def test_the_name_of_a_person_is_found_as_long_as_their_sign_ins_are_kept(bed: Bed) -> None:
    for days, is_found in ((0, False), (30, True)):
        p = bed.connect(keep_sign_ins=days, keep_people=7 * DAY)
        p.freeze()
        p.logout("ada", p.login("ada", name="Ada Lovelace").session.session_id)
        assert bed.raw.ttl(p.context.shard("ada").person("ada")) == DAY * (31 if days else 8)
        p.advance(20 * DAY)
        p.sweep()
        assert bool(p.people("lovelace")) is is_found


@on("valkey-sync", "redis7-sync")
def test_the_worker_removes_what_is_older_than_the_settings_say_and_the_city_before(bed: Bed, tmp_path: Path) -> None:
    places = str(write_place_file(tmp_path / "places.mmdb", {"5.5.5.0/24": city("FR", "Lyon", (45, 5))}))
    p = bed.connect(keep_sign_ins=10, truncate_addresses_after=3, place_file=places, shards=2)
    p.freeze()
    for uid in ("ada", "bob", "cleo"):  # bob and cleo are offline later
        p.login(uid, ip="5.5.5.5", device="old", absolute_timeout=30 * DAY, idle_timeout=60)
    p.advance(8 * DAY)
    p.login("ada", ip="5.5.5.5", device="new")
    p.login("cleo", ip="5.5.5.5", device="new")
    p.sweep()
    worker = Worker(p)
    worker._trimming.run()
    for uid in ("ada", "cleo"):
        assert _seen(bed, p, uid) == [("new", "Lyon"), ("old", None)]
    assert _seen(bed, p, "bob") == [("old", None)]
    before = bed.dump()
    worker._trimming.run()
    assert bed.dump() == before, "a further run changes nothing"
    p.advance(2.5 * DAY)
    Worker(bed.connect())._trimming.run()
    assert bed.dump() == before, "one whose settings keep no sign-ins removes none"
    worker._trimming.run()
    assert _seen(bed, p, "ada") == [("new", "Lyon")]
    assert _history(bed, p, "bob") is None


@on("valkey-sync")
def test_a_worker_that_keeps_no_sign_ins_removes_the_city_of_those_that_others_have_stored(
    bed: Bed, tmp_path: Path
) -> None:
    places = str(write_place_file(tmp_path / "places.mmdb", {"5.5.5.0/24": city("FR", "Lyon", (45, 5))}))
    site = bed.connect(keep_sign_ins=30, place_file=places)
    site.freeze()
    for uid in ("ada", "bob"):  # bob is offline later
        site.login(uid, ip="5.5.5.5", device="old", absolute_timeout=60 * DAY, idle_timeout=60)
    site.advance(4 * DAY)
    site.login("ada", ip="5.5.5.5", device="new", absolute_timeout=60 * DAY, idle_timeout=60 * DAY)
    lapses = [bed.raw.ttl(site.context.shard(uid).sign_ins(uid)) for uid in ("ada", "bob")]
    off = bed.connect(keep_sign_ins=0, truncate_addresses_after=3)
    off.counts()
    Worker(off)._trimming.run()
    assert _seen(bed, site, "ada") == [("new", "Lyon"), ("old", None)]
    assert _seen(bed, site, "bob") == [("old", None)]
    site.login("bob", ip="5.5.5.5", device="new", absolute_timeout=60 * DAY, idle_timeout=60)
    after = [bed.raw.ttl(site.context.shard(uid).sign_ins(uid)) for uid in ("ada", "bob")]
    assert after[0] == pytest.approx(lapses[0], abs=5), "they lapse when they would have lapsed"
    off.sweep()
    later = bed.connect(keep_sign_ins=0, truncate_addresses_after=20)
    site.advance(8 * DAY)
    later.sweep()  # bob leaves the list of people: no later run of the worker would find his history
    assert _seen(bed, site, "bob") == [("new", None), ("old", None)]


@every_topology
def test_with_fewer_days_the_histories_of_people_who_are_removed_go_too(bed: Bed) -> None:
    before = bed.connect(keep_sign_ins=90)
    before.freeze()
    for uid in ("ada", "bob"):
        before.logout(uid, before.login(uid, device="phone").session.session_id)
    before.advance(40 * DAY)
    now = bed.connect(keep_sign_ins=10)
    now.login("bob", device="laptop")
    now.sweep()
    assert _history(bed, now, "ada") is None
    assert [sign_in.device for sign_in in now.sign_ins("bob")] == ["laptop"]
    off = bed.connect(keep_sign_ins=0)
    off.advance(40 * DAY)
    off.sweep()
    assert _history(bed, off, "bob") is not None, "it lapses by its TTL"


def _seen(bed: Bed, p: P, uid: str) -> list[tuple[str | None, str | None]]:
    """Device and city of what is stored."""
    stored = read_sign_ins(_history(bed, p, uid))
    return [(sign_in.device, sign_in.place.city if sign_in.place else None) for sign_in in stored]


def test_health_says_about_how_much_memory_the_histories_take(bed: Bed) -> None:
    p = bed.connect(keep_sign_ins=10)
    p.login_many({"uid": f"u{number}", "device": "phone"} for number in range(50))
    health = p.health()
    [found] = [finding.text for finding in health.findings if finding.subject == "sign-ins"]
    key = p.context.shard("u1").sign_ins("u1")
    size = len(key) + 80 + 1 + (2 + 1) + (2 + 9) + 9
    assert found.startswith("The sign-in histories of about 50 users take about 0.0 MB, ")
    assert abs(int(found.split()[-3]) - size) <= 1
    assert health.sign_ins_memory == 50 * int(found.split()[-3])
    assert bed.connect().health().sign_ins_memory is None
