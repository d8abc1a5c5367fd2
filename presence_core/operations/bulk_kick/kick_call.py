"""The call that ends sessions for a bulk kick: by its runner, and again where a failover has lost it."""

from __future__ import annotations

from collections.abc import Sequence

from presence_core.keyspace import Shard
from presence_core.operations.context import Context
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.scripts.bulk_kick import KICK_SESSIONS
from presence_core.scripts.calls import Call, call_of


def kick_call(
    ctx: Context,
    shard: Shard,
    job_id: str,
    epoch: int | str,
    request: EndRequest,
    sessions: Sequence[tuple[str, str, int]],
) -> Call:
    """End these sessions of one shard: uid, session id and login, ms. ``epoch``: of the runner; "" for ends that had
    been made and were lost, which no fence stops."""
    places = {uid: place for place, uid in enumerate(dict.fromkeys(uid for uid, _, _ in sessions), 1)}
    keys = (*shard.lists, shard.job(job_id), *request.text_keys(shard),
            *(key for uid in places for key in shard.of_user(uid)),
            *(shard.record(uid, session_id) for uid, session_id, _ in sessions))  # fmt: skip
    refs = [part for uid, session_id, login in sessions for part in (places[uid], session_id, login)]
    call = call_of(KICK_SESSIONS, keys, ctx.now, ctx.policy, epoch, request.by, *request.texts, len(places), *places,
                   *refs)  # fmt: skip
    call.lenient = True  # damage to the keys of one shard must not protect the sessions of others
    return call
