"""Sessions end: logout by the user, kick by staff."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    hold_ends,
    login_of,
    mark_calls,
)
from presence_core.operations.reading import read_call
from presence_core.operations.upkeep import heal, tidy_calls
from presence_core.scripts import BLOCKED, FINISH, Call, Op, run


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
        (done, _, row), *more = yield [why.one(ctx, shard, owner, sid), *asking(ctx, [shard])]
        told = answered(ctx, [shard], more)
        if done or not row:  # it had ended before: by the same call, it may be, whose answer was lost
            hold_end(ctx, told, why, owner, sid, login_of(row) or told.now)
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
    began = "" if at is None else str(check.past("at", at) - 1)
    who, note = check.actor(by), check.prose("reason", reason)
    public = "" if message is None else check.prose("message", message)

    def steps() -> Op[int]:
        check_room(ctx)
        killed, upto, told = 0, began, None
        # The first shard says what "now" is, so that all have one watermark.
        for tell, shards in ((1, ctx.keys.shards[:1]), (0, ctx.keys.shards[1:])):
            replies = yield [*mark_calls(ctx, shards, upto, who, note, public, tell), *asking(ctx, shards)]
            behind = answered(ctx, shards, replies)
            told = told & behind if told else behind
            for reply in replies[: len(shards)]:
                if len(reply) < 2:
                    raise InvalidArgument("at", "must not lie in the future")
                upto = str(reply[1])
                killed += reply[2]
        if told:
            hold(ctx, told, ("revoke", upto), HeldMark(int(upto), who, note, public))
        return killed

    return steps()


def _kick_one(ctx: Context, uid: str, sid: str, why: Why) -> Op[KickResult]:
    """One round trip: what is past its time ends as expired, else it is kicked and gets its tombstone."""
    check_room(ctx)
    shard = ctx.shard(uid)
    (done, _, row), *more = yield [why.one(ctx, shard, uid, sid), *_asked(ctx, shard, uid, why)]
    told = _answered(ctx, shard, uid, why, more)
    if done or not row:  # it had ended before: by the same call, it may be, whose answer was lost
        hold_end(ctx, told, alone(why), uid, sid, login_of(row) or told.now)
    if done:
        labels = NO_LABELS
        with contextlib.suppress(Unavailable):  # it is kicked: what cannot be read now must not hide that
            labels = (yield from label_texts(ctx, [(shard, row)]))[shard]
        kicked = [Session.from_reply(uid, sid, row, labels)]
        return KickResult(kicked, [], confirmed=told.sure)
    if not row:
        yield from heal(ctx, shard, [(uid, sid)])
    return KickResult([], (yield from _ends(ctx, shard, uid, [sid])), confirmed=told.sure)


def _asked(ctx: Context, shard: Shard, uid: str, why: Why) -> list[Call]:
    """What goes behind a kick where replicas are to confirm it."""
    look = [run(BLOCKED, (shard.block(uid),), ctx.now)] if why.block_for and ctx.settings.confirm_replicas else []
    return [*look, *asking(ctx, [shard])]


def _answered(ctx: Context, shard: Shard, uid: str, why: Why, more: list[Any]) -> Replicas:
    """Whether they did; a block that came with the kick is held here."""
    has_block = bool(why.block_for and ctx.settings.confirm_replicas)
    told = answered(ctx, [shard], more)
    if has_block:
        hold_block(ctx, told, Block.from_reply(uid, more[0][1]))
    return told


def _kick_all(ctx: Context, uid: str, why: Why, keep: list[str]) -> Op[KickResult]:
    check_room(ctx)
    shard = ctx.shard(uid)
    [reply] = yield [read_call(ctx, shard, uid)]
    before = {found.session_id: found for found in found_rows(uid, reply)}
    dirty = [(uid, sid) for sid, found in before.items() if found.state != LIVE]
    yield from heal(ctx, shard, dirty)
    (done, late, _), *more = yield [why.all_but(ctx, shard, uid, keep), *_asked(ctx, shard, uid, why)]
    told = _answered(ctx, shard, uid, why, more)
    if told.now:  # all that had begun: also those that an earlier call ended, whose answer was lost
        hold(ctx, told, ("user", uid, *sorted(keep)), HeldEnds(shard, uid, keep, told.now, alone(why)))
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
    if not told.now:
        hold_ends(ctx, told, why, kicked)
    kicked.sort(key=lambda one: (one.login_at, one.ref.encode()), reverse=True)
    return KickResult(kicked, [], confirmed=told.sure)


def _ends(ctx: Context, shard: Shard, uid: str, sids: list[str]) -> Op[list[Ended]]:
    """Why these are over, as far as that is still known."""
    [reply] = yield [read_call(ctx, shard, uid, sids)]
    over = [found for found in found_rows(uid, reply) if found.state == ENDED]
    notes = yield from read_notes(shard, [found.row for found in over])
    return [found.ended(notes) for found in over]
