"""The list: live sessions, newest login first or last seen first, all or those that match a filter, in pages.

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
from presence_core.keyspace import Keyspace, Shard, split_ref
from presence_core.models import ListOrder, Page, Plan, Session, login_and_deadline, login_ms, moment
from presence_core.models.sessions import as_ms
from presence_core.operations import cursors
from presence_core.operations.context import Context, label_texts
from presence_core.operations.search import planner
from presence_core.operations.search.last_seen_merge import LastSeenMerge, Waiting
from presence_core.operations.search.live_counts import count_call
from presence_core.operations.search.planner import MAX_GATHERED, Range, Route, ShardRange
from presence_core.operations.search.shard_merge import (
    Gathered,
    ListEntry,
    Merge,
    Place,
    Position,
    Source,
    index_call,
    place_of,
    raw_ref,
)
from presence_core.operations.search.word_index import find_users
from presence_core.operations.sessions.read import sessions_of
from presence_core.operations.sessions.settle import settle_stale
from presence_core.schema.record import NO_ROW, SessionRow, read_record
from presence_core.scripts.calls import CHECKED, Op, checked_first, command
from presence_core.scripts.search import COUNT_LIVE, READ_INDEX

MAX_STALE: Final = 1_000
"""Refs without a live session that one page skips before it repairs them and goes on."""

BUDGET: Final = 20_000
"""Entries that one call reads while it scans the list; a page that is not full by then has its ``progress``."""

USERS_BUDGET: Final = 200_000
"""The same where most of them are not tested."""

PROBE: Final = 2_000
"""Entries that are scanned to learn how frequent a part of a name is, before the whole index is read."""

MAX_OF_USER: Final = 2_000
"""More than a user can have, of their own and on behalf of them."""

NO_FILTER: Final = SessionFilter()


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended."""

    position: Position
    filter_digest: str = ""
    order: ListOrder = "login"
    waiting: Waiting | None = None  #: by last seen

    def __str__(self) -> str:
        parts: list[Any] = [*self.position]
        if self.filter_digest or self.order != "login":
            parts.append(self.filter_digest)
        if self.order != "login":
            parts += self.order, self.waiting
        return cursors.encode(json.dumps(parts, ensure_ascii=False))

    @classmethod
    def read(cls, cursor: object, session_filter: SessionFilter, order: ListOrder = "login") -> Cursor | None:
        """Read what ``str`` made; only with the filter and the order that it was made for."""
        if cursor is None:
            return None
        try:
            time, ref, *rest = cursors.decode_json(cursor, 16_384)
            digest, made_for, named = rest + ["", "login", None][len(rest) :]
            if not cursors.is_number(time) or type(digest) is not str or type(ref) is not str:
                raise ValueError
            if not digest and made_for == "login":
                check.ref(ref)
            raw_ref(ref)  # a search may have stopped at an entry of another program
            waiting = None if named is None else _read_waiting(*named)
        except (ValueError, TypeError):
            raise InvalidArgument("cursor", "must be one that list_sessions gave", "malformed") from None
        if made_for != order:
            raise InvalidArgument("cursor", "must be one that list_sessions gave for this order", "malformed")
        if digest != session_filter.digest:
            raise InvalidArgument("cursor", "must be one that list_sessions gave for this filter", "malformed")
        return cls((time, ref), digest, order, waiting)


def _read_waiting(refs: list[str], bound: list[Any] | None) -> Waiting:
    for ref in refs:
        check.ref(ref)
    if bound is None:
        return Waiting(tuple(refs), None)
    time, last = bound
    if not cursors.is_number(time):
        raise ValueError
    check.ref(last)
    return Waiting(tuple(refs), (time, last))


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
        raise InvalidArgument("filter", "must be a SessionFilter", "wrong_type")
    return value


def list_sessions(
    ctx: Context, session_filter: object, limit: object, cursor: object, order: ListOrder = "login"
) -> Op[Page[Session]]:
    check.choice("order", order, ListOrder)
    wanted = _filter(session_filter)
    number, at = check.whole("limit", limit, 1, 1000), Cursor.read(cursor, wanted, order)
    return _list(ctx, wanted, number, at, order)


