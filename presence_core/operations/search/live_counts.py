"""Who is online, without those past their deadline: a sweep ends them later, and until then lists, totals and facets
still count them. So they are read and subtracted, a page at a time; where a worker sweeps they are few. Where none has
swept for long, only so many pages are read, and the others count as those on average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from presence_core.keyspace import Shard
from presence_core.models import Counts, moment, text
from presence_core.models.choices import ODD_LOGINS
from presence_core.operations.context import Context
from presence_core.operations.sessions.read import number_at
from presence_core.schema.endings import END_REASONS
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.search import COUNT_LIVE, LiveCount, LivePage, decode_live_page

PAGE: Final = 1_000
"""Sessions past their deadline that one script reads of a shard."""

MAX_PAGES: Final = 20
"""Pages that are read of a shard at most, except for a sample, which is stored."""

TRIES: Final = 3
"""How often all pages are read at most, where another process sweeps meanwhile."""

START: Final = (b"", b"")
"""The begin of the first page, and ``next_begin`` of the last."""


class WaitingPage(Protocol):
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


W = TypeVar("W", bound=WaitingPage)

PageCall = Callable[[Shard, "int | str", tuple[bytes, bytes]], Call]
"""The call that reads a page, given the shard, ``upto`` ("" for now) and where the page begins."""


def read_pages(
    ctx: Context, page_call: PageCall, decode: Callable[[Any], W], *more: Call, most: float | None = None
) -> Op[tuple[dict[Shard, list[W]], Sequence[Any]]]:
    """The pages of every shard, and the replies to ``more``. One round trip where each shard has one page.

    most: pages of a shard at most; None: MAX_PAGES.
    """
    most = MAX_PAGES if most is None else most
    for _ in range(TRIES):
        calls = [page_call(s, "", START) for s in ctx.keys.shards]
        replies = yield [*calls, *more]
        pages = {s: [decode(reply)] for s, reply in zip(ctx.keys.shards, replies, strict=False)}
        while behind := [(s, read) for s, read in pages.items() if not _is_end(read[-1]) and len(read) < most]:
            further = yield [page_call(s, read[0].upto, read[-1].next_begin) for s, read in behind]
            for (_, read), reply in zip(behind, further, strict=True):
                read.append(decode(reply))
        if all(map(_is_whole, pages.values())):
            break
    return pages, replies[len(calls) :]


def _is_end(page: WaitingPage) -> bool:
    return page.next_begin == START


def _is_whole(pages: Sequence[WaitingPage]) -> bool:
    """Whether no sweep has ended a session between two pages. None comes in: all are past their deadline."""
    return len(pages) == 1 or not _is_end(pages[-1]) or sum(page.read for page in pages) == pages[-1].due


def share_of_all(pages: Sequence[WaitingPage]) -> float:
    """How many sessions wait for each that was read: 1, unless there are more pages than were read."""
    read = sum(page.read for page in pages)
    return pages[-1].due / read if read and not _is_end(pages[-1]) else 1.0


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
    users: int  #: with a live session of their own; an estimate where not every page was read
    offline: dict[bytes, float]  #: users in the list without one, and when they were last seen, ms
    expired: int  #: sessions that a sweep will end as expired
    revoked: int  #: … and as kicked


def count_shards(
    ctx: Context, within: int | str = "", *more: Call, most: float | None = None
) -> Op[tuple[list[ShardCount], Sequence[Any]]]:
    """Who is online on each shard, and the replies to ``more``. ``within``, ms: only users who were seen since.
    ``most``: as of ``read_pages``."""
    pages, replies = yield from read_pages(
        ctx, lambda s, upto, begin: count_call(ctx, s, PAGE, within, upto, begin), decode_live_page, *more, most=most
    )
    return [_shard_count(read, within) for read in pages.values()], replies


def _shard_count(pages: list[LivePage], within: int | str) -> ShardCount:
    last, offline = pages[-1], dict[bytes, float]()
    for page in pages:
        offline |= page.offline
    count = last.live
    since = float("-inf") if isinstance(within, str) else count.now - within
    share = share_of_all(pages)
    users = count.users - sum(seen >= since for seen in offline.values()) * share
    return ShardCount(
        count,
        max(0, min(round(users), count.sessions)),
        offline,
        last.due - round(sum(page.late for page in pages) * share),
        max(0, last.killed - round(sum(page.early for page in pages) * share)),
    )


def counts(ctx: Context) -> Op[Counts]:
    shards, _ = yield from count_shards(ctx)
    return counts_of(ctx, shards)


def counts_of(ctx: Context, found: list[ShardCount]) -> Counts:
    shards, parts = ctx.keys.shards, [shard.count for shard in found]
    totals: dict[str, int] = dict.fromkeys(("login", *END_REASONS), 0)
    odd_logins: dict[str, int] = dict.fromkeys(ODD_LOGINS, 0)
    failed = 0
    for s, part in zip(shards, parts, strict=True):
        for kind, number in part.totals:
            if kind == b"failed":
                failed += number_at(s.totals, number)
                continue
            sums = odd_logins if text(kind) in odd_logins else totals
            sums[text(kind)] = sums.get(text(kind), 0) + number_at(s.totals, number)
    swept = [number_at(s.meta, part.swept) if part.swept else 0 for s, part in zip(shards, parts, strict=True)]
    return Counts(
        users=sum(shard.users for shard in found),
        sessions=sum(part.sessions for part in parts),
        totals=totals,
        waiting={
            "expired": sum(shard.expired for shard in found),
            "kicked": sum(shard.revoked for shard in found),
        },
        odd_logins=odd_logins,
        failed_logins=failed,
        as_of=moment(min(part.now for part in parts)),
        draining=any(part.is_draining for part in parts),
        swept_at=moment(min(swept)) if all(swept) else None,
    )
