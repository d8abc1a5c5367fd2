"""Merge the shards' parts of the session list into one, newest first.

Each shard returns a part at a time, in order, and says how far it has read. No two entries are equal in the
order (login ms, ref). An entry of the heap is returned as soon as no shard can still send a newer one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any, Final, Protocol

from presence_core.keyspace import Shard
from presence_core.operations.context import Context
from presence_core.scripts.calls import Call, Op, run
from presence_core.scripts.search import READ_PAGE, WALK_SESSIONS, ListPart, decode_page, decode_walk

Position = tuple[int, str]
"""Login ms and ref: where in the list, on every shard alike."""


def raw_ref(ref: str) -> bytes:
    """The member that a position names."""
    return ref.encode("utf-8", "surrogateescape")


ListEntry = tuple[int, bytes, Shard]
"""Login ms, ref, shard."""

Tests = Sequence[str | bytes | int]
"""Names and values for ``include/search/filter_tests.lua``."""

STEP: Final = 2_000
"""Entries that one scan script reads, at most; it stops earlier when it has run for 5 ms."""


class Source(Protocol):
    """Where a page's sessions come from, newest login first."""

    now: int  #: ms
    looked: int  #: entries read so far
    stopped: Position | None  #: the budget ended here; all newer entries have been returned

    def next(self, count: int) -> Op[list[ListEntry]]:
        """The next in order; fewer than ``count`` only at the end, or where the budget ended."""
        ...


class _Chunk:
    """What one shard has sent of its part of the list, newest first."""

    __slots__ = ("at", "behind", "done", "flat", "shard", "tests")

    def __init__(self, shard: Shard, position: Position | None, tests: Tests | None) -> None:
        self.shard = shard
        # Ask for what comes behind this.
        self.behind: tuple[int | bytes, str | bytes] | None = position and (position[0], raw_ref(position[1]))
        self.done = False
        self.flat: list[bytes] = []  #: ref, login ms, ref, …, as they came: most of them are on no page
        self.at = 0
        self.tests = tests

    def call(self, ctx: Context, size: int, most: int, span: tuple[int | str, int]) -> Call:
        s, (login, ref) = self.shard, self.behind or ("", "")
        keys = (s.sessions, s.deadlines, s.meta)
        if self.tests is None:
            return run(READ_PAGE, keys, ctx.now, size, login, ref)
        return run(WALK_SESSIONS, keys, ctx.now, size, most, login, ref, *span, s.record_prefix, *self.tests)

    def take(self, reply: list[Any], size: int) -> ListPart:
        part = decode_page(reply, size) if self.tests is None else decode_walk(reply)
        self.flat, self.at, self.done = part.flat, 0, part.at_end
        if part.behind or self.tests is None:
            self.behind = part.behind
        return part

    @property
    def key(self) -> tuple[int, bytes]:
        """Login ms and ref of the next entry; the frontier where no entries are left."""
        flat, at = self.flat, self.at
        return (whole(flat[at + 1]), flat[at]) if at < len(flat) else self.frontier

    @property
    def frontier(self) -> tuple[int, bytes]:
        """Entries that were not read yet come behind this."""
        if self.behind is None:
            return math.inf, b""  # type: ignore[return-value]  # nothing was asked yet
        login, ref = self.behind
        return whole(login), ref.encode() if isinstance(ref, str) else ref


def whole(score: bytes | int) -> int:
    """A score as a login time. Another program's score may be anything: it only has to sort somewhere."""
    if isinstance(score, int):
        return score
    return int(score) if score.isdigit() else int(max(-1e15, min(1e15, float(score))))


class _Entry:
    """A chunk in the heap, by its next ref, or by its frontier when it has no refs left: the newest comes first."""

    __slots__ = ("chunk", "key")

    def __init__(self, chunk: _Chunk) -> None:
        self.chunk = chunk
        self.key = chunk.key

    def __lt__(self, other: _Entry) -> bool:
        return self.key > other.key


class Merge:
    """The list, or the entries that pass each shard's tests.

    Each shard is asked for its fair share and a margin (three standard deviations of a random spread). A shard without
    refs left is asked again when its next entry is due, together with all others that have none left. ``budget``: how
    many entries may be read.
    """

    def __init__(
        self,
        ctx: Context,
        limit: int,
        position: Position | None,
        tests: dict[Shard, Tests] | None = None,
        span: tuple[int | str, int] = ("", 0),
        budget: float = math.inf,
    ) -> None:
        self._ctx = ctx
        self._span = span
        self._budget = budget
        shards = ctx.keys.shards
        self._asking = [_Chunk(shard, position, None if tests is None else tests[shard]) for shard in shards]
        self._waiting: set[_Chunk] = set()
        self._heap: list[_Entry] = []
        self._counted = False
        self._most = min(STEP, max(200, 4 * STEP // len(shards)))  # many shards together read no more than a few
        share = limit / len(shards)
        alone = len(shards) == 1
        self._size = limit + 1 if alone else min(limit, math.ceil(share + 3 * math.sqrt(share))) + 1
        self.now = self.total = self.looked = 0
        self.exact = True  #: the total, of the whole list
        self.stopped: Position | None = None

    def next(self, count: int) -> Op[list[ListEntry]]:
        """See Source."""
        out: list[ListEntry] = []
        while len(out) < count and self.stopped is None:
            if self._asking:
                yield from self._ask()
            if not self._heap:
                break
            entry = self._heap[0]
            chunk = entry.chunk
            if chunk in self._waiting:
                if self.looked >= self._budget:
                    login, ref = entry.key
                    self.stopped = login, ref.decode("utf-8", "surrogateescape")
                    break
                self._asking = list(self._waiting)
                continue
            out.append((*entry.key, chunk.shard))
            chunk.at += 2
            if chunk.at < len(chunk.flat):
                entry.key = chunk.key
                heapq.heapreplace(self._heap, entry)
            else:
                heapq.heappop(self._heap)
                self._push(chunk)
        return out

    def _push(self, chunk: _Chunk) -> None:
        if chunk.at == len(chunk.flat):
            if chunk.done:
                return
            self._waiting.add(chunk)
        heapq.heappush(self._heap, _Entry(chunk))

    def _ask(self) -> Op[None]:
        chunks, self._asking = self._asking, []
        if self._waiting:
            self._heap = [entry for entry in self._heap if entry.chunk not in self._waiting]
            heapq.heapify(self._heap)
            self._waiting.clear()
        replies = yield [chunk.call(self._ctx, self._size, self._most, self._span) for chunk in chunks]
        for chunk, reply in zip(chunks, replies, strict=True):
            part = chunk.take(reply, self._size)
            if not self._counted:
                self.now, self.total = part.now, self.total + part.live
                self.exact = self.exact and part.is_exact
            self.looked += part.read
            self._push(chunk)
        self._counted = True


class Gathered:
    """All sessions that an index named, put in order here."""

    def __init__(self, now: int, looked: int, found: list[ListEntry], position: Position | None) -> None:
        self.now = now
        self.looked = looked
        self.total = 0
        self.stopped: Position | None = None
        found.sort(key=_place, reverse=True)
        behind = None if position is None else (position[0], raw_ref(position[1]))
        self._rest = found if behind is None else [entry for entry in found if _place(entry) < behind]
        self._at = 0

    def next(self, count: int) -> Op[list[ListEntry]]:
        """See Source."""
        yield from ()
        part = self._rest[self._at : self._at + count]
        self._at += len(part)
        return part


def _place(entry: ListEntry) -> tuple[int, bytes]:
    login, ref, _ = entry
    return login, ref
