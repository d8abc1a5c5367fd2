"""Merge the shards' parts of the session list into one, newest first.

Each shard returns a part at a time, in order, and says how far it has read. No two entries are equal in the
order (login ms, ref). An entry of the heap is returned as soon as no shard can still send a newer one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from presence_core.keyspace import Shard
from presence_core.models import ListOrder
from presence_core.operations.context import Context
from presence_core.operations.merged_lists import FRONT, HeapMerge, MergePart, share_of_shard, whole
from presence_core.operations.search.planner import Range, Tests
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.search import READ_INDEX, READ_PAGE, SCAN_REFS, WALK_SESSIONS, ListPart

Position = tuple[int, str]
"""Login, or last seen where that is the order, ms; and ref: where in the list, on every shard alike."""


def raw_ref(ref: str) -> bytes:
    """The member that a position names."""
    return ref.encode("utf-8", "surrogateescape")


ListEntry = tuple[int, bytes, Shard]
"""Login, or last seen where that is the order, ms; ref, shard."""

Place = tuple[int, bytes]
"""Where an entry is in an order, which begins with the greatest."""


def place_of(order: ListOrder, time: int, ref: bytes) -> Place:
    """Entries with the same login are in the order of their refs; those with the same last seen in the order of uid,
    then session id, as the list of users is. An empty session id is behind all of its user."""
    return (time, ref) if order == "login" else (time, b"\0".join(ref.rpartition(b":")[::2]))


MAX_READ: Final = 20_000
"""Entries of an index that one script reads, at most; it stops earlier when it has blocked Redis for 5 ms."""

STEP: Final = 2_000
"""Entries that one scan script reads, at most; it stops earlier when it has run for 5 ms."""

USERS_STEP: Final = 5_000
"""Entries that a script reads that does not test them."""

MAX_RECORDS: Final = 100
"""Up to this limit the script of a page reads the records too. It holds Redis for about 4 µs more for each, and for
up to 20 with the largest attributes and aliases."""


class Source(Protocol):
    """Where a page's sessions come from, in order."""

    order: ListOrder
    now: int  #: ms
    looked: int  #: entries read so far
    stopped: Position | None  #: the budget ended here; all newer entries have been returned
    records: dict[bytes, Any]  #: ref → its record as HGETALL returns it, of entries that came with it

    def next(self, count: int) -> Op[list[ListEntry]]:
        """The next in order; fewer than ``count`` only at the end, or where the budget ended."""
        ...


class _Chunk(MergePart):
    """What one shard has sent of its part of the list: ref, login ms, ref, …, as they came, because most of them are on
    no page."""

    __slots__ = ("behind", "shard", "tests", "users")

    def __init__(
        self, shard: Shard, position: Position | None, tests: Tests | None, users: Collection[bytes] | None
    ) -> None:
        super().__init__()
        self.done = False
        self.shard, self.tests, self.users = shard, tests, users
        # Ask for what comes behind this.
        self.behind: tuple[int | bytes, str | bytes] | None = position and (position[0], raw_ref(position[1]))

    def call(
        self, ctx: Context, size: int, most: int, login_range: tuple[int | str, int], *, with_records: bool
    ) -> Call:
        s, (login, ref) = self.shard, self.behind or ("", "")
        keys = (s.sessions, s.deadlines, s.meta)
        if self.users is not None:
            return call_of(SCAN_REFS, keys, ctx.now, most, login, ref, *login_range)
        if self.tests is None:
            return call_of(READ_PAGE, keys, ctx.now, size, login, ref, s.record_prefix if with_records else "")
        return call_of(WALK_SESSIONS, keys, ctx.now, size, most, login, ref, *login_range, s.record_prefix, *self.tests)

    def take(self, reply: list[Any], size: int) -> ListPart:
        if self.users is not None:
            part = SCAN_REFS.reply(reply)
            self.items = [ref for ref in part.flat if ref.rpartition(b":")[0] in self.users]
        else:
            part = READ_PAGE.reply(reply, size) if self.tests is None else WALK_SESSIONS.reply(reply)
            self.items = part.flat
        self.at, self.done = 0, part.at_end
        if part.behind or self.tests is None:
            self.behind = part.behind
        return part

    @property
    def place(self) -> Any:
        flat, at = self.items, self.at
        if at < len(flat):
            return whole(flat[at + 1]), flat[at]
        if self.behind is None:
            return FRONT
        login, ref = self.behind
        return whole(login), ref.encode() if isinstance(ref, str) else ref

    def pop(self, most: int) -> list[ListEntry]:
        flat, at = self.items, self.at
        self.at = min(at + 2 * most, len(flat))
        return [(whole(flat[each + 1]), flat[each], self.shard) for each in range(at, self.at, 2)]


