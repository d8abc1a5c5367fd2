"""``python -m benchmarks.web``: validations a second of one ``presence serve`` process, by real HTTP.

By default four clients, each with one kept-alive connection, validate random sessions of 10,000 as fast as the replies
come. The clients share this process; the Redis server is a third one. The report also has the service's processor time
per validation, because rates fall when three processes do not have three cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from presence_core import Login, Presence, Settings
from presence_core.web.service.api_keys import make_key
from tests.support.servers import Server, redis_binary, valkey_binary

TARGET: Final = 1500
ROOT: Final = Path(__file__).parent.parent


async def _client(host: str, port: int, requests: list[bytes], until: float) -> list[float]:
    """Seconds of each request."""
    reader, writer = await asyncio.open_connection(host, port)
    took: list[float] = []
    pick = random.Random(port).choice
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(pick(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        took.append(time.perf_counter() - begun)
        assert head.startswith(b"HTTP/1.1 200"), head
        assert body.startswith(b'{"live":true'), body
    writer.close()
    return took


def _requests(host: str, key: str, tokens: list[str]) -> list[bytes]:
    made = []
    for token in tokens:
        body = json.dumps({"token": token, "ip": "192.0.2.7"}).encode()
        head = f"POST /v1/validate HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
        made.append(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return made


async def _measure(url: str, requests: list[bytes], clients: int, seconds: float) -> list[float]:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    until = time.perf_counter() + seconds
    every = await asyncio.gather(*(_client(parts.hostname, parts.port, requests, until) for _ in range(clients)))
    return sorted(ms for took in every for ms in took)


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used so far; 0.0 without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measure, and print one line of JSON. The exit code is 1 if no round met the target, because a busy machine slows
    rounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a round")
    parser.add_argument("--sessions", type=int, default=10_000)
    args = parser.parse_args()
    binary = valkey_binary() or redis_binary()
    if binary is None:
        sys.exit("No Redis server binary was found.")
    with TemporaryDirectory() as directory, Server.start(binary, Path(directory)) as server:
        with Presence.from_url(server.url, Settings(namespace="bench")) as presence:
            rows = [{"uid": f"user-{number}", "device": "phone", "app": "shop"} for number in range(args.sessions)]
            tokens = [login.token for login in presence.login_many(rows) if isinstance(login, Login)]
            _, key = make_key(presence, "bench", ["record"])
        environ = os.environ | {"PRESENCE_REDIS_URL": server.url, "PRESENCE_NAMESPACE": "bench"}
        command = [sys.executable, "-m", "presence_core.cli", "serve", "--port", "0", "--json"]
        with subprocess.Popen(command, env=environ, cwd=ROOT, stdout=subprocess.PIPE) as service:
            assert service.stdout
            try:
                url = json.loads(service.stdout.readline())["url"]
                requests = _requests(urlsplit(url).netloc, key, tokens)
                asyncio.run(_measure(url, requests, args.clients, 1.0))  # to warm up
                before = processor_seconds(service.pid)
                rounds = [asyncio.run(_measure(url, requests, args.clients, args.seconds)) for _ in range(args.rounds)]
                spent = processor_seconds(service.pid) - before
            finally:
                service.terminate()
    rates = [len(took) / args.seconds for took in rounds]
    took = sorted(ms for round_ in rounds for ms in round_)
    figures = {f"p{part}_ms": round(took[int(len(took) * part / 100)] * 1000, 2) for part in (50, 95, 99)}
    best = min(rounds, key=lambda took: took[int(len(took) * 0.99)])
    print(json.dumps({
        "clients": args.clients, "rounds": args.rounds, "validations_per_second": round(median(rates)),
        "best_round": round(max(rates)), **figures, "best_p99_ms": round(best[int(len(best) * 0.99)] * 1000, 2),
        "service_cpu_us": round(spent / len(took) * 1e6), "target": TARGET, "met": max(rates) >= TARGET,
    }))  # fmt: skip
    return 0 if max(rates) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