def is_by_last_seen(order: ListOrder) -> bool:
    check.choice("order", order, ListOrder)
    return order == "last_seen"


class LastSeenPages:
    """All sessions that match, last seen first, in pages. No user is read twice for it, as it would be with cursors."""

    def __init__(self, ctx: Context, session_filter: object, size: object) -> None:
        self._ctx, self._filter, self._size = ctx, _filter(session_filter), check.whole("page_size", size, 1, 1000)
        self._keys: Keyspace | None = None  # the layout may not be known yet
        self._source: Merge | LastSeenMerge | Gathered | None = None
        self._position: Position | None = None
        self.has_more = True

    def next(self) -> Op[list[Session]]:
        """The next sessions, about a page."""
        ctx, wanted = self._ctx, self._filter
        if wanted.uid is not None:
            self.has_more = False
            return (yield from _of_user(ctx, wanted, None, MAX_OF_USER, "last_seen")).items
        if self._source is None or self._keys is not ctx.keys:  # after a reshard, begin behind the last session
            self._keys, self._source = ctx.keys, (yield from self._begin())
        source = self._source
        if isinstance(source, LastSeenMerge):
            source.go_on(BUDGET)
        source.now = max(source.now, (yield from _now(ctx)))
        found = yield from source.next(self._size)
        self.has_more = bool(found) or source.stopped is not None
        stale: dict[Shard, list[tuple[str, str]]] = {}
        live = yield from _live_matches(ctx, wanted, source, found, stale)
        yield from _settle_stale(ctx, stale)
        source.records.clear()
        if live:
            self._position = live[-1][0]
        return [session for _, session in live]

    def _begin(self) -> Op[Merge | LastSeenMerge | Gathered]:
        at = None if self._position is None else Cursor(self._position, order="last_seen")
        if not self._filter.given:
            return LastSeenMerge(self._ctx, self._size, self._position)
        route = yield from planner.plan(self._ctx, self._filter, None, "last_seen")
        if route.is_empty:
            return Gathered(route.now, 0, [], None, "last_seen")
        way = route.fallback or route
        return (yield from _source(self._ctx, self._filter, way, self._size, at, BUDGET, "last_seen"))


@checked_first
def explain(ctx: Context, session_filter: object, order: ListOrder = "login") -> Op[Plan]:
    check.choice("order", order, ListOrder)
    wanted = _filter(session_filter)
    yield CHECKED
    if wanted.uid is not None:
        residual = tuple(name for name in wanted.given if name != "uid")
        sessions = yield from sessions_of(ctx, wanted.uid)
        return Plan("uid", len(sessions), len(sessions), residual)
    route = yield from planner.plan(ctx, wanted, 50, order)
    return Plan("none", 0, 0, ()) if route.is_empty else route.plan


@checked_first
def count_sessions(ctx: Context, session_filter: object) -> Op[int]:
    wanted = _filter(session_filter)
    yield CHECKED
    if wanted.uid is not None:
        return (yield from _of_user(ctx, wanted, None, 1, "login")).total
    route = yield from planner.plan(ctx, wanted, None)
    if route.total_is_exact or route.is_empty:
        return route.total
    source = yield from _source(ctx, wanted, route.fallback or route, 1000, None, float("inf"), "login")
    if isinstance(source, Gathered):
        return source.total
    number = 0
    while True:
        found = yield from source.next(1000)
        live = yield from _live_matches(ctx, wanted, source, found, {})
        number += len(live)
        if not found:
            return number


