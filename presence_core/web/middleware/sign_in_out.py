"""Sign a browser in and out, for each framework: what the request names ends, and the answer sets or deletes cookies.

These are generators that yield calls of a Presence or an AsyncPresence (``drive_generators``).
"""

from __future__ import annotations

import logging
from binascii import b2a_base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from presence_core import validation as check
from presence_core.drive_generators import ClientCall, ClientCalls
from presence_core.errors import CorruptData, Unavailable
from presence_core.logs import fields
from presence_core.models import Login, Session
from presence_core.operations.sessions.request_tokens import logout_named
from presence_core.schema.failures import SiteFailure
from presence_core.web.cookies import (
    clear_cookie_header,
    clear_copies_headers,
    device_cookie_header,
    device_id_of,
    new_device_id,
    read_cookies,
    set_cookie_header,
)
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.middleware.request_data import RequestData, read_header
from presence_core.web.rules import Verdict

log = logging.getLogger(__name__)

NO_MIDDLEWARE: Final = "The app has no PresenceMiddleware around this route: see docs/use/frameworks.md."


class SignedIn(NamedTuple):
    """A login, and the Set-Cookie headers of the answer."""

    login: Login
    cookies: list[str]


class SignedOut(NamedTuple):
    """How many sessions have ended, and the Set-Cookie headers of the answer."""

    ended: int
    cookies: list[str]


def sign_in_calls(
    checker: RequestChecker,
    request: RequestData,
    verdict: Verdict,
    uid: str,
    details: Mapping[str, Any],
    *,
    max_age: int | None,
    device_cookie: bool,
) -> ClientCalls[SignedIn]:
    """End what this browser has, and begin a session for ``uid``. ``details``: other arguments of ``login``."""
    given: dict[str, Any] = {"ip": verdict.ip, "user_agent": request.user_agent, **details}
    cookies: list[str] = []
    checker.check_login({"uid": uid, **given})  # before anything ends
    if given.get("on_behalf_by") is None:
        known_id = given.get("device_id") or (device_id_of(request.cookie) if device_cookie else None)
        device_id = known_id or (new_device_id() if device_cookie else None)
        yield from _end_named(checker, request, verdict, on_behalf=False)
        if device_id is not None:
            prefix = _device_prefix(uid, device_id)
            if known_id is not None:
                yield from _end_of_device(uid, prefix)
            if given.get("session_id") is None:
                given["session_id"] = prefix + checker.new_id()[:14]
            if given.get("device_id") is None:
                cookies.append(device_cookie_header(device_id))
            given["device_id"] = device_id
    login: Login = yield lambda p: p.login(uid, **given)
    rules = checker.rules
    if rules.cookie is None:
        return SignedIn(login, cookies)
    set_cookie = set_cookie_header(
        login.token, name=rules.cookie, secure=rules.secure, same_site=rules.same_site, domain=rules.domain,
        max_age=max_age,
    )  # fmt: skip
    return SignedIn(login, [*_clear_copies(checker, request), set_cookie, *cookies])


def sign_out_calls(checker: RequestChecker, request: RequestData, verdict: Verdict) -> ClientCalls[SignedOut]:
    """End every live session that this request names."""
    count = yield from _end_named(checker, request, verdict, on_behalf=True)
    rules = checker.rules
    if rules.cookie is None:
        return SignedOut(count, [])
    cleared = clear_cookie_header(
        name=rules.cookie, secure=rules.secure, same_site=rules.same_site, domain=rules.domain
    )
    return SignedOut(count, [*_clear_copies(checker, request), cleared])


def login_failed_calls(
    request: RequestData, verdict: Verdict, who: str, why: SiteFailure, is_uid: bool, app: str | None
) -> ClientCalls[None]:
    """Record a sign-in that the site refused. An outage of Redis is logged: the visitor's answer does not need it."""
    try:
        yield lambda p: p.login_failed(
            who, why=why, is_uid=is_uid, ip=verdict.ip, user_agent=request.user_agent, app=app
        )
    except (Unavailable, CorruptData) as error:
        log.warning("a failed sign-in was not recorded: %s", error, extra=fields(event="failure_not_recorded"))


def _end_named(checker: RequestChecker, request: RequestData, verdict: Verdict, *, on_behalf: bool) -> ClientCalls[int]:
    """End the sessions of the request, of any user; returns how many."""
    named = checker.tokens(request)
    count: int = 0
    if named.tokens:
        checker.forget(named)
        count = yield lambda p: p.internal.run(logout_named(p.internal.context, named.tokens, on_behalf=on_behalf))
    session = verdict.session
    if session is not None and not named.tokens and (on_behalf or session.on_behalf_by is None):
        ended: bool = yield _logout(session)
        count += ended
    return count


def _logout(session: Session) -> ClientCall:
    return lambda p: p.logout(session.uid, session.session_id)


def _end_of_device(uid: str, prefix: str) -> ClientCalls[None]:
    """End the sessions that this user began on the same device. Those of other users stay: a device may be shared."""
    sessions: list[Session] = yield lambda p: p.sessions(uid)
    for session in sessions:
        if session.session_id.startswith(prefix):
            yield _logout(session)


def _device_prefix(uid: str, device_id: str) -> str:
    """How the ids of a user's sessions on a device begin, 8 characters: so they are found without a stored field."""
    name = f"{check.uid(uid)}\n{check.device_id(device_id)}".encode()
    return "d" + b2a_base64(sha256(name).digest()[:6], newline=False).decode().replace("+", "-").replace("/", "_")[:7]


def _clear_copies(checker: RequestChecker, request: RequestData) -> list[str]:
    rules = checker.rules
    if rules.cookie is None or len(read_cookies(request.cookie, rules.cookie)) < 2:
        return []
    return clear_copies_headers(
        name=rules.cookie, secure=rules.secure, same_site=rules.same_site, domain=rules.domain,
        url_path=request.path, host=read_header(request, "host"),
    )  # fmt: skip
