"""Ended sessions and why they ended: of all users or of one, newest first; and what given sessions are now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard, split_ref
from presence_core.models import (
    NO_LABELS,
    Ended,
    Labels,
    Page,
    Session,
    ValidationFailed,
    login_and_deadline,
    moment,
    stored_number,
)
from presence_core.operations.context import Context, found_rows, label_texts
from presence_core.operations.cursors import make_cursor, read_cursor
from presence_core.operations.merged_lists import (
    Entry,
    MergedLists,
    MergePart,
    ZsetPart,
    is_zset_position,
    scan,
    whole,
)
from presence_core.operations.sessions.read import read_call
from presence_core.operations.sessions.settle import Pair, settle_stale_of_shards
from presence_core.operations.sessions.validate import RequestSource, judge, validate_call
from presence_core.schema.endings import END_REASONS, EndCause, in_words, kept
from presence_core.schema.record import LETTERS, SessionRow
from presence_core.scripts.calls import CHECKED, Op, checked_first, command
from presence_core.scripts.sessions import ENDED, LIVE, VALIDATE

if TYPE_CHECKING:
    from datetime import datetime

MAX_ENDED: Final = 100
"""Ends that are listed per user: include/sessions/end_session.lua."""

MAX_REFS: Final = 1_000
"""Sessions that one ``sessions_among`` or ``kick_refs`` may name: as many as a page of the list may hold."""


@dataclass(frozen=True, slots=True)
class _EndFilter:
    """Conditions on ended sessions; None for any."""

    uid: str | None
    end_reason: str | None
    by: str | None
    since: int | None  #: ms
    before: int | None
    cause: EndCause | None = None

    @property
    def values(self) -> list[Any]:
        return [self.uid, self.end_reason, self.by, self.since, self.before, *([self.cause] if self.cause else [])]

    @property
    def is_plain(self) -> bool:
        """Whether every end in the period matches."""
        return self.end_reason is self.by is self.cause is None

    @property
    def may_expire(self) -> bool:
        """Whether a session that expired may match."""
        return self.end_reason in (None, "expired") and self.by is None

    def matches(self, end: _End) -> bool:
        """Whether reason, cause and author are as wanted; the times are bounds of the list."""
        row = end.row
        return (
            (self.end_reason is None or row.end_reason == self.end_reason.encode())
            and (self.by is None or row.by == self.by.encode())
            and (self.cause is None or Ended.from_reply(end.uid, end.session_id, row).cause == self.cause)
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
    ctx: Context,
    uid: object,
    reason: object,
    by: object,
    since: object,
    until: object,
    limit: object,
    cursor: object,
    cause: object = None,
) -> Op[Page[Ended]]:
    if reason is not None and (not isinstance(reason, str) or reason not in END_REASONS):
        raise InvalidArgument("reason", "must be " + in_words('"'), "not_a_choice")
    if cause is not None:
        check.choice("cause", cause, EndCause)
    wanted = _EndFilter(
        None if uid is None else check.uid(uid),
        reason,
        None if by is None else check.uid(by, "by"),
        *check.period(since, until),
        cast("EndCause | None", cause),
    )
    size = check.whole("limit", limit, 1, 1000)
    seen, behind = read_cursor(cursor, "ended", wanted.values, is_zset_position)
    yield CHECKED
    waiting: list[MergePart] = []
    unwritten, most = dict[bytes, _End](), None
    # Those that wait are read before the list, so that an end which a sweep writes meanwhile is in one of the two, or
    # in both.
    if wanted.uid is None:
        lists = [(s, s.ended) for s in ctx.keys.shards]
        if wanted.may_expire and kept(ctx.settings)["expired"]:
            waiting += (
                ZsetPart(s, s.deadlines, behind, wanted.since, wanted.before, is_past=True) for s in ctx.keys.shards
            )
    else:
        shard = ctx.shard(wanted.uid)
        lists, most = [(shard, shard.ended_of(wanted.uid))], MAX_ENDED
        part, unwritten = yield from _waiting_ends(ctx, shard, wanted.uid, wanted, behind)
        waiting.append(part)
    parts = [
        ZsetPart(s, key, behind, wanted.since, wanted.before, meta=s.meta, most=most) for s, key in lists
    ]  # fmt: skip
    merge = MergedLists(ctx, [*waiting, *parts], size)
    looked_at: set[bytes] = set()

    def look(entries: list[Entry]) -> Op[list[_End | None]]:
        listed = [entry for entry in entries if entry.member not in unwritten]
        rows = (yield from _rows(ctx, listed)) if listed else []
        found = unwritten | {entry.member: row for entry, row in zip(listed, rows, strict=True)}
        ends = []
        for entry in entries:
            end = None if entry.member in looked_at else found[entry.member]
            looked_at.add(entry.member)
            ends.append(end if end is not None and wanted.matches(end) else None)
        return ends

    walked = yield from scan(merge, size, 1 if wanted.is_plain else 200, look)
    items = yield from _decode(ctx, walked.items)
    seen += len(items)
    is_end = walked.behind is None
    total = seen if is_end or not wanted.is_plain else max(seen, merge.total)
    cursor = None if is_end else make_cursor("ended", wanted.values, seen, walked.behind)
    return Page(
        items, cursor, total, is_end, walked.scanned, moment(merge.now),
        complete_since=complete_since(ctx, merge.now, (part.complete_from for part in parts)),
    )  # fmt: skip


def complete_since(ctx: Context, now: int, marks: Iterable[int]) -> datetime | None:
    """From when on all ends are there that should still be kept, given each shard's mark, ms; None: all are there."""
    latest, longest = max(marks, default=0), max(kept(ctx.settings).values())
    return moment(latest) if latest > now - longest * 1000 else None


