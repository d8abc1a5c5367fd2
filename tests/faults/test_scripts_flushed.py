"""Another program flushes the scripts of Redis again and again: they are loaded again, and no change is made twice."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from redis.exceptions import NoScriptError

from presence_core import Presence, Settings, Unavailable
from presence_core.scripts.calls import Call, call_of, wait
from presence_core.scripts.maintenance import SETTLE_SESSIONS
from presence_core.scripts.script import AnyScript
from presence_core.scripts.sessions import END_SESSIONS, LOGIN, READ_SESSIONS
from presence_core.transport.exchange import Pause, Send, exchange
from tests.conftest import Bed, on

GONE = NoScriptError("No matching script")


@on("redis7-sync", "valkey-async", "cluster-sync")
def test_scripts_that_are_flushed_all_the_time_block_no_call_and_make_every_change_once(bed: Bed) -> None:
    p = bed.connect()
    p.login("first")
    stopping, flushes = threading.Event(), [0]

    def flush() -> None:
        while not stopping.is_set():
            bed.raw.script_flush()
            flushes[0] += 1

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        names = [f"u{n}" for n in range(4)]
        for uid in names:
            token = p.login(uid, session_id="session-1").token
            assert p.validate(token)
        assert len(p.login_many({"uid": uid, "session_id": "session-2"} for uid in names)) == 4
        for uid in names:
            assert [len(p.kick(uid, by="staff", reason="test").kicked) for _ in range(2)] == [2, 0]
    finally:
        stopping.set()
        thread.join()
    assert flushes[0] > 10
    totals = p.counts().totals
    assert (totals["login"], totals["kicked"]) == (9, 8)


def _calls() -> list[Call]:
    key = "{online:1:0}:sessions"
    scripts: tuple[AnyScript, ...] = (LOGIN, END_SESSIONS, READ_SESSIONS, SETTLE_SESSIONS)
    made = [call_of(script, (key,), **dict.fromkeys(script.args, "")) for script in scripts]
    return [*made, wait(key, 1, 100)]


def _flow(calls: list[Call], timeout: float = 2.0) -> Any:
    return exchange(Presence.from_url("redis://127.0.0.1:1", Settings())._transport._router, calls, timeout)


def _sent(step: Send | Pause) -> list[Call]:
    assert isinstance(step, Send)
    return step.groups[0][1]


def test_of_a_batch_flushed_twice_only_the_calls_that_did_not_run_are_repeated_in_order() -> None:
    login, finish, read, tidy, waits = calls = _calls()
    flow = _flow(calls)
    assert _sent(next(flow)) == calls
    step = flow.send([[b"login", GONE, GONE, GONE, 0]])
    assert _sent(step)[-4:] == [finish, read, tidy, waits]
    loads = len(_sent(step)) - 4
    assert login not in _sent(step)
    step = flow.send([[b"sha"] * loads + [b"finish", GONE, b"too early", 1]])  # flushed again, and loaded by another
    assert _sent(step)[1:] == [read]
    assert _sent(step)[0].words[:2] == ("SCRIPT", "LOAD")
    step = flow.send([[b"sha", GONE]])
    assert _sent(step)[1:] == [read]
    step = flow.send([[b"sha", b"read"]])
    assert _sent(step)[1:] == [tidy, waits]
    with pytest.raises(StopIteration) as stop:
        flow.send([[b"sha", b"tidy", 1]])
    # The confirmation of one connection says nothing about writes on another: not confirmed.
    assert stop.value.value == [b"login", b"finish", b"read", b"tidy", 0]


def test_scripts_flushed_for_longer_than_the_time_limit_are_an_outage() -> None:
    calls = _calls()[:1]
    flow = _flow(calls, timeout=0.0)
    next(flow)
    loads = len(_sent(flow.send([[GONE]]))) - 1
    with pytest.raises(Unavailable, match=r"SCRIPT FLUSH.*try again") as refused:
        flow.send([[b"sha"] * loads + [GONE]])
    assert refused.value.code == "NOSCRIPT"
