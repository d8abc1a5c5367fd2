"""The list: live sessions, newest login first, all or those that match a filter, in pages.

The planner chooses where the sessions come from. They always come in order, each is tested on its record by
``SessionFilter.matches``, and one that has ended meanwhile is left out and the next one takes its place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.keyspace import Shard, split_ref
from presence_core.models import Page, Plan, Session, login_and_deadline, moment
from presence_core.operations import cursors
from presence_core.operations.context import Context, label_texts
from presence_core.operations.maintenance.sweep import settle_stale
from presence_core.operations.search import planner
from presence_core.operations.search.live_counts import count_call
from presence_core.operations.search.planner import MAX_GATHERED, Route
from presence_core.operations.search.shard_merge import (
    Gathered,
    ListEntry,
    Merge,
    Position,
    Source,
    index_call,
    raw_ref,
)
from presence_core.operations.search.word_index import find_users
from presence_core.operations.sessions.held_changes import login_ms
from presence_core.operations.sessions.read import sessions_of
from presence_core.scripts.calls import CHECKED, Op, checked_first, command
from presence_core.scripts.search import decode_index, decode_live
from presence_core.scripts.sessions import NO_ROW, SessionRow, decode_record

MAX_STALE: Final = 1_000
"""Refs without a live session that one page skips before it repairs them and goes on."""

BUDGET: Final = 20_000
"""Entries that one call reads while it scans the list; a page that is not full by then has its ``progress``."""

USERS_BUDGET: Final = 200_000
"""The same where most of them are not tested."""

PROBE: Final = 2_000
"""Entries that are scanned to learn how frequent a part of a name is, before the whole index is read."""

NO_FILTER: Final = SessionFilter()


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended."""

    position: Position
    filter_digest: str = ""

    def __str__(self) -> str:
        parts = [*self.position, self.filter_digest] if self.filter_digest else [*self.position]
        return cursors.encode(json.dumps(parts, ensure_ascii=False))

    @classmethod
    def read(cls, cursor: object, session_filter: SessionFilter) -> Cursor | None:
        """Read what ``str`` made; only with the filter that it was made for."""
        if cursor is None:
            return None
        try:
            login, ref, *rest = cursors.decode_json(cursor, 2048)
            [digest] = rest or [""]
            if type(login) is not int or not 0 <= login < 1 << 53 or type(digest) is not str or type(ref) is not str:
                raise ValueError
            if not digest:
                check.ref(ref)
            raw_ref(ref)  # a search may have stopped at an entry of another program
        except (ValueError, TypeError):
            raise InvalidArgument("cursor", "must be one that list_sessions gave") from None
        if digest != session_filter.digest:
            raise InvalidArgument("cursor", "must be one that list_sessions gave for this filter")
        return cls((login, ref), digest)


def uid_of_cursor(cursor: bytes) -> str:
    """The uid of the session that ended a page; "" where this is no cursor of ours."""
    try:
        _, ref, *_ = cursors.decode_json(cursor.decode("ascii", "replace"))
    except (ValueError, TypeError):
        return ""
    return split_ref(ref)[0] if isinstance(ref, str) else ""


def make_cursor(position: Position) -> str:
    """A cursor of the unfiltered list."""
    return str(Cursor(position))


def _filter(value: object) -> SessionFilter:
    if value is None:
        return NO_FILTER
    if not isinstance(value, SessionFilter):
        raise InvalidArgument("filter", "must be a SessionFilter")
    return value


def list_sessions(ctx: Context, session_filter: object, limit: object, cursor: object) -> Op[Page[Session]]:
    wanted = _filter(session_filter)
    number, at = check.whole("limit", limit, 1, 1000), Cursor.read(cursor, wanted)
    return _list(ctx, wanted, number, at)


@checked_first
def explain(ctx: Context, session_filter: object) -> Op[Plan]:
    wanted = _filter(session_filter)
    yield CHECKED
    if wanted.uid is not None:
        residual = tuple(name for name in wanted.given if name != "uid")
        sessions = yield from sessions_of(ctx, wanted.uid)
        return Plan("uid", len(sessions), len(sessions), residual)
    route = yield from planner.plan(ctx, wanted, 50)
    return Plan("none", 0, 0, ()) if route.is_empty else route.plan


