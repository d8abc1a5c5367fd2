"""A session that is used from somewhere else is flagged and reported once: docs/use/moves.md has the rule."""

from __future__ import annotations

import random
from math import acos, cos, radians, sin
from pathlib import Path
from typing import Any

import pytest

from presence_core import Move, Origin, Session, SessionFilter, SessionMoved, Validation
from tests.conftest import Bed, every_backend, on
from tests.support.facade import P
from tests.support.place_file import LYON, PARIS, TOKYO, city, write_place_file
from tests.support.soak import size

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
)
NEWER = CHROME.replace("126", "127")
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"
SAFARI = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1"
)
AGENTS = [CHROME, NEWER, FIREFOX, SAFARI, "curl/8.7.1"]
HOME, OFFICE, ABROAD = "192.0.2.7", "198.51.100.7", "203.0.113.7"
MINUTE = 60
PLACES: dict[str, Any] = {
    "192.0.2.0/24": LYON,
    "198.51.100.0/25": PARIS,
    "198.51.100.128/25": {"country": {"iso_code": "DE"}},
    "203.0.113.0/24": TOKYO,
    "100.64.0.0/16": city("CH", "Genève", (46.2, 6.15), 64520),
    "100.65.0.0/16": city("US", "Boston", (42.4, -71.1), 64530),
    "2001:db8::/32": TOKYO,
}


@pytest.fixture
def place_file(tmp_path: Path) -> str:
    return str(write_place_file(tmp_path / "places.mmdb", PLACES))


@pytest.fixture
def placed(bed: Bed, place_file: str) -> P:
    client = bed.connect(place_file=place_file)
    client.freeze()
    return client


def _begin(p: P, ip: str | None = HOME, agent: str | None = CHROME, uid: str = "ada") -> str:
    token: str = p.login(uid, ip=ip, user_agent=agent, session_id=f"{uid}-session").token
    return token


def _use(p: P, token: str, ip: str, agent: str | None = CHROME, after: int = 4 * MINUTE) -> Validation:
    """A request from this address, so many seconds after the last."""
    p.advance(after)
    validation: Validation = p.validate(token, ip=ip, user_agent=agent)
    return validation


def _session(p: P, uid: str = "ada") -> Session:
    session: Session = p.sessions(uid)[0]
    return session


def _reported(p: P) -> list[SessionMoved]:
    return [event for event in p.events(limit=1000) if isinstance(event, SessionMoved)]


@every_backend
def test_a_session_that_is_used_from_another_country_has_moved(bed: Bed, place_file: str) -> None:
    p, reader = bed.connect(place_file=place_file), bed.connect()
    p.freeze()
    token = _begin(p)
    assert not _use(p, token, HOME).moved
    validation = _use(p, token, ABROAD)
    assert validation.moved
    session = validation.session
    assert session is not None
    assert session.place is not None
    assert session.last_place is not None
    assert (session.place.city, session.last_place.city, session.last_ip) == ("Lyon", "Tokyo", ABROAD)
    assert (session.moved, session.distant, session.previous_place) == (True, True, None)
    lyon = Origin(place=session.place, network="AS64500", os="Windows", browser="Chrome")
    tokyo = Origin(place=session.last_place, network="AS64510", os="Windows", browser="Chrome")
    now = p.clock.now
    assert session.move == Move(at=now, last_seen=session.login_at + (now - session.login_at) / 2, before=lyon,
                                after=tokyo, distant=True)  # fmt: skip
    assert not _use(p, token, ABROAD).moved
    for found in (
        reader.get("ada", "ada-session"),
        reader.list_sessions(SessionFilter(moved=True, distant=True)).items[0],
    ):
        assert found == _session(p)
        assert found.move == session.move
    [event] = _reported(p)
    assert (event.session_id, event.at, event.move) == ("ada-session", now, session.move)
    assert p.counts().odd_logins["moved"] == 1
    p.kick("ada", by="sue", reason="asked")
    [ended] = p.ended("ada")
    assert (ended.moved, ended.move, ended.last_place) == (True, session.move, session.last_place)


