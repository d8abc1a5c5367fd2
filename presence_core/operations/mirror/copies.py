"""What the mirror does to our copies, beyond ``login_many``: follow the site's store, and end what ended there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from presence_core.operations.context import Context
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.settle import settle_stale_of_shards
from presence_core.schema.endings import EndCause, EndReason
from presence_core.scripts.calls import Op, call_of, command
from presence_core.scripts.mirror import FOLLOW_SESSIONS
from presence_core.scripts.sessions import END_SESSIONS

BATCH: Final = 100
"""Sessions in one script: it holds Redis for 1 to 2 ms."""


LOOKED_AT: Final = 500
"""Refs that are looked for in the list in one call."""


class Life(NamedTuple):
    """How long a copy lives, as the site's store says."""

    uid: str
    session_id: str
    seen: int  #: ms
    idle: int  #: seconds from then on


class SiteEnd(NamedTuple):
    """A copy whose session has ended in the site's store."""

    uid: str
    session_id: str
    is_expired: bool  #: its time had passed; else the site ended it

    @property
    def how(self) -> tuple[EndReason, EndCause]:
        return ("expired", "idle") if self.is_expired else ("logout", "site")


def follow(ctx: Context, lives: Sequence[Life]) -> Op[list[Life]]:
    """Write these to the records. Returns those of sessions that are not live. One round trip."""
    parts = ctx.parts(lives, lambda life: life.uid, BATCH)
    if not parts:
        return []
    calls = []
    for s, part in parts:
        keys = [s.sessions, s.deadlines, s.users, s.meta, *(s.record(life.uid, life.session_id) for life in part)]
        words = [word for life in part for word in (life.uid, life.seen, life.idle)]
        calls.append(call_of(FOLLOW_SESSIONS, keys, ctx.now, *words))
    replies = yield calls
    return [
        part[place] for (_, part), reply in zip(parts, replies, strict=True) for place in FOLLOW_SESSIONS.reply(reply)
    ]


def not_listed(ctx: Context, refs: Iterable[tuple[str, str]]) -> Op[list[tuple[str, str]]]:
    """Those of these copies, by user and session id, that are not in the list of sessions. One round trip."""
    parts = ctx.parts(refs, itemgetter(0), LOOKED_AT)
    replies = yield [
        command(shard.sessions, "ZMSCORE", shard.sessions, *(f"{uid}:{sid}" for uid, sid in part))
        for shard, part in parts
    ]
    return [
        ref
        for (_, part), listed in zip(parts, replies, strict=True)
        for ref, login in zip(part, listed, strict=True)
        if login is None
    ]


def end(ctx: Context, ends: Iterable[SiteEnd]) -> Op[int]:
    """End the copies. Returns how many this call has ended. One round trip; one more for damaged records."""
    given = list(ends)
    if not given:
        return 0
    shards = [ctx.shard(each.uid) for each in given]
    calls = [
        EndRequest(*each.how, "").end_one(ctx, shard, each.uid, each.session_id)
        for shard, each in zip(shards, given, strict=True)
    ]
    replies = [END_SESSIONS.reply(reply) for reply in (yield calls)]
    stale = [
        (shard, (each.uid, each.session_id))
        for shard, each, reply in zip(shards, given, replies, strict=True)
        if not reply.ended and reply.row.core is None
    ]
    yield from settle_stale_of_shards(ctx, stale)
    return sum(len(reply.ended) for reply in replies)
