"""The duties of a worker that work in parts: each call does a part, and returns whether there is more to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from presence_core.client.internal import Internal
from presence_core.errors import CorruptData, InvalidArgument, PresenceError
from presence_core.keyspace import Shard
from presence_core.models import Alert, AlertCount, FailureAlert, PersonAlert
from presence_core.operations.bulk_kick import jobs
from presence_core.operations.bulk_kick.runner import Run
from presence_core.operations.context import Context
from presence_core.operations.maintenance import top_people
from presence_core.operations.search import rebuild
from presence_core.scripts.calls import Op

PART_SECONDS: Final = 0.5
"""How long one part of an index repair or of a truncation takes."""

RANKING_SECONDS: Final = 0.25
"""How long one part of the ranking of people takes, about once in five seconds."""

RANKING_PAUSE: Final = 60.0
"""Seconds between two passes over all users."""

KICK_SECONDS: Final = 1.0
"""How long one part of the bulk kicks takes."""


class IsStopping(Protocol):
    """Whether the worker is to stop; waits for that as many seconds."""

    def __call__(self, seconds: float = 0.0) -> bool: ...


class AlertReceiver(Protocol):
    """Gets the alerts of a worker, as ``presence_core.web.webhooks.AlertWebhook`` does."""

    @property
    def limits(self) -> Mapping[AlertCount, int]:
        """The counts to check, each with its limit per minute."""

    @property
    def people(self) -> bool:
        """Whether to check logins of the people on the shared watch list."""

    @property
    def failed_of_person(self) -> int | None:
        """How many failed sign-ins a person may have since their last login; None: not checked."""

    @property
    def failed_of_network(self) -> int | None:
        """How many a network may have within an hour; None: not checked."""

    def send(self, alert: Alert | PersonAlert | FailureAlert) -> None:
        """Accept an alert. Must return at once: the worker waits for it."""


@dataclass(slots=True)
class Duty:
    """What the leading worker does in turn. An error in one duty does not stop the others."""

    name: str  #: as in the log, after "the"
    run: Callable[[], bool | None]  #: takes a second or two; True: there is more to do, call again at once
    every: float = 0.0  #: seconds between two calls; 0: at every turn
    while_paused: bool = False  #: also while Redis's clock cannot be trusted: only for what ends no session
    due: float = 0.0  #: monotonic


class IndexRepair:
    """Compares the indexes with the sessions, a part at a time. Rebuilds the facets of a shard that were wrong in two
    checks in a row, ten seconds apart."""

    def __init__(self, internal: Internal, is_stopping: IsStopping) -> None:
        self._internal = internal
        self._is_stopping = is_stopping
        self.restart()

    def restart(self) -> None:
        """Drop what was begun: it concerns shards that are no longer in use."""
        self._cleaning: rebuild.Cleaning | None = None
        self._rebuilds: list[rebuild.Filling] = []
        self._wrong: set[Shard] = set()  # the shards whose facets were wrong at the last check

    def run(self) -> bool:
        run, ctx = self._internal.run, self._internal.context
        if self._cleaning is None:
            self._cleaning = rebuild.Cleaning(ctx, ctx.keys.shards)
        if not self._rebuilds:
            wrong = set(run(rebuild.drifted(ctx.keys.shards)))
            self._rebuilds = [rebuild.Filling(ctx, shard) for shard in wrong & self._wrong]
            self._wrong = wrong
        end = time.monotonic() + PART_SECONDS
        while self._rebuilds and time.monotonic() < end and not self._is_stopping():
            run(self._rebuilds[0].step())
            if self._rebuilds[0].done:
                del self._rebuilds[0]
        while run(self._cleaning.step()) and time.monotonic() < end and not self._is_stopping():
            pass
        return bool(self._rebuilds)


class _Run(Protocol):
    """One run over the data, a part at a step."""

    def step(self) -> Op[bool]:
        """Do the next part. Returns whether there is more."""


class PrivacyRun:
    """Removes what settings no longer keep, a part at a time: of addresses (``truncate.Truncation``), or of sign-in
    histories (``trim.Trimming``)."""

    def __init__(self, internal: Internal, is_stopping: IsStopping, begin: Callable[[Context], _Run]) -> None:
        self._internal = internal
        self._is_stopping = is_stopping
        self._begin = begin
        self.restart()

    def restart(self) -> None:
        """Drop what was begun: it concerns shards that are no longer in use."""
        self._under_way: _Run | None = None

    def run(self) -> bool:
        if self._under_way is None:
            self._under_way = self._begin(self._internal.context)
        end = time.monotonic() + PART_SECONDS
        while has_more := self._internal.run(self._under_way.step()):
            if time.monotonic() >= end or self._is_stopping():
                break
        if not has_more:
            self._under_way = None
        return has_more


class TopPeopleRanking:
    """Finds the people with the most sessions, a part at a time. A new pass begins some time after the last one."""

    def __init__(self, internal: Internal, is_stopping: IsStopping) -> None:
        self._internal = internal
        self._is_stopping = is_stopping
        self.restart()

    def restart(self) -> None:
        """Drop what was begun: it concerns shards that are no longer in use."""
        self._ranking: top_people.Ranking | None = None
        self._due = 0.0

    def run(self) -> None:
        begin = time.monotonic()
        if self._ranking is None:
            if begin < self._due:
                return
            self._ranking = top_people.Ranking(self._internal.context)
        while has_more := self._internal.run(self._ranking.step()):
            if time.monotonic() >= begin + RANKING_SECONDS or self._is_stopping():
                break
        if not has_more:
            self._ranking, self._due = None, time.monotonic() + RANKING_PAUSE


class BulkKicks:
    """Runs the bulk kicks that no other process runs, each at its own pace; the longest-waiting step first."""

    def __init__(self, internal: Internal, is_stopping: IsStopping) -> None:
        self._internal = internal
        self._is_stopping = is_stopping
        self._runs: dict[str, tuple[Run, float]] = {}  # by job id, with the time of the next step

    def run(self) -> bool:
        run, ctx = self._internal.run, self._internal.context
        self._runs = {job_id: self._runs.get(job_id) or (Run(ctx, job_id), 0.0) for job_id in run(jobs.running(ctx))}
        end = time.monotonic() + KICK_SECONDS
        errors: list[PresenceError] = []
        while self._runs and not self._is_stopping():
            job_id, (job, due) = min(self._runs.items(), key=lambda item: item[1][1])
            if max(due, time.monotonic()) >= end:
                break
            self._is_stopping(max(0.0, due - time.monotonic()))
            begin = time.monotonic()
            try:
                wait = run(job.step())
                self._runs[job_id] = (job, begin + wait)
            except (CorruptData, InvalidArgument) as error:  # concerns this job alone: the others go on
                errors.append(error)
                job.over = True
            if job.over:
                del self._runs[job_id]
        if errors:
            raise errors[0]
        return any(job.has_claim for job, _ in self._runs.values())
