"""The audit: what staff did, written by the scripts that do it; and what staff tried but may not do, counted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from presence_core import validation as check
from presence_core.errors import InvalidArgument, foreign_data
from presence_core.keyspace import Shard, digest
from presence_core.models import AuditEntry, AuditFact, Page, moment, read_facts, stored_number, text, write_facts
from presence_core.operations.context import Context
from presence_core.operations.cursors import make_cursor, read_cursor
from presence_core.operations.merged_lists import LOOK_AT, MergedLists, MergePart, ShardPart
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command, pairs
from presence_core.scripts.staff import COUNT_DENIED, READ_AUDIT, TRIM_AUDIT, WRITE_AUDIT

_SLACK: Final = 3_600_000
"""How far entries may be out of order, ms: clocks are set back, and the denied attempts of an hour share a row."""

_POSITION = re.compile(r"\+|\(?[0-9]{1,20}-[0-9]{1,20}")
_MAX_FACTS: Final = 2_000
_END: Final = "0-0"  # the position behind every entry


@dataclass(frozen=True, slots=True)
class _AuditFilter:
    uid: str | None
    by: str | None
    since: int | None  #: ms
    before: int | None

    @property
    def values(self) -> list[Any]:
        return [self.uid, self.by, self.since, self.before]

    @property
    def is_empty(self) -> bool:
        return self.values == [None] * 4

    def matches(self, uid: str | None, by: str | None, first: int, last: int) -> bool:
        return (
            (self.uid is None or self.uid == uid)
            and (self.by is None or self.by == by)
            and (self.since is None or self.since <= last)
            and (self.before is None or first < self.before)
        )


class _DeniedRow(NamedTuple):
    """The denied attempts of one actor, action and hour."""

    place: tuple[int, str]  #: first ms and the digest of the row's name: its place in the order
    last: int  #: ms
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class _Item:
    """An entry in the merged list."""

    at: int  #: ms
    stream_id: str = ""
    fields: dict[bytes, bytes] | None = None  #: of an entry of a stream, not decoded yet
    entry: AuditEntry | None = None  #: of denied attempts, which match the filter

    def decode(self, wanted: _AuditFilter) -> AuditEntry | None:
        """The entry; None where it does not match."""
        if self.fields is None:
            return self.entry
        uid, by = text(self.fields.get(b"uid", b"")), text(self.fields.get(b"by", b""))
        if not wanted.matches(uid, by, self.at, self.at):
            return None
        return AuditEntry.from_reply(int(self.stream_id.partition("-")[0]), self.fields)


class _Stream(ShardPart):
    """One shard's stream. A position is the id of the next entry where that is known, so that entries which are written
    later stay before every page that was begun."""

    __slots__ = ("_index", "_next", "_shard")

    def __init__(self, shard: Shard, index: int, position: str) -> None:
        super().__init__()
        self._shard = shard
        self._index = index
        self._next = position

    def call(self, ctx: Context, size: int) -> Call:
        return call_of(READ_AUDIT, (self._shard.audit,), ctx.now, size, self._next)

    def take(self, reply: list[Any], size: int) -> None:
        chunk = READ_AUDIT.reply(reply)
        self.now, self.total = chunk.now, chunk.total
        self.items = [self._item(raw_id.decode(), fields) for raw_id, fields in chunk.entries]
        self.done = len(self.items) < size
        if self.items:
            self._next = f"({self.items[-1][1].stream_id}"

    def _item(self, stream_id: str, fields: dict[bytes, bytes]) -> tuple[tuple[int, int], _Item]:
        at = stored_number(fields.get(b"at"))
        ms = int(stream_id.partition("-")[0]) if at is None else at
        return (ms, -self._index), _Item(ms, stream_id, fields)

    @property
    def position(self) -> str:
        if self.at < len(self.items):
            return str(self.items[self.at][1].stream_id)
        return _END if self.done else self._next


class _Denied(MergePart):
    """The rows of denied attempts, all of them read. A row keeps its first time, so its place does not change while
    further attempts are counted."""

    def __init__(self, rows: Iterable[_DeniedRow], index: int) -> None:
        super().__init__()
        self._places = sorted((row.place for row in rows), reverse=True)
        by_place = {row.place: row.entry for row in rows}
        self.items = [((place[0], -index), _Item(place[0], entry=by_place[place])) for place in self._places]

    @property
    def position(self) -> list[Any]:
        return list(self._places[self.at]) if self.at < len(self._places) else [0, ""]


@checked_first
def audit(
    ctx: Context, uid: object, by: object, since: object, until: object, limit: object, cursor: object
) -> Op[Page[AuditEntry]]:
    wanted = _AuditFilter(
        None if uid is None else check.uid(uid),
        None if by is None else check.uid(by, "by"),
        *check.period(since, until),
    )
    size = check.whole("limit", limit, 1, 1000)
    seen, positions = read_cursor(cursor, "audit", wanted.values, _are_positions)
    yield CHECKED
    if positions is not None and len(positions) != len(ctx.keys.shards) + 1:
        raise InvalidArgument("cursor", "must be the next_cursor of audit, with the same other arguments", "malformed")
    rows = yield from _read_denied(ctx)
    streams, denied = _parts(ctx, wanted, rows, positions)
    merge = MergedLists(ctx, [*streams, denied], size)
    found: list[AuditEntry] = []
    scanned, next_page = 0, None
    while scanned < LOOK_AT:
        if len(found) == size and next_page is None:  # the next match, if there is one, begins the next page
            next_page = _positions(streams, denied)
        items = yield from merge.next(1)
        if not items or (wanted.since is not None and items[0].at < wanted.since - _SLACK):
            return _page(merge, wanted, found, seen, scanned, len(rows), None)
        scanned += 1
        entry = items[0].decode(wanted)
        if entry is None:
            continue
        if len(found) == size:
            break
        found.append(entry)
    return _page(merge, wanted, found, seen, scanned, len(rows), next_page or _positions(streams, denied))


def _are_positions(value: Any) -> bool:
    """Whether these are the streams' positions and, last, that of the denied attempts."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    *streams, denied = value
    return (
        all(isinstance(position, str) and _POSITION.fullmatch(position) for position in streams)
        and isinstance(denied, list)
        and [type(part) for part in denied] == [int, str]
    )


