"""Ended sessions and why they ended: of all users or of one, newest first; and what given sessions are now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard, split_ref
from presence_core.models import (
    END_FIELDS,
    NO_LABELS,
    ODD_FIELDS,
    SESSION_FIELDS,
    Ended,
    Labels,
    Page,
    Session,
    login_and_deadline,
    moment,
)
from presence_core.models.choices import EndReason
from presence_core.operations.context import Context, found_rows, label_texts
from presence_core.operations.cursors import make_cursor, read_cursor
from presence_core.operations.search.timed_lists import Entry, MergedLists, ZsetPart, is_zset_position, scan
from presence_core.operations.sessions.read import read_call
from presence_core.scripts.calls import CHECKED, Op, checked_first, command
from presence_core.scripts.sessions import ENDED, LIVE, SessionRow

if TYPE_CHECKING:
    from datetime import datetime

MAX_ENDED: Final = 100
"""Ends that are listed per user: include/sessions/end_session.lua."""

MAX_REFS: Final = 1_000
"""Sessions that one ``sessions_among`` may name: as many as a page of the list may hold."""

REASONS: Final = get_args(EndReason)


@dataclass(frozen=True, slots=True)
class _EndFilter:
    """Conditions on ended sessions; None for any."""

    uid: str | None
    end_reason: str | None
    by: str | None
    since: int | None  #: ms
    before: int | None

    @property
    def values(self) -> list[Any]:
        return [self.uid, self.end_reason, self.by, self.since, self.before]

    def matches(self, row: SessionRow) -> bool:
        """Whether end reason and author are as wanted; the times are bounds of the list."""
        return (self.end_reason is None or row.end_reason == self.end_reason.encode()) and (
            self.by is None or row.by == self.by.encode()
        )


@dataclass(frozen=True, slots=True)
class _End:
    """An ended session, before its texts are read."""

    shard: Shard
    uid: str
    session_id: str
    row: SessionRow


@checked_first
def ended(
    ctx: Context, uid: object, reason: object, by: object, since: object, until: object, limit: object, cursor: object
) -> Op[Page[Ended]]:
    if reason is not None and (not isinstance(reason, str) or reason not in REASONS):
        raise InvalidArgument("reason", 'must be "logout", "expired", "kicked" or "replaced"')
    wanted = _EndFilter(
        None if uid is None else check.uid(uid),
        reason,
        None if by is None else check.uid(by, "by"),
        *check.period(since, until),
    )
    size = check.whole("limit", limit, 1, 1000)
    seen, behind = read_cursor(cursor, "ended", wanted.values, is_zset_position)
    yield CHECKED
    if wanted.uid is None:
        lists = [(s, s.ended) for s in ctx.keys.shards]
    else:
        shard = ctx.shard(wanted.uid)
        lists = [(shard, shard.ended_of(wanted.uid))]
    most = None if wanted.uid is None else MAX_ENDED
    parts = [
        ZsetPart(s, key, behind, wanted.since, wanted.before, meta=s.meta, most=most) for s, key in lists
    ]  # fmt: skip
    merge = MergedLists(ctx, parts, size)
    is_plain = wanted.end_reason is wanted.by is None

    def look(entries: list[Entry]) -> Op[list[_End | None]]:
        ends = yield from _rows(ctx, entries)
        return [end if end is not None and wanted.matches(end.row) else None for end in ends]

    walked = yield from scan(merge, size, 1 if is_plain else 200, look)
    items = yield from _decode(ctx, walked.items)
    seen += len(items)
    is_end = walked.behind is None
    total = seen if is_end or not is_plain else max(seen, merge.total)
    cursor = None if is_end else make_cursor("ended", wanted.values, seen, walked.behind)
    return Page(
        items, cursor, total, is_end, walked.scanned, moment(merge.now),
        complete_since=complete_since(ctx, merge.now, (part.complete_from for part in parts)),
    )  # fmt: skip


def complete_since(ctx: Context, now: int, marks: Iterable[int]) -> datetime | None:
    """From when on all ends are there that should still be kept, given each shard's mark, ms; None: all are there."""
    settings, latest = ctx.settings, max(marks, default=0)
    longest = max(settings.keep_kicked, settings.keep_replaced, settings.keep_expired, settings.keep_logout)
    return moment(latest) if latest > now - longest * 1000 else None


