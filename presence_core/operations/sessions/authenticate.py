"""Fresh authentication: a new secret, a visitor who has signed in again, and staff who require that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from struct import pack, unpack_from

from presence_core import validation as check
from presence_core.errors import InvalidArgument, LoginRefused, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import NO_LABELS, Login, Session, SignInResult
from presence_core.operations.context import Context, found_rows, label_texts
from presence_core.operations.durability.held_changes import (
    Replicas,
    check_capacity,
    read_confirmations,
    wait_calls,
)
from presence_core.operations.sessions.held_sign_ins import (
    Authentication,
    DemandRequest,
    hold_demand,
    hold_secret,
    rotation,
)
from presence_core.operations.sessions.read import in_list_order, read_call
from presence_core.operations.sessions.settle import settle_stale
from presence_core.operations.sessions.validate import (
    NONCE,
    make_token,
    next_secret,
    note_old_secret,
    read_token,
    secret_digest,
)
from presence_core.schema.record import SessionRow
from presence_core.scripts import sessions as scripts
from presence_core.scripts.calls import CHECKED, Op, checked_first
from presence_core.scripts.sessions import RotateReply

_ENDED = "This token opens no live session: it has ended, or its secret was changed."
_NOT_LIVE = "There is no live session with this id."
_DEMANDED = "A new sign-in is required: this session gets a new token by reauthenticated."


@checked_first
def rotate(ctx: Context, token: object) -> Op[Login]:
    uid, sid, old = read_token(token)
    nonce = ctx.new_secret()[:NONCE] if ctx.settings.rotate_grace else b""
    secret = next_secret(old, nonce) if nonce else ctx.new_secret()
    yield CHECKED
    return (yield from _rotate(ctx, uid, sid, old, secret, None, nonce))


@checked_first
def reauthenticated(ctx: Context, token: object, methods: object, mfa: object, began: object) -> Op[Login]:
    uid, sid, old = read_token(token)
    authentication = _authentication("token", sid, methods, mfa, began)
    secret = ctx.new_secret()
    yield CHECKED
    return (yield from _rotate(ctx, uid, sid, old, secret, authentication, b""))


@checked_first
def reauthenticated_session(
    ctx: Context, uid: object, session_id: object, methods: object, mfa: object, began: object
) -> Op[Session]:
    owner, sid = check.uid(uid), check.session_id(session_id)
    authentication = _authentication("session_id", sid, methods, mfa, began)
    yield CHECKED
    s = ctx.shard(owner)
    reply, _ = yield from _change(ctx, s, owner, sid, b"", b"", authentication, b"")
    return (yield from _session(ctx, s, owner, sid, reply.row))


def _authentication(field: str, sid: str, methods: object, mfa: object, began: object) -> Authentication:
    if check.is_on_behalf(sid):
        raise InvalidArgument(
            field, "must be of a session of the user, not of staff on behalf of the user", "on_behalf"
        )
    if check.is_mirrored(sid):
        raise InvalidArgument(field, "must not be of a mirrored session: the site does not ask us about it", "mirrored")
    packed = check.authentication(methods, mfa) or "0"
    return Authentication(packed, "" if began is None else check.time_ms("began", began))


def _rotate(
    ctx: Context,
    uid: str,
    sid: str,
    old: bytes,
    secret: bytes,
    authentication: Authentication | None,
    nonce: bytes,
) -> Op[Login]:
    """Put a secret in the place of the old one, ``nonce`` being what it was made with, if anything."""
    s, digest = ctx.shard(uid), secret_digest(old)
    reply, replicas = yield from _change(ctx, s, uid, sid, digest, secret_digest(secret), authentication, nonce)
    row = reply.row
    if reply.follower:
        secret, nonce = _following(old, reply)
    if authentication is not None and row.authentication:
        [at] = unpack_from(">Q", row.authentication)
        authentication = replace(authentication, at=at, began=authentication.began or at + 1)
    hold_secret(ctx, replicas, uid, sid, digest, row.secret, authentication, nonce)
    session = yield from _session(ctx, s, uid, sid, row)
    return Login(lambda: session, make_token(uid, sid, secret), [])


def _following(old: bytes, reply: RotateReply) -> tuple[bytes, bytes]:
    """The secret of a caller that came with a former one; and the nonce, if the present one follows from it at once."""
    *earlier, nonce = (reply.nonces[at : at + NONCE] for at in range(0, len(reply.nonces), NONCE))
    for before in earlier:
        old = next_secret(old, before)
    return next_secret(old, nonce, reply.follower), b"" if earlier else nonce


def _change(
    ctx: Context,
    s: Shard,
    uid: str,
    sid: str,
    old: bytes,
    new: bytes,
    authentication: Authentication | None,
    nonce: bytes,
) -> Op[tuple[RotateReply, Replicas]]:
    """Replace the secret, given as digests, and note the authentication. Raises LoginRefused where the session is not
    live."""
    raw, *acknowledged = yield [rotation(ctx, s, uid, sid, old, new, authentication, nonce), *wait_calls(ctx, [s])]
    reply = scripts.ROTATE_SECRET.reply(raw)
    if reply.is_overdue:
        yield from settle_stale(ctx, s, [(uid, sid)])
    if reply.state == scripts.OLD_SECRET:
        yield from note_old_secret(ctx, s, uid, sid)
    if reply.state == scripts.SIGN_IN_REQUIRED:
        raise LoginRefused("sign_in_required", _DEMANDED)
    if reply.state != scripts.LIVE:
        raise LoginRefused("ended", _ENDED if old else _NOT_LIVE)
    return reply, read_confirmations(ctx, [s], acknowledged)


def _session(ctx: Context, s: Shard, uid: str, sid: str, row: SessionRow) -> Op[Session]:
    """The session; without the texts of its labels where they cannot be read now: the old secret is gone, and the new
    one must reach its holder."""
    labels = NO_LABELS
    with contextlib.suppress(Unavailable):
        labels = (yield from label_texts(ctx, [(s, row.core)]))[s]
    return Session.from_reply(uid, sid, row, labels)


@checked_first
def require_sign_in(
    ctx: Context,
    uid: object,
    session_id: object,
    *,
    by: object,
    reason: object,
    message: object,
    ticket: object,
    keep: Iterable[object],
) -> Op[SignInResult]:
    sid = None if session_id is None else check.session_id(session_id)
    if sid and check.is_on_behalf(sid):
        raise InvalidArgument(
            "session_id", "must not be of a session of staff on behalf of the user: kick it instead", "on_behalf"
        )
    if sid and check.is_mirrored(sid):
        raise InvalidArgument("session_id", "must not be of a mirrored session: kick it instead", "mirrored")
    kept = check.kept_ids(keep, sid)
    request = DemandRequest(
        check.uid(uid),
        sid or "",
        check.actor(by),
        check.prose("reason", reason),
        check.optional_prose("message", message),
        check.short("ticket", ticket, 64) or "",
    )
    yield CHECKED
    # Two round trips: the script must declare the records, so their ids are read first. A session that begins in
    # between began after the demand.
    check_capacity(ctx)
    uid, s = request.uid, ctx.shard(request.uid)
    [raw] = yield [read_call(ctx, s, uid, [request.session_id] if request.session_id else [])]
    found = {item.session_id: item for item in found_rows(uid, raw) if item.session_id not in kept}
    yield from settle_stale(ctx, s, [(uid, sid) for sid, item in found.items() if item.state == scripts.NO_RECORD])
    every = [sid for sid, item in found.items() if item.state == scripts.LIVE]
    live = [sid for sid in every if not check.is_on_behalf(sid) and not check.is_mirrored(sid)]
    raw, *acknowledged = yield [request.call(ctx, s, live), *wait_calls(ctx, [s])]
    reply, replicas = scripts.REQUIRE_SIGN_IN.reply(raw), read_confirmations(ctx, [s], acknowledged)
    hold_demand(ctx, replicas, request, reply.at, {sid: found[sid].row.login for sid in reply.session_ids})
    demand = pack(">Q", reply.at)
    for sid in reply.session_ids:
        found[sid].row = found[sid].row._replace(demand=demand)
    sessions = in_list_order(found[sid].session() for sid in reply.session_ids)
    return SignInResult(sessions, replicas.confirmed, skipped=len(every) - len(live))
