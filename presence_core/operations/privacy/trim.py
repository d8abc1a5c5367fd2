"""Remove from sign-in histories what ``Settings`` no longer keep: sign-ins after ``keep_sign_ins``, and their city
after ``truncate_addresses_after``."""

from __future__ import annotations

from typing import Final

from presence_core.operations.context import Context
from presence_core.operations.scan import scan_part
from presence_core.operations.sign_ins import trim_call, trims
from presence_core.scripts.calls import Op

BATCH: Final = 200
"""Histories that one script reads."""


class Trimming:
    """One run over the users of all shards, online and offline, a part at a step. A client whose settings keep no
    history removes only the cities: what another one has written expires by TTL."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        shards = ctx.keys.shards if trims(ctx) else ()
        self._todo = [(shard, key) for shard in shards for key in (shard.users, shard.people)]
        self._cursor = b"0"

    def step(self) -> Op[bool]:
        """Read the next part. Returns whether there is more."""
        if not self._todo:
            return False
        shard, key = self._todo[0]
        self._cursor, users = yield from scan_part("ZSCAN", key, self._cursor, BATCH)
        for first in range(0, len(users), BATCH):
            yield [trim_call(self._ctx, shard, [uid for uid, _ in users[first : first + BATCH]])]
        if self._cursor == b"0":
            self._todo.pop(0)
        return bool(self._todo)
