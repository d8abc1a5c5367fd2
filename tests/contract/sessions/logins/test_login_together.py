"""login_many begins sessions that need no decision together; the outcome is that of one login after the other."""

from __future__ import annotations

import random
from typing import Any

import pytest

from presence_core import CorruptData, Login, LoginRefused
from presence_core.keyspace import Shard
from presence_core.operations.sessions import login as login_operations
from presence_core.operations.sessions import login_calls
from presence_core.scripts.sessions import BEGIN_SESSIONS
from tests.conftest import Bed, every_topology, family, on, together
from tests.support.facade import P
from tests.support.monitor import Monitor
from tests.support.soak import size

SETTINGS: dict[str, Any] = {"max_sessions": 3, "facets": ("plan",), "shards": 2}


def _row(chance: random.Random, at: float) -> dict[str, Any]:
    """A login of one of a few users, so that limits, repeated ids, blocks and rules meet."""
    number = chance.randrange(12)
    row: dict[str, Any] = {
        "uid": f"Zoë{number}", "session_id": f"session-{chance.randrange(6)}-{number}", "name": f"Zoë Berg {number}",
        "aliases": [f"zoe.berg{number}@example.com"], "attributes": {"plan": chance.choice(("free", "pro"))},
        "device": chance.choice(("Pixel 8", None)), "ip": chance.choice(("192.0.2.1", "::1", "198.51.100.7", None)),
        "user_agent": f"curl/{chance.randrange(9)}", "methods": chance.choice(((), ("pwd", "otp"))),
    }  # fmt: skip
    if chance.random() < 0.05:
        row["device_id"] = f"device-{chance.randrange(3)}"
    if chance.random() < 0.3:
        row |= {"login_at": at - chance.randrange(3000), "last_seen": at - chance.randrange(100)}
    if chance.random() < 0.1:
        row["idle_timeout"] = 200
    if chance.random() < 0.2:
        row["max_sessions"] = chance.choice((1, 5))
    return row


def _prepare(p: P) -> None:
    p.login("Zoë1", session_id="session-1-1")
    p.login("Zoë2", session_id="session-2-2")
    p.login("Zoë3", session_id="session-3-3", idle_timeout=10)
    p.logout("Zoë1", "session-1-1")
    p.block("Zoë4", by="staff", reason="test")
    p.add_block_rule(network="198.51.100.0/24", by="staff", reason="test", expected=0)
    p.revoke_before(by="staff", reason="test")


READS: dict[bytes, tuple[Any, ...]] = {
    b"string": ("get",), b"zset": ("zrange", 0, -1, False, True), b"set": ("smembers",), b"stream": ("xrange",),
    b"hash": ("hgetall",),
}  # fmt: skip


def _comparable(key: bytes, kind: bytes, value: Any) -> Any:
    """What a key holds, without what differs by chance: ids of the stream, and digests of secrets and devices."""
    if kind == b"stream":
        events = [fields for _, fields in value]
        return sorted(events, key=lambda fields: fields[b"r"].rpartition(b":")[0])  # of one user they are in order
    if kind != b"hash":
        return value
    if family(key) == "known:":
        return len(value)
    if family(key) == "ids":
        return {name: sorted(text[at : at + 8] for at in range(0, len(text), 8)) for name, text in value.items()}
    if b"c" in value:
        value[b"c"] = value[b"c"][:16] + value[b"c"][32:]
    return value


def _state(p: P, raw: Any) -> dict[bytes, Any]:
    shards: tuple[Shard, ...] = p.context.keys.shards
    state = {}
    for shard in shards:
        keys = [
            key
            for key in raw.scan_iter(match=f"{shard.tag}:*", count=5000)
            if family(key) not in ("audit", "meta", "moved", "block_rules", "block:", "blocks")
        ]
        kinds = together(raw, [("type", key) for key in keys])
        reads = [(READS[kind][0], key, *READS[kind][1:]) for key, kind in zip(keys, kinds, strict=True)]
        replies = together(raw, [*reads, *(("pexpiretime", key) for key in keys)])
        for key, kind, read, ends in zip(keys, kinds, replies[: len(keys)], replies[len(keys) :], strict=True):
            value = _comparable(key, kind, read)
            is_live = family(key) == "session:" and b"e" not in value
            state[b"%d:%s" % (shard.index, key.partition(b"}:")[2])] = value, ends if is_live else ends > 0
    return state


