"""Truncate the addresses of sessions that ended more than ``Settings.truncate_addresses_after`` days ago."""

from __future__ import annotations

from typing import Final

from presence_core.keyspace import Shard
from presence_core.models import stored_number
from presence_core.operations.context import Context
from presence_core.operations.search.live_counts import count_call
from presence_core.scripts.calls import Op, call_of, command, scored
from presence_core.scripts.privacy import TRUNCATE_ADDRESSES
from presence_core.scripts.search import COUNT_LIVE
from presence_core.settings import DAY

BATCH: Final = 200
"""Records that one script truncates."""

SLACK: Final = DAY * 1000
"""How far a run reads back behind the place of the last one, ms: a sweep may write an end late."""


class Truncation:
    """One run over all shards, a batch a step."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._todo = [] if ctx.settings.truncate_addresses_after is None else list(ctx.keys.shards)
        self._begin, self._upto, self._skip = -1, 0, 0

    def step(self) -> Op[bool]:
        """Truncate the next batch. Returns whether there is more."""
        if not self._todo:
            return False
        shard = self._todo[0]
        if self._begin < 0:
            yield from self._find_start(shard)
        # From the last millisecond of the batch before, without the ends of it that were in that batch.
        args = (shard.ended, self._begin, self._upto, "BYSCORE", "LIMIT", self._skip, BATCH, "WITHSCORES")
        [reply] = yield [command(shard.ended, "ZRANGE", *args)]
        ends = scored(reply)
        times = [round(at) for _, at in ends]
        if ends:
            records = [shard.record_prefix.encode() + ref for ref, _ in ends]
            yield [call_of(TRUNCATE_ADDRESSES, (shard.meta, *records), times[-1])]
            seen = times.count(times[-1])
            self._skip = self._skip + seen if times[-1] == self._begin else seen
            self._begin = times[-1]
        if len(ends) < BATCH:
            self._todo.pop(0)
            self._begin = -1
        return bool(self._todo)

    def _find_start(self, shard: Shard) -> Op[None]:
        """Decide where to begin on this shard, and up to when."""
        live, (done,) = yield [
            count_call(self._ctx, shard),
            command(shard.meta, "HMGET", shard.meta, "truncated"),
        ]
        self._upto = COUNT_LIVE.reply(live).now - (self._ctx.settings.truncate_addresses_after or 0) * DAY * 1000
        self._begin, self._skip = max(0, (stored_number(done) or 0) - SLACK), 0
