"""An exception from a signal handler at any step: the process and the pool still work, and replies match their
calls."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from presence_core.scripts.calls import Call, as_text
from tests.conftest import Bed, on
from tests.support.soak import size

INTERRUPTS = int(os.environ.get("PRESENCE_INTERRUPTS") or size(120, 300))

CALLING = """
import random, resource, signal, sys, threading, time
import redis
from presence_core import Presence, Settings

class Limit(Exception):
    pass

def interrupt(number, frame):
    if armed:
        raise Limit

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
url, settings = sys.argv[1], Settings(namespace=sys.argv[2])
if url.startswith("redis+"):
    p = Presence.from_url(url + "?max_connections=5", settings)
else:
    p = Presence(redis.Redis.from_url(url, max_connections=5), settings)
users = [f"u{n}" for n in range(50)]
for uid in users:
    p.login(uid, session_id=f"session-of-{uid}")
many = [{"uid": uid, "session_id": f"session-of-{uid}", "idle_timeout": 600} for uid in users[:10]]
armed, interrupts = False, 0
signal.signal(signal.SIGALRM, interrupt)

def call(n):
    uid = users[n % 50]
    if n % 10 == 9:
        assert [one.session.uid for one in p.login_many(many)] == users[:10]
    elif n % 2:
        assert p.validate_session(uid, f"session-of-{uid}").session.uid == uid
    else:
        assert [one.uid for one in p.sessions(uid)] == [uid]

def check():
    for n in range(50):
        call(n)
    done.append(True)

until = time.monotonic() + 200
for n in range(100_000):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00002, 0.002))
            armed = True
            for step in range(20):
                call(n * 20 + step)
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Limit:
        interrupts += 1
    except KeyError as error:  # CPython's Thread.start has no entry to remove, if the thread has started meanwhile
        if not isinstance(error.__context__, Limit):
            raise
        interrupts += 1
    if interrupts >= int(sys.argv[3]) or time.monotonic() > until:
        break
done = []
threads = [threading.Thread(target=check) for _ in range(5)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(interrupts, len(done))
"""


@on("redis7-sync", "cluster-sync", soak=("sentinel-sync",))
def test_after_many_interrupts_every_pooled_connection_works_and_no_reply_is_mixed_up(
    bed: Bed,
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", CALLING, bed.url, bed.namespace, str(INTERRUPTS)],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    interrupts, done = map(int, run.stdout.split())
    assert interrupts == INTERRUPTS
    assert done == 5, run.stderr[-2000:]


PACKING = """
import random, resource, signal, time
from presence_core.scripts.calls import Call
from presence_core.transport.pools import _Packer
from presence_core.transport.base_transport import pack

class Limit(Exception):
    pass

def interrupt(number, frame):
    if armed:
        raise Limit

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGALRM, interrupt)
calls, numbers, armed, interrupts = [Call("k", ("SET", *range(1000, 1200)), True)] * 50, tuple(range(1000)), False, 0
until = time.monotonic() + 200
while interrupts < 300 and time.monotonic() < until:
    try:
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00002, 0.0008))
            while True:
                for piece in pack(calls):
                    _Packer().pack("HELLO", *numbers)
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Limit:
        interrupts += 1
"""


def test_an_interrupt_while_numbers_are_packed_does_not_crash_the_process() -> None:
    run = subprocess.run([sys.executable, "-c", PACKING], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize("words", [("EVALSHA", 1, b"\xff", -5, 1.5, "1"), ("GET", "key", b"raw")])
def test_commands_are_sent_only_as_text_and_bytes(words: tuple[str | bytes | int, ...]) -> None:
    sent = as_text(Call("key", words, True).words)
    assert {type(word) for word in sent} <= {str, bytes}
    assert [word if isinstance(word, bytes) else str(word) for word in words] == list(sent)
