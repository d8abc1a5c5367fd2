"""Timeouts of all sessions that match a filter: what the preview says is what then happens, to these sessions alone."""

from __future__ import annotations

import time
from typing import Any

import pytest

from presence_core import InvalidArgument, SessionFilter, TimeoutsChange, Unavailable, Worker
from presence_core.models.staff import predict
from presence_core.operations.bulk_kick import bulk_timeouts, runner
from presence_core.operations.bulk_kick.jobs import KNOWN_NEEDS
from presence_core.operations.bulk_kick.runner import Run
from presence_core.scripts.staff import CHANGE_TIMEOUTS
from tests.conftest import Bed, every_topology, on
from tests.contract.bulk_kick.test_jobs import Held, steps
from tests.support.facade import P
from tests.support.workers import work

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "kiosks"}
PHONES = SessionFilter(device="phone")


def crowd(p: P, number: int, **login: Any) -> None:
    p.login_many([{"uid": f"u{n}", "session_id": f"session-{n}", "device": "phone", **login} for n in range(number)])


def idle(p: P) -> dict[str, int]:
    return {session.uid: session.idle_timeout for session in p.iter_sessions()}


def test_the_preview_says_what_the_change_then_does(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 2)
    p.freeze()
    for n, seconds in enumerate((60, 300, 600, 900, 1200)):
        p.login(f"u{n}", session_id=f"session-{n}", device="phone", idle_timeout=seconds)
    p.login("desk", device="desk")
    p.advance(50)
    preview = p.preview_timeouts(PHONES, idle_timeout=300)
    assert (preview.total, preview.read, preview.shortened, preview.lengthened, preview.ended) == (5, 5, 3, 1, 0)
    expected = {session.uid: predict(session, 300, None, 60).expires_at for session in p.iter_sessions(PHONES)}
    seen: list[TimeoutsChange] = []
    change = p.change_timeouts_where(preview.filter, idle_timeout=300, expected=5, **BY, on_progress=seen.append)
    assert (change.total, change.matched, change.shortened, change.lengthened, change.changed) == (5, 5, 3, 1, 4)
    assert [part.matched for part in seen] == [2, 4, 5]
    assert seen[-1] == change
    assert idle(p) == {**{f"u{n}": 300 for n in range(5)}, "desk": 1800}
    assert {session.uid: session.expires_at for session in p.iter_sessions(PHONES)} == expected
    assert p.repair().repaired == 0


@every_topology
def test_a_session_that_is_older_than_its_new_timeout_ends_as_expired(p: P) -> None:
    p.freeze()
    crowd(p, 3)
    p.advance(600)
    crowd_later = p.login("late", device="phone")
    preview = p.preview_timeouts(PHONES, absolute_timeout=300)
    assert (preview.shortened, preview.ended) == (4, 3)
    change = p.change_timeouts_where(PHONES, absolute_timeout=300, expected=4, **BY)
    assert (change.shortened, change.ended) == (4, 3)
    assert [session.uid for session in p.iter_sessions()] == ["late"]
    assert p.validate(crowd_later.token)
    p.sweep()
    assert {end.reason for end in p.ended().items} == {"expired"}


def start(p: P, filter: SessionFilter = PHONES, **given: Any) -> Run:
    """A job of this process, before its first step."""
    token = p.context.new_id()
    options = {"absolute_timeout": None, "only_shorten": False, "ticket": None, "pace": None, **BY, **given}
    return Run(p.context, p.internal.run(bulk_timeouts.start(p.context, filter, **options, token=token)).id, token)


