"""Read live sessions: one, all of a user, the counts."""

from __future__ import annotations

from collections.abc import Iterable

from presence_core import validation as check
from presence_core.errors import InvalidArgument, foreign_data
from presence_core.keyspace import Shard
from presence_core.models import Counts, Session, moment, text
from presence_core.models.choices import ODD_LOGINS
from presence_core.operations.context import Context, FoundSession, found_rows
from presence_core.operations.maintenance.sweep import settle_stale
from presence_core.operations.search.live_counts import ShardCount, count_shards
from presence_core.scripts import sessions as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command


def read_call(ctx: Context, s: Shard, uid: str, session_ids: Iterable[str] = ()) -> Call:
    """Read these sessions of a user, or all."""
    keys = (s.user(uid), s.sessions, s.closing, s.labels, s.meta)
    return call_of(scripts.READ_SESSIONS, keys, ctx.now, uid, s.record_prefix, *session_ids)


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
        raise InvalidArgument("count_on_behalf", "must be True or False")
    yield CHECKED
    found = yield from _found(ctx, owner, [])
    return any(count_on_behalf or not check.is_on_behalf(session.session_id) for session in found)


def _live(ctx: Context, uid: str, session_ids: list[str]) -> Op[list[Session]]:
    return in_list_order(found.session() for found in (yield from _found(ctx, uid, session_ids)))


def _found(ctx: Context, uid: str, session_ids: list[str]) -> Op[list[FoundSession]]:
    """The live sessions; stale entries are repaired."""
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
    return [found for found in sessions if found.state == scripts.LIVE]


def counts(ctx: Context) -> Op[Counts]:
    shards, _ = yield from count_shards(ctx)
    return counts_of(ctx, shards)


def counts_of(ctx: Context, found: list[ShardCount]) -> Counts:
    """The counts of all shards."""
    shards, parts = ctx.keys.shards, [shard.count for shard in found]
    totals = dict.fromkeys(("login", "logout", "expired", "kicked", "replaced"), 0)
    odd_logins: dict[str, int] = dict.fromkeys(ODD_LOGINS, 0)
    for s, part in zip(shards, parts, strict=True):
        for kind, number in part.totals:
            sums = odd_logins if text(kind) in odd_logins else totals
            sums[text(kind)] = sums.get(text(kind), 0) + _number(s.totals, number)
    swept = [_number(s.meta, part.swept) if part.swept else 0 for s, part in zip(shards, parts, strict=True)]
    return Counts(
        users=sum(shard.users for shard in found),
        sessions=sum(part.sessions for part in parts),
        totals=totals,
        waiting={
            "expired": sum(shard.expired for shard in found),
            "kicked": sum(shard.revoked for shard in found),
        },
        odd_logins=odd_logins,
        as_of=moment(min(part.now for part in parts)),
        draining=any(part.is_draining for part in parts),
        swept_at=moment(min(swept)) if all(swept) else None,
    )


def latest(ctx: Context) -> Op[list[scripts.LatestLogin]]:
    """The clock and the latest login time of every shard."""
    replies = yield [call_of(scripts.READ_LATEST_LOGIN, (s.sessions, s.meta), ctx.now) for s in ctx.keys.shards]
    return [scripts.decode_latest_login(reply) for reply in replies]


def watermark(ctx: Context) -> Op[tuple[int, int]]:
    """The watermark of revoke_before and when it was set, ms; (-1, 0) where there is none.

    Sessions that began up to it are revoked. As the first shard has it, which gets it together with all others. Cost:
    O(1), one round trip.
    """
    key = ctx.keys.shards[0].meta
    [(revoked, at)] = yield [command(key, "HMGET", key, "revoked", "revoked_at")]
    return (_number(key, revoked), _number(key, at or b"0")) if revoked else (-1, 0)


def _number(key: str, raw: bytes) -> int:
    try:
        return int(raw)
    except ValueError:
        raise foreign_data(key) from None
