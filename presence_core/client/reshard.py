"""Move a namespace to another number of shards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from presence_core import validation as check
from presence_core.client.base import AsyncClient, Client
from presence_core.client.pending import pending
from presence_core.models import ReshardReport
from presence_core.operations import layout
from presence_core.operations.reshard import coordinator

KEEP_OLD_KEYS_SECONDS = 1.5 * layout.REFRESH_EVERY
"""From the switch to the new layout to the deletion of the old keys: by then every client has read the layout again."""


class ReshardMethods(Client):
    def reshard(self, shards: int, *, on_progress: Callable[[str, int], object] | None = None) -> ReshardReport:
        """Move everything to another number of shards, while the site runs.

        If it was stopped, call it again. Within an hour it copies only what was not copied or has changed; from a later
        step it continues. Every process must run a version that has this method. When nearly all is copied, writes are
        frozen for some tenths of a second: they wait, within their time limit, and else raise Unavailable without
        having written. ``erase`` is refused until the end. on_progress: called with the step (copy, check, change,
        last, index, remove) and the number of keys or sessions so far. Raises Unavailable while a bulk kick runs or
        another process reshards; CorruptData if the copy does not equal the original: then nothing has changed. Cost:
        O(N + changes) in small steps.
        """
        check.callback("on_progress", on_progress)
        nodes = self._transport.nodes(refresh=True)
        done = self._run(coordinator.reshard(self._ctx, nodes, shards, on_progress))
        if done.before == done.shards:
            return done
        time.sleep(KEEP_OLD_KEYS_SECONDS)
        gone = self._run(coordinator.remove(self._ctx, nodes, on_progress))
        return replace(done, removed=gone)


class AsyncReshardMethods(AsyncClient):
    @pending
    async def reshard(self, shards: int, *, on_progress: Callable[[str, int], object] | None = None) -> ReshardReport:
        check.callback("on_progress", on_progress)
        nodes = await self._transport.nodes(refresh=True)
        done = await self._run(coordinator.reshard(self._ctx, nodes, shards, on_progress))
        if done.before == done.shards:
            return done
        await asyncio.sleep(KEEP_OLD_KEYS_SECONDS)
        gone = await self._run(coordinator.remove(self._ctx, nodes, on_progress))
        return replace(done, removed=gone)
