"""Addresses of sessions that are over lose their end after ``Settings.truncate_addresses_after`` days."""

from __future__ import annotations

from typing import Final

from presence_core.keyspace import Shard
from presence_core.operations.context import Context
from presence_core.scripts import COUNT, TRUNCATE, Op, command, run
from presence_core.settings import DAY

BATCH: Final = 200
"""Records in one script."""

SLACK: Final = DAY * 1000
"""How far behind the place it has come to it looks again, ms: a sweep may write down late what ended before."""


class Truncation:
    """Once over all shards, a batch at each step."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._todo = [] if ctx.settings.truncate_addresses_after is None else list(ctx.keys.shards)
        self._begin, self._upto, self._skip = -1, 0, 0

    def step(self) -> Op[bool]:
        """Answers whether there is more."""
        if not self._todo:
            return False
        s = self._todo[0]
        if self._begin < 0:
            yield from self._look(s)
        # From the latest millisecond on that was seen, but for those of its ends that were.
        args = (s.ended, self._begin, self._upto, "BYSCORE", "LIMIT", self._skip, BATCH, "WITHSCORES")
        [flat] = yield [command(s.ended, "ZRANGE", *args)]
        if flat and isinstance(flat[0], list):  # RESP3
            flat = [part for pair in flat for part in pair]
        refs, times = flat[::2], [round(float(at)) for at in flat[1::2]]
        if refs:
            records = [s.record_prefix.encode() + ref for ref in refs]
            yield [run(TRUNCATE, (s.meta, *records), times[-1])]
            seen = times.count(times[-1])
            self._skip = self._skip + seen if times[-1] == self._begin else seen
            self._begin = times[-1]
        if len(refs) < BATCH:
            self._todo.pop(0)
            self._begin = -1
        return bool(self._todo)

    def _look(self, s: Shard) -> Op[None]:
        """Where to begin on this shard, and up to when."""
        (now, *_), (done,) = yield [
            run(COUNT, (s.deadlines, s.users, s.meta, s.totals, s.sessions), self._ctx.now),
            command(s.meta, "HMGET", s.meta, "truncated"),
        ]
        self._upto = now - (self._ctx.settings.truncate_addresses_after or 0) * DAY * 1000
        self._begin, self._skip = max(0, (int(done) if done and done.isdigit() else 0) - SLACK), 0