@checked_first
def count_sessions(ctx: Context, session_filter: object) -> Op[int]:
    wanted = _filter(session_filter)
    yield CHECKED
    if wanted.uid is not None:
        return (yield from _of_user(ctx, wanted, None, 1)).total
    route = yield from planner.plan(ctx, wanted, None)
    if route.total_is_exact or route.is_empty:
        return route.total
    source = yield from _source(ctx, wanted, route.fallback or route, 1000, None, float("inf"))
    if isinstance(source, Gathered):
        return source.total
    number = 0
    while True:
        found = yield from source.next(1000)
        live = yield from _live_matches(ctx, wanted, source, found, {})
        number += len(live)
        if not found:
            return number


def _list(ctx: Context, session_filter: SessionFilter, limit: int, cursor: Cursor | None) -> Op[Page[Session]]:
    position = cursor.position if cursor else None
    if not session_filter.given:
        merge = Merge(ctx, limit, position)
        page = yield from _page(ctx, session_filter, limit, merge)
        return replace(page, total=merge.total, total_is_exact=merge.exact)
    if session_filter.uid is not None:
        return (yield from _of_user(ctx, session_filter, position, limit))
    route = yield from planner.plan(ctx, session_filter, limit + 1)
    if route.is_empty:
        return Page([], None, 0, True, 0, moment((yield from _now(ctx))))
    source, page = yield from _search(ctx, session_filter, limit, position, route)
    total, exact = _total(source, page, route, is_first=position is None)
    progress = 1.0
    if page.next_cursor and isinstance(source, Merge):
        progress = yield from _progress(ctx, Cursor.read(page.next_cursor, session_filter), source.total)
    return replace(page, total=total, total_is_exact=exact, progress=progress)


def _search(
    ctx: Context, session_filter: SessionFilter, limit: int, position: Position | None, route: Route
) -> Op[tuple[Merge | Gathered, Page[Session]]]:
    """A page and its source. Where there is a fallback, a short scan shows which one is cheaper."""
    source = yield from _source(
        ctx, session_filter, route, limit, position, min(PROBE, BUDGET) if route.fallback else BUDGET
    )
    page = yield from _page(ctx, session_filter, limit, source)
    if route.fallback and source.stopped and len(page.items) < limit:
        chosen = _cheaper(route, route.fallback, limit, max(0.5, len(page.items)) / source.looked)
        source = yield from _source(ctx, session_filter, chosen, limit, position, BUDGET)
        page = yield from _page(ctx, session_filter, limit, source)
    return source, page


def _cheaper(walk: Route, gather: Route, limit: int, share: float) -> Route:
    """``share``: the fraction of the scanned entries that match."""
    walk_us = min(walk.inside, limit / share) * planner.WALK_US
    gather_us = gather.plan.rows * planner.CONTAINS_US + share * walk.inside * planner.MATCH_US
    return gather if gather_us < walk_us else walk


def _total(source: Merge | Gathered, page: Page[Session], route: Route, *, is_first: bool) -> tuple[int, bool]:
    """How many sessions match, and whether that is exact."""
    if isinstance(source, Gathered):
        return source.total, True
    if is_first and page.next_cursor is None:
        return len(page.items), True
    return route.total if route.total_is_exact else max(route.total, len(page.items)), route.total_is_exact


def _progress(ctx: Context, at: Cursor | None, total: int) -> Op[float]:
    """The share of the list that is newer than the end of a page. The number of entries read would be too high: a shard
    reads ahead, and entries that no page has shown are read again."""
    assert at is not None
    login = at.position[0]
    newer = yield [command(s.sessions, "ZCOUNT", s.sessions, f"({login}", "+inf") for s in ctx.keys.shards]
    return float(min(1.0, sum(newer) / max(1, total)))


def _now(ctx: Context) -> Op[int]:
    s = ctx.keys.shards[0]
    [reply] = yield [count_call(ctx, s)]
    return decode_live(reply).now


def _of_user(ctx: Context, session_filter: SessionFilter, position: Position | None, limit: int) -> Op[Page[Session]]:
    assert session_filter.uid is not None
    sessions = yield from sessions_of(ctx, session_filter.uid)
    now = yield from _now(ctx)
    fits = [session for session in sessions if session_filter.matches(session, now)]
    behind = fits
    if position is not None:
        at = position[0], raw_ref(position[1])
        behind = [session for session in fits if (login_ms(session), session.ref.encode()) < at]
    items = behind[:limit]
    cursor = None
    if len(behind) > limit:
        last = items[-1]
        cursor = str(Cursor((login_ms(last), last.ref), session_filter.digest))
    return Page(items, cursor, len(fits), True, len(sessions), moment(now))


