"""A clock of Redis that jumps ends no session: the worker pauses, reports it, and continues when the clock is right."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from presence_core import LoginRefused, Worker
from presence_core.worker import clock_check, loop
from presence_core.worker.duties import Duty
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.workers import Own, look_at_clocks, work


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Own:
    return Own(monkeypatch)


@pytest.mark.parametrize("jump", [3600, -3600, 400 * 86_400])
def test_a_clock_jump_pauses_the_sweep_and_ends_no_session_until_it_is_right_again(
    p: P, own: Own, jump: int
) -> None:  # fmt: skip
    p.freeze()
    p.login_many({"uid": f"u{number}"} for number in range(50))
    at_work = Worker(p)
    work(at_work)
    own.elapse(p, 5)
    p.advance(jump)
    work(at_work)
    way = "forward" if jump > 0 else "back"
    assert at_work.paused.startswith(f"Redis's clock went {way} by {abs(jump)} s")
    assert at_work.leads
    assert at_work.last_error is None
    assert len(p.history(p.clock.ms / 1000 - 15, step=10)) == 1, "samples go on"
    own.elapse(p, 100)
    work(at_work)
    status = p.worker_status()
    assert status is not None
    assert status.alive
    assert status.paused == at_work.paused
    assert p.counts().totals["expired"] == 0
    p.advance(-jump)
    work(at_work)
    assert at_work.paused == ""
    status = p.worker_status()
    assert status is not None
    assert status.paused == ""
    assert p.counts().sessions == 50
    own.elapse(p, 3600)
    work(at_work)
    assert p.counts().totals["expired"] == 50


@on("valkey-sync", "cluster-async")
def test_a_clock_may_be_corrected_by_up_to_half_the_idle_timeout(bed: Bed, own: Own) -> None:
    p = bed.connect(idle_timeout=600)
    p.freeze()
    at_work = Worker(p)
    for jump in (299, -299, 299, 299):
        work(at_work)
        p.advance(jump)
    work(at_work)
    assert at_work.paused == ""
    p.advance(301)
    work(at_work)
    assert at_work.paused


@on("valkey-sync")
def test_a_machine_that_was_suspended_does_not_report_a_jump(bed: Bed, own: Own) -> None:
    p = bed.connect()
    p.freeze()
    p.login("ada")
    at_work = Worker(p)
    work(at_work)
    own.elapse(p, 8 * 3600)
    work(at_work)
    assert at_work.paused == ""
    assert p.counts().totals["expired"] == 1


def test_a_new_leader_notices_a_jump_that_happened_before_it(bed: Bed, own: Own) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    p.login("ada")
    first = Worker(p)
    work(first, first)
    own.elapse(p, 60)
    p.advance(7200)
    second = Worker(q)
    work(second)
    assert second.leads
    assert second.paused.startswith("Redis's clock went forward by 7200 s")
    second._leave()
    third = Worker(p)
    work(third, third)
    assert third.paused, "each learns from the last that found it right"
    assert p.counts().totals["expired"] == 0
    p.advance(-7200)
    work(third)
    assert third.paused == ""


@pytest.mark.parametrize("leads", [True, False])
def test_an_operator_may_accept_the_new_clock(bed: Bed, own: Own, leads: bool) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    p.login("ada")
    first = Worker(p)
    work(first, first)
    p.advance(7200)
    work(first)
    assert first.paused
    if leads:
        first._leave()
    second = Worker(q, accept_clock=True)
    work(second, first)
    assert second.leads == leads
    assert first.paused == second.paused == ""
    assert p.counts().totals["expired"] == 1
    third = Worker(p)
    p.advance(20)
    work(third)
    assert third.paused == "", "nor do those that come later take it for a jump"


def test_the_workers_own_clock_never_goes_back() -> None:
    first = clock_check.own_seconds()
    time.sleep(0.01)
    assert 0.01 <= clock_check.own_seconds() - first < 5


@on("valkey-sync")
def test_a_duty_waits_for_its_time_and_most_wait_while_the_clock_is_wrong(bed: Bed, own: Own) -> None:
    p = bed.connect()
    p.freeze()
    done: list[str] = []
    at_work = Worker(p)
    at_work._duties += [
        Duty("rare", lambda: done.append("rare"), every=3600),
        Duty("steady", lambda: done.append("steady"), while_paused=True),
    ]
    at_work._turn()
    at_work._turn()
    assert done == ["rare", "steady", "steady"]
    at_work._duties.append(Duty("unfinished", lambda: True, while_paused=True))
    assert at_work._turn() == 0.0, "there is more to do"
    del at_work._duties[-1]
    p.advance(7200)
    done.clear()
    work(at_work)
    assert done == ["steady"]


# -- an answer that said "expired" -------------------------------------------------------------------------------------


def reported_expired(p: P) -> dict[str, Any]:
    """Visitors who learn that their session has expired, each by another call; and their tokens."""
    held: dict[str, Any] = {}
    for way in ("validate", "untouched", "by id", "heartbeat", "heartbeats", "rotate", "login", "get"):
        held[way] = p.login(way, session_id="session-1", idle_timeout=60)
    held["absolute"] = p.login("absolute", session_id="session-1", idle_timeout=60, absolute_timeout=60)
    return held


def tell_them(p: P, held: dict[str, Any]) -> None:
    assert not p.validate(held["validate"].token)
    assert not p.validate(held["untouched"].token, touch=False)
    assert not p.validate_session("by id", "session-1")
    assert not p.heartbeat("heartbeat", "session-1")
    assert p.heartbeats(["heartbeats:session-1", "stays:session-1"]) == ["heartbeats:session-1"]
    with pytest.raises(LoginRefused):
        p.rotate(held["rotate"].token)
    with pytest.raises(LoginRefused):
        p.login("login", session_id="session-1", idle_timeout=60)
    assert p.get("get", "session-1") is None
    assert not p.validate(held["absolute"].token)


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_a_session_reported_as_expired_is_not_live_again_when_the_clock_goes_back(p: P, own: Own) -> None:
    start = p.freeze()
    held, stays = reported_expired(p), p.login("stays", session_id="session-1")
    at_work = Worker(p)
    look_at_clocks(at_work)
    own.elapse(p, 61)
    look_at_clocks(at_work)
    tell_them(p, held)
    assert p.counts().totals["expired"] == len(held)
    p.set_now(start)
    for way, login in held.items():
        ended = p.validate(login.token).ended
        assert ended is not None, way
        cause = "absolute" if way == "absolute" else "idle"
        assert (ended.reason, ended.cause, ended.at) == ("expired", cause, login.session.expires_at)
    assert p.validate(stays.token)
    p.set_now(start + 61_000)
    tell_them(p, held)
    assert p.sweep().expired == 0
    assert p.counts().totals["expired"] == len(held), "each is counted once"


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_while_the_clock_is_wrong_no_read_ends_a_session(p: P, bed: Bed, own: Own) -> None:
    start = p.freeze()
    held, stays = reported_expired(p), p.login("stays", session_id="session-1", idle_timeout=80_000)
    at_work = Worker(p)
    look_at_clocks(at_work)
    p.set_now(start + 3_600_000)
    sessions = bed.families()["session:"]
    for _ in range(2):  # before the worker has noticed, and after
        tell_them(p, held)
        assert {session.uid for session in p.list_sessions()} == {"stays"}
        assert p.sessions("by id") == []
        assert not p.is_online("rotate")
        look_at_clocks(at_work)
        assert at_work.paused
    assert p.counts().totals["expired"] == 0
    assert bed.families()["session:"] == sessions
    p.set_now(start)
    look_at_clocks(at_work)
    assert all(p.validate(login.token) for login in held.values())
    assert p.validate(stays.token)


@on("valkey-sync", "redis7-async")
def test_without_a_worker_an_expired_session_may_be_live_again_until_a_sweep_ends_it(p: P) -> None:
    start = p.freeze()
    first, second = p.login("ada", idle_timeout=60), p.login("bob", idle_timeout=60)
    p.advance(61)
    assert not p.validate(first.token)
    p.set_now(start)
    assert p.validate(first.token)
    p.advance(61)
    assert p.sweep().expired == 2
    p.set_now(start)
    assert not p.validate(first.token)
    assert not p.validate(second.token)


@on("valkey-sync", "redis7-async")
def test_a_worker_vouches_for_the_clock_only_for_a_short_time(p: P, own: Own) -> None:
    p.freeze()
    first, second = p.login("ada", idle_timeout=60), p.login("bob", idle_timeout=60)
    at_work = Worker(p)
    own.elapse(p, 61)
    look_at_clocks(at_work)
    own.elapse(p, 15)
    assert not p.validate(first.token)
    assert p.counts().totals["expired"] == 1
    own.elapse(p, 1)
    assert not p.validate(second.token)
    assert p.counts().totals["expired"] == 1, "the worker may be dead"
    look_at_clocks(at_work)
    assert not p.validate(second.token)
    assert p.counts().totals["expired"] == 2


@on("valkey-sync", "redis7-async")
def test_the_next_worker_vouches_for_the_clock_if_it_did_not_jump_in_between(
    bed: Bed, own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    logins = [p.login(f"u{number}", idle_timeout=60) for number in range(3)]
    first = Worker(p)
    look_at_clocks(first)
    own.elapse(p, 100)
    booted = own.ms - 5000
    for module in (clock_check, loop):  # a worker on another machine
        monkeypatch.setattr(module, "own_seconds", lambda: (own.ms - booted) / 1000)
    second = Worker(q)
    look_at_clocks(second)
    assert second.leads
    assert not second.paused
    assert not p.validate(logins[0].token)
    assert p.counts().totals["expired"] == 1
    own.elapse(p, 100)
    p.advance(3600)
    third = Worker(p)
    look_at_clocks(third)
    assert third.leads
    assert third.paused
    assert not p.validate(logins[1].token)
    assert p.counts().totals["expired"] == 1
    third._leave()
    look_at_clocks(Worker(p, accept_clock=True))
    assert not p.validate(logins[1].token)
    assert p.counts().totals["expired"] == 2


@on("cluster-sync", "cluster-async")
def test_on_a_cluster_the_clock_of_every_shard_counts(p: P, bed: Bed, own: Own) -> None:
    p.freeze()
    logins = [p.login(f"u{number}", idle_timeout=60) for number in range(20)]
    at_work = Worker(p)
    look_at_clocks(at_work)
    shard = p.context.shard("u7")
    true = int(bed.raw.hget(shard.meta, "good_from"))
    bed.raw.hset(shard.meta, "good_from", true - 3_600_000)  # as if that node's clock had since gone forward
    own.elapse(p, 61)
    work(at_work)
    assert at_work.paused.startswith("Redis's clock at ")
    assert "went forward by 3600 s" in at_work.paused
    assert not p.validate(logins[7].token)
    assert p.counts().totals["expired"] == 0
    bed.raw.hset(shard.meta, "good_from", true)
    work(at_work)
    assert at_work.paused == ""
    assert p.counts().totals["expired"] == 20
    bed.raw.hset(shard.meta, "good_from", true - 3_600_000)
    work(at_work)
    assert at_work.paused
    at_work._leave()
    other = Worker(p, accept_clock=True)
    work(other)
    assert other.paused == ""


@on("valkey-sync", "redis7-async")
def test_many_expirations_reported_during_a_sweep_are_each_counted_once(bed: Bed, own: Own) -> None:
    clients = [bed.connect() for _ in range(6)]
    p = clients[0]
    p.freeze()
    logins = [p.login(f"u{number}", idle_timeout=60) for number in range(60)]
    at_work = Worker(p)
    own.elapse(p, 61)
    look_at_clocks(at_work)

    def act(number: int) -> None:
        client = clients[number]
        if number == 5:
            client.sweep()
        for login in logins if number % 2 else logins[::-1]:
            assert not client.validate(login.token)
            assert not client.heartbeat(login.session.uid, login.session.session_id)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(act, range(6)))
    assert p.counts().totals["expired"] == 60
    expired = [(event.uid, event.session_id) for event in p.events(limit=1000) if event.kind == "expired"]
    assert len(expired) == len(set(expired)) == 60


@on("valkey-sync", "redis7-async")
def test_if_the_end_cannot_be_written_the_reply_is_the_same(bed: Bed, own: Own) -> None:
    p, silent = bed.connect(), bed.connect(heal=False)
    p.freeze()
    login = p.login("ada", idle_timeout=60)
    own.elapse(p, 61)
    look_at_clocks(Worker(p))
    before = bed.dump()
    answer = silent.validate(login.token).ended
    assert answer is not None
    assert (answer.reason, answer.cause) == ("expired", "idle")
    assert bed.dump() == before
    bed.raw.execute_command("ACL", "SETUSER", "default", "-xadd")
    try:
        assert not p.validate(login.token)
        assert not p.heartbeat("ada", login.session.session_id)
    finally:
        bed.raw.execute_command("ACL", "SETUSER", "default", "+xadd")
    assert bed.dump() == before
    assert not p.validate(login.token)
    assert p.counts().totals["expired"] == 1
