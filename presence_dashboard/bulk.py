"""Bulk kicks, as data in and out: previewed, begun as a job, watched and steered. No page is drawn here.

The job is the library's: whoever has a worker has it done there. This process works at it as well, in a thread of its
own, so that it goes on where there is no worker; two at one job do no harm. A job outlives the tab and this process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, Literal

from presence_core import Job, KickPreview, Page, Presence, PresenceError, SessionFilter
from presence_dashboard import access, texts
from presence_dashboard.access import Actor, Denied
from presence_dashboard.actions import Why
from presence_dashboard.store import Reading, Store

ASLEEP: Final = 15.0
"""Seconds after which nobody seems to be at work on a job: one that is at work is heard of every few."""

LISTED: Final = 50

Steer = Literal["pause", "resume", "cancel"]

_log: Final = logging.getLogger(__name__)
_at_work: Final[dict[str, threading.Thread]] = {}
_starting: Final = threading.Lock()


def everybody(as_of: datetime) -> SessionFilter:
    """All sessions of a list that was read then."""
    return SessionFilter(logged_in_before=as_of)


def preview(presence: Presence, asked: SessionFilter, spared: Iterable[str]) -> KickPreview:
    """Whom a bulk kick would hit, counted exactly."""
    access.require("bulk", what="kick_where")
    return presence.preview_kick(asked, exclude=spared)


def start(store: Store, found: KickPreview, spared: Iterable[str], why: Why) -> Job:
    """Begin the kick that was previewed.

    Raises Denied, SignedOut, and InvalidArgument: for ``expected`` where more match than the preview had counted.
    """
    presence = store.presence
    actor = _may(presence, found.total)
    job = presence.start_kick(
        found.filter,
        by=actor.name,
        reason=why.reason,
        expected=found.total,
        exclude=spared,
        message=why.message,
        ticket=why.ticket,
    )
    work_at(store, job.id)
    return job


def what(act: Steer) -> str:
    """What is refused, as the audit names it: to resume one is to kick."""
    return "kick_where" if act == "resume" else f"{act}_job"


def steer(store: Store, job: Job, act: Steer) -> Job:
    """Pause, resume or cancel a job, whoever began it."""
    presence = store.presence
    if act == "resume":
        actor = _may(presence, job.expected)
    else:
        actor = access.require("bulk", what=what(act))
    acts: dict[Steer, Callable[..., Job]] = {
        "pause": presence.pause_job, "resume": presence.resume_job, "cancel": presence.cancel_job,
    }  # fmt: skip
    after = acts[act](job.id, by=actor.name)
    if act == "resume":
        work_at(store, job.id)
    return after


def _may(presence: Presence, number: int) -> Actor:
    """The one who acts, if they may end so many sessions at once."""
    actor = access.require("bulk", what="kick_where")
    if actor.bulk_limit is not None and number > actor.bulk_limit:
        presence.denied(
            by=actor.name, what="kick_where", reason=f"{number:,} sessions, of {actor.bulk_limit:,} allowed"
        )
        raise Denied(texts.too_many_at_once(actor.bulk_limit, number))
    return actor


def jobs(store: Store, *, anew: bool = False) -> Reading[Page[Job]]:
    """The latest jobs, one reading for all tabs; those that nobody is at work on are taken up."""
    reading = store.shared("bulk-jobs", lambda presence: presence.jobs(limit=LISTED), anew=anew)
    if reading.value is not None and reading.failure is None:
        for job in reading.value:
            if job.state == "running" and (reading.value.as_of - job.updated).total_seconds() > ASLEEP:
                work_at(store, job.id)
    return reading


def work_at(store: Store, job_id: str) -> None:
    """Have this process work at a job, unless it does already."""
    with _starting:
        for over in [known for known, thread in _at_work.items() if not thread.is_alive()]:
            del _at_work[over]
        if job_id not in _at_work:
            thread = threading.Thread(target=_work, args=(store.presence, job_id), name=f"job-{job_id}", daemon=True)
            _at_work[job_id] = thread
            thread.start()


def wait_for(job_id: str, seconds: float) -> bool:
    """Wait a moment for a job that this process works at; whether it is done with it."""
    thread = _at_work.get(job_id)
    if thread is not None:
        thread.join(seconds)
    return thread is None or not thread.is_alive()


def _work(presence: Presence, job_id: str) -> None:
    try:
        presence.run_job(job_id)
    except PresenceError as error:  # the job is kept, and taken up again when Redis is back
        _log.warning("Job %s: %s", job_id, error)