def _source(
    ctx: Context, session_filter: SessionFilter, route: Route, limit: int, position: Position | None, budget: float
) -> Op[Merge | Gathered]:
    if route.scans_users and route.ranges is not None:
        most = 2 * MAX_GATHERED  # of each range, which may have grown since it was counted
        users = yield from find_users(route.ranges, most, most)
        if users:
            budget = max(budget, USERS_BUDGET)
            return Merge(ctx, limit, position, route.tests, planner.login_range(session_filter), budget, users)
    elif route.ranges is None:
        return Merge(ctx, limit, position, route.tests, planner.login_range(session_filter), budget)
    found: dict[bytes, ListEntry] = {}
    unsure: dict[bytes, ListEntry] = {}
    todo, now, read = route.ranges, 0, 0
    while todo:
        times = planner.login_range(session_filter)
        replies = yield [index_call(ctx, s, item, route.tests[s], times) for s, item in todo]
        parts = [decode_index(reply) for reply in replies]
        for part, item in zip(parts, todo, strict=True):
            found |= {ref: (login, ref, item.shard) for ref, login in part.sure}
            unsure |= {ref: (login, ref, item.shard) for ref, login in part.unsure}
        now, read = now or parts[0].now, read + sum(part.read for part in parts)
        todo = [
            item._replace(range=item.range._replace(low=part.rest))
            for part, item in zip(parts, todo, strict=True)
            if part.rest
        ]
    for ref in unsure.keys() & found.keys():  # its record changed between two steps
        del found[ref]
    gathered = Gathered(now or route.now, read, [*found.values(), *unsure.values()], position)
    gathered.total = len(found)
    doubtful = list(unsure.values())
    for first in range(0, len(doubtful), 1000):
        matches = yield from _live_matches(ctx, session_filter, gathered, doubtful[first : first + 1000], {})
        gathered.total += len(matches)
    return gathered


def _page(ctx: Context, session_filter: SessionFilter, limit: int, source: Source) -> Op[Page[Session]]:
    live: list[tuple[Position, Session]] = []
    stale: dict[Shard, list[tuple[str, str]]] = {}
    while len(live) <= limit:
        found = yield from source.next(limit + 1 - len(live))
        if not found:
            break
        live += yield from _live_matches(ctx, session_filter, source, found, stale)
        if sum(map(len, stale.values())) >= MAX_STALE:
            yield from _settle_stale(ctx, stale)
    yield from _settle_stale(ctx, stale)
    behind: Position | None = live[limit - 1][0] if len(live) > limit else source.stopped
    next_cursor = None if behind is None else str(Cursor(behind, session_filter.digest))
    return Page([session for _, session in live[:limit]], next_cursor, 0, False, source.looked, moment(source.now))


def _live_matches(
    ctx: Context,
    session_filter: SessionFilter,
    source: Source,
    found: list[ListEntry],
    stale: dict[Shard, list[tuple[str, str]]],
) -> Op[list[tuple[Position, Session]]]:
    """Those that are live and match, by their records. Refs without a live session are added to ``stale``."""
    if not found:
        return []
    replies = yield from _records(source, found)
    live: list[tuple[Position, Shard, SessionRow]] = []
    for (login, raw, shard), reply in zip(found, replies, strict=True):
        ref = raw.decode("utf-8", "replace")
        row = decode_record(reply) if reply else NO_ROW
        # The record is there and has not ended …
        times = None if row.end_reason else login_and_deadline(row)
        if times and times[0] == login and source.now < times[1]:  # … is of this very login, and in time
            live.append(((login, ref), shard, row))
        else:
            stale.setdefault(shard, []).append(split_ref(ref))
    labels = yield from label_texts(ctx, [(shard, row.core) for _, shard, row in live])
    sessions = [(at, Session.from_reply(*split_ref(at[1]), row, labels[shard])) for at, shard, row in live]
    if session_filter is NO_FILTER:
        return sessions
    return [(at, session) for at, session in sessions if session_filter.matches(session, source.now)]


def _records(source: Source, found: list[ListEntry]) -> Op[list[Any]]:
    """The records of these entries, as HGETALL returns them."""
    records = source.records
    unread = [(ref, shard) for _, ref, shard in found if ref not in records]
    if unread:
        calls = [command(s.tag, "HGETALL", s.record_prefix.encode() + ref, lenient=True) for ref, s in unread]
        replies = yield calls
        records = records | {ref: reply for (ref, _), reply in zip(unread, replies, strict=True)}
    return [records[ref] for _, ref, _ in found]


def _settle_stale(ctx: Context, stale: dict[Shard, list[tuple[str, str]]]) -> Op[None]:
    for shard, pairs in stale.items():
        yield from settle_stale(ctx, shard, pairs)
    stale.clear()
