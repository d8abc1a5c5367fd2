"""Helpers of the outage tests: calls to make while Redis is down, and how they must fail."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from presence_core import Unavailable
from tests.support.facade import P
from tests.support.fair_clock import FairClock, ends
from tests.support.servers import Server

PASSWORD = "hunter2-do-not-tell"

READS: dict[str, Callable[[P, str], Any]] = {
    "validate": lambda p, token: p.validate(token),
    "heartbeat": lambda p, token: p.heartbeat("ada", "session-1"),
    "heartbeats": lambda p, token: p.heartbeats(["ada:session-1"]),
    "validate_session": lambda p, token: p.validate_session("ada", "session-1"),
    "get": lambda p, token: p.get("ada", "session-1"),
    "sessions": lambda p, token: p.sessions("ada"),
    "list_sessions": lambda p, token: p.list_sessions(),
    "counts": lambda p, token: p.counts(),
    "events": lambda p, token: p.events(),
    "sweep": lambda p, token: p.sweep(),
}
WRITES: dict[str, Callable[[P, str], Any]] = {
    "login": lambda p, token: p.login("ada"),
    "login_many": lambda p, token: p.login_many([{"uid": "ada"}]),
    "rotate": lambda p, token: p.rotate(token),
    "update": lambda p, token: p.update(token, attributes={"a": 1}),
    "update_session": lambda p, token: p.update_session("ada", "session-1", name="New"),
    "logout": lambda p, token: p.logout("ada", "session-1"),
    "kick": lambda p, token: p.kick("ada", "session-1", by="staff", reason="test"),
}


def failure(call: Callable[[], Any], *, within: float = 10) -> Unavailable:
    """How a call fails. ``within``: see ``ends``."""
    with ends(within=within), pytest.raises(Unavailable) as caught:
        call()
    return caught.value


def names_the_server(error: Unavailable, server: Server) -> None:
    assert error.server == f"127.0.0.1:{server.port}"
    assert f"127.0.0.1:{server.port}" in str(error)
    everything = "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__)
    assert PASSWORD not in everything


def all_at_once(calls: dict[str, Callable[[], Any]], *, within: float = 10, after: float = 0) -> dict[str, Unavailable]:
    """The failure of each call; all run at once, each with its own time limit in seconds."""

    def fail(call: Callable[[], Any]) -> Unavailable:
        with clock.limit(within, after), pytest.raises(Unavailable) as caught:
            call()
        return caught.value

    with FairClock() as clock, ThreadPoolExecutor(len(calls)) as threads:
        return dict(zip(calls, threads.map(fail, calls.values()), strict=True))


def calls(p: P, token: str) -> dict[str, Callable[[], Any]]:
    return {name: partial(call, p, token) for name, call in (READS | WRITES).items()}