def _waiting_ends(
    ctx: Context, shard: Shard, uid: str, wanted: _EndFilter, behind: list[str] | None
) -> Op[tuple[MergePart, dict[bytes, _End]]]:
    """The ends of a user's sessions that wait for a sweep, because of their deadline or of ``revoke_before``: in the
    places that they will have in the list of ends; and by ref."""
    [reply] = yield [read_call(ctx, shard, uid)]
    keep, ends = kept(ctx.settings), dict[bytes, _End]()
    part = MergePart()
    for found in found_rows(uid, reply):
        row = _with_reason(found.row)
        _, at = login_and_deadline(row) or (0, None)
        at = stored_number(row.at) if row.at else at
        if found.state != ENDED or at is None or not keep.get((row.end_reason or b"").decode("ascii", "replace")):
            continue
        if (wanted.since is None or at >= wanted.since) and (wanted.before is None or at < wanted.before):
            entry = Entry(shard, b"%d" % at, f"{uid}:{found.session_id}".encode())
            ends[entry.member] = _End(shard, uid, found.session_id, row)
            part.items.append(((at, entry.member), entry))
    part.total = len(part.items)
    if behind is not None:
        last = whole(behind[0].encode()), behind[1].encode("utf-8", "surrogateescape")
        part.items = [item for item in part.items if item[0] < last]
    part.items.sort(reverse=True)
    part.done = True
    return part, ends


def _rows(ctx: Context, entries: list[Entry]) -> Op[list[_End | None]]:
    """The tombstones of these entries; None for an entry whose tombstone has expired."""
    replies = yield [
        command(entry.shard.tag, "HMGET", entry.shard.record_prefix.encode() + entry.member, *LETTERS, lenient=True)
        for entry in entries
    ]
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
        at = stored_number(end.row.at) if end.row.at else None
        if at in (None, whole(entries[place].score)):  # else ``revoke_before`` ended it, and this is its deadline
            out[place] = end
    return out


def _pending_ends(ctx: Context, pending: dict[tuple[Shard, str], dict[str, int]]) -> Op[list[tuple[_End, int]]]:
    """The ends of sessions whose tombstone is still to be written, by `closing` or their deadline, and their places."""
    if not pending:
        return []
    replies = yield [read_call(ctx, shard, uid, sids) for (shard, uid), sids in pending.items()]
    return [
        (_End(shard, uid, found.session_id, _with_reason(found.row)), places[found.session_id])
        for ((shard, uid), places), reply in zip(pending.items(), replies, strict=True)
        for found in found_rows(uid, reply)
        if found.state == ENDED
    ]


def _with_reason(row: SessionRow) -> SessionRow:
    """The row of an ended session: without an end of its own, it is past its deadline."""
    return row if row.end_reason else row._replace(end_reason=b"expired")


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


def check_refs(refs: object) -> list[tuple[str, str]]:
    """uid and session id of each ref, each once: at most ``MAX_REFS`` items."""
    if isinstance(refs, str | bytes) or not isinstance(refs, Iterable):
        raise InvalidArgument("refs", "must be a list of refs", "wrong_type")
    pairs: dict[tuple[str, str], None] = {}
    for place, ref in enumerate(refs):
        if place == MAX_REFS:
            raise InvalidArgument("refs", f"must be at most {MAX_REFS} refs", "too_many")
        pairs[check.ref(ref)] = None
    return list(pairs)


@checked_first
def sessions_among(ctx: Context, refs: object) -> Op[dict[str, Session | Ended]]:
    pairs = check_refs(refs)
    yield CHECKED
    return (yield from sessions_of_refs(ctx, pairs))


def sessions_of_refs(ctx: Context, pairs: Iterable[tuple[str, str]]) -> Op[dict[str, Session | Ended]]:
    """``sessions_among`` for uids and session ids."""
    by_user: dict[str, list[str]] = {}
    for uid, session_id in pairs:
        by_user.setdefault(uid, []).append(session_id)
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


class SessionCheck(NamedTuple):
    """Whether requests of a session pass now."""

    seconds_left: float  #: until its deadline, unless it is seen before
    failed: ValidationFailed | None  #: why they do not pass


def check_sessions(ctx: Context, pairs: Sequence[Pair]) -> Op[list[SessionCheck]]:
    """Check sessions as a request would, but none of them counts as seen. Cost: one round trip; two more if some have
    ended, and one for each whose visitor must sign in again."""
    shards = [ctx.shard(uid) for uid, _ in pairs]
    raw = yield [
        validate_call(ctx, shard, uid, sid, b"", False, RequestSource(), "")
        for shard, (uid, sid) in zip(shards, pairs, strict=True)
    ]
    replies = [VALIDATE.reply(reply) for reply in raw]
    ends = {
        place: _End(shards[place], *pairs[place], reply.row)
        for place, reply in enumerate(replies)
        if reply.state == ENDED
    }
    ended = dict(zip(ends, (yield from _decode(ctx, list(ends.values()))), strict=True))
    overdue = [(shards[place], pairs[place]) for place in ends if replies[place].is_overdue]
    yield from settle_stale_of_shards(ctx, overdue)
    checks = []
    for place, reply in enumerate(replies):
        if reply.state == LIVE:
            _, deadline = login_and_deadline(reply.row) or (0, reply.now)
            checks.append(SessionCheck((deadline - reply.now) / 1000, None))
        elif place in ended:
            checks.append(SessionCheck(0, _failed(ended[place])))
        else:
            validation = yield from judge(ctx, shards[place], *pairs[place], reply)
            checks.append(SessionCheck(0, validation if isinstance(validation, ValidationFailed) else None))
    return checks


def _failed(end: Ended) -> ValidationFailed:
    return ValidationFailed(lambda: end)
