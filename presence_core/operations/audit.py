"""What staff did: written by the scripts that do it, read here. And what staff tried but may not do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import CorruptData, InvalidArgument
from presence_core.keyspace import Shard, digest
from presence_core.models import AuditEntry, Page, moment, text
from presence_core.operations.context import Context, pairs
from presence_core.operations.newest import LOOK_AT, Asked, Newest, Part, make_cursor, read_cursor
from presence_core.scripts import AUDIT, DENIED, NOTE, TRIM, Call, Op, command, run

_SLACK: Final = 3_600_000
"""How far times may be out of order, ms: clocks are set back, and denied attempts of an hour share a row."""

_POSITION = re.compile(r"\+|\(?[0-9]{1,20}-[0-9]{1,20}")
_END: Final = "0-0"  # the position behind every entry


@dataclass(frozen=True, slots=True)
class _Question:
    """What may be asked of the audit."""

    uid: str | None
    by: str | None
    since: int | None  #: ms
    before: int | None

    @property
    def values(self) -> list[Any]:
        return [self.uid, self.by, self.since, self.before]

    @property
    def is_everything(self) -> bool:
        return self.values == [None] * 4

    def has(self, uid: str | None, by: str | None, first: int, last: int) -> bool:
        return (
            (self.uid is None or self.uid == uid)
            and (self.by is None or self.by == by)
            and (self.since is None or self.since <= last)
            and (self.before is None or first < self.before)
        )


@dataclass(frozen=True, slots=True)
class _Done:
    """An entry before it is decoded for the page."""

    at: int
    fields: dict[bytes, bytes]
    entry: AuditEntry | None = None  #: of denied attempts, which have been tested


class _Stream(Asked):
    """One shard's stream. Positions are ids: the next entry where it is known, so that what is written later stays
    before every page that was begun."""

    __slots__ = ("_index", "_next", "_shard")

    def __init__(self, shard: Shard, index: int, position: str) -> None:
        super().__init__()
        self._shard = shard
        self._index = index
        self._next = position

    def call(self, ctx: Context, size: int) -> Call:
        return run(AUDIT, (self._shard.audit,), ctx.now, size, self._next)

    def take(self, reply: list[Any], size: int) -> None:
        self.now, self.total, entries = reply
        self.items, ids = [], []
        for raw, flat in entries:
            fields = dict(zip(flat[::2], flat[1::2], strict=True))
            at = fields.get(b"at", b"")
            ms = int(at) if at.isdigit() else int(raw.partition(b"-")[0])
            ids.append(raw.decode())
            self.items.append(((ms, -self._index), (ids[-1], _Done(ms, fields))))
        self.done = len(entries) < size
        if ids:
            self._next = f"({ids[-1]}"

    @property
    def position(self) -> str:
        if self.at < len(self.items):
            return str(self.items[self.at][1][0])
        return _END if self.done else self._next


class _Denied(Part):
    """The rows of denied attempts, all of them at hand. They stand where they began: that does not change while they
    are counted on."""

    def __init__(self, rows: Iterable[tuple[tuple[int, str], AuditEntry]], index: int) -> None:
        super().__init__()
        self.done = True
        ordered = sorted(rows, key=lambda row: row[0], reverse=True)
        self.items = [((place[0], -index), (place, _Done(place[0], {}, entry))) for place, entry in ordered]

    @property
    def position(self) -> list[Any]:
        return list(self.items[self.at][1][0]) if self.at < len(self.items) else [0, ""]


def audit(
    ctx: Context, uid: object, by: object, since: object, until: object, limit: object, cursor: object
) -> Op[Page[AuditEntry]]:
    question = _Question(
        None if uid is None else check.uid(uid),
        None if by is None else check.uid(by, "by"),
        *check.period(since, until),
    )
    most = check.whole("limit", limit, 1, 1000)
    seen, positions = read_cursor(cursor, "audit", question.values, _are_positions)
    return _audit(ctx, question, most, seen, positions)


def _are_positions(value: Any) -> bool:
    """The streams' and, last, that of the denied attempts."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    *streams, denied = value
    return (
        all(isinstance(one, str) and _POSITION.fullmatch(one) for one in streams)
        and isinstance(denied, list)
        and [type(part) for part in denied] == [int, str]
    )


