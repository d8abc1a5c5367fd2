"""When a request notes that its session was seen: once per interval, and at once from another network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from presence_core import Presence, Session, Settings
from presence_core.web.middleware.known_sessions import KnownSessions, Turn
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.rules import Rules
from tests.support.place_file import city, write_place_file

KEY = b"session-1"
CALL, BUFFER, NONE = Turn(True, False), Turn(False, True), Turn(False, False)
MakeKnown = Callable[..., KnownSessions]


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def make_known(now: list[float]) -> Iterator[MakeKnown]:
    """Make the known sessions of a site; no call reaches Redis."""
    clients: list[Presence] = []

    def make(**settings: Any) -> KnownSessions:
        clients.append(Presence.from_url("redis://127.0.0.1:1", Settings(**settings)))
        known = RequestChecker(clients[-1], Rules(heartbeat=10)).known
        known.clock = lambda: now[0]
        return known

    yield make
    for client in clients:
        client.close()


def _ask(known: KnownSessions, ip: str | None) -> Turn:
    """One request of a live session."""
    turn = known.take_turn(KEY, ip)
    known.note_live(KEY, _LIVE)
    return turn


class _Live:
    idle_timeout = 3600


_LIVE: Session = _Live()  # type: ignore[assignment]  # all that is read of it


def test_an_address_of_another_network_is_noted_at_once_and_then_once_per_interval(
    make_known: MakeKnown, now: list[float]
) -> None:
    known = make_known()
    in_turn = ["192.0.2.7", "203.0.113.7"] * 10
    assert [_ask(known, ip) for ip in in_turn] == [CALL, CALL, *[NONE] * 18]
    now[0] += 11
    assert [_ask(known, ip) for ip in in_turn] == [CALL, CALL, *[NONE] * 18]
    now[0] += 11
    assert [_ask(known, "203.0.113.7") for _ in range(3)] == [BUFFER, NONE, NONE]


@pytest.mark.parametrize("addresses", ["2001:db8:1:2::{:x}", "198.51.100.{}", "198.51.{}.7"])
def test_changing_addresses_of_one_network_are_noted_once_per_interval(
    make_known: MakeKnown, now: list[float], addresses: str
) -> None:
    known = make_known()
    for first in (0, 1):
        turns = [_ask(known, addresses.format(number)) for number in range(first, first + 100)]
        assert turns == [CALL, *[NONE] * 99]
        now[0] += 11


def test_networks_are_those_that_a_move_compares(make_known: MakeKnown, tmp_path: Path) -> None:
    mobile, abroad = (city(country, "Lyon", (46, 5), 64500) for country in ("FR", "CH"))
    places = {"192.0.2.0/24": mobile, "198.51.100.0/24": mobile, "2001:db8::/32": mobile, "203.0.113.0/24": abroad}
    known = make_known(place_file=str(write_place_file(tmp_path / "places.mmdb", places)))
    asked = ["192.0.2.7", "198.51.100.7", "2001:db8::7", "203.0.113.7", "203.0.113.8"]
    assert [_ask(known, ip) for ip in asked] == [CALL, NONE, NONE, CALL, NONE]


def test_no_address_is_looked_at_where_none_is_recorded(make_known: MakeKnown) -> None:
    known = make_known(record_address="none")
    assert [_ask(known, ip) for ip in ("192.0.2.7", "203.0.113.7", None)] == [CALL, NONE, NONE]


def test_a_request_without_an_address_is_noted_once_per_interval(make_known: MakeKnown) -> None:
    known = make_known()
    assert [_ask(known, ip) for ip in (None, "192.0.2.7", None, "192.0.2.7")] == [CALL, CALL, NONE, NONE]


def test_a_session_from_many_networks_is_noted_four_times_per_interval(make_known: MakeKnown, now: list[float]) -> None:
    known = make_known()
    for _ in range(3):
        turns = [_ask(known, f"10.{number}.0.7") for number in range(100)] * 2
        assert turns.count(CALL) == 2 * 4
        assert turns.count(BUFFER) == 0
        assert len(known._known[KEY].noted) == 4
        now[0] += 11


def test_an_address_that_could_not_be_noted_is_noted_by_the_next_request(make_known: MakeKnown) -> None:
    known = make_known()
    assert _ask(known, "192.0.2.7") == CALL
    assert _ask(known, "203.0.113.7") == CALL
    known.give_turn_back(KEY)
    assert [_ask(known, "203.0.113.7") for _ in range(2)] == [CALL, NONE]
