"""kick_where: the filter is frozen, the job is stored in Redis, and each session is ended and counted once by any
runner."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from presence_core import (
    CorruptData,
    InvalidArgument,
    Job,
    KickPreview,
    KickResult,
    Login,
    Presence,
    SessionFilter,
    Settings,
    Worker,
)
from presence_core.operations.bulk_kick import runner
from presence_core.operations.bulk_kick.runner import Run
from presence_core.scripts.bulk_kick import KICK_SESSIONS
from presence_core.scripts.calls import Call, Op
from presence_core.scripts.script import AnyScript
from presence_core.scripts.search import WALK_SESSIONS
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.workers import until, work

PHONES = SessionFilter(device="phone")
BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "stolen keys", "message": "Log in again.", "ticket": "T-4711"}


def crowd(p: P, phones: int, desks: int = 0) -> list[str]:
    """Log in users with one session each; returns the refs of those on phones. A millisecond passes."""
    p.freeze()
    rows = [{"uid": f"u{n}", "device": "phone"} for n in range(phones)]
    rows += [{"uid": f"v{n}", "device": "desk"} for n in range(desks)]
    logins = p.login_many(rows)
    p.advance(0.001)
    return [login.session.ref for login in logins[:phones] if isinstance(login, Login)]


def steps(run: Run, p: P, number: int) -> None:
    for _ in range(number):
        p.internal.run(run.step())


def _send(calls: list[Call]) -> Op[list[Any]]:
    return (yield calls)


class Held:
    """An operation that stops before its next call of one script."""

    def __init__(self, p: P, operation: Op[Any], script: AnyScript) -> None:
        self._p, self._operation, self._script = p, operation, script
        self.calls = next(operation)
        while all(call.script is not script for call in self.calls):
            self.calls = operation.send(p.internal.run(_send(self.calls)))

    def send(self) -> list[Any]:
        """Send only this batch of calls, as if it had waited in a socket's buffer; returns the replies."""
        return self._p.internal.run(_send(self.calls))

    def send_script(self) -> list[Any]:
        """The same; returns only the replies of the script."""
        return [reply for call, reply in zip(self.calls, self.send(), strict=True) if call.script is self._script]

    def wake(self) -> None:
        """Run the operation to its end."""
        with contextlib.suppress(StopIteration):
            while True:
                self.calls = self._operation.send(self.send())

    def die(self) -> None:
        self._operation.close()


def kicked(p: P) -> int:
    return p.counts().totals["kicked"]


def kicked_events(p: P) -> list[str]:
    """Refs of the `kicked` events."""
    out, cursor = [], None
    while events := p.events(after=cursor, limit=1000):
        out += [f"{event.uid}:{event.session_id}" for event in events if event.kind == "kicked"]
        cursor = events[-1].cursor
    return out


def sync_client(bed: Bed) -> Presence:
    """A client that a callback may call, also on the event loop."""
    return Presence.from_url(bed.url, Settings(namespace=bed.namespace, timeout=PATIENT))


# -- the question -----------------------------------------------------------------------------------------------------


@every_topology
def test_a_preview_freezes_the_filter_and_counts_exactly(p: P) -> None:
    crowd(p, 30, 5)
    preview = p.preview_kick(PHONES)
    assert isinstance(preview, KickPreview)
    assert (preview.total, preview.as_of) == (30, p.clock.now)
    assert preview.filter == SessionFilter(device="phone", logged_in_before=p.clock.now)
    p.login("late", device="phone")
    p.advance(5)
    again = p.preview_kick(preview.filter)
    assert (again.filter, again.total) == (preview.filter, 30)
    assert p.preview_kick(PHONES).total == 31
    early = SessionFilter(device="phone", logged_in_before=1e9)
    assert p.preview_kick(early) == KickPreview(early, 0, p.clock.now)


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_a_login_in_the_millisecond_of_the_preview_is_kicked_if_earlier_and_spared_if_later(p: P) -> None:
    p.freeze()
    for number in range(10):
        before = p.login(f"u{number}", device="phone")
        preview = p.preview_kick(PHONES)
        assert preview.total == 1
        late = p.login(f"v{number}", device="phone")
        assert p.kick_where(preview.filter, **BY, expected=1).count == 1
        assert not p.validate(before.token)
        assert p.validate(late.token)
        assert p.kick_where(PHONES, **BY, expected=1).count == 1
        assert not p.validate(late.token)


def test_a_login_after_the_preview_is_spared(p: P) -> None:
    crowd(p, 30, 5)
    preview = p.preview_kick(PHONES)
    late = p.login("late", device="phone")
    again = p.login("u3", device="phone")
    p.advance(60)
    result = p.kick_where(preview.filter, **BY, expected=preview.total)
    assert isinstance(result, KickResult)
    assert (result.count, len(result.kicked), kicked(p)) == (30, 30, 30)
    assert {session.uid for session in result.kicked} == {f"u{n}" for n in range(30)}
    assert p.validate(late.token)
    assert p.validate(again.token)
    assert p.counts().sessions == 7
    assert result
    assert not p.kick_where(preview.filter, **BY, expected=0)


