"""The people with the most sessions, devices, networks or countries now. The worker finds them, a slice at a time."""

from __future__ import annotations

import heapq
import json
from typing import Final, get_args

from presence_core import validation as check
from presence_core.models import TopCount, TopPeople, text
from presence_core.operations.context import Context
from presence_core.operations.scan import scan_part
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command
from presence_core.scripts.maintenance import MEASURE_USERS

KINDS: Final[tuple[TopCount, ...]] = get_args(TopCount)

MOST: Final = 100
"""People in each list."""

SLICE: Final = 100
"""Users whom one call reads, about."""

LEAST: Final = 2
"""Sessions of a person who is in a list: with one, there is nothing to rank."""

KEEP: Final = 3_600
"""Seconds for which the lists are kept."""


class Ranking:
    """One pass over all users, a slice a step. A step is two calls of the server, of half a millisecond about each."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._todo = list(ctx.keys.shards)
        self._cursor = b"0"
        self._users: list[str] = []  # of the part that was read, not yet measured
        self._best: dict[TopCount, list[tuple[int, str]]] = {kind: [] for kind in KINDS}  # heaps, the smallest first

    def step(self) -> Op[bool]:
        """Measure the next users; with the last ones, store the lists. Returns whether there is more."""
        shard = self._todo[0]
        if not self._users:
            self._cursor, part = yield from scan_part("ZSCAN", shard.users, self._cursor, SLICE)
            self._users = [text(uid) for uid, _ in part]
        if self._users:
            users = self._users[:SLICE]
            [reply] = yield [
                call_of(MEASURE_USERS, (shard.deadlines,), self._ctx.now, shard.user_prefix, shard.record_prefix,
                        self._least(), *users)
            ]  # fmt: skip
            measured = MEASURE_USERS.reply(reply)
            for uid, *counts in measured.users:
                self._take(uid, counts)
            self._users = self._users[measured.read :]
        if not self._users and self._cursor == b"0":
            self._todo.pop(0)
        if self._todo:
            return True
        yield from self._store()
        return False

    def _least(self) -> int:
        """With fewer sessions no one gets into a list: once all are full, more than the fewest in one."""
        if any(len(heap) < MOST for heap in self._best.values()):
            return LEAST
        return max(LEAST, min(heap[0][0] for heap in self._best.values()) + 1)

    def _take(self, uid: str, counts: list[int]) -> None:
        for kind, count in zip(KINDS, counts, strict=True):
            heap = self._best[kind]
            if count < LEAST or any(known == uid for _, known in heap):  # a scan may see a user twice
                continue
            if len(heap) < MOST:
                heapq.heappush(heap, (count, uid))
            elif count > heap[0][0]:
                heapq.heapreplace(heap, (count, uid))

    def _store(self) -> Op[None]:
        """Of those who are online still: an erased person is not."""
        uids = list(dict.fromkeys(uid for heap in self._best.values() for _, uid in heap))
        parts = self._ctx.parts(uids, str, len(uids) or 1)
        scores = yield [command(shard.users, "ZMSCORE", shard.users, *owners) for shard, owners in parts]
        online = {
            uid
            for (_, owners), marks in zip(parts, scores, strict=True)
            for uid, mark in zip(owners, marks, strict=True)
            if mark is not None
        }
        rows = {
            kind: [[uid, count] for count, uid in sorted(heap, key=lambda row: (-row[0], row[1])) if uid in online]
            for kind, heap in self._best.items()
        }
        key = self._ctx.keys.common.top
        [[seconds, micros]] = yield [command(key, "TIME")]
        at = self._ctx.now or int(seconds) * 1000 + int(micros) // 1000
        yield [
            command(key, "HSET", key, "at", at, *(item for kind in KINDS for item in (kind, json.dumps(rows[kind])))),
            command(key, "EXPIRE", key, KEEP),
        ]


@checked_first
def top_people(ctx: Context, count: object) -> Op[TopPeople | None]:
    check.choice("count", count, TopCount)
    yield CHECKED
    key = ctx.keys.common.top
    [row] = yield [command(key, "HMGET", key, "at", str(count), lenient=True)]
    at, raw = row or (None, None)
    return TopPeople.from_stored(at, raw)