def index_call(
    ctx: Context, s: Shard, wanted: Range, tests: Tests, login_range: tuple[int | str, int], order: ListOrder = "login"
) -> Call:
    """Read a range of an index, and test the sessions that it names. The reply has the times of this order."""
    return call_of(
        READ_INDEX, (getattr(s, wanted.kind), s.sessions, s.deadlines, s.meta),
        ctx.now, MAX_READ, wanted.low, wanted.high, wanted.kind, wanted.wire, *login_range, s.user_prefix,
        s.record_prefix, order, *tests,
    )  # fmt: skip


def _test_refs(ctx: Context, chunks: list[_Chunk], login_range: tuple[int | str, int]) -> Op[None]:
    """Replace the refs of these chunks by entries of the sessions that pass the tests."""
    chunks = [chunk for chunk in chunks if chunk.items]
    if not chunks:
        return
    replies = yield [
        index_call(ctx, chunk.shard, Range("sessions", b"\n".join(chunk.items), b""), chunk.tests or (), login_range)
        for chunk in chunks
    ]
    for chunk, reply in zip(chunks, replies, strict=True):
        part = READ_INDEX.reply(reply)
        entries = sorted([*part.sure, *part.unsure], key=lambda entry: entry[::-1], reverse=True)
        chunk.items = [value for entry in entries for value in entry]


class Merge(HeapMerge):
    """The list, or the entries that pass each shard's tests. See Source.

    ``budget``: how many entries may be read. ``users``: read refs only, and test the sessions of these users.
    """

    def __init__(
        self,
        ctx: Context,
        limit: int,
        position: Position | None,
        tests: dict[Shard, Tests] | None = None,
        login_range: tuple[int | str, int] = ("", 0),
        budget: float = math.inf,
        users: Mapping[Shard, Collection[bytes]] | None = None,
    ) -> None:
        self.order: ListOrder = "login"
        self._ctx = ctx
        self._login_range = login_range
        self._budget = budget
        self._users = users
        shards = ctx.keys.shards
        super().__init__([
            _Chunk(shard, position, tests[shard] if tests else None, users.get(shard, ()) if users else None)
            for shard in shards
        ])  # fmt: skip
        self._counted = False
        step = STEP if users is None else USERS_STEP
        self._most = min(step, max(200, 4 * step // len(shards)))  # many shards together read no more than a few
        self._size = share_of_shard(limit, len(shards))
        self._with_records = len(shards) == 1 and limit <= MAX_RECORDS  # in the first call: after it, few are missing
        self.now = self.total = self.looked = 0
        self.exact = True  #: the total, of the whole list
        self.stopped: Position | None = None
        self.records: dict[bytes, Any] = {}

    def _stops_at(self, place: Place) -> bool:
        if self.looked < self._budget:
            return False
        login, ref = place
        self.stopped = login, ref.decode("utf-8", "surrogateescape")
        return True

    def _ask(self, chunks: list[_Chunk]) -> Op[None]:
        replies = yield [
            chunk.call(self._ctx, self._size, self._most, self._login_range, with_records=self._with_records)
            for chunk in chunks
        ]
        for chunk, reply in zip(chunks, replies, strict=True):
            part = chunk.take(reply, self._size)
            if not self._counted:
                self.now, self.total = part.now, self.total + part.live
                self.exact = self.exact and part.is_exact
            self.looked += part.read
            if part.records:
                self.records = dict(zip(part.flat[::2], part.records, strict=True))
        self._counted, self._with_records = True, False
        if self._users is not None:
            yield from _test_refs(self._ctx, chunks, self._login_range)


class Gathered:
    """All sessions that an index named, put in order here. ``order``: of their times."""

    def __init__(
        self,
        now: int,
        looked: int,
        found: list[ListEntry],
        position: Position | None,
        order: ListOrder = "login",
    ) -> None:
        self.order: ListOrder = order
        self.now = now
        self.looked = looked
        self.total = 0
        self.stopped: Position | None = None
        self.records: dict[bytes, Any] = {}
        found.sort(key=lambda entry: place_of(order, *entry[:2]), reverse=True)
        self._rest = found
        if position is not None:
            behind = place_of(order, position[0], raw_ref(position[1]))
            self._rest = [entry for entry in found if place_of(order, *entry[:2]) < behind]
        self._at = 0

    def next(self, count: int) -> Op[list[ListEntry]]:
        """See Source."""
        yield from ()
        part = self._rest[self._at : self._at + count]
        self._at += len(part)
        return part
