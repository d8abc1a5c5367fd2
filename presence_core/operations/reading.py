"""What is there: one session, a user's, the counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from presence_core import settings as check
from presence_core.errors import CorruptData
from presence_core.keyspace import Shard
from presence_core.models import Counts, Session, moment, text
from presence_core.operations.context import DIRTY, ENDED, LIVE, Context, Found, found_rows
from presence_core.operations.upkeep import heal
from presence_core.scripts import COUNT, LATEST, READ, Call, Op, command, run


def read_call(ctx: Context, s: Shard, uid: str, sids: Iterable[str] = ()) -> Call:
    """A user's sessions: these, or all."""
    return run(READ, (s.user(uid), s.sessions, s.closing, s.labels, s.meta), ctx.now, uid, s.record_prefix, *sids)


def get(ctx: Context, uid: object, session_id: object) -> Op[Session | None]:
    owner, sid = check.uid(uid), check.session_id(session_id)

    def steps() -> Op[Session | None]:
        live = yield from _live(ctx, owner, [sid])
        return live[0] if live else None

    return steps()


def sessions(ctx: Context, uid: object) -> Op[list[Session]]:
    return sessions_of(ctx, check.uid(uid))


def sessions_of(ctx: Context, uid: str) -> Op[list[Session]]:
    return _live(ctx, uid, [])


def is_online(ctx: Context, uid: object) -> Op[bool]:
    owner = check.uid(uid)

    def steps() -> Op[bool]:
        return bool((yield from _found(ctx, owner, [])))

    return steps()


def _live(ctx: Context, uid: str, sids: list[str]) -> Op[list[Session]]:
    live = [one.session() for one in (yield from _found(ctx, uid, sids))]
    return sorted(live, key=lambda session: (session.login_at, session.ref.encode()), reverse=True)


def _found(ctx: Context, uid: str, sids: list[str]) -> Op[list[Found]]:
    """Those that are live; what else there was is healed."""
    shard = ctx.shard(uid)
    [reply] = yield [read_call(ctx, shard, uid, sids)]
    found = found_rows(uid, reply)
    stale = [
        (uid, one.session_id)
        for one in found
        if one.state == DIRTY or (one.state == ENDED and not one.row[8]) or (one.state != LIVE and not sids)
    ]
    yield from heal(ctx, shard, stale)
    return [one for one in found if one.state == LIVE]


def counts(ctx: Context) -> Op[Counts]:
    replies = yield [run(COUNT, (s.deadlines, s.users, s.meta, s.totals, s.sessions), ctx.now) for s in ctx.keys.shards]
    totals = dict.fromkeys((b"login", b"logout", b"expired", b"kicked", b"replaced"), 0)
    for s, (_, _, _, _, flat, _) in zip(ctx.keys.shards, replies, strict=True):
        for kind, number in zip(flat[::2], flat[1::2], strict=True):
            totals[kind] = totals.get(kind, 0) + _number(s.totals, number)
    swept = [reply[3] and _number(s.meta, reply[3]) for s, reply in zip(ctx.keys.shards, replies, strict=True)]
    return Counts(
        users=sum(reply[2] for reply in replies),
        sessions=sum(reply[1] for reply in replies),
        totals={text(kind): number for kind, number in totals.items()},
        as_of=moment(min(reply[0] for reply in replies)),
        draining=any(reply[5] for reply in replies),
        swept_at=moment(min(swept)) if all(swept) else None,
    )


class Edge(NamedTuple):
    """How far one shard's clock and sessions reach, ms; -1 for none."""

    now: int
    newest: int  #: the latest login time in the list
    revoked: int  #: the watermark of revoke_before


def latest(ctx: Context) -> Op[list[Edge]]:
    """The edge of every shard."""
    replies = yield [run(LATEST, (s.sessions, s.meta), ctx.now) for s in ctx.keys.shards]
    return [Edge(*reply) for reply in replies]


def watermark(ctx: Context) -> Op[tuple[int, int]]:
    """Sessions that began up to then are signed out, by revoke_before; and when that was said; ms. (-1, 0): never.

    As the first shard has it, which is marked together with all others. Cost: O(1), one round trip.
    """
    key = ctx.keys.shards[0].meta
    [(revoked, at)] = yield [command(key, "HMGET", key, "revoked", "revoked_at")]
    return (_number(key, revoked), _number(key, at or b"0")) if revoked else (-1, 0)


def _number(key: str, raw: bytes) -> int:
    try:
        return int(raw)
    except ValueError:
        raise CorruptData(f"{key} holds what presence_core never wrote.") from None
