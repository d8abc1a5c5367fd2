"""The default response to a request that does not pass: problem+json (RFC 9457), with public information only."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from presence_core.errors import LoginRefused
from presence_core.models import PublicBlock, plain
from presence_core.web.rules import Verdict

_TITLES: Final = {
    "ended": "Your session has ended.",
    "unknown": "You are not signed in.",
    "anonymous": "You are not signed in.",
    "refused": "You may not sign in now.",
    "sign_in_required": "Please sign in again.",
    "authentication_too_old": "Please sign in again to do this.",
    "unavailable": "Your session cannot be checked right now. You have not been signed out.",
}


HOOKED: Final = frozenset({"ended", "unknown", "anonymous", "sign_in_required", "authentication_too_old"})
"""The refusals that a site may answer itself, by its hook ``on_ended``."""

TYPES: Final = {
    "sign_in_required": "urn:presence:sign-in-required",
    "authentication_too_old": "urn:presence:authentication-too-old",
}
"""The problem types of sessions that live, and whose visitor must sign in again, by state."""


def stale(verdict: Verdict, max_age: int) -> Verdict | None:
    """The verdict on a request whose action needs an authentication not older than ``max_age`` seconds; None if it
    passes. While Redis is away nothing is known, so it is refused."""
    age = verdict.authenticated_for
    if verdict.session is None or (age is not None and age <= max_age and verdict.session.on_behalf_by is None):
        return None
    if verdict.state in ("grace", "open"):
        return replace(verdict, passes=False, state="unavailable", session=None)
    return replace(
        verdict, passes=False, state="authentication_too_old", session=None, known=verdict.session, max_age=max_age
    )


def login_refusal(error: LoginRefused) -> Verdict:
    """The verdict on a login that a block, a block rule or a limit refused."""
    block = PublicBlock(error.message, error.until) if error.code in ("blocked", "block_rule") else None
    return Verdict(passes=False, state="refused", refusal=error.code, sentence=error.sentence, block=block)


def problem(verdict: Verdict) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body of the response.

    ``code`` is "kicked", "expired", "replaced", "logout", "ended", "unknown", "missing", "unavailable",
    "sign_in_required", "authentication_too_old", or the reason why a login was refused. ``message`` is the text that
    staff wrote for the visitor. ``at`` is the time of the end. While staff block the visitor, or their network or app
    version, ``block`` holds its ``message`` and ``until`` (null: until staff remove it), and ``detail`` says the same
    in one sentence. "sign_in_required" and "authentication_too_old" have a ``type`` of their own: the session lives,
    and its visitor must sign in again. ``max_age`` is the limit in seconds.
    """
    status = {"refused": 403, "unavailable": 503}.get(verdict.state, 401)
    body: dict[str, Any] = {
        "type": TYPES.get(verdict.state, "about:blank"),
        "title": _TITLES[verdict.state],
        "status": status,
    }
    headers = [("Content-Type", "application/problem+json"), ("Cache-Control", "no-store")]
    body["code"] = code_of(verdict)
    block, sentence = verdict.block, verdict.sentence
    if verdict.ended is not None:
        public = verdict.ended.public
        body |= {"message": public.message, "at": public.at.isoformat(timespec="milliseconds")}
        block, sentence = public.block, public.sentence
    elif verdict.sentence is not None:
        body["message"] = verdict.sentence
    if block is not None:
        body |= {"detail": sentence, "block": plain(block)}
    if verdict.max_age is not None:
        body["max_age"] = verdict.max_age
    if status == 401:
        headers.append(("WWW-Authenticate", _challenge(verdict)))
    if status == 503:
        headers.append(("Retry-After", "5"))
    content = json.dumps(body, ensure_ascii=False).encode()
    return status, [*headers, ("Content-Length", str(len(content)))], content


def _challenge(verdict: Verdict) -> str:
    """The WWW-Authenticate header; RFC 9470 defines it for a session that needs a new authentication."""
    if verdict.state == "anonymous":
        return "Bearer"
    if verdict.state not in TYPES:
        return 'Bearer error="invalid_token"'
    limit = "" if verdict.max_age is None else f', max_age="{verdict.max_age}"'
    return f'Bearer error="insufficient_user_authentication"{limit}'


def code_of(verdict: Verdict) -> str:
    """The reason for a refusal, in one word."""
    if verdict.ended is not None:
        return verdict.ended.public.code
    return verdict.refusal or {"anonymous": "missing"}.get(verdict.state, verdict.state)
