"""A session is found by its latest address too, and the index of addresses follows it."""

from __future__ import annotations

import pytest

from presence_core import SessionFilter
from tests.conftest import Bed, every_topology
from tests.support.facade import P

AT_LOGIN, MOVED, AWAY = "192.0.2.1", "2001:db8::7", "198.51.100.9"


def _found(p: P, address: str) -> list[str]:
    by_filter = [session.uid for session in p.iter_sessions(SessionFilter(ip=address))]
    assert [session.uid for session in p.iter_sessions(SessionFilter(text=address))] == by_filter
    assert p.count_sessions(SessionFilter(ip=address)) == len(by_filter)
    return by_filter


def _entries(bed: Bed, p: P) -> int:
    return sum(bed.raw.zcard(shard.addresses) for shard in p.context.keys.shards)


@every_topology
@pytest.mark.parametrize("indexes", [("uid", "name", "alias", "ip"), ()], ids=["indexed", "scanned"])
def test_a_session_is_found_by_its_login_address_and_by_its_latest(bed: Bed, indexes: tuple[str, ...]) -> None:
    p = bed.connect(indexes=indexes)
    login = p.login("ada", ip=AT_LOGIN)
    p.login("bob", ip="203.0.113.7")
    for latest, expected in (
        (MOVED, {AT_LOGIN: ["ada"], MOVED: ["ada"], AWAY: []}),
        (AWAY, {AT_LOGIN: ["ada"], MOVED: [], AWAY: ["ada"]}),
        (AT_LOGIN, {AT_LOGIN: ["ada"], MOVED: [], AWAY: []}),
        ("192.0.2.2", {"192.0.2.0/24": ["ada"], AT_LOGIN: ["ada"], "192.0.2.2": ["ada"]}),
    ):
        assert p.validate(login.token, ip=latest)
        assert {address: _found(p, address) for address in expected} == expected
    assert p.explain(SessionFilter(ip=AT_LOGIN)).index == ("ip" if indexes else "list")


def test_a_session_without_an_address_at_login_is_found_by_its_latest_alone(p: P, bed: Bed) -> None:
    login = p.login("ada")
    for address in (MOVED, AWAY):
        assert p.validate(login.token, ip=address)
        assert _found(p, address) == ["ada"]
        assert _entries(bed, p) == 1


@pytest.mark.parametrize("way", ["logout", "kick", "kick all", "expire", "replace", "login again", "erase"])
def test_the_entry_of_the_latest_address_goes_when_the_session_ends_or_logs_in_again(p: P, bed: Bed, way: str) -> None:
    p.freeze()
    login = p.login("ada", session_id="session-1", ip=AT_LOGIN, idle_timeout=60)
    assert p.validate(login.token, ip=MOVED)
    assert _entries(bed, p) == 2
    if way == "logout":
        p.logout("ada", "session-1")
    elif way == "erase":
        p.erase("ada", by="sue", reason="asked")
    elif way.startswith("kick"):
        p.kick("ada", *["session-1"][: way == "kick"], by="sue", reason="test")
    elif way == "expire":
        p.advance(61)
        p.sweep()
    elif way == "replace":
        bed.connect(max_sessions=1, on_limit="replace").login("ada", session_id="session-2")
    else:
        p.login("ada", session_id="session-1", ip=AWAY)
    assert _entries(bed, p) == (1 if way == "login again" else 0)
    assert _found(p, MOVED) == []


@every_topology
def test_a_rebuild_restores_the_latest_address_and_removes_entries_of_earlier_ones(bed: Bed) -> None:
    p = bed.connect()
    login = p.login("ada", ip=AT_LOGIN)
    assert p.validate(login.token, ip=MOVED)
    shard = p.context.shard("ada")
    before = bed.raw.zrange(shard.addresses, 0, -1)
    assert len(before) == 2
    bed.raw.delete(shard.addresses)
    bed.raw.zadd(shard.addresses, {b"4\x01\x02\x03\x04" + login.session.ref.encode(): 0})
    assert p.reindex().repaired == 3
    assert bed.raw.zrange(shard.addresses, 0, -1) == before
    assert _found(p, MOVED) == _found(p, AT_LOGIN) == ["ada"]


def test_an_index_of_a_foreign_type_turns_no_visitor_away(p: P, bed: Bed) -> None:
    login = p.login("ada", ip=AT_LOGIN)
    bed.raw.delete(p.context.shard("ada").addresses)
    bed.raw.set(p.context.shard("ada").addresses, "foreign")
    answer = p.validate(login.token, ip=MOVED)
    assert answer.session is not None
    assert answer.session.last_ip == MOVED
