"""Events of logins and ends, in order; a reader continues from any cursor."""

from __future__ import annotations

import threading
import time
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from presence_core import Event, InvalidArgument
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P


def _summary(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.kind, event.uid) for event in events]


def _story(p: P) -> list[tuple[str, str]]:
    """One event of each kind. Events of different shards are ordered only to the millisecond."""
    p.login("ada")
    p.login("b:b", session_id="session-1")
    p.login("b:b", session_id="session-2")
    p.login("eve", session_id="session-3", idle_timeout=1)
    p.logout("ada", p.sessions("ada")[0].session_id)
    p.kick("b:b", "session-2", by="staff", reason="test")
    p.advance(1)
    p.sweep()
    return [("login", "ada"), ("login", "b:b"), ("login", "b:b"), ("login", "eve"), ("logout", "ada"),
            ("replaced", "b:b"), ("kicked", "b:b"), ("expired", "eve")]  # fmt: skip


@every_backend
def test_every_begin_and_every_end_is_reported_once(bed: Bed) -> None:
    p = bed.connect(max_sessions=1)
    now = p.freeze()
    story = _story(p)
    events = p.events()
    assert sorted(_summary(events)) == sorted(story)
    if not bed.is_cluster:
        assert _summary(events)[:2] == story[:2]
        assert _summary(events)[-2:] == story[-2:]
    for event in events:
        expected = now + 1000 if event.kind == "expired" else now
        assert round(event.at.timestamp() * 1000) == expected
        assert event.kind in ("login", "logout", "kicked", "replaced", "expired")
    assert {event.session_id for event in events if event.uid == "b:b"} == {"session-1", "session-2"}


def test_reading_from_any_event_misses_none_and_repeats_none(bed: Bed) -> None:
    p = bed.connect(max_sessions=1)
    p.freeze()
    _story(p)
    everything = p.events()
    for limit in (1, 2, 3, 100):
        seen: list[Event] = []
        cursor = None
        while batch := p.events(after=cursor, limit=limit):
            assert len(batch) <= limit
            seen += batch
            cursor = batch[-1].cursor
        assert seen == everything
    for number, event in enumerate(everything):
        assert _summary(p.events(after=event.cursor)) == _summary(everything[number + 1 :])
    last = everything[-1].cursor
    assert p.events(after=last) == []
    p.login("new")
    assert _summary(p.events(after=last)) == [("login", "new")]
    assert _summary(bed.connect().events(after=last)) == [("login", "new")]


@every_topology
def test_events_of_many_shards_are_reported_in_the_order_in_which_they_happened(bed: Bed) -> None:
    p = bed.connect(shards=8)
    uids = [f"u{number}" for number in range(25)]
    for uid in uids:
        p.login(uid)
        time.sleep(0.002)  # stream ids have milliseconds
    assert len(bed.families()["events"]) == 8
    assert [event.uid for event in p.events()] == uids
    seen: list[Event] = []
    while batch := p.events(after=seen[-1].cursor if seen else None, limit=4):
        seen += batch
    assert [event.uid for event in seen] == uids


