"""Validations by many callers at once in one process: on one event loop, from threads, and behind a FastAPI route."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI

from benchmarks.busy.load import CALLS, SESSIONS, Redis, Say, Tally
from benchmarks.measure import Json
from presence_core import AsyncPresence, Presence, PresenceError
from presence_core.web.fastapi import CurrentSession, add_presence, lifespan

IN_FLIGHT: Final = (1, 8, 64, 256, 1000, 5000)
ONE_SERVER_ONLY: Final = 5000
THREADS: Final = (1, 50, 200)
ROUTE_IN_FLIGHT: Final = 64

NOT_LIVE: Final = "a live session was refused"


def in_flight(redis: Redis, rounds: int, seconds: float, say: Say) -> None:
    """AsyncPresence.validate with 1 to 5,000 calls in flight on one event loop"""
    tokens = [login.token for login in redis.log_in(SESSIONS)]
    counts = [count for count in IN_FLIGHT if count < ONE_SERVER_ONLY or redis.topology == "one"]
    for _ in range(rounds):
        for count in counts:
            say("in_flight", redis.case(f"{count:,}"), asyncio.run(_in_flight(redis.url, tokens, count, seconds)))


async def _in_flight(url: str, tokens: Sequence[str], count: int, seconds: float) -> Json:
    async with AsyncPresence.from_url(url) as presence:
        await _callers(presence, tokens, count, seconds / 4)  # to warm up
        begun, spent = time.perf_counter(), time.process_time()
        tally = await _callers(presence, tokens, count, seconds)
        return tally.figures(time.perf_counter() - begun, time.process_time() - spent)


async def _callers(presence: AsyncPresence, tokens: Sequence[str], count: int, seconds: float) -> Tally:
    tally, until = Tally(), time.perf_counter() + seconds

    async def caller(number: int) -> None:
        pick = random.Random(number).choice
        while (begun := time.perf_counter()) < until and tally.made < CALLS:
            try:
                passed = await presence.validate(pick(tokens))
            except PresenceError as error:
                tally.errors[str(error)] += 1
                await asyncio.sleep(0)  # a call that fails before it waits would keep the loop for itself
            else:
                _note(tally, begun, bool(passed))

    await asyncio.gather(*(caller(number) for number in range(count)))
    return tally


def _note(tally: Tally, begun: float, passed: bool) -> None:
    if passed:
        tally.seconds.append(time.perf_counter() - begun)
    else:
        tally.errors[NOT_LIVE] += 1


def threads(redis: Redis, rounds: int, seconds: float, say: Say) -> None:
    """Presence.validate from 1 to 200 threads"""
    tokens = [login.token for login in redis.log_in(SESSIONS)]
    for _ in range(rounds):
        for count in THREADS:
            with Presence.from_url(redis.url) as presence:
                _from_threads(presence, tokens, count, seconds / 4)  # to warm up
                begun, spent = time.perf_counter(), time.process_time()
                tally = _from_threads(presence, tokens, count, seconds)
                figures = tally.figures(time.perf_counter() - begun, time.process_time() - spent)
            say("threads", redis.case(count), figures)


def _from_threads(presence: Presence, tokens: Sequence[str], count: int, seconds: float) -> Tally:
    tally, lock, until = Tally(), threading.Lock(), time.perf_counter() + seconds

    def caller(number: int) -> None:
        pick, own = random.Random(number).choice, Tally()
        while (begun := time.perf_counter()) < until and own.made < CALLS // count:
            try:
                _note(own, begun, bool(presence.validate(pick(tokens))))
            except PresenceError as error:
                own.errors[str(error)] += 1
        with lock:
            tally.seconds += own.seconds
            tally.errors += own.errors

    running = [threading.Thread(target=caller, args=(number,)) for number in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return tally


def route(redis: Redis, rounds: int, seconds: float, say: Say) -> None:
    """processor time of a request to a FastAPI route, called in this process, 64 in flight"""
    tokens = [login.token for login in redis.log_in(SESSIONS)]
    for _ in range(rounds):
        for case, with_sessions in (("no session", False), ("with the middleware", True)):
            say("route", redis.case(case), asyncio.run(_route(redis.url, tokens, with_sessions, seconds)))


async def _route(url: str, tokens: Sequence[str], with_sessions: bool, seconds: float) -> Json:
    presence = AsyncPresence.from_url(url)
    async with lifespan(presence)(None):
        app = _site(presence if with_sessions else None)
        await _requests(app, tokens, seconds / 4)  # to warm up
        begun, spent = time.perf_counter(), time.process_time()
        tally = await _requests(app, tokens, seconds)
        return tally.figures(time.perf_counter() - begun, time.process_time() - spent)


def _site(presence: AsyncPresence | None) -> FastAPI:
    app = FastAPI()
    if presence is None:

        @app.get("/me")
        async def anyone() -> dict[str, str]:
            return {"uid": "user-7"}
    else:
        add_presence(app, presence)

        @app.get("/me")
        async def me(session: CurrentSession) -> dict[str, str]:
            return {"uid": session.uid}

    return app


async def _requests(app: FastAPI, tokens: Sequence[str], seconds: float) -> Tally:
    tally, until = Tally(), time.perf_counter() + seconds

    async def receive() -> Json:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def caller(number: int) -> None:
        pick, status = random.Random(number).choice, 0

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        while (begun := time.perf_counter()) < until and tally.made < CALLS:
            await app(_scope(pick(tokens)), receive, send)
            if status == 200:
                tally.seconds.append(time.perf_counter() - begun)
            else:
                tally.errors[f"answers {status}"] += 1
                await asyncio.sleep(0)

    await asyncio.gather(*(caller(number) for number in range(ROUTE_IN_FLIGHT)))
    return tally


def _scope(token: str) -> Json:
    headers = [(b"host", b"shop.example"), (b"cookie", b"presence=" + token.encode()), (b"user-agent", b"wrk")]
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/me", "raw_path": b"/me", "query_string": b"", "root_path": "", "headers": headers,
        "client": ("192.0.2.7", 50_000), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
