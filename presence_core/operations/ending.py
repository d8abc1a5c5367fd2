"""Sessions end: logout by the user, kick by staff."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from presence_core import settings as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.keyspace import Shard, digest
from presence_core.models import NO_LABELS, Block, Ended, KickResult, Session
from presence_core.operations.context import ENDED, LIVE, Context, found_rows, label_texts, read_notes
from presence_core.operations.holding import (
    HeldEnds,
    HeldMark,
    Replicas,
    alone,
    answered,
    asking,
    check_room,
    hold,
    hold_block,
    hold_end,
    login_of,
    mark_calls,
)
from presence_core.operations.reading import latest, read_call
from presence_core.operations.upkeep import heal, tidy_calls
from presence_core.scripts import FINISH, Call, Op, run

_SKEW: Final = 60_000
"""What a caller's clock may be ahead of Redis's where a moment is to lie in the past, ms."""


@dataclass(slots=True)
class Why:
    """What finish.lua is told of an end."""

    reason: str
    cause: str
    by: str
    note: str = ""
    message: str = ""
    ticket: str = ""
    block_for: str = ""  #: seconds
    job: str = ""  #: the bulk kick that this is a part of: it counts, in place of an audit entry for each
    epoch: int = 0  #: of that bulk kick
    silent: bool = False  #: no audit entry: who ends them writes one of their own

    def one(self, ctx: Context, s: Shard, uid: str, sid: str, began: int | str = "") -> Call:
        """End this session; where ``began`` (login ms) is given, only the one that began then."""
        return self._call(ctx, s, uid, began, "one", [sid], s.record(uid, sid))

    def all_but(self, ctx: Context, s: Shard, uid: str, keep: list[str]) -> Call:
        return self._call(ctx, s, uid, "", "all", keep)

    def _call(
        self, ctx: Context, s: Shard, uid: str, began: int | str, mode: str, sids: list[str], *records: str
    ) -> Call:
        note_id = digest(self.note) if self.note else ""
        message_id = digest(self.message) if self.message else ""
        told = "silent" if self.silent else self.epoch if self.job else "audit"
        keys = (*s.lists, *s.of_user(uid), s.audit, s.note(note_id), s.note(message_id), s.block(uid), s.blocks,
                s.job(self.job), *records)  # fmt: skip
        return run(FINISH, keys, ctx.now, ctx.policy, uid, self.reason, self.cause, self.by, note_id, self.note,
                   message_id, self.message, self.ticket, self.block_for, told, began, mode, *sids)  # fmt: skip


def logout(ctx: Context, uid: object, session_id: object) -> Op[bool]:
    owner, sid = check.uid(uid), check.session_id(session_id)

    def steps() -> Op[bool]:
        shard, why = ctx.shard(owner), Why("logout", "user", owner)
        (done, _, row, _, now), *more = yield [why.one(ctx, shard, owner, sid), *asking(ctx, [shard])]
        told = answered(ctx, [shard], more)
        if done or not row:  # it had ended before: by the same call, it may be, whose answer was lost
            hold_end(ctx, told, why, owner, sid, login_of(row) or now)
        if not row:
            yield from heal(ctx, shard, [(owner, sid)])
        return bool(done)

    return steps()


def kick(
    ctx: Context,
    uid: object,
    session_id: object,
    by: object,
    reason: object,
    message: object,
    ticket: object,
    keep: Iterable[object],
    block_for: object = None,
) -> Op[KickResult]:
    owner = check.uid(uid)
    sid = None if session_id is None else check.session_id(session_id)
    if isinstance(keep, str | bytes) or not isinstance(keep, Iterable):
        raise InvalidArgument("keep", "must be a list of session ids")
    kept = [check.session_id(one, "keep") for one in keep]
    if sid is not None and kept:
        raise InvalidArgument("keep", "goes with a kick of all of a user's sessions, not of one")
    why = Why(
        "kicked",
        "staff",
        check.actor(by),
        check.prose("reason", reason),
        "" if message is None else check.prose("message", message),
        check.short("ticket", ticket, 64) or "",
        "" if block_for is None else str(check.seconds("block_for", block_for)),
    )
    return _kick_all(ctx, owner, why, kept) if sid is None else _kick_one(ctx, owner, sid, why)


def revoke_before(ctx: Context, at: object, by: object, reason: object, message: object) -> Op[int]:
    given = None if at is None else check.past("at", at)
    who, note = check.actor(by), check.prose("reason", reason)
    public = "" if message is None else check.prose("message", message)

    def steps() -> Op[int]:
        check_room(ctx)
        shards = ctx.keys.shards
        upto = yield from _watermark(ctx, given)
        calls = [
            *mark_calls(ctx, shards[:1], str(upto), who, note, public, 1),
            *mark_calls(ctx, shards[1:], str(upto), who, note, public, 0),
        ]
        replies = yield [*calls, *asking(ctx, shards)]
        hold(ctx, answered(ctx, shards, replies), ("revoke", upto), HeldMark(upto, who, note, public))
        killed: int = sum(reply[2] for reply in replies[: len(shards)])
        return killed

    return steps()


def _watermark(ctx: Context, at: int | None) -> Op[int]:
    """The last login time (ms) that is signed out, on all shards though their clocks differ: before ``at``, or now.

    "Now" is by the first shard's clock, but no session that is there may be spared: login times are ahead of a clock
    that has been set back, or that an earlier watermark is ahead of.
    """
    edges = yield from latest(ctx)
    if at is None:
        return max(edges[0].now, *(max(one.newest, one.revoked + 1) for one in edges))
    now = max(one.now for one in edges)
    if at > now + _SKEW:
        raise InvalidArgument("at", "must not lie in the future")
    return min(at - 1, now)


def _kick_one(ctx: Context, uid: str, sid: str, why: Why) -> Op[KickResult]:
    """One round trip: what is past its time ends as expired, else it is kicked and gets its tombstone."""
    check_room(ctx)
    shard = ctx.shard(uid)
    (done, _, row, held, now), *more = yield [why.one(ctx, shard, uid, sid), *asking(ctx, [shard])]
    told = answered(ctx, [shard], more)
    block = _block_of(ctx, told, uid, held)
    if done or not row:  # it had ended before: by the same call, it may be, whose answer was lost
        hold_end(ctx, told, alone(why), uid, sid, login_of(row) or now)
    if done:
        labels = NO_LABELS
        with contextlib.suppress(Unavailable):  # it is kicked: what cannot be read now must not hide that
            labels = (yield from label_texts(ctx, [(shard, row)]))[shard]
        kicked = [Session.from_reply(uid, sid, row, labels)]
        return KickResult(kicked, [], confirmed=told.sure, block=block)
    if not row:
        yield from heal(ctx, shard, [(uid, sid)])
    return KickResult([], (yield from _ends(ctx, shard, uid, [sid])), confirmed=told.sure, block=block)


def _block_of(ctx: Context, told: Replicas, uid: str, row: list[bytes]) -> Block | None:
    """The block that came with a kick, held like the kick."""
    if not row:
        return None
    block = replace(Block.from_reply(uid, row), confirmed=told.sure)
    hold_block(ctx, told, block)
    return block


def _kick_all(ctx: Context, uid: str, why: Why, keep: list[str]) -> Op[KickResult]:
    check_room(ctx)
    shard = ctx.shard(uid)
    [reply] = yield [read_call(ctx, shard, uid)]
    before = {found.session_id: found for found in found_rows(uid, reply)}
    dirty = [(uid, sid) for sid, found in before.items() if found.state != LIVE]
    yield from heal(ctx, shard, dirty)
    (done, late, _, held, now), *more = yield [why.all_but(ctx, shard, uid, keep), *asking(ctx, [shard])]
    told = answered(ctx, [shard], more)
    block = _block_of(ctx, told, uid, held)
    # All that had begun: also those that an earlier call ended, whose answer was lost. Login may be ahead of the clock.
    upto = max(now, *(login_of(found.row) for found in before.values()), 0)
    hold(ctx, told, ("user", uid, *sorted(keep)), HeldEnds(shard, uid, keep, upto, alone(why)))
    sids = [sid.decode() for sid in done]
    ended = [(uid, sid) for sid in sids + [sid.decode() for sid in late]]
    new = [sid for sid in sids if sid not in before]  # logged in while we looked
    if ended:
        try:
            looks = [read_call(ctx, shard, uid, new)] if new else []
            replies = yield [*looks, *tidy_calls(ctx, shard, ended)]
            before |= {found.session_id: found for found in (found_rows(uid, replies[0]) if new else [])}
        except (Unavailable, CorruptData):
            pass  # dead all the same: a sweep writes their tombstones
    kicked = [before[sid].session() for sid in sids if sid in before and before[sid].row[1]]
    kicked.sort(key=lambda one: (one.login_at, one.ref.encode()), reverse=True)
    return KickResult(kicked, [], confirmed=told.sure, block=block)


def _ends(ctx: Context, shard: Shard, uid: str, sids: list[str]) -> Op[list[Ended]]:
    """Why these are over, as far as that is still known."""
    [reply] = yield [read_call(ctx, shard, uid, sids)]
    over = [found for found in found_rows(uid, reply) if found.state == ENDED]
    notes, _ = yield from read_notes(shard, [found.row for found in over])
    return [found.ended(notes) for found in over]
