"""The first change after the server closed idle connections: how many calls of each method fail."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.busy.load import Redis, Say, redis_of
from benchmarks.busy.service import service
from presence_core import AsyncPresence, Login, Presence, PresenceError
from tests.support.servers import Server

STAFF: Final[dict[str, Any]] = {"by": "sam", "reason": "odd login"}

CHANGES: Final[dict[str, Callable[[Any, Login], Any]]] = {
    "login": lambda presence, login: presence.login(f"{login.session.uid}-more"),
    "rotate": lambda presence, login: presence.rotate(login.token),
    "reauthenticated": lambda presence, login: presence.reauthenticated(login.token),
    "update": lambda presence, login: presence.update(login.token, attributes={"cart": 3}),
    "block": lambda presence, login: presence.block(login.session.uid, **STAFF),
    "unblock": lambda presence, login: presence.unblock(login.session.uid, **STAFF),
    "logout": lambda presence, login: presence.logout(login.session.uid, login.session.session_id),
}

OPEN: Final = 4
"""Connections of each client that the server closes. One alone would hide a second attempt that fails as the first."""

SLOW_CALLS: Final = 5
"""``presence serve`` is one client: each of its calls needs a closing of its own, and these ways take seconds."""

Errors = Counter[str]
Close = Callable[[], None]
Round = Callable[[str, Sequence[Login], Close], Errors]
"""Warm up, close, and make the first calls of a method, a session each."""


def first_changes(redis: Redis, calls: int, say: Say) -> None:
    """errors of the first changes after CLIENT KILL, ``timeout`` or a restart closed idle connections"""
    with redis_of(redis.topology, "--appendonly", "yes") as own, service(own.url) as (address, key, _):
        kinds = {"AsyncPresence": _async_round(own.url), "Presence": _sync_round(own.url),
                 "presence serve": _service_round(address, key)}  # fmt: skip
        for way, close in _ways(own).items():
            for kind, run in kinds.items():
                served = kind == "presence serve"
                count = min(calls, SLOW_CALLS) if served and way != "CLIENT KILL" else calls
                methods = [name for name in CHANGES if not (served and name == "rotate")]  # which has no address
                found = {name: _first_calls(own, run, name, close, count, one_by_one=served) for name in methods}
                figures = {
                    "calls": count * len(methods),
                    "errors": sum(errors.total() for errors in found.values()),
                    "failed": {name: errors.total() for name, errors in found.items() if errors},
                    "messages": dict(sum(found.values(), Counter()).most_common(3)),
                }
                say("first_changes", own.case(f"{kind}, {way}"), figures)


def _first_calls(redis: Redis, run: Round, method: str, close: Close, count: int, *, one_by_one: bool) -> Errors:
    logins = redis.log_in(count, f"{method}-{time.time_ns()}")
    if not one_by_one:
        return run(method, logins, close)
    return sum((run(method, [login], close) for login in logins), Counter())


def _ways(redis: Redis) -> dict[str, Close]:
    def kill() -> None:
        for node in redis.nodes:
            node.command("CLIENT", "KILL", "TYPE", "normal")
        _wait_until_closed(redis.nodes)

    def timeout() -> None:
        for node in redis.nodes:
            node.command("CONFIG", "SET", "timeout", "1")
        _wait_until_closed(redis.nodes)
        for node in redis.nodes:
            node.command("CONFIG", "SET", "timeout", "0")

    def restart() -> None:
        for node in redis.nodes:
            node.restart()

    ways = {"CLIENT KILL": kill, "timeout": timeout}
    return ways if redis.topology in ("sentinel", "cluster") else ways | {"restart": restart}


def _wait_until_closed(nodes: Sequence[Server]) -> None:
    """At most five seconds: a client may have opened a connection again."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if max(_clients(node) for node in nodes) <= 1:  # ours
            break
        time.sleep(0.02)
    time.sleep(0.02)  # until the news has reached the clients' sockets


def _clients(node: Server) -> int:
    """The number of its clients, without Sentinels, which connect again."""
    lines = node.command("CLIENT", "LIST", "TYPE", "normal").splitlines()
    return sum(" name=sentinel-" not in line for line in lines)


def _async_round(url: str) -> Round:
    async def run(method: str, logins: Sequence[Login], close: Close) -> Errors:
        errors, clients = Counter[str](), [AsyncPresence.from_url(url) for _ in logins]
        try:
            for client, login in zip(clients, logins, strict=True):
                await asyncio.gather(*(client.validate(login.token) for _ in range(OPEN)))
            await asyncio.to_thread(close)
            for client, login in zip(clients, logins, strict=True):
                with _counted(errors):
                    await CHANGES[method](client, login)
        finally:
            for client in clients:
                await client.close()
        return errors

    return lambda method, logins, close: asyncio.run(run(method, logins, close))


def _sync_round(url: str) -> Round:
    def run(method: str, logins: Sequence[Login], close: Close) -> Errors:
        errors, clients = Counter[str](), [Presence.from_url(url) for _ in logins]
        try:
            with ThreadPoolExecutor(OPEN) as pool:
                for client, login in zip(clients, logins, strict=True):
                    list(pool.map(client.validate, [login.token] * OPEN))
            close()
            for client, login in zip(clients, logins, strict=True):
                with _counted(errors):
                    CHANGES[method](client, login)
        finally:
            for client in clients:
                client.close()
        return errors

    return run


@contextmanager
def _counted(errors: Errors) -> Iterator[None]:
    try:
        yield
    except PresenceError as error:
        errors[f"{type(error).__name__}: {error}"] += 1


def _service_round(address: str, key: str) -> Round:
    def run(method: str, logins: Sequence[Login], close: Close) -> Errors:
        errors = Counter[str]()
        with ThreadPoolExecutor(OPEN) as pool:
            body = {"token": logins[0].token}
            list(pool.map(lambda _: _ask(address, key, "POST", "/v1/validate", body), range(OPEN)))
        close()
        for login in logins:
            status, answer = _ask(address, key, *_http(method, login))
            if status >= 400:
                errors[f"{status} {answer[:200]}"] += 1
        return errors

    return run


def _http(method: str, login: Login) -> tuple[str, str, dict[str, Any] | None]:
    uid, token = login.session.uid, login.token
    session, block = f"/v1/users/{uid}/sessions/{login.session.session_id}", f"/v1/users/{uid}/block"
    ways: dict[str, tuple[str, str, dict[str, Any] | None]] = {
        "login": ("POST", "/v1/sessions", {"uid": f"{uid}-more"}),
        "reauthenticated": ("POST", "/v1/reauthenticate", {"token": token}),
        "update": ("PATCH", session, {"attributes": {"cart": 3}}),
        "block": ("PUT", block, {"reason": "odd login"}),
        "unblock": ("DELETE", f"{block}?reason=cleared", None),
        "logout": ("DELETE", session, None),
    }
    return ways[method]


def _ask(address: str, key: str, verb: str, path: str, body: dict[str, Any] | None) -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
