"""Bulk kicks: preview, start, run here or by a worker, pause, cancel. Bulk changes of timeouts: preview, run here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from presence_core import validation as check
from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.errors import Unavailable
from presence_core.filters import SessionFilter
from presence_core.models import Job, KickPreview, KickResult, Page, TimeoutsChange, TimeoutsPreview
from presence_core.operations.bulk_kick import bulk_timeouts, creation, jobs, kick_refs, states
from presence_core.operations.bulk_kick.runner import Run
from presence_core.scripts.calls import Op

Progress = Callable[[Job], object]
"""Called with the job after each batch."""


def _note_job(error: Unavailable, job_id: str) -> None:
    error.add_note(f"Job {job_id} is kept: a worker or run_job continues it; cancel_job ends it.")


class BulkKickMethods(Client):
    def preview_kick(self, filter: SessionFilter, *, exclude: Iterable[str] = ()) -> KickPreview:
        """What ``kick_where`` would end: the filter, limited to sessions that have begun, how many match, and whose.

        ``people`` has at most 100 people, those of the newest sessions, and the fields by which each matched.

        Sessions that begin after this has returned are not included, even in the same millisecond. For that, the call
        writes a time to each shard. A read-only client cannot, so its preview also includes logins later in the same
        millisecond. filter: at least one field must be given. exclude: refs (``uid:session_id``) to leave out, at most
        10,000. Cost: that of ``count_sessions`` and of a page of 200, and O(exclude).
        """
        return self._run(creation.preview_kick(self._ctx, filter, exclude))

    def kick_where(
        self,
        filter: SessionFilter,
        *,
        by: str,
        reason: str,
        expected: int,
        exclude: Iterable[str] = (),
        message: str | None = None,
        ticket: str | None = None,
        pace: int | None = None,
        delay: int | None = None,
        on_progress: Progress | None = None,
    ) -> KickResult:
        """End every session that matches, as a job that runs here to its end.

        filter: with the filter of a preview, sessions that begin after the preview are not ended. Without a preview
        filter, sessions that begin after this call are not ended. The filter is checked again just before each end;
        ``idle_for`` and ``seen_within`` count from the begin of the job.
        expected: the maximum number of sessions, 0…a billion. If more match now, nothing happens (InvalidArgument); if
        more match later, the job stops there as failed. exclude, by, reason, message, ticket: as for ``preview_kick``
        and ``kick``. pace: sessions per second at most, 1…100,000 (default: no limit). delay: seconds in which
        no session is ended, 0…86,400, by the clock of Redis, so that staff can still cancel (``Job.not_before``).
        on_progress: called with the Job after each batch of at most 200, and each second while the job waits because
        this client holds as many changes as it can (``held``); with asyncio a plain function, called on the event loop.

        ``result.count`` is how many were ended, ``result.kicked`` the first 10,000 that this call itself ended, without
        those of a reply that was lost.
        ``result.job`` has the state: another client may pause or cancel the job, and then this returns at once. If
        Redis does not answer for longer than ``settings.timeout``, this raises Unavailable. The job is kept, and a
        worker or ``run_job`` continues it, also after this process dies; each session is ended and counted once. Cost:
        that of ``count_sessions``; then one page and at most 200 kicks a batch, in about five round trips.
        """
        check.callback("on_progress", on_progress)
        token = self._ctx.new_id()
        operation = creation.start(
            self._ctx, filter,
            by=by, reason=reason, expected=expected, exclude=exclude, message=message, ticket=ticket, pace=pace,
            delay=delay, token=token,
        )  # fmt: skip
        return self._run_new(operation, token, on_progress)

    def start_kick(
        self,
        filter: SessionFilter,
        *,
        by: str,
        reason: str,
        expected: int,
        exclude: Iterable[str] = (),
        message: str | None = None,
        ticket: str | None = None,
        pace: int | None = None,
        delay: int | None = None,
    ) -> Job:
        """``kick_where``, but a worker runs the job: this only writes it. Cost: that of ``count_sessions``.

        After an OutcomeUnknown, also of ``kick_where``, ``jobs`` says whether the job was written.
        """
        operation = creation.start(
            self._ctx, filter,
            by=by, reason=reason, expected=expected, exclude=exclude, message=message, ticket=ticket, pace=pace,
            delay=delay,
        )  # fmt: skip
        return self._run(operation)

    def run_job(self, job_id: str, *, on_progress: Progress | None = None) -> KickResult:
        """Continue a job here, to its end. See ``kick_where``. Of timeouts, ``.count`` is how many were changed.

        If another process runs it, this follows that process, and takes over if it has been silent for 10 s. It
        waits for ``not_before``. A job that is paused or has ended is only read. Raises InvalidArgument for a job of a
        newer version with a field that this one does not know: a worker of that version runs it.
        """
        check.callback("on_progress", on_progress)
        return self._run_to_end(Run(self._ctx, job_id), on_progress)

    def kick_refs(
        self, refs: Iterable[str], *, by: str, reason: str, message: str | None = None, ticket: str | None = None
    ) -> KickResult:
        """End at most 1,000 sessions of any users at once, by ref (``uid:session_id``), such as those ticked in a list.

        by, reason, message, ticket: as for ``kick``. Once this has returned, none of these sessions validates.
        ``.kicked`` has the sessions that this call ended, each with an entry in the audit; ``.already_ended`` those
        that had ended before, with why and by whom; ``.not_found`` the refs without a session or a record of its end.

        If a server of a cluster is away, the sessions on the others end all the same. ``.failed`` has the refs of which
        it is not known whether they ended, each with its error: call again with these. The error is raised if it is
        that of all refs. Cost: O(refs·log N), two round trips to each server, and one for every 200 more.
        """
        operation = kick_refs.kick_refs(self._ctx, refs, by=by, reason=reason, message=message, ticket=ticket)
        return self._run(operation)

    def preview_timeouts(
        self, filter: SessionFilter, *, idle_timeout: int | None = None, absolute_timeout: int | None = None
    ) -> TimeoutsPreview:
        """What ``change_timeouts_where`` would do: the filter, limited to sessions that have begun, how many match, and
        of how many a timeout would be shorter or longer. Changes nothing.

        filter: as for ``preview_kick``. idle_timeout, absolute_timeout: as for ``change_timeouts``. ``total`` is exact.
        The other numbers are of the newest 10,000 matches, as of when they were read. Cost: that of ``count_sessions``,
        and up to ten pages of 1,000 sessions, more where the filter has no index.
        """
        return self._run(bulk_timeouts.preview(self._ctx, filter, idle_timeout, absolute_timeout))

    def change_timeouts_where(
        self,
        filter: SessionFilter,
        *,
        idle_timeout: int | None = None,
        absolute_timeout: int | None = None,
        by: str,
        reason: str,
        expected: int,
        only_shorten: bool = False,
        ticket: str | None = None,
        pace: int | None = None,
        on_progress: Callable[[TimeoutsChange], object] | None = None,
    ) -> TimeoutsChange:
        """Change the timeouts of every session that matches, as a job that runs here to its end.

        idle_timeout, absolute_timeout, by, reason: as for ``change_timeouts``. filter, expected, ticket, pace: as for
        ``kick_where``: with the filter of a preview, sessions that begin after the preview are not changed. If more
        than ``expected`` match now, nothing happens (InvalidArgument); if more are to change later, the job stops there
        as failed. only_shorten: leave each session alone of which a timeout would be longer; the others are
        changed. A session that has the timeouts already stays as it is. on_progress: called with what has been done
        after each batch of at most 200; with asyncio a plain function, called on the event loop.

        The result has the figures of this process. Its ``job`` has the state: another client may pause or cancel
        it, and then this returns at once. If Redis does not answer for longer than ``settings.timeout``, this raises
        Unavailable; a worker or ``run_job`` continues the job, also after this process dies. The audit has an
        entry with the filter at the start, and one with the outcome at the end. A failover loses no change that this
        client holds, as of ``change_timeouts``. Cost: that of ``count_sessions``; then one page and O(200·log N) a
        batch, in about five round trips.
        """
        check.callback("on_progress", on_progress)
        token = self._ctx.new_id()
        operation = bulk_timeouts.start(
            self._ctx, filter,
            idle_timeout=idle_timeout, absolute_timeout=absolute_timeout, by=by, reason=reason, expected=expected,
            only_shorten=only_shorten, ticket=ticket, pace=pace, token=token,
        )  # fmt: skip
        return self._change_new(operation, token, on_progress)

    def start_timeouts(
        self,
        filter: SessionFilter,
        *,
        idle_timeout: int | None = None,
        absolute_timeout: int | None = None,
        by: str,
        reason: str,
        expected: int,
        only_shorten: bool = False,
        ticket: str | None = None,
        pace: int | None = None,
    ) -> Job:
        """``change_timeouts_where``, but a worker runs the job: this only writes it. Cost: that of ``count_sessions``.

        A worker of a version without such jobs leaves it to a newer one.
        """
        operation = bulk_timeouts.start(
            self._ctx, filter,
            idle_timeout=idle_timeout, absolute_timeout=absolute_timeout, by=by, reason=reason, expected=expected,
            only_shorten=only_shorten, ticket=ticket, pace=pace,
        )  # fmt: skip
        return self._run(operation)

    def jobs(self, *, limit: int = 50, cursor: str | None = None) -> Page[Job]:
        """A page of the bulk kicks and bulk changes of timeouts, newest first; limit is 1…1000.

        They are kept for 30 days after their end, at most 1,000.

        Cost: O(P·limit), two round trips.
        """
        return self._run(jobs.jobs(self._ctx, limit, cursor))

    def job(self, job_id: str) -> Job | None:
        """A bulk job and its progress, or None. Cost: O(P), one round trip."""
        return self._run(jobs.job(self._ctx, job_id))

    def pause_job(self, job_id: str, *, by: str) -> Job:
        """Pause a bulk job: once this has returned, it ends and changes no session.

        Until then, and after an error, a batch may still be running: call it again. Raises InvalidArgument for a job
        that has ended or does not exist. A job that is paused for 30 days is deleted. A failover may undo it, also
        with ``confirm_replicas``, and a worker continues the job: look at ``jobs`` then. Cost: O(P), four round trips.
        """
        return self._run(states.change_state(self._ctx, "pause", job_id, by))

    def resume_job(self, job_id: str, *, by: str) -> Job:
        """Resume a paused bulk job: a worker continues it, or ``run_job`` does. See ``pause_job``."""
        return self._run(states.change_state(self._ctx, "resume", job_id, by))

    def cancel_job(self, job_id: str, *, by: str) -> Job:
        """End a bulk job for good: once this has returned, it ends and changes no session. What it did stays. A
        failover may undo it, as it may a pause. See ``pause_job``."""
        return self._run(states.change_state(self._ctx, "cancel", job_id, by))

    def _change_new(
        self, operation: Op[Job], token: str, on_progress: Callable[[TimeoutsChange], object] | None
    ) -> TimeoutsChange:
        run = Run(self._ctx, self._run(operation).id, token)
        self._run_to_end(run, on_progress and (lambda _: on_progress(run.change)))
        return run.change

    def _run_new(self, operation: Op[Job], token: str, on_progress: Progress | None) -> KickResult:
        return self._run_to_end(Run(self._ctx, self._run(operation).id, token), on_progress)

    def _run_to_end(self, run: Run, on_progress: Progress | None) -> KickResult:
        while not run.over:
            begin, before = time.monotonic(), run.job
            try:
                wait = self._run(run.step())
            except Unavailable as error:
                _note_job(error, run.id)
                raise
            if on_progress and run.job and (run.job != before or run.is_full):
                on_progress(run.job)
            if not run.over:
                time.sleep(max(0.0, begin + wait - time.monotonic()))
        return run.result


class AsyncBulkKickMethods(AsyncClient):
    preview_kick = awaited(BulkKickMethods.preview_kick)
    kick_where = awaited(BulkKickMethods.kick_where)
    start_kick = awaited(BulkKickMethods.start_kick)
    run_job = awaited(BulkKickMethods.run_job)
    kick_refs = awaited(BulkKickMethods.kick_refs)
    preview_timeouts = awaited(BulkKickMethods.preview_timeouts)
    change_timeouts_where = awaited(BulkKickMethods.change_timeouts_where)
    start_timeouts = awaited(BulkKickMethods.start_timeouts)
    jobs = awaited(BulkKickMethods.jobs)
    job = awaited(BulkKickMethods.job)
    pause_job = awaited(BulkKickMethods.pause_job)
    resume_job = awaited(BulkKickMethods.resume_job)
    cancel_job = awaited(BulkKickMethods.cancel_job)

    async def _change_new(
        self, operation: Op[Job], token: str, on_progress: Callable[[TimeoutsChange], object] | None
    ) -> TimeoutsChange:
        run = Run(self._ctx, (await self._run(operation)).id, token)
        await self._run_to_end(run, on_progress and (lambda _: on_progress(run.change)))
        return run.change

    async def _run_new(self, operation: Op[Job], token: str, on_progress: Progress | None) -> KickResult:
        return await self._run_to_end(Run(self._ctx, (await self._run(operation)).id, token), on_progress)

    async def _run_to_end(self, run: Run, on_progress: Progress | None) -> KickResult:
        while not run.over:
            begin, before = time.monotonic(), run.job
            try:
                wait = await self._run(run.step())
            except Unavailable as error:
                _note_job(error, run.id)
                raise
            if on_progress and run.job and (run.job != before or run.is_full):
                on_progress(run.job)
            if not run.over:
                await asyncio.sleep(max(0.0, begin + wait - time.monotonic()))
        return run.result
