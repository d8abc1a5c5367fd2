"""A bulk job begins: its filter is frozen, its matches are counted, and the job is written."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument, Unavailable
from presence_core.filters import SessionFilter
from presence_core.models import AuditFact, Job, KickPreview, MatchedPerson, moment, write_facts
from presence_core.operations.bulk_kick.jobs import KEEP, NOT_BEFORE, corrupt_job, read_job
from presence_core.operations.context import Context, found_rows
from presence_core.operations.permissions import BULK_KICK_NEEDS, require
from presence_core.operations.search import list_sessions
from presence_core.operations.sessions.read import latest, read_call
from presence_core.schema.conditions import MATCHED_FIELDS, MatchedField
from presence_core.scripts.bulk_kick import CREATE_JOB
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first
from presence_core.scripts.sessions import LIVE, RAISE_LOGIN_FLOOR
from presence_core.settings import DAY

MAX_LISTED: Final = 1_000
MAX_EXCLUDED: Final = 10_000
MAX_PEOPLE: Final = 100

MAX_PREVIEWED: Final = 200
"""Sessions that a preview reads to name their people."""

MAX_DELAY: Final = DAY

READ_AT_ONCE: Final = 500
"""Excluded sessions that one pipeline reads."""

KICK_ALL: Final = "use revoke_before to sign out everyone"

Excluded = dict[str, list[str]]
"""uid → session ids"""


@checked_first
def preview_kick(ctx: Context, filter: object, exclude: object) -> Op[KickPreview]:
    wanted, excluded = check_filter(filter, KICK_ALL), _check_excluded(exclude)
    yield CHECKED
    frozen, now = yield from freeze(ctx, wanted, writes=False)
    total = yield from count_matches(ctx, frozen, now, excluded)
    people = (yield from _matched_people(ctx, frozen, excluded)) if total else ()
    return KickPreview(frozen, total, moment(now), people)


@checked_first
def start(
    ctx: Context,
    filter: object,
    *,
    by: object,
    reason: object,
    expected: object,
    exclude: object,
    message: object,
    ticket: object,
    pace: object,
    delay: object,
    token: str = "",
) -> Op[Job]:
    """Write a job. delay: seconds in which no session is ended. token: the runner that claims it from the start;
    without one, it waits for a worker."""
    wanted = check_filter(filter, KICK_ALL)
    actor, note = check.actor(by), check.prose("reason", reason)
    limit = check.whole("expected", expected, 0, 1_000_000_000)
    excluded = _check_excluded(exclude)
    public = check.optional_prose("message", message)
    case = check.short("ticket", ticket, 64) or ""
    speed = "" if pace is None else check.whole("pace", pace, 1, 100_000)
    wait = 0 if delay is None else check.whole("delay", delay, 0, MAX_DELAY)
    yield CHECKED
    if token:  # this process is going to end the sessions; else a worker does, which may be another user
        yield from require(ctx.keys.shards, BULK_KICK_NEEDS)
    frozen, now = yield from freeze(ctx, wanted, writes=True)
    total = yield from count_matches(ctx, frozen, now, excluded)
    check_expected(total, limit)
    refs = json.dumps([f"{uid}:{sid}" for uid, sids in excluded.items() for sid in sids], ensure_ascii=False)
    fields: dict[str, str | int] = {
        "filter": frozen.to_json(), "frozen": now, "exclude": refs, "total": total, "expected": limit,
        "pace": speed, "needs": " ".join([*frozen.needs, *([NOT_BEFORE] if wait else [])]),
    }  # fmt: skip
    job_id = ctx.new_id()
    fact = AuditFact("job_started", {"job": job_id, "count": total, "most": limit})
    return (
        yield from write_job(ctx, job_id, fields, [fact], token=token, by=actor, reason=note, message=public,
                             ticket=case, delay=wait * 1000, kind="", audit_filter="")
    )  # fmt: skip


def write_job(
    ctx: Context, job_id: str, fields: Mapping[str, str | int], facts: Iterable[AuditFact], **words: str | int
) -> Op[Job]:
    """Write a job with its audit entry, and read it. words: what CREATE_JOB takes by name."""
    shard = ctx.keys.shards[0]
    yield [
        call_of(CREATE_JOB, (shard.job(job_id), shard.jobs, shard.running, shard.audit),
                *(word for pair in fields.items() for word in pair),
                given_now=ctx.now, audit_cap=ctx.audit_cap, id=job_id, keep=KEEP, most_listed=MAX_LISTED,
                facts=write_facts(*facts), **words)
    ]  # fmt: skip
    job = yield from read_job(ctx, job_id)
    if job is None:
        raise corrupt_job(ctx, job_id)
    return job


def check_filter(value: object, for_all: str) -> SessionFilter:
    """The filter, which must not match all sessions. for_all: what to do for all of them."""
    if value is not None and not isinstance(value, SessionFilter):
        raise InvalidArgument("filter", "must be a SessionFilter", "wrong_type")
    if value is None or not value.given:
        raise InvalidArgument("filter", f"must have at least one field: {for_all}", "required")
    return value


def _check_excluded(value: object) -> Excluded:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument("exclude", "must be a list of refs", "wrong_type")
    refs = list(islice(value, MAX_EXCLUDED + 1))
    if len(refs) > MAX_EXCLUDED:
        raise InvalidArgument("exclude", f"must be at most {MAX_EXCLUDED} refs", "too_many")
    excluded: Excluded = {}
    for uid, sid in dict.fromkeys(check.ref(ref) for ref in refs):
        excluded.setdefault(uid, []).append(sid)
    return excluded


def freeze(ctx: Context, wanted: SessionFilter, *, writes: bool) -> Op[tuple[SessionFilter, int]]:
    """The filter limited to sessions that have begun by now, and the time.

    The earliest clock of the shards decides what "now" is. A login time may still be this very millisecond or ahead of
    the clock, so the limit is above the newest login of every shard. A shard whose clock is behind the limit must begin
    no session before it: such shards get a login floor. A preview (not ``writes``) sets the floor only if it may write.
    """
    latest_logins = yield from latest(ctx)
    now = min(login.now for login in latest_logins)
    before = max(now, *(login.newest + 1 for login in latest_logins))
    if wanted.after is not None and wanted.after >= before:
        raise InvalidArgument(
            "logged_in_after",
            "must lie in the past: it reaches only sessions that have begun",
            "in_the_future",
        )
    if wanted.before is None or wanted.before > before:
        wanted = dataclasses.replace(wanted, logged_in_before=moment(before))
    assert wanted.before is not None
    floors = [
        call_of(RAISE_LOGIN_FLOOR, (shard.meta,), wanted.before)
        for shard, login in zip(ctx.keys.shards, latest_logins, strict=True)
        if login.now < wanted.before
    ]
    if floors and writes:
        yield floors
    elif floors and ctx.settings.heal:
        with contextlib.suppress(Unavailable):
            yield floors
    return wanted, now


def _matched_people(ctx: Context, frozen: SessionFilter, excluded: Excluded) -> Op[tuple[MatchedPerson, ...]]:
    """The people of the newest matching sessions, and by which fields each of them matched."""
    page = yield from list_sessions.list_sessions(ctx, frozen, MAX_PREVIEWED, None)
    sessions = [session for session in page.items if session.session_id not in excluded.get(session.uid, ())]
    names: dict[str, str | None] = {}
    fields: dict[str, set[MatchedField]] = {}
    for session in sessions:
        names[session.uid] = names.get(session.uid) or session.name
        fields.setdefault(session.uid, set()).update(frozen.matched_by(session))
    return tuple(
        MatchedPerson(uid, names[uid], tuple(field for field in MATCHED_FIELDS if field in found))
        for uid, found in islice(fields.items(), MAX_PEOPLE)
    )


def check_expected(total: int, limit: int) -> None:
    if total > limit:
        raise InvalidArgument(
            "expected",
            f"must be at least {total:,}: that many sessions match now, and {limit:,} were expected",
            "more_match",
        )


def count_matches(ctx: Context, frozen: SessionFilter, now: int, excluded: Excluded) -> Op[int]:
    """How many sessions match, without the excluded ones."""
    total = yield from list_sessions.count_sessions(ctx, frozen)
    reads = [
        (uid, sids[first : first + READ_AT_ONCE])
        for uid, sids in excluded.items()
        for first in range(0, len(sids), READ_AT_ONCE)
    ]  # fmt: skip
    for first in range(0, len(reads), READ_AT_ONCE):
        batch = reads[first : first + READ_AT_ONCE]
        replies = yield [read_call(ctx, ctx.shard(uid), uid, sids) for uid, sids in batch]
        for (uid, _), reply in zip(batch, replies, strict=True):
            live = (found.session() for found in found_rows(uid, reply) if found.state == LIVE)
            total -= sum(frozen.matches(session, now) for session in live)
    return max(0, total)
