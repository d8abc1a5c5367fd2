"""Begin sessions: one, or many for imports and load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from presence_core.errors import CorruptData, InvalidArgument, LoginRefused, OutcomeUnknown, RefusalCode, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import BLOCK_FIELDS, Login, PublicBlock, Session, in_words, moment, stored_number, text
from presence_core.operations.context import Context, FoundSession, found_rows
from presence_core.operations.durability.held_changes import Replicas, read_confirmations, write_and_wait_calls
from presence_core.operations.known_devices import need_keys
from presence_core.operations.pending_logouts import end_logged_out
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.held_ends import hold_end
from presence_core.operations.sessions.login_calls import (
    NO_REPLY,
    LoginAttempt,
    begin_calls,
    labels_of,
    login_call,
)
from presence_core.operations.sessions.login_row import LoginRow, check_many_row, check_row
from presence_core.operations.sessions.read import read_call
from presence_core.operations.sessions.settle import settle_calls, settle_stale, settle_stale_of_shards
from presence_core.operations.sessions.validate import make_token
from presence_core.schema.record import SessionRow
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first
from presence_core.scripts.sessions import LIVE, LOGIN, LoginReply, RefusedReply
from presence_core.scripts.staff import READ_BLOCKS

BATCH: Final = 500
"""Logins in one pipeline."""

FEW_SESSIONS: Final = 10
"""Below this many sessions a user, logins often end others."""

MAX_ON_BEHALF: Final = 100
"""Live sessions on behalf of one user (include/sessions/on_behalf.lua)."""


@checked_first
def login(ctx: Context, given: Mapping[str, Any]) -> Op[Login]:
    row = check_row(ctx.settings, ctx.visitor, given, ctx.new_id())
    yield CHECKED
    decides = given.get("session_id") is not None or row.max_sessions < FEW_SESSIONS
    [answer] = yield from _login(ctx, [row], decides=decides)
    if isinstance(answer, LoginRefused):
        raise answer
    return answer


@checked_first
def login_many(ctx: Context, rows: Iterable[Mapping[str, Any]], imported: bool) -> Op[list[Login | LoginRefused]]:
    if not isinstance(rows, Iterable):
        raise InvalidArgument("rows", "must be dicts of login's arguments", "wrong_type")
    ready = []
    for number, given in enumerate(rows, 1):
        try:
            ready.append(check_many_row(ctx.settings, ctx.visitor, given, ctx.new_id(), imported))
        except InvalidArgument as error:
            raise InvalidArgument(f"row {number}: {error.field}", error.rule, error.code) from None
    yield CHECKED
    answers: list[Login | LoginRefused] = []
    for first in range(0, len(ready), BATCH):
        try:
            answers += yield from _login(ctx, ready[first : first + BATCH])
        except (CorruptData, Unavailable) as error:
            if not answers:
                raise
            server = error.server if isinstance(error, Unavailable) else ""
            raise OutcomeUnknown(f"The first {first} logins were made. {error}", server) from error
    return answers


def _login(ctx: Context, rows: list[LoginRow], *, decides: bool = False) -> Op[list[Login | LoginRefused]]:
    """``decides``: the logins are likely to need a decision, so that a first try without one would be wasted."""
    attempts = []
    if any(row.device_id for row in rows):
        yield from need_keys(ctx)
    for row in rows:
        row.place = ctx.place_of(row.ip)
        attempts.append(LoginAttempt(ctx.shard(row.uid), row, ctx.new_secret()))
    try:
        yield from _send(ctx, attempts) if decides else _begin(ctx, attempts)
        yield from _retry_refused(ctx, attempts)
        yield from end_logged_out(ctx, attempts)
    except (CorruptData, Unavailable) as error:
        is_begun = any(isinstance(attempt.reply, LoginReply) for attempt in attempts)
        if not is_begun or isinstance(error, OutcomeUnknown):
            if type(error) is Unavailable and error.code == "OOM":
                return (yield from _refuse_blocked(ctx, attempts, error))
            raise
        if isinstance(error, CorruptData):
            raise OutcomeUnknown(f"Some of the logins were made: check before you repeat them. {error}") from error
        raise OutcomeUnknown(error.sentence, error.server, error.code) from error
    overdue = [attempt for attempt in attempts if isinstance(attempt.reply, RefusedReply) and attempt.reply.is_overdue]
    yield from settle_stale_of_shards(
        ctx, [(attempt.shard, (attempt.row.uid, attempt.row.session_id)) for attempt in overdue]
    )
    yield from _finish_ends(ctx, attempts)
    return [_answer(ctx, attempt) for attempt in attempts]


def _begin(ctx: Context, attempts: list[LoginAttempt]) -> Op[None]:
    """Begin the sessions that need no decision, many in a call; then, one in a call, those that turned out to need
    one. Sessions that need one for sure are sent with the first."""
    begins = begin_calls(ctx, attempts)
    users = {attempt.row.uid for begin in begins for attempt in begin.attempts}
    direct = [attempt for attempt in attempts if attempt.row.uid not in users]
    replies = yield [*(begin.call() for begin in begins), *(login_call(ctx, attempt) for attempt in direct)]
    for begin, reply in zip(begins, replies, strict=False):
        begin.take_reply(reply)
    for attempt, reply in zip(direct, replies[len(begins) :], strict=True):
        attempt.reply = LOGIN.reply(reply)
    left = [attempt for attempt in attempts if attempt.reply is NO_REPLY]
    if left:
        yield from _send(ctx, left)


def _send(ctx: Context, attempts: list[LoginAttempt]) -> Op[None]:
    replies = yield [login_call(ctx, attempt) for attempt in attempts]
    for attempt, reply in zip(attempts, replies, strict=True):
        attempt.reply = LOGIN.reply(reply)


def _retry_refused(ctx: Context, attempts: list[LoginAttempt]) -> Op[None]:
    """Try a login again that a limit refused, where some of the user's entries had no live session: a stale entry must
    not keep a user out."""
    again = []
    for attempt in attempts:
        if isinstance(attempt.reply, RefusedReply) and attempt.reply.code in ("limit", "device_limit"):
            again += [attempt] if (yield from _settle_stale_of_user(ctx, attempt.shard, attempt.row.uid)) else []
    if again:
        yield from _send(ctx, again)


def _refuse_blocked(ctx: Context, attempts: list[LoginAttempt], error: Unavailable) -> Op[list[Login | LoginRefused]]:
    """Refuse users who are blocked, while a server without memory does not run LOGIN; not noted as failures. Raises the
    error if someone is not blocked."""
    keys = [attempt.shard.block(attempt.row.uid) for attempt in attempts]
    replies = yield [call_of(READ_BLOCKS, (key,), ctx.now, "lenient") for key in keys]
    for attempt, reply in zip(attempts, replies, strict=True):
        [block] = READ_BLOCKS.reply(reply)
        if not block.blocks:
            raise error
        row = dict(zip(BLOCK_FIELDS, block.row, strict=True))
        attempt.reply = RefusedReply("blocked", False, row["message"] or b"", row["until"] or b"")
    return [_answer(ctx, attempt) for attempt in attempts]


def _finish_ends(ctx: Context, attempts: list[LoginAttempt]) -> Op[None]:
    """Read the sessions that limits ended, write their tombstones, and hold the ends."""
    reads: list[Call] = []
    writes: list[Call] = []
    over: list[tuple[LoginAttempt, LoginReply]] = []
    for attempt in attempts:
        reply, uid = attempt.reply, attempt.row.uid
        if isinstance(reply, RefusedReply) or not (reply.replaced or reply.overdue):
            continue
        if reply.replaced:
            over.append((attempt, reply))
            reads.append(read_call(ctx, attempt.shard, uid, reply.replaced))
        writes += settle_calls(ctx, attempt.shard, [(uid, sid) for sid in reply.replaced + reply.overdue])
    replicas = Replicas(False if ctx.settings.confirm_replicas else None, {})
    found: list[dict[str, FoundSession]] = [{} for _ in over]
    if writes:
        shards = [attempt.shard for attempt, _ in over]
        try:
            replies = yield [*reads, *writes, *write_and_wait_calls(ctx, shards)]
            replicas = read_confirmations(ctx, shards, replies)
            for place, (attempt, _) in enumerate(over):
                sessions = found_rows(attempt.row.uid, replies[place])
                found[place] = {session.session_id: session for session in sessions if session.row.core}
                attempt.replaced = [session.session() for session in found[place].values()]
        except (Unavailable, CorruptData):
            pass  # the logins are made, and their tokens are given only once: a sweep writes the tombstones
    for (attempt, reply), sessions_by_id in zip(over, found, strict=True):
        _hold(ctx, replicas, attempt.row.uid, reply, sessions_by_id)


def _hold(ctx: Context, replicas: Replicas, uid: str, reply: LoginReply, found: dict[str, FoundSession]) -> None:
    """Hold the ends of the sessions that a login has replaced. A session whose record could not be read began before
    the login; one that is live was read on another master, which does not have the end."""
    for sid in reply.replaced:
        session = found.get(sid)
        cause = (session.row.cause if session else None) or b"limit"
        is_lost = replicas.confirmed and session and session.state == LIVE
        upto = session.row.login if session else reply.row.login
        request = EndRequest("replaced", cause.decode(), uid)
        hold_end(ctx, replace(replicas, confirmed=False) if is_lost else replicas, request, uid, sid, upto)


def _answer(ctx: Context, attempt: LoginAttempt) -> Login | LoginRefused:
    row, reply = attempt.row, attempt.reply
    if isinstance(reply, RefusedReply):
        return _refusal(ctx, row, reply)
    if reply.has_no_address:
        ctx.on_no_address()
    token = make_token(row.uid, row.session_id, attempt.secret)
    return Login(partial(_session, row, reply.row), token, attempt.replaced, reply.guesses)


def _session(row: LoginRow, stored: SessionRow) -> Session:
    (_, client), (_, agent) = labels_of(row)
    full = stored._replace(client=client, agent=agent, **row.given())
    return Session.from_reply(row.uid, row.session_id, full)


def _settle_stale_of_user(ctx: Context, shard: Shard, uid: str) -> Op[bool]:
    """End the user's entries that no live session backs. Returns whether there was any."""
    [reply] = yield [read_call(ctx, shard, uid)]
    stale = [(uid, found.session_id) for found in found_rows(uid, reply) if found.state != LIVE]
    if stale:
        yield from settle_stale(ctx, shard, stale)
    return bool(stale)


