"""Why sessions are over: everybody's ends, or one user's, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard, split_ref
from presence_core.models import END_FIELDS, NO_LABELS, SESSION_FIELDS, Ended, Labels, Page, Row, moment, span
from presence_core.operations.context import ENDED, Context, found_rows, label_texts
from presence_core.operations.newest import Entry, Newest, Ranked, is_ranked, make_cursor, read_cursor, walk
from presence_core.operations.reading import read_call
from presence_core.scripts import Call, Op, command

if TYPE_CHECKING:
    from datetime import datetime

MOST_ENDED: Final = 100
"""Ends that are listed per user: include/ending.lua."""

REASONS: Final = ("logout", "expired", "kicked", "replaced")


@dataclass(frozen=True, slots=True)
class _Question:
    """What may be asked of the ends."""

    uid: str | None
    reason: str | None
    by: str | None
    since: int | None  #: ms
    before: int | None

    @property
    def values(self) -> list[Any]:
        return [self.uid, self.reason, self.by, self.since, self.before]

    def has(self, row: Row) -> bool:
        """Whether this end is of the reason and by whom it was asked for; the times are the list's own bounds."""
        return (self.reason is None or row[8] == self.reason.encode()) and (
            self.by is None or row[11] == self.by.encode()
        )


@dataclass(frozen=True, slots=True)
class _End:
    """One that will be shown, before its texts are known."""

    shard: Shard
    uid: str
    session_id: str
    row: Row


def ended(
    ctx: Context,
    uid: object,
    reason: object,
    by: object,
    since: object,
    until: object,
    limit: object,
    cursor: object,
) -> Op[Page[Ended]]:
    if reason is not None and (not isinstance(reason, str) or reason not in REASONS):
        raise InvalidArgument("reason", 'must be "logout", "expired", "kicked" or "replaced"')
    question = _Question(
        None if uid is None else check.uid(uid),
        reason,
        None if by is None else check.uid(by, "by"),
        *check.period(since, until),
    )
    most = check.whole("limit", limit, 1, 1000)
    seen, behind = read_cursor(cursor, "ended", question.values, is_ranked)
    return _ended(ctx, question, most, seen, behind)


def _ended(ctx: Context, question: _Question, limit: int, seen: int, behind: list[str] | None) -> Op[Page[Ended]]:
    if question.uid is None:
        lists = [(s, s.ended) for s in ctx.keys.shards]
    else:
        shard = ctx.shard(question.uid)
        lists = [(shard, shard.ended_of(question.uid))]
    most = None if question.uid is None else MOST_ENDED
    parts = [
        Ranked(s, key, behind, question.since, question.before, meta=s.meta, most=most) for s, key in lists
    ]  # fmt: skip
    merge = Newest(ctx, parts, limit)
    is_plain = question.reason is question.by is None

    def look(entries: list[Entry]) -> Op[list[_End | None]]:
        ends = yield from _rows(ctx, entries)
        return [end if end is not None and question.has(end.row) else None for end in ends]

    walked = yield from walk(merge, limit, 1 if is_plain else 200, look)
    items = yield from _decode(ctx, walked.items)
    seen += len(items)
    is_end = walked.behind is None
    total = seen if is_end or not is_plain else max(seen, merge.total)
    cursor = None if is_end else make_cursor("ended", question.values, seen, walked.behind)
    return Page(
        items, cursor, total, is_end, walked.scanned, moment(merge.now),
        complete_since=complete_since(ctx, merge.now, (part.complete_from for part in parts)),
    )  # fmt: skip


def complete_since(ctx: Context, now: int, marks: Iterable[int]) -> datetime | None:
    """From when on all ends are there that are still to be kept, given each shard's mark, ms; None: all of them."""
    settings, latest = ctx.settings, max(marks, default=0)
    longest = max(settings.keep_kicked, settings.keep_replaced, settings.keep_expired, settings.keep_logout)
    return moment(latest) if latest > now - longest * 1000 else None


def _rows(ctx: Context, entries: list[Entry]) -> Op[list[_End | None]]:
    """The tombstones of these; None where there is none any more."""
    rows = yield [
        Call(e.shard.tag, ("HMGET", e.shard.record_prefix.encode() + e.member, *SESSION_FIELDS, *END_FIELDS), True,
             lenient=True)
        for e in entries
    ]  # fmt: skip
    out: list[_End | None] = []
    unburied: dict[tuple[Shard, str], dict[str, int]] = {}  # by user: session id → place in `out`
    for entry, row in zip(entries, rows, strict=True):
        uid, sid = split_ref(entry.member.decode("utf-8", "replace"))
        if not row or span(row) is None:
            out.append(None)
        elif row[8]:
            out.append(_End(entry.shard, uid, sid, row))
        else:  # its tombstone is still to be written: `closing` knows how it ended
            unburied.setdefault((entry.shard, uid), {})[sid] = len(out)
            out.append(None)
    if unburied:
        replies = yield [read_call(ctx, shard, uid, sids) for (shard, uid), sids in unburied.items()]
        for ((shard, uid), places), reply in zip(unburied.items(), replies, strict=True):
            for found in found_rows(uid, reply):
                if found.state == ENDED and len(found.row) == 16 and found.row[8]:
                    out[places[found.session_id]] = _End(shard, uid, found.session_id, found.row)
    return out


def _decode(ctx: Context, ends: list[_End]) -> Op[list[Ended]]:
    labels = yield from label_texts(ctx, [(end.shard, end.row) for end in ends])
    notes = yield from _notes(ends)
    return [
        Ended.from_reply(end.uid, end.session_id, end.row, labels[end.shard], notes.get(end.shard, NO_LABELS))
        for end in ends
    ]


def _notes(ends: list[_End]) -> Op[dict[Shard, Labels]]:
    """The texts that staff wrote, of all shards in one round trip."""
    wanted = sorted(
        {(end.shard.index, note): end.shard for end in ends for note in (end.row[12], end.row[14]) if note}.items()
    )
    if not wanted:
        return {}
    keys = [shard.note(note.decode("ascii", "replace")) for (_, note), shard in wanted]
    texts = yield [command(key, "GET", key, lenient=True) for key in keys]
    out: dict[Shard, dict[bytes, bytes]] = {}
    for ((_, note), shard), value in zip(wanted, texts, strict=True):
        if isinstance(value, bytes):
            out.setdefault(shard, {})[note] = value
    return dict(out)
