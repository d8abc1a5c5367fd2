"""A clock of Redis's that jumps ends nobody: the worker pauses, says so, and goes on when the clock is right."""

from __future__ import annotations

import time

import pytest

from presence_core import Worker, worker
from presence_core.worker import Duty
from tests.conftest import Bed, on
from tests.facade import P
from tests.workers import Own, work


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Own:
    return Own(monkeypatch)


@pytest.mark.parametrize("jump", [3600, -3600, 400 * 86_400])
def test_a_jump_of_the_clock_pauses_the_sweep_and_ends_nobody_until_it_is_right_again(
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
def test_up_to_half_the_idle_timeout_a_clock_may_be_put_right(bed: Bed, own: Own) -> None:
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
def test_a_machine_that_slept_does_not_take_it_for_a_jump(bed: Bed, own: Own) -> None:
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


def test_own_seconds_go_on_and_never_back() -> None:
    first = worker._own_seconds()
    time.sleep(0.01)
    assert 0.01 <= worker._own_seconds() - first < 5


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
