"""The list: live sessions, newest login first, all or those that a filter asks for, in pages.

Where the sessions come from is the planner's choice; whatever it is, they come in order, each is tested on its record
by ``SessionFilter.matches``, and one that has ended meanwhile gives its place to the next in line.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.keyspace import Shard, split_ref
from presence_core.models import SESSION_FIELDS, Page, Plan, Row, Session, moment, span
from presence_core.operations import planning
from presence_core.operations.context import Context, label_texts
from presence_core.operations.merging import Found, Gathered, Merge, Position, Source, raw_ref
from presence_core.operations.planning import Range, Ways
from presence_core.operations.reading import sessions_of
from presence_core.operations.upkeep import heal
from presence_core.scripts import COUNT, GATHER, Call, Op, command, run

LOOK: Final = 20_000
"""Entries of an index that one script reads, at most; it stops earlier when it has held the server for 5 ms."""

DIRTY_AT_MOST: Final = 1_000
"""Refs without a live session that one page steps over before it heals them and goes on."""

BUDGET: Final = 20_000
"""Entries that one call looks at while it walks the list; a page that is not full by then says how far it came."""

PROBE: Final = 2_000
"""Entries that are walked to learn how frequent a piece of a name is, before the whole index is looked through."""

EVERYBODY: Final = SessionFilter()


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended."""

    position: Position
    filter_digest: str = ""

    def __str__(self) -> str:
        parts = [*self.position, self.filter_digest] if self.filter_digest else [*self.position]
        text = json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return urlsafe_b64encode(text).rstrip(b"=").decode()

    @classmethod
    def read(cls, cursor: object, asked: SessionFilter) -> Cursor | None:
        """What ``str`` made; only with the filter that it was made for."""
        if cursor is None:
            return None
        try:
            if not isinstance(cursor, str) or len(cursor) > 2048:
                raise ValueError
            login, ref, *rest = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            [digest] = rest or [""]
            if type(login) is not int or not 0 <= login < 1 << 53 or type(digest) is not str or type(ref) is not str:
                raise ValueError
            if not digest:
                check.ref(ref)
            raw_ref(ref)  # a search may have stopped at what another program put into the list
        except (ValueError, TypeError, RecursionError):
            raise InvalidArgument("cursor", "must be one that list_sessions gave") from None
        if digest != asked.digest:
            raise InvalidArgument("cursor", "must be one that list_sessions gave for this filter")
        return cls((login, ref), digest)


def whose(cursor: bytes) -> str:
    """The uid of the session that ended a page; "" where this is no cursor of ours."""
    try:
        _, ref, *_ = json.loads(urlsafe_b64decode(cursor + b"=" * (-len(cursor) % 4)))
        return split_ref(ref)[0] if isinstance(ref, str) else ""
    except (ValueError, TypeError, RecursionError):
        return ""


def make_cursor(position: Position) -> str:
    """A cursor of the unfiltered list."""
    return str(Cursor(position))


def _filter(value: object) -> SessionFilter:
    if value is None:
        return EVERYBODY
    if not isinstance(value, SessionFilter):
        raise InvalidArgument("filter", "must be a SessionFilter")
    return value


def list_sessions(ctx: Context, asked: object, limit: object, cursor: object) -> Op[Page[Session]]:
    wanted = _filter(asked)
    number, at = check.whole("limit", limit, 1, 1000), Cursor.read(cursor, wanted)
    return _list(ctx, wanted, number, at)


def explain(ctx: Context, asked: object) -> Op[Plan]:
    wanted = _filter(asked)

    def steps() -> Op[Plan]:
        if wanted.uid is not None:
            residual = tuple(name for name in wanted.given if name != "uid")
            held = yield from sessions_of(ctx, wanted.uid)
            return Plan("uid", len(held), len(held), residual)
        ways = yield from planning.plan(ctx, wanted, 50)
        return Plan("none", 0, 0, ()) if ways.none else ways.plan

    return steps()


