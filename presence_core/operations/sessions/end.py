"""Sessions end: logout by the user, kick by staff."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Final

from presence_core import validation as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import NO_LABELS, Block, Ended, KickResult, Labels, Session, text
from presence_core.operations.context import Context, found_rows, label_texts, read_notes
from presence_core.operations.durability.held_changes import (
    Replicas,
    check_capacity,
    hold,
    read_confirmations,
    wait_calls,
)
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.held_ends import HeldEnd, HeldWatermark, hold_block, hold_end, watermark_calls
from presence_core.operations.sessions.read import in_list_order, latest, read_call
from presence_core.operations.sessions.settle import BATCH, settle_calls, settle_stale
from presence_core.schema.record import SessionRow
from presence_core.scripts.calls import CHECKED, Call, Op, checked_first, command
from presence_core.scripts.sessions import END_SESSIONS, ENDED, REVOKE_BEFORE, EndReply

_SKEW: Final = 60_000
"""How far a caller's clock may be ahead of the clock of Redis, ms."""


@checked_first
def logout(ctx: Context, uid: object, session_id: object) -> Op[bool]:
    owner, sid = check.uid(uid), check.session_id(session_id)
    yield CHECKED
    shard, request = ctx.shard(owner), EndRequest("logout", "user", owner)
    call = request.end_one(ctx, shard, owner, sid)
    reply, replicas = yield from _end(ctx, shard, call)
    if reply.ended or reply.row.core is None:  # it had ended before: perhaps by this call, whose reply was lost
        hold_end(ctx, replicas, request, owner, sid, reply.row.login or reply.now)
    if reply.row.core is None:
        yield from settle_stale(ctx, shard, [(owner, sid)])
    return bool(reply.ended)


@checked_first
def logout_others(ctx: Context, uid: object, session_id: object, other: object) -> Op[list[Session]]:
    owner, stays = check.uid(uid), check.session_id(session_id)
    ends = None if other is None else check.session_id(other, "other")
    if ends == stays:
        raise InvalidArgument("other", "must not be the session that stays", "conflicts")
    yield CHECKED
    request = EndRequest("logout", "self", owner)
    if ends is not None:
        return (yield from kick_one(ctx, owner, ends, request)).kicked
    return (yield from _kick_all(ctx, owner, request, [stays])).kicked


def _end(ctx: Context, shard: Shard, call: Call) -> Op[tuple[EndReply, Replicas]]:
    """Send a call that ends sessions, and ask whether the replicas have it."""
    raw, *acknowledged = yield [call, *wait_calls(ctx, [shard])]
    reply = END_SESSIONS.reply(raw)
    return reply, read_confirmations(ctx, [shard], acknowledged)


def kick(
    ctx: Context,
    uid: object,
    session_id: object,
    *,
    by: object,
    reason: object,
    message: object = None,
    ticket: object = None,
    keep: Iterable[object] = (),
    block_for: object = None,
) -> Op[KickResult]:
    owner = check.uid(uid)
    sid = None if session_id is None else check.session_id(session_id)
    kept = check.kept_ids(keep, sid)
    request = EndRequest.kick(by, reason, message, ticket, block_for)
    return _kick_all(ctx, owner, request, kept) if sid is None else kick_one(ctx, owner, sid, request)


@checked_first
def revoke_before(ctx: Context, at: object, by: object, reason: object, message: object) -> Op[int]:
    given = None if at is None else check.time_ms("at", at)
    who, note = check.actor(by), check.prose("reason", reason)
    public = check.optional_prose("message", message)
    yield CHECKED
    check_capacity(ctx)
    shards = ctx.keys.shards
    upto = yield from _watermark(ctx, given)
    calls = [
        *watermark_calls(ctx, shards[:1], str(upto), who, note, public, ctx.new_id()),
        *watermark_calls(ctx, shards[1:], str(upto), who, note, public, ""),
    ]
    replies = yield [*calls, *wait_calls(ctx, shards)]
    hold(
        ctx,
        read_confirmations(ctx, shards, replies),
        ("revoke", upto),
        HeldWatermark(None, "", upto, who, note, public),
    )
    return sum(REVOKE_BEFORE.reply(reply).ended for reply in replies[: len(shards)])


def _watermark(ctx: Context, at: int | None) -> Op[int]:
    """The last login time (ms) that is revoked, on all shards though their clocks differ: before ``at``, or now.

    "Now" is by the first shard's clock, but includes every session that has begun: a login time may be ahead of a clock
    that was set back, or that an earlier watermark is ahead of.
    """
    latest_logins = yield from latest(ctx)
    if at is None:
        return max(latest_logins[0].now, *(max(login.newest, login.revoked + 1) for login in latest_logins))
    now = max(login.now for login in latest_logins)
    if at > now + _SKEW:
        raise InvalidArgument("at", "must not lie in the future", "in_the_future")
    return min(at - 1, now)


