"""``python -m benchmarks.sockets [--open 5000] [--kicks 100] [--seconds 30]``

Websockets of as many sessions are open at one uvicorn process, and are silent. Measured are its memory and processor
time without the middleware, with it over an AsyncPresence, and with it over a Presence; then the time from the call of
``kick()`` to the close frame at the client, for visitors who are kicked one after the other at random times; at the end
how long ``revoke_before`` takes to close all others. The clients and the kicks are in the process of the benchmark.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

import presence_core
from benchmarks.soak.run import resident
from benchmarks.stage import SETTINGS
from benchmarks.web import processor_seconds
from presence_core import AsyncPresence, Login, Presence
from presence_core.web.asgi import PresenceMiddleware
from presence_core.web.rules import Rules
from tests.support.servers import HOST, Server, free_port, redis_binary, valkey_binary

ROOT: Final = Path(__file__).parents[1]
TARGET_MS: Final = 250
CASES: Final = ("bare", "AsyncPresence", "Presence")
AT_ONCE: Final = 100
"""Sockets that are being opened at a time."""

PING, CLOSE = 0x89, 0x88


def make_site() -> Any:
    """The site, for ``uvicorn --factory``; BENCH_CASE names the case."""

    async def chat(websocket: WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text)

    async def ready(request: Any) -> PlainTextResponse:
        return PlainTextResponse("ready")

    app = Starlette(routes=[WebSocketRoute("/chat", chat), Route("/ready", ready)])
    case = os.environ["BENCH_CASE"]
    if case == "bare":
        return app
    presence = getattr(presence_core, case).from_env()
    return PresenceMiddleware(app, presence, rules=Rules(public=("/ready",)))


class Visitor(asyncio.Protocol):
    """An open websocket. It answers pings, and notes when it is closed."""

    def __init__(self, token: str) -> None:
        self.opened, self.closed = asyncio.Event(), asyncio.Event()
        self.closed_at, self.close = 0.0, b""
        self._token = token
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        """Ask for the upgrade."""
        self._transport = transport
        transport.write(
            f"GET /chat HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n"
            f"Cookie: presence={self._token}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Frames of the server: short, and without a mask."""
        self._data += data
        if not self.opened.is_set():
            head, end, rest = self._data.partition(b"\r\n\r\n")
            if not end:
                return
            assert b" 101 " in head, head
            self._data = rest
            self.opened.set()
        while len(self._data) >= 2 and len(self._data) >= 2 + self._data[1]:
            kind, length = self._data[:2]
            payload, self._data = self._data[2 : 2 + length], self._data[2 + length :]
            if kind == PING:
                self._transport.write(bytes([0x8A, 0x80 | length, 0, 0, 0, 0]) + payload)
            elif kind == CLOSE:
                self.closed_at, self.close = time.perf_counter(), payload
                self.closed.set()
                self._transport.write(bytes([CLOSE, 0x80 | length, 0, 0, 0, 0]) + payload)


async def _open(port: int, tokens: list[str]) -> list[Visitor]:
    loop, visitors, places = asyncio.get_running_loop(), [Visitor(token) for token in tokens], iter(range(len(tokens)))

    async def open_some() -> None:
        for place in places:
            await loop.create_connection(lambda place=place: visitors[place], HOST, port)  # type: ignore[misc]
            await visitors[place].opened.wait()

    await asyncio.gather(*(open_some() for _ in range(AT_ONCE)))
    return visitors


async def _kicks(presence: AsyncPresence, visitors: list[Visitor], logins: list[Login]) -> list[float]:
    """Milliseconds of each kick."""
    took = []
    for visitor, login in zip(visitors, logins, strict=True):
        await asyncio.sleep(random.uniform(0.05, 0.25))
        begun = time.perf_counter()
        await presence.kick(login.session.uid, by="benchmark", reason="benchmark")
        await visitor.closed.wait()
        assert visitor.close == b"\x11\x31kicked", visitor.close  # 4401
        took.append((visitor.closed_at - begun) * 1000)
    return sorted(took)


async def _measure(case: str, server: Server, port: int, site: int, arguments: argparse.Namespace) -> dict[str, Any]:
    while True:
        try:
            _, writer = await asyncio.open_connection(HOST, port)
            break
        except OSError:
            await asyncio.sleep(0.05)
    writer.close()
    async with AsyncPresence.from_url(server.url, SETTINGS) as presence:
        found = await presence.login_many({"uid": f"user-{case}-{number}"} for number in range(arguments.open))
        logins = [login for login in found if isinstance(login, Login)]
        warm_up = await _open(port, [login.token for login in logins[:50]])
        before = resident(site)
        visitors = warm_up + await _open(port, [login.token for login in logins[50:]])
        await asyncio.sleep(2)
        figures: dict[str, Any] = {"kb_a_socket": round((resident(site) - before) * 1000 / (len(visitors) - 50), 2)}
        spent = processor_seconds(site), processor_seconds(server.pid)
        await asyncio.sleep(arguments.seconds)
        for name, now, then in zip(("site", "redis"), (site, server.pid), spent, strict=True):
            figures[f"{name}_percent"] = round((processor_seconds(now) - then) / arguments.seconds * 100, 2)
        if case != "bare":
            took = await _kicks(presence, visitors[: arguments.kicks], logins[: arguments.kicks])
            figures |= {"p50_ms": round(median(took)), "p99_ms": round(took[int(len(took) * 0.99)]),
                        "worst_ms": round(took[-1])}  # fmt: skip
            begun = time.perf_counter()
            await presence.revoke_before(by="benchmark", reason="benchmark")
            await asyncio.gather(*(visitor.closed.wait() for visitor in visitors))
            figures["all_s"] = round(max(visitor.closed_at for visitor in visitors) - begun, 2)
        return figures


def main() -> int:
    """Measure, and print one line of JSON. The exit code is 1 if a p99 missed its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sockets", description=__doc__)
    parser.add_argument("--open", type=int, default=5_000, help="websockets that are open")
    parser.add_argument("--kicks", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30, help="for the processor time")
    arguments = parser.parse_args()
    binary = valkey_binary() or redis_binary()
    if binary is None:
        sys.exit("No Redis server binary was found.")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65_536) if most > 0 else 65_536, most))
    figures = {}
    for case in CASES:
        port = free_port()
        with TemporaryDirectory() as directory, Server.start(binary, Path(directory)) as server:
            with Presence.from_url(server.url, SETTINGS) as presence:
                presence.counts()
            environ = os.environ | {"PRESENCE_REDIS_URL": server.url, "BENCH_CASE": case}
            command = [sys.executable, "-m", "uvicorn", "benchmarks.sockets:make_site", "--factory",
                       f"--port={port}", "--log-level=warning"]  # fmt: skip
            with subprocess.Popen(command, env=environ, cwd=ROOT) as site:
                try:
                    figures[case] = asyncio.run(_measure(case, server, port, site.pid, arguments))
                finally:
                    site.kill()
    print(json.dumps({"open": arguments.open, "kicks": arguments.kicks, "load_average": round(os.getloadavg()[0], 1),
                      "target_ms": TARGET_MS, **figures}))  # fmt: skip
    return int(any(found.get("p99_ms", 0) > TARGET_MS for found in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