def test_a_call_that_changes_nothing_writes_no_event(p: P) -> None:
    p.freeze()
    login = p.login("ada", session_id="session-1")
    count = len(p.events())
    p.advance(1)
    p.validate(login.token, ip="192.0.2.1")
    p.heartbeat("ada", "session-1")
    p.rotate(login.token)
    p.login("ada", session_id="session-1")
    p.kick("ada", "no-such-session", by="staff", reason="test")
    p.logout("nobody", "session-1")
    p.sweep()
    p.repair()
    assert len(p.events()) == count == 1


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_a_reader_that_missed_events_gets_a_gap_first(bed: Bed) -> None:
    p = bed.connect(max_events=100)
    p.login("first")
    cursor = p.events()[-1].cursor
    p.login_many({"uid": f"u{number % 7}"} for number in range(1000))
    p.sweep()
    events = p.events(after=cursor, limit=1000)
    assert [event.kind for event in events].count("gap") == 1
    gap, *rest = events
    assert (gap.kind, gap.uid, gap.session_id) == ("gap", "", "")
    assert 100 <= len(rest) < 400, "the cap is kept to within a node of the stream"
    assert rest[-1].uid == "u5"
    assert p.events(after=gap.cursor, limit=1000) == rest
    assert p.events(after=rest[-1].cursor) == []
    for event in rest[:: len(rest) // 5]:
        assert all(later.kind != "gap" for later in p.events(after=event.cursor))


@every_topology
def test_a_reader_whose_stream_was_deleted_gets_a_gap(p: P, bed: Bed, raw: Any) -> None:
    p.login("ada")
    cursor = p.events()[-1].cursor
    for key in bed.families()["events"]:
        raw.delete(key)
    [gap] = p.events(after=cursor)
    assert gap.kind == "gap"
    assert p.events(after=gap.cursor) == []
    watch = p.watch(after=cursor)
    assert next(watch).kind == "gap"
    p.login("bob", session_id="session-1")
    assert next(watch).uid == "bob", "a watcher goes on behind a gap"
    watch.close()  # type: ignore[attr-defined]
    p.login("ada", session_id="session-2")
    summary = _summary(p.events(after=cursor))
    assert summary[0] == ("gap", "")
    assert set(summary[1:]) == {("login", "ada"), ("login", "bob")}


@every_topology
def test_after_a_restored_snapshot_a_reader_gets_a_gap_first_also_after_later_events(bed: Bed) -> None:
    """Ids of entries are times: what happens after the restore has later ids than the reader's cursor."""
    p = bed.connect(idle_timeout=60)
    p.login_many({"uid": f"u{number}"} for number in range(8))
    snapshot = bed.dump()
    p.kick("u0", by="staff", reason="test")
    read = p.events()[-1]
    assert (read.kind, read.uid) == ("kicked", "u0")
    p.kick("u1", by="staff", reason="test")
    bed.restore(snapshot)
    assert p.events(after=read.cursor, limit=1)[0].kind == "gap", "nothing has happened since"
    for number in range(8):  # on every shard that the reader's cursor knows an event of
        p.login(f"u{number}", session_id=f"session-{number}")
    p.logout("u0", "session-0")
    events = p.events(after=read.cursor)
    assert events[0].kind == "gap"
    assert {("login", f"u{number}") for number in range(8)} | {("logout", "u0")} <= set(_summary(events))
    assert p.events(after=events[-1].cursor) == []
    assert next(p.watch(after=read.cursor)).kind == "gap"


@every_topology
def test_a_reader_at_an_event_of_an_erased_person_gets_no_gap(bed: Bed) -> None:
    p = bed.connect(max_sessions=5)
    p.login("bob")
    p.login("ada", session_id="session-1")
    p.kick("ada", by="staff", reason="test")
    cursors = [event.cursor for event in p.events()] + [p.events_end()]
    p.erase("ada", by="staff", reason="asked")
    end = p.events_end()
    p.login("bob", session_id="session-2")
    for cursor in [*cursors[1:], end]:
        assert _summary(p.events(after=cursor)) in ([("login", "bob")], [("login", "bob")] * 2)


@pytest.mark.parametrize(
    "after",
    ["", " ", "!!!!", "==", "a", "é", "\ud800", 5, b"", [], True, "x" * 100_000,
     *(urlsafe_b64encode(text.encode()).rstrip(b"=").decode() for text in (
         "5", "5-", "-5", "a-b", "5-5-5", "5-5,5-5,5-5", "1" * 50 + "-1", "١-١", ",", "5-5 ", "5.5-1"))],
)  # fmt: skip
@on("valkey")
def test_an_invalid_event_cursor_is_refused(p: P, after: Any) -> None:
    p.login("ada")
    with pytest.raises(InvalidArgument, match=r"^after must be the cursor of an event of this namespace\.$"):
        p.events(after=after)


@every_backend
def test_watching_from_a_cursor_yields_past_and_future_events(p: P, bed: Bed) -> None:
    p.login("ada", session_id="session-1")
    p.login("ada", session_id="session-2")
    watch = p.watch(after=p.events()[0].cursor)
    assert next(watch).session_id == "session-2"
    later = threading.Timer(0.1, lambda: bed.connect().login("bob"))
    later.start()
    try:
        event = next(watch)
    finally:
        later.join()
    assert (event.kind, event.uid) == ("login", "bob")
    p.logout("ada", "session-1")
    assert next(watch).kind == "logout"
    watch.close()  # type: ignore[attr-defined]


@every_topology
def test_watching_from_now_on_skips_past_events(p: P, bed: Bed) -> None:
    p.login("before")
    other = bed.connect()
    ready, stop = threading.Event(), threading.Event()

    def log_in() -> None:
        ready.wait()
        while not stop.is_set():
            other.login("after")
            stop.wait(0.05)

    thread = threading.Thread(target=log_in)
    thread.start()
    watch = p.watch()
    try:
        ready.set()
        seen = [next(watch) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
        watch.close()  # type: ignore[attr-defined]
    assert _summary(seen) == [("login", "after")] * 3
    assert len({event.cursor for event in seen}) == 3


@on("valkey-async", "cluster-sync", soak=("sync",))
def test_a_busy_stream_is_watched_without_a_loss(p: P, bed: Bed) -> None:
    p.login("first")
    watch = p.watch(after=p.events()[0].cursor)
    other = bed.connect()

    def log_in() -> None:
        for batch in range(15):
            other.login_many({"uid": f"u{batch}-{number}"} for number in range(100))

    thread = threading.Thread(target=log_in)
    thread.start()
    try:
        seen = [next(watch).uid for _ in range(1500)]
    finally:
        thread.join()
        watch.close()  # type: ignore[attr-defined]
    assert set(seen) == {f"u{batch}-{number}" for batch in range(15) for number in range(100)}
