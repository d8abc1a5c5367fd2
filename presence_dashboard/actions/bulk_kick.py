"""Bulk kicks and bulk changes of timeouts: preview, start as a job, follow, pause, resume and cancel.

A worker runs the job. This process runs it as well, in a thread, because a site may have no worker; two runners of a
job do no harm. A job continues after the tab is closed, and after this process ends.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from presence_core import (
    Job,
    JobKind,
    KickPreview,
    Page,
    Presence,
    PresenceError,
    Session,
    SessionFilter,
    TimeoutsPreview,
)
from presence_dashboard import access, texts
from presence_dashboard.actions.kick_and_block import ActionDetails, require_within_limit
from presence_dashboard.data.session_query import FACETS
from presence_dashboard.data.store import Reading, Store
from presence_dashboard.roles import Actor, Denied

STALLED_AFTER: Final = 15.0
"""Seconds without an update after which no runner seems to run a job. A runner updates its job every few seconds."""

LISTED: Final = 50

DELAYED_FROM: Final = 101
"""Sessions from which a bulk kick waits before its first end, and is paced."""

DELAY: Final = 10
"""Seconds that such a bulk kick waits, by the clock of Redis. Closing the tab neither starts nor stops it."""

PACE: Final = 200
"""Sessions per second that such a bulk kick ends at most, unless it would then take longer than LONGEST."""

LONGEST: Final = 600
"""Seconds after which even a very large bulk kick should be through."""

PAGE: Final = 1_000
MAX_READ: Final = 20_000
"""Sessions of a preview whose people are counted one by one."""

JobCommand = Literal["pause", "resume", "cancel"]

_log: Final = logging.getLogger(__name__)
_running: Final[dict[str, threading.Thread]] = {}
_starting: Final = threading.Lock()


def everyone(as_of: datetime) -> SessionFilter:
    """A filter for all sessions of a list that was read at that time."""
    return SessionFilter(logged_in_before=as_of)


def preview(presence: Presence, matching: SessionFilter, spared: Iterable[str]) -> KickPreview:
    """The sessions that a bulk kick would end, counted exactly."""
    access.require("bulk", action="kick_where")
    return presence.preview_kick(matching, exclude=spared)


def pace_of(total: int) -> int | None:
    """Sessions per second that a bulk kick of this size ends at most; None: no limit, and it begins at once."""
    return None if total < DELAYED_FROM else max(PACE, -(-total // LONGEST))


@dataclass(frozen=True, slots=True)
class PeopleCount:
    """The people of a preview."""

    count: int
    is_exact: bool  #: False: only MAX_READ sessions were read, so there are at least so many
    sample: tuple[Session, ...]  #: their newest sessions
    values: Mapping[tuple[str, str], int] = field(default_factory=dict)  #: facet and value → sessions that were read


def count_people(presence: Presence, preview: KickPreview, spared: Collection[str], sample: int) -> PeopleCount:
    """How many people the previewed sessions belong to. Reads up to MAX_READ sessions."""
    uids: set[str] = set()
    values: Counter[tuple[str, str]] = Counter()
    first: list[Session] = []
    cursor, read = None, 0
    while True:
        page = presence.list_sessions(preview.filter, limit=PAGE, cursor=cursor)
        found = [session for session in page if session.ref not in spared]
        uids.update(session.uid for session in found)
        values.update((field, value) for session in found for field in FACETS if (value := facet_value(session, field)))
        first += found[: sample - len(first)]
        cursor, read = page.next_cursor, read + len(page)
        if cursor is None or read >= MAX_READ:
            return PeopleCount(len(uids), cursor is None, tuple(first), values)


def facet_value(session: Session, field: str) -> str | None:
    place = session.place
    if field == "country":
        return place.country if place else None
    if field == "network":
        return place.network_id if place else None
    value: str | None = getattr(session, field)
    return value


def start(store: Store, preview: KickPreview, spared: Iterable[str], details: ActionDetails) -> Job:
    """Start the previewed bulk kick; a large one after DELAY seconds, and paced.

    Needs a fresh authentication; the job then runs to its end without another. Raises Denied, SignedOut, and
    InvalidArgument with the field ``expected`` if more sessions match than previewed.
    """
    access.require_fresh("bulk", action="kick_where")
    actor = require_within_limit(store.presence, preview.total, action="kick_where")
    return start_as(store, actor.name, preview, spared, details)


def start_as(store: Store, by: str, preview: KickPreview, spared: Iterable[str], details: ActionDetails) -> Job:
    """``start`` in this name. The caller has checked the rights."""
    job = store.presence.start_kick(
        preview.filter,
        by=by,
        reason=details.reason,
        expected=preview.total,
        exclude=spared,
        message=details.message,
        ticket=details.ticket,
        pace=pace_of(preview.total),
        delay=DELAY if preview.total >= DELAYED_FROM else None,
    )
    run_in_background(store, job.id)
    return job


def preview_timeouts(
    presence: Presence, matching: SessionFilter, idle: int | None, absolute: int | None
) -> TimeoutsPreview:
    """What a bulk change of timeouts (s) would do."""
    access.require("bulk", action="change_timeouts_where")
    return presence.preview_timeouts(matching, idle_timeout=idle, absolute_timeout=absolute)


def start_timeouts(
    store: Store, preview: TimeoutsPreview, idle: int | None, absolute: int | None, reason: str, ticket: str | None
) -> Job:
    """Start the previewed change of timeouts. Without the right to lengthen, each session stays as it is of which a
    timeout would be longer. Raises as ``start``."""
    access.require_fresh("bulk", action="change_timeouts_where")
    actor = require_within_limit(store.presence, preview.total, action="change_timeouts_where")
    if actor.four_eyes is not None:
        raise Denied(texts.ASK_TIMEOUTS)
    return start_timeouts_as(store, actor, preview, idle, absolute, reason, ticket)


def start_timeouts_as(
    store: Store,
    actor: Actor,
    preview: TimeoutsPreview,
    idle: int | None,
    absolute: int | None,
    reason: str,
    ticket: str | None,
) -> Job:
    """``start_timeouts`` in this name. The caller has checked that they may."""
    job = store.presence.start_timeouts(
        preview.filter,
        idle_timeout=idle,
        absolute_timeout=absolute,
        by=actor.name,
        reason=reason,
        ticket=ticket,
        expected=preview.total,
        only_shorten=not actor.may("lengthen"),
        pace=pace_of(preview.total),
    )
    run_in_background(store, job.id)
    return job


def audit_name(command: JobCommand, kind: JobKind) -> str:
    """The name of a command in the audit of denials. Resuming a job counts as beginning it."""
    if command != "resume":
        return f"{command}_job"
    return "kick_where" if kind == "kick" else "change_timeouts_where"


def control_job(store: Store, job: Job, command: JobCommand) -> Job:
    """Pause, resume or cancel a job of any staff member."""
    presence = store.presence
    if command == "resume":
        actor = require_within_limit(presence, job.expected, action=audit_name(command, job.kind), begun=True)
    else:
        actor = access.require("bulk", action=audit_name(command, job.kind))
    commands: dict[JobCommand, Callable[..., Job]] = {
        "pause": presence.pause_job, "resume": presence.resume_job, "cancel": presence.cancel_job,
    }  # fmt: skip
    after = commands[command](job.id, by=actor.name)
    if command == "resume":
        run_in_background(store, job.id)
    return after


def jobs(store: Store, *, fresh: bool = False) -> Reading[Page[Job]]:
    """The latest jobs, read once for all tabs. Jobs without a runner are run here."""
    reading = store.shared("bulk-jobs", lambda presence: presence.jobs(limit=LISTED), fresh=fresh)
    if reading.value is not None and reading.failure is None:
        for job in reading.value:
            due = max(job.updated, job.not_before or job.updated)
            if job.state == "running" and (reading.value.as_of - due).total_seconds() > STALLED_AFTER:
                run_in_background(store, job.id)
    return reading


def run_in_background(store: Store, job_id: str) -> None:
    """Run a job in a thread of this process, unless it runs here already."""
    with _starting:
        for ended in [known_id for known_id, thread in _running.items() if not thread.is_alive()]:
            del _running[ended]
        if job_id not in _running:
            thread = threading.Thread(target=_run, args=(store.presence, job_id), name=f"job-{job_id}", daemon=True)
            _running[job_id] = thread
            thread.start()


def wait_for(job_id: str, seconds: float) -> bool:
    """Wait up to ``seconds`` for a job that runs in this process. Returns whether it has ended."""
    thread = _running.get(job_id)
    if thread is not None:
        thread.join(seconds)
    return thread is None or not thread.is_alive()


def _run(presence: Presence, job_id: str) -> None:
    try:
        presence.run_job(job_id)
    except PresenceError as error:  # the job is stored, and is run again when Redis is back
        _log.warning("Job %s: %s", job_id, error)
