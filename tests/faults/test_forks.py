"""A child forked from a busy process hangs on no lock, and uses no connection of its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Bed, on
from tests.support.soak import size

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")

BUSY = """
import os, signal, sys, threading, time
from presence_core import Presence, Settings, Unavailable
p = Presence.from_url(sys.argv[1], Settings(namespace=sys.argv[2]))
users = [f"u{n}" for n in range(10)]
for uid in users:
    p.login(uid, session_id=f"session-of-{uid}")
stopping = False

def call():
    while not stopping:
        for pool in [pool for _, pool in p._transport._pools.values()] or [p._transport._router.node("")]:
            pool._free.clear()  # so that the pool's own lock is taken all the time
        for uid in users:
            p.validate_session(uid, f"session-of-{uid}")

threads = [threading.Thread(target=call) for _ in range(4)]
for one in threads:
    one.start()
ends = []
for n in range(int(sys.argv[3])):
    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            ok = [[one.uid for one in p.sessions(uid)] for uid in users] == [[uid] for uid in users]
            p.close()
            os._exit(0 if ok else 1)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(2)
    ends.append(os.waitpid(child, 0)[1])
stopping = True
for one in threads:
    one.join()
print(sum(map(bool, ends)), len(ends))
"""


@on("valkey-sync", "cluster-sync", soak=("redis7-sync", "sentinel-sync"))
def test_children_of_a_process_with_busy_threads_can_make_calls(bed: Bed) -> None:
    forks = os.environ.get("PRESENCE_FORKS", size("15", "40"))
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUSY, bed.url, bed.namespace, forks],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.stdout, run.stderr) == (f"0 {forks}\n", "")


HOLDING = """
import gc, os, signal, sys, threading
from presence_core import HeartbeatBuffer, Presence, Settings, Worker
from presence_core.embedded import EmbeddedServer
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.jwt import RevocationCache
from presence_core.web.webhooks import Webhooks

url, namespace, directory = sys.argv[1:]
p = Presence.from_url(url, Settings(namespace=namespace))
session = p.login("ada").session
checker, cache, worker = RequestChecker(p), RevocationCache(p), Worker(p)
buffer, hooks = HeartbeatBuffer(p), Webhooks(p, ["http://127.0.0.1:1/"], secret="s" * 32, position=directory)
buffer.beat("ada", session.session_id)
threading.Thread(target=p.when_ended, args=("ada", session.session_id), daemon=True).start()
use = EmbeddedServer(directory, "nowhere", os.open(directory, os.O_RDONLY))
LOCKS = (type(threading.Lock()), type(threading.RLock()))
held = []

def hold_everything():
    for held_by in gc.get_objects():
        if not str(type(held_by).__module__).startswith(("presence_core", "redis")):
            continue
        for name, value in list(getattr(held_by, "__dict__", {}).items()):
            if isinstance(value, threading.Event):
                value = value._cond._lock
            if isinstance(value, LOCKS) and value.acquire(timeout=1):
                held.append(f"{type(held_by).__name__}.{name}")
    ready.set()
    done.wait()

ready, done = threading.Event(), threading.Event()
threading.Thread(target=hold_everything, daemon=True).start()
assert ready.wait(20)
child = os.fork()
if not child:
    signal.alarm(30)
    try:
        assert p.validate_session("ada", session.session_id)
        assert [one.uid for one in p.sessions("ada")] == ["ada"]
        checker.breaker.failed()
        checker.known.forget(b"")
        buffer.beat("ada", session.session_id)
        buffer.close()
        cache.start()
        assert not cache.is_revoked(session.session_id)
        cache.close()
        worker.start()
        worker.stop()
        hooks._post._count("delivered")
        hooks.close()
        use.close()
        p._transport.nodes(refresh=True)
        assert p.when_ended("ada", session.session_id, timeout=0.3) is None
        assert p.when_ended("ada", "no-such-session") is not None
        p.close()
        os._exit(0)
    except BaseException as error:
        import traceback
        traceback.print_exc()
        os._exit(1)
print(sorted(set(held)), os.waitpid(child, 0)[1])
os._exit(0)
"""


@on("valkey-sync", "cluster-sync", soak=("sentinel-sync",))
def test_a_child_works_although_other_threads_held_every_lock_at_the_fork(bed: Bed, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HOLDING, bed.url, bed.namespace, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout.endswith("] 0\n"), run.stdout + run.stderr
    for name in (
        "HeartbeatBuffer._lock",
        "Breaker._lock",
        "RevocationCache._lock",
        "ReplicaAckThread._stopped",
        "EndWatchThread._lock",
        "WatchedSessions._lock",
    ):
        assert name in run.stdout


AWAITING = """
import asyncio, os, signal, sys
from presence_core import AsyncPresence, Settings
p = AsyncPresence.from_url(sys.argv[1], Settings(namespace=sys.argv[2]))

async def calls(uid):
    for _ in range(20):
        await p.login(uid, session_id=f"session-of-{uid}")
        found = await asyncio.gather(*(p.sessions(uid) for _ in range(5)))
        assert [[one.uid for one in some] for some in found] == [[uid]] * 5

def child():
    signal.alarm(30)
    try:
        asyncio.run(calls("child"))
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

async def parent():
    await calls("parent")
    pid = os.fork()
    if not pid:
        child()  # at once: a step of the inherited loop would read its parent's answers
    await calls("parent")
    print(os.waitpid(pid, 0)[1])
    await calls("parent")

asyncio.run(parent())
"""


@on("redis7-async", "cluster-async", soak=("sentinel-async",))
def test_a_child_with_its_own_event_loop_has_its_own_connections(bed: Bed) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AWAITING, bed.url, bed.namespace],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.stdout, run.stderr) == ("0\n", "")
