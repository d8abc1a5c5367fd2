"""``python -m benchmarks.middleware [--in-flight 64] [--rounds 7] [--requests 6000]``

Processor time of this process for one request to a FastAPI route that is called in process: without a session, and
behind ``PresenceMiddleware``. The server is another process, so its time does not count. The measurements take turns,
so that other work on the machine affects all alike. ``recorded`` ones get the replies of the server from memory: what
they take is the library's own work, without connections. To compare versions, run it in a worktree of each, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from fastapi import FastAPI

from benchmarks.data import logins
from benchmarks.stage import SETTINGS
from presence_core import AsyncPresence, Login, Presence
from presence_core.web.asgi import PresenceMiddleware
from tests.support.servers import Server, redis_binary, valkey_binary

SESSIONS: Final = 2_000

Request = Callable[[str, int], Awaitable[None]]
"""Makes one request with this token; the number is its place."""

_HEADERS: Final = (
    (b"host", b"shop.example"),
    (b"accept", b"text/html,application/xhtml+xml,*/*;q=0.8"),
    (b"accept-language", b"en-GB,en;q=0.5"),
    (b"accept-encoding", b"gzip, deflate, br"),
    (b"referer", b"https://shop.example/basket"),
    (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
)


class Recorded:
    """In the place of a client's transport: answers a call as the server answered the first one with these keys."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._replies: dict[Any, Any] = {}

    async def run(self, operation: Any) -> Any:
        """The result of an operation."""
        try:
            calls = next(operation)
            while True:
                known = [self._replies.get(_keys(call)) for call in calls]
                calls = operation.send(await self._transport.run(self._ask(calls)) if None in known else known)
        except StopIteration as stop:
            return stop.value

    def _ask(self, calls: Any) -> Any:
        replies = yield calls
        self._replies.update((_keys(call), reply) for call, reply in zip(calls, replies, strict=True))
        return replies


def _keys(call: Any) -> Any:
    return call.wire if call.script is None else call.wire[: 3 + int(call.wire[2])]


def _site() -> FastAPI:
    app = FastAPI()

    @app.get("/basket")
    async def basket() -> dict[str, int]:
        return {"items": 3}

    return app


def _requests_to(app: Any) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message

    async def request(token: str, place: int) -> None:
        cookie = f"theme=dark; presence={token}; basket=3".encode()
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "https",
            "path": "/basket", "raw_path": b"/basket", "query_string": b"", "root_path": "", "state": {},
            "headers": [*_HEADERS, (b"cookie", cookie)], "client": (f"192.0.2.{place % 250}", 40_000),
            "server": ("shop.example", 443),
        }  # fmt: skip
        await app(scope, receive, send)

    return request


def _validations_by(presence: AsyncPresence) -> Request:
    async def request(token: str, place: int) -> None:
        assert await presence.validate(token, touch=False, ip=f"192.0.2.{place % 250}")

    return request


async def _processor_us(request: Request, tokens: list[str], count: int, in_flight: int) -> float:
    """Of one request, without garbage collection: its turns would fall on single rounds."""
    numbers = iter(range(count))
    pick = cycle(random.sample(list(enumerate(tokens)), len(tokens)))

    async def visit() -> None:
        for _ in numbers:
            place, token = next(pick)
            await request(token, place)

    gc.collect()
    gc.disable()
    begun = time.process_time()
    await asyncio.gather(*(visit() for _ in range(in_flight)))
    spent = time.process_time() - begun
    gc.enable()
    return spent / count * 1e6


async def _measure(url: str, tokens: list[str], arguments: argparse.Namespace) -> dict[str, list[float]]:
    async with AsyncPresence.from_url(url, SETTINGS) as presence, AsyncPresence.from_url(url, SETTINGS) as recorded:
        recorded.internal._transport = Recorded(recorded.internal._transport)  # type: ignore[assignment]
        each: dict[str, tuple[Request, list[str]]] = {
            "no_session": (_requests_to(_site()), tokens),
            "middleware": (_requests_to(PresenceMiddleware(_site(), presence)), tokens),
            "middleware_recorded": (_requests_to(PresenceMiddleware(_site(), recorded)), tokens),
            "validate": (_validations_by(presence), tokens),
            "validate_recorded": (_validations_by(recorded), tokens),
        }
        found: dict[str, list[float]] = {name: [] for name in each}
        for number in range(arguments.rounds + 1):
            for name, (request, some) in each.items():
                us = await _processor_us(request, some, arguments.requests, arguments.in_flight)
                if number:  # the first warms up
                    found[name].append(us)
        return found


def main() -> int:
    """Measure, and print one line of JSON: µs of processor time, medians of all rounds and, behind them, the lowest."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.middleware", description=__doc__)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=6_000, help="requests of each measurement in a round")
    arguments = parser.parse_args()
    binary = valkey_binary() or redis_binary()
    if binary is None:
        sys.exit("No Redis server binary was found.")
    with TemporaryDirectory(prefix="bench-") as directory, Server.start(binary, Path(directory)) as server:
        with Presence.from_url(server.url, replace(SETTINGS, timeout=60)) as presence:
            made = presence.login_many(list(logins(SESSIONS)))
        tokens = [login.token for login in made if isinstance(login, Login)]
        found = asyncio.run(_measure(server.url, tokens, arguments))
    figures = {name: {"us": round(median(us), 1), "lowest": round(min(us), 1)} for name, us in found.items()}
    added = [us - bare for us, bare in zip(found["middleware"], found["no_session"], strict=True)]
    own = [us - bare for us, bare in zip(found["middleware_recorded"], found["no_session"], strict=True)]
    figures["added"] = {"us": round(median(added), 1), "lowest": round(min(added), 1)}
    figures["added_recorded"] = {"us": round(median(own), 1), "lowest": round(min(own), 1)}
    print(json.dumps({"in_flight": arguments.in_flight, "rounds": arguments.rounds, **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
