"""Data left by other programs, lost keys and crashes: reads do not show it, a sweep or a repair corrects it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from presence_core import CorruptData, PresenceError
from presence_core.operations.sessions import end, login
from presence_core.scripts.calls import Call
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P

NOT_UTF8 = b"\xff\xfe\x80"


def _reads(p: P) -> dict[str, Callable[[], Any]]:
    return {
        "get": lambda: p.get("ada", "session-1"),
        "sessions": lambda: p.sessions("ada"),
        "list": lambda: p.list_sessions().items,
        "small pages": lambda: list(p.iter_sessions(page_size=1)),
        "validate": lambda: p.validate_session("ada", "session-1").session,
        "ended": lambda: p.validate_session("ada", "session-0").ended,
        "heartbeat": lambda: p.heartbeat("ada", "session-1"),
        "counts": p.counts,
        "events": lambda: p.events(limit=1000),
    }


def _story(p: P) -> None:
    """ada is live on session-1 and was kicked from session-0; bob is live."""
    for sid in ("session-0", "session-1"):
        p.login("ada", session_id=sid, name="Ada", device="phone", user_agent="curl/8", attributes={"a": 1}, ip="::1")
    p.login("bob", session_id="session-2", name="Bob")
    p.kick("ada", "session-0", by="staff", reason="why", message="hello", ticket="T-1")


# -- bytes that we never wrote ----------------------------------------------------------------------------------------


def test_bytes_that_are_not_text_in_the_lists_break_no_read_and_no_sweep(p: P, raw: Any) -> None:
    p.freeze()
    _story(p)
    shard = p.context.keys.shard("ada")
    now = p.clock.ms
    strays = [
        NOT_UTF8,
        NOT_UTF8 + b":session-1",
        b"ada:" + NOT_UTF8,
        b":",
        b"",
        b"no colon",
        b"ada:",
        b":session-1",
        b"a\0b",
    ]
    for place, ref in enumerate(strays):
        for offset in (-5000, 0, 5000):
            raw.zadd(shard.sessions, {ref + b"%d" % offset: now + offset + place, ref: now})
            raw.zadd(shard.deadlines, {ref + b"%d" % offset: now + offset + place, ref: now})
            raw.zadd(shard.ended, {ref: now - 10**9})
    for key in (shard.users, shard.people):
        raw.zadd(key, {NOT_UTF8: now, b"": now, b"a\nb": now})
    raw.zadd(shard.people, {NOT_UTF8: now - 10**12})
    raw.sadd(shard.user("ada"), NOT_UTF8, b"", b":")
    raw.hset(shard.closing, mapping={NOT_UTF8: b"x", b"": b"y"})
    raw.hset(shard.labels, mapping={NOT_UTF8: NOT_UTF8})
    raw.hset(shard.totals, NOT_UTF8, 5)
    raw.xadd(shard.events, {NOT_UTF8: NOT_UTF8})
    raw.xadd(shard.events, {b"k": NOT_UTF8, b"r": NOT_UTF8, b"a": NOT_UTF8})
    for _ in range(2):
        for name, read in _reads(p).items():
            assert read() is not None, name
        assert [session.ref for session in p.sessions("ada")] == ["ada:session-1"]
        assert {session.ref for session in p.list_sessions(limit=1000)} == {"ada:session-1", "bob:session-2"}
        assert {session.ref for session in p.iter_sessions(page_size=1)} == {"ada:session-1", "bob:session-2"}
        p.sweep()
        p.repair()
    assert p.heartbeat("ada", "session-1")
    p.kick("ada", by="staff", reason="test")
    p.login("ada", session_id="session-9")
    assert len(p.sessions("ada")) == 1


@every_topology
def test_a_repair_leaves_no_stray_entry_in_any_list(p: P, raw: Any) -> None:
    p.freeze()
    _story(p)
    shard = p.context.keys.shard("ada")
    before = {key: raw.zrange(key, 0, -1, withscores=True) for key in (shard.sessions, shard.deadlines, shard.users)}
    for ref in (NOT_UTF8, NOT_UTF8 + b":session-1", b"no colon", b"ada:no-such-session", b":session-1"):
        raw.zadd(shard.sessions, {ref: p.clock.ms})
        raw.zadd(shard.deadlines, {ref: p.clock.ms + 10**9})
    raw.sadd(shard.user("ada"), b"no-such-session")
    raw.sadd(shard.user("ghost"), b"no-such-session")
    raw.zadd(shard.users, {b"ghost": p.clock.ms})
    assert p.repair().repaired > 0
    assert {key: raw.zrange(key, 0, -1, withscores=True) for key in before} == before
    assert raw.smembers(shard.user("ada")) == {b"session-1"}
    assert not raw.exists(shard.user("ghost"))


def test_texts_of_a_record_that_are_not_utf8_are_shown_with_replacement_marks(p: P, raw: Any) -> None:
    _story(p)
    shard = p.context.keys.shard("ada")
    for sid in ("session-0", "session-1"):
        fields = dict.fromkeys((b"n", b"a", b"x", b"i", b"C", b"A", b"eb", b"et", b"er", b"em", b"en"), NOT_UTF8)
        raw.hset(shard.record("ada", sid), mapping=fields)
    for name, read in _reads(p).items():
        assert read() is not None, name
    session = p.get("ada", "session-1")
    assert session is not None
    assert session.name == "\ufffd\ufffd\ufffd"
    assert (session.attributes, session.last_ip) == ({}, None)
    ended = p.validate_session("ada", "session-0").ended
    assert ended is not None
    assert (ended.by, ended.ticket) == ("\ufffd\ufffd\ufffd", "\ufffd\ufffd\ufffd")
    p.sweep()
    p.repair()
    assert len(p.sessions("ada")) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("s", NOT_UTF8), ("s", b""), ("s", b"nan"), ("s", None), ("c", NOT_UTF8), ("c", b""), ("c", None),
     ("x", b"[1"), ("x", b"5"), ("x", b"[" * 5000), ("i", b"12345"), ("e", NOT_UTF8), ("ea", NOT_UTF8)],
)  # fmt: skip
@on("valkey-sync", "redis7-sync")
def test_a_damaged_record_affects_only_itself(p: P, raw: Any, field: str, value: bytes | None) -> None:
    p.freeze()
    _story(p)
    p.login("eve", session_id="session-3", idle_timeout=10)
    shard = p.context.keys.shard("ada")
    for sid in ("session-0", "session-1"):
        record = shard.record("ada", sid)
        if value is None:
            raw.hdel(record, field)
        elif field not in ("e", "ea") or sid == "session-0":
            raw.hset(record, field, value)
    assert "bob:session-2" in {session.ref for session in p.list_sessions()}
    assert "bob:session-2" in {session.ref for session in p.iter_sessions(page_size=1)}
    assert p.heartbeats(["bob:session-2", "ada:session-1", "absent:no-such-session"])[-1] == "absent:no-such-session"
    for read in _reads(p).values():
        try:
            read()
        except CorruptData:
            pass  # it may raise PresenceError; any other error is a bug
    p.advance(10)
    assert p.sweep().expired >= 1
    assert p.validate_session("eve", "session-3").ended is not None
    p.repair()
    assert p.kick("bob", by="staff", reason="test").kicked
    p.kick("ada", by="staff", reason="test")
    assert not p.sessions("ada")


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x80", b"\xc1", b"\x93\x01", b"\x94\xa1e\xa6kicked\xa2ea\x80"])
@on("valkey-sync", "redis7-sync")
def test_an_unfinished_end_that_is_damaged_stops_no_other(p: P, raw: Any, value: bytes) -> None:
    p.freeze()
    _story(p)
    p.login("eve", session_id="session-3", idle_timeout=10)
    shard = p.context.keys.shard("ada")
    for key in (shard.sessions, shard.deadlines):
        raw.zrem(key, "ada:session-1")
    raw.hset(shard.closing, "ada:session-1", value)
    for read in _reads(p).values():
        read()
    assert not p.validate_session("ada", "session-1")
    p.advance(10)
    assert p.sweep().expired == 1
    for uid, session_id in (("ada", "session-1"), ("eve", "session-3")):
        ended = p.validate_session(uid, session_id).ended
        assert ended is not None
        assert ended.reason == "expired"
    assert not raw.exists(shard.closing)
    assert p.sweep().repaired == 0


@pytest.mark.parametrize("score", [1.5, float("inf"), float("-inf"), -5, 1e20, 2**53 + 2])
@on("valkey-sync", "redis7-sync")
def test_an_impossible_score_breaks_no_read(p: P, raw: Any, score: float) -> None:
    _story(p)
    shard = p.context.keys.shard("ada")
    raw.zadd(shard.sessions, {b"ada:session-1": score, b"stray:session-1": score})
    raw.zadd(shard.deadlines, {b"stray:session-2": score})
    raw.zadd(shard.users, {b"ada": score})
    for name, read in _reads(p).items():
        assert read() is not None, name
    assert {session.ref for session in p.iter_sessions(page_size=1)} == {"ada:session-1", "bob:session-2"}
    p.sweep()
    p.repair()
    assert raw.zscore(shard.sessions, b"ada:session-1") == p.sessions("ada")[0].login_at.timestamp() * 1000


@on("valkey")
def test_a_page_after_thousands_of_stray_entries_ends(p: P, raw: Any) -> None:
    p.login("ada")
    shard = p.context.keys.shard("ada")
    for stray in (b"\x80:%08d", b"\xff:%08d", b"no colon %d"):
        raw.zadd(shard.sessions, {stray % number: 9e12 for number in range(1500)})
    found: list[str] = []
    looking = threading.Thread(
        target=lambda: found.extend(session.uid for session in p.list_sessions(limit=10)), daemon=True
    )
    looking.start()
    looking.join(60)
    assert found == ["ada"], "it never ends"


@on("valkey-sync")
def test_impossible_layouts_and_counters_are_reported_as_corrupt(bed: Bed, raw: Any) -> None:
    layout = f"{{{bed.namespace}}}:layout"
    for mapping in ({"schema": "x", "shards": "1"}, {"schema": "1", "shards": NOT_UTF8}, {"schema": "1", "shards": "0"},
                    {"schema": "1", "shards": "5000"}, {"shards": "1"}):  # fmt: skip
        raw.delete(layout)
        raw.hset(layout, mapping=mapping)
        with pytest.raises(CorruptData, match="holds data that presence_core did not write"):
            bed.connect().counts()
    raw.delete(layout)
    raw.set(layout, "foreign")
    with pytest.raises(CorruptData):
        bed.connect().counts()
    raw.delete(layout)
    p = bed.connect()
    p.login("ada")
    shard = p.context.keys.shard("ada")
    for key, field in ((shard.totals, "sessions/login"), (shard.meta, "swept")):
        raw.hset(key, field, "x")
        with pytest.raises(PresenceError):
            p.counts()
        raw.hdel(key, field)


# -- what is lost -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["sessions", "deadlines", "users", "user", "sessions+user", "deadlines+users+user"])
@on("valkey-sync", "cluster-async", soak=("sync", "valkey-async"))
def test_a_repair_restores_lost_lists(p: P, bed: Bed, raw: Any, lost: str) -> None:
    p.freeze()
    p.login_many({"uid": f"u{number % 40}", "session_id": f"session-{number}"} for number in range(120))
    before = bed.dump()
    for part in lost.split("+"):
        if part == "user":
            for number in range(40):
                raw.delete(p.context.keys.shard(f"u{number}").user(f"u{number}"))
        else:
            for shard in p.context.keys.shards:
                raw.delete(getattr(shard, part))
    report = p.repair()
    assert report.repaired > 0
    after = bed.dump()
    changed = {
        key for key in before | after if before.get(key) != after.get(key) and not key.endswith((b":meta", b":moved"))
    }
    # The dump of a SET or hash depends on the order in which it was filled, so the members are compared below.
    assert not {key for key in changed if b":user:" not in key and not key.endswith(b":facets")}
    counters = [raw.hgetall(shard.facets) for shard in p.context.keys.shards]
    assert sum(int(count) for counter in counters for name, count in counter.items() if name != b"-") == 240
    assert p.counts().users == 40
    assert sum(len(p.sessions(f"u{number}")) for number in range(40)) == p.counts().sessions == 120
    assert len(list(p.iter_sessions())) == 120
    again = p.repair()
    assert (again.expired, again.repaired) == (0, 0)


def test_a_repair_of_intact_data_changes_nothing(p: P, bed: Bed) -> None:
    _story(p)
    p.repair()
    before = bed.dump(but=(b"meta",))
    report = p.repair()
    assert (report.expired, report.repaired, report.has_more) == (0, 0, False)
    after = bed.dump(but=(b"meta",))
    assert {key for key in before | after if before.get(key) != after.get(key)} <= {
        key for key in before if key.endswith(b":meta")
    }


@every_topology
def test_a_login_with_an_id_whose_record_was_lost_begins_a_new_session_and_ends_the_old(p: P, raw: Any) -> None:
    p.login("ada", session_id="session-1")
    raw.delete(p.context.keys.shard("ada").record("ada", "session-1"))
    again = p.login("ada", session_id="session-1")
    assert p.validate(again.token)
    totals = p.counts().totals
    assert (totals["login"], totals["expired"], p.counts().sessions) == (2, 1, 1)
    assert [event.kind for event in p.events()] == ["login", "expired", "login"]


def test_a_lost_record_takes_no_place_in_its_users_limit(bed: Bed, raw: Any) -> None:
    p = bed.connect(max_sessions=2, on_limit="reject")
    p.login("ada", session_id="session-1")
    p.login("ada", session_id="session-2")
    raw.delete(p.context.keys.shard("ada").record("ada", "session-1"))
    p.login("ada", session_id="session-3")
    assert {session.session_id for session in p.sessions("ada")} == {"session-2", "session-3"}
    assert p.counts().totals["expired"] == 1


# -- a crash between the two halves of an end -------------------------------------------------------------------------


def _only_the_first_half(bed: Bed, p: P, calls: list[Call], script: str) -> None:
    """Send the calls up to and including this script, as a client does that dies then."""
    for call in calls:
        if call.script is not None:
            bed.raw.script_load(call.script.text)
        bed.raw.execute_command(*call.words)
        if call.script is not None and call.script.name == script:
            return
    raise AssertionError(f"no {script} in the batch")


@every_topology
@pytest.mark.parametrize("way", ["kick one", "kick all", "logout", "limit"])
def test_a_crash_halfway_through_an_end_leaves_the_session_dead_and_a_sweep_reports_why(bed: Bed, way: str) -> None:
    p = bed.connect(max_sessions=1)
    p.freeze()
    token = p.login("ada", session_id="session-1", name="Ada").token
    ctx = p.context
    if way == "logout":
        _only_the_first_half(bed, p, next(end.logout(ctx, "ada", "session-1")), "sessions/end_sessions")
    elif way == "limit":
        _only_the_first_half(
            bed, p, next(login.login(ctx, {"uid": "ada", "session_id": "session-2"})), "sessions/login"
        )
    else:
        sid = "session-1" if way == "kick one" else None
        kick = end.kick(ctx, "ada", sid, by="staff", reason="why", message="hello")
        calls = next(kick)
        if way == "kick all":
            calls = kick.send([[] for _ in calls])  # as if the session had begun since
        _only_the_first_half(bed, p, calls, "sessions/end_sessions")
    reason = {"logout": "logout", "limit": "replaced"}.get(way, "kicked")

    def dead() -> None:
        for answer in (p.validate(token), p.validate_session("ada", "session-1")):
            assert not answer
            assert answer.ended is not None
            assert (answer.ended.reason, answer.ended.name) == (reason, "Ada")
            assert answer.ended.note == ("why" if reason == "kicked" else None)
            assert answer.ended.at == p.clock.now
        assert not p.heartbeat("ada", "session-1")
        assert p.get("ada", "session-1") is None
        assert "session-1" not in {session.session_id for session in [*p.sessions("ada"), *p.list_sessions()]}

    dead()
    with pytest.raises(PresenceError):
        p.login("ada", session_id="session-1")
    if way in ("kick all", "limit"):  # the other two need no second half
        assert "closing" in bed.families()
    p.sweep()
    assert "closing" not in bed.families()
    dead()
    assert p.sweep().repaired == 0
    assert p.counts().totals[reason] == 1
    assert sum(event.kind == reason for event in p.events()) == 1
    record = p.context.keys.shard("ada").record("ada", "session-1")
    assert bed.raw.ttl(record) <= 30 * 86400