@pytest.mark.parametrize(
    ("ip", "agent", "moved"),
    [
        (OFFICE, CHROME, False),  # another network of the country
        (OFFICE, NEWER, False),
        (OFFICE, None, False),
        (OFFICE, FIREFOX, True),
        ("192.0.2.99", FIREFOX, False),  # the same network
        ("100.64.0.7", CHROME, False),  # across the border: 150 km
        ("100.64.0.7", FIREFOX, True),
        ("198.51.100.200", CHROME, True),  # how far the country is, is not known
        ("2001:db8::7", CHROME, True),
        ("10.0.0.1", CHROME, False),  # has no place
        ("10.0.0.1", FIREFOX, True),
    ],
)
def test_another_country_or_another_network_and_browser_is_a_move(
    placed: P, ip: str, agent: str | None, moved: bool
) -> None:
    token = _begin(placed)
    assert _use(placed, token, ip, agent).moved is moved
    assert (_session(placed).moved, len(_reported(placed))) == (moved, int(moved))


@pytest.mark.parametrize(
    ("first", "ip", "moved", "networks"),
    [
        (HOME, "192.0.3.7", False, ()),
        (HOME, "192.1.2.7", True, ("192.0.0.0/16", "192.1.0.0/16")),
        ("2001:db8:1::7", "2001:db8:2::7", False, ()),
        ("2001:db8:1::7", "2001:db9::7", True, ("2001:db8::/32", "2001:db9::/32")),
        (HOME, "2001:db8::7", True, ("192.0.0.0/16", "2001:db8::/32")),
        (None, HOME, False, ()),
    ],
)
def test_without_a_place_file_a_network_is_known_by_the_first_bits_of_its_addresses(
    p: P, first: str | None, ip: str, moved: bool, networks: tuple[str, ...]
) -> None:
    p.freeze()
    token = _begin(p, first)
    assert not _use(p, token, ip, CHROME).moved
    if first is not None:
        assert not _use(p, token, first, CHROME).moved
    assert _use(p, token, ip, FIREFOX).moved is moved
    move = _session(p).move
    assert (() if move is None else (move.before.network, move.after.network)) == networks
    if move is not None:
        assert (move.before.browser, move.after.browser) == ("Chrome", "Firefox")
        assert (move.before.place, move.distant) == (None, False)


def test_a_traveller_has_moved_but_not_faster_than_a_plane(placed: P) -> None:
    token = placed.login("ada", ip=HOME, idle_timeout=86_400).token
    assert _use(placed, token, ABROAD, after=14 * 3600).moved
    session = _session(placed)
    assert (session.moved, session.distant) == (True, False)


def test_a_session_that_is_used_in_two_countries_is_reported_once_for_each(placed: P) -> None:
    token = _begin(placed)
    moved = [_use(placed, token, ip).moved for ip in (ABROAD, HOME, ABROAD, HOME, "100.65.0.7", ABROAD, HOME)]
    assert moved == [True, False, False, False, True, False, False]
    assert len(_reported(placed)) == 2
    assert _reported(placed)[0].move is None, "the record has the latest"
    assert _session(placed).last_place == _session(placed).place


def test_a_browser_that_the_session_has_had_is_no_move(placed: P) -> None:
    token = _begin(placed)
    steps = [(OFFICE, FIREFOX), (HOME, CHROME), (OFFICE, FIREFOX), (HOME, FIREFOX)]
    assert [_use(placed, token, *step).moved for step in steps] == [True, False, False, False]


def test_each_of_many_browsers_is_a_move_once(placed: P) -> None:
    token = _begin(placed)
    steps = [(OFFICE, FIREFOX), (HOME, SAFARI), (OFFICE, "curl/8.7.1"), (HOME, CHROME)] * 5
    assert sum(_use(placed, token, *step).moved for step in steps) == len(_reported(placed)) == 3


def test_a_move_that_was_noted_before_families_were_kept_is_read_and_counts(placed: P, bed: Bed) -> None:
    token = _begin(placed)
    _use(placed, token, OFFICE, FIREFOX)
    move, stored = _session(placed).move, _stored(bed, placed)
    assert stored is not None
    bed.raw.hset(placed.context.shard("ada").record("ada", "ada-session"), "w", stored.rpartition(b"\n")[0])
    assert _session(placed).move == move
    assert [_use(placed, token, *step).moved for step in ((HOME, FIREFOX), (OFFICE, SAFARI))] == [False, True]


