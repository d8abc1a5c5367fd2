"""The workers among themselves: who leads, what the leader reports, and what anybody may read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from presence_core.keyspace import Shard
from presence_core.models import WorkerStatus, moment
from presence_core.operations.context import Context, pairs
from presence_core.scripts import GAUGE, LEAD, STATUS, VOUCH, Op, run


@dataclass(frozen=True, slots=True)
class Beat:
    """What a worker learns when it shows that it is there. Milliseconds; None where nothing was stored."""

    leads: bool
    now: int  #: Redis's clock
    accepted: int | None  #: when an operator last said that Redis's clock is right
    redis: int | None  #: Redis's clock when the leader last found it in order
    wall: int | None  #: that leader's wall clock beside it


def beat(
    ctx: Context, token: str, who: str, hold: int, accept: bool, report: Mapping[str, str | int]
) -> Op[Beat]:  # fmt: skip
    """Lead, or go on leading, or learn that another does. The lead holds ``hold`` ms without a beat."""
    said = [word for pair in report.items() for word in pair]
    args = (ctx.now, token, who, hold, "lead", 1 if accept else 0, *said)
    [reply] = yield [run(LEAD, (ctx.keys.common.worker,), *args)]
    return Beat(bool(reply[0]), int(reply[1]), *(_number(raw) for raw in reply[2:]))


def leave(ctx: Context, token: str) -> Op[None]:
    """Lead no longer, if this is the one that does."""
    yield [run(LEAD, (ctx.keys.common.worker,), ctx.now, token, "", 0, "leave", 0)]


def vouch(ctx: Context, own: int, limit: int, hold: int, accept: bool) -> Op[dict[Shard, int]]:
    """Say of each shard whose clock moves as ``own`` (this machine's, ms) that it is in order, for ``hold`` ms to come;
    with 0 of none. Answers by how much (ms) each has moved more than ``own``; ``limit`` is the most in order."""
    shards = ctx.keys.shards
    offs = yield [run(VOUCH, (s.meta,), ctx.now, own, limit, hold, 1 if accept else 0) for s in shards]
    return dict(zip(shards, offs, strict=True))


def lag(ctx: Context, now: int) -> Op[int]:
    """How long the session that is due the longest has been waiting for a sweep, ms; 0 if none is."""
    replies = yield [run(GAUGE, (s.deadlines, s.users, s.people), 0, 0) for s in ctx.keys.shards]
    oldest = [int(reply[0]) for reply in replies if reply[0]]
    return max(0, now - min(oldest, default=now))


def status(ctx: Context) -> Op[WorkerStatus | None]:
    [(now, flat)] = yield [run(STATUS, (ctx.keys.common.worker,), ctx.now)]
    row = dict(pairs(flat))
    began, last = _number(row.get(b"since")), _number(row.get(b"beat"))
    if began is None or last is None:
        return None
    ran, hold = _number(row.get(b"last_run")), _number(row.get(b"ttl")) or 0
    return WorkerStatus(
        leader=row.get(b"who", b"").decode("utf-8", "replace"),
        since=moment(began),
        beat=moment(last),
        alive=b"token" in row and last <= int(now) < last + hold,
        last_run=None if ran is None else moment(ran),
        lag_seconds=(_number(row.get(b"lag")) or 0) / 1000,
        paused=row.get(b"paused", b"").decode("utf-8", "replace"),
    )


def _number(raw: bytes | None) -> int | None:
    return int(raw) if raw and raw.isdigit() else None
