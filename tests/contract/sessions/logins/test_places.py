"""Logins have the place that the operator's file knows; a login far from the last one is flagged and reported, once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presence_core import DistantLogin, LoginRefused, Place, Session, SessionFilter
from tests.conftest import Bed, every_backend, every_topology
from tests.support.facade import P
from tests.support.place_file import city, write_place_file

LYON, PARIS, TOKYO = "192.0.2.7", "198.51.100.7", "203.0.113.7"
IN_LYON = Place(country="FR", city="Lyon", network="Example Telecom", asn=64500, latitude=46, longitude=5)
HOUR = 3600


@pytest.fixture
def place_file(tmp_path: Path) -> str:
    return str(write_place_file(tmp_path / "places.mmdb"))


@pytest.fixture
def placed(bed: Bed, place_file: str) -> P:
    client = bed.connect(place_file=place_file)
    client.freeze()
    return client


def _login(p: P, uid: str = "ada", ip: str | None = LYON, **given: Any) -> Session:
    session: Session = p.login(uid, ip=ip, **given).session
    return session


def _reported(p: P) -> list[DistantLogin]:
    return [event for event in p.events(limit=1000) if isinstance(event, DistantLogin)]


def _ids(sessions: Sequence[Session]) -> set[str]:
    return {session.session_id for session in sessions}


def _last_place(bed: Bed, p: P, uid: str = "ada") -> bytes | None:
    raw: bytes | None = bed.raw.get(p.context.shard(uid).place(uid))
    return raw


# -- the place --------------------------------------------------------------------------------------------------------


@every_backend
def test_every_reader_of_a_session_gets_the_place_of_its_login(bed: Bed, place_file: str) -> None:
    p = bed.connect(place_file=place_file)
    reader = bed.connect()  # without a file
    login = p.login("ada", ip=LYON, session_id="session-1")
    for session in (
        login.session, reader.get("ada", "session-1"), reader.validate(login.token).session,
        p.rotate(login.token).session, reader.sessions("ada")[0], reader.list_sessions().items[0],
        p.sessions_among(["ada:session-1"])["ada:session-1"],
        p.update_session("ada", "session-1", attributes={"a": 1}).session,
    ):  # fmt: skip
        assert session is not None
        assert session.place == IN_LYON
        assert not session.distant
    [kicked] = p.kick("ada", "session-1", by="sue", reason="not hers").kicked
    ended = reader.validate_session("ada", "session-1").ended
    assert ended is not None
    assert kicked.place == ended.place == reader.ended("ada").items[0].place == IN_LYON


@pytest.mark.parametrize("ip", [None, "10.0.0.1", "127.0.0.1", "192.0.3.7", "fe80::1"])
def test_an_address_that_the_file_does_not_know_has_no_place(placed: P, bed: Bed, ip: str | None) -> None:
    assert _login(placed, ip=ip, session_id="session-1").place is None
    key = placed.context.shard("ada").record("ada", "session-1")
    assert bed.raw.hget(key, "g") is None
    assert _last_place(bed, placed) is None


def test_without_a_file_nothing_is_stored(p: P, bed: Bed) -> None:
    assert _login(p, session_id="session-1").place is None
    assert not bed.raw.hexists(p.context.shard("ada").record("ada", "session-1"), "g")
    assert "place" not in bed.families()


def test_an_ipv6_address_has_a_place_or_none_where_the_file_has_ipv4_alone(bed: Bed, tmp_path: Path) -> None:
    both = bed.connect(place_file=str(write_place_file(tmp_path / "both.mmdb")))
    old = bed.connect(
        place_file=str(write_place_file(tmp_path / "old.mmdb", {"192.0.2.0/24": city("FR", "Lyon", (1, 2))}, version=4))
    )
    place = _login(both, ip="2001:db8::7").place
    assert place is not None
    assert place.city == "Tokyo"
    assert _login(old, ip="2001:db8::7").place is None
    assert _login(old, ip=LYON).place is not None


def test_a_place_takes_at_most_64_bytes_of_the_record(bed: Bed, tmp_path: Path) -> None:
    entry = city("FR", "Île-de-" + "é" * 200, (-89.9, -179.9), 4294967295, "Ω" * 200)
    p = bed.connect(place_file=str(write_place_file(tmp_path / "long.mmdb", {"192.0.2.0/24": entry})))
    place = _login(p, session_id="session-1").place
    stored = bed.raw.hget(p.context.shard("ada").record("ada", "session-1"), "g")
    assert len(stored) <= 64
    stored.decode()  # cut between two characters
    assert place is not None
    assert (place.country, place.asn, place.latitude, place.longitude) == ("FR", 4294967295, -90, -180)
    assert place.city is not None
    assert place.city.startswith("Île-de-éé")
    assert place.network is not None
    assert set(place.network) == {"Ω"}


def test_a_login_that_is_repeated_gets_the_place_of_its_new_address(placed: P) -> None:
    _login(placed, session_id="session-1")
    place = _login(placed, ip=PARIS, session_id="session-1").place
    assert place is not None
    assert place.city == "Paris"
    assert placed.facets("network") == {"AS64501": 1}
    assert _login(placed, ip=None, session_id="session-1").place is None
    assert placed.facets("network") == placed.facets("country") == {}


@every_topology
def test_sessions_are_found_and_counted_by_country_and_network(bed: Bed, place_file: str) -> None:
    p = bed.connect(place_file=place_file)
    lyon = [_login(p, f"lyon-{number}", LYON) for number in range(3)]
    paris = [_login(p, f"paris-{number}", PARIS) for number in range(2)]
    tokyo, _ = _login(p, "tokyo", TOKYO), _login(p, "unknown", None)
    assert p.facets("country") == {"FR": 5, "JP": 1}
    assert p.facets("network") == {"AS64500": 3, "AS64501": 2, "AS64510": 1}
    for wanted, expected in (
        (SessionFilter(country="fr"), [*lyon, *paris]), (SessionFilter(network="as64501"), paris),
        (SessionFilter(country="JP", network="AS64510"), [tokyo]), (SessionFilter(country="JP", network="AS64500"), []),
        (SessionFilter(country="DE"), []), (SessionFilter(network="AS6450"), []),
        (SessionFilter(country="FR", name_contains="zed"), []), (SessionFilter(country="FR", ip=LYON), lyon),
    ):  # fmt: skip
        page = p.list_sessions(wanted)
        assert _ids(page.items) == _ids(expected)
        assert p.count_sessions(wanted) == len(expected)
    p.logout("tokyo", tokyo.session_id)
    p.kick("lyon-0", by="sue", reason="test")
    p.sweep()
    assert p.facets("country") == {"FR": 4}
    assert p.facets("network") == {"AS64500": 2, "AS64501": 2}


def test_a_rebuild_counts_countries_and_networks_again(placed: P, bed: Bed) -> None:
    _login(placed)
    _login(placed, "bob", TOKYO)
    bed.raw.delete(*(shard.facets for shard in placed.context.keys.shards))
    assert placed.facets("country") == {}
    placed.reindex()
    assert placed.facets("country") == {"FR": 1, "JP": 1}
    assert placed.facets("network") == {"AS64500": 1, "AS64510": 1}


def test_a_bulk_kick_ends_the_sessions_of_a_country(placed: P) -> None:
    _login(placed)
    _login(placed, "bob", TOKYO)
    result = placed.kick_where(SessionFilter(country="JP"), by="sue", reason="test", expected=1)
    assert result.count == 1
    assert [session.uid for session in placed.list_sessions().items] == ["ada"]


# -- far from the last login ------------------------------------------------------------------------------------------


@every_backend
def test_a_login_far_from_the_last_one_is_flagged_and_reported_with_both_places(bed: Bed, place_file: str) -> None:
    p = bed.connect(place_file=place_file)
    p.freeze()
    first = _login(p)
    p.advance(HOUR)
    far = _login(p, ip=TOKYO)
    assert far.distant
    assert (far.previous_place, far.previous_login_at) == (
        Place(country="FR", city="Lyon", asn=64500, latitude=46, longitude=5), first.login_at,
    )  # fmt: skip
    [event] = _reported(p)
    assert isinstance(event, DistantLogin)
    assert (event.uid, event.session_id, event.at) == ("ada", far.session_id, far.login_at)
    assert (event.place, event.previous_place) == (far.place, far.previous_place)
    assert event.previous_login_at == first.login_at
    kinds = [event.kind for event in p.events(limit=1000) if event.session_id == far.session_id]
    assert kinds == ["login", "distant"]
    assert _ids(p.list_sessions(SessionFilter(distant=True)).items) == {far.session_id}
    p.logout("ada", far.session_id)
    [ended, expired] = p.ended("ada").items
    assert (ended.distant, ended.previous_place) == (True, far.previous_place)
    assert (expired.session_id, expired.distant) == (first.session_id, False)
    assert _reported(p) == [event], "also when the session has ended"


@pytest.mark.parametrize(
    ("ip", "seconds", "expected"),
    [(TOKYO, 10 * HOUR, True), (TOKYO, 12 * HOUR, False), (PARIS, 1, False), (LYON, 0, False), (TOKYO, 0, True)],
)
def test_a_login_is_distant_if_no_plane_flies_so_fast(placed: P, ip: str, seconds: int, expected: bool) -> None:
    _login(placed)  # Tokyo is 9,900 km away: 11 hours; Paris, at 400 km, is too near to say
    placed.advance(seconds)
    assert _login(placed, ip=ip).distant is expected
    assert len(_reported(placed)) == expected


@pytest.mark.parametrize(
    ("start", "end", "km"),
    [((0, 179), (0, -179), 222), ((89, 0), (89, 180), 222), ((0, 0), (0, 5), 556), ((-33, 151), (51, 0), 16_900),
     ((0, 0), (0, 180), 20_015), ((60, 0), (60, 8), 444)],
)  # fmt: skip
def test_a_distance_is_along_the_globe(
    bed: Bed, tmp_path: Path, start: tuple[int, int], end: tuple[int, int], km: int
) -> None:
    networks = {"192.0.2.0/24": city("FR", "Here", start), "203.0.113.0/24": city("FR", "There", end)}
    p = bed.connect(place_file=str(write_place_file(tmp_path / "two.mmdb", networks)))
    p.freeze()
    flight = km / 900 * HOUR
    for uid, seconds in (("short", 0.95 * flight), ("long", 1.05 * flight)):
        _login(p, uid)
        p.advance(seconds)
        assert _login(p, uid, TOKYO).distant is (uid == "short" and km > 500)


def test_a_login_without_a_known_place_is_passed_over(placed: P) -> None:
    _login(placed)
    for ip in (None, "198.51.100.200"):  # a country alone has no coordinates
        placed.advance(60)
        assert not _login(placed, ip=ip).distant
    placed.advance(60)
    assert _login(placed, ip=TOKYO).distant


def test_a_place_is_forgotten_when_a_plane_can_be_anywhere(placed: P, bed: Bed) -> None:
    _login(placed)
    ttl = bed.raw.ttl(placed.context.shard("ada").place("ada"))
    assert 22 * HOUR < ttl < 23 * HOUR


def test_only_the_users_own_logins_count(placed: P) -> None:
    _login(placed, "bob", TOKYO)
    _login(placed)
    behalf = _login(placed, ip=TOKYO, on_behalf_by="sam", reason="a call")
    assert behalf.place is not None
    assert not behalf.distant
    assert not _login(placed).distant
    assert _reported(placed) == []


def test_a_refused_login_leaves_the_last_place(placed: P) -> None:
    _login(placed)
    placed.block("ada", by="sue", reason="test")
    with pytest.raises(LoginRefused):
        _login(placed, ip=TOKYO)
    placed.unblock("ada", by="sue", reason="test")
    assert not _login(placed).distant


def test_a_repeated_login_stays_as_it_was_and_is_reported_once(placed: P) -> None:
    first = _login(placed, session_id="session-1")
    for ip in (TOKYO, LYON):
        assert not _login(placed, ip=ip, session_id="session-1").distant
    for ip in (TOKYO, LYON):
        far = _login(placed, ip=ip, session_id="session-2")
        assert far.distant
        assert far.previous_login_at == first.login_at
    assert len(_reported(placed)) == 1


@pytest.mark.parametrize("given", [{}, {"device_id": "device-1"}])
def test_an_import_reports_no_distant_login(placed: P, bed: Bed, given: dict[str, str]) -> None:
    now = placed.clock.ms / 1000
    rows = [{"uid": "ada", "ip": ip, "login_at": now - 60} | given for ip in (LYON, TOKYO)]
    placed.login_many(rows, imported=True)
    assert [session.distant for session in placed.sessions("ada")] == [False, False]
    assert placed.facets("country") == {"FR": 1, "JP": 1}
    assert _last_place(bed, placed) is None


@every_topology
def test_of_many_logins_at_once_each_is_reported_at_most_once(bed: Bed, place_file: str) -> None:
    clients = [bed.connect(place_file=place_file) for _ in range(8)]
    _login(clients[0])
    barrier = threading.Barrier(8)
    made: list[Session] = []

    def log_in(client: P) -> None:
        barrier.wait()
        made.extend(_login(client, ip=TOKYO) for _ in range(25))

    threads = [threading.Thread(target=log_in, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 200
    assert sum(session.distant for session in made) == 1, "the others come from where this one was"
    [event] = _reported(clients[0])
    assert [event.session_id] == [session.session_id for session in made if session.distant]


def test_a_login_can_be_on_a_new_device_and_distant(placed: P) -> None:
    _login(placed, device_id="device-phone")
    both = _login(placed, ip=TOKYO, device_id="device-laptop")
    assert (both.new_device, both.distant) == (True, True)
    assert both.previous_place is not None
    assert _ids(placed.list_sessions(SessionFilter(new_device=True, distant=True)).items) == {both.session_id}
    kinds = [event.kind for event in placed.events(limit=1000) if event.session_id == both.session_id]
    assert kinds == ["login", "new_device", "distant"]


def test_a_key_of_a_foreign_type_stops_no_login(placed: P, bed: Bed) -> None:
    placed.counts()
    key = placed.context.shard("ada").place("ada")
    bed.raw.rpush(key, "foreign")
    assert not _login(placed).distant
    assert not _login(placed, ip=TOKYO).distant
    assert bed.raw.lrange(key, 0, -1) == [b"foreign"]


@pytest.mark.parametrize("stored", [b"", b"x", b"12345678", b"12345678\n\n\n\n", b"12345678\xff\xff", b"1" * 100])
def test_a_last_place_that_is_damaged_stops_no_login(placed: P, bed: Bed, stored: bytes) -> None:
    placed.counts()
    bed.raw.set(placed.context.shard("ada").place("ada"), stored)
    assert not _login(placed).distant
    assert _login(placed, ip=TOKYO).distant


@pytest.mark.parametrize("field", ["o", "g"])
@pytest.mark.parametrize("stored", [b"", b"\x04", b"FR", b"\x04\xff\xff", b"\xff" * 100, b"FR\n\n\n999,x\n\n\n"])
def test_a_record_whose_place_is_damaged_stops_no_list_and_no_end(
    placed: P, bed: Bed, field: str, stored: bytes
) -> None:
    placed.login("bob", ip=LYON)
    session = _login(placed)
    bed.raw.hset(placed.context.shard("ada").record("ada", session.session_id), field, stored)
    for wanted in (SessionFilter(country="FR"), SessionFilter(distant=True), SessionFilter(network="AS64500")):
        assert placed.count_sessions(wanted) in (0, 1, 2)
    assert len(placed.list_sessions().items) == 2
    placed.facets("country")
    assert placed.logout("ada", session.session_id)
    assert placed.ended("ada").items[0].session_id == session.session_id


# -- privacy ----------------------------------------------------------------------------------------------------------


def test_an_export_has_the_places_and_an_erasure_removes_them(placed: P, bed: Bed) -> None:
    for ip in (LYON, TOKYO):
        placed.advance(1)
        _login(placed, ip=ip)
    exported = placed.export_person("ada")
    assert exported["sessions"][0]["place"]["city"] == "Tokyo"
    assert exported["last_place"]["place"]["city"] == "Tokyo"
    assert exported["last_place"]["login_at"] == placed.clock.now.isoformat()
    placed.erase("ada", by="sue", reason="asked")
    placed.sweep()
    left = b"".join(key + (value or b"") for key, value in bed.dump().items())
    assert not any(word in left for word in (b"Tokyo", b"Lyon", b"64510", b"64500", b"46,5"))
    assert "place" not in bed.families()
    assert _reported(placed) == []
    assert placed.facets("country") == {}


def test_times_between_logins_count_from_the_latest_login(placed: P) -> None:
    _login(placed)
    placed.advance(11 * HOUR)
    latest = _login(placed)
    placed.advance(HOUR)
    far = _login(placed, ip=TOKYO)
    assert far.previous_login_at == latest.login_at
    assert far.login_at - latest.login_at == timedelta(hours=1)