def _rows(ctx: Context, entries: list[Entry]) -> Op[list[_End | None]]:
    """The tombstones of these entries; None for an entry whose tombstone has expired."""
    replies = yield [
        command(entry.shard.tag, "HMGET", entry.shard.record_prefix.encode() + entry.member, *SESSION_FIELDS,
                *END_FIELDS, *ODD_FIELDS, lenient=True)
        for entry in entries
    ]  # fmt: skip
    out: list[_End | None] = [None] * len(entries)
    pending: dict[tuple[Shard, str], dict[str, int]] = {}  # by user: session id → place in `out`
    for place, (entry, reply) in enumerate(zip(entries, replies, strict=True)):
        uid, sid = split_ref(entry.member.decode("utf-8", "replace"))
        row = SessionRow(*reply or ())
        if login_and_deadline(row) is None:
            continue
        if row.end_reason:
            out[place] = _End(entry.shard, uid, sid, row)
        else:
            pending.setdefault((entry.shard, uid), {})[sid] = place
    for end, place in (yield from _pending_ends(ctx, pending)):
        out[place] = end
    return out


def _pending_ends(ctx: Context, pending: dict[tuple[Shard, str], dict[str, int]]) -> Op[list[tuple[_End, int]]]:
    """The ends of sessions whose tombstone is still to be written, by `closing`, and their places."""
    if not pending:
        return []
    replies = yield [read_call(ctx, shard, uid, sids) for (shard, uid), sids in pending.items()]
    return [
        (_End(shard, uid, found.session_id, found.row), places[found.session_id])
        for ((shard, uid), places), reply in zip(pending.items(), replies, strict=True)
        for found in found_rows(uid, reply)
        if found.state == ENDED and found.row.end_reason
    ]


def _decode(ctx: Context, ends: list[_End]) -> Op[list[Ended]]:
    labels = yield from label_texts(ctx, [(end.shard, end.row.core) for end in ends])
    notes = yield from _notes(ends)
    return [
        Ended.from_reply(end.uid, end.session_id, end.row, labels[end.shard], notes.get(end.shard, NO_LABELS))
        for end in ends
    ]


def _notes(ends: list[_End]) -> Op[dict[Shard, Labels]]:
    """The texts that staff wrote, of all shards, in one round trip."""
    wanted = sorted(
        {(end.shard.index, note): end.shard for end in ends for note in (end.row.note, end.row.message) if note}.items()
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


@checked_first
def sessions_among(ctx: Context, refs: object) -> Op[dict[str, Session | Ended]]:
    if isinstance(refs, str | bytes) or not isinstance(refs, Iterable):
        raise InvalidArgument("refs", "must be a list of refs")
    by_user: dict[str, list[str]] = {}
    for place, ref in enumerate(refs):
        if place == MAX_REFS:
            raise InvalidArgument("refs", f"must be at most {MAX_REFS} refs")
        uid, session_id = check.ref(ref)
        by_user.setdefault(uid, []).append(session_id)
    yield CHECKED
    if not by_user:
        return {}
    replies = yield [read_call(ctx, ctx.shard(uid), uid, sids) for uid, sids in by_user.items()]
    rows = [
        (ctx.shard(uid), found)
        for uid, reply in zip(by_user, replies, strict=True)
        for found in found_rows(uid, reply)
        if found.state in (LIVE, ENDED)
    ]
    notes = yield from _notes(
        [_End(shard, found.uid, found.session_id, found.row) for shard, found in rows if found.state == ENDED]
    )
    return {
        f"{found.uid}:{found.session_id}": (
            found.session() if found.state == LIVE else found.ended(notes.get(shard, NO_LABELS))
        )
        for shard, found in rows
    }