def _parts(
    ctx: Context, wanted: _AuditFilter, rows: list[_DeniedRow], positions: list[Any] | None
) -> tuple[list[_Stream], _Denied]:
    """The streams of all shards and the denied attempts, each from its position."""
    shards = ctx.keys.shards
    start = "+" if wanted.before is None else f"{wanted.before + _SLACK}-0"
    *stream_positions, last = positions or [*[start] * len(shards), None]
    begin = None if last is None else tuple(last)
    streams = [
        _Stream(shard, index, position)
        for index, (shard, position) in enumerate(zip(shards, stream_positions, strict=True))
    ]
    matches = [
        row
        for row in rows
        if wanted.matches(row.entry.uid, row.entry.by, row.place[0], row.last) and (begin is None or row.place <= begin)
    ]
    return streams, _Denied(matches, len(shards))


def _positions(streams: list[_Stream], denied: _Denied) -> list[Any]:
    return [*(stream.position for stream in streams), denied.position]


def _page(
    merge: MergedLists,
    wanted: _AuditFilter,
    found: list[AuditEntry],
    seen: int,
    scanned: int,
    denied_rows: int,
    next_page: list[Any] | None,
) -> Page[AuditEntry]:
    seen += len(found)
    is_last = next_page is None
    total, is_exact = (merge.total + denied_rows, True) if wanted.is_empty else (seen, is_last)
    cursor = None if is_last else make_cursor("audit", wanted.values, seen, next_page)
    return Page(found, cursor, total, is_exact, scanned, moment(merge.now))


def trim_audit(ctx: Context) -> list[Call]:
    """For the sweep: remove entries older than ``keep_audit``."""
    return [call_of(TRIM_AUDIT, (shard.audit,), ctx.now, ctx.settings.keep_audit) for shard in ctx.keys.shards]


@checked_first
def note(
    ctx: Context, by: object, what: object, uid: object, reason: object, outcome: object, facts: object
) -> Op[None]:
    """Write an entry for an action that changes no session and no block."""
    actor, action = check.actor(by), _check_action(what)
    owner = "" if uid is None else check.uid(uid)
    note_text = check.optional_prose("reason", reason)
    outcome_text, known_facts = check.optional_prose("outcome", outcome), _check_facts(facts)
    yield CHECKED
    shard = ctx.shard(owner) if owner else ctx.keys.shards[0]
    yield [
        call_of(WRITE_AUDIT, (shard.audit,), given_now=ctx.now, audit_cap=ctx.audit_cap, by=actor, action=action,
                uid=owner, reason=note_text, outcome=outcome_text, facts=known_facts, filter="")
    ]  # fmt: skip


def _check_facts(value: object) -> str:
    """Facts as they are stored; "" for none."""
    facts = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(fact, AuditFact) for fact in facts):
        raise InvalidArgument("facts", "must be a list of AuditFact", "wrong_type")
    stored = write_facts(*facts) if facts else ""
    if facts and not read_facts(stored.encode()):
        raise InvalidArgument("facts", "must have known codes, each with the values of its sentence", "unknown")
    if len(stored) > _MAX_FACTS:
        raise InvalidArgument("facts", f"must be at most {_MAX_FACTS:,} characters as JSON", "too_long")
    return stored


def _check_action(value: object) -> str:
    action = check.short("what", value, 64)
    if action is None:
        raise InvalidArgument("what", "must be text of 1 to 64 bytes", "wrong_type")
    return action


# -- denied attempts --------------------------------------------------------------------------------------------------


@checked_first
def denied(ctx: Context, by: object, what: object, uid: object, reason: object) -> Op[None]:
    """Count an attempt that the actor's role does not allow."""
    actor, action = check.actor(by), _check_action(what)
    owner = "" if uid is None else check.uid(uid)
    note_text = check.optional_prose("reason", reason)
    yield CHECKED
    key = ctx.keys.common.denied
    yield [call_of(COUNT_DENIED, (key,), ctx.now, actor, action, owner, note_text, ctx.settings.keep_audit)]


def _read_denied(ctx: Context) -> Op[list[_DeniedRow]]:
    key = ctx.keys.common.denied
    [table] = yield [command(key, "HGETALL", key, lenient=True)]
    if table is None:
        raise foreign_data(key)
    rows = (_decode_denied(text(name), text(value)) for name, value in pairs(table))
    return [row for row in rows if row is not None]


def _decode_denied(name: str, value: str) -> _DeniedRow | None:
    """A row as staff/count_denied.lua wrote it; None for another program's."""
    parts = value.split("\n", 4)
    if name.count("\n") != 2 or len(parts) != 5 or not all(part.isdecimal() for part in parts[:3]):
        return None
    _, action, by = name.split("\n")
    *numbers, uid, reason = parts
    count, first, last = map(int, numbers)
    entry = AuditEntry.from_denied(by, action, count, first, last, uid or None, reason or None)
    return _DeniedRow((first, digest(name)), last, entry)
