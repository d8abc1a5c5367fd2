"""Everything walked and made to agree again: lists, sets and records, then indexes and facets."""

from __future__ import annotations

from typing import Final

from presence_core.keyspace import Shard
from presence_core.models import SweepReport, text
from presence_core.operations.context import Context
from presence_core.operations.reindex import reindex
from presence_core.operations.upkeep import BATCH, ROUND, in_turns, sweep, tidy_calls, tidy_raw
from presence_core.scripts import TIDY, Call, Op, command, run

PRUNE_FROM: Final = 4_096
"""Labels from which on repair looks for those that nobody names; half of what login.py lets a shard keep."""


def repair(ctx: Context) -> Op[SweepReport]:
    report = yield from sweep(ctx, None)
    for shard in ctx.keys.shards:
        for key in (shard.sessions, shard.deadlines):
            cursor = b"0"
            while True:
                [(cursor, flat)] = yield [command(key, "ZSCAN", key, cursor, "COUNT", ROUND // 2)]
                refs = flat[::2] if key == shard.sessions else (yield from _unlisted(shard, flat[::2]))
                report = yield from in_turns(ctx, tidy_raw(ctx, shard, refs, "repair"), report)
                if cursor == b"0":
                    break
        report = yield from _repair_users(ctx, shard, report)
        yield from _prune_labels(ctx, shard)
    return report + (yield from reindex(ctx, anew=True))


def _unlisted(s: Shard, refs: list[bytes]) -> Op[list[bytes]]:
    """Those that the list does not have. What it has was put right, in every place, as it was walked."""
    missing: list[bytes] = []
    for first in range(0, len(refs), ROUND):
        part = refs[first : first + ROUND]
        [scores] = yield [command(s.sessions, "ZMSCORE", s.sessions, *part)]
        missing += [ref for ref, score in zip(part, scores, strict=True) if score is None]
    return missing


def _prune_labels(ctx: Context, shard: Shard) -> Op[None]:
    """Let go of texts that no session and no tombstone names, once the table is half full: browsers are updated, and
    hostile variety would otherwise hold its places for ever.

    A login that takes up such a text again just now may lose it: its user agent reads as unknown until the next login
    with the same one writes the text anew, under the same id. Nothing is ever shown wrong.
    """
    [before] = yield [command(shard.labels, "HKEYS", shard.labels)]
    if len(before) < PRUNE_FROM:
        return
    used: set[bytes] = set()
    for key in (shard.ended, shard.sessions):
        cursor = b"0"
        while True:
            [(cursor, flat)] = yield [command(key, "ZSCAN", key, cursor, "COUNT", ROUND // 2)]
            prefix = shard.record_prefix.encode()
            names = [command(shard.tag, "HGET", prefix + ref, "c", lenient=True) for ref in flat[::2]]
            for core in (yield names) if names else []:
                used.update((core[32:36], core[36:40]) if core else ())
            if cursor == b"0":
                break
    unused = [label for label in before if label not in used]
    if unused:
        yield [command(shard.labels, "HDEL", shard.labels, *unused)]


def _repair_users(ctx: Context, shard: Shard, report: SweepReport) -> Op[SweepReport]:
    """Session ids that a user's SET names and no list does; users without a session."""
    cursor = b"0"
    while True:
        [(cursor, flat)] = yield [command(shard.users, "ZSCAN", shard.users, cursor, "COUNT", BATCH)]
        uids = [uid for raw in flat[::2] if (uid := raw.decode("utf-8", "ignore")) and uid.encode() == raw]
        members = (yield [command(key, "SMEMBERS", key) for key in map(shard.user, uids)]) if uids else []
        named = {
            uid.encode() + b":" + sid: (uid, text(sid)) for uid, sids in zip(uids, members, strict=True) for sid in sids
        }
        missing = yield from _unlisted(shard, list(named))
        calls = tidy_calls(ctx, shard, [named[ref] for ref in missing], "repair")
        calls += [_tidy_user(ctx, shard, uid) for uid, sids in zip(uids, members, strict=True) if not sids]
        report = yield from in_turns(ctx, calls, report)
        if cursor == b"0":
            return report


def _tidy_user(ctx: Context, s: Shard, uid: str) -> Call:
    return run(TIDY, (*s.lists, *s.of_user(uid), s.labels), ctx.now, ctx.policy, "repair", 1, uid)
