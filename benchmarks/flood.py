"""A flood of failed sign-ins: the memory that it takes, the time of each script, and other calls meanwhile.

    .venv/bin/python -m benchmarks.flood [--failures 100000] [--shards 1] [--app-bytes 64]

First 1,000 people fail once each: the bytes of a row. Then random names and uids fail in turn, from random addresses,
with random app names; another process validates a session all the while, and the slow log keeps every script that takes
half a millisecond.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, cast

from redis import Redis

from presence_core import AsyncPresence, Presence, Settings
from tests.support.servers import Server, redis_binary, valkey_binary

AGENT: Final = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36"
)
TOGETHER: Final = 32

READER: Final = """
import sys, time
from presence_core import Presence
presence, token, seconds = Presence.from_url(sys.argv[1]), sys.argv[2], float(sys.argv[3])
taken, end = [], time.monotonic() + seconds
while time.monotonic() < end:
    began = time.perf_counter()
    presence.validate(token)
    taken.append(time.perf_counter() - began)
    time.sleep(0.002)
taken.sort()
print(f"{taken[len(taken) // 2] * 1e3:.2f} ms p50, {taken[int(len(taken) * 0.99)] * 1e3:.2f} ms p99")
"""


def used(raw: Any) -> int:
    return cast("int", raw.info("memory")["used_memory"])


def reader(url: str, token: str, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", READER, url, token, str(seconds)], stdout=subprocess.PIPE, text=True)


def address(chance: random.Random) -> str:
    return ".".join(str(chance.randrange(1, 255)) for _ in range(4))


async def flood(url: str, failures: int, app_bytes: int) -> float:
    chance, presence = random.Random(1), AsyncPresence.from_url(url)
    begin = time.monotonic()

    async def fail(number: int) -> None:
        for at in range(number):
            who = f"name-{chance.getrandbits(40)}@example.org"
            app = f"{chance.getrandbits(4 * app_bytes):0{app_bytes}x}"
            await presence.login_failed(
                who, why="wrong_password", is_uid=at % 2 == 0, ip=address(chance), user_agent=AGENT, app=app
            )

    await asyncio.gather(*(fail(failures // TOGETHER) for _ in range(TOGETHER)))
    await presence.close()
    return time.monotonic() - begin


def measure(binary: str, failures: int, shards: int, app_bytes: int) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        Server.start(binary, Path(directory)) as server,
        Presence.from_url(server.url, Settings(max_failed_logins=100_000)) as large,
        Presence.from_url(server.url, Settings(shards=shards)) as presence,
    ):
        raw: Any = Redis.from_url(server.url)
        token = presence.login("ada").token
        presence.login_many([{"uid": f"u{number}"} for number in range(1000)])
        large.login_failed("u0", why="wrong_password")
        for what in ("first", "further"):
            before = used(raw)
            for number in range(1, 1000):
                ip = f"10.{number // 250}.{number % 250}.{len(what)}"
                large.login_failed(f"u{number}", why="wrong_password", ip=ip, user_agent=AGENT, app="web")
            print(f"{what} row of a person: {(used(raw) - before) / 999:.0f} bytes")
        reading = reader(server.url, token, 5)
        print("validate, before:", (reading.communicate()[0]).strip())
        raw.config_set("slowlog-log-slower-than", 500)
        raw.slowlog_reset()
        before = used(raw)
        reading = reader(server.url, token, 15)
        seconds = asyncio.run(flood(server.url, failures, app_bytes))
        print("validate, in the flood:", (reading.communicate()[0]).strip())
        slow = [entry["duration"] / 1000 for entry in raw.slowlog_get(1000)]
        raw.slowlog_reset()
        taken = used(raw) - before
        print(f"{failures:,} failures in {seconds:.1f} s: {taken / 1e6:.2f} MB; scripts over 0.5 ms: {len(slow)}, "
              f"longest {max(slow, default=0):.1f} ms")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--app-bytes", type=int, default=64)
    given = parser.parse_args()
    for name, binary in (("Valkey", valkey_binary()), ("Redis", redis_binary())):
        if binary is not None:
            print(f"-- {name}")
            measure(binary, given.failures, given.shards, given.app_bytes)


if __name__ == "__main__":
    main()
