"""Settle sessions: bring them into the state that they should be in.

Sessions past their deadline end, those in ``closing`` get their tombstone, stale entries are removed. The sweep settles
what is due; ``settle_stale`` settles sessions that a read found without a record or past their deadline.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import zip_longest
from typing import Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Shard, split_ref
from presence_core.models import SweepReport
from presence_core.operations.context import Context
from presence_core.scripts.calls import Call, Op, call_of, command
from presence_core.scripts.maintenance import SETTLE_SESSIONS

BATCH: Final = 50
"""Sessions in one script: 2 to 3 ms of the server's time, so that other clients do not wait long for a sweep."""

Pair = tuple[str, str]
"""uid, session id"""


def settle_calls(ctx: Context, shard: Shard, pairs: Iterable[Pair], mode: str = "sweep") -> list[Call]:
    """The calls that settle these sessions of one shard. ``mode``: see lua/maintenance/settle_sessions.lua."""
    distinct = list(dict.fromkeys(pairs))  # the script would end a session as often as it is named
    return [_settle_call(ctx, shard, distinct[first : first + BATCH], mode) for first in range(0, len(distinct), BATCH)]


def _settle_call(ctx: Context, shard: Shard, pairs: list[Pair], mode: str) -> Call:
    places = {uid: place for place, uid in enumerate(dict.fromkeys(uid for uid, _ in pairs), 1)}
    keys = [*shard.lists, *(key for uid in places for key in shard.of_user(uid))]
    keys += [f"{shard.record_prefix}{uid}:{sid}" for uid, sid in pairs]
    if mode == "repair":
        keys.append(shard.labels)
    refs = [part for uid, sid in pairs for part in (places[uid], sid)]
    return call_of(SETTLE_SESSIONS, keys, *places, *refs, given_now=ctx.now, packed_policy=ctx.cache.policy, mode=mode,
                   users_given=len(places))  # fmt: skip


def settle_refs(ctx: Context, shard: Shard, refs: Iterable[bytes], mode: str = "sweep") -> list[Call]:
    """The same for refs as a list holds them. A ref that this library cannot have written is removed."""
    pairs, strays = [], []
    for raw in refs:
        uid, sid = split_ref(raw.decode("utf-8", "ignore"))
        if uid and f"{uid}:{sid}".encode() == raw:
            pairs.append((uid, sid))
        else:
            strays.append(raw)
    calls = settle_calls(ctx, shard, pairs, mode)
    if strays:
        calls += [command(key, "ZREM", key, *strays) for key in (shard.sessions, shard.deadlines)]
        calls.append(command(shard.closing, "HDEL", shard.closing, *strays))
    return calls


def in_turns(ctx: Context, calls: Iterable[Call], report: SweepReport) -> Op[SweepReport]:
    """Run the calls of each server in turn, the servers of a cluster in parallel; returns ``report`` plus their work.

    Redis runs all commands that it has read from one client before it serves the next. With forty of these scripts in a
    pipeline other clients waited 10 ms (median of a PING). Two at once made the sweep a tenth faster, and doubled the
    wait at p99.
    """
    queues: dict[str, list[Call]] = {}
    for call in calls:
        queues.setdefault(ctx.server_of(call.key), []).append(call)
    for turn in zip_longest(*queues.values()):
        for reply in (yield [call for call in turn if call]):
            settled = SETTLE_SESSIONS.reply(reply)
            report += SweepReport(settled.ended, settled.repaired, False)
    return report


def settle_stale(ctx: Context, shard: Shard, pairs: list[Pair]) -> Op[None]:
    """Settle stale sessions that a read found: best effort, and only where the settings allow it. A session past its
    deadline ends only while a worker confirms the clock."""
    yield from settle_stale_of_shards(ctx, [(shard, pair) for pair in pairs])


def settle_stale_of_shards(ctx: Context, found: Iterable[tuple[Shard, Pair]]) -> Op[None]:
    """The same for sessions of several shards, in one round trip."""
    by_shard: dict[Shard, list[Pair]] = {}
    for shard, pair in found:
        by_shard.setdefault(shard, []).append(pair)
    if by_shard and ctx.settings.heal:
        with contextlib.suppress(Unavailable, CorruptData):
            yield [call for shard, pairs in by_shard.items() for call in settle_calls(ctx, shard, pairs, "stale")]
