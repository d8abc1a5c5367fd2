"""Values in Redis that no reader can use: another version's, or another program's. Each costs itself, and no list."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from presence_core import InvalidArgument, SessionFilter
from presence_core.cli.output import to_json
from presence_core.models.staff import BLOCK_FIELDS
from presence_core.schema.record import FIELDS
from presence_core.web.service.json_format import json_response
from tests.conftest import Bed, on
from tests.support.expected.bad_input import nested
from tests.support.facade import P

END_FIELDS = tuple(field.letter for field in FIELDS if field.letter.startswith("e"))
RECORD_FIELDS = tuple(field.letter for field in FIELDS if not field.letter.startswith("e"))


def _nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


VALUES = {
    "empty": b"",
    "not UTF-8": b"\xff\xfe\x80",
    "half a character": b"\xed\xa0\x80 \xf0\x9f",
    "zeros": bytes(7),
    "many zeros": bytes(100),
    "flags": b"\xff" * 60,
    "5,000 digits": b"9" * 5000,
    "16 digits": b"9" * 16,
    "minus": b"-1",
    "a fraction": b"1.5",
    "lines": b"a\nb\nc\nd\ne\nf",
    "nested 33 deep": _nested(33),
    "nested 500 deep": _nested(500),
    "nested 90,000 deep": _nested(90_000),
    "not a number": b'{"a":NaN,"b":[Infinity,-Infinity,1e999]}',
    "half an escape": b'{"a":"\\ud83d","\\udc00":1}',
    "5,000 digits in JSON": b'{"a":' + b"9" * 5000 + b"}",
    "a list": b"[1,2]",
    "null": b"null",
    "open": b'{"a":',
}

READS: dict[str, Callable[[P], Any]] = {
    "blocks": lambda p: p.blocks(),
    "list": lambda p: p.list_sessions(),
    "list of a text": lambda p: p.list_sessions(SessionFilter(text="ada")),
    "list of a device": lambda p: p.list_sessions(SessionFilter(device="phone")),
    "list of an attribute": lambda p: p.list_sessions(SessionFilter(attributes={"plan": "pro"})),
    "count": lambda p: p.count_sessions(SessionFilter(idle_for=0)),
    "ended": lambda p: p.ended(),
    "events": lambda p: p.events(limit=1000),
    "audit": lambda p: p.audit(),
    "counts": lambda p: p.counts(),
    "facets": lambda p: p.facets("device"),
    "facets of an attribute": lambda p: p.facets("plan"),
}

READS_OF_A_USER: dict[str, Callable[[P, str], Any]] = {
    "get": lambda p, uid: p.get(uid, "session-1"),
    "sessions": lambda p, uid: p.sessions(uid),
    "block": lambda p, uid: p.blocked(uid),
    "list of a user": lambda p, uid: p.list_sessions(SessionFilter(uid=uid)),
    "validate": lambda p, uid: str(p.validate_session(uid, "session-1", touch=False)),
    "people": lambda p, uid: p.people(uid),
    "ended of a user": lambda p, uid: p.ended(uid),
    "person export": lambda p, uid: p.export_person(uid),
}

CHANGES: dict[str, Callable[[P, str], Any]] = {
    "update": lambda p, uid: p.update_session(
        uid, "session-1", attributes={"b": 1}, device="desk", aliases=[f"{uid}@example.org"]
    ),
    "update_person": lambda p, uid: p.update_person(uid, name="Bea"),
    "heartbeats": lambda p, uid: p.heartbeats([f"{uid}:session-1", "bob:session-1"]),
    "change_timeouts": lambda p, uid: p.change_timeouts(uid, idle_timeout=60, by="sam", reason="test"),
    "login": lambda p, uid: p.login(uid, session_id="session-2"),
    "kick": lambda p, uid: p.kick(uid, by="sam", reason="test"),
}


def _story(p: P, *users: str) -> None:
    p.freeze()
    for uid in (*users, "bob"):
        p.login(uid, session_id="session-1", name=uid, device="phone", ip="192.0.2.1", attributes={"plan": "pro"})


def _unread(p: P, users: Iterable[str] = ("ada",)) -> Iterator[str]:
    """The reads that failed, or whose result HTTP or the command could not write."""
    reads = {name: partial(read, p) for name, read in READS.items()}
    reads |= {f"{name} {uid}": partial(read, p, uid) for uid in users for name, read in READS_OF_A_USER.items()}
    for name, read in reads.items():
        try:
            result = read()
            json_response(result)
            json.dumps(json.loads(to_json(result)), allow_nan=False)
        except Exception as error:
            yield f"{name}: {error!r:.200}"


USERS = {f"ada-{number}": name for number, name in enumerate(VALUES)}
"""Each value damages the record of a user of its own, so that a list is read once for all of them."""


@pytest.mark.parametrize("field", RECORD_FIELDS)
@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_no_value_in_a_live_record_stops_a_list_or_a_kick(bed: Bed, raw: Any, field: str) -> None:
    p = bed.connect(facets=("plan",))
    _story(p, *USERS)
    for uid, name in USERS.items():
        raw.hset(p.context.keys.shard(uid).record(uid, "session-1"), field, VALUES[name])
    mistakes = list(_unread(p, USERS))
    if "bob" not in {session.uid for session in p.list_sessions()}:
        mistakes.append("the list lacks another user's session")
    for uid, name in USERS.items():
        for what, change in CHANGES.items():
            try:
                change(p, uid)
            except Exception as error:
                if isinstance(error, InvalidArgument) and "together with those that the session has" in str(error):
                    continue  # more than 4 KB
                mistakes.append(f"{name}: {what}: {error!r:.200}")
    p.sweep()
    p.repair()
    mistakes += [f"kicked: {read}" for read in _unread(p, USERS)]
    mistakes += [
        f"{name}: the kicked session is live" for uid, name in USERS.items() if p.validate_session(uid, "session-1")
    ]
    assert not mistakes, "\n".join([f"{field}, {USERS}", *mistakes])


@pytest.mark.parametrize("field", RECORD_FIELDS + END_FIELDS)
@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_no_value_in_the_record_of_an_ended_session_stops_a_list(bed: Bed, raw: Any, field: str) -> None:
    p = bed.connect(facets=("plan",))
    _story(p, *USERS)
    for uid, name in USERS.items():
        p.kick(uid, by="sam", reason="test", message="hello", ticket="T-1")
        raw.hset(p.context.keys.shard(uid).record(uid, "session-1"), field, VALUES[name])
    mistakes = list(_unread(p, USERS))
    assert not mistakes, "\n".join([f"{field}, {USERS}", *mistakes])


@on("valkey-sync", "cluster-async")
def test_attributes_nested_as_deep_as_allowed_survive_every_reader(bed: Bed) -> None:
    p = bed.connect(facets=("plan",))
    _story(p, "ada")
    deepest = {"plan": "pro"} | nested(32)
    assert p.login("ada", session_id="session-3", attributes=deepest).session.attributes == deepest
    assert p.update_session("ada", "session-1", attributes=deepest)
    p.login_many([{"uid": "eve", "attributes": deepest}], imported=True)
    assert p.count_sessions(SessionFilter(attributes=deepest)) == 3
    assert list(_unread(p)) == []
    p.kick("ada", by="sam", reason="test")
    assert list(_unread(p)) == []
    assert json.loads(to_json(p.ended("ada")))["items"][0]["attributes"] == deepest
    assert p.sessions("eve")[0].attributes == deepest


STREAM_FIELDS = ("k", "r", "a", "at", "what", "uid", "by", "reason", "ended", "until", "was", "demanded")


@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_no_value_in_lists_streams_or_counters_stops_a_reader(bed: Bed, raw: Any) -> None:
    mistakes = []
    for number, (name, value) in enumerate(VALUES.items()):
        p = bed.connect(namespace=f"{bed.namespace}-{number}", facets=("plan",))
        _story(p, "ada")
        p.kick("ada", by="sam", reason="test", block_for=100)
        shard = p.context.keys.shard("bob")
        for stream in (shard.events, shard.audit):
            for field in STREAM_FIELDS:
                raw.xadd(stream, {field: value})
            raw.xadd(stream, {value: value})
        for field in BLOCK_FIELDS:
            raw.hset(shard.block("ada"), field, value)
            mistakes += [f"{name} in a block's {field}: {read}" for read in _unread(p)]
            raw.hset(shard.block("ada"), field, b"1")
        for key, prefix in ((shard.facets, b"x"), (shard.facets, b"xplan\0"), (shard.labels, b"")):
            raw.hset(key, prefix + value, value)
        raw.hset(shard.facets, b'xplan\0"pro"', value)
        for key in (shard.person("bob"), shard.known("bob")):
            for name_of_field in (b"n", b"a", value):
                raw.hset(key, name_of_field, value)
        raw.hset(shard.meta, "ended_from", value)
        mistakes += [f"{name} somewhere: {read}" for read in _unread(p)]
    assert not mistakes, "\n".join(mistakes)
