"""The list: everybody's live sessions, newest login first, in pages.

Two round trips whatever the depth: where the page is on each shard, then the records of what the page shows. A session
may end between the two; then its record says so, and the next in line takes its place.
"""

from __future__ import annotations

import heapq
import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard, split_ref
from presence_core.models import SESSION_FIELDS, Page, Row, Session, moment, span
from presence_core.operations.context import Context, label_texts
from presence_core.operations.upkeep import heal
from presence_core.scripts import PAGE, Call, Op, run

Position = tuple[int, str]
"""Login ms and ref: where in the list, on every shard alike, because the order is total."""

DIRTY_AT_MOST: Final = 1_000
"""Refs without a live session that one page steps over before it heals them and goes on."""


def make_cursor(position: Position) -> str:
    return urlsafe_b64encode(json.dumps(position, ensure_ascii=False).encode()).rstrip(b"=").decode()


def read_cursor(cursor: object) -> Position | None:
    if cursor is None:
        return None
    try:
        if not isinstance(cursor, str) or len(cursor) > 2048:
            raise ValueError
        login, ref = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if type(login) is not int or not 0 <= login < 1 << 53:
            raise ValueError
        check.ref(ref)
    except (ValueError, TypeError, RecursionError):
        raise InvalidArgument("cursor", "must be one that list_sessions gave") from None
    return login, ref


class _Chunk:
    """What one shard has sent of its part of the list, newest first."""

    __slots__ = ("at", "behind", "done", "refs", "shard")

    def __init__(self, shard: Shard, position: Position | None) -> None:
        self.shard = shard
        self.behind: tuple[int | bytes, str | bytes] | None = position  # ask for what comes behind this
        self.done = False
        self.refs: list[tuple[int, bytes]] = []
        self.at = 0

    def call(self, ctx: Context, size: int) -> Call:
        s, (login, ref) = self.shard, self.behind or ("", "")
        return run(PAGE, (s.sessions, s.deadlines), ctx.now, size, login, ref)

    def take(self, flat: list[bytes], size: int) -> None:
        self.refs = [(_whole(flat[i + 1]), flat[i]) for i in range(0, len(flat), 2)]
        self.at = 0
        self.done = len(self.refs) < size
        self.behind = (flat[-1], flat[-2]) if flat else None  # as they came: they may be no text of ours


def _whole(score: bytes) -> int:
    """A login time. Other programs' scores may be anything: they only have to sort somewhere."""
    return int(score) if score.isdigit() else int(max(-1e15, min(1e15, float(score))))


class _Newest:
    """A chunk in the heap, by its next ref: newest login first, then the greater ref."""

    __slots__ = ("chunk", "key")

    def __init__(self, chunk: _Chunk) -> None:
        self.chunk = chunk
        self.key = chunk.refs[chunk.at]

    def __lt__(self, other: _Newest) -> bool:
        return self.key > other.key


class _Merge:
    """The shards' lists as one. Each is asked for its fair share and a margin (three standard deviations of a random
    spread); one whose refs run out before the page is full is asked again."""

    def __init__(self, ctx: Context, limit: int, position: Position | None) -> None:
        self._ctx = ctx
        self._asking = [_Chunk(shard, position) for shard in ctx.keys.shards]
        self._heap: list[_Newest] = []
        self._counted = False
        shards = len(self._asking)
        share = limit / shards
        self._size = limit + 1 if shards == 1 else min(limit, math.ceil(share + 3 * math.sqrt(share))) + 1
        self.now = self.total = 0

    def next(self, count: int) -> Op[list[tuple[int, bytes, Shard]]]:
        """The next refs in order: login ms, ref, shard. Fewer than ``count`` only at the end of the list."""
        out: list[tuple[int, bytes, Shard]] = []
        while len(out) < count:
            if self._asking:  # one whose refs have run out may hold the next in line
                yield from self._ask()
            if not self._heap:
                break
            chunk = heapq.heappop(self._heap).chunk
            out.append((*chunk.refs[chunk.at], chunk.shard))
            chunk.at += 1
            if chunk.at < len(chunk.refs):
                heapq.heappush(self._heap, _Newest(chunk))
            elif not chunk.done:
                self._asking = [chunk]
        return out

    def _ask(self) -> Op[None]:
        chunks, self._asking = self._asking, []
        replies = yield [chunk.call(self._ctx, self._size) for chunk in chunks]
        for chunk, (now, live, flat) in zip(chunks, replies, strict=True):
            if not self._counted:
                self.now, self.total = now, self.total + live
            chunk.take(flat, self._size)
            if chunk.refs:
                heapq.heappush(self._heap, _Newest(chunk))
        self._counted = True


def list_sessions(ctx: Context, limit: object, cursor: object) -> Op[Page[Session]]:
    return _page(ctx, check.whole("limit", limit, 1, 1000), read_cursor(cursor))


def _page(ctx: Context, limit: int, position: Position | None) -> Op[Page[Session]]:
    merge = _Merge(ctx, limit, position)
    live: list[tuple[int, str, Shard, Row]] = []
    dirty: dict[Shard, list[tuple[str, str]]] = {}
    scanned = 0
    while len(live) <= limit:
        refs = yield from merge.next(limit + 1 - len(live))
        if not refs:
            break
        scanned += len(refs)
        rows = yield [
            Call(shard.tag, ("HMGET", shard.record_prefix.encode() + ref, *SESSION_FIELDS, "e"), True, lenient=True)
            for _, ref, shard in refs
        ]
        for (login, raw, shard), row in zip(refs, rows, strict=True):
            ref = raw.decode("utf-8", "replace")
            times = span(row) if row and not row[8] else None  # the record is there and has not ended …
            if times and times[0] == login and merge.now < times[1]:  # … is of this very login, and in time
                live.append((login, ref, shard, row))
            else:
                dirty.setdefault(shard, []).append(split_ref(ref))
        if sum(map(len, dirty.values())) >= DIRTY_AT_MOST:
            yield from _heal(ctx, dirty)
    yield from _heal(ctx, dirty)
    behind = make_cursor(live[limit - 1][:2]) if len(live) > limit else None
    labels = yield from label_texts(ctx, [(shard, row) for _, _, shard, row in live])
    found = [Session.from_reply(*split_ref(ref), row, labels[shard]) for _, ref, shard, row in live[:limit]]
    return Page(found, behind, merge.total, True, scanned, moment(merge.now))


def _heal(ctx: Context, dirty: dict[Shard, list[tuple[str, str]]]) -> Op[None]:
    for shard, pairs in dirty.items():
        yield from heal(ctx, shard, pairs)
    dirty.clear()
