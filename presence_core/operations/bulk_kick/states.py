"""Staff pause, resume and cancel a bulk kick."""

from __future__ import annotations

from typing import Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.models import AuditFact, Job, text, write_facts
from presence_core.operations.bulk_kick.jobs import KEEP, corrupt_job, ended_of, raise_fences, read_job
from presence_core.operations.context import Context
from presence_core.scripts.bulk_kick import CHANGE_JOB_STATE, CLOSE_JOB
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first

UNKNOWN_JOB: Final = "must be of a known job: jobs are kept for 30 days after their end"

_FACTS: Final = {"pause": "job_paused", "resume": "job_resumed", "cancel": "job_cancelled"}


@checked_first
def change_state(ctx: Context, change: str, job_id: object, by: object) -> Op[Job]:
    """Pause, resume or cancel a job. Once a pause or cancel has returned, the job ends no session."""
    known_id, actor = check.session_id(job_id, "job_id"), check.actor(by)
    yield CHECKED
    shard = ctx.keys.shards[0]
    job = yield from read_job(ctx, known_id)
    if job is None:
        raise InvalidArgument("job_id", UNKNOWN_JOB, "unknown")
    fact = AuditFact(_FACTS[change], {"job": known_id})  # CLOSE_JOB says how many it has ended, when that is final
    keys = (shard.job(known_id), shard.running, shard.audit)
    [reply] = yield [
        call_of(CHANGE_JOB_STATE, keys, given_now=ctx.now, audit_cap=ctx.audit_cap, id=known_id, change=change,
                by=actor, facts=write_facts(fact), keep=KEEP)
    ]  # fmt: skip
    changed = CHANGE_JOB_STATE.reply(reply)
    if changed.is_refused:
        raise InvalidArgument(
            "job_id", f"must be of a job that has not ended: this one is {text(changed.state_before)}", "job_ended"
        )
    if change != "resume":  # also where it had this state: an earlier call may have broken off before this
        yield from stop_runners(ctx, job, changed.epoch, cancelled=change == "cancel")
    job = yield from read_job(ctx, known_id)
    if job is None:
        raise corrupt_job(ctx, known_id)
    return job


def stop_runners(ctx: Context, job: Job, epoch: int, *, cancelled: bool) -> Op[int]:
    """Stop all runners of a paused or cancelled job. Returns how many sessions it has ended.

    The number is final for a cancelled job, whose audit entry is written here, once.
    """
    kicked = sum(fence.kicked for fence in (yield from raise_fences(ctx, job.id, epoch)))
    if cancelled:
        shard = ctx.keys.shards[0]
        facts = write_facts(ended_of(kicked, job.id, job), AuditFact("then_cancelled"))
        keys = (shard.job(job.id), shard.running, shard.audit)
        yield [
            call_of(CLOSE_JOB, keys, given_now=ctx.now, audit_cap=ctx.audit_cap, id=job.id, token="",
                    new_state="cancelled", error_text="", error_code="", facts=facts, keep=KEEP, examined="")
        ]  # fmt: skip
    return kicked
