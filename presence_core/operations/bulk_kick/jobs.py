"""Jobs as they are stored: read one, list them, and the calls that creation, runner and states share.

A job is a HASH on the first shard, where the audit is too, so that a change and its audit entry are one step. Every
shard counts the sessions that the job has ended there, in the script that ends them.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import CorruptData, Unavailable
from presence_core.filters import SessionFilter
from presence_core.models import JOB_FIELDS, AuditFact, Job, Page, moment, text
from presence_core.operations.context import Context
from presence_core.operations.cursors import make_cursor, read_cursor
from presence_core.operations.merged_lists import Entry, MergedLists, ZsetPart, is_zset_position, scan
from presence_core.scripts.bulk_kick import RAISE_JOB_FENCE, JobFence, count
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command
from presence_core.settings import DAY

KEEP: Final = 30 * DAY
"""Seconds that a job is kept after its last change."""

NOT_BEFORE: Final = "not_before"
TIMEOUTS: Final = "timeouts"

KNOWN_NEEDS: Final = (
    f" {' '.join([*(field.name for field in dataclasses.fields(SessionFilter)), NOT_BEFORE, TIMEOUTS])} "
)
"""What a job may need of its runner, each between spaces. A job with another need is left to a newer process."""


def job(ctx: Context, job_id: object) -> Op[Job | None]:
    return read_job(ctx, check.session_id(job_id, "job_id"))


def read_job(ctx: Context, job_id: str) -> Op[Job | None]:
    return decode_job(job_id, (yield job_calls(ctx, job_id)))


@checked_first
def jobs(ctx: Context, limit: object, cursor: object) -> Op[Page[Job]]:
    size = check.whole("limit", limit, 1, 1000)
    seen, behind = read_cursor(cursor, "jobs", None, is_zset_position)
    yield CHECKED
    shard = ctx.keys.shards[0]
    merge = MergedLists(ctx, [ZsetPart(shard, shard.jobs, behind, None, None)], size)
    stale: list[bytes] = []

    def read_jobs(entries: list[Entry]) -> Op[list[Job | None]]:
        ids = [_id_of(entry.member) for entry in entries]
        replies = iter((yield [call for job_id in ids if job_id for call in job_calls(ctx, job_id)]))
        found: list[Job | None] = []
        for entry, job_id in zip(entries, ids, strict=True):
            if not job_id:
                found.append(None)
                continue
            row, *counts = (next(replies) for _ in job_calls(ctx, job_id))
            if row and _fields(row)["state"] is None:
                stale.append(entry.member)
            found.append(decode_job(job_id, [row, *counts]))
        return found

    walked = yield from scan(merge, size, 1, read_jobs)
    if stale and ctx.settings.heal:
        with contextlib.suppress(Unavailable, CorruptData):
            yield [command(shard.jobs, "ZREM", shard.jobs, *stale)]
    seen += len(walked.items)
    is_last = walked.behind is None
    next_cursor = None if is_last else make_cursor("jobs", None, seen, walked.behind)
    total = seen if is_last else merge.total - len(stale)
    return Page(walked.items, next_cursor, total, is_last, walked.scanned, moment(merge.now))


def running(ctx: Context) -> Op[list[str]]:
    """Ids of the jobs that a runner should work on."""
    key = ctx.keys.shards[0].running
    [members] = yield [command(key, "SMEMBERS", key)]
    return sorted(job_id for job_id in map(_id_of, members) if job_id)


def _id_of(member: bytes) -> str:
    """The job id of a list's member; "" for a member that another program wrote."""
    with contextlib.suppress(ValueError):
        return check.session_id(member.decode())
    return ""


# -- calls and decoders -----------------------------------------------------------------------------------------------


def job_calls(ctx: Context, job_id: str, *more_fields: str) -> list[Call]:
    """Read a job: its fields on the first shard, then how many sessions it has ended on each shard."""
    key = ctx.keys.shards[0].job(job_id)
    return [command(key, "HMGET", key, *JOB_FIELDS, *more_fields, lenient=True), *kicked_calls(ctx, job_id)]


def kicked_calls(ctx: Context, job_id: str) -> list[Call]:
    """Ask every shard how many sessions this job has ended there."""
    keys = (shard.job(job_id) for shard in ctx.keys.shards)
    return [command(key, "HGET", key, "kicked", lenient=True) for key in keys]


def total_kicked(replies: Iterable[Any]) -> int:
    return sum(map(count, replies))


def raise_fences(ctx: Context, job_id: str, epoch: int) -> Op[list[JobFence]]:
    """Stop the runners of earlier epochs on every shard, and learn how many sessions the job has ended there."""
    calls = [call_of(RAISE_JOB_FENCE, (shard.job(job_id),), epoch) for shard in ctx.keys.shards]
    for call in calls:
        call.lenient = True  # where the key is another program's, bulk_kick/kick_sessions.lua ends no session anyway
    return [RAISE_JOB_FENCE.reply(reply) for reply in (yield calls)]


def decode_job(job_id: str, replies: Iterable[Any]) -> Job | None:
    """Decode the replies to ``job_calls``; None where there is no job, or where its filter is not one that we wrote."""
    row, *counts = replies
    if not row:
        return None
    stored = _fields(row)
    if stored["state"] is None:
        return None
    try:
        frozen = SessionFilter.from_json(text(stored["filter"] or b""))
        if frozen.before is None:
            return None  # a frozen filter always ends before the sessions that began later
        frozen = dataclasses.replace(frozen, logged_in_before=moment(frozen.before))
        return Job.from_reply(job_id, row[: len(JOB_FIELDS)], frozen, total_kicked(counts))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _fields(row: Sequence[bytes | None]) -> dict[str, bytes | None]:
    return dict(zip(JOB_FIELDS, row, strict=False))


def corrupt_job(ctx: Context, job_id: str) -> CorruptData:
    key = ctx.keys.shards[0].job(job_id)
    return CorruptData(
        f"Job {job_id} cannot go on: {key} is gone, or another program wrote to it. Sessions that it ended stay ended."
    )


def number_of_sessions(number: int) -> str:
    """ "1,234 sessions" """
    return f"{number:,} {'session' if number == 1 else 'sessions'}"


def ended_of(kicked: int, job_id: str, job: Job | None) -> AuditFact:
    """ "12 of 34 sessions ended": the figures of the audit, the same as ``Job.kicked`` and ``Job.total``."""
    if job is None:
        return AuditFact("job_lost", {"job": job_id, "count": kicked})
    code = "job_ended" if job.kind == "kick" else "job_changed"
    return AuditFact(code, {"job": job_id, "kicked": kicked, "count": job.total})
