"""Who is online, without those past their deadline: a sweep ends them later, and until then lists, totals and facets
still count them. So they are read and subtracted, a page at a time; where a worker sweeps they are few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from presence_core.keyspace import Shard
from presence_core.operations.context import Context
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.search import COUNT_LIVE, LiveCount, LivePage, decode_live_page

PAGE: Final = 1_000
"""Sessions past their deadline that one script reads of a shard."""

TRIES: Final = 3
"""How often all pages are read at most, where another process sweeps meanwhile."""

START: Final = (b"", b"")
"""The begin of the first page, and ``next_begin`` of the last."""


class Waiting(Protocol):
    """A page of the sessions of a shard that wait for a sweep."""

    @property
    def upto(self) -> int:
        """They are past their deadline at this time, ms."""

    @property
    def due(self) -> int:
        """How many there are."""

    @property
    def read(self) -> int:
        """Sessions of the page."""

    @property
    def next_begin(self) -> tuple[bytes, bytes]:
        """Where the next page begins."""


W = TypeVar("W", bound=Waiting)

PageCall = Callable[[Shard, "int | str", tuple[bytes, bytes]], Call]
"""The call that reads a page, given the shard, ``upto`` ("" for now) and where the page begins."""


def read_pages(
    ctx: Context, page_call: PageCall, decode: Callable[[Any], W], *more: Call
) -> Op[tuple[dict[Shard, list[W]], Sequence[Any]]]:
    """The pages of every shard, and the replies to ``more``. One round trip where each shard has one page."""
    for _ in range(TRIES):
        calls = [page_call(s, "", START) for s in ctx.keys.shards]
        replies = yield [*calls, *more]
        pages = {s: [decode(reply)] for s, reply in zip(ctx.keys.shards, replies, strict=False)}
        while behind := [(s, read) for s, read in pages.items() if read[-1].next_begin != START]:
            further = yield [page_call(s, read[0].upto, read[-1].next_begin) for s, read in behind]
            for (_, read), reply in zip(behind, further, strict=True):
                read.append(decode(reply))
        if all(map(_is_whole, pages.values())):
            break
    return pages, replies[len(calls) :]


def _is_whole(pages: Sequence[Waiting]) -> bool:
    """Whether no sweep has ended a session between two pages. None comes in: all are past their deadline."""
    return len(pages) == 1 or sum(page.read for page in pages) == pages[-1].due


def count_call(
    ctx: Context,
    s: Shard,
    most: int = 0,
    within: int | str = "",
    upto: int | str = "",
    begin: tuple[bytes, bytes] = START,
) -> Call:
    """Count who is online on a shard. ``most``: sessions past their deadline that are read, too."""
    keys = (s.deadlines, s.users, s.meta, s.totals, s.sessions)
    return call_of(COUNT_LIVE, keys, ctx.now, s.user_prefix, most, within, upto, *begin)


@dataclass(frozen=True, slots=True)
class ShardCount:
    """Who is online on one shard."""

    count: LiveCount  #: as of the last page
    users: int  #: with a live session of their own
    offline: dict[bytes, float]  #: users in the list without one, and when they were last seen, ms
    expired: int  #: sessions that a sweep will end as expired
    revoked: int  #: … and as kicked


def count_shards(ctx: Context, within: int | str = "", *more: Call) -> Op[tuple[list[ShardCount], Sequence[Any]]]:
    """Who is online on each shard, and the replies to ``more``. ``within``, ms: only users who were seen since."""
    pages, replies = yield from read_pages(
        ctx, lambda s, upto, begin: count_call(ctx, s, PAGE, within, upto, begin), decode_live_page, *more
    )
    return [_shard_count(read, within) for read in pages.values()], replies


def _shard_count(pages: list[LivePage], within: int | str) -> ShardCount:
    last, offline = pages[-1], dict[bytes, float]()
    for page in pages:
        offline |= page.offline
    count = last.live
    since = float("-inf") if isinstance(within, str) else count.now - within
    users = count.users - sum(seen >= since for seen in offline.values())
    return ShardCount(
        count,
        max(0, min(users, count.sessions)),
        offline,
        last.due - sum(page.late for page in pages),
        max(0, last.killed - sum(page.early for page in pages)),
    )
