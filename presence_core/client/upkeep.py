"""Upkeep, and what began and ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import datetime

from presence_core import settings as check
from presence_core.client.base import AsyncClient, Client
from presence_core.models import Event, Health, Migration, Sample, SweepReport, WorkerStatus
from presence_core.operations import (
    confirming,
    events,
    health,
    history,
    holding,
    leading,
    migrate,
    reindex,
    repair,
    upkeep,
)

WATCH_INTERVAL = 0.1
"""Seconds between looks at the event streams while watching."""

MOVED_FOR = 1.5 * upkeep.LOOK_EVERY
"""Seconds between the move to other shards and the end of the old keys: by then every client has looked again."""


class Upkeep(Client):
    """Part of Presence."""

    def sweep(self, *, limit: int | None = None) -> SweepReport:
        """End what is past its deadline, finish what a crash left, forget what is kept long enough.

        Answers are right without it; it keeps memory and the count of users in step. In batches that hold the server
        for a few ms; any number of sweepers may run at once, and each end is counted once. limit: about how many
        sessions at most, 1…100 million; ``has_more`` says whether some are left. Cost: O(due·log N), a round trip for
        50 on each server, and about ten.
        """
        return self._run(upkeep.sweep(self._ctx, limit))

    def repair(self) -> SweepReport:
        """Walk everything and make lists, sets and records agree again, after foreign hands or a lost key.

        Cost: O(N·log N) in many small steps; sessions go on meanwhile.
        """
        return self._run(repair.repair(self._ctx))

    def history(
        self, since: datetime | float, until: datetime | float | None = None, *, step: int | None = None
    ) -> list[Sample]:
        """Counts over time, oldest first, in at most 1000 buckets of ``step`` seconds from ``since`` to ``until``.

        since, until (now): aware datetimes or Unix seconds. step: a multiple of 10; by default the finest of 10, 30,
        60, 300, 900, 3600, 21600, 86400 that fits and is still kept for ``since``. Buckets are whole and begin at
        multiples of the step. Those in which no worker took a sample are left out; ``complete`` is False for the one
        that is still running. What happened while no worker ran counts in the first sample after it. Cost: O(stored
        records read, at most 15 a bucket for the steps above), two round trips.
        """
        return self._run(history.history(self._ctx, since, until, step))

    def worker_status(self) -> WorkerStatus | None:
        """Which worker leads, or led last, and what it has reported; None where none has ever run. Cost: O(1), one
        round trip."""
        return self._run(leading.status(self._ctx))

    def health(self) -> Health:
        """How every server, the data and the upkeep are, and what to do about it: see ``Health.findings``.

        Changes nothing. Which commands are refused is asked of Redis, not tried. What a server keeps to itself is None,
        and a note; a node of a cluster that is away is an error among the findings, and Unavailable is raised where no
        server answers. Cost: O(P + values of facets), five or six round trips to each server, and five for the
        namespace; fit to be asked every few seconds.
        """
        transport = self._transport
        asking = health.health(
            self._ctx, transport.nodes(), transport.server_of, time.perf_counter, time.time, transport.sentinels
        )
        return transport.run(asking)

    def reindex(self, *, on_progress: Callable[[int, int], object] | None = None) -> SweepReport:
        """Make search indexes and facets anew, as ``Settings.indexes`` and ``Settings.facets`` ask, while logins go on.

        Needed after these settings were changed in every process, or for data of a version without them; ``repair``
        does it too. on_progress is told how many sessions were visited, of how many. Stopped half-way, call it again.
        Cost: O(N) in steps of some ms.
        """
        check.callback("on_progress", on_progress)
        return self._run(reindex.reindex(self._ctx, on_progress))

    def migrate(self, shards: int, *, on_progress: Callable[[str, int], object] | None = None) -> Migration:
        """Move everything to another number of shards, while the site goes on. One that was stopped is called again:
        within an hour it copies only what had not been copied and what has changed, and it goes on from any later step.

        Every process must run a version that has this method. When nearly all is copied writes stand still for some
        tenths of a second: what would write waits, for its time limit, and then raises Unavailable, and nothing was
        written. ``forget`` is refused until the end. on_progress is told the step (copy, check, change, last, index,
        remove) and the keys or sessions so far. Raises Unavailable while a bulk kick runs, or somebody else moves the
        sessions; CorruptData where what was copied does not agree with what was there: nothing has changed then. Cost:
        O(N + changes) in small steps.
        """
        check.callback("on_progress", on_progress)
        nodes = self._transport.nodes(anew=True)
        done = self._run(migrate.migrate(self._ctx, nodes, shards, on_progress))
        if done.before == done.shards:
            return done
        time.sleep(MOVED_FOR)
        gone = self._run(migrate.remove(self._ctx, nodes, on_progress))
        return replace(done, removed=gone)

    def events(self, *, after: str | None = None, limit: int = 100) -> list[Event]:
        """What began and ended behind ``after`` (an event's cursor), oldest first; from the oldest kept by default.

        limit is 1…1000. Where events between were lost to the cap, a ``gap`` event comes first. Cost: O(P + limit), one
        round trip.
        """
        return self._run(events.events(self._ctx, after, limit))

    def unconfirmed(self) -> int:
        """How many ends, blocks and revocations of this client too few replicas have confirmed
        (``Settings.confirm_replicas``), as far as is known. Without a round trip; O(held)."""
        return holding.unconfirmed(self._ctx)

    def held(self) -> int:
        """How many ends, blocks and revocations this client holds, to apply them again after a failover: those that
        ``unconfirmed`` counts, and the others for ``Settings.confirm_hold`` seconds more. Without a round trip."""
        return len(self._ctx.held)

    @property
    def may_fail_over(self) -> bool:
        """Whether another server may take over: behind Sentinel, or on a cluster."""
        return self._transport.may_fail_over

    def confirm(self) -> int:
        """Look at what is held, apply again what a failover has lost, ask the replicas; answers how many are not
        confirmed. The client does so every second while something is held. Cost: a round trip a server; and three for
        every hundred of a shard that are not confirmed on the server that serves it now."""
        return self._run(confirming.confirm(self._ctx))

    def events_end(self) -> str:
        """The cursor of now: what comes behind it has not happened yet. Cost: O(P), one round trip."""
        return self._run(events.latest(self._ctx))

    def watch(self, *, after: str | None = None) -> Iterator[Event]:
        """Events as they happen, without end, from now on or behind ``after``. Each arrives once, within 0.1 s or so.

        Raises Unavailable while Redis is away: go on with the cursor of the last event, and nothing is missed. Cost:
        that of ``events``, ten times a second.
        """
        cursor = self.events_end() if after is None else after
        return self._watch(cursor)

    def _watch(self, cursor: str) -> Iterator[Event]:
        while True:
            batch = self.events(after=cursor, limit=1000)
            for event in batch:
                cursor = event.cursor
                yield event
            if not batch:
                time.sleep(WATCH_INTERVAL)


class AsyncUpkeep(AsyncClient):
    """Part of AsyncPresence."""

    async def sweep(self, *, limit: int | None = None) -> SweepReport:
        """See Presence.sweep."""
        return await self._run(upkeep.sweep(self._ctx, limit))

    async def repair(self) -> SweepReport:
        """See Presence.repair."""
        return await self._run(repair.repair(self._ctx))

    async def history(
        self, since: datetime | float, until: datetime | float | None = None, *, step: int | None = None
    ) -> list[Sample]:
        """See Presence.history."""
        return await self._run(history.history(self._ctx, since, until, step))

    async def worker_status(self) -> WorkerStatus | None:
        """See Presence.worker_status."""
        return await self._run(leading.status(self._ctx))

    async def health(self) -> Health:
        """See Presence.health."""
        transport = self._transport
        nodes = await transport.nodes()
        asking = health.health(self._ctx, nodes, transport.server_of, time.perf_counter, time.time, transport.sentinels)
        return await transport.run(asking)

    async def reindex(self, *, on_progress: Callable[[int, int], object] | None = None) -> SweepReport:
        """See Presence.reindex."""
        check.callback("on_progress", on_progress)
        return await self._run(reindex.reindex(self._ctx, on_progress))

    async def migrate(self, shards: int, *, on_progress: Callable[[str, int], object] | None = None) -> Migration:
        """See Presence.migrate."""
        check.callback("on_progress", on_progress)
        nodes = await self._transport.nodes(anew=True)
        done = await self._run(migrate.migrate(self._ctx, nodes, shards, on_progress))
        if done.before == done.shards:
            return done
        await asyncio.sleep(MOVED_FOR)
        gone = await self._run(migrate.remove(self._ctx, nodes, on_progress))
        return replace(done, removed=gone)

    async def events(self, *, after: str | None = None, limit: int = 100) -> list[Event]:
        """See Presence.events."""
        return await self._run(events.events(self._ctx, after, limit))

    async def unconfirmed(self) -> int:
        """See Presence.unconfirmed."""
        return holding.unconfirmed(self._ctx)

    async def held(self) -> int:
        """See Presence.held."""
        return len(self._ctx.held)

    @property
    def may_fail_over(self) -> bool:
        """See Presence.may_fail_over."""
        return self._transport.may_fail_over

    async def confirm(self) -> int:
        """See Presence.confirm."""
        return await self._run(confirming.confirm(self._ctx))

    async def events_end(self) -> str:
        """See Presence.events_end."""
        return await self._run(events.latest(self._ctx))

    async def watch(self, *, after: str | None = None) -> AsyncIterator[Event]:
        """See Presence.watch: ``async for event in presence.watch()``. "Now" is when the loop begins."""
        cursor = await self.events_end() if after is None else after
        while True:
            batch = await self.events(after=cursor, limit=1000)
            for event in batch:
                cursor = event.cursor
                yield event
            if not batch:
                await asyncio.sleep(WATCH_INTERVAL)
