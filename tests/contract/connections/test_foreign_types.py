"""Another program's value under one of our keys: reported as corrupt, and nothing is half written.

A Lua error rolls nothing back. So every script checks its keys before its first write, or undoes its writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from presence_core import CorruptData, LoginRefused, OutcomeUnknown
from tests.conftest import Bed, on
from tests.support.facade import P

FAMILIES = [
    "sessions", "deadlines", "users", "people", "user", "record", "closing", "ended", "events", "audit", "meta",
    "totals", "labels", "devices", "words", "addresses",
]  # fmt: skip

WRITES: dict[str, Callable[[P, str], Any]] = {
    "login": lambda p, token: p.login(
        "ada", session_id="session-9", name="New", device="desk", user_agent="x", ip="::1"
    ),
    "login again": lambda p, token: p.login("ada", session_id="session-1", name="Again", device="desk", user_agent="x"),
    "login over the limit": lambda p, token: p.login("bob", session_id="session-9", device="desk", user_agent="x"),
    "login over the device limit": lambda p, token: p.login("ada", session_id="session-9", device="phone"),
    "login of a new user": lambda p, token: p.login("eve", session_id="session-9", device="phone"),
    "login_many": lambda p, token: p.login_many([{"uid": "ada", "name": "New", "user_agent": "x", "ip": "::1"}]),
    "validate": lambda p, token: p.validate(token, ip="192.0.2.1"),
    "validate_session": lambda p, token: p.validate_session("ada", "session-1", ip="192.0.2.1"),
    "rotate": lambda p, token: p.rotate(token),
    "update": lambda p, token: p.update(token, attributes={"a": 1}),
    "update_session": lambda p, token: p.update_session("ada", "session-1", name="New", device="desk"),
    "update_person": lambda p, token: p.update_person("ada", name="New", aliases=["new@example.org"]),
    "heartbeat": lambda p, token: p.heartbeat("ada", "session-1"),
    "heartbeats": lambda p, token: p.heartbeats(["bob:session-2", "ada:session-1", "bob:session-3"]),
    "logout": lambda p, token: p.logout("ada", "session-1"),
    "kick": lambda p, token: p.kick("ada", "session-1", by="staff", reason="new text", message="another"),
    "kick all": lambda p, token: p.kick("ada", by="staff", reason="new text", message="another"),
}


def _key(p: P, family: str) -> str:
    shard = p.context.keys.shard("ada")
    by_name = {
        "user": shard.user("ada"),
        "record": shard.record("ada", "session-1"),
        "devices": f"{shard.tag}:devices:ada",
    }
    return by_name.get(family) or str(getattr(shard, family))


def _story(p: P) -> str:
    """Two users, ada and bob, each with as many live sessions as the limit allows."""
    p.freeze()
    token = p.login("ada", session_id="session-1", name="Ada", device="phone", user_agent="curl/8").token
    for sid in ("session-2", "session-3"):
        p.login("bob", session_id=sid, device=sid, user_agent="curl/8")
    p.login("ada", session_id="session-4", device="tablet")
    p.kick("ada", "session-4", by="staff", reason="why", message="hello")
    p.login("dan", session_id="session-5")
    p.logout("dan", "session-5")
    p.advance(5)
    return token


def _values(bed: Bed) -> dict[bytes, Any]:
    """A stream by its entries, because an entry that was added and removed again leaves a trace in the stream's
    dump."""
    values: dict[bytes, Any] = dict(bed.dump())
    for key in bed.families().get("events", []):
        if bed.raw.type(key) == b"stream":
            values[key] = bed.raw.xrange(key)
    return values


def _differences(before: dict[bytes, Any], after: dict[bytes, Any]) -> set[bytes]:
    return {key.partition(b"}:")[2] for key in before | after if before.get(key) != after.get(key)}


@pytest.mark.parametrize("family", FAMILIES)
@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_a_foreign_value_under_our_key_is_reported_and_nothing_is_half_written(bed: Bed, raw: Any, family: str) -> None:
    settings = {"max_sessions": 2, "max_sessions_per_device": 1}
    mistakes = []
    for number, (name, write) in enumerate(WRITES.items()):
        p = bed.connect(namespace=f"{bed.namespace}-{number}", shards=1, **settings)
        token = _story(p)
        key = _key(p, family)
        raw.delete(key)
        raw.set(key, "foreign")
        mine = Bed(bed.backend, bed.servers, bed.loop, namespace=f"{bed.namespace}-{number}")
        before = _values(mine)
        try:
            write(p, token)
        except CorruptData as error:
            if f"{key} holds data that presence_core did not write. Another program" not in str(error):
                mistakes.append(f"{name}: {error}")
            if changed := _differences(before, _values(mine)):
                mistakes.append(f"{name} failed after it had written {changed}")
        except LoginRefused:
            if changed := _differences(before, _values(mine)):
                mistakes.append(f"{name} was refused after it had written {changed}")
    assert mistakes == []


@on("valkey-async", "redis7-sync", soak=("valkey",))
def test_a_foreign_record_ends_no_other_session_and_stops_no_call(p: P, raw: Any) -> None:
    p.freeze()
    for uid in ("ada", "bob", "eve"):
        p.login(uid, session_id="session-1", idle_timeout=100)
    record = p.context.keys.shard("ada").record("ada", "session-1")
    raw.delete(record)
    raw.set(record, "foreign")
    p.advance(60)
    assert "bob:session-1" not in _heartbeats(p)
    assert {session.uid for session in p.list_sessions()} == {"bob", "eve"}
    p.logout("eve", "session-1")
    p.advance(60)
    assert p.validate_session("bob", "session-1")
    p.sweep()
    assert p.counts().sessions == p.counts().users == 1
    assert [session.uid for session in p.list_sessions()] == ["bob"]
    assert raw.get(record) == b"foreign", "what is not ours is not ours to remove"


def _heartbeats(p: P) -> list[str]:
    """All heartbeats of a process are sent together: one bad record must not stop the others."""
    return p.heartbeats([f"{uid}:session-1" for uid in ("ada", "bob", "eve")])


@pytest.mark.parametrize("per_device", [None, 5])
@on("valkey-async", "redis7-sync", soak=("valkey",))
def test_login_many_with_a_foreign_value_of_one_user_does_not_say_that_nothing_was_written(
    bed: Bed, raw: Any, per_device: int | None
) -> None:
    p = bed.connect(max_sessions_per_device=per_device)
    p.login("ada")
    live = p.context.keys.shard("ada").user("ada")
    raw.delete(live)
    raw.set(live, "foreign")
    with pytest.raises(OutcomeUnknown, match=re.escape(f"{live} holds data that presence_core did not write.")):
        p.login_many({"uid": uid, "device": "phone"} for uid in ("bob", "ada", "eve"))
    assert p.is_online("bob")
    assert p.is_online("eve")
    with pytest.raises(CorruptData):
        p.login_many([{"uid": "ada"}])


@on("valkey-async", "redis7-sync", soak=("valkey",))
def test_a_foreign_value_of_one_user_does_not_stop_the_sweep_of_others(p: P, raw: Any) -> None:
    p.freeze()
    for uid in ("ada", "bob", "eve"):
        p.login(uid, session_id="session-1", idle_timeout=100)
    live = p.context.keys.shard("bob").user("bob")
    raw.delete(live)
    raw.set(live, "foreign")
    p.advance(100)
    try:
        p.sweep()
    except CorruptData:
        pass  # it may report the value after its work
    assert p.counts().totals["expired"] >= 2
    for uid in ("ada", "eve"):
        assert p.validate_session(uid, "session-1").ended is not None
    assert p.counts().users <= 1


@pytest.mark.parametrize("family", FAMILIES)
@on("valkey-sync")
def test_a_read_of_a_foreign_value_raises_only_corrupt_data(p: P, raw: Any, family: str) -> None:
    token = _story(p)
    key = _key(p, family)
    raw.delete(key)
    raw.set(key, "foreign")
    reads: list[Callable[[], Any]] = [
        lambda: p.get("ada", "session-1"),
        lambda: p.sessions("ada"),
        p.list_sessions,
        p.counts,
        p.events,
        lambda: p.validate(token, touch=False),
        p.sweep,
        p.repair,
    ]
    said = []
    for read in reads:
        try:
            read()
        except CorruptData as error:
            said.append(str(error))
    expected = f"{key} holds data that presence_core did not write. Another program uses this namespace."
    assert all(sentence.endswith(expected) for sentence in said), said


@on("valkey-sync", "cluster-sync", soak=("redis7-sync",))
def test_a_counter_that_is_not_a_number_is_named(p: P, raw: Any) -> None:
    p.login("ada")
    for key, field in ((p.context.keys.shard("ada").totals, "login"), (p.context.keys.shard("ada").meta, "swept")):
        p.sweep()
        before = raw.hget(key, field)
        raw.hset(key, field, "foreign")
        with pytest.raises(CorruptData, match=re.escape(f"{key} holds data that presence_core did not write.")):
            p.counts()
        raw.hset(key, field, before)
    assert p.counts().sessions == 1
