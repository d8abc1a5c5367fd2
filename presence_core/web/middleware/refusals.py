"""The default response to a request that does not pass: problem+json (RFC 9457), with public information only."""

from __future__ import annotations

import json
from typing import Any, Final

from presence_core.errors import LoginRefused
from presence_core.models import PublicBlock, plain
from presence_core.web.rules import Verdict

_TITLES: Final = {
    "ended": "Your session has ended.",
    "unknown": "You are not signed in.",
    "anonymous": "You are not signed in.",
    "refused": "You may not sign in now.",
    "unavailable": "Your session cannot be checked right now. You have not been signed out.",
}


def login_refusal(error: LoginRefused) -> Verdict:
    """The verdict on a login that a block, a block rule or a limit refused."""
    block = PublicBlock(error.message, error.until) if error.code in ("blocked", "block_rule") else None
    return Verdict(passes=False, state="refused", refusal=error.code, sentence=error.sentence, block=block)


def problem(verdict: Verdict) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body of the response.

    ``code`` is "kicked", "expired", "replaced", "logout", "ended", "unknown", "missing", "unavailable", or the reason
    why a login was refused. ``message`` is the text that staff wrote for the visitor. ``at`` is the time of the end.
    While staff block the visitor, or their network or app version, ``block`` holds its ``message`` and ``until`` (null:
    until staff remove it), and ``detail`` says the same in one sentence.
    """
    status = {"refused": 403, "unavailable": 503}.get(verdict.state, 401)
    body: dict[str, Any] = {"type": "about:blank", "title": _TITLES[verdict.state], "status": status}
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
    if status == 401:
        missing = verdict.state == "anonymous"
        headers.append(("WWW-Authenticate", "Bearer" if missing else 'Bearer error="invalid_token"'))
    if status == 503:
        headers.append(("Retry-After", "5"))
    content = json.dumps(body, ensure_ascii=False).encode()
    return status, [*headers, ("Content-Length", str(len(content)))], content


def code_of(verdict: Verdict) -> str:
    """The reason for a refusal, in one word."""
    if verdict.ended is not None:
        return verdict.ended.public.code
    return verdict.refusal or {"anonymous": "missing"}.get(verdict.state, verdict.state)
