"""The sweep: end sessions past their deadline and remove what has been kept for long enough."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import SweepReport, text
from presence_core.operations.context import Context
from presence_core.operations.layout import load
from presence_core.operations.sessions.settle import BATCH, in_turns, settle_refs
from presence_core.operations.sign_ins import trim_call, trims
from presence_core.operations.staff.audit import trim_audit
from presence_core.operations.staff.blocks import prune_blocks
from presence_core.operations.staff.rule_storage import tidy_block_rules
from presence_core.schema.endings import kept
from presence_core.scripts import maintenance as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command
from presence_core.text.search_text import entries_of_person
from presence_core.validation import whole

REMOVE_BATCH: Final = 200

REMOVE_ROUNDS: Final = 50

ROUND: Final = 2_000
"""Sessions that a sweep reads at once, of all shards together; but at least a batch of each."""

MAX_LIMIT: Final = 100_000_000
"""The highest limit of a sweep."""


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
    return {shard: scripts.FIND_DUE.reply(reply) for shard, reply in zip(shards, replies, strict=True)}


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
        if trims(ctx):  # otherwise they would stay: trimming reads the lists
            calls += [
                trim_call(ctx, shard, found.uids, is_last=True) for shard, found in outdated.items() if found.uids
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
    shortest = min((seconds for seconds in kept(settings).values() if seconds), default=0)
    cap = -(-settings.max_ended // len(ctx.keys.shards))
    replies = yield [
        call_of(scripts.FIND_OUTDATED, (s.people, s.ended), given_now=ctx.now, keep_people=settings.people_kept,
                cap=cap, shortest=shortest, record_prefix=s.record_prefix, limit=REMOVE_BATCH, random=ctx.random())
        for s in shards
    ]  # fmt: skip
    return {shard: scripts.FIND_OUTDATED.reply(reply) for shard, reply in zip(shards, replies, strict=True)}


def _index_entries(
    ctx: Context, outdated: Mapping[Shard, scripts.Outdated]
) -> Op[dict[tuple[Shard, bytes], list[bytes]]]:
    """The entries of these people in the index of words, derived from their stored names."""
    people = [(shard, uid) for shard, found in outdated.items() for uid in found.uids]
    keys = [shard.person(text(uid)) for shard, uid in people]
    rows = (yield [command(key, "HMGET", key, "n", "a", lenient=True) for key in keys]) if keys else []
    indexes = ctx.cache.indexes
    return {
        (shard, uid): entries_of_person(indexes, text(uid), *(text(part or b"") for part in row or (b"", b"")))
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
    keep = ctx.settings.people_kept
    return call_of(
        scripts.REMOVE_OUTDATED, [*lists, *people, *records], ctx.now, keep, len(found.uids), *words, *found.refs
    )
