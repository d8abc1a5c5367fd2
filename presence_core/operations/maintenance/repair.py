"""Repair: scan everything and make lists, sets and records agree, then indexes and facets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from presence_core.keyspace import Shard
from presence_core.models import SweepReport, text
from presence_core.models.sessions import label_ids
from presence_core.operations.context import Context
from presence_core.operations.maintenance.sweep import ROUND, sweep
from presence_core.operations.permissions import REPAIR_NEEDS, require
from presence_core.operations.scan import Pairs, scan
from presence_core.operations.search.rebuild import reindex
from presence_core.operations.sessions.settle import BATCH, in_turns, settle_calls, settle_refs
from presence_core.scripts.calls import Call, Op, call_of, command
from presence_core.scripts.maintenance import SETTLE_SESSIONS

PRUNE_FROM: Final = 4_096
"""Labels from which on repair removes unused ones; half of the labels that a shard may have."""


def repair(ctx: Context) -> Op[SweepReport]:
    """Sweep, then repair every shard, then rebuild indexes and facets."""
    yield from require(ctx.keys.shards, REPAIR_NEEDS)
    report = yield from sweep(ctx, None)
    for shard in ctx.keys.shards:
        report += yield from _ShardRepair(ctx, shard).steps()
    return report + (yield from reindex(ctx, restart=True))


class _ShardRepair:
    """The repair of one shard, a part of each list at a time."""

    def __init__(self, ctx: Context, shard: Shard) -> None:
        self._ctx, self._shard = ctx, shard
        self._report = SweepReport(0, 0, False)

    def steps(self) -> Op[SweepReport]:
        shard = self._shard
        yield from scan("ZSCAN", shard.sessions, ROUND // 2, self._repair_listed)
        yield from scan("ZSCAN", shard.deadlines, ROUND // 2, self._repair_unlisted)
        yield from scan("ZSCAN", shard.users, BATCH, self._repair_users)
        yield from _remove_unused_labels(shard)
        return self._report

    def _run(self, calls: Iterable[Call]) -> Op[None]:
        self._report = yield from in_turns(self._ctx, calls, self._report)

    def _repair_listed(self, sessions: Pairs) -> Op[None]:
        yield from self._run(settle_refs(self._ctx, self._shard, [ref for ref, _ in sessions], "repair"))

    def _repair_unlisted(self, deadlines: Pairs) -> Op[None]:
        """Sessions that have a deadline and are not listed. Listed ones were repaired before, in every list."""
        missing = yield from self._not_listed([ref for ref, _ in deadlines])
        yield from self._run(settle_refs(self._ctx, self._shard, missing, "repair"))

    def _repair_users(self, users: Pairs) -> Op[None]:
        """Session ids that a user's set names and no list does; users without a session."""
        uids = [uid for raw, _ in users if (uid := raw.decode("utf-8", "ignore")) and uid.encode() == raw]
        keys = map(self._shard.user, uids)
        members = (yield [command(key, "SMEMBERS", key) for key in keys]) if uids else []
        named = {
            uid.encode() + b":" + sid: (uid, text(sid)) for uid, sids in zip(uids, members, strict=True) for sid in sids
        }
        missing = yield from self._not_listed(list(named))
        calls = settle_calls(self._ctx, self._shard, [named[ref] for ref in missing], "repair")
        calls += [self._repair_user(uid) for uid, sids in zip(uids, members, strict=True) if not sids]
        yield from self._run(calls)

    def _repair_user(self, uid: str) -> Call:
        keys = (*self._shard.lists, *self._shard.of_user(uid), self._shard.labels)
        return call_of(SETTLE_SESSIONS, keys, uid, given_now=self._ctx.now, packed_policy=self._ctx.cache.policy,
                       mode="repair", users_given=1)  # fmt: skip

    def _not_listed(self, refs: list[bytes]) -> Op[list[bytes]]:
        key, missing = self._shard.sessions, []
        for first in range(0, len(refs), ROUND):
            part = refs[first : first + ROUND]
            [scores] = yield [command(key, "ZMSCORE", key, *part)]
            missing += [ref for ref, score in zip(part, scores, strict=True) if score is None]
        return missing


def _remove_unused_labels(shard: Shard) -> Op[None]:
    """Remove texts that no session and no tombstone names, once the table is half full. Browsers are updated, and
    hostile clients would otherwise fill the table for ever.

    A login that uses such a text at this moment may lose it: its user agent reads as unknown until the next login with
    the same one writes the text again, under the same id. A wrong text is never shown.
    """
    [labels] = yield [command(shard.labels, "HKEYS", shard.labels)]
    if len(labels) < PRUNE_FROM:
        return
    used: set[bytes] = set()

    def collect(sessions: Pairs) -> Op[None]:
        prefix = shard.record_prefix.encode()
        reads = [command(shard.tag, "HGET", prefix + ref, "c", lenient=True) for ref, _ in sessions]
        for core in (yield reads) if reads else []:
            used.update(label_ids(core))

    for key in (shard.ended, shard.sessions):
        yield from scan("ZSCAN", key, ROUND // 2, collect)
    unused = [label for label in labels if label not in used]
    if unused:
        yield [command(shard.labels, "HDEL", shard.labels, *unused)]
