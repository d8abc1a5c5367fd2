"""Merge the lists of all shards into one, newest first: blocks, ends, audit entries. Bounded work per call.

Each shard's list is read in chunks; a heap merges them. A page that has read LOOK_AT entries without being full is
short, and its cursor goes on from there.
"""

from __future__ import annotations

import heapq
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from presence_core.keyspace import Shard
from presence_core.models import stored_number
from presence_core.operations.context import Context
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.search import READ_NEWEST

LOOK_AT: Final = 5_000
"""Entries that one call reads."""

MAX_AT_ONCE: Final = 500
"""Entries of one shard in one reply: well under a millisecond of the server's time."""

LATEST_TIME: Final = 1 << 53  # ms; every time is before it

FRONT: Final = (math.inf,)
"""In front of every place."""

_SCORE = re.compile(r"-?([0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?|inf)")

T = TypeVar("T")


def whole(score: bytes | int) -> int:
    """A score as a time, ms. Another program's score may be anything: it only has to sort somewhere."""
    if isinstance(score, int):
        return score
    number = stored_number(score)
    return int(max(-1e15, min(1e15, float(score)))) if number is None else number


class MergePart:
    """A part of a list, newest first, that is read already."""

    __slots__ = ("at", "done", "items", "now", "total")

    def __init__(self) -> None:
        self.items: list[Any] = []  #: (place in the order, the greatest first; entry)
        self.at = 0  #: the next of them
        self.done = True  #: no entries come behind them
        self.now = self.total = 0

    @property
    def place(self) -> Any:
        """The place of the next entry; where none is left, one that no entry still to be read is in front of."""
        return self.items[self.at][0] if self.at < len(self.items) else FRONT

    def pop(self, most: int) -> list[Any]:
        """The next entries."""
        entries = [entry for _, entry in self.items[self.at : self.at + most]]
        self.at += len(entries)
        return entries