def count_sessions(ctx: Context, asked: object) -> Op[int]:
    wanted = _filter(asked)

    def steps() -> Op[int]:
        if wanted.uid is not None:
            return len((yield from _of_user(ctx, wanted, None)).items)
        ways = yield from planning.plan(ctx, wanted, None)
        if ways.total_is_exact or ways.none:
            return ways.total
        source = yield from _source(ctx, wanted, ways.other or ways, 1000, None, float("inf"))
        if isinstance(source, Gathered):
            return source.total
        number = 0
        while True:
            found = yield from source.next(1000)
            live = yield from _test(ctx, wanted, source, found, {})
            number += len(live)
            if not found:
                return number

    return steps()


def _list(ctx: Context, asked: SessionFilter, limit: int, cursor: Cursor | None) -> Op[Page[Session]]:
    position = cursor.position if cursor else None
    if not asked.given:
        merge = Merge(ctx, limit, position)
        page = yield from _page(ctx, asked, limit, merge)
        return Page(page.items, page.next_cursor, merge.total, merge.exact, page.scanned, page.as_of)
    if asked.uid is not None:
        return (yield from _of_user(ctx, asked, position, limit))
    ways = yield from planning.plan(ctx, asked, limit + 1)
    if ways.none:
        now = yield from _now(ctx)
        return Page([], None, 0, True, 0, moment(now))
    source = yield from _source(ctx, asked, ways, limit, position, min(PROBE, BUDGET) if ways.other else BUDGET)
    page = yield from _page(ctx, asked, limit, source)
    if ways.other and source.stopped and len(page.items) < limit:
        share = max(0.5, len(page.items)) / source.looked
        walk = min(ways.inside, limit / share) * planning.WALK_US
        gather = ways.other.plan.rows * planning.GATHER_US["contains"] + share * ways.inside * planning.MATCH_US
        way, budget = (ways.other, 0) if gather < walk else (ways, BUDGET)
        source = yield from _source(ctx, asked, way, limit, position, budget)
        page = yield from _page(ctx, asked, limit, source)
    if isinstance(source, Gathered):
        total, exact = source.total, True
    elif position is None and page.next_cursor is None:
        total, exact = len(page.items), True
    else:
        total, exact = ways.total, ways.total_is_exact
        if not exact:
            total = max(total, len(page.items))
    progress = 1.0
    if page.next_cursor and isinstance(source, Merge):
        progress = yield from _progress(ctx, Cursor.read(page.next_cursor, asked), source.total)
    return Page(page.items, page.next_cursor, total, exact, page.scanned, page.as_of, progress)


def _progress(ctx: Context, at: Cursor | None, total: int) -> Op[float]:
    """How much of the list is newer than where a page ended. What was looked at says too much: a shard looks ahead, and
    what no page has shown will be looked at again."""
    assert at is not None
    login = at.position[0]
    newer = yield [command(s.sessions, "ZCOUNT", s.sessions, f"({login}", "+inf") for s in ctx.keys.shards]
    return float(min(1.0, sum(newer) / max(1, total)))


def _now(ctx: Context) -> Op[int]:
    s = ctx.keys.shards[0]
    [reply] = yield [run(COUNT, (s.deadlines, s.users, s.meta, s.totals, s.sessions), ctx.now)]
    now: int = reply[0]
    return now


def _of_user(ctx: Context, asked: SessionFilter, position: Position | None, limit: int = 1000) -> Op[Page[Session]]:
    assert asked.uid is not None
    held = yield from sessions_of(ctx, asked.uid)
    now = yield from _now(ctx)
    fits = [one for one in held if asked.matches(one, now)]
    behind = fits
    if position is not None:
        at = position[0], raw_ref(position[1])
        behind = [one for one in fits if (round(one.login_at.timestamp() * 1000), one.ref.encode()) < at]
    items = behind[:limit]
    cursor = None
    if len(behind) > limit:
        last = items[-1]
        cursor = str(Cursor((round(last.login_at.timestamp() * 1000), last.ref), asked.digest))
    return Page(items, cursor, len(fits), True, len(held), moment(now))


