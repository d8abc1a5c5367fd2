"""An identity provider has signed a user out, of one session or of all."""

from __future__ import annotations

from typing import Final

from presence_core import validation as check
from presence_core.filters import SessionFilter
from presence_core.models import Session, login_ms, moment
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import check_capacity, read_confirmations, wait_calls
from presence_core.operations.pending_logouts import SLACK, logout_key, note_call
from presence_core.operations.search.list_sessions import list_sessions
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.held_ends import hold_end
from presence_core.scripts.calls import CHECKED, Op, checked_first, command
from presence_core.scripts.sessions import END_SESSIONS

BATCH: Final = 50
"""Sessions that are ended together."""


@checked_first
def provider_logout(
    ctx: Context,
    issuer: object,
    subject: object,
    session: object,
    by: object,
    issued_at: object,
    token_id: object,
    token_seconds: object,
) -> Op[int | None]:
    link = check.idp_link({"iss": issuer, "sub": subject, "sid": session})
    iss, sub, sid = link.split("\n")
    issued, actor = check.time_ms("issued_at", issued_at), check.actor(by)
    token = None if token_id is None else check.short("token_id", token_id, 1024)
    keep = check.whole("token_seconds", token_seconds, 1, 7 * 86_400)
    yield CHECKED
    check_capacity(ctx)
    received = logout_key(ctx, "jti", iss, token or "")
    before, _ = yield [command(received, "GET", received), note_call(ctx, iss, sub, sid, issued, actor)]
    if token is not None and before is not None:
        return None
    wanted = (
        SessionFilter(idp_issuer=iss, idp_session=sid)
        if sid
        else SessionFilter(idp_issuer=iss, idp_subject=sub, logged_in_before=moment(issued + SLACK))
    )
    request, ended = EndRequest("logout", "idp_logout", actor), 0
    cursor = None
    while True:
        page = yield from list_sessions(ctx, wanted, 1000, cursor)
        for first in range(0, len(page.items), BATCH):
            ended += yield from _end(ctx, request, page.items[first : first + BATCH])
        cursor = page.next_cursor
        if cursor is None:
            break
    if token is not None:  # at last: a token whose call has failed may be sent again
        yield [command(received, "SET", received, "1", "EX", keep)]
    return ended


def _end(ctx: Context, request: EndRequest, sessions: list[Session]) -> Op[int]:
    shards = [ctx.shard(session.uid) for session in sessions]
    calls = [
        request.end_one(ctx, shard, session.uid, session.session_id, login_ms(session))
        for shard, session in zip(shards, sessions, strict=True)
    ]
    distinct = list(dict.fromkeys(shards))
    replies = yield [*calls, *wait_calls(ctx, distinct)]
    replicas = read_confirmations(ctx, distinct, replies[len(calls) :])
    ended = 0
    for session, raw in zip(sessions, replies, strict=False):
        ended += len(END_SESSIONS.reply(raw).ended)
        hold_end(ctx, replicas, request, session.uid, session.session_id, login_ms(session))
    return ended
