"""The calls that end sessions of many users: for a bulk kick by its runner, and again where a failover has lost an end;
and for ``kick_refs``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from presence_core.keyspace import Shard
from presence_core.models import Session, login_ms
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import Replicas, hold
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.held_ends import HeldEnd, name_of_end
from presence_core.operations.sessions.settle import BATCH as SCRIPT_BATCH
from presence_core.scripts.bulk_kick import KICK_SESSIONS
from presence_core.scripts.calls import Call, call_of


def kick_calls(
    ctx: Context, sessions: Iterable[Session], request: EndRequest, job_id: str, epoch: int | str
) -> tuple[list[tuple[Shard, list[Session]]], list[Call]]:
    """The sessions of each call, and the calls that end them. ``job_id`` and ``epoch``: as of ``kick_call``."""
    parts = ctx.parts(sessions, lambda session: session.uid, SCRIPT_BATCH)
    calls = [
        kick_call(
            ctx, shard, job_id, epoch, request,
            [(session.uid, session.session_id, login_ms(session)) for session in some],
        )
        for shard, some in parts
    ]  # fmt: skip
    return parts, calls


def kick_call(
    ctx: Context,
    shard: Shard,
    job_id: str,
    epoch: int | str,
    request: EndRequest,
    sessions: Sequence[tuple[str, str, int]],
) -> Call:
    """End these sessions of one shard: uid, session id and login, ms. ``job_id``: the job counts them; "": the audit
    has an entry for each. ``epoch``: of the runner; "" where no fence stops the call, because it has no job, or because
    the ends had been made and were lost."""
    places = {uid: place for place, uid in enumerate(dict.fromkeys(uid for uid, _, _ in sessions), 1)}
    recorder = shard.job(job_id) if job_id else shard.audit
    keys = (*shard.lists, *KICK_SESSIONS.keys(recorder=recorder, **request.text_keys(shard)),
            *(key for uid in places for key in shard.of_user(uid)),
            *(shard.record(uid, session_id) for uid, session_id, _ in sessions))  # fmt: skip
    refs = [part for uid, session_id, login in sessions for part in (places[uid], session_id, login)]
    call = call_of(KICK_SESSIONS, keys, *places, *refs, given_now=ctx.now, packed_policy=ctx.cache.policy, epoch=epoch,
                   recorded_by="job" if job_id else "audit", by=request.by, users_given=len(places),
                   **request.texts)  # fmt: skip
    call.lenient = True  # damage to the keys of one shard must not protect the sessions of others
    return call


@dataclass(slots=True, eq=False)
class HeldKick(HeldEnd):
    """A session that a bulk kick has ended: its job counts that."""

    job_id: str = ""

    def end_again(self, ctx: Context, s: Shard, session_id: str, began: int) -> Call:
        return kick_call(ctx, s, self.job_id, "", self.request, [(self.uid, session_id, began)])


def hold_kicks(ctx: Context, replicas: Replicas, request: EndRequest, ended: Iterable[Session], job_id: str) -> None:
    if replicas.confirmed is None:
        return
    for session in ended:
        uid, sid = session.uid, session.session_id
        change = HeldKick(ctx.shard(uid), uid, login_ms(session), request, sid, job_id=job_id)
        hold(ctx, replicas, name_of_end(uid, sid), change)
