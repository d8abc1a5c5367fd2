"""Bulk kicks: previewed, run here or by a worker, watched and steered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from presence_core import settings as check
from presence_core.client.base import AsyncClient, Client
from presence_core.errors import Unavailable
from presence_core.filters import SessionFilter
from presence_core.models import Job, KickPreview, KickResult, Page
from presence_core.operations import jobs
from presence_core.operations.running import Run

Progress = Callable[[Job], object]
"""Told of a job after each batch."""


def _how_to_go_on(error: Unavailable, job_id: str) -> None:
    error.add_note(f"Job {job_id} is kept: a worker goes on with it, or run_job; cancel_job ends it.")


class Bulk(Client):
    """Part of Presence."""

    def preview_kick(self, filter: SessionFilter, *, exclude: Iterable[str] = ()) -> KickPreview:
        """What ``kick_where`` would hit: the question frozen to sessions that have begun, and how many match.

        It has the sessions of this very millisecond; those that begin after this has returned are spared. (For that it
        writes a moment to each shard, where Redis lets this client write; else the rest of the millisecond is hit.)
        filter: at least one field of it must be given. exclude: refs (``uid:session_id``) that are to be spared, at
        most 10,000. Cost: that of ``count_sessions``, and O(exclude).
        """
        return self._run(jobs.preview_kick(self._ctx, filter, exclude))

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
        on_progress: Progress | None = None,
    ) -> KickResult:
        """End every session that matches: as a job, which is run here to its end.

        Who logs in from now on is spared, or, with the filter of a preview, from then on. A session that has changed
        since (a name given anew) is judged by what it is when its turn comes. expected: the most that may be hit, 0…a
        billion; where more match now nothing happens (InvalidArgument), where more come to match later the job stops
        there as failed. exclude, by, reason, message, ticket: as for ``preview_kick`` and ``kick``. pace: sessions a
        second at most, 1…100,000. on_progress: told of the Job after each batch of at most 200, and each second while
        the job waits because this client holds as much as it can (``held``).

        ``result.count`` is the number that was ended, ``result.kicked`` the first 10,000 of those that this call
        itself ended, ``result.job.state`` what became of it: another client may pause or cancel it, and then this
        answers at once. If Redis is away for longer than ``settings.timeout`` this raises Unavailable; the job is kept,
        and a worker or ``run_job`` goes on with it. So it is when this process dies: each session is ended and counted
        once. Cost: that of ``count_sessions``; then one listing and at most 200 kicks a batch, in five round trips or
        so.
        """
        check.callback("on_progress", on_progress)
        token = self._ctx.new_id()
        operation = jobs.start(self._ctx, filter, by, reason, expected, exclude, message, ticket, pace, token)
        return self._to_its_end(Run(self._ctx, self._run(operation).id, token), on_progress)

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
    ) -> Job:
        """Like ``kick_where``, but a worker does it: this only writes the job. Cost: that of ``count_sessions``.

        After an OutcomeUnknown, here or from ``kick_where``, ``jobs`` says whether it was written.
        """
        return self._run(jobs.start(self._ctx, filter, by, reason, expected, exclude, message, ticket, pace))

    def run_job(self, job_id: str, *, on_progress: Progress | None = None) -> KickResult:
        """Go on with a job here, to its end; where another process is at work on it, follow that, and take over when it
        has not been heard of for 10 s. A job that is paused or over is only looked at. See ``kick_where``."""
        check.callback("on_progress", on_progress)
        return self._to_its_end(Run(self._ctx, job_id), on_progress)

    def jobs(self, *, limit: int = 50, cursor: str | None = None) -> Page[Job]:
        """Bulk kicks, the newest first; ``limit`` is 1…1000. They are kept for 30 days after their end, 1,000 of them.

        Cost: O(P·limit), two round trips.
        """
        return self._run(jobs.jobs(self._ctx, limit, cursor))

    def job(self, job_id: str) -> Job | None:
        """A bulk kick and how far it is; None where none of that id is known. Cost: O(P), one round trip."""
        return self._run(jobs.job(self._ctx, job_id))

    def pause_job(self, job_id: str, *, by: str) -> Job:
        """Let a bulk kick rest: once this has returned, it ends no session. After an error call it again; until it has
        returned, a batch may still be under way.

        One that is over, or unknown, is an InvalidArgument. A job that rests for 30 days is forgotten. Cost: O(P), four
        round trips.
        """
        return self._run(jobs.steer(self._ctx, "pause", job_id, by))

    def resume_job(self, job_id: str, *, by: str) -> Job:
        """Let a bulk kick that rests go on: by a worker, or by ``run_job``. See ``pause_job``."""
        return self._run(jobs.steer(self._ctx, "resume", job_id, by))

    def cancel_job(self, job_id: str, *, by: str) -> Job:
        """End a bulk kick where it is, for good: once this has returned, it ends no session. What it has ended stays
        ended. See ``pause_job``."""
        return self._run(jobs.steer(self._ctx, "cancel", job_id, by))

    def _to_its_end(self, run: Run, on_progress: Progress | None) -> KickResult:
        while not run.over:
            begin, before = time.monotonic(), run.job
            try:
                wait = self._run(run.step())
            except Unavailable as error:
                _how_to_go_on(error, run.id)
                raise
            if on_progress and run.job and (run.job != before or run.is_full):
                on_progress(run.job)
            if not run.over:
                time.sleep(max(0.0, begin + wait - time.monotonic()))
        return run.result


class AsyncBulk(AsyncClient):
    """Part of AsyncPresence."""

    async def preview_kick(self, filter: SessionFilter, *, exclude: Iterable[str] = ()) -> KickPreview:
        """See Presence.preview_kick."""
        return await self._run(jobs.preview_kick(self._ctx, filter, exclude))

    async def kick_where(
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
        on_progress: Progress | None = None,
    ) -> KickResult:
        """See Presence.kick_where. ``on_progress`` is a plain function, called on the event loop."""
        check.callback("on_progress", on_progress)
        token = self._ctx.new_id()
        operation = jobs.start(self._ctx, filter, by, reason, expected, exclude, message, ticket, pace, token)
        return await self._to_its_end(Run(self._ctx, (await self._run(operation)).id, token), on_progress)

    async def start_kick(
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
    ) -> Job:
        """See Presence.start_kick."""
        return await self._run(jobs.start(self._ctx, filter, by, reason, expected, exclude, message, ticket, pace))

    async def run_job(self, job_id: str, *, on_progress: Progress | None = None) -> KickResult:
        """See Presence.run_job."""
        check.callback("on_progress", on_progress)
        return await self._to_its_end(Run(self._ctx, job_id), on_progress)

    async def jobs(self, *, limit: int = 50, cursor: str | None = None) -> Page[Job]:
        """See Presence.jobs."""
        return await self._run(jobs.jobs(self._ctx, limit, cursor))

    async def job(self, job_id: str) -> Job | None:
        """See Presence.job."""
        return await self._run(jobs.job(self._ctx, job_id))

    async def pause_job(self, job_id: str, *, by: str) -> Job:
        """See Presence.pause_job."""
        return await self._run(jobs.steer(self._ctx, "pause", job_id, by))

    async def resume_job(self, job_id: str, *, by: str) -> Job:
        """See Presence.resume_job."""
        return await self._run(jobs.steer(self._ctx, "resume", job_id, by))

    async def cancel_job(self, job_id: str, *, by: str) -> Job:
        """See Presence.cancel_job."""
        return await self._run(jobs.steer(self._ctx, "cancel", job_id, by))

    async def _to_its_end(self, run: Run, on_progress: Progress | None) -> KickResult:
        while not run.over:
            begin, before = time.monotonic(), run.job
            try:
                wait = await self._run(run.step())
            except Unavailable as error:
                _how_to_go_on(error, run.id)
                raise
            if on_progress and run.job and (run.job != before or run.is_full):
                on_progress(run.job)
            if not run.over:
                await asyncio.sleep(max(0.0, begin + wait - time.monotonic()))
        return run.result