@every_topology
def test_a_job_that_matches_more_than_expected_is_refused_and_kicks_none(p: P) -> None:
    crowd(p, 12)
    with pytest.raises(
        InvalidArgument, match=r"^expected must be at least 12: that many sessions match now, and 11 were expected\.$"
    ):
        p.kick_where(PHONES, **BY, expected=11)
    with pytest.raises(InvalidArgument):
        p.start_kick(PHONES, **BY, expected=0)
    assert p.jobs().items == []
    assert p.audit().items == []
    assert kicked(p) == 0


@every_topology
def test_excluded_users_are_neither_counted_nor_kicked(p: P) -> None:
    refs = crowd(p, 30, 5)
    desk = p.sessions("v1")[0].ref
    spared = [*refs[:7], refs[0], desk, "absent:no-such-session", "a:b:no-such-session"]
    assert p.preview_kick(PHONES, exclude=spared).total == 23
    with pytest.raises(InvalidArgument, match="at least 23"):
        p.kick_where(PHONES, **BY, expected=22, exclude=spared)
    result = p.kick_where(PHONES, **BY, expected=23, exclude=iter(spared))
    assert result.count == 23
    assert {session.ref for session in p.list_sessions(PHONES)} == set(refs[:7])


@on("valkey-sync", soak=("cluster-async",))
def test_at_most_ten_thousand_users_may_be_excluded(p: P) -> None:
    refs = crowd(p, 450)
    exclude = refs[:-5] + [f"nobody{n}:session-{n}" for n in range(10_000 - 445)]
    assert p.preview_kick(PHONES, exclude=exclude).total == 5
    assert p.kick_where(PHONES, **BY, expected=5, exclude=exclude).count == 5
    with pytest.raises(InvalidArgument, match=r"^exclude must be at most 10000 refs\.$"):
        p.preview_kick(PHONES, exclude=[*exclude, "x:session-1"])


def test_an_empty_filter_is_refused(p: P) -> None:
    anybody: list[Any] = [None, SessionFilter(), SessionFilter(attributes={}), SessionFilter(idle_for=0)]
    for value in anybody:
        for method, options in (("preview_kick", {}), ("kick_where", BY), ("start_kick", BY)):
            given = options | {"expected": 5} if options else {}
            with pytest.raises(InvalidArgument, match=r"^filter must have at least one field: use revoke_before"):
                getattr(p, method)(value, **given)


