"""``presence mirror`` over 200,000 sessions of express-session: the first look, its cost for the site, the lag, kicks.

    .venv/bin/python -m benchmarks.mirror [--sessions 200000] [--kicks 10000] [--others 0]

The site's sessions and ours are on two servers of this machine. A process reads sessions of the site and measures each
read, before the first look and during it. Then sessions begin one by one, and the time is taken until they are listed.
Then many sessions are kicked, while four threads write kicked ones back as requests in flight do. ``--others`` adds
keys of a cache to the same database.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from redis import Redis

from presence_core import Presence, Settings
from presence_core.mirror.loop import Mirror
from presence_core.mirror.stores import BY_NAME
from presence_core.transport.site_store import SiteStore
from tests.support.servers import Server, redis_binary, valkey_binary

READER = """
import random, sys, time
from redis import Redis
site, sessions, seconds = Redis.from_url(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
taken, end = [], time.monotonic() + seconds
while time.monotonic() < end:
    began = time.perf_counter()
    site.get(f"sess:{random.randrange(sessions):032x}")
    taken.append(time.perf_counter() - began)
    time.sleep(0.002)
taken.sort()
print(taken[len(taken) // 2] * 1e6, taken[int(len(taken) * 0.99)] * 1e6)
"""


SLOW = 10_000
"""Entries of the slow log that are kept."""


def session(number: int) -> str:
    user = {"name": f"Ada {number} Lovelace", "email": f"ada{number}@example.com"}
    cookie = {"originalMaxAge": 86_400_000, "expires": "2030-01-01T00:00:00.000Z", "httpOnly": True, "path": "/"}
    return json.dumps({"cookie": cookie, "userId": f"user-{number}", "user": user})


def fill(site: Redis, sessions: int) -> None:
    pipe = site.pipeline(transaction=False)
    for number in range(sessions):
        pipe.set(f"sess:{number:032x}", session(number), ex=80_000)
        if number % 5000 == 4999:
            pipe.execute()
    pipe.execute()


def fill_others(site: Redis, others: int) -> None:
    pipe = site.pipeline(transaction=False)
    for number in range(0, others, 1000):
        pipe.mset({f"cache:page:{place:012d}": "x" * 20 for place in range(number, min(number + 1000, others))})
        if number % 20_000 == 0:
            pipe.execute()
    pipe.execute()


def read_for(url: str, sessions: int, seconds: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", READER, url, str(sessions), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def figures(reader: subprocess.Popen[str]) -> tuple[float, float]:
    median, p99 = map(float, reader.communicate()[0].split())
    return median, p99


def lags(site: Redis, presence: Presence, count: int) -> list[float]:
    """Seconds from a sign-in at the site until it is listed."""
    found = []
    for number in range(count):
        began = time.perf_counter()
        site.set(f"sess:lag{number}", session(10**7 + number), ex=3600)
        while not presence.is_online(f"user-{10**7 + number}"):
            time.sleep(0.002)
        found.append(time.perf_counter() - began)
        time.sleep(random.random() * 0.05)
    return found


def kick_under_traffic(site: Redis, url: str, presence: Presence, kicks: int) -> tuple[float, float, int]:
    """Kick the first sessions, while others write them back. Returns how long the kicks took, how long after the last
    write none was left, and how many were written back."""
    stop, written = threading.Event(), [0] * 4

    def write_back(place: int) -> None:
        with Redis.from_url(url) as own:
            while not stop.is_set():
                number = random.randrange(kicks)
                value = own.get(f"sess:{number:032x}")
                time.sleep(0.005)  # the request takes so long
                if value is not None:
                    own.set(f"sess:{number:032x}", value, ex=80_000)
                    written[place] += 1

    threads = [threading.Thread(target=write_back, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    for number in range(kicks):
        presence.kick(f"user-{number}", by="sam", reason="benchmark")
    kicked = time.monotonic()
    stop.set()
    for thread in threads:
        thread.join()
    ended = time.monotonic()
    keys = [f"sess:{number:032x}" for number in range(kicks)]
    while any(site.exists(*keys[at : at + 1000]) for at in range(0, kicks, 1000)):
        time.sleep(0.01)
    return kicked - began, time.monotonic() - ended, sum(written)


def longest(site: Any, logged: int) -> str:
    """Of each command since the last reset: the 99.9th percentile and the longest call, ms; 0: below 0.2.

    The reader's GET is among them, which takes some microseconds: a long one was interrupted by another program.
    logged: the entries of the slow log, which has calls from 0.2 ms on.
    """
    slow: dict[str, float] = {}
    for entry in site.slowlog_get(logged):
        name = entry["command"].split()[0].decode().lower()
        slow[name] = max(slow.get(name, 0), entry["duration"] / 1000)
    return "; ".join(
        f"{name} p99.9 {_p999(site, name):.2f}, longest {slow.get(name, 0):.1f}"
        for name in ("scan", "getrange", "pttl", "get")
    )


def _p999(site: Any, name: str) -> float:
    """The 99.9th percentile of a command, ms: the upper limit of its bucket."""
    [(_, stats)] = site.execute_command("LATENCY", "HISTOGRAM", name).items()
    pairs = list(stats[b"histogram_usec"].items())  # each counts the calls of those below it too
    return float(next(upper for upper, calls in pairs if calls >= 0.999 * pairs[-1][1])) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sessions", type=int, default=200_000)
    parser.add_argument("--kicks", type=int, default=10_000)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--rate", type=int, default=5_000)
    args = parser.parse_args()
    binary = redis_binary() or valkey_binary() or ""
    with (
        tempfile.TemporaryDirectory() as there,
        tempfile.TemporaryDirectory() as here,
        Server.start(binary, Path(there), port=True) as theirs,
        Server.start(binary, Path(here), port=True) as ours,
        Redis.from_url(theirs.url) as site,
        Presence.from_url(ours.url, Settings(namespace="mirrored")) as presence,
    ):
        fill(site, args.sessions)
        fill_others(site, args.others)
        site.config_set("notify-keyspace-events", "KA")
        site.config_set("slowlog-log-slower-than", 200)
        before = figures(read_for(theirs.url, args.sessions, 20))
        site.config_set("slowlog-max-len", SLOW)
        site.slowlog_reset()
        site.config_resetstat()
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory = int(ours.client().info("memory")["used_memory"])
        store = BY_NAME["express"]
        mirror = Mirror(presence, SiteStore(theirs.url, 5), store, bytes(32), rate=args.rate)
        mirror.start()
        reader = read_for(theirs.url, args.sessions, 20)
        began = time.monotonic()
        while mirror.looked_at is None:
            time.sleep(mirror.turn() / 5)
        seconds = time.monotonic() - began
        during = figures(reader)
        kib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss) / args.sessions
        stored = (int(ours.client().info("memory")["used_memory"]) - memory) / args.sessions / 1024
        print(f"first look          {seconds:.1f} s for {args.sessions:,} sessions")
        print(f"calls, ms           {longest(site, SLOW)}")
        print(
            f"a read of the site  median {before[0]:.0f}, p99 {before[1]:.0f} us; "
            f"during it {during[0]:.0f}, {during[1]:.0f}"
        )
        print(f"memory a session    {kib:.2f} KiB of the mirror, {stored:.2f} KiB of our Redis")
        thread = threading.Thread(target=mirror.run)
        thread.start()
        taken = sorted(lags(site, presence, 500))
        print(f"lag of a sign-in    median {statistics.median(taken) * 1000:.0f}, p99 {taken[494] * 1000:.0f} ms")
        kicked, gone, written = kick_under_traffic(site, theirs.url, presence, args.kicks)
        print(f"{args.kicks:,} kicks        {kicked:.1f} s, {written:,} written back; none left {gone:.2f} s later")
        mirror.stop()
        thread.join()


if __name__ == "__main__":
    main()