def kick_one(ctx: Context, uid: str, sid: str, request: EndRequest) -> Op[KickResult]:
    """End one session. One round trip: past its deadline it ends as expired, else as asked, and gets its tombstone."""
    check_capacity(ctx)
    shard = ctx.shard(uid)
    reply, replicas = yield from _end(ctx, shard, request.end_one(ctx, shard, uid, sid))
    block = _block_of(ctx, replicas, uid, reply.block)
    if reply.ended or reply.row.core is None:  # it had ended before: perhaps by this call, whose reply was lost
        hold_end(ctx, replicas, request.without_block(), uid, sid, reply.row.login or reply.now)
    if reply.ended:
        kicked = [(yield from _kicked_session(ctx, shard, uid, sid, reply.row))]
        return KickResult(kicked, [], confirmed=replicas.confirmed, block=block)
    if reply.row.core is None:
        yield from settle_stale(ctx, shard, [(uid, sid)])
    already_ended = yield from _read_ends(ctx, shard, uid, [sid])
    return KickResult([], already_ended, confirmed=replicas.confirmed, block=block)


def _kicked_session(ctx: Context, shard: Shard, uid: str, sid: str, row: SessionRow) -> Op[Session]:
    return Session.from_reply(uid, sid, row, (yield from _labels(ctx, shard, [row])))


def _labels(ctx: Context, shard: Shard, rows: list[SessionRow]) -> Op[Labels]:
    """The texts of the labels of these rows; none where they cannot be read now."""
    with contextlib.suppress(Unavailable):
        return (yield from label_texts(ctx, [(shard, row.core) for row in rows if row.core])).get(shard, NO_LABELS)
    return NO_LABELS


def _block_of(ctx: Context, replicas: Replicas, uid: str, fields: list[bytes]) -> Block | None:
    """The block that came with a kick, held like the kick."""
    if not fields:
        return None
    block = replace(Block.from_reply(uid, fields), confirmed=replicas.confirmed)
    hold_block(ctx, replicas, block)
    return block


def _kick_all(ctx: Context, uid: str, request: EndRequest, keep: list[str]) -> Op[KickResult]:
    """Two round trips: a script may write only records whose keys it was given. A session that has begun since the
    first, or that is one of very many, gets its tombstone in a third."""
    check_capacity(ctx)
    shard = ctx.shard(uid)
    key = shard.user(uid)
    [members] = yield [command(key, "SMEMBERS", key)]
    known = [sid for sid in map(text, members) if sid not in keep][:BATCH]
    reply, replicas = yield from _end(ctx, shard, request.end_all_but(ctx, shard, uid, keep, known))
    block = _block_of(ctx, replicas, uid, reply.block)
    # All that had begun, also those that an earlier call ended whose reply was lost. Login may be ahead of the clock.
    # A session of this very millisecond that this call has not ended began behind it.
    upto = max(reply.now - 1, reply.newest)
    held = HeldEnd(shard, uid, upto, request.without_block(), keep=frozenset(keep))
    hold(ctx, replicas, ("user", request.cause, uid, *sorted(keep)), held)
    rows = dict(zip(known, reply.rows, strict=True))
    rows |= yield from _finish_ends(ctx, shard, uid, reply, rows)
    yield from settle_stale(ctx, shard, [(uid, sid) for sid in known if rows[sid].core is None])
    labels = yield from _labels(ctx, shard, [rows[sid] for sid in reply.ended if sid in rows])
    kicked = [Session.from_reply(uid, sid, rows[sid], labels) for sid in reply.ended if sid in rows and rows[sid].core]
    return KickResult(in_list_order(kicked), [], confirmed=replicas.confirmed, block=block)


def _finish_ends(
    ctx: Context, shard: Shard, uid: str, reply: EndReply, known: Container[str]
) -> Op[dict[str, SessionRow]]:
    """Write the tombstones of ended sessions that were not ``known``, and read these. Where that fails the sessions
    have ended all the same, and a sweep writes the tombstones."""
    others = [sid for sid in reply.ended + reply.overdue if sid not in known]
    if not others:
        return {}
    try:
        [raw, *_] = yield [
            read_call(ctx, shard, uid, others),
            *settle_calls(ctx, shard, [(uid, sid) for sid in others]),
        ]
    except (Unavailable, CorruptData):
        return {}
    return {session.session_id: session.row for session in found_rows(uid, raw)}


def _read_ends(ctx: Context, shard: Shard, uid: str, sids: list[str]) -> Op[list[Ended]]:
    """How these sessions ended, as far as that is kept."""
    [raw] = yield [read_call(ctx, shard, uid, sids)]
    ended = [session for session in found_rows(uid, raw) if session.state == ENDED]
    notes, _ = yield from read_notes(shard, [session.row for session in ended])
    return [session.ended(notes) for session in ended]