def test_an_address_without_a_place_hides_no_move_and_makes_none_faster(placed: P) -> None:
    token = placed.login("ada", ip=HOME, idle_timeout=86_400).token
    assert not _use(placed, token, "10.0.0.1", after=13 * 3600).moved
    assert _session(placed).last_place is None
    assert not _use(placed, token, "10.0.0.2", after=3600).moved
    assert _use(placed, token, ABROAD).moved
    move = _session(placed).move
    assert move is not None
    assert (move.distant, move.at - move.last_seen) == (False, placed.clock.now - _session(placed).login_at)


def test_no_visitor_fills_the_events_with_moves(bed: Bed, tmp_path: Path) -> None:
    codes = [f"{a}{b}" for a in "ABCDEFGH" for b in "ABCDEFGH"]
    places = {f"10.{n}.0.0/16": {"country": {"iso_code": code}} for n, code in enumerate(codes)}
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb", places)))
    p.freeze()
    token = _begin(p, "10.0.0.1")
    moved = [_use(p, token, f"10.{n}.0.1", after=1).moved for n in range(1, 60)]
    assert sum(moved) == len(_reported(p)) == 50
    last = _session(p).last_place
    assert last is not None
    assert last.country == codes[59]


@pytest.mark.parametrize("kind", ["touch", "no address", "agent alone"])
def test_only_a_request_that_counts_as_seen_and_names_its_address_is_compared(placed: P, kind: str) -> None:
    token = _begin(placed)
    placed.advance(MINUTE)
    choices: dict[str, dict[str, Any]] = {
        "touch": {"ip": ABROAD, "touch": False}, "no address": {}, "agent alone": {"ip": HOME}
    }  # fmt: skip
    assert not placed.validate(token, user_agent=FIREFOX, **choices[kind]).moved
    assert _session(placed).move is None


# -- a plain model ----------------------------------------------------------------------------------------------------

WHERE: dict[str, tuple[str, int, tuple[int, int] | None]] = {  # country, AS number, degrees
    HOME: ("FR", 64500, (46, 5)), OFFICE: ("FR", 64501, (49, 2)), "198.51.100.200": ("DE", 0, None),
    ABROAD: ("JP", 64510, (36, 140)), "100.64.0.7": ("CH", 64520, (46, 6)), "100.65.0.7": ("US", 64530, (42, -71)),
    "2001:db8::7": ("JP", 64510, (36, 140)), "10.0.0.1": ("", 0, None), "10.1.0.1": ("", 0, None),
}  # fmt: skip


def _is_near(here: tuple[int, int] | None, there: tuple[int, int] | None) -> bool:
    if here is None or there is None:
        return False
    (a, b), (c, d) = [(radians(north), radians(east)) for north, east in (here, there)]
    return 6371 * acos(min(1, sin(a) * sin(c) + cos(a) * cos(c) * cos(b - d))) <= 500


def _family(agent: str) -> str:
    return agent.replace("127.0.0.0", "126.0.0.0")


class Model:
    """The rule of docs/use/moves.md, as plainly as possible."""

    def __init__(self, ip: str, agent: str) -> None:
        self.ip, self.home, self.last = ip, WHERE[ip], WHERE[ip]
        self.countries = {self.home[0]}
        self.browsers = {_family(agent)}

    def request(self, ip: str, agent: str) -> bool:
        before, place = self.ip, WHERE[ip]
        if ip == before:
            return False
        self.ip = ip
        is_near = _is_near(self.last[2], place[2]) or _is_near(self.home[2], place[2])
        is_abroad = "" not in (place[0], self.last[0]) and place[0] not in {self.last[0], *self.countries}
        if place[1] and self.last[1]:
            is_other_network = place[1] != self.last[1]
        else:
            is_other_network = before.split(".")[:2] != ip.split(".")[:2]
        moved = (is_abroad and not is_near) or (is_other_network and _family(agent) not in self.browsers)
        if moved:
            self.countries.add(place[0])
            self.browsers.add(_family(agent))
        self.last = place if place[0] else self.last
        return moved


