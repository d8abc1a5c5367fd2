"""What is there: one session, a user's, the list in pages, the counts."""

from __future__ import annotations

import heapq
import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Any

from presence_core import settings as check
from presence_core.errors import CorruptData, InvalidArgument
from presence_core.keyspace import Shard, split_ref
from presence_core.models import Counts, Labels, Page, Row, Session, moment
from presence_core.operations.context import DIRTY, ENDED, LIVE, Context, book, found_rows
from presence_core.operations.upkeep import heal
from presence_core.scripts import COUNT, PAGE, READ, Call, Op, run


def read_call(ctx: Context, s: Shard, uid: str, sids: Iterable[str] = ()) -> Call:
    """A user's sessions: these, or all."""
    return run(READ, (s.user(uid), s.sessions, s.closing, s.labels), ctx.now, uid, s.record_prefix, *sids)


def get(ctx: Context, uid: object, session_id: object) -> Op[Session | None]:
    owner, sid = check.uid(uid), check.session_id(session_id)

    def steps() -> Op[Session | None]:
        live = yield from _live(ctx, owner, [sid])
        return live[0] if live else None

    return steps()


def sessions(ctx: Context, uid: object) -> Op[list[Session]]:
    return _live(ctx, check.uid(uid), [])


def _live(ctx: Context, uid: str, sids: list[str]) -> Op[list[Session]]:
    shard = ctx.shard(uid)
    [reply] = yield [read_call(ctx, shard, uid, sids)]
    found = found_rows(uid, reply)
    stale = [
        (uid, one.session_id)
        for one in found
        if one.state == DIRTY or (one.state == ENDED and not one.row[8]) or (one.state != LIVE and not sids)
    ]
    yield from heal(ctx, shard, stale)
    live = [one.session() for one in found if one.state == LIVE]
    return sorted(live, key=lambda session: (session.login_at, session.ref.encode()), reverse=True)


# -- the list ---------------------------------------------------------------------------------------------------------

Position = tuple[int, str]
"""Login ms and ref: where in the list, on every shard alike, because the order is total."""


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


def list_sessions(ctx: Context, limit: object, cursor: object) -> Op[Page[Session]]:
    return _page(ctx, check.whole("limit", limit, 1, 1000), read_cursor(cursor))


class _Chunk:
    """What one shard has sent of its part of the page, newest first."""

    __slots__ = ("at", "behind", "done", "rows", "shard")

    def __init__(self, shard: Shard, position: Position | None) -> None:
        self.shard = shard
        self.behind: tuple[int | bytes, str | bytes] | None = position  # ask for what comes behind this
        self.done = False
        self.rows: list[tuple[int, bytes, Row, Labels]] = []
        self.at = 0

    def call(self, ctx: Context, size: int) -> Call:
        s, (login, ref) = self.shard, self.behind or ("", "")
        return run(PAGE, (s.sessions, s.deadlines, s.closing, s.labels), ctx.now, s.record_prefix, size, login, ref)


class _Newest:
    """A chunk in the heap, by its next row: newest login first, then the greater ref."""

    __slots__ = ("chunk", "key")

    def __init__(self, chunk: _Chunk) -> None:
        self.chunk = chunk
        self.key = chunk.rows[chunk.at][:2]

    def __lt__(self, other: _Newest) -> bool:
        return self.key > other.key


def _page(ctx: Context, limit: int, position: Position | None) -> Op[Page[Session]]:
    """Merge the shards' lists. Each is asked for its fair share and a margin (three standard deviations of a random
    spread); one whose rows run out before the page is full is asked again."""
    chunks = [_Chunk(shard, position) for shard in ctx.keys.shards]
    share = limit / len(chunks)
    size = limit + 1 if len(chunks) == 1 else min(limit, math.ceil(share + 3 * math.sqrt(share))) + 1
    total = scanned = now = 0
    dirty: list[tuple[Shard, list[Any]]] = []
    items: list[tuple[int, bytes, Row, Labels]] = []
    asking, first = chunks, True
    heap: list[_Newest] = []
    while True:
        for chunk, reply in zip(asking, (yield [chunk.call(ctx, size) for chunk in asking]), strict=True):
            now, live, flat, labels, stale, last_login, last_ref, looked = reply
            total += live if first else 0
            scanned += looked
            texts = book(labels)
            chunk.rows = [(int(flat[i + 1]), flat[i], flat[i + 2], texts) for i in range(0, len(flat), 3)]
            chunk.at = 0
            chunk.done = not last_ref
            chunk.behind = (last_login, last_ref) if last_ref else None  # as they came: they may be no text of ours
            if stale:
                dirty.append((chunk.shard, stale))
            if chunk.rows:
                heapq.heappush(heap, _Newest(chunk))
        first = False
        asking = [chunk for chunk in asking if not chunk.rows and not chunk.done]
        while heap and not asking and len(items) <= limit:
            chunk = heapq.heappop(heap).chunk
            items.append(chunk.rows[chunk.at])
            chunk.at += 1
            if chunk.at < len(chunk.rows):
                heapq.heappush(heap, _Newest(chunk))
            elif not chunk.done:
                asking = [chunk]
        if not asking or len(items) > limit:
            break
    for shard, refs in dirty:
        pairs = [split_ref(raw.decode("utf-8", "replace")) for raw in refs]
        yield from heal(ctx, shard, pairs)
    more = len(items) > limit
    found = [
        Session.from_reply(*split_ref(ref.decode("utf-8", "replace")), row, labels)
        for _, ref, row, labels in items[:limit]
    ]
    behind = (items[limit - 1][0], items[limit - 1][1].decode("utf-8", "replace")) if more else None
    return Page(found, make_cursor(behind) if behind else None, total, True, scanned, moment(now))


# -- counts -----------------------------------------------------------------------------------------------------------


def counts(ctx: Context) -> Op[Counts]:
    replies = yield [run(COUNT, (s.deadlines, s.users, s.meta, s.totals), ctx.now) for s in ctx.keys.shards]
    totals = dict.fromkeys(("login", "logout", "expired", "kicked", "replaced"), 0)
    for _, _, _, _, flat in replies:
        for kind, number in zip(flat[::2], flat[1::2], strict=True):
            name = kind.decode("utf-8", "replace")
            totals[name] = totals.get(name, 0) + _number(ctx, number)
    swept = [reply[3] for reply in replies]
    return Counts(
        users=sum(reply[2] for reply in replies),
        sessions=sum(reply[1] for reply in replies),
        totals=totals,
        as_of=moment(min(reply[0] for reply in replies)),
        swept_at=moment(min(_number(ctx, one) for one in swept)) if all(swept) else None,
    )


def _number(ctx: Context, raw: bytes) -> int:
    try:
        return int(raw)
    except ValueError:
        namespace = ctx.settings.namespace
        raise CorruptData(f"A counter of namespace {namespace} holds what presence_core never wrote.") from None