def _source(
    ctx: Context, asked: SessionFilter, ways: Ways, limit: int, position: Position | None, budget: float
) -> Op[Merge | Gathered]:
    if ways.ranges is None:
        return Merge(ctx, limit, position, ways.tests, planning.span(asked), budget)
    found: dict[bytes, Found] = {}
    unsure: dict[bytes, Found] = {}
    todo, now, looked = ways.ranges, 0, 0
    while todo:
        again = []
        for (shard, kind, ends), reply in zip(todo, (yield _gather(ctx, asked, ways, todo)), strict=True):
            now, looked = now or reply[0], looked + reply[4]
            for flat, into in ((reply[1], found), (reply[2], unsure)):
                for ref, login in zip(flat[::2], flat[1::2], strict=True):
                    into[ref] = int(login), ref, shard
            if reply[3]:
                again.append((shard, kind, (reply[3], ends[1])))
        todo = again
    for ref in unsure.keys() & found.keys():  # its record changed between two steps
        del found[ref]
    gathered = Gathered(now or ways.now, looked, [*found.values(), *unsure.values()], position)
    gathered.total = len(found)
    doubtful = list(unsure.values())
    for first in range(0, len(doubtful), 1000):
        gathered.total += len((yield from _test(ctx, asked, gathered, doubtful[first : first + 1000], {})))
    return gathered


def _gather(ctx: Context, asked: SessionFilter, ways: Ways, todo: list[tuple[Shard, str, Range]]) -> list[Call]:
    return [
        run(GATHER, (s.words if kind == "words" else s.addresses, s.sessions, s.deadlines, s.users, s.meta), ctx.now,
            LOOK, *ends, kind, ways.contains, *planning.span(asked), s.user_prefix, s.record_prefix, *ways.tests[s])
        for s, kind, ends in todo
    ]  # fmt: skip


def _page(ctx: Context, asked: SessionFilter, limit: int, source: Source) -> Op[Page[Session]]:
    live: list[tuple[Position, Session]] = []
    dirty: dict[Shard, list[tuple[str, str]]] = {}
    while len(live) <= limit:
        found = yield from source.next(limit + 1 - len(live))
        if not found:
            break
        live += yield from _test(ctx, asked, source, found, dirty)
        if sum(map(len, dirty.values())) >= DIRTY_AT_MOST:
            yield from _heal(ctx, dirty)
    yield from _heal(ctx, dirty)
    behind: Position | None = live[limit - 1][0] if len(live) > limit else source.stopped
    next_cursor = None if behind is None else str(Cursor(behind, asked.digest))
    return Page([one for _, one in live[:limit]], next_cursor, 0, False, source.looked, moment(source.now))


def _test(
    ctx: Context, asked: SessionFilter, source: Source, found: list[Found], dirty: dict[Shard, list[tuple[str, str]]]
) -> Op[list[tuple[Position, Session]]]:
    """Those that are live and match, by their records."""
    if not found:
        return []
    rows = yield [
        Call(shard.tag, ("HMGET", shard.record_prefix.encode() + ref, *SESSION_FIELDS, "e"), True, lenient=True)
        for _, ref, shard in found
    ]
    live: list[tuple[Position, Shard, Row]] = []
    for (login, raw, shard), row in zip(found, rows, strict=True):
        ref = raw.decode("utf-8", "replace")
        times = span(row) if row and not row[8] else None  # the record is there and has not ended …
        if times and times[0] == login and source.now < times[1]:  # … is of this very login, and in time
            live.append(((login, ref), shard, row))
        else:
            dirty.setdefault(shard, []).append(split_ref(ref))
    labels = yield from label_texts(ctx, [(shard, row) for _, shard, row in live])
    sessions = [(at, Session.from_reply(*split_ref(at[1]), row, labels[shard])) for at, shard, row in live]
    return [(at, one) for at, one in sessions if asked is EVERYBODY or asked.matches(one, source.now)]


def _heal(ctx: Context, dirty: dict[Shard, list[tuple[str, str]]]) -> Op[None]:
    for shard, pairs in dirty.items():
        yield from heal(ctx, shard, pairs)
    dirty.clear()
