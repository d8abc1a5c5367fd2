"""What an identity provider has signed out recently: a login that was on its way ends when it is written.

A logout is noted before the sessions are looked for, and a login looks for the note after it is written. So whichever
comes first, the other finds it.
"""

from __future__ import annotations

from typing import Final, Literal

from presence_core.keyspace import digest
from presence_core.models import stored_number, text
from presence_core.operations.context import Context
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.login_calls import LoginAttempt
from presence_core.scripts.calls import Call, Op, command
from presence_core.scripts.sessions import LoginReply

SLACK: Final = 10_000
"""Sessions that began so long after a user was signed out are others, ms: clocks differ, and a login takes time."""

NOTED_SESSION: Final = 3_600
NOTED_USER: Final = 60
"""How long a logout is noted, s. The id of a provider's session is never used again."""


def logout_key(ctx: Context, kind: Literal["sid", "sub", "jti"], issuer: str, value: str) -> str:
    """STRING: that this session or user of a provider was signed out, or that this token was received."""
    return f"{ctx.keys.common.logouts}:{digest(chr(10).join((kind, issuer, value)), 16)}"


def note_call(ctx: Context, issuer: str, subject: str, session: str, issued: int, by: str) -> Call:
    """Note a logout, of the session if there is one. ``issued``: ms."""
    key = logout_key(ctx, "sid" if session else "sub", issuer, session or subject)
    return command(key, "SET", key, f"{issued}\n{by}", "EX", NOTED_SESSION if session else NOTED_USER)


def end_logged_out(ctx: Context, attempts: list[LoginAttempt]) -> Op[None]:
    """End those of the sessions that have begun which their provider has signed out meanwhile. Cost: nothing for logins
    without a link; else one round trip, and one more where something ends."""
    begun = [attempt for attempt in attempts if attempt.row.idp and isinstance(attempt.reply, LoginReply)]
    keys = []
    for attempt in begun:
        issuer, subject, session = attempt.row.idp.split("\n")
        keys += [logout_key(ctx, "sid", issuer, session), logout_key(ctx, "sub", issuer, subject)]
    noted = (yield [command(key, "GET", key, lenient=True) for key in keys]) if keys else []
    ends = []
    for place, attempt in enumerate(begun):
        by_session, by_user = noted[2 * place : 2 * place + 2]
        issued, _, by = text(by_session or by_user or b"").partition("\n")
        login = attempt.reply.row.login if isinstance(attempt.reply, LoginReply) else 0
        if by_session or (by_user and login <= (stored_number(issued.encode()) or 0) + SLACK):
            row = attempt.row
            request = EndRequest("logout", "idp_logout", by)
            ends.append(request.end_one(ctx, attempt.shard, row.uid, row.session_id, login))
    if ends:
        yield ends