def _list(
    ctx: Context, session_filter: SessionFilter, limit: int, cursor: Cursor | None, order: ListOrder
) -> Op[Page[Session]]:
    position = cursor.position if cursor else None
    if not session_filter.given:
        waiting = cursor.waiting if cursor else None
        by_login = order == "login"
        merge = Merge(ctx, limit, position) if by_login else LastSeenMerge(ctx, limit, position, waiting=waiting)
        page = yield from _page(ctx, session_filter, limit, merge)
        return replace(page, total=merge.total, total_is_exact=merge.exact)
    if session_filter.uid is not None:
        return (yield from _of_user(ctx, session_filter, position, limit, order))
    route = yield from planner.plan(ctx, session_filter, limit + 1, order)
    if route.is_empty:
        return Page([], None, 0, True, 0, moment((yield from _now(ctx))))
    source, page = yield from _search(ctx, session_filter, limit, cursor, route, order)
    total, exact = _total(source, page, route, is_first=position is None)
    progress = 1.0
    if page.next_cursor and not isinstance(source, Gathered):
        progress = yield from _progress(ctx, Cursor.read(page.next_cursor, session_filter, order), source.total)
    return replace(page, total=total, total_is_exact=exact, progress=progress)


def _search(
    ctx: Context,
    session_filter: SessionFilter,
    limit: int,
    cursor: Cursor | None,
    route: Route,
    order: ListOrder,
) -> Op[tuple[Merge | LastSeenMerge | Gathered, Page[Session]]]:
    """A page and its source. Where there is a fallback, a short scan shows which one is cheaper."""
    budget = min(PROBE, BUDGET) if route.fallback else BUDGET
    source = yield from _source(ctx, session_filter, route, limit, cursor, budget, order)
    page = yield from _page(ctx, session_filter, limit, source)
    if route.fallback and source.stopped and len(page.items) < limit:
        chosen = _cheaper(route, route.fallback, limit, max(0.5, len(page.items)) / source.looked)
        source = yield from _source(ctx, session_filter, chosen, limit, cursor, BUDGET, order)
        page = yield from _page(ctx, session_filter, limit, source)
    return source, page


def _cheaper(walk: Route, gather: Route, limit: int, share: float) -> Route:
    """``share``: the fraction of the scanned entries that match."""
    walk_us = min(walk.inside, limit / share) * planner.WALK_US
    gather_us = gather.plan.rows * planner.CONTAINS_US + share * walk.inside * planner.MATCH_US
    return gather if gather_us < walk_us else walk


def _total(
    source: Merge | LastSeenMerge | Gathered, page: Page[Session], route: Route, *, is_first: bool
) -> tuple[int, bool]:
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
    time = at.position[0]
    lists = [s.sessions if at.order == "login" else s.users for s in ctx.keys.shards]
    newer = yield [command(key, "ZCOUNT", key, f"({time}", "+inf") for key in lists]
    if at.order != "login":
        total = sum((yield [command(key, "ZCARD", key) for key in lists]))
    return float(min(1.0, sum(newer) / max(1, total)))


def _now(ctx: Context) -> Op[int]:
    s = ctx.keys.shards[0]
    [reply] = yield [count_call(ctx, s)]
    return COUNT_LIVE.reply(reply).now


def _place(session: Session, order: ListOrder) -> Place:
    return place_of(order, login_ms(session) if order == "login" else as_ms(session.last_seen), session.ref.encode())


def _of_user(
    ctx: Context, session_filter: SessionFilter, position: Position | None, limit: int, order: ListOrder
) -> Op[Page[Session]]:
    assert session_filter.uid is not None
    sessions = yield from sessions_of(ctx, session_filter.uid)
    now = yield from _now(ctx)
    fits = [session for session in sessions if session_filter.matches(session, now)]
    fits.sort(key=lambda session: _place(session, order), reverse=True)
    behind = fits
    if position is not None:
        at = place_of(order, position[0], raw_ref(position[1]))
        behind = [session for session in fits if _place(session, order) < at]
    items = behind[:limit]
    cursor = None
    if len(behind) > limit:
        last = items[-1]
        cursor = str(Cursor((_place(last, order)[0], last.ref), session_filter.digest, order))
    return Page(items, cursor, len(fits), True, len(sessions), moment(now))


