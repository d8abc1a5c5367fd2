"""Sign-ins that fail are recorded, found again, and bounded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from presence_core import FailedLogin, Login, LoginRefused, SessionFilter
from tests.conftest import Bed, every_topology
from tests.support.facade import P
from tests.support.place_file import write_place_file

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0"
DAY = 86_400


def _refused(p: P, uid: str, **given: Any) -> str:
    with pytest.raises(LoginRefused) as refused:
        p.login(uid, **given)
    return refused.value.code


def _rows(p: P, uid: str | None = None, **asked: Any) -> list[tuple[str | None, str, int]]:
    return [(failure.uid, failure.why, failure.count) for failure in p.failed_logins(uid, **asked).items]


def _fail(p: P, who: str, times: int = 1, why: Any = "wrong_password", **given: Any) -> None:
    for _ in range(times):
        p.login_failed(who, why=why, **given)


@every_topology
def test_the_script_that_refuses_a_login_records_why(bed: Bed) -> None:
    p = bed.connect(max_sessions=1, on_limit="reject", no_address="refuse")
    p.freeze()
    p.login("ada", session_id="session-1", ip="203.0.113.9")
    codes = [_refused(p, "ada", ip="203.0.113.9", app="web", user_agent=AGENT)]
    p.logout("ada", "session-1")
    codes.append(_refused(p, "ada", session_id="session-1", ip="203.0.113.9"))
    p.block("ada", by="sue", reason="test")
    codes += [_refused(p, "ada", ip="2001:db8::9") for _ in range(3)]
    p.add_block_rule(network="198.51.100.0/23", by="sue", reason="test", expected=0)
    codes += [_refused(p, "bob", ip="198.51.101.7"), _refused(p, "cat")]
    assert codes == ["limit", "ended", *["blocked"] * 3, "block_rule", "no_address"]
    assert sorted(_rows(p, "ada")) == [("ada", "blocked", 3), ("ada", "ended", 1), ("ada", "limit", 1)]
    [limit] = p.failed_logins("ada", why="limit").items
    assert (limit.ip, limit.app, limit.os, limit.browser) == ("203.0.113.9", "web", "Linux", "Firefox")
    assert [(failure.rule, failure.ip) for failure in p.failed_logins("bob").items] == [
        ("198.51.100.0/23", "198.51.101.7")
    ]
    assert [failure.ip for failure in p.failed_logins("cat").items] == [None]
    assert p.counts().failed_logins == 7
    assert len(p.failed_logins().items) == 5


@every_topology
def test_failures_of_one_person_reason_and_address_share_a_row(p: P) -> None:
    begin = p.freeze()
    p.login("ada")
    for second in range(3):
        p.set_now(begin + second * 1000)
        _fail(p, "ada", ip="203.0.113.9")
    _fail(p, "ada", why="second_factor", ip="203.0.113.9")
    _fail(p, "ada", ip="203.0.113.10", user_agent=AGENT)
    found = p.failed_logins("ada").items
    assert {(failure.why, failure.ip): failure.count for failure in found} == {
        ("wrong_password", "203.0.113.9"): 3,
        ("second_factor", "203.0.113.9"): 1,
        ("wrong_password", "203.0.113.10"): 1,
    }
    [row] = p.failed_logins("ada", ip="203.0.113.9", why="wrong_password").items
    assert (row.first_at, row.at) == tuple(datetime.fromtimestamp((begin + at) / 1000, UTC) for at in (0, 2000))


@every_topology
def test_the_list_is_newest_first_in_pages_and_by_address_reason_and_time(p: P) -> None:
    begin = p.freeze()
    for number in range(12):
        p.set_now(begin + number * 1000)
        _fail(p, f"user-{number}", ip=f"203.0.{number % 3}.7", why="locked" if number % 2 else "unknown_name")
    pages, cursor = list[list[FailedLogin]](), None
    while not pages or cursor is not None:
        page = p.failed_logins(limit=5, cursor=cursor)
        pages.append(page.items)
        cursor = page.next_cursor
    assert [len(page) for page in pages] == [5, 5, 2]
    times = [failure.at for page in pages for failure in page]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 12
    assert len(p.failed_logins(ip="203.0.1.0/24").items) == 4
    assert len(p.failed_logins(why="locked").items) == 6
    assert len(p.failed_logins(why="locked", ip="203.0.1.7", since=(begin + 6000) / 1000).items) == 1
    assert len(p.failed_logins(until=(begin + 3000) / 1000).items) == 3


@every_topology
def test_a_typed_text_is_kept_as_a_digest_and_found_again(bed: Bed) -> None:
    p = bed.connect()
    for typed in (
        "Hunter2!",
        "hunter2!",
        "Kim@Example.ORG",
        "+33 6 12 34 56 78",
        "x" * 100_000,
        "a\nb\0",
        "",
        "a\udfff",
    ):
        _fail(p, typed, why="unknown_name", ip="203.0.113.9")
    everything = b" ".join(key + value for key, value in bed.dump().items()).lower()
    for secret in (b"hunter2", b"kim@example", b"12 34 56", b"xxxxxxxx"):
        assert secret not in everything
    assert [(found.uid, found.count, found.name_kind) for found in p.failed_logins("HUNTER2!").items] == [
        (None, 2, "name")
    ]
    assert [found.name_kind for found in p.failed_logins("kim@example.org").items] == ["email"]
    assert [found.name_kind for found in p.failed_logins("+33 6 12 34 56 78").items] == ["phone"]
    assert p.failed_logins("kim@example.com").items == []
    assert len(p.failed_logins("a\udfff").items) == 1


@every_topology
def test_what_was_typed_under_a_name_or_alias_of_a_person_is_theirs(p: P) -> None:
    _fail(p, "ada@example.org", why="unknown_name")
    p.login("u1019", name="Ada King", aliases=["ada@example.org"])
    _fail(p, "ADA KING", why="unknown_name")
    _fail(p, "u1019", 2)
    assert sorted(_rows(p, "u1019"), key=str) == [
        ("u1019", "wrong_password", 2), (None, "unknown_name", 1), (None, "unknown_name", 1),
    ]  # fmt: skip
    p.logout("u1019", p.sessions("u1019")[0].session_id)
    assert len(_rows(p, "u1019")) == 3, "also when they are offline"


def test_a_visitor_learns_nothing_from_a_report_that_failed(bed: Bed) -> None:
    """Of known and unknown people as many scripts run, and the reply is the same."""
    p = bed.connect()
    p.login("ada")
    _fail(p, "ada")

    def scripts_of(who: str) -> int:
        before = bed.raw.info("commandstats")["cmdstat_evalsha"]["calls"]
        _fail(p, who)
        return int(bed.raw.info("commandstats")["cmdstat_evalsha"]["calls"] - before)

    assert {scripts_of(who) for who in ("ada", "nobody", "nobody", "kim@example.org", "", "a\nb", "x" * 1000)} == {2}


@every_topology
def test_a_flood_is_bounded_and_takes_no_row_from_others(bed: Bed) -> None:
    p = bed.connect(shards=1, max_failed_logins=240)  # an hour begins 20 rows of people and 20 of typed names
    p.freeze()
    p.login("ada")
    _fail(p, "kim@example.org", 3, why="unknown_name", ip="192.0.2.7")
    for number in range(40):
        _fail(p, f"name-{number}", ip=f"198.51.{number}.7")
        _fail(p, f"again-{number}", ip="203.0.113.9")
    assert len(p.failed_logins(limit=1000).items) == 20
    assert _rows(p, "kim@example.org") == [(None, "unknown_name", 3)]
    _fail(p, "ada", ip="198.51.3.9")
    assert _rows(p, "ada") == [("ada", "wrong_password", 1)], "typed names take no room from people"
    _fail(p, "kim@example.org", why="unknown_name", ip="192.0.2.7")
    assert _rows(p, "kim@example.org") == [(None, "unknown_name", 4)], "a row that is there still counts"
    assert p.counts().failed_logins == 85
    for number in range(30):
        _fail(p, f"user-{number}", is_uid=True, ip=f"192.88.{number}.7")
    assert len(p.failed_logins(limit=1000).items) == 40
    networks = {found.network: found.count for found in p.failed_networks(limit=1000)}
    assert networks["203.0.113.0/24"] == 40
    p.advance(3600)
    _fail(p, "later")
    assert len(p.failed_logins("later").items) == 1


def test_a_network_begins_few_rows_an_hour_and_a_person_has_few_addresses(p: P) -> None:
    p.freeze()
    p.login("ada")
    for number in range(60):
        _fail(p, f"name-{number}", ip="203.0.113.9")
        _fail(p, "ada", ip=f"2001:db8:{number:x}::9")
    assert len(p.failed_logins(ip="203.0.113.0/24", limit=1000).items) == 50
    found = p.failed_logins("ada").items
    assert len(found) == 11
    assert sum(failure.count for failure in found) == 60
    assert [failure.count for failure in found if failure.ip is None] == [50]


def test_failures_are_kept_for_a_time_and_not_at_all_with_zero(bed: Bed) -> None:
    p = bed.connect(keep_failed_logins=2 * DAY)
    p.freeze()
    p.login("ada")
    _fail(p, "ada", ip="203.0.113.9")
    p.advance(DAY)
    _fail(p, "ada", ip="203.0.113.10")
    p.advance(1.5 * DAY)
    assert [failure.ip for failure in p.failed_logins("ada").items] == ["203.0.113.10"]
    assert [failure.ip for failure in p.failed_logins().items] == ["203.0.113.10"], "also before the next failure"
    _fail(p, "ada", ip="203.0.113.11")
    assert [failure.ip for failure in p.failed_logins().items] == ["203.0.113.11", "203.0.113.10"]
    ttl = bed.raw.pttl(p.context.shard("ada").failures("ada"))
    assert DAY * 1000 < ttl <= 2 * DAY * 1000
    off = bed.connect(keep_failed_logins=0)
    before = bed.dump()
    _fail(off, "bob")
    off.block("cat", by="sue", reason="test")
    assert _refused(off, "cat") == "blocked"
    assert {key for key in bed.dump().keys() - before.keys() if b"failed" in key} == set()


def test_addresses_are_kept_as_the_records_of_sessions_have_them(bed: Bed, tmp_path: Any) -> None:
    p = bed.connect(record_address="network", place_file=str(write_place_file(tmp_path / "places.mmdb")))
    _fail(p, "kim", ip="203.0.113.7")
    p.block("ada", by="sue", reason="test")
    _refused(p, "ada", ip="203.0.113.7")
    found = [*p.failed_logins("kim").items, *p.failed_logins("ada").items]
    assert [failure.ip for failure in found] == ["203.0.113.0"] * 2
    assert found[0].place is not None
    assert found[0].place == found[1].place
    short = bed.connect(truncate_addresses_after=1, keep_failed_logins=3 * DAY)
    _fail(short, "eve", ip="203.0.113.7")
    [digest] = [key for key in bed.families()["failed_names:"] if bed.raw.ttl(key) <= DAY]
    assert digest


@every_topology
def test_a_login_after_many_failures_is_flagged_and_says_how_many(p: P) -> None:
    p.freeze()
    assert p.login("ada").failures == 0
    _fail(p, "ada", 4)
    few = p.login("ada")
    assert (few.failures, few.session.after_failures) == (4, False)
    _fail(p, "ada", 3, ip="203.0.113.9")
    _fail(p, "ada", 2, why="second_factor")
    many = p.login("ada", session_id="session-many")
    assert (many.failures, many.session.after_failures) == (5, True)
    again = p.login("ada", session_id="session-many")
    assert (again.failures, again.session.after_failures) == (0, True), "the same login, repeated"
    assert p.login("ada").failures == 0
    [flagged] = p.list_sessions(SessionFilter(after_failures=True)).items
    assert flagged.session_id == "session-many"
    assert p.count_sessions(SessionFilter(after_failures=True)) == 1
    assert [event.session_id for event in p.events() if event.kind == "after_failures"] == ["session-many"]
    assert p.counts().odd_logins["after_failures"] == 1


@every_topology
def test_logins_that_are_sent_together_count_failures_too(p: P) -> None:
    _fail(p, "ada", 2)
    p.login("bob")
    _fail(p, "bob", 6)
    logins = p.login_many([{"uid": "ada"}, {"uid": "bob"}, {"uid": "cat"}])
    assert [login.failures for login in logins if isinstance(login, Login)] == [0, 6, 0], "ada was not known before"
    assert [login.session.after_failures for login in logins if isinstance(login, Login)] == [False, True, False]


def test_imports_and_support_sessions_neither_count_nor_clear_failures(p: P) -> None:
    p.freeze()
    p.login("ada")
    _fail(p, "ada", 5)
    support = p.login("ada", on_behalf_by="sue", reason="test").session
    [imported] = p.login_many([{"uid": "ada", "login_at": p.clock.ms / 1000 - 60}], imported=True)
    assert isinstance(imported, Login)
    assert (support.after_failures, imported.session.after_failures) == (False, False)
    assert p.login("ada").failures == 5


def test_data_of_another_program_under_our_names_changes_no_refusal(bed: Bed) -> None:
    p = bed.connect()
    p.block("ada", by="sue", reason="test")
    bed.raw.set(p.context.shard("ada").failed, "theirs")
    bed.raw.set(p.context.shard("bob").failures("bob"), "theirs")
    assert _refused(p, "ada") == "blocked"
    assert p.login("bob").failures == 0


def test_numbers_of_another_program_in_our_keys_keep_no_refusal_and_no_row(bed: Bed) -> None:
    p = bed.connect()
    p.block("ada", by="sue", reason="test")
    s = p.context.shard("ada")
    bed.raw.hset(s.totals, "failed", "theirs")
    bed.raw.hset(s.failures("ada"), mapping={"#": "theirs", "=": "theirs"})
    bed.raw.hset(s.failed_from, "cb007100", "9" * 400 + " 1")
    assert _refused(p, "ada", ip="203.0.113.9") == "blocked"
    _fail(p, "ada", is_uid=True, ip="203.0.113.9")
    assert sorted(_rows(p, "ada")) == [("ada", "blocked", 1), ("ada", "wrong_password", 1)]
    assert p.failed_networks()


def test_an_account_that_was_not_here_for_long_is_named_where_the_site_vouches_for_the_uid(p: P) -> None:
    p.login_failed("u1019", why="wrong_password", is_uid=True)
    p.login_failed("u1019", why="wrong_password")
    assert sorted(_rows(p), key=str) == [("u1019", "wrong_password", 1), (None, "wrong_password", 1)]
    assert p.login("u1019").failures == 1


def test_a_flood_while_the_clock_of_redis_was_ahead_leaves_room_when_it_is_set_back(bed: Bed) -> None:
    p = bed.connect(shards=1, max_failed_logins=240)  # an hour begins 20 rows of typed names
    begin = p.freeze()
    p.advance(2 * DAY)
    for number in range(30):
        _fail(p, f"name-{number}", ip=f"198.51.{number}.7")
    networks = p.context.keys.shards[0].failed_from
    bed.raw.expire(networks, 2 * DAY)  # as it is then
    p.set_now(begin)
    _fail(p, "name-1", ip="198.51.1.7")
    _fail(p, "later")
    assert [(found.name_digest is None, found.count) for found in p.failed_logins(limit=1000).items] == [(False, 1)] * 2
    assert len(p.failed_logins("name-1").items) == len(p.failed_logins("later").items) == 1
    assert bed.raw.ttl(networks) <= 3600
