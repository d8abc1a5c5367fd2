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
from presence_core.operations.maintenance.sweep import settle_stale
from presence_core.operations.sessions.held_changes import (
    Authentication,
    DemandRequest,
    Replicas,
    check_capacity,
    hold_demand,
    hold_secret,
    read_confirmations,
    rotation,
    wait_calls,
)
from presence_core.operations.sessions.read import in_list_order, read_call
from presence_core.operations.sessions.validate import make_token, parse_token, secret_digest
from presence_core.scripts import sessions as scripts
from presence_core.scripts.calls import CHECKED, Op, checked_first

_ENDED = "This token opens no live session: it has ended, or its secret was changed."
_NOT_LIVE = "There is no live session with this id."
_DEMANDED = "A new sign-in is required: this session gets a new token by reauthenticated."


@checked_first
def rotate(ctx: Context, token: object) -> Op[Login]:
    uid, sid, digest = parse_token(token)
    secret = ctx.new_secret()
    yield CHECKED
    return (yield from _rotate(ctx, uid, sid, digest, secret, None))


@checked_first
def reauthenticated(ctx: Context, token: object, methods: object, mfa: object, began: object) -> Op[Login]:
    uid, sid, digest = parse_token(token)
    authentication = _authentication("token", sid, methods, mfa, began)
    secret = ctx.new_secret()
    yield CHECKED
    return (yield from _rotate(ctx, uid, sid, digest, secret, authentication))


@checked_first
def reauthenticated_session(
    ctx: Context, uid: object, session_id: object, methods: object, mfa: object, began: object
) -> Op[Session]:
    owner, sid = check.uid(uid), check.session_id(session_id)
    authentication = _authentication("session_id", sid, methods, mfa, began)
    yield CHECKED
    s = ctx.shard(owner)
    row, _ = yield from _change(ctx, s, owner, sid, b"", b"", authentication)
    return (yield from _session(ctx, s, owner, sid, row))


def _authentication(field: str, sid: str, methods: object, mfa: object, began: object) -> Authentication:
    if check.is_on_behalf(sid):
        raise InvalidArgument(field, "must be of a session of the user, not of staff on behalf of the user")
    packed = check.authentication(methods, mfa) or "0"
    return Authentication(packed, "" if began is None else check.time_ms("began", began))


def _rotate(
    ctx: Context, uid: str, sid: str, old: bytes, secret: bytes, authentication: Authentication | None
) -> Op[Login]:
    s, new = ctx.shard(uid), secret_digest(secret)
    row, replicas = yield from _change(ctx, s, uid, sid, old, new, authentication)
    if authentication is not None and row.authentication:
        [at] = unpack_from(">Q", row.authentication)
        authentication = replace(authentication, at=at, began=authentication.began or at + 1)
    hold_secret(ctx, replicas, uid, sid, old, new, authentication)
    session = yield from _session(ctx, s, uid, sid, row)
    return Login(lambda: session, make_token(uid, sid, secret), [])


def _change(
    ctx: Context, s: Shard, uid: str, sid: str, old: bytes, new: bytes, authentication: Authentication | None
) -> Op[tuple[scripts.SessionRow, Replicas]]:
    """Replace the secret and note the authentication. Raises LoginRefused where the session is not live."""
    raw, *acknowledged = yield [rotation(ctx, s, uid, sid, old, new, authentication), *wait_calls(ctx, [s])]
    state, row, is_overdue, _ = scripts.decode_rotation(raw)
    if is_overdue:
        yield from settle_stale(ctx, s, [(uid, sid)])
    if state == scripts.SIGN_IN_REQUIRED:
        raise LoginRefused("sign_in_required", _DEMANDED)
    if state != scripts.LIVE:
        raise LoginRefused("ended", _ENDED if old else _NOT_LIVE)
    return row, read_confirmations(ctx, [s], acknowledged)


def _session(ctx: Context, s: Shard, uid: str, sid: str, row: scripts.SessionRow) -> Op[Session]:
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
    by: object,
    reason: object,
    message: object,
    ticket: object,
    keep: Iterable[object],
) -> Op[SignInResult]:
    sid = None if session_id is None else check.session_id(session_id)
    if sid and check.is_on_behalf(sid):
        raise InvalidArgument("session_id", "must not be of a session of staff on behalf of the user: kick it instead")
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
    live = [sid for sid in every if not check.is_on_behalf(sid)]
    raw, *acknowledged = yield [request.call(ctx, s, live), *wait_calls(ctx, [s])]
    reply, replicas = scripts.decode_demand(raw), read_confirmations(ctx, [s], acknowledged)
    hold_demand(ctx, replicas, request, reply.at, {sid: found[sid].row.login for sid in reply.session_ids})
    demand = pack(">Q", reply.at)
    for sid in reply.session_ids:
        found[sid].row = found[sid].row._replace(demand=demand)
    sessions = in_list_order(found[sid].session() for sid in reply.session_ids)
    return SignInResult(sessions, replicas.confirmed, skipped=len(every) - len(live))