def test_a_filter_for_future_logins_is_refused(p: P) -> None:
    crowd(p, 3)
    now = p.clock.ms / 1000
    for after in (now, now + 60):
        with pytest.raises(InvalidArgument, match=r"^logged_in_after must lie in the past: .* have begun\.$"):
            p.kick_where(SessionFilter(logged_in_after=after), **BY, expected=5)
    assert p.preview_kick(SessionFilter(logged_in_after=now - 0.001)).total == 3
    assert p.kick_where(SessionFilter(logged_in_after=0.001), **BY, expected=3).count == 3


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_idle_sessions_are_those_idle_when_the_job_began(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 5)
    p.freeze()
    p.login_many([{"uid": f"old{n}"} for n in range(10)])
    p.advance(50)
    p.login_many([{"uid": f"new{n}"} for n in range(10)])
    p.advance(50)
    job = p.start_kick(SessionFilter(idle_for=100), **BY, expected=100)
    assert job.total == 10
    p.advance(60)  # now the others are idle for as long
    assert p.run_job(job.id).count == 10
    assert {session.uid[:3] for session in p.iter_sessions()} == {"new"}


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_sessions_seen_within_some_seconds_are_those_of_the_begin_of_the_job(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH", 5)
    p.freeze()
    p.login_many([{"uid": f"old{n}"} for n in range(10)])
    p.advance(50)
    p.login_many([{"uid": f"new{n}", "methods": ["pwd"]} for n in range(10)])
    p.advance(30)
    recent = SessionFilter(seen_within=30, mfa=False, without=SessionFilter(idle_for=31))
    assert p.preview_kick(recent).total == 10
    job = p.start_kick(recent, **BY, expected=10, delay=60)
    p.advance(60)  # now all were last seen before that
    assert p.count_sessions(recent) == 0
    assert p.run_job(job.id).count == 10
    assert {session.uid[:3] for session in p.iter_sessions()} == {"old"}


@every_topology
def test_a_bulk_kick_takes_every_condition_of_the_sign_in_and_of_the_version(p: P) -> None:
    for version, methods in (("2.9", ["pwd"]), ("2.10", ["pwd"]), ("2.9", ["pwd", "otp"]), (None, ["pwd"])):
        p.login(f"{version}-{len(methods)}", app_version=version, methods=methods)
    p.login("keep", app_version="1.0", methods=["pwd"])
    asked = SessionFilter(app_version_below="2.10", methods=["pwd"], mfa=False, without=SessionFilter(uid="keep"))
    assert p.preview_kick(asked).total == 1
    result = p.kick_where(asked, **BY, expected=1)
    assert [session.uid for session in result.kicked] == ["2.9-1"]
    [job] = p.jobs()
    assert job.filter.without == asked.without
    assert (job.filter.methods, job.filter.mfa) == (("pwd",), False)


# -- what it does -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [PHONES, SessionFilter(text="u"), SessionFilter(name_prefix="Per"), SessionFilter(ip="192.0.2.0/24"),
     SessionFilter(name_contains="erso"), SessionFilter(attributes={"tenant": "acme"}),
     SessionFilter(logged_in_after=5)],
    ids=lambda asked: asked.given[0],
)  # fmt: skip
@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_each_match_is_ended_and_counted_once_with_any_index(
    p: P, asked: SessionFilter, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "BATCH", 20)
    p.freeze()
    rows: list[dict[str, Any]] = [
        {"uid": f"u{n}", "name": f"Some Person {n}", "device": "phone", "ip": f"192.0.2.{n}",
         "attributes": {"tenant": "acme"}, "login_at": p.clock.ms / 1000 - n % 7}
        for n in range(130)
    ]  # fmt: skip
    p.login_many(rows, imported=True)
    p.login("else")
    p.advance(0.001)
    spared = 0 if asked.logged_in_after else 1
    seen: list[Job] = []
    result = p.kick_where(asked, **BY, expected=131, on_progress=seen.append)
    assert (result.count, kicked(p)) == (131 - spared, 131 - spared)
    assert p.counts().sessions == spared
    refs = kicked_events(p)
    assert len(refs) == len(set(refs)) == 131 - spared
    assert [progress.kicked for progress in seen] == sorted(progress.kicked for progress in seen)
    assert [progress.examined for progress in seen] == sorted(progress.examined for progress in seen)
    assert seen[-1] == result.job == p.job(seen[-1].id)
    assert seen[-1].state == "done"


@every_backend
def test_tombstones_have_actor_reason_and_ticket(p: P) -> None:
    crowd(p, 3)
    result = p.kick_where(PHONES, **BY, expected=3)
    for end in p.ended():
        assert (end.reason, end.by, end.note, end.ticket, end.message) == (
            "kicked", "Grace Hopper", "stolen keys", "T-4711", "Log in again."
        )  # fmt: skip
        assert end.public.message == "Log in again."
    assert len(p.ended()) == 3
    session = result.kicked[0]
    validation = p.validate_session(session.uid, session.session_id)
    assert validation.ended is not None
    assert validation.ended.note == "stolen keys"


