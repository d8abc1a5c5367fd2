"""The progress of bulk jobs on the Sessions page, with pause, resume and cancel."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final, Literal

import streamlit as st

from presence_core import Job, Page
from presence_dashboard import access, texts
from presence_dashboard.actions import bulk_kick
from presence_dashboard.actions.bulk_kick import JobCommand
from presence_dashboard.actions.kick_and_block import may_be_undone
from presence_dashboard.components import notifications
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.format import cut, name, number

COUNTDOWN_TICK: Final = 1.0
"""Seconds between two redraws while a bulk kick waits for its start."""

WAIT: Final = 0.8
"""Seconds for which the click waits for a small job, to show its result instead of its start."""

_JOBS_OF_TAB: Final = "bulk-jobs-of-tab"


def jobs_of_tab() -> dict[str, bool]:
    """Jobs that this tab started or controlled: their results are shown until hidden.

    Each with whether the list was read again after its end.
    """
    jobs: dict[str, bool] = st.session_state.setdefault(_JOBS_OF_TAB, {})
    return jobs


def follow(job: Job) -> None:
    """Show the progress of a job that this tab has started. Waits a little, to show the result of a small one."""
    store = open_store()
    jobs_of_tab()[job.id] = job.not_before is None and bulk_kick.wait_for(job.id, WAIT)
    if not jobs_of_tab()[job.id] and job.not_before is None:
        started = texts.BULK_STARTED if job.kind == "kick" else texts.TIMEOUTS_STARTED
        notifications.notify(Notification("note", started))
    if may_be_undone(store.presence):
        notifications.notify(Notification("note", texts.NO_REPLICA_ASKED))
    bulk_kick.jobs(store, fresh=True)


def bulk_kick_progress(*, may_reread: bool) -> None:
    """Running jobs of all staff, and ended jobs of this tab. Call it alone in its container.

    The page decides which jobs are shown, not a tick, so that the table below does not move. When a job of this tab
    has ended, the list is read again, if ``may_reread`` allows it.
    """
    reading = bulk_kick.jobs(open_store())
    if reading.value is None:
        return
    shown = tuple(job.id for job in reading.value if not job.done or job.id in jobs_of_tab())
    now = redis_time(reading, reading.value)
    waits = any(seconds_left(job, now) for job in reading.value)
    if shown:
        tick = this_tab().tick
        # "Stop" and the countdown are worth a faster tick, also for a reader who turned the refresh off.
        every = tick if this_tab().hidden or not waits else COUNTDOWN_TICK
        st.fragment(_panel, run_every=every)(shown, may_reread, waits)


def redis_time(reading: Reading[Page[Job]], jobs: Page[Job]) -> datetime:
    """The present time by the clock of Redis, which decides when a job begins."""
    return jobs.as_of + timedelta(seconds=reading.age)


def seconds_left(job: Job, now: datetime) -> int:
    """Seconds until a job begins, rounded up; 0 for one that has begun, is paused or has ended."""
    if job.state != "running" or job.not_before is None:
        return 0
    return max(0, math.ceil((job.not_before - now).total_seconds()))


def _panel(shown: tuple[str, ...], may_reread: bool, waits: bool) -> None:
    if not access.may("bulk"):
        return
    reading = bulk_kick.jobs(open_store())
    jobs = reading.value
    if jobs is None:
        return
    now = redis_time(reading, jobs)
    if waits and not any(seconds_left(job, now) for job in jobs):
        st.rerun()  # the jobs have begun, so the usual tick is enough
    known = {job.id: job for job in jobs}
    ended = [
        job_id for job_id in shown if job_id in known and known[job_id].done and jobs_of_tab().get(job_id) is False
    ]
    if ended and may_reread:
        jobs_of_tab().update(dict.fromkeys(ended, True))
        this_tab().acted += 1
        st.rerun()
    for job_id in shown:
        if job_id in known:
            with st.container(
                horizontal=True, vertical_alignment="center", gap="small", border=True, key=f"job-{job_id}"
            ):
                _row(known[job_id], jobs.as_of, now)


def _row(job: Job, as_of: datetime, now: datetime) -> None:
    if job.done:
        st.markdown(result(job), width="stretch")
        if st.button(texts.BULK_JOB_HIDE, key=f"hide-{job.id}"):
            jobs_of_tab().pop(job.id, None)
            st.rerun()
        return
    seconds = seconds_left(job, now)
    if seconds:
        st.markdown(
            texts.bulk_job_waits(seconds, number(job.total), name(cut(job.by, 40)), name(cut(job.reason, 60))),
            width="stretch",
        )
        _button(job, "cancel", texts.BULK_JOB_STOP, kind="primary")
        return
    progress = texts.JOB_PROGRESS[job.kind](
        texts.JOB_STATES[job.state], number(job.kicked), number(job.total), local_time(as_of),
        name(cut(job.by, 40)), name(cut(job.reason, 60)),
    )  # fmt: skip
    st.progress(min(1.0, job.kicked / max(1, job.total)), text=progress, width="stretch")
    if job.state == "paused":
        _button(job, "resume", texts.RESUME)
    else:
        _button(job, "pause", texts.PAUSE)
    _button(job, "cancel", texts.BULK_JOB_CANCEL)


def _button(job: Job, command: JobCommand, label: str, kind: Literal["primary", "secondary"] = "secondary") -> None:
    if notifications.checked_button(
        label, f"{command}-{job.id}", "bulk", bulk_kick.audit_name(command, job.kind), type=kind
    ):
        if notifications.attempt(lambda: bulk_kick.control_job(open_store(), job, command)):
            jobs_of_tab()[job.id] = False
        bulk_kick.jobs(open_store(), fresh=True)
        st.rerun()


def result(job: Job) -> str:
    """The result of a job in words, safe for Markdown."""
    left = job.left
    parts = [texts.JOB_RESULT[job.kind](job.state, number(job.kicked), number(job.total))]
    if left and not (job.error and job.state == "done"):
        sentences = texts.JOB_MISSED if job.state == "done" else texts.JOB_LEFT
        parts.append(sentences[job.kind](left, number(left)))
    if job.error:
        parts.append(texts.JOB_ERRORS[job.error_code or "damaged"])
    return " ".join(parts)
