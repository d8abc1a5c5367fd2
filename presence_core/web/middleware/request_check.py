"""Decide whether a request may pass, with no framework and no I/O.

``RequestChecker.check`` is a generator that yields calls of a Presence or an AsyncPresence (``drive_generators``).
Every request that names a session asks Redis, so a kick is final at the next request. Only the note that a session was
seen is limited in rate.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import MutableMapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import ClientCall, ClientCalls
from presence_core.errors import CorruptData, InvalidArgument, LoginRefused, PresenceError, Unavailable
from presence_core.fork_safety import renew_in_child
from presence_core.heartbeat_buffer import HeartbeatBuffer
from presence_core.logs import OutageLog, fields
from presence_core.models import ValidationFailed
from presence_core.web.cookies import read_cookie, set_cookie_header
from presence_core.web.middleware.breaker import Breaker
from presence_core.web.middleware.known_sessions import KnownSessions, Turn
from presence_core.web.middleware.refusals import login_refusal
from presence_core.web.middleware.request_data import RequestData
from presence_core.web.proxies import Proxies
from presence_core.web.rules import (
    Rules,
    Users,
    Verdict,
    Visitor,
    live_verdict,
    longest_prefix,
    max_age_of,
    on_unavailable_of,
)

log = logging.getLogger(__name__)


class RequestChecker:
    """Applies ``Rules``. Make one for each process and application; it is safe to share between threads."""

    def __init__(
        self,
        presence: Presence | AsyncPresence,
        rules: Rules | None = None,
        tally: MutableMapping[str, int] | None = None,
    ) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence")
        if rules is not None and not isinstance(rules, Rules):
            raise InvalidArgument("rules", "must be Rules")
        if tally is not None and not isinstance(tally, MutableMapping):
            raise InvalidArgument("tally", "must be a dict or a Counter")
        self.rules = rules or Rules()
        self._context = presence.internal.context
        self.buffer = HeartbeatBuffer(presence)
        self.breaker = Breaker(self.rules.breaker_failures, self.rules.breaker_seconds)
        self.known = KnownSessions(self.rules.heartbeat, self.rules.max_known)
        self._outages = OutageLog(log, "check", "requests cannot be checked: %(error)s",
                                  "requests are checked again after %(seconds).1f s")  # fmt: skip
        self._proxies = Proxies(self.rules.trusted_proxies)
        self._tally: MutableMapping[str, int] = {} if tally is None else tally
        self._reset_lock()
        renew_in_child(self, RequestChecker._reset_lock)

    def _reset_lock(self) -> None:
        """In a forked child the parent's lock may be held by a thread that the child does not have."""
        self._lock = threading.Lock()

    @property
    def tally(self) -> dict[str, int]:
        """The number of requests by state. In mode ``observe`` it shows how many ``enforce`` would refuse."""
        return dict(self._tally)

    def address(self, request: RequestData) -> str | None:
        """The visitor's address: the peer's, or the one that trusted proxies report."""
        return self._proxies.client(request.peer, request.forwarded)

    def set_cookie(self, verdict: Verdict) -> str | None:
        """The Set-Cookie header for a user whose session begins with this request, else None."""
        rules = self.rules
        if verdict.token is None or rules.cookie is None:
            return None
        return set_cookie_header(
            verdict.token, name=rules.cookie, secure=rules.secure, same_site=rules.same_site, domain=rules.domain
        )

    # -- the decision --------------------------------------------------------------------------------------------------

    def check(self, request: RequestData, user_of: Users | None = None) -> ClientCalls[Verdict]:
        """The verdict on one request. ``user_of`` returns the user that the site itself has signed in."""
        ip = self.address(request)
        if request.preflight and not (request.cookie or request.authorization):
            verdict = Verdict(passes=True, state="preflight")
        elif self.rules.mode == "observe":
            verdict = yield from self._observe(request, user_of, ip)
        else:
            verdict = yield from self._decide(request, user_of, ip)
        with self._lock:
            self._tally[verdict.state] = self._tally.get(verdict.state, 0) + 1
        return verdict if verdict.ip == ip else replace(verdict, ip=ip)

    def _observe(self, request: RequestData, user_of: Users | None, ip: str | None) -> ClientCalls[Verdict]:
        try:
            verdict = yield from self._decide(request, user_of, ip)
        except Exception:  # observing must never break the site
            log.exception("presence could not check a request in mode observe", extra=fields(event="check_error"))
            return Verdict(passes=True, state="unavailable")
        return replace(verdict, passes=True)

    def _decide(self, request: RequestData, user_of: Users | None, ip: str | None) -> ClientCalls[Verdict]:
        user = user_of() if user_of is not None else None
        visitor = Visitor(user) if isinstance(user, str) else user
        session_id = visitor.session_id if visitor is not None else None
        token = self._token(request) if session_id is None else None
        if token is None and visitor is None:
            passes = self.rules.mode != "enforce" or self.rules.anonymous == "pass" or self._is_public(request.path)
            return Verdict(passes=passes, state="anonymous")
        key = b""  # neither a token nor a session id of the site
        if token is not None:
            key = _known_key("token", token)
        elif visitor is not None and session_id is not None:
            key = _known_key("site", f"{visitor.uid}:{session_id}")
        try:
            if key:
                verdict = yield from self._validate(request, token, visitor, key, ip)
                if verdict.state != "unknown":
                    return verdict
            return (yield from self._begin_or_refuse(request, visitor, ip))
        except (Unavailable, CorruptData) as error:
            self._outages.failed(error)
            return self._redis_is_away(request.path, key, visitor)

    def _validate(
        self, request: RequestData, token: str | None, visitor: Visitor | None, key: bytes, ip: str | None
    ) -> ClientCalls[Verdict]:
        """Look up the session that the request names, by token or by the site's own session id."""
        turn = self.known.take_turn(key, ip)
        if self._context.now:  # a test has stopped the clock: each request is seen at once, at its time
            turn = Turn(by_call=True, by_buffer=False)
        max_age = max_age_of(request.path, self.rules.fresh)
        options: dict[str, Any] = {"touch": turn.by_call, "ip": ip, "max_age": max_age}
        if token is not None:
            validation = yield from self._call(lambda p: p.validate(token, **options), key)
        else:
            assert visitor is not None
            uid, sid = visitor.uid, visitor.session_id
            validation = yield from self._call(lambda p: p.validate_session(uid, sid, **options), key)
        record = validation.session or validation.ended or validation.refused
        if record is not None and visitor is not None and visitor.uid != record.uid:
            validation = ValidationFailed()  # the token is another user's: the site's own sign-in is newer
        session = validation.session
        if session is None and validation.refused is not None:
            return self._refuse_live(request, key, validation, max_age)
        if session is None:
            self.known.forget(key)
            if validation.ended is None:
                return Verdict(passes=False, state="unknown")
            return Verdict(passes=self._is_public(request.path), state="ended", ended=validation.ended)
        self.known.note_live(key, session)
        if turn.by_buffer:
            try:
                self.buffer.beat(session.uid, session.session_id)
            except RuntimeError:
                pass  # the buffer is closed: the site is shutting down
        return live_verdict(session, validation.authenticated_for, ip)

    def _refuse_live(
        self, request: RequestData, key: bytes, validation: ValidationFailed, max_age: int | None
    ) -> Verdict:
        """The session lives, and its visitor must sign in again first."""
        if validation.code == "authentication_too_old":
            self.known.give_turn_back(key)
            return Verdict(passes=False, state="authentication_too_old", known=validation.refused, max_age=max_age)
        self.known.forget(key)  # so that ``grace`` does not pass it
        passes, sentence = self._is_public(request.path), validation.message
        return Verdict(passes=passes, state="sign_in_required", known=validation.refused, sentence=sentence)

    def _begin_or_refuse(self, request: RequestData, visitor: Visitor | None, ip: str | None) -> ClientCalls[Verdict]:
        """The session is unknown: begin one for the visitor, or refuse."""
        adopts = self.rules.mode == "adopt"
        if visitor is None or not (adopts if visitor.adopt is None else visitor.adopt):
            passes = (adopts and visitor is None) or self._is_public(request.path)
            return Verdict(passes=passes, state="unknown")
        uid, sid = visitor.uid, visitor.session_id
        if sid is None and self.rules.cookie is None:
            raise InvalidArgument("user_of", "must name a session_id if Rules.cookie is None: a token needs a cookie")
        details = {"ip": ip, "user_agent": request.user_agent, **visitor.login}
        try:
            login = yield from self._call(lambda p: p.login(uid, session_id=sid, **details))
        except LoginRefused as refused:
            passes = self._is_public(request.path)
            if refused.code == "ended":
                return Verdict(passes=passes, state="ended")
            return replace(login_refusal(refused), passes=passes)
        return Verdict(passes=True, state="adopted", session=login.session, token=login.token if sid is None else None)

    def _call(self, call: ClientCall, key: bytes | None = None) -> ClientCalls[Any]:
        """Make one call, unless the breaker is open."""
        if not self.breaker.enter():
            raise Unavailable("Redis did not answer recently: the next attempt follows in a few seconds.")
        try:
            reply = yield call
        except Unavailable:
            self.breaker.failed()
            if key is not None:
                self.known.give_turn_back(key)
            raise
        except PresenceError:
            self.breaker.succeeded()
            raise
        except BaseException:  # a bug, or a cancelled request
            self.breaker.abandoned()
            raise
        self.breaker.succeeded()
        self._outages.worked()
        return reply

    def _redis_is_away(self, path: str, key: bytes, visitor: Visitor | None) -> Verdict:
        rules = self.rules
        if max_age_of(path, rules.fresh) is not None:
            return Verdict(passes=False, state="unavailable")
        choice = on_unavailable_of(path, rules)
        last = self.known.last_live(key)
        session = last.session if last is not None and last.age <= rules.grace else None
        if session is not None and visitor is not None and visitor.uid != session.uid:
            session = None  # as while Redis replies: the site's own sign-in is newer
        if choice == "grace" and session is not None:
            return Verdict(passes=True, state="grace", session=session)
        if choice == "open":
            return Verdict(passes=True, state="open", session=session)
        return Verdict(passes=self._is_public(path), state="unavailable")

    # -- the request ---------------------------------------------------------------------------------------------------

    def _token(self, request: RequestData) -> str | None:
        if request.authorization and self.rules.bearer:
            scheme, _, value = request.authorization.partition(" ")
            if scheme.lower() == "bearer" and value.strip():
                return value.strip()
        return read_cookie(request.cookie, self.rules.cookie) if self.rules.cookie is not None else None

    def _is_public(self, path: str) -> bool:
        return longest_prefix(path, self.rules.public) is not None


def _known_key(kind: str, name: str) -> bytes:
    """The key of ``KnownSessions``. A token must never have that of a site's session id, which is public."""
    return sha256(f"{kind} {name}".encode("utf-8", "surrogateescape")).digest()
