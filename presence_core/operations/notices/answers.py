"""What a user answers to a notice: the login was theirs, or it was not."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final, NamedTuple

from presence_core import validation as check
from presence_core.errors import Unavailable
from presence_core.models import Ended, Notice, NoticeAnswer, Session, as_ms, login_ms, stored_number
from presence_core.models.places import read_place
from presence_core.operations.context import Context
from presence_core.operations.notices import queue
from presence_core.operations.permissions import DENY_NEEDS, require
from presence_core.operations.sessions.authenticate import require_sign_in
from presence_core.operations.sessions.end import kick_one
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.tombstones import sessions_of_refs
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command, pairs
from presence_core.scripts.notices import ANSWER_NOTICE

REASON: Final = "This was not me"
"""The reason of what "not_me" does: staff see it with the block, the end, and the sign-in of the other sessions."""

LEASE: Final = 10_000
"""For so long, ms, an answer is reserved for the call that carries it out. If that breaks off, the user can answer
again."""

TIME_BYTES: Final = 8
"""Of the time before the last place of a user (include/login/odd_login.lua)."""


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
    name = queue.notice_id(sid, happened)
    notice = next((known for known in (yield from queue.read_stored(ctx, owner)) if known.id == name), None)
    records = yield from sessions_of_refs(ctx, [(owner, sid)])
    denied = _Denied(owner, sid, happened, notice, records.get(f"{owner}:{sid}"))
    if notice is None and denied.record is None:
        return False
    shard, call = ctx.shard(owner), ctx.new_id()

    def note(said: str, lease: int | None = None) -> Op[bool]:
        [reply] = yield [
            call_of(ANSWER_NOTICE, (shard.notices(owner), shard.notice_queue, shard.audit), given_now=ctx.now,
                    audit_cap=ctx.audit_cap, uid=owner, id=name, sid=sid, at=happened, answer=said, until_ms=ends,
                    call=call, lease="" if lease is None else lease)
        ]  # fmt: skip
        return bool(ANSWER_NOTICE.reply(reply) == 1)

    if answer == "not_me":
        yield from require([shard], DENY_NEEDS)
        if not (yield from note("not_me", LEASE)):
            return False
        try:
            yield from _deny(ctx, denied, seconds)
        except Unavailable:
            with contextlib.suppress(Unavailable):  # so that the user can answer again at once
                yield from note("")
            raise
    is_taken = yield from note(str(answer))
    if is_taken:
        with contextlib.suppress(Unavailable):  # the answer is taken, also if it is not counted
            yield from queue.count_answer(ctx, str(answer))
    return is_taken


class _Denied(NamedTuple):
    """The login, or the move of a session, that was not the user's."""

    uid: str
    session_id: str
    at: int  #: ms
    notice: Notice | None  #: None: the link is of a webhook
    record: Session | Ended | None  #: None: nothing is kept of the session


def _deny(ctx: Context, denied: _Denied, block_for: str) -> Op[None]:
    """End the session if it lives, and require a new sign-in from the others.

    A session that has ended changes nothing else: its visitor may have signed in again since.
    """
    uid, sid = denied.uid, denied.session_id
    yield from _forget_device(ctx, denied)
    yield from _forget_place(ctx, denied)
    yield from require_sign_in(ctx, uid, None, by=uid, reason=REASON, message=None, ticket=None, keep=(sid,))
    yield from kick_one(ctx, uid, sid, EndRequest("kicked", "denied", uid, note=REASON, block_for=block_for))


def _forget_device(ctx: Context, denied: _Denied) -> Op[None]:
    """The device of this login is no longer known: its next login is reported. It is the one that the notice names.
    A notice of a webhook names none: then it is that of the session's login, or, if it was new and has logged in again
    since, one of those that have."""
    key = ctx.shard(denied.uid).known(denied.uid)
    names: list[bytes] = [bytes.fromhex(device) for device in denied.notice.devices] if denied.notice else []
    record = denied.record
    if not names and record is not None:
        [flat] = yield [command(key, "HGETALL", key, lenient=True)]
        login = login_ms(record)
        was_new = record.new_device and denied.at == login
        times = {name: stored_number(at) or 0 for name, at in pairs(flat or ())}
        names = [name for name, at in times.items() if at == login or (was_new and at > login)]
    if names:
        yield [command(key, "HDEL", key, *names)]


def _forget_place(ctx: Context, denied: _Denied) -> Op[None]:
    """Logins are compared with the place before a distant login again, unless the user has signed in elsewhere since:
    the next login from there is reported, too."""
    record = denied.record
    if record is None or record.place is None or record.previous_place is None or record.previous_login_at is None:
        return
    key = ctx.shard(denied.uid).place(denied.uid)
    [last] = yield [command(key, "GET", key, lenient=True)]
    if read_place((last or b"")[TIME_BYTES:]) == replace(record.place, network=None):
        before = as_ms(record.previous_login_at).to_bytes(TIME_BYTES, "big") + record.previous_place.packed()
        yield [command(key, "SET", key, before, "XX", "KEEPTTL")]


def _notice_id(value: object) -> str:
    return check.plain_text("notice_id", value, 64, "must be the id of a notice", "malformed")
