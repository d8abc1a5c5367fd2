"""A bulk change of timeouts: its preview, the job, and a batch of its runner.

What a batch does to a session does not depend on what was done before, so a runner that repeats one changes no session
twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, NamedTuple

from presence_core import validation as check
from presence_core.filters import SessionFilter
from presence_core.models import AuditFact, Job, Session, TimeoutsChange, TimeoutsPreview, login_ms, moment
from presence_core.models.staff import is_changed, is_longer, predict
from presence_core.operations.bulk_kick.creation import check_expected, check_filter, count_matches, freeze, write_job
from presence_core.operations.bulk_kick.jobs import TIMEOUTS, kicked_calls, total_kicked
from presence_core.operations.context import Context, FoundSession, found_rows
from presence_core.operations.durability.held_changes import Replicas, read_confirmations, wait_calls
from presence_core.operations.permissions import BULK_TIMEOUTS_NEEDS, require
from presence_core.operations.search import list_sessions
from presence_core.operations.sessions.read import read_call
from presence_core.operations.sessions.settle import settle_stale_of_shards
from presence_core.operations.staff.timeouts import (
    TimeoutsRequest,
    check_only_shorten,
    check_timeouts,
    hold_timeouts,
)
from presence_core.scripts.calls import CHECKED, Call, Op, checked_first
from presence_core.scripts.sessions import LIVE
from presence_core.scripts.staff import CHANGE_TIMEOUTS

MAX_PREVIEWED: Final = 10_000
"""Sessions that a preview reads, at most."""

NO_CHANGE: Final = TimeoutsChange(SessionFilter(), 0)
"""Nothing has been done yet."""

_FOR_ALL: Final = "logged_in_before with the present time matches all"


@checked_first
def preview(ctx: Context, filter: object, idle_timeout: object, absolute_timeout: object) -> Op[TimeoutsPreview]:
    wanted = check_filter(filter, _FOR_ALL)
    idle, absolute = map(_seconds, check_timeouts(idle_timeout, absolute_timeout))
    yield CHECKED
    frozen, now = yield from freeze(ctx, wanted, writes=False)
    total = yield from count_matches(ctx, frozen, now, {})
    read = shortened = lengthened = ended = 0
    cursor = None
    while read < MAX_PREVIEWED:
        page = yield from list_sessions.list_sessions(ctx, frozen, min(1000, MAX_PREVIEWED - read), cursor)
        for before in page.items:
            after = predict(before, idle, absolute, ctx.settings.on_behalf_timeout)
            lengthened += is_longer(before, after)
            shortened += is_changed(before, after) and not is_longer(before, after)
            ended += after.expires_at <= page.as_of
        read += len(page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    return TimeoutsPreview(frozen, max(total, read), moment(now), read, shortened, lengthened, ended)


@checked_first
def start(
    ctx: Context,
    filter: object,
    *,
    idle_timeout: object,
    absolute_timeout: object,
    by: object,
    reason: object,
    expected: object,
    only_shorten: object,
    ticket: object,
    pace: object,
    token: str = "",
) -> Op[Job]:
    """Write a job. token: the runner that claims it from the start; without one, it waits for a worker."""
    wanted = check_filter(filter, _FOR_ALL)
    idle, absolute = check_timeouts(idle_timeout, absolute_timeout)
    actor, note = check.actor(by), check.prose("reason", reason)
    limit = check.whole("expected", expected, 0, 1_000_000_000)
    shortens = check_only_shorten(only_shorten)
    case = check.short("ticket", ticket, 64) or ""
    speed = "" if pace is None else check.whole("pace", pace, 1, 100_000)
    yield CHECKED
    if token:
        yield from require(ctx.keys.shards, BULK_TIMEOUTS_NEEDS)
    frozen, now = yield from freeze(ctx, wanted, writes=True)
    total = yield from count_matches(ctx, frozen, now, {})
    check_expected(total, limit)
    job_id = ctx.new_id()
    fields: dict[str, str | int] = {
        "filter": frozen.to_json(), "frozen": now, "exclude": "[]", "total": total, "expected": limit, "pace": speed,
        "idle_timeout": idle, "absolute_timeout": absolute, "only_shorten": int(shortens),
        "needs": " ".join([*frozen.needs, TIMEOUTS]),
    }  # fmt: skip
    given = (("idle_timeout", idle), ("absolute_timeout", absolute))
    facts = [
        AuditFact("timeouts_started", {"job": job_id, "count": total, "most": limit}),
        *(AuditFact(code, {"seconds": seconds}) for code, seconds in given if seconds),
        *([AuditFact("only_shorter")] if shortens else []),
    ]
    return (
        yield from write_job(ctx, job_id, fields, facts, token=token, by=actor, reason=note, message="", ticket=case,
                             delay=0, kind=TIMEOUTS, audit_filter=frozen.to_json())
    )  # fmt: skip


def is_due(ctx: Context, job: Job, session: Session) -> bool:
    """Whether the job would change a timeout of this session."""
    after = predict(session, job.idle_timeout, job.absolute_timeout, ctx.settings.on_behalf_timeout)
    return is_changed(session, after)


class ChangedBatch(NamedTuple):
    """What a batch has changed."""

    change: TimeoutsChange  #: with the figures of this batch added
    replicas: Replicas
    kicked: int  #: sessions that the job has changed in all
    is_fenced: bool  #: the job was paused, cancelled or claimed by another runner


def change_batch(
    ctx: Context, job: Job, epoch: int, change: TimeoutsChange, sessions: Sequence[Session]
) -> Op[ChangedBatch]:
    """Change those of these sessions that have other timeouts, and have not ended since they were read."""
    assert job.filter.before is not None
    request = TimeoutsRequest("", "", job.idle_timeout or "", job.absolute_timeout or "", job.by, job.reason,
                              job.only_shorten, job_id=job.id, epoch=epoch, before=job.filter.before)  # fmt: skip
    due = [session for session in sessions if is_due(ctx, job, session)]
    found = (yield from _read(ctx, due)) if due else {}
    live = [session for session in due if session.ref in found]
    shards = [ctx.shard(session.uid) for session in live]
    calls = [_call(ctx, request, found[session.ref]) for session in live]
    waits = wait_calls(ctx, shards)
    replies = yield [*calls, *kicked_calls(ctx, job.id), *waits]
    replicas = read_confirmations(ctx, shards, replies)
    kicked = total_kicked(replies[len(calls) : len(replies) - len(waits)])
    counts = dict.fromkeys(("shortened", "lengthened", "ended", "skipped"), 0)
    ended, is_fenced = [], False
    for before, raw in zip(live, replies, strict=False):
        reply = CHANGE_TIMEOUTS.reply(raw)
        is_fenced = is_fenced or reply.is_fenced
        counts["skipped"] += bool(reply.longer)
        for _, seen, core in reply.changed:
            row = found[before.ref].row._replace(seen=seen, core=core)
            after = dataclasses.replace(found[before.ref], row=row).session()
            hold_timeouts(ctx, replicas, request, found[before.ref].session(), after)
            counts["lengthened"] += is_longer(before, after)
            counts["shortened"] += is_changed(before, after) and not is_longer(before, after)
            if after.expires_at <= moment(reply.now):
                ended.append((ctx.shard(before.uid), (before.uid, before.session_id)))
    counts["ended"] = len(ended)
    sums = {name: getattr(change, name) + count for name, count in counts.items()}
    change = dataclasses.replace(change, matched=change.matched + len(sessions), **sums)
    yield from settle_stale_of_shards(ctx, ended)
    return ChangedBatch(change, replicas, kicked, is_fenced)


def _read(ctx: Context, sessions: Sequence[Session]) -> Op[dict[str, FoundSession]]:
    """Those of them that are live, by ref: the script must declare the texts that a record names."""
    logins = {session.ref: login_ms(session) for session in sessions}
    by_user: dict[str, list[str]] = {}
    for session in sessions:
        by_user.setdefault(session.uid, []).append(session.session_id)
    replies = yield [read_call(ctx, ctx.shard(uid), uid, session_ids) for uid, session_ids in by_user.items()]
    found = (row for uid, reply in zip(by_user, replies, strict=True) for row in found_rows(uid, reply))
    live = {f"{row.uid}:{row.session_id}": row for row in found if row.state == LIVE}
    return {ref: row for ref, row in live.items() if login_ms(row.session()) == logins[ref]}


def _call(ctx: Context, request: TimeoutsRequest, found: FoundSession) -> Call:
    call = dataclasses.replace(request, uid=found.uid).call(ctx, [found])
    call.repeatable = True  # a second time it changes and counts nothing more
    return call


def _seconds(given: int | str) -> int | None:
    return given if isinstance(given, int) else None