def _audit(
    ctx: Context, question: _Question, limit: int, seen: int, positions: list[Any] | None
) -> Op[Page[AuditEntry]]:
    shards = ctx.keys.shards
    if positions is None:
        start = "+" if question.before is None else f"{question.before + _SLACK}-0"
        positions = [*[start] * len(shards), None]
    elif len(positions) != len(shards) + 1:
        raise InvalidArgument("cursor", "must be one that audit gave for the same question")
    rows = yield from _denied_rows(ctx)
    streams = [_Stream(s, i, position) for i, (s, position) in enumerate(zip(shards, positions[:-1], strict=True))]
    behind = None if positions[-1] is None else (positions[-1][0], positions[-1][1])
    asked = [row for row in rows if question.has(row[2].uid, row[2].by, row[0][0], row[1])]
    denied = _Denied([(place, entry) for place, _, entry in asked if behind is None or place <= behind], len(shards))
    merge = Newest(ctx, [*streams, denied], limit)

    def places() -> list[Any]:
        return [*(stream.position for stream in streams), denied.position]

    found: list[AuditEntry] = []
    scanned, next_page, is_end = 0, None, False
    while scanned < LOOK_AT:
        if len(found) == limit and next_page is None:
            next_page = places()
        some = yield from merge.next(1)
        if not some or (question.since is not None and some[0][1].at < question.since - _SLACK):
            next_page, is_end = None, True
            break
        [(raw_id, done)] = some
        scanned += 1
        entry = done.entry
        if entry is None:
            known = done.fields
            if not question.has(text(known.get(b"uid", b"")), text(known.get(b"by", b"")), done.at, done.at):
                continue
            entry = AuditEntry.from_reply(int(raw_id.partition("-")[0]), known)
        if len(found) == limit:
            break
        found.append(entry)
    if not is_end and next_page is None:
        next_page = places()
    seen += len(found)
    total, is_exact = (merge.total + len(rows), True) if question.is_everything else (seen, is_end)
    cursor = None if is_end else make_cursor("audit", question.values, seen, next_page)
    return Page(found, cursor, total, is_exact, scanned, moment(merge.now))


def trim_audit(ctx: Context) -> list[Call]:
    """For the sweep: forget what is older than ``keep_audit``."""
    return [run(TRIM, (s.audit,), ctx.now, ctx.settings.keep_audit) for s in ctx.keys.shards]


def note(ctx: Context, by: object, what: object, uid: object, reason: object, outcome: object) -> Op[None]:
    actor, act = check.actor(by), _act(what)
    owner = "" if uid is None else check.uid(uid)
    why = "" if reason is None else check.prose("reason", reason)
    came = "" if outcome is None else check.prose("outcome", outcome)

    def steps() -> Op[None]:
        s = ctx.shard(owner) if owner else ctx.keys.shards[0]
        yield [run(NOTE, (s.audit,), ctx.now, ctx.audit_cap, actor, act, owner, why, came)]

    return steps()


def _act(value: object) -> str:
    known = check.short("what", value, 64)
    if known is None:
        raise InvalidArgument("what", "must be text of 1 to 64 bytes")
    return known


# -- denied attempts --------------------------------------------------------------------------------------------------


def denied(ctx: Context, by: object, what: object, uid: object, reason: object) -> Op[None]:
    actor, act = check.actor(by), _act(what)
    owner = "" if uid is None else check.uid(uid)
    why = "" if reason is None else check.prose("reason", reason)

    def steps() -> Op[None]:
        key = ctx.keys.common.denied
        yield [run(DENIED, (key,), ctx.now, actor, act, owner, why, ctx.settings.keep_audit)]

    return steps()


def _denied_rows(ctx: Context) -> Op[list[tuple[tuple[int, str], int, AuditEntry]]]:
    """(first ms and the row's digest, which give it its place; last ms; the entry) of every row."""
    key = ctx.keys.common.denied
    [table] = yield [command(key, "HGETALL", key, lenient=True)]
    if table is None:
        raise CorruptData(f"{key} holds what presence_core never wrote. Another program shares this namespace.")
    out = []
    for raw, value in pairs(table):
        name, parts = text(raw), text(value).split("\n", 4)
        if name.count("\n") != 2 or len(parts) != 5 or not all(part.isdecimal() for part in parts[:3]):
            continue  # not ours
        _, what, by = name.split("\n")
        count, first, last = (int(part) for part in parts[:3])
        entry = AuditEntry.from_denied(by, what, count, first, last, parts[3] or None, parts[4] or None)
        out.append(((first, digest(name)), last, entry))
    return out