class ShardPart(MergePart, ABC):
    """One shard's part, as far as it has been read."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    @abstractmethod
    def call(self, ctx: Context, size: int) -> Call:
        """Ask for what comes next."""

    @abstractmethod
    def take(self, reply: list[Any], size: int) -> None:
        """Take the reply."""


class _Head:
    """A part in the heap, by the place of its next entry."""

    __slots__ = ("part", "place")

    def __init__(self, part: MergePart) -> None:
        self.part = part
        self.place = part.place

    def __lt__(self, other: _Head) -> bool:
        return bool(self.place > other.place)


def share_of_shard(limit: int, shards: int) -> int:
    """Entries that a page asks of each shard at first: its fair share, and three standard deviations of a random
    spread; and one."""
    share = limit / max(1, shards)
    return min(limit, math.ceil(share + 3 * math.sqrt(share))) + 1


class HeapMerge(ABC):
    """Parts as one list. A part without entries left is read on when its place is due, together with all others that
    have none left."""

    def __init__(self, parts: Sequence[MergePart]) -> None:
        self._asking: list[Any] = [part for part in parts if not part.done]
        self._waiting: set[MergePart] = set()  #: parts in the heap without entries left
        self._heap = [_Head(part) for part in parts if part.items]
        heapq.heapify(self._heap)

    @abstractmethod
    def _ask(self, parts: list[Any]) -> Op[None]:
        """Read what comes next in these parts, which are not done."""

    def _stops_at(self, place: Any) -> bool:
        """Whether to return fewer entries instead of reading on at this place."""
        return False

    def next(self, count: int) -> Op[list[Any]]:
        """The next entries in order. Fewer than ``count`` only at the end of the list, or where it stopped."""
        out: list[Any] = []
        while len(out) < count:
            if self._asking:
                yield from self._read_on()
            if not self._heap:
                break
            head = self._heap[0]
            part = head.part
            if part in self._waiting:
                if self._stops_at(head.place):
                    break
                self._asking = list(self._waiting)
                continue
            out += part.pop(count - len(out) if len(self._heap) == 1 else 1)  # the last part has all that come next
            if part.at < len(part.items):
                head.place = part.place
                heapq.heapreplace(self._heap, head)
            else:
                heapq.heappop(self._heap)
                self._push(part)
        return out

    def _push(self, part: MergePart) -> None:
        if part.at == len(part.items):
            if part.done:
                return
            self._waiting.add(part)
        heapq.heappush(self._heap, _Head(part))

    def _read_on(self) -> Op[None]:
        parts, self._asking = self._asking, []
        if self._waiting:
            self._heap = [head for head in self._heap if head.part not in self._waiting]
            heapq.heapify(self._heap)
            self._waiting.clear()
        yield from self._ask(parts)
        for part in parts:
            self._push(part)


class MergedLists(HeapMerge):
    """The parts as one list. Each shard is first asked for its share; where its part has no entries left, it is asked
    at once for twice as many."""

    def __init__(self, ctx: Context, parts: Sequence[MergePart], limit: int) -> None:
        super().__init__(parts)
        self._ctx = ctx
        self._parts = parts
        self._size = min(share_of_shard(limit, len(self._asking)), MAX_AT_ONCE + 1)

    @property
    def now(self) -> int:
        return min((part.now for part in self._parts if part.now), default=0)

    @property
    def total(self) -> int:
        return sum(part.total for part in self._parts)

    def _ask(self, parts: list[ShardPart]) -> Op[None]:
        replies = yield [part.call(self._ctx, self._size) for part in parts]
        for part, reply in zip(parts, replies, strict=True):
            part.take(reply, self._size)
            part.at = 0
        self._size = min(2 * self._size, MAX_AT_ONCE + 1)


# -- lists that are a ZSET --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """A member of such a list."""

    shard: Shard
    score: bytes  #: as it came: another program's may be no time
    member: bytes

    @property
    def position(self) -> list[str]:
        """For a cursor. Any bytes survive it."""
        return [self.score.decode("ascii", "replace"), self.member.decode("utf-8", "surrogateescape")]


class ZsetPart(ShardPart):
    """One shard's part of a ZSET by time. The order (time, member) is total, so one position serves all shards."""

    __slots__ = ("_before", "_behind", "_is_past", "_keys", "_most", "_shard", "_since", "complete_from")

    def __init__(
        self,
        shard: Shard,
        key: str,
        behind: list[str] | None,
        since: int | None,
        before: int | None,
        *,
        meta: str | None = None,
        most: int | None = None,
        is_past: bool = False,
    ) -> None:
        """meta, of a list of ends: tells from when on it is complete. most: entries that the list may hold. is_past:
        only entries whose time is not in the future."""
        super().__init__()
        self._keys = (key,) if meta is None else (key, meta)
        self._most = "" if most is None else most
        self.complete_from = 0  #: ms; what is older may have gone before its time
        self._is_past = int(is_past)
        self._shard = shard
        self._since = "-inf" if since is None else str(since)
        self._before = "+inf" if before is None else str(before)
        score, member = behind or (str(LATEST_TIME) if before is None else self._before, "")
        self._behind: tuple[str | bytes, bytes] = (score, member.encode("utf-8", "surrogateescape"))

    def call(self, ctx: Context, size: int) -> Call:
        return call_of(READ_NEWEST, self._keys, ctx.now, size, *self._behind, self._since, self._before, self._most,
                       self._is_past)  # fmt: skip

    def take(self, reply: list[Any], size: int) -> None:
        part = READ_NEWEST.reply(reply)
        self.now, self.total, self.complete_from = part.now, part.total, part.complete_from
        self.items = [((whole(time), member), Entry(self._shard, time, member)) for member, time in part.entries]
        self.done = len(part.entries) < size
        if part.entries:
            member, time = part.entries[-1]
            self._behind = (time, member)


@dataclass(slots=True)
class ScanResult(Generic[T]):
    """The entries that a scan found, and how far it went."""

    items: list[T]
    behind: list[str] | None  #: where the next page begins; None at the end of the list
    scanned: int


def scan(
    merge: MergedLists, limit: int, batch: int, look: Callable[[list[Entry]], Op[list[T | None]]]
) -> Op[ScanResult[T]]:
    """Go through a list until the page is full. ``look`` returns for each of some entries what to show, or None."""
    found: list[T] = []
    scanned = 0
    behind: list[str] | None = None
    while scanned < LOOK_AT:
        entries = yield from merge.next(min(max(limit + 1 - len(found), batch), LOOK_AT - scanned))
        if not entries:
            return ScanResult(found, None, scanned)
        scanned += len(entries)
        for entry, item in zip(entries, (yield from look(entries)), strict=True):
            if item is None:
                continue
            if len(found) == limit:  # there is one for the next page
                return ScanResult(found, behind, scanned)
            found.append(item)
            behind = entry.position
        if len(found) < limit:
            behind = entries[-1].position
    return ScanResult(found, behind, scanned)


def is_zset_position(position: Any) -> bool:
    """Whether this is an Entry's position."""
    if not isinstance(position, list) or len(position) != 2 or not all(isinstance(part, str) for part in position):
        return False
    score, member = position
    member.encode("utf-8", "surrogateescape")  # a ValueError where it cannot be
    return _SCORE.fullmatch(score) is not None