@every_topology
def test_the_audit_has_one_entry_per_staff_action_and_none_per_kick(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    crowd(p, 5)
    job = p.start_kick(PHONES, **BY, expected=9)
    acts = (("pause", "Bob"), ("resume", "Eve"), ("pause", "Eve"), ("resume", "Bob"))
    for act, by in acts:
        p.advance(1)
        getattr(q, f"{act}_job")(job.id, by=by)
        getattr(p, f"{act}_job")(job.id, by="too late")
    p.advance(1)
    q.run_job(job.id)
    rows = [(entry.action, entry.by, entry.reason, entry.ticket, entry.outcome) for entry in p.audit()][::-1]
    assert [row[:2] for row in rows] == [
        ("kick_where_start", "Grace Hopper"),
        *((f"kick_where_{act}", by) for act, by in acts),
        ("kick_where", "Grace Hopper"),
    ]
    assert {row[2:4] for row in rows} == {("stolen keys", "T-4711")}
    assert rows[0][4] == f"job {job.id}: 5 sessions match, at most 9 may be ended"
    assert rows[1][4] == f"job {job.id}: paused"
    assert rows[-1][4] == f"job {job.id}: 5 of 5 sessions ended"


@every_topology
def test_a_job_reports_its_filter_and_progress(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    crowd(p, 30)
    began = p.clock.now
    job = p.start_kick(PHONES, by="Bob", reason="why", expected=40, pace=50)
    frozen = SessionFilter(device="phone", logged_in_before=began)
    assert (job.state, job.done, job.by, job.reason, job.message, job.ticket) == (
        "running", False, "Bob", "why", None, None,
    )  # fmt: skip
    assert (job.filter, job.total, job.expected, job.kicked, job.examined) == (frozen, 30, 40, 0, 0)
    assert (job.pace, job.created, job.updated, job.finished, job.error) == (50, began, began, None, None)
    assert p.job(job.id) == job
    run = Run(p.context, job.id)
    p.advance(1)
    steps(run, p, 2)
    now = p.job(job.id)
    assert now is not None
    assert (now.kicked, now.updated) == (20, began + timedelta(seconds=1))
    p.advance(1)
    steps(run, p, 2)
    assert run.over
    now = p.job(job.id)
    assert now is not None
    assert (now.state, now.done, now.kicked, now.finished) == ("done", True, 30, began + timedelta(seconds=2))
    assert p.job("no-such-job") is None


def test_users_who_are_renamed_or_log_in_again_are_judged_by_their_current_record(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "BATCH", 10)
    p.freeze()
    for n in range(20):
        p.login(f"u{n}", name="Person", session_id=f"session-{n}")
        p.advance(0.001)
    job = p.start_kick(SessionFilter(name_prefix="pers"), **BY, expected=20)
    run = Run(p.context, job.id)
    steps(run, p, 1)  # the ten newest
    assert kicked(p) == 10
    p.login("u3", session_id="session-3", name="Renamed")  # the same session, another name
    p.login("u19", name="Person")  # kicked, and back with a new session
    p.logout("u4", "session-4")
    p.login("u4", name="Person")
    p.advance(1)
    while not run.over:
        steps(run, p, 1)
    assert run.result.count == 18
    assert sorted(session.uid for session in p.iter_sessions()) == ["u19", "u3", "u4"]


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_an_id_that_logged_in_again_between_page_and_kick_is_spared(bed: Bed) -> None:
    p = bed.connect(keep_logout=0)
    crowd(p, 0)
    p.login("ada", device="phone", session_id="session-1")
    p.advance(1)
    job = p.start_kick(PHONES, **BY, expected=1)
    run = Run(p.context, job.id)
    held = Held(p, run.step(), KICK_SESSIONS)
    p.logout("ada", "session-1")
    p.advance(1)
    p.login("ada", device="phone", session_id="session-1")
    held.wake()
    assert p.get("ada", "session-1")
    assert run.over
    assert (run.result.count, kicked(p)) == (0, 0)


@on("valkey-sync", "cluster-async")
def test_sessions_that_start_to_match_later_never_exceed_the_expected_number(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "BATCH", 8)
    p.freeze()
    for n in range(30):
        p.login(f"u{n}", device="phone" if n >= 15 else "desk", session_id=f"session-{n}")
    p.advance(1)
    job = p.start_kick(PHONES, **BY, expected=20)
    assert job.total == 15
    for n in range(15):
        p.login(f"u{n}", device="phone", session_id=f"session-{n}")  # the same sessions, another device
    result = p.run_job(job.id)
    assert (result.count, kicked(p), p.counts().sessions) == (20, 20, 10)
    assert result.job is not None
    assert result.job.state == "failed"
    assert result.job.error == "More sessions match than the 20 that were expected: the rest was not ended."
    assert result.job.error_code == "more_match"
    assert p.audit().items[0].outcome == f"job {job.id}: 20 of 15 sessions ended, then it failed: {result.job.error}"


@on("valkey-sync", "cluster-async")
def test_sessions_that_end_otherwise_are_not_counted_as_kicked(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p.freeze()
    p.login_many([{"uid": f"u{n}", "device": "phone", "idle_timeout": 10 if n % 2 else 100} for n in range(40)])
    p.advance(0.001)
    job = p.start_kick(PHONES, **BY, expected=40)
    run = Run(p.context, job.id)
    steps(run, p, 1)
    p.advance(15)
    while not run.over:
        steps(run, p, 1)
    p.sweep()
    totals = p.counts().totals
    assert totals["kicked"] + totals["expired"] == 40
    assert totals["kicked"] == run.result.count
    assert totals["expired"] > 0


@on("valkey-sync", "cluster-async")
def test_sessions_past_their_deadline_when_the_kick_arrives_expire(p: P) -> None:
    p.freeze()
    p.login("ada", device="phone", idle_timeout=10)
    p.login("bob", device="phone")
    p.advance(1)
    job = p.start_kick(PHONES, **BY, expected=2)
    held = Held(p, Run(p.context, job.id).step(), WALK_SESSIONS)
    p.advance(9)
    held.wake()
    [ada], [bob] = p.ended("ada").items, p.ended("bob").items
    assert (ada.reason, ada.cause, bob.reason, bob.note) == ("expired", "idle", "kicked", BY["reason"])
    assert kicked(p) == 1


@on("valkey-sync", "redis7-async")
def test_fifty_sessions_of_a_page_are_ended_in_one_call(p: P) -> None:
    p.freeze()
    p.login_many([{"uid": f"u{n % 40}", "device": "phone"} for n in range(120)])
    p.advance(0.001)
    job = p.start_kick(PHONES, **BY, expected=120)
    held = Held(p, Run(p.context, job.id).step(), KICK_SESSIONS)
    assert len([call for call in held.calls if call.script is KICK_SESSIONS]) == 3
    held.wake()
    assert kicked(p) == len(kicked_events(p)) == 120
    assert (p.counts().users, len(p.ended("u7").items)) == (0, 3)


@on("valkey-sync", "valkey-async")
def test_the_requested_pace_is_kept(p: P) -> None:
    crowd(p, 30)
    p.clock.run_freely()
    begin = time.monotonic()
    result = p.kick_where(PHONES, **BY, expected=30, pace=20)
    took = time.monotonic() - begin
    assert result.count == 30
    assert took > 0.9, "two batches of ten went before the last"
    assert took < 20


@on("valkey-sync")
def test_the_result_has_the_first_of_many_kicks_and_the_count_of_all(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MAX_ANSWERED", 250)
    crowd(p, 450)
    result = p.kick_where(PHONES, **BY, expected=450)
    assert (len(result.kicked), result.count) == (250, 450)


def test_kick_where_works_over_many_shards(bed: Bed) -> None:
    p = bed.connect(shards=64)
    crowd(p, 700, 40)
    result = p.kick_where(PHONES, **BY, expected=700)
    assert (result.count, len(result.kicked), p.counts().sessions) == (700, 700, 40)
    refs = kicked_events(p)
    assert len(refs) == len(set(refs)) == 700
    [job] = p.jobs().items
    assert job.kicked == 700


# -- steering ---------------------------------------------------------------------------------------------------------


def test_another_client_pauses_resumes_and_cancels_a_job_that_runs(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p = bed.connect()
    crowd(p, 60)
    with sync_client(bed) as other:
        other.internal.context.now = p.context.now

        def pause_at_20(job: Job) -> None:
            if job.kicked == 20:
                assert other.pause_job(job.id, by="Bob").state == "paused"

        result = p.kick_where(PHONES, **BY, expected=60, on_progress=pause_at_20)
        assert result.job is not None
        assert (result.job.state, result.count, kicked(p)) == ("paused", 20, 20)
        job_id = result.job.id
        assert p.run_job(job_id).count == 20, "it rests"
        at_work = Worker(other)
        work(at_work)
        assert kicked(p) == 20

        def cancel_at_40(job: Job) -> None:
            if job.kicked == 40:
                assert other.cancel_job(job.id, by="Bob").done

        assert other.resume_job(job_id, by="Bob").state == "running"
        result = p.run_job(job_id, on_progress=cancel_at_40)
        assert result.job is not None
        assert (result.job.state, result.count, len(result.kicked)) == ("cancelled", 40, 20)
        assert result.job.finished is not None
        work(at_work)
        at_work._leave()
    assert kicked(p) == 40
    assert p.counts().sessions == 20


def test_an_ended_or_unknown_job_cannot_be_paused_or_resumed(p: P) -> None:
    crowd(p, 3)
    done = p.kick_where(PHONES, **BY, expected=3).job
    cancelled = p.cancel_job(p.start_kick(PHONES, **BY, expected=3).id, by="Bob")
    assert done is not None
    assert p.cancel_job(cancelled.id, by="Bob") == cancelled, "as it is already"
    for job, acts in ((done, ("pause", "resume", "cancel")), (cancelled, ("pause", "resume"))):
        for act in acts:
            with pytest.raises(
                InvalidArgument, match=rf"^job_id must be of a job that has not ended: this one is {job.state}\.$"
            ):
                getattr(p, f"{act}_job")(job.id, by="Bob")
    for act in ("pause", "resume", "cancel"):
        with pytest.raises(InvalidArgument, match=r"^job_id must be of a known job: .*\.$"):
            getattr(p, f"{act}_job")("no-such-job", by="Bob")
    with pytest.raises(InvalidArgument, match=r"^job_id must be of a known job: .*\.$"):
        p.run_job("no-such-job")
    assert p.run_job(done.id).count == 3, "it is only looked at"


def test_jobs_are_listed_newest_first_in_pages(p: P) -> None:
    assert p.jobs().items == []
    crowd(p, 1)
    made = []
    for n in range(7):
        made.append(p.start_kick(PHONES, by="Bob", reason=f"why {n}", expected=1).id)
        p.advance(1)
    page = p.jobs(limit=3)
    ids = [job.id for job in page]
    assert (page.total, page.total_is_exact) == (7, False)
    while page.next_cursor:
        page = p.jobs(limit=3, cursor=page.next_cursor)
        ids += [job.id for job in page]
    assert ids == made[::-1]
    assert (page.total, page.total_is_exact) == (7, True)
    assert len(p.jobs()) == 7


@on("valkey-sync", "redis7-sync")
def test_at_most_a_thousand_jobs_are_kept_for_30_days(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("presence_core.operations.bulk_kick.creation.MAX_LISTED", 5)
    p = bed.connect(shards=4)
    crowd(p, 40)
    for _ in range(7):
        p.kick_where(PHONES, **BY, expected=40)
        p.advance(1)
    assert len(p.jobs()) == p.jobs().total == 5
    families = bed.families()
    assert len(families["jobs"]) == 1
    assert "running" not in families
    assert all(0 < bed.raw.ttl(key) <= 90 * 86_400 for key in families["job:"])
    shard = p.context.keys.shards[0]
    lives = [bed.raw.ttl(key) for key in families["job:"] if key.startswith(shard.tag.encode())]
    assert len(lives) == 7
    assert all(29 * 86_400 < life <= 30 * 86_400 for life in lives)
    newest = p.jobs().items[0]
    bed.raw.delete(shard.job(newest.id))  # it has expired
    assert newest.id not in [job.id for job in p.jobs()]
    assert bed.raw.zcard(shard.jobs) == 4, "a read has healed the list"


# -- a delay, and newer jobs ------------------------------------------------------------------------------------------


@every_topology
def test_a_delayed_job_ends_no_session_before_its_time_by_the_clock_of_redis(p: P) -> None:
    crowd(p, 3)
    began = p.clock.now
    job = p.start_kick(PHONES, **BY, expected=3, delay=10)
    assert (job.not_before, job.state) == (began + timedelta(seconds=10), "running")
    run = Run(p.context, job.id)
    assert p.internal.run(run.step()) == runner.POLL
    p.advance(9.75)
    assert p.internal.run(run.step()) == 0.25
    assert (run.has_claim, run.over, kicked(p)) == (False, False, 0)
    assert p.job(job.id) == job, "nothing has worked on it"
    p.advance(0.25)
    steps(run, p, 1)
    assert (run.over, run.result.count, kicked(p)) == (True, 3, 3)
    at_once = p.start_kick(PHONES, **BY, expected=0, delay=0)
    assert at_once.not_before is None
    assert p.run_job(at_once.id).count == 0


def test_a_job_that_is_cancelled_during_its_delay_ends_no_session(p: P) -> None:
    crowd(p, 3)
    job = p.start_kick(PHONES, **BY, expected=3, delay=10)
    run = Run(p.context, job.id)
    steps(run, p, 1)
    assert p.cancel_job(job.id, by="Bob").state == "cancelled"
    p.advance(10)
    steps(run, p, 1)
    assert (run.over, kicked(p)) == (True, 0)
    assert p.audit().items[0].outcome == f"job {job.id}: 0 of 3 sessions ended, then it was cancelled"


def test_a_job_paused_during_its_delay_waits_for_the_rest_of_it_after_a_resume(p: P) -> None:
    crowd(p, 3)
    job = p.start_kick(PHONES, **BY, expected=3, delay=10)
    p.pause_job(job.id, by="Bob")
    p.advance(4)
    assert p.resume_job(job.id, by="Bob").not_before == job.not_before
    run = Run(p.context, job.id)
    steps(run, p, 1)
    assert kicked(p) == 0
    p.advance(6)
    assert p.run_job(job.id).count == 3


@pytest.mark.parametrize("newer", ["field of the job", "field of the filter"])
def test_a_job_of_a_newer_version_is_left_to_a_newer_process(bed: Bed, newer: str) -> None:
    p = bed.connect()
    crowd(p, 3)
    job = p.start_kick(PHONES, **BY, expected=3)
    key = p.context.keys.shards[0].job(job.id)
    assert bed.raw.hget(key, "needs") == b"device logged_in_before"
    asked = bed.raw.hget(key, "filter")
    bed.raw.hset(key, "needs", "device logged_in_before flavour")
    if newer == "field of the filter":
        bed.raw.hset(key, "filter", asked[:-1] + b', "flavour": "sweet"}')
    before = bed.raw.hgetall(key)
    worker = Worker(p)
    work(worker)
    work(worker)
    with pytest.raises(InvalidArgument, match=r"^job_id names a job of a newer version"):
        p.run_job(job.id)
    assert bed.raw.hgetall(key) == before, "it is not claimed, changed or failed"
    assert bed.raw.smembers(p.context.keys.shards[0].running) == {job.id.encode()}
    assert kicked(p) == 0
    bed.raw.hset(key, mapping={"needs": "device logged_in_before", "filter": asked})
    work(worker)
    worker._leave()
    assert (kicked(p), (p.job(job.id) or job).state) == (3, "done")


def test_a_job_says_each_condition_that_a_runner_must_know(bed: Bed) -> None:
    p = bed.connect()
    asked = SessionFilter(methods=["pwd"], mfa=False, without=SessionFilter(device="tv", seen_within=5))
    job = p.start_kick(asked, **BY, expected=0)
    needs = bed.raw.hget(p.context.keys.shards[0].job(job.id), "needs")
    assert needs == b"logged_in_before methods mfa without device seen_within"


# -- two at once ------------------------------------------------------------------------------------------------------


def test_two_runners_at_once_end_and_count_each_session_once(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    monkeypatch.setattr(runner, "CLAIM_MS", 0)  # no claim lasts
    p, q = bed.connect(), bed.connect()
    crowd(p, 200)
    job = p.start_kick(PHONES, **BY, expected=200)
    first, second = Run(p.context, job.id), Run(q.context, job.id)
    barrier = threading.Barrier(2)

    def at_work(client: P, run: Run) -> None:
        barrier.wait()
        while not run.over:
            client.internal.run(run.step())

    threads = [threading.Thread(target=at_work, args=pair) for pair in ((p, first), (q, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert first.result.count == second.result.count == kicked(p) == 200
    refs = [session.ref for run in (first, second) for session in run.kicked]
    assert len(refs) == len(set(refs)) == 200
    assert p.counts().sessions == 0
    ends = [entry for entry in p.audit() if entry.action == "kick_where"]
    assert len(ends) == 1


@every_topology
def test_a_runner_that_was_suspended_learns_that_another_runs_its_job(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p, q = bed.connect(), bed.connect()
    crowd(p, 50)
    job = p.start_kick(PHONES, **BY, expected=50)
    first, second = Run(p.context, job.id), Run(q.context, job.id)
    steps(first, p, 2)
    q.counts()
    assert q.internal.run(second.step()) == runner.POLL
    assert (second.has_claim, second.over, kicked(p)) == (False, False, 20)
    p.advance(9.999)
    steps(second, q, 1)
    assert (second.has_claim, second.result.count) == (False, 20)
    p.advance(0.001)
    steps(second, q, 2)
    assert (second.has_claim, second.result.count) == (True, 40)
    steps(first, p, 1)
    assert (first.has_claim, first.result.count) == (False, 40)
    while not second.over:
        steps(second, q, 1)
    steps(first, p, 1)
    assert first.over
    assert first.result.count == kicked(p) == 50
    assert len(first.kicked) + len(second.kicked) == 50


def test_a_batch_whose_position_was_lost_is_repeated_and_ends_no_session_twice(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "BATCH", 10)
    crowd(p, 95)
    job = p.start_kick(PHONES, **BY, expected=95)
    while True:  # each runner dies after its batch, before it has stored its position
        run = Run(p.context, job.id)
        steps(run, p, 1)
        if run.over:
            break
        p.advance(10)
    assert run.result.count == kicked(p) == len(kicked_events(p)) == 95


# -- the worker -------------------------------------------------------------------------------------------------------


@every_topology
def test_a_worker_runs_a_job_that_was_only_started(p: P) -> None:
    crowd(p, 450, 3)
    job = p.start_kick(PHONES, **BY, expected=450)
    assert kicked(p) == 0
    at_work = Worker(p)

    def is_done() -> bool:
        work(at_work)  # a turn gives a job a limited time, and a busy machine may need several turns
        now = p.job(job.id)
        return now is not None and now.done

    until(is_done)
    assert at_work.last_error is None
    now = p.job(job.id)
    assert now is not None
    assert (now.state, now.kicked, p.counts().sessions) == ("done", 450, 3)
    at_work._leave()


@on("valkey-sync", "cluster-async")
def test_a_worker_runs_several_jobs_in_turn_and_a_damaged_job_delays_none(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    p = bed.connect()
    crowd(p, 250, 250)
    shard = p.context.keys.shards[0]
    jobs = [p.start_kick(SessionFilter(device=kind), **BY, expected=250) for kind in ("phone", "desk")]
    damaged = p.start_kick(PHONES, **BY, expected=250)
    gone = p.start_kick(PHONES, **BY, expected=250)
    bed.raw.hset(shard.job(damaged.id), "filter", "{}")
    bed.raw.delete(shard.job(gone.id))
    bed.raw.sadd(shard.running, b"\xff", "x")
    at_work = Worker(p)
    work(at_work, at_work)
    assert [(job.state, job.kicked) for job in map(p.job, (jobs[0].id, jobs[1].id)) if job] == [("done", 250)] * 2
    assert sum("the bulk kick waits" in record.getMessage() for record in caplog.records) == 1
    assert bed.raw.smembers(shard.running) == {b"\xff", b"x"}
    assert p.job(damaged.id) is None
    assert bed.raw.hget(shard.job(damaged.id), "state") == b"failed"
    work(at_work)
    assert at_work.last_error is None
    at_work._leave()


@on("valkey-sync")
def test_a_worker_keeps_the_pace_and_its_other_duties(p: P) -> None:
    crowd(p, 50)
    p.clock.run_freely()
    job = p.start_kick(PHONES, **BY, expected=50, pace=20)
    with Worker(p, interval=0.1) as at_work:
        until(lambda: (now := p.job(job.id)) and now.kicked)
        first = at_work.last_run
        until(lambda: at_work.last_run != first)
        now = p.job(job.id)
        assert now is not None
        assert not now.done
        until(lambda: (now := p.job(job.id)) and now.done)
    done = p.job(job.id)
    assert done is not None
    assert (done.state, done.kicked) == ("done", 50)
    assert done.finished is not None
    assert (done.finished - done.created).total_seconds() > 1.5


@on("valkey-sync")
def test_a_paused_worker_kicks_no_session(p: P) -> None:
    crowd(p, 5)
    p.start_kick(PHONES, **BY, expected=5)
    at_work = Worker(p)
    at_work.paused = "The clock jumped."
    at_work._set_paused = lambda: None  # type: ignore[method-assign]
    work(at_work)
    assert at_work.leads
    assert kicked(p) == 0
    at_work.paused = ""
    work(at_work)
    assert kicked(p) == 5


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["deleted", "foreign", "filter", "frozen", "exclude", "cursor", "total"])
def test_a_job_damaged_by_another_program_ends_with_one_clear_error(
    bed: Bed, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p = bed.connect()
    crowd(p, 40)
    job = p.start_kick(PHONES, **BY, expected=40)
    key = p.context.keys.shards[0].job(job.id)
    steps(Run(p.context, job.id), p, 2)
    p.advance(10)
    if damage in ("deleted", "foreign"):
        bed.raw.delete(key)
    if damage == "foreign":
        bed.raw.set(key, "x")
    elif damage != "deleted":
        bed.raw.hset(key, damage, b"\xff[")
    run = Run(p.context, job.id)
    run.job = job  # a runner has already worked on it
    with pytest.raises(CorruptData, match=r"(Job .* cannot go on|holds data that presence_core did not write)"):
        steps(run, p, 1)
    assert run.over
    assert kicked(p) == 20
    assert not bed.raw.exists(p.context.keys.shards[0].running), "no worker stumbles over it again"
    assert p.jobs().items == [] or damage in ("frozen", "exclude", "cursor")
    if damage == "frozen":
        failed = p.job(job.id)
        assert failed is not None
        assert failed.state == "failed"
        assert failed.error is not None
        assert "cannot go on" in failed.error
        assert failed.error_code == "damaged"
    for act in ("pause_job", "resume_job", "cancel_job"):
        with pytest.raises(InvalidArgument):
            getattr(p, act)(job.id, by="Bob")


@on("valkey-sync", "cluster-async")
def test_damaged_keys_of_one_user_do_not_stop_the_kicks_of_others(bed: Bed) -> None:
    p = bed.connect()
    crowd(p, 20)
    shard = p.context.shard("u7")
    bed.raw.delete(shard.user("u7"))
    bed.raw.set(shard.user("u7"), "foreign")
    result = p.kick_where(PHONES, **BY, expected=20)
    assert result.job is not None
    assert (result.count, result.job.state) == (19, "failed")
    assert (result.job.error, result.job.error_code) == (runner.NOT_ENDED, "not_ended")


@on("valkey-sync", "cluster-async")
def test_a_counter_damaged_by_another_program_stops_no_kick(bed: Bed) -> None:
    p = bed.connect()
    crowd(p, 20)
    job = p.start_kick(PHONES, **BY, expected=20)
    bed.raw.hset(p.context.shard("u7").job(job.id), "kicked", b"9" * 5000)
    result = p.run_job(job.id)
    assert result.job is not None
    assert (result.job.state, kicked(p), p.counts().sessions) == ("done", 20, 0)
    assert result.count < 20


@on("valkey-sync", "cluster-async")
def test_hostile_text_is_stored_as_plain_text(p: P) -> None:
    p.freeze()
    uids = ["a:b", "{x}", "*", "job:1", "ü😀", "a b", "x'); redis.call('FLUSHALL')"]
    p.login_many([{"uid": uid, "name": '","exclude":[]', "device": "pho\u2028ne"} for uid in uids])
    p.advance(1)
    odd: dict[str, Any] = {"by": "{}:;*", "reason": '"}\n\t\u202e<b>', "ticket": "' OR 1=1 --", "message": "😀" * 500}
    spared = p.sessions("a:b")[0].ref
    asked = SessionFilter(name_contains='","exclude"', device="pho\u2028ne")
    result = p.kick_where(asked, **odd, expected=9, exclude=[spared])
    assert result.job is not None
    assert (result.count, result.job.state) == (len(uids) - 1, "done")
    assert (result.job.by, result.job.reason, result.job.ticket, result.job.message) == tuple(
        odd[name] for name in ("by", "reason", "ticket", "message")
    )
    assert [session.ref for session in p.iter_sessions()] == [spared]
    assert {ended.note for ended in p.ended()} == {odd["reason"]}
