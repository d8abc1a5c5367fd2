"""Read live sessions: one, or all of a user; and how far the sessions of a shard reach."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from presence_core import validation as check
from presence_core.errors import InvalidArgument, foreign_data
from presence_core.keyspace import Shard
from presence_core.models import Session
from presence_core.operations.context import Context, FoundSession, found_rows
from presence_core.operations.sessions.settle import settle_stale
from presence_core.scripts import sessions as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command


def read_call(ctx: Context, s: Shard, uid: str, session_ids: Collection[str] = ()) -> Call:
    """Read these sessions of a user, or all."""
    keys = (s.user(uid), s.sessions, s.closing, s.labels, s.meta)
    call = call_of(scripts.READ_SESSIONS, keys, ctx.now, uid, s.record_prefix, *session_ids)
    call.is_short = len(session_ids) == 1
    return call


def in_list_order(sessions: Iterable[Session]) -> list[Session]:
    """Newest login first; of one millisecond, the greatest ref first, as Redis orders members of one score."""
    return sorted(sessions, key=lambda session: (session.login_at, session.ref.encode()), reverse=True)


@checked_first
def get(ctx: Context, uid: object, session_id: object) -> Op[Session | None]:
    owner, sid = check.uid(uid), check.session_id(session_id)
    yield CHECKED
    live = yield from _live(ctx, owner, [sid])
    return live[0] if live else None


def sessions(ctx: Context, uid: object) -> Op[list[Session]]:
    return sessions_of(ctx, check.uid(uid))


def sessions_of(ctx: Context, uid: str) -> Op[list[Session]]:
    return _live(ctx, uid, [])


@checked_first
def is_online(ctx: Context, uid: object, count_on_behalf: object) -> Op[bool]:
    owner = check.uid(uid)
    if not isinstance(count_on_behalf, bool):
        raise InvalidArgument("count_on_behalf", "must be True or False", "wrong_type")
    yield CHECKED
    found = yield from _found(ctx, owner, [])
    return any(count_on_behalf or not check.is_on_behalf(session.session_id) for session in found)


def _live(ctx: Context, uid: str, session_ids: list[str]) -> Op[list[Session]]:
    return in_list_order(found.session() for found in (yield from _found(ctx, uid, session_ids)))


def _found(ctx: Context, uid: str, session_ids: list[str]) -> Op[list[FoundSession]]:
    """The live sessions; stale entries are repaired."""
    sessions = yield from listed_sessions(ctx, uid, session_ids)
    return [found for found in sessions if found.state == scripts.LIVE]


def listed_sessions(ctx: Context, uid: str, session_ids: Collection[str] = ()) -> Op[list[FoundSession]]:
    """These sessions of a user, or all in their list, also those that wait for a sweep; stale entries are repaired."""
    shard = ctx.shard(uid)
    [reply] = yield [read_call(ctx, shard, uid, session_ids)]
    sessions = found_rows(uid, reply)
    is_whole_user = not session_ids
    stale = [
        (uid, found.session_id)
        for found in sessions
        if found.state == scripts.NO_RECORD
        or (found.state == scripts.ENDED and not found.row.end_reason)
        or (found.state != scripts.LIVE and is_whole_user)
    ]
    yield from settle_stale(ctx, shard, stale)
    return sessions


def latest(ctx: Context) -> Op[list[scripts.LatestLogin]]:
    """The clock and the latest login time of every shard."""
    replies = yield [call_of(scripts.READ_LATEST_LOGIN, (s.sessions, s.meta), ctx.now) for s in ctx.keys.shards]
    return [scripts.READ_LATEST_LOGIN.reply(reply) for reply in replies]


def watermark(ctx: Context) -> Op[tuple[int, int]]:
    """The watermark of revoke_before and when it was set, ms; (-1, 0) where there is none.

    Sessions that began up to it are revoked. As the first shard has it, which gets it together with all others. Cost:
    O(1), one round trip.
    """
    key = ctx.keys.shards[0].meta
    [(revoked, at)] = yield [command(key, "HMGET", key, "revoked", "revoked_at")]
    return (number_at(key, revoked), number_at(key, at or b"0")) if revoked else (-1, 0)


def number_at(key: str, raw: bytes) -> int:
    """A number that one of our keys holds."""
    try:
        return int(raw)
    except ValueError:
        raise foreign_data(key) from None