@on("valkey-sync", "redis7-async", "cluster-sync")
@pytest.mark.parametrize("on_limit", ["replace", "reject"])
def test_logins_together_end_as_one_after_the_other(bed: Bed, monkeypatch: pytest.MonkeyPatch, on_limit: str) -> None:
    both = [bed.connect(namespace=f"{bed.namespace}-{name}", on_limit=on_limit, **SETTINGS) for name in ("a", "b")]
    together, apart = both
    together.freeze()
    for p in both:
        _prepare(p)
    together.advance(60)
    begun: list[Any] = []
    read = BEGIN_SESSIONS.reply

    def read_and_note(raw: bytes) -> list[Any]:
        begun.extend(read(raw))
        return read(raw)

    chance = random.Random(on_limit)
    for _ in range(size(6, 60)):
        rows = [_row(chance, bed.time.now.timestamp()) for _ in range(chance.choice((5, 60)))]
        found = []
        for p in both:
            with monkeypatch.context() as patch:
                patch.setattr(BEGIN_SESSIONS, "reply", read_and_note)
                if p is apart:
                    patch.setattr(login_operations, "begin_calls", lambda ctx, attempts: [])
                found.append([_answer(answer) for answer in p.login_many(rows, imported=True)])
        assert found[0] == found[1]
        states = [_state(p, bed.raw) for p in both]
        assert {key.partition(b":")[2].partition(b":")[0] for key in states[0]} > {b"sessions", b"words", b"events"}
        assert states[0] == states[1]
        together.advance(chance.choice((1, 300)))
    assert {session is None for session in begun} == {True, False}, "some need a decision, others do not"


def _answer(answer: Login | LoginRefused) -> Any:
    if isinstance(answer, LoginRefused):
        return answer.code, answer.message
    return answer.session, {old.session_id for old in answer.replaced}


@on("valkey-sync", "redis7-async")
def test_new_sessions_are_begun_by_few_calls(bed: Bed) -> None:
    p = bed.connect(shards=1)
    p.counts()
    rows = [{"uid": f"u{number // 2}", "name": "N"} for number in range(128)]
    with Monitor(bed.raw) as monitor:
        p.login_many(rows)
    assert len([line for line in monitor.lines if line.words[0] == b"EVALSHA"]) == 4
    assert len([line for line in monitor.lines if line.words[0] == b"ZADD"]) <= 5 * 4
    assert (p.counts().sessions, p.counts().users) == (128, 64)


@on("valkey-sync", "redis7-async")
def test_a_login_that_needs_no_decision_is_one_round_trip_and_a_blocked_one_two(bed: Bed) -> None:
    p = bed.connect(shards=1)
    p.block("bob", by="staff", reason="test")
    sent = []
    for uid in ("ada", "bob"):
        with Monitor(bed.raw) as monitor:
            [answer] = p.login_many([{"uid": uid}])
        assert isinstance(answer, LoginRefused) == (uid == "bob")
        sent.append([line.words[0] for line in monitor.lines if not line.by_script])
    assert sent == [[b"EVALSHA"], [b"EVALSHA"] * 2]


@every_topology
@pytest.mark.parametrize("name", ["deadlines", "events", "words", "addresses", "people", "totals"])
def test_where_a_list_is_of_a_foreign_type_no_session_begins(bed: Bed, name: str) -> None:
    p = bed.connect(shards=1)
    p.login("ada", ip="192.0.2.1")
    key = getattr(p.context.keys.shards[0], name)
    bed.raw.delete(key)
    bed.raw.set(key, "foreign")
    before = _state(p, bed.raw)
    with pytest.raises(CorruptData, match=name):
        p.login_many([{"uid": f"u{number}", "ip": "192.0.2.1", "name": "N"} for number in range(3)])
    after = _state(p, bed.raw)
    after[b"0:words"] = before[b"0:words"]  # there may be entries too many
    assert after == before


@on("valkey-sync", "redis7-async")
def test_the_table_of_labels_has_only_labels_that_sessions_use(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_calls, "MAX_LABELS", 3)
    p = bed.connect(shards=1)
    p.block("bob", by="staff", reason="test")
    rows = [{"uid": uid, "user_agent": f"curl/{uid}"} for uid in ("bob", "u1", "u2", "u3", "u4", "u5")]
    logins = p.login_many(rows)
    texts = bed.raw.hvals(p.context.keys.shards[0].labels)
    assert len(texts) == 3
    assert not any(text.endswith(b"curl/bob") for text in texts)
    for row, login in zip(rows[1:], logins[1:], strict=True):
        assert isinstance(login, Login)
        session = p.get(login.session.uid, login.session.session_id)
        assert session is not None
        assert session.user_agent == row["user_agent"]
