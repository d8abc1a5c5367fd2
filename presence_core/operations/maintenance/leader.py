"""Workers among themselves: which of them leads, what the leader reports, and what it says of the shards' clocks."""

from __future__ import annotations

from collections.abc import Mapping

from presence_core.keyspace import Shard
from presence_core.models import WorkerStatus, moment
from presence_core.operations.context import Context
from presence_core.operations.maintenance import alerts
from presence_core.scripts import maintenance as scripts
from presence_core.scripts.calls import Op, call_of


def beat(
    ctx: Context, token: str, who: str, lead_ms: int, accept: bool, report: Mapping[str, str | int]
) -> Op[scripts.Beat]:
    """Claim or keep the lead, unless another worker has it. It lasts ``lead_ms`` without a beat. ``accept``: an
    operator accepts Redis's clock as it is."""
    fields = [part for pair in report.items() for part in pair]
    args = (ctx.now, token, who, lead_ms, "lead", 1 if accept else 0, *fields)
    [reply] = yield [call_of(scripts.CLAIM_LEAD, (ctx.keys.common.worker,), *args)]
    return scripts.CLAIM_LEAD.reply(reply)


def leave(ctx: Context, token: str) -> Op[None]:
    """Give up the lead, if this worker has it."""
    yield [call_of(scripts.CLAIM_LEAD, (ctx.keys.common.worker,), ctx.now, token, "", 0, "leave", 0)]


def vouch(ctx: Context, own: int, limit: int, confirm_ms: int, accept: bool) -> Op[dict[Shard, int]]:
    """Confirm the clock of every shard that moves as ``own``, this machine's clock in ms, does.

    A shard's clock is confirmed for ``confirm_ms``, where the two differ by at most ``limit`` ms; with 0 no clock
    is. Returns by how many ms each shard's clock moved more than ``own``.
    """
    shards = ctx.keys.shards
    drifts = yield [
        call_of(scripts.CONFIRM_CLOCK, (s.meta,), ctx.now, own, limit, confirm_ms, 1 if accept else 0) for s in shards
    ]
    return dict(zip(shards, drifts, strict=True))


def lag(ctx: Context, now: int) -> Op[int]:
    """How long ago, in ms, the oldest deadline passed that no sweep has reached; 0 if there is none."""
    replies = yield [call_of(scripts.MEASURE_SHARD, (s.deadlines, s.users, s.people), 0, 0) for s in ctx.keys.shards]
    deadlines = (scripts.MEASURE_SHARD.reply(reply).oldest_deadline for reply in replies)
    return max(0, now - min((int(deadline) for deadline in deadlines if deadline), default=now))


def status(ctx: Context) -> Op[WorkerStatus | None]:
    """What the worker that leads, or led last, has reported; None where no worker has ever run."""
    [reply] = yield [call_of(scripts.READ_WORKER_STATUS, (ctx.keys.common.worker,), ctx.now)]
    stored = scripts.READ_WORKER_STATUS.reply(reply)
    since, last_beat, last_run = (stored.number(name) for name in (b"since", b"beat", b"last_run"))
    if since is None or last_beat is None:
        return None
    lead_ms = stored.number(b"ttl") or 0
    return WorkerStatus(
        leader=stored.text(b"who"),
        since=moment(since),
        beat=moment(last_beat),
        alive=b"token" in stored.fields and last_beat <= stored.now < last_beat + lead_ms,
        last_run=None if last_run is None else moment(last_run),
        lag_seconds=(stored.number(b"lag") or 0) / 1000,
        paused=stored.text(b"paused"),
        alerts=alerts.current(ctx, stored.text(b"alerts"), stored.now),
    )
