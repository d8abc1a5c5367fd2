"""Bulk kicks as jobs: the question is frozen, counted and written down; staff look at them and steer them.

A job lives on the first shard, beside the audit, so that each change and its record are one step. What it has ended is
counted on every shard by the script that ends it. ``running.py`` does the work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.filters import SessionFilter
from presence_core.models import JOB_FIELDS, Job, KickPreview, Page, moment, text
from presence_core.operations import listing
from presence_core.operations.context import LIVE, Context, found_rows
from presence_core.operations.newest import Entry, Newest, Ranked, is_ranked, make_cursor, read_cursor, walk
from presence_core.operations.reading import latest, read_call
from presence_core.scripts import BULK, CLOSE, FENCE, FLOOR, STEER, Call, Op, command, run

KEEP: Final = 30 * check.DAY
"""Seconds that a job is kept when nobody touches it any more."""

MOST_LISTED: Final = 1_000
MOST_EXCLUDED: Final = 10_000

AT_ONCE: Final = 500
"""Sessions to be spared that are read in one pipeline."""

Excluded = dict[str, list[str]]
"""uid → session ids"""


# -- the question -----------------------------------------------------------------------------------------------------


def _asked(value: object) -> SessionFilter:
    if value is not None and not isinstance(value, SessionFilter):
        raise InvalidArgument("filter", "must be a SessionFilter")
    if value is None or not value.given:
        raise InvalidArgument("filter", "must ask for something: to sign everybody out there is revoke_before")
    return value


def _excluded(value: object) -> Excluded:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument("exclude", "must be a list of refs")
    refs = list(islice(value, MOST_EXCLUDED + 1))
    if len(refs) > MOST_EXCLUDED:
        raise InvalidArgument("exclude", f"must be at most {MOST_EXCLUDED} refs")
    out: Excluded = {}
    for uid, sid in dict.fromkeys(check.ref(one) for one in refs):
        out.setdefault(uid, []).append(sid)
    return out


def _freeze(ctx: Context, asked: SessionFilter, *, writes: bool) -> Op[tuple[SessionFilter, int]]:
    """The question as of now: every session that is there, and none that begins from here on.

    The earliest of the shards' clocks counts, but no session that is there is spared: login times may be of this very
    millisecond, or ahead of the clock. Shards whose clock is behind that are told to begin no session before it;
    a preview (not ``writes``) does so if it may.
    """
    edges = yield from latest(ctx)
    now = min(one.now for one in edges)
    before = max(now, *(one.newest + 1 for one in edges))
    if asked.after is not None and asked.after >= before:
        raise InvalidArgument("logged_in_after", "must lie in the past: a bulk kick ends only what began before it")
    if asked.before is None or asked.before > before:
        asked = dataclasses.replace(asked, logged_in_before=moment(before))
    assert asked.before is not None
    calls = [run(FLOOR, (s.meta,), asked.before) for s, one in zip(ctx.keys.shards, edges, strict=True)
             if one.now < asked.before]  # fmt: skip
    if calls and writes:
        yield calls
    elif calls and ctx.settings.heal:
        with contextlib.suppress(Unavailable):
            yield calls
    return asked, now


def _count(ctx: Context, frozen: SessionFilter, now: int, exclude: Excluded) -> Op[int]:
    """How many match, without those to be spared."""
    total = yield from listing.count_sessions(ctx, frozen)
    parts = [
        (uid, sids[first : first + AT_ONCE])
        for uid, sids in exclude.items()
        for first in range(0, len(sids), AT_ONCE)
    ]  # fmt: skip
    for first in range(0, len(parts), AT_ONCE):
        part = parts[first : first + AT_ONCE]
        replies = yield [read_call(ctx, ctx.shard(uid), uid, sids) for uid, sids in part]
        for (uid, _), reply in zip(part, replies, strict=True):
            live = (one.session() for one in found_rows(uid, reply) if one.state == LIVE)
            total -= sum(frozen.matches(one, now) for one in live)
    return max(0, total)


def preview_kick(ctx: Context, asked: object, exclude: object) -> Op[KickPreview]:
    wanted, spared = _asked(asked), _excluded(exclude)

    def steps() -> Op[KickPreview]:
        frozen, now = yield from _freeze(ctx, wanted, writes=False)
        total = yield from _count(ctx, frozen, now, spared)
        return KickPreview(frozen, total, moment(now))

    return steps()


# -- the job ----------------------------------------------------------------------------------------------------------


def start(
    ctx: Context,
    asked: object,
    by: object,
    reason: object,
    expected: object,
    exclude: object,
    message: object,
    ticket: object,
    pace: object,
    token: str = "",
) -> Op[Job]:
    """``token``: of who is going to run it; without one it waits for a worker."""
    wanted = _asked(asked)
    who, why, most = check.actor(by), check.prose("reason", reason), check.whole("expected", expected, 0, 1_000_000_000)
    spared = _excluded(exclude)
    public = "" if message is None else check.prose("message", message)
    case = check.short("ticket", ticket, 64) or ""
    speed = "" if pace is None else check.whole("pace", pace, 1, 100_000)

    def steps() -> Op[Job]:
        frozen, now = yield from _freeze(ctx, wanted, writes=True)
        total = yield from _count(ctx, frozen, now, spared)
        if total > most:
            raise InvalidArgument(
                "expected", f"must be at least {total:,}: that many sessions match now, and {most:,} were expected"
            )
        s, job_id = ctx.keys.shards[0], ctx.new_id()
        refs = json.dumps([f"{uid}:{sid}" for uid, sids in spared.items() for sid in sids], ensure_ascii=False)
        fields: dict[str, str | int] = {
            "filter": frozen.to_json(), "frozen": now, "exclude": refs, "total": total, "expected": most, "pace": speed,
        }  # fmt: skip
        said = f"job {job_id}: {total:,} {_sessions(total)} match, at most {most:,} may be ended"
        yield [
            run(BULK, (s.job(job_id), s.jobs, s.running, s.audit), ctx.now, ctx.audit_cap, job_id, KEEP, MOST_LISTED,
                token, who, why, public, case, said, *(word for pair in fields.items() for word in pair))
        ]  # fmt: skip
        made = yield from _read(ctx, job_id)
        if made is None:
            raise lost(ctx, job_id)
        return made

    return steps()


def _sessions(number: int) -> str:
    return "session" if number == 1 else "sessions"


def ended(number: int) -> str:
    """ "1,234 sessions ended" """
    return f"{number:,} {_sessions(number)} ended"


def lost(ctx: Context, job_id: str) -> CorruptData:
    key = ctx.keys.shards[0].job(job_id)
    return CorruptData(
        f"Job {job_id} cannot go on: {key} is gone, or holds what presence_core never wrote. What it has ended stays "
        "ended."
    )


def counted(ctx: Context, job_id: str) -> list[Call]:
    """Ask every shard what this job has ended there."""
    return [command(key, "HGET", key, "kicked", lenient=True) for key in (s.job(job_id) for s in ctx.keys.shards)]


def fence(ctx: Context, job_id: str, epoch: int) -> list[Call]:
    """Let no shard end anybody any more for a runner of an earlier epoch; each answers as fence.lua says."""
    calls = [run(FENCE, (s.job(job_id),), epoch) for s in ctx.keys.shards]
    for call in calls:
        call.lenient = True  # where the key is another program's, finish.lua ends nobody anyway
    return calls


def stopped(ctx: Context, job_id: str, epoch: int, *, cancelled: bool) -> Op[int]:
    """Stop all runners of a job that staff have paused or cancelled; answers how many it has ended, which is final then
    (of one that is paused: until it goes on). The audit has that of one that is cancelled, once."""
    number = total_of(reply[1] for reply in (yield fence(ctx, job_id, epoch)) if reply)
    if cancelled:
        s = ctx.keys.shards[0]
        said = f"job {job_id}: {ended(number)}, then it was cancelled"
        keys = (s.job(job_id), s.running, s.audit)
        yield [run(CLOSE, keys, ctx.now, ctx.audit_cap, job_id, "", "cancelled", "", said, KEEP, "")]
    return number


def total_of(counts: Iterable[Any]) -> int:
    return sum(int(raw) for raw in counts if raw and raw.isdigit() and len(raw) < 16)


def decode(job_id: str, row: list[bytes | None] | None, kicked: int) -> Job | None:
    """A job, or None where there is none or where its question is not one that we have written."""
    if not row or row[0] is None:
        return None
    try:
        asked = SessionFilter.from_json(text(row[JOB_FIELDS.index("filter")] or b""))
        if asked.before is None:
            return None  # never without what keeps those who log in later out of it
        asked = dataclasses.replace(asked, logged_in_before=moment(asked.before))
        return Job.from_reply(job_id, row[: len(JOB_FIELDS)], asked, kicked)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _read(ctx: Context, job_id: str) -> Op[Job | None]:
    key = ctx.keys.shards[0].job(job_id)
    row, *counts = yield [command(key, "HMGET", key, *JOB_FIELDS, lenient=True), *counted(ctx, job_id)]
    return decode(job_id, row, total_of(counts))


def job(ctx: Context, job_id: object) -> Op[Job | None]:
    known = check.session_id(job_id, "job_id")

    def steps() -> Op[Job | None]:
        return (yield from _read(ctx, known))

    return steps()


def jobs(ctx: Context, limit: object, cursor: object) -> Op[Page[Job]]:
    most = check.whole("limit", limit, 1, 1000)
    seen, behind = read_cursor(cursor, "jobs", None, is_ranked)
    return _jobs(ctx, most, seen, behind)


def _jobs(ctx: Context, limit: int, seen: int, behind: list[str] | None) -> Op[Page[Job]]:
    s = ctx.keys.shards[0]
    merge = Newest(ctx, [Ranked(s, s.jobs, behind, None, None)], limit)
    gone: list[bytes] = []

    def look(entries: list[Entry]) -> Op[list[Job | None]]:
        ids = [_id(entry.member) for entry in entries]
        rows = iter((yield [call for one in ids if one for call in _look_at(ctx, one)]))
        out: list[Job | None] = []
        for entry, one in zip(entries, ids, strict=True):
            row = next(rows) if one else None
            counts = list(islice(rows, len(ctx.keys.shards) if one else 0))
            if one and row and row[0] is None:
                gone.append(entry.member)
            out.append(decode(one, row, total_of(counts)))
        return out

    walked = yield from walk(merge, limit, 1, look)
    if gone and ctx.settings.heal:
        with contextlib.suppress(Unavailable, CorruptData):
            yield [Call(s.jobs, ("ZREM", s.jobs, *gone), True)]
    seen += len(walked.items)
    is_end = walked.behind is None
    next_cursor = None if is_end else make_cursor("jobs", None, seen, walked.behind)
    total = seen if is_end else merge.total - len(gone)
    return Page(walked.items, next_cursor, total, is_end, walked.scanned, moment(merge.now))


def _look_at(ctx: Context, job_id: str) -> list[Call]:
    key = ctx.keys.shards[0].job(job_id)
    return [command(key, "HMGET", key, *JOB_FIELDS, lenient=True), *counted(ctx, job_id)]


def _id(member: bytes) -> str:
    """The id of a job as it stands in a list; "" for what another program put there."""
    with contextlib.suppress(ValueError):
        return check.session_id(member.decode())
    return ""


def running(ctx: Context) -> Op[list[str]]:
    """The jobs that somebody ought to be at work on."""
    key = ctx.keys.shards[0].running
    [members] = yield [command(key, "SMEMBERS", key)]
    return sorted(one for one in map(_id, members) if one)


# -- pause, resume, cancel --------------------------------------------------------------------------------------------


def steer(ctx: Context, act: str, job_id: object, by: object) -> Op[Job]:
    known, who = check.session_id(job_id, "job_id"), check.actor(by)

    def steps() -> Op[Job]:
        s = ctx.keys.shards[0]
        before = yield from _read(ctx, known)
        if before is None:
            raise InvalidArgument("job_id", "must be of a job that is known: this one is not, or no longer")
        # How many it has ended is known only when its runners have been stopped: `close` says that.
        said = f"job {known}: " + {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[act]
        [(code, state, epoch)] = yield [
            run(STEER, (s.job(known), s.running, s.audit), ctx.now, ctx.audit_cap, known, act, who, said, KEEP)
        ]
        if code < 0:
            raise InvalidArgument("job_id", f"must be of a job that is not over: this one is {text(state)}")
        if act != "resume":  # also where it was so already: another's call may have broken off before this
            yield from stopped(ctx, known, epoch, cancelled=act == "cancel")
        after = yield from _read(ctx, known)
        if after is None:
            raise lost(ctx, known)
        return after

    return steps()
