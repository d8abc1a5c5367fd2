"""What a user answers to a notice: the login was theirs, or it was not."""

from __future__ import annotations

import contextlib
from typing import Final

from presence_core import validation as check
from presence_core.errors import Unavailable
from presence_core.models import Notice, NoticeAnswer, Session, login_ms, stored_number
from presence_core.operations.context import Context
from presence_core.operations.notices import queue
from presence_core.operations.permissions import DENY_NEEDS, require
from presence_core.operations.sessions import read
from presence_core.operations.sessions.authenticate import require_sign_in
from presence_core.operations.sessions.end import kick_one
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command, pairs
from presence_core.scripts.notices import ANSWER_NOTICE

REASON: Final = "This was not me"
"""What the audit says of a sign-in that is required from the user's other sessions."""


@checked_first
def notices_of(ctx: Context, uid: object) -> Op[list[Notice]]:
    owner = check.uid(uid)
    yield CHECKED
    return (yield from queue.read_stored(ctx, owner))


@checked_first
def notice_is_open(ctx: Context, uid: object, notice_id: object) -> Op[bool]:
    owner, name = check.uid(uid), _notice_id(notice_id)
    yield CHECKED
    known = yield from queue.read_stored(ctx, owner)
    return all(notice.id != name or notice.answer is None for notice in known)


@checked_first
def answer_notice(
    ctx: Context,
    uid: object,
    session_id: object,
    at: object,
    answer: object,
    until: object,
    block_for: object,
) -> Op[bool]:
    owner, sid = check.uid(uid), check.session_id(session_id)
    happened, ends = check.time_ms("at", at), check.time_ms("until", until)
    check.choice("answer", answer, NoticeAnswer)
    seconds = "" if block_for is None else str(check.seconds("block_for", block_for))
    yield CHECKED
    notice_id, is_denied = queue.notice_id(sid, happened), answer == "not_me"
    if not (yield from notice_is_open(ctx, owner, notice_id)):
        return False
    session = yield from read.get(ctx, owner, sid)
    if session is None:
        return False
    if is_denied and not (yield from _deny(ctx, session, seconds)):
        return False
    shard = ctx.shard(owner)
    keys = (shard.notices(owner), shard.notice_queue, shard.audit)
    [reply] = yield [
        call_of(ANSWER_NOTICE, keys, given_now=ctx.now, audit_cap=ctx.audit_cap, uid=owner, id=notice_id, sid=sid,
                at=happened, answer=str(answer), until_ms=ends)
    ]  # fmt: skip
    is_taken = ANSWER_NOTICE.reply(reply) == 1
    if is_taken:
        with contextlib.suppress(Unavailable):  # the answer is taken, also if it is not counted
            yield from queue.count_answer(ctx, str(answer))
    return is_taken or is_denied


def _deny(ctx: Context, session: Session, block_for: str) -> Op[bool]:
    """End the session, and require a new sign-in from the others. False: it had ended.

    The link opens nothing once the session has ended. So that comes last: if this breaks off before, the user can
    answer again.
    """
    uid, sid = session.uid, session.session_id
    yield from require([ctx.shard(uid)], DENY_NEEDS)
    yield from _forget_device(ctx, session)
    yield from require_sign_in(ctx, uid, None, by=uid, reason=REASON, message=None, ticket=None, keep=(sid,))
    result = yield from kick_one(ctx, uid, sid, EndRequest("kicked", "denied", uid, block_for=block_for))
    return bool(result.kicked)


def _forget_device(ctx: Context, session: Session) -> Op[None]:
    """The device of this login, if it has not logged in again since, is no longer known: its next login is reported."""
    key = ctx.shard(session.uid).known(session.uid)
    [flat] = yield [command(key, "HGETALL", key, lenient=True)]
    denied = [name for name, at in pairs(flat or ()) if stored_number(at) == login_ms(session)]
    if denied:
        yield [command(key, "HDEL", key, *denied)]


def _notice_id(value: object) -> str:
    return check.plain_text("notice_id", value, 64, "must be the id of a notice", "malformed")
