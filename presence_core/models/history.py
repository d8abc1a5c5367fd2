"""Counts over time, and who takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a stretch of time was like, from the samples of ten seconds that were taken in it."""

    at: datetime  #: its begin, aware UTC
    step: int  #: its length, seconds
    users: int  #: online at its end, as of the last sweep
    users_min: int
    users_mean: float
    users_max: int
    sessions: int  #: live at its end
    sessions_min: int
    sessions_mean: float
    sessions_max: int
    logins: int  #: how many began in it; what no sample saw at once counts in the first sample that came after
    logouts: int
    kicked: int
    expired: int
    replaced: int
    uniques: int | None = None  #: users online at its end or seen in it; only for steps of an hour and of a day
    apps: Mapping[str, int] | None = (
        None  #: live sessions per app, looked at once in the hour; only for steps of an hour
    )
    devices: Mapping[str, int] | None = None  #: the same per device; beyond twenty values the rest is "(other)"
    complete: bool  #: False while samples may still be added
    samples: int  #: how many samples of ten seconds it stands on


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What the worker that leads, or led last, has reported. Times are Redis's."""

    leader: str  #: host and process
    since: datetime  #: when it began to lead
    beat: datetime  #: when it was last heard of
    alive: bool  #: it has been heard of lately, and has not said goodbye
    last_run: datetime | None  #: when a sweep of its namespace last ended well
    lag_seconds: float  #: how long the session that was due the longest had waited when that sweep began
    paused: str  #: why it does not sweep, a sentence; "" when it does