@every_topology
def test_a_page_that_is_repeated_after_a_crash_changes_and_counts_no_session_twice(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH", 2)
    crowd(p, 5)
    first = start(p, idle_timeout=60, expected=5)
    steps(first, p, 1)  # it dies before it has stored its position
    assert sorted(idle(p).values()) == [60, 60, 1800, 1800, 1800]
    p.advance(10)
    result = p.run_job(first.id)
    assert result.job is not None
    assert (result.job.kind, result.job.state, result.count, result.kicked) == ("timeouts", "done", 5, [])
    assert set(idle(p).values()) == {60}
    again = p.change_timeouts_where(PHONES, idle_timeout=60, expected=5, **BY)
    assert (again.matched, again.changed, again.job and again.job.kicked) == (5, 0, 0)
    assert p.repair().repaired == 0


@every_topology
def test_a_worker_runs_a_change_that_was_only_started(p: P) -> None:
    crowd(p, 30)
    job = p.start_timeouts(PHONES, idle_timeout=60, absolute_timeout=7200, only_shorten=True, expected=30, ticket="T-1",
                           **BY)  # fmt: skip
    assert (job.kind, job.idle_timeout, job.absolute_timeout, job.only_shorten, job.ticket) == (
        "timeouts", 60, 7200, True, "T-1"
    )  # fmt: skip
    assert [listed.id for listed in p.jobs()] == [job.id]
    assert set(idle(p).values()) == {1800}
    at_work = Worker(p)
    while not (p.job(job.id) or job).done:
        work(at_work)
    at_work._leave()
    now = p.job(job.id)
    assert now is not None
    assert (now.state, now.kicked, set(idle(p).values())) == ("done", 30, {60})


def test_once_a_pause_has_returned_a_change_under_way_changes_nothing(bed: Bed) -> None:
    p = bed.connect()
    crowd(p, 3)
    run = start(p, idle_timeout=60, expected=3)
    held = Held(p, run.step(), CHANGE_TIMEOUTS)
    assert p.pause_job(run.id, by="Bob").state == "paused"
    held.wake()
    assert (set(idle(p).values()), run.has_claim) == ({1800}, False)
    assert p.resume_job(run.id, by="Bob").state == "running"
    assert p.run_job(run.id).count == 3
    assert set(idle(p).values()) == {60}
    assert [entry.action for entry in p.audit()] == [
        f"change_timeouts_where{part}" for part in ("", "_resume", "_pause", "_start")
    ]


def test_a_process_of_a_version_without_such_jobs_leaves_them_to_a_newer_one(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(p, 2)
    job = p.start_timeouts(PHONES, idle_timeout=60, expected=2, **BY)
    monkeypatch.setattr(runner, "KNOWN_NEEDS", KNOWN_NEEDS.replace(" timeouts ", " "))
    with pytest.raises(InvalidArgument, match="names a job of a newer version"):
        p.run_job(job.id)
    monkeypatch.undo()
    assert set(idle(p).values()) == {1800}
    assert p.run_job(job.id).count == 2


def test_with_only_shorten_each_session_that_would_live_longer_is_left_alone(p: P) -> None:
    for n, seconds in enumerate((60, 600)):
        p.login(f"u{n}", device="phone", idle_timeout=seconds)
    change = p.change_timeouts_where(PHONES, idle_timeout=300, expected=2, only_shorten=True, **BY)
    assert (change.matched, change.shortened, change.lengthened, change.skipped) == (2, 1, 0, 1)
    assert idle(p) == {"u0": 60, "u1": 300}
    assert change.job is not None
    assert p.audit().items[0].outcome == f"job {change.job.id}: timeouts of 1 of 2 sessions changed"


@every_topology
def test_if_more_match_than_expected_nothing_happens_or_it_stops_there(
    p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(p, 5)
    with pytest.raises(InvalidArgument, match="must be at least 5") as refused:
        p.change_timeouts_where(PHONES, idle_timeout=60, expected=4, **BY)
    assert (refused.value.field, refused.value.code) == ("expected", "more_match")
    assert set(idle(p).values()) == {1800}
    assert p.audit().items == []

    monkeypatch.setattr(runner, "BATCH", 2)
    run = start(p, idle_timeout=60, expected=5)
    bed.raw.hset(p.context.keys.shards[0].job(run.id), "expected", 3)  # as if two more had begun to match
    while not run.over:
        steps(run, p, 1)
    assert run.job is not None
    assert (run.job.state, run.job.error_code, run.job.kicked) == ("failed", "more_match", 3)
    assert run.job.error == "More sessions match than the 3 that were expected: the rest was not changed."
    assert sorted(idle(p).values()) == [60, 60, 60, 1800, 1800]
    assert "timeouts of 3 of 5 sessions changed, then it failed" in p.audit().items[0].outcome


def test_sessions_that_begin_after_the_preview_are_left_alone_also_with_the_id_of_one_that_matched(bed: Bed) -> None:
    p = bed.connect(keep_logout=0)
    p.login("ada", device="phone", session_id="session-1")
    preview = p.preview_timeouts(PHONES, idle_timeout=60)
    p.advance(1)
    p.login("bob", device="phone")
    run = start(p, preview.filter, idle_timeout=60, expected=1)
    held = Held(p, run.step(), CHANGE_TIMEOUTS)
    p.logout("ada", "session-1")
    p.advance(1)
    p.login("ada", device="phone", session_id="session-1")
    held.wake()
    assert (run.over, run.change.matched, run.change.changed) == (True, 1, 0)
    assert idle(p) == {"ada": 1800, "bob": 1800}


def test_idle_sessions_are_those_idle_when_it_began(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 1)
    p.freeze()
    p.login("old", device="phone")
    p.advance(50)
    p.login("new", device="phone")
    p.advance(50)
    change = p.change_timeouts_where(SessionFilter(idle_for=100), absolute_timeout=7200, expected=9, **BY,
                                     on_progress=lambda _: p.advance(60))  # fmt: skip
    assert (change.total, change.changed) == (1, 1)


def test_the_audit_has_the_filter_and_the_count_before_the_first_change_and_the_outcome_after_the_last(p: P) -> None:
    crowd(p, 2)
    change = p.change_timeouts_where(PHONES, idle_timeout=60, absolute_timeout=7200, expected=3, **BY)
    end, begin = p.audit().items
    filter = f"filter {change.filter.to_json()}"
    assert (begin.action, end.action) == ("change_timeouts_where_start", "change_timeouts_where")
    assert change.job is not None
    assert begin.outcome == (
        f"job {change.job.id}: 2 sessions match, timeouts of at most 3 may change, idle timeout 60 s, "
        f"absolute timeout 7200 s, {filter}"
    )
    assert end.outcome == f"job {change.job.id}: timeouts of 2 of 2 sessions changed"
    assert {(entry.by, entry.reason, entry.uid) for entry in (begin, end)} == {("Grace Hopper", "kiosks", None)}


def test_the_erasure_of_a_person_also_rewrites_the_filter_in_the_audit(p: P) -> None:
    p.login("ada", name="Ada Lovelace", device="phone")
    p.change_timeouts_where(SessionFilter(text="Ada Lovelace"), idle_timeout=60, expected=1, **BY)
    report = p.erase("ada", by="sam", reason="asked")
    assert report.complete
    outcomes = [entry.outcome for entry in p.audit().items if entry.action.startswith("change_timeouts_where")]
    assert len(outcomes) == 2
    assert report.pseudonym in outcomes[1]
    [job] = p.jobs()
    assert not [text for text in (*outcomes, job.filter.to_json()) if "Lovelace" in text]


def test_while_redis_is_away_the_error_says_that_the_job_is_kept(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(p, 3)
    monkeypatch.setattr(runner, "BATCH", 2)

    def step(self: Run) -> Any:
        if self.job and self.job.kicked:
            raise Unavailable("no reply")
        return (yield from steps_of(self))

    steps_of = Run.step
    monkeypatch.setattr(Run, "step", step)
    with pytest.raises(Unavailable) as failed:
        p.change_timeouts_where(PHONES, idle_timeout=60, expected=3, **BY)
    [job] = p.jobs()
    assert failed.value.__notes__ == [f"Job {job.id} is kept: a worker or run_job continues it; cancel_job ends it."]


@on("valkey-sync", "valkey-async")
def test_the_requested_pace_is_kept(p: P) -> None:
    crowd(p, 30)
    p.clock.run_freely()
    begin = time.monotonic()
    assert p.change_timeouts_where(PHONES, idle_timeout=60, expected=30, pace=20, **BY).changed == 30
    assert time.monotonic() - begin > 0.9, "two batches of ten went before the last"