def _refusal(ctx: Context, row: LoginRow, reply: RefusedReply) -> LoginRefused:
    settings, code = ctx.settings, cast("RefusalCode", reply.code)
    if code in ("blocked", "block_rule"):
        until = stored_number(reply.until)
        block = PublicBlock(text(reply.message) or None, None if until is None else moment(until))
        sentence = in_words(block.message, block) if code == "blocked" else _rule_sentence(reply.kind, block)
        return LoginRefused(code, sentence, block.message, block.until)
    if row.on_behalf_by:
        most = f"The limit of {MAX_ON_BEHALF} sessions on behalf of one user is reached: end one of them first."
    else:
        most = f"The limit of {row.max_sessions} sessions is reached: sign out on another device first."
    sentence = {
        "limit": most,
        "device_limit": f"The limit of {settings.max_sessions_per_device} sessions on one device is reached: "
        "end one of them first.",
        "no_address": "You cannot sign in from an address that cannot be read.",
        "ended": "This session id has ended; a session never comes back. Log in with a new id.",
        "expired": "This session would already be past its deadline.",
    }[code]
    return LoginRefused(code, sentence)


def _rule_sentence(kind: str, block: PublicBlock) -> str:
    """What the visitor reads: staff's message or, without it, what the rule is about; and the end, if there is one."""
    origins = {"app_version": "with this version of the app", "country": "from your country"}
    origin = origins.get(kind, "from your network")
    message = block.message or f"You cannot sign in {origin} at the moment."
    return message if block.until is None else in_words(message, block)