def _source(
    ctx: Context,
    session_filter: SessionFilter,
    route: Route,
    limit: int,
    cursor: Cursor | None,
    budget: float,
    order: ListOrder,
) -> Op[Merge | LastSeenMerge | Gathered]:
    position, times = cursor.position if cursor else None, planner.login_range(session_filter)
    if route.gathers_list:
        todo = yield from _listed_refs(ctx, session_filter, route)
        return (yield from _gather(ctx, session_filter, route, todo, position, order))
    if route.scans_users and route.ranges is not None:
        most = 2 * MAX_GATHERED  # of each range, which may have grown since it was counted
        users = yield from find_users(route.ranges, most, most)
        if users:
            budget = max(budget, USERS_BUDGET)
            return Merge(ctx, limit, position, route.tests, times, budget, users)
    elif route.ranges is None and order == "login":
        return Merge(ctx, limit, position, route.tests, times, budget)
    elif route.ranges is None:
        waiting = cursor.waiting if cursor else None
        return LastSeenMerge(ctx, limit, position, route.tests, times, budget, waiting)
    return (yield from _gather(ctx, session_filter, route, route.ranges or [], position, order))


def _listed_refs(ctx: Context, session_filter: SessionFilter, route: Route) -> Op[list[ShardRange]]:
    """The whole list as far as it passes the tests, to be put into another order."""
    merge = Merge(ctx, 1000, None, route.tests, planner.login_range(session_filter))
    refs: dict[Shard, list[bytes]] = {}
    while found := (yield from merge.next(1000)):
        for _, ref, shard in found:
            refs.setdefault(shard, []).append(ref)
    return [
        ShardRange(shard, Range("sessions", b"\n".join(named[at : at + 500]), b""))
        for shard, named in refs.items()
        for at in range(0, len(named), 500)
    ]


def _gather(
    ctx: Context,
    session_filter: SessionFilter,
    route: Route,
    todo: list[ShardRange],
    position: Position | None,
    order: ListOrder,
) -> Op[Gathered]:
    found: dict[bytes, ListEntry] = {}
    unsure: dict[bytes, ListEntry] = {}
    now, read = 0, 0
    times = planner.login_range(session_filter)
    while todo:
        replies = yield [index_call(ctx, s, item, route.tests[s], times, order) for s, item in todo]
        parts = [READ_INDEX.reply(reply) for reply in replies]
        for part, item in zip(parts, todo, strict=True):
            found |= {ref: (time, ref, item.shard) for ref, time in part.sure}
            unsure |= {ref: (time, ref, item.shard) for ref, time in part.unsure}
        now, read = now or parts[0].now, read + sum(part.read for part in parts)
        todo = [
            item._replace(range=item.range._replace(low=part.rest))
            for part, item in zip(parts, todo, strict=True)
            if part.rest
        ]
    for ref in unsure.keys() & found.keys():  # its record changed between two steps
        del found[ref]
    gathered = Gathered(now or route.now, read, [*found.values(), *unsure.values()], position, order)
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
    next_cursor = None if behind is None else str(_cursor(source, behind, session_filter))
    items = [session for _, session in live[:limit]]
    if source.order == "last_seen":  # some may have been seen since their place was read
        items.sort(key=lambda session: _place(session, "last_seen"), reverse=True)
    return Page(items, next_cursor, 0, False, source.looked, moment(source.now))


def _cursor(source: Source, position: Position, session_filter: SessionFilter) -> Cursor:
    waiting = source.waiting_at(position) if isinstance(source, LastSeenMerge) else None
    return Cursor(position, session_filter.digest, source.order, waiting)


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
    for (time, raw, shard), reply in zip(found, replies, strict=True):
        ref = raw.decode("utf-8", "replace")
        row = read_record(reply) if reply else NO_ROW
        # The record is there and has not ended …
        times = None if row.end_reason else login_and_deadline(row)
        is_same = times and (source.order == "last_seen" or times[0] == time)
        if times and is_same and source.now < times[1]:  # … is of this very login, and in time
            live.append(((time, ref), shard, row))
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