@on("valkey-sync", "redis7-async")
def test_random_walks_move_as_a_plain_model_of_the_rule_says(placed: P) -> None:
    for seed in range(size(12, 200)):
        rng, uid = random.Random(seed), f"user-{seed}"
        ip, agent = rng.choice([*WHERE]), rng.choice(AGENTS)
        token, model, reported = _begin(placed, ip, agent, uid), Model(ip, agent), 0
        for _ in range(30):
            ip, agent = rng.choice([*WHERE]), rng.choice([agent, rng.choice(AGENTS)])
            expected = model.request(ip, agent)
            assert _use(placed, token, ip, agent).moved is expected, (seed, ip, agent)
            reported += expected
        session = _session(placed, uid)
        assert (session.last_ip, session.moved, session.move is not None) == (ip, reported > 0, reported > 0)
        assert sum(event.uid == uid for event in _reported(placed)) == reported


# -- policy -----------------------------------------------------------------------------------------------------------


@every_backend
def test_a_site_can_require_a_sign_in_of_a_session_that_moves(bed: Bed, place_file: str) -> None:
    p = bed.connect(place_file=place_file, on_move="require_sign_in")
    p.freeze()
    token = _begin(p)
    thief = _use(p, token, ABROAD)
    assert (bool(thief), thief.code, thief.message) == (False, "sign_in_required", None)
    assert thief.refused is not None
    assert thief.refused.moved
    assert not _use(p, token, HOME), "until the visitor has signed in again"
    kinds = [event.kind for event in p.events(limit=1000)]
    assert kinds == ["login", "moved", "sign_in_required"]
    p.advance(1)
    again = p.reauthenticated(token).token
    assert not p.validate(token), "what was copied is worthless"
    assert [bool(_use(p, again, ip)) for ip in (HOME, ABROAD, HOME)] == [True] * 3


def test_staff_on_behalf_of_a_user_are_flagged_and_not_asked_to_sign_in(bed: Bed, place_file: str) -> None:
    p = bed.connect(place_file=place_file, on_move="require_sign_in")
    p.freeze()
    token = p.login("ada", ip=HOME, on_behalf_by="sue", reason="asked").token
    assert _use(p, token, ABROAD).moved
    session = _session(p)
    assert (session.moved, session.on_behalf_by, session.distant) == (True, "sue", False)


# -- what is stored ---------------------------------------------------------------------------------------------------


def _stored(bed: Bed, p: P) -> bytes | None:
    raw: bytes | None = bed.raw.hget(p.context.shard("ada").record("ada", "ada-session"), "w")
    return raw


def test_the_place_of_the_latest_address_is_kept_only_where_it_differs(placed: P, bed: Bed) -> None:
    token = _begin(placed)
    assert _stored(bed, placed) is None
    _use(placed, token, OFFICE)
    stored = _stored(bed, placed)
    assert stored is not None
    assert stored.endswith(b"Paris\n")
    assert len(stored) <= 65
    _use(placed, token, "192.0.2.99")
    assert _stored(bed, placed) is None
    _use(placed, token, OFFICE)
    _begin(placed)
    assert _stored(bed, placed) is None, "the same login again begins where it is"


def test_without_places_and_user_agents_nothing_is_stored(p: P, bed: Bed) -> None:
    p.freeze()
    token = _begin(p)
    _use(p, token, ABROAD, None)
    _use(p, token, OFFICE, CHROME)
    assert _stored(bed, p) is None


def test_erased_persons_leave_nothing_of_a_move_and_an_export_has_it(placed: P, bed: Bed) -> None:
    _use(placed, _begin(placed), ABROAD)
    [exported] = placed.export_person("ada")["sessions"]
    assert (exported["last_place"]["city"], exported["move"]["before"]["place"]["city"]) == ("Tokyo", "Lyon")
    placed.erase("ada", by="dpo", reason="asked")
    assert _reported(placed) == []
    assert not bed.raw.exists(placed.context.shard("ada").record("ada", "ada-session"))


@pytest.mark.parametrize("value", [b"", b"x", b"\n" * 26, b"\xff" * 80, b"FR\nx\n\n1,2\n\n\n" + b"9" * 30 + b"\n" * 20])
def test_a_record_that_another_program_has_spoilt_turns_no_visitor_away(placed: P, bed: Bed, value: bytes) -> None:
    token = _begin(placed)
    bed.raw.hset(placed.context.shard("ada").record("ada", "ada-session"), "w", value)
    assert _session(placed).move is None
    assert _use(placed, token, ABROAD)
    assert _session(placed).uid == "ada"
