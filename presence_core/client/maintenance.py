"""Sweep, repair and rebuild; counts over time; health; changes that wait for replicas."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from presence_core import validation as check
from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.client.pending import pending
from presence_core.models import Health, MirrorStatus, Sample, SweepReport, TopCount, TopPeople, WorkerStatus
from presence_core.operations.durability import held_changes, replica_ack
from presence_core.operations.maintenance import health, history, leader, repair, sweep, top_people
from presence_core.operations.mirror import reports
from presence_core.operations.search import rebuild
from presence_core.transport.new_connections import refused_connections, refused_connections_async


class MaintenanceMethods(Client):
    def sweep(self, *, limit: int | None = None) -> SweepReport:
        """End sessions that are past their deadline, finish interrupted ends, and delete data that is no longer kept.

        Results are correct without it; it keeps memory low. It works in batches that block Redis for a few ms.
        Any number of sweeps may run at once: each end counts once. limit: about how many sessions at most, 1…100
        million; ``has_more`` says whether some are left. Cost: O(due·log N), a round trip for 50 sessions of each
        server, and about ten.
        """
        return self._run(sweep.sweep(self._ctx, limit))

    def repair(self) -> SweepReport:
        """Read everything and make lists, indexes and records agree, after a lost key or another program's writes.

        Cost: O(N·log N) in many small steps, between which other calls run.
        """
        return self._run(repair.repair(self._ctx))

    def reindex(self, *, on_progress: Callable[[int, int], object] | None = None) -> SweepReport:
        """Rebuild search indexes and facets as ``Settings.indexes`` and ``Settings.facets`` say; logins go on.

        Needed after these settings were changed in every process, or for data of a version without them. ``repair``
        includes it. on_progress: called with the number of sessions read and of all. If it was stopped, call it again.
        Cost: O(N) in steps of some ms.
        """
        check.callback("on_progress", on_progress)
        return self._run(rebuild.reindex(self._ctx, on_progress))

    def history(
        self, since: datetime | float, until: datetime | float | None = None, *, step: int | None = None
    ) -> list[Sample]:
        """Counts over time, oldest first, in at most 1000 buckets of ``step`` seconds from ``since`` to ``until``.

        since, until (now): aware datetimes or Unix seconds. step: a multiple of 10; by default the finest of 10, 30,
        60, 300, 900, 3600, 21600, 86400 that fits and is still kept for ``since``. Buckets are aligned to multiples of
        ``step``. Buckets without a sample are left out. ``complete`` is False for the current, unfinished bucket.
        Logins and ends of a time without a worker are in no bucket that begins or ends in that time: see
        ``Sample.watched``. Cost: O(stored records read, at most 15 a bucket for the steps above), two round trips.
        """
        return self._run(history.history(self._ctx, since, until, step))

    def top_people(self, count: TopCount = "sessions") -> TopPeople | None:
        """The up to 100 people with the most live sessions of their own, devices, networks or countries.

        count: "sessions", "devices" (device, app and browser together), "networks" (a /24 or /48 of the address at
        login) or "countries" (with a place file). People with fewer than two are not listed. A worker finds them: it
        reads all users in slices, and begins again a minute after it is through. ``at`` says when it was. Devices,
        networks and countries are those of at most 200 sessions of a person. None: no worker has been through in the
        last hour. Cost: O(1), one round trip.
        """
        return self._run(top_people.top_people(self._ctx, count))

    def worker_status(self) -> WorkerStatus | None:
        """The worker that leads, or led last, and what it reported; None if none has ever run. Cost: O(1), one round
        trip."""
        return self._run(leader.status(self._ctx))

    def mirrors(self) -> list[MirrorStatus]:
        """Each ``presence mirror`` of this namespace and what it reported last; empty if none has ever run here.
        Cost: O(1), one round trip."""
        return self._run(reports.mirrors(self._ctx))

    def health(self) -> Health:
        """The state of every server, of the data and of the maintenance, with advice: see ``Health.findings``.

        Changes nothing. It opens a new connection to each server, asks Redis which commands it has and permits, and
        runs EVALSHA. What a server does not tell is None, with a note. An unreachable node of a cluster is an error
        among the findings; if no server answers, Unavailable is raised. Cost: O(P + values of facets), a new connection
        and five or six round trips to each server, and eight for the namespace. Fit to be called every few seconds.
        """
        transport = self._transport
        transport.await_sentinels()
        nodes = transport.nodes()
        refused = refused_connections(self.internal.redis_client, self.settings.timeout)
        asking = health.health(
            self._ctx, nodes, transport.server_of, time.perf_counter, time.time, transport.sentinels, refused
        )
        return transport.run(asking)

    def unconfirmed(self) -> int:
        """Number of this client's changes not yet acknowledged by enough replicas (``Settings.confirm_replicas``).

        No round trip; O(held).
        """
        return held_changes.unconfirmed(self._ctx)

    def held(self) -> int:
        """How many changes this client holds, to apply them again after a failover (docs/run/confirmed_kicks.md).

        A change is held until enough replicas acknowledge it, and then for ``Settings.confirm_hold`` seconds more. No
        round trip.
        """
        return len(self._ctx.held)

    def confirm(self) -> int:
        """Check the held changes, apply lost ones again, and ask the replicas. Returns ``unconfirmed``.

        The client does so every second while something is held. Cost: a round trip to each server, and three for every
        hundred changes of a shard that are not acknowledged on its present server.
        """
        return self._run(replica_ack.confirm(self._ctx))


class AsyncMaintenanceMethods(AsyncClient):
    sweep = awaited(MaintenanceMethods.sweep)
    repair = awaited(MaintenanceMethods.repair)
    reindex = awaited(MaintenanceMethods.reindex)
    history = awaited(MaintenanceMethods.history)
    top_people = awaited(MaintenanceMethods.top_people)
    worker_status = awaited(MaintenanceMethods.worker_status)
    mirrors = awaited(MaintenanceMethods.mirrors)

    @pending
    async def health(self) -> Health:
        transport = self._transport
        await transport.await_sentinels()
        nodes = await transport.nodes()
        refused = await refused_connections_async(self.internal.redis_client, self.settings.timeout)
        asking = health.health(
            self._ctx, nodes, transport.server_of, time.perf_counter, time.time, transport.sentinels, refused
        )
        return await transport.run(asking)

    @pending
    async def unconfirmed(self) -> int:
        return held_changes.unconfirmed(self._ctx)

    @pending
    async def held(self) -> int:
        return len(self._ctx.held)

    confirm = awaited(MaintenanceMethods.confirm)
