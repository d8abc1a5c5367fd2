"""Counts over time, and the state of the worker that takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from presence_core.models.alerts import Alert
from presence_core.schema.endings import END_COUNTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The counts of one bucket of time, from the samples of ten seconds in it."""

    at: datetime  #: its start, aware UTC
    step: int  #: its length, seconds
    users: int  #: online at its end
    users_min: int
    users_mean: float
    users_max: int
    sessions: int  #: live at its end
    sessions_min: int
    sessions_mean: float
    sessions_max: int
    logins: int  #: how many began in the ``watched`` part of it
    logouts: int
    kicked: int
    expired: int
    replaced: int
    new_devices: int = 0  #: how many of the logins were on a device new to the user
    distant_logins: int = 0  #: how many of them were far from the user's login before
    failed_logins: int = 0  #: sign-ins that failed in the ``watched`` part of it
    uniques: int | None = None  #: users online at its end or seen in it; only for steps of an hour and of a day
    apps: Mapping[str, int] | None = None  #: live sessions per app, counted once an hour; only for steps of an hour
    devices: Mapping[str, int] | None = None  #: the same per device; the 20 most frequent values, and "(other)"
    watched: int | None = None
    """Seconds of it whose logins and ends are in it. Those of a time without samples are only in a sample that holds
    all of this time, such as that of the hour."""
    complete: bool
    """False while samples may still be added; for steps under an hour also if not all of it was watched."""
    samples: int  #: how many samples of ten seconds it is made of


def ends_of(sample: Sample) -> int:
    """How many sessions ended in the watched part of a sample, for any reason."""
    return sum(getattr(sample, count) for count in END_COUNTS)


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What the worker that leads, or led last, has reported. Times are by Redis's clock."""

    leader: str  #: host and process
    since: datetime  #: when it began to lead
    beat: datetime  #: its last beat
    alive: bool  #: its last beat is recent, and it has not stopped
    last_run: datetime | None  #: when its last sweep ended without an error
    lag_seconds: float  #: how long the oldest overdue session had waited when that sweep began
    paused: str  #: why it does not sweep, as a sentence; "" if it does
    alerts: tuple[Alert, ...] = ()  #: the counts that were above their limit at the last check


TopCount = Literal["sessions", "devices", "networks", "countries"]
"""What people are ranked by: live sessions of their own; devices and browsers, networks (a /24 or a /48 of the address
at login) or countries of these."""


@dataclass(frozen=True, slots=True)
class TopPerson:
    """A person in such a list."""

    uid: str
    count: int


@dataclass(frozen=True, slots=True)
class TopPeople:
    """The people with the most of something, the most first."""

    at: datetime  #: when the worker had read all users
    people: tuple[TopPerson, ...]  #: at most 100, each with two or more

    @classmethod
    def from_stored(cls, at: bytes | None, raw: bytes | None) -> TopPeople | None:
        """Decode a stored list; None where there is none as we write it."""
        try:
            rows = [TopPerson(str(uid), int(count)) for uid, count in json.loads(raw or b"")]
            return cls(datetime.fromtimestamp(int(at or b"") / 1000, UTC), tuple(rows))
        except (ValueError, TypeError, OverflowError, RecursionError):
            return None


START_A_WORKER: Final = "Run presence worker, or Worker(presence) in a process of your own."


NO_RUNNER: Final = "No worker runs, so this job waits until one does (presence worker) or a process calls run_job."


def no_worker(beat: datetime | None) -> str:
    """That no worker leads, as a sentence. ``beat``: the last one of a worker; None: none has ever run."""
    effect = "sessions end on time, but memory and the history are not updated"
    if beat is None:
        return f"No worker has ever run here: {effect}."
    return f"No worker runs, the last report was at {beat:%Y-%m-%d %H:%M:%S} UTC: {effect}."
