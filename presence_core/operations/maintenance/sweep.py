"""The sweep: end sessions past their deadline and remove what has been kept for long enough.

``settle_stale`` settles sessions that a read found without a record or past their deadline.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Shard, split_ref
from presence_core.models import SweepReport, text
from presence_core.operations.context import Context
from presence_core.operations.layout import load
from presence_core.operations.staff.audit import trim_audit
from presence_core.operations.staff.blocks import prune_blocks
from presence_core.operations.staff.rule_storage import tidy_block_rules
from presence_core.scripts import maintenance as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command
from presence_core.text.search_text import entries_of_person
from presence_core.validation import whole

BATCH: Final = 50
"""Sessions in one script: 2 to 3 ms of the server's time, so that other clients do not wait long for a sweep."""

REMOVE_BATCH: Final = 200

REMOVE_ROUNDS: Final = 50

ROUND: Final = 2_000
"""Sessions that a sweep reads at once, of all shards together; but at least a batch of each."""

MAX_LIMIT: Final = 100_000_000
"""The highest limit of a sweep."""

Pair = tuple[str, str]
"""uid, session id"""


# -- settle: bring sessions into the state that they should be in ------------------------------------------------------


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
    return call_of(scripts.SETTLE_SESSIONS, keys, ctx.now, ctx.policy, mode, len(places), *places, *refs)


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
            settled = scripts.decode_settled(reply)
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


# -- sweep ------------------------------------------------------------------------------------------------------------


@checked_first
def sweep(ctx: Context, limit: int | None) -> Op[SweepReport]:
    """End what is past its deadline, finish ends that a crash left, remove what has been kept for long enough."""
    most = MAX_LIMIT if limit is None else whole("limit", limit, 1, MAX_LIMIT)
    yield CHECKED
    yield from load(ctx)  # a layout that was lost is written again, before another client writes a different one
    report, now = yield from _settle_due(ctx, most)
    if report.has_more:
        return report
    yield from _remove_outdated(ctx)
    yield from prune_blocks(ctx)
    with contextlib.suppress(CorruptData):  # another program's value is under the key; it does not stop the sweep
        yield from tidy_block_rules(ctx)
    yield trim_audit(ctx)
    with contextlib.suppress(Unavailable):  # a full server refuses plain writes, but the sweep has freed memory
        yield [command(s.meta, "HSET", s.meta, "swept", now) for s in ctx.keys.shards]
        # Every script names its shard's fence, and while a slot moves, Redis refuses scripts that name a missing key.
        yield [command(s.moved, "HSETNX", s.moved, "there", "1") for s in ctx.keys.shards]
    return report


def _settle_due(ctx: Context, limit: int) -> Op[tuple[SweepReport, int]]:
    """Settle what is due, in rounds; returns what was done and Redis's clock, ms."""
    report, now = SweepReport(0, 0, False), 0
    tried: dict[Shard, set[bytes]] = {}
    shards = list(ctx.keys.shards)
    while shards:
        left = limit - report.expired - report.repaired
        if left <= 0:
            due = yield from _find_due(ctx, shards, 1)
            return replace(report, has_more=any(found.refs for found in due.values())), now
        share = min(left, max(BATCH, ROUND // len(shards)))
        due = yield from _find_due(ctx, shards, share)
        now = max(found.now for found in due.values())
        parts = _choose(due, tried, share, left)
        calls = [call for shard, refs in parts.items() for call in settle_refs(ctx, shard, refs)]
        report = yield from in_turns(ctx, calls, report)
        shards = list(parts)
    return report, now


def _find_due(ctx: Context, shards: list[Shard], limit: int) -> Op[dict[Shard, scripts.DueSessions]]:
    replies = yield [
        call_of(scripts.FIND_DUE, (s.deadlines, s.closing, s.sessions, s.meta), ctx.now, limit) for s in shards
    ]  # fmt: skip
    return {shard: scripts.decode_due(reply) for shard, reply in zip(shards, replies, strict=True)}


def _choose(
    due: Mapping[Shard, scripts.DueSessions], tried: dict[Shard, set[bytes]], share: int, left: int
) -> dict[Shard, list[bytes]]:
    """The refs to settle in this round: at most ``share`` of a shard and ``left`` in all. A shard whose refs were all
    ``tried`` in the round before is done: another process is working on them."""
    parts: dict[Shard, list[bytes]] = {}
    for shard, found in due.items():
        if tried.get(shard, set()).issuperset(found.refs):
            continue
        # A ref may be due for two reasons. A shard that gets no refs now has its turn in the next round.
        parts[shard] = list(dict.fromkeys(found.refs))[: min(share, left)]
        tried[shard] = set(parts[shard])
        left -= len(parts[shard])
    return parts


def _remove_outdated(ctx: Context) -> Op[None]:
    """Remove people and ended sessions that have been kept for long enough."""
    shards = list(ctx.keys.shards)
    for _ in range(REMOVE_ROUNDS):
        outdated = yield from _find_outdated(ctx, shards)
        index_entries = yield from _index_entries(ctx, outdated)
        calls = [
            _remove_call(ctx, shard, found, index_entries)
            for shard, found in outdated.items()
            if found.uids or found.refs
        ]
        if calls:
            yield calls
        shards = [
            shard
            for shard, found in outdated.items()
            if 4 * max(len(found.uids), len(found.refs)) >= REMOVE_BATCH  # enough for another round
        ]
        if not shards:
            return


def _find_outdated(ctx: Context, shards: list[Shard]) -> Op[dict[Shard, scripts.Outdated]]:
    settings = ctx.settings
    retentions = (settings.keep_kicked, settings.keep_replaced, settings.keep_expired, settings.keep_logout)
    shortest = min((seconds for seconds in retentions if seconds), default=0)
    cap = -(-settings.max_ended // len(ctx.keys.shards))
    replies = yield [
        call_of(scripts.FIND_OUTDATED, (s.people, s.ended), ctx.now, settings.keep_people, cap, shortest,
                s.record_prefix, REMOVE_BATCH, ctx.random())
        for s in shards
    ]  # fmt: skip
    return {shard: scripts.decode_outdated(reply) for shard, reply in zip(shards, replies, strict=True)}


def _index_entries(
    ctx: Context, outdated: Mapping[Shard, scripts.Outdated]
) -> Op[dict[tuple[Shard, bytes], list[bytes]]]:
    """The entries of these people in the index of words, derived from their stored names."""
    people = [(shard, uid) for shard, found in outdated.items() for uid in found.uids]
    keys = [shard.person(text(uid)) for shard, uid in people]
    rows = (yield [command(key, "HMGET", key, "n", "a", lenient=True) for key in keys]) if keys else []
    return {
        (shard, uid): entries_of_person(ctx.indexes, text(uid), *(text(part or b"") for part in row or (b"", b"")))
        for (shard, uid), row in zip(people, rows, strict=True)
    }


def _remove_call(
    ctx: Context, shard: Shard, found: scripts.Outdated, index_entries: Mapping[tuple[Shard, bytes], list[bytes]]
) -> Call:
    lists = [shard.people, shard.ended, shard.words, shard.meta]
    people = [key for uid in map(text, found.uids) for key in (shard.person(uid), shard.user(uid))]
    records = [shard.record_prefix.encode() + ref for ref in found.refs]
    words: list[bytes | int] = []
    for uid in found.uids:
        words += (uid, len(index_entries[shard, uid]), *index_entries[shard, uid])
    keep = ctx.settings.keep_people
    return call_of(
        scripts.REMOVE_OUTDATED, [*lists, *people, *records], ctx.now, keep, len(found.uids), *words, *found.refs
    )
