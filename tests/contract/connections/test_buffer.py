"""HeartbeatBuffer: collects the heartbeats of a busy process, sends them together, and loses none."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from presence_core import AsyncPresence, HeartbeatBuffer, InvalidArgument, Presence, Settings, Unavailable
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.monitor import Monitor
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary


def _until(check: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENT
    while not check():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def _logins(p: P, count: int) -> list[str]:
    p.login_many({"uid": f"u{number}", "session_id": f"session-{number}"} for number in range(count))
    return [f"u{number}:session-{number}" for number in range(count)]


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_beats_are_collected_and_each_session_is_sent_once(p: P, bed: Bed) -> None:
    p.freeze()
    refs = _logins(p, 50)
    p.advance(100)
    with HeartbeatBuffer(p, interval=3600) as buffer:
        for _ in range(20):
            for ref in refs:
                buffer.beat(*ref.split(":"))
        assert buffer.waiting == 50
        assert {session.last_seen for session in p.list_sessions(limit=100)} != {p.clock.now}
        assert buffer.flush() == []
        assert buffer.waiting == 0
        assert {session.last_seen for session in p.list_sessions(limit=100)} == {p.clock.now}


@on("valkey-sync")
def test_a_thousand_beats_of_one_visitor_are_sent_as_one(p: P, bed: Bed) -> None:
    p.login("ada", session_id="session-1")
    with HeartbeatBuffer(p, interval=3600) as buffer, Monitor(bed.raw) as monitor:
        for _ in range(1000):
            buffer.beat("ada", "session-1")
        buffer.flush()
    assert len([line for line in monitor.lines if not line.by_script]) == 1


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_the_buffer_is_sent_every_interval_and_reports_sessions_that_are_offline(p: P) -> None:
    refs = _logins(p, 3)
    p.kick("u1", by="staff", reason="test")
    offline: list[str] = []
    with HeartbeatBuffer(p, interval=0.05, on_offline=offline.extend) as buffer:
        for ref in [*refs, "absent:no-such-session"]:
            buffer.beat(*ref.split(":"))
        _until(lambda: len(offline) == 2)
        assert sorted(offline) == ["absent:no-such-session", "u1:session-1"]
        assert buffer.waiting == 0
        buffer.beat("u2", "session-2")
        _until(lambda: buffer.waiting == 0)
    assert len(offline) == 2


@on("valkey-sync", "cluster-sync")
def test_a_full_buffer_does_not_wait_for_the_interval(p: P) -> None:
    p.freeze()
    refs = _logins(p, 40)
    p.advance(10)
    with HeartbeatBuffer(p, interval=3600, max_refs=20) as buffer:
        for ref in refs:
            buffer.beat(*ref.split(":"))
        _until(lambda: sum(session.last_seen == p.clock.now for session in p.list_sessions(limit=100)) >= 20)


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_closing_loses_nothing(p: P) -> None:
    p.freeze()
    refs = _logins(p, 200)
    p.advance(10)
    buffer = HeartbeatBuffer(p, interval=3600)
    for ref in refs:
        buffer.beat(*ref.split(":"))
    buffer.close()
    assert {session.last_seen for session in p.list_sessions(limit=1000)} == {p.clock.now}
    with pytest.raises(RuntimeError, match="closed"):
        buffer.beat("u1", "session-1")
    buffer.close()


@on("valkey-sync")
def test_beats_from_many_threads_during_close_are_sent_or_refused(p: P) -> None:
    p.freeze()
    refs = _logins(p, 400)
    p.advance(10)
    buffer = HeartbeatBuffer(p, interval=0.01, max_refs=10)
    taken: list[str] = []

    def beat(part: list[str]) -> None:
        for ref in part:
            try:
                buffer.beat(*ref.split(":"))
            except RuntimeError:
                return
            taken.append(ref)

    threads = [threading.Thread(target=beat, args=(refs[first::8],)) for first in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.005)
    buffer.close()
    for thread in threads:
        thread.join()
    seen = {session.ref for session in p.list_sessions(limit=1000) if session.last_seen == p.clock.now}
    assert set(taken) == seen


@on("valkey-sync")
def test_the_callback_may_flush_and_close_the_buffer(p: P) -> None:
    closed = threading.Event()

    def close(refs: list[str]) -> None:
        assert buffer.flush() == []
        buffer.close()
        closed.set()

    buffer = HeartbeatBuffer(p, interval=0.02, on_offline=close)
    buffer.beat("absent", "no-such-session")
    assert closed.wait(PATIENT)


@on("valkey-sync")
def test_a_failing_callback_stops_nothing(p: P, caplog: pytest.LogCaptureFixture) -> None:
    p.login("ada", session_id="session-1")
    calls: list[list[str]] = []

    def fail(refs: list[str]) -> None:
        calls.append(refs)
        raise ValueError("a mistake of the site")

    with HeartbeatBuffer(p, interval=0.02, on_offline=fail) as buffer:
        buffer.beat("nobody", "no-such-session")
        _until(lambda: len(calls) == 1)
        buffer.beat("nobody", "no-such-session")
        _until(lambda: len(calls) == 2)
    assert "on_offline failed" in caplog.text


@on("valkey-sync")
def test_an_invalid_session_is_refused_at_once(p: P) -> None:
    with HeartbeatBuffer(p) as buffer:
        for uid, sid in (("", "session-1"), ("ada", "short"), ("a\nb", "session-1")):
            with pytest.raises(InvalidArgument):
                buffer.beat(uid, sid)
        assert buffer.waiting == 0


def test_beats_wait_while_redis_is_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Server.start(binary, tmp_path, *KEEPS_ALL, port=True) as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as p,
    ):
        p.login("ada", session_id="session-1", idle_timeout=60)
        before = p.sessions("ada")[0].last_seen
        buffer = HeartbeatBuffer(p, interval=0.05)
        server.kill()
        for _ in range(3):
            buffer.beat("ada", "session-1")
            time.sleep(0.02)
        with pytest.raises(Unavailable):
            buffer.flush()
        _until(lambda: "heartbeats wait" in caplog.text)
        with pytest.raises(Unavailable):
            buffer.close()
        assert buffer.waiting == 1
        server.restart()
        buffer.close()
        assert buffer.waiting == 0
        assert p.sessions("ada")[0].last_seen > before


# -- with asyncio -----------------------------------------------------------------------------------------------------


@on("valkey-sync", "cluster-sync")
def test_with_asyncio_a_task_sends_the_beats_and_closing_loses_nothing(p: P, bed: Bed) -> None:
    p.freeze()
    refs = _logins(p, 60)
    p.kick("u5", by="staff", reason="test")
    p.advance(10)
    offline: list[str] = []

    async def site() -> None:
        async with AsyncPresence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as presence:
            presence.internal.context.now = str(p.clock.ms)
            async with HeartbeatBuffer(presence, interval=0.05, on_offline=offline.extend) as buffer:
                for ref in refs[:20]:
                    buffer.beat(*ref.split(":"))
                assert buffer.waiting == 20
                while buffer.waiting:
                    await asyncio.sleep(0.01)
                for ref in refs[20:40]:
                    buffer.beat(*ref.split(":"))
                assert await buffer.aflush() == []
            async with HeartbeatBuffer(presence, interval=3600, max_refs=10) as buffer:
                for ref in refs[40:50]:
                    buffer.beat(*ref.split(":"))
                while buffer.waiting:
                    await asyncio.sleep(0.01)
                for ref in refs[50:]:
                    buffer.beat(*ref.split(":"))
            with pytest.raises(RuntimeError, match="closed"):
                buffer.beat("u1", "session-1")

    asyncio.run(site())
    assert offline == ["u5:session-5"]
    assert {session.last_seen for session in p.list_sessions(limit=100)} == {p.clock.now}


def test_with_asyncio_beats_wait_while_redis_is_down(tmp_path: Path) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")

    async def site(server: Server) -> None:
        async with AsyncPresence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
            await presence.login("ada", session_id="session-1")
            before = (await presence.sessions("ada"))[0].last_seen
            buffer = HeartbeatBuffer(presence, interval=0.05)
            server.kill()
            buffer.beat("ada", "session-1")
            with pytest.raises(Unavailable):
                await buffer.aclose()
            assert buffer.waiting == 1
            server.restart()
            await buffer.aclose()
            assert buffer.waiting == 0
            assert (await presence.sessions("ada"))[0].last_seen > before

    with Server.start(binary, tmp_path, *KEEPS_ALL, port=True) as server:
        asyncio.run(site(server))


def test_a_full_buffer_drops_and_counts(anywhere: Bed) -> None:
    unreachable = Presence.from_url("redis://127.0.0.1:1", Settings(timeout=0.1))
    buffer = HeartbeatBuffer(unreachable, interval=3600, max_refs=1000, max_waiting=3)
    for number in range(5):
        buffer.beat("ada", f"session-{number}")
        buffer.beat("ada", "session-0")
    assert (buffer.waiting, buffer.dropped) == (3, 2)
    with pytest.raises(Unavailable):
        buffer.flush()
    assert (buffer.waiting, buffer.dropped) == (3, 2)
    unreachable.close()


_FORK = """
import os, sys, threading
from presence_core import HeartbeatBuffer, Presence, Settings

presence = Presence.from_url(sys.argv[1], Settings(sys.argv[2]))
buffer = HeartbeatBuffer(presence, interval=0.05)
presence.login("ada", session_id="session-1")
buffer.beat("ada", "session-1")
buffer._lock.acquire()  # another thread is at it while this one forks
child = os.fork()
if child == 0:
    assert buffer.waiting == 0, "what waited is the parent's"
    buffer.beat("ada", "session-1")
    buffer.close()
    os._exit(0 if buffer.waiting == 0 else 1)
buffer._lock.release()
assert os.waitpid(child, 0)[1] == 0
buffer.close()
assert buffer.waiting == 0
print("both")
"""


@on("valkey-sync")
def test_a_forked_child_sends_its_own_beats_even_if_a_lock_was_held(bed: Bed) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", _FORK, bed.url, bed.namespace],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )
    assert (done.stdout, done.returncode) == ("both\n", 0), done.stderr
