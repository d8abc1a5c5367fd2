"""May this request pass? The decisions of both middlewares, with no framework and no I/O of their own.

``Gate.check`` is a generator, as operations are: it yields calls to make on a Presence or an AsyncPresence and is sent
their answers. A kick is final at the next request because every request asks; only the note that a session was seen is
rationed.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from presence_core.buffer import HeartbeatBuffer
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import CorruptData, InvalidArgument, LoginRefused, PresenceError, Unavailable
from presence_core.forked import renew_in_child
from presence_core.models import PublicBlock, Validation, plain
from presence_core.web.breaker import Breaker
from presence_core.web.cookies import read_cookie, set_cookie_header
from presence_core.web.flow import Call, Flow
from presence_core.web.proxies import Proxies
from presence_core.web.rules import Asked, Rules, Users, Verdict, Visitor, longest

__all__ = ["Asked", "Gate", "Rules", "Verdict", "Visitor", "code_of", "problem", "refusal"]

log = logging.getLogger("presence_core")


@dataclass(slots=True)
class _Known:
    """What this process remembers of a session."""

    noted_at: float = float("-inf")  #: when it was last noted as seen, or handed to the buffer
    every: float = 0.0  #: the least time between two such notes
    ip: str | None = None
    live_at: float = float("-inf")  #: when it was last found live …
    validation: Validation | None = None  #: … and how


class Gate:
    """Rules, applied. One for each process and application; safe to share between threads."""

    def __init__(self, presence: Presence | AsyncPresence, rules: Rules | None = None) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence")
        if rules is not None and not isinstance(rules, Rules):
            raise InvalidArgument("rules", "must be Rules")
        self.rules = rules or Rules()
        self.presence = presence
        self.buffer = HeartbeatBuffer(presence)
        self.breaker = Breaker(self.rules.breaker_failures, self.rules.breaker_seconds)
        self.clock: Callable[[], float] = time.monotonic
        self._proxies = Proxies(self.rules.trusted_proxies)
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._lock = threading.Lock()
        self._tally: dict[str, int] = {}
        renew_in_child(self, Gate._start_anew)

    @property
    def tally(self) -> dict[str, int]:
        """How many requests came to each state: in ``observe``, what ``enforce`` would have refused."""
        return dict(self._tally)

    # -- the decision --------------------------------------------------------------------------------------------------

    def check(self, asked: Asked, user_of: Users | None = None) -> Flow[Verdict]:
        """Decide about one request. ``user_of`` is asked whom the site itself takes this request for."""
        ip = self.address(asked)
        if asked.preflight and not (asked.cookie or asked.authorization):
            verdict = Verdict(passes=True, state="preflight", ip=ip)
        elif self.rules.mode != "observe":
            verdict = replace((yield from self._judge(asked, user_of, ip)), ip=ip)
        else:
            try:
                verdict = replace((yield from self._judge(asked, user_of, ip)), passes=True, ip=ip)
            except Exception:  # watching must not be what breaks a site
                log.exception("presence could not be observed")
                verdict = Verdict(passes=True, state="unavailable", ip=ip)
        with self._lock:
            self._tally[verdict.state] = self._tally.get(verdict.state, 0) + 1
        return verdict

    def _judge(self, asked: Asked, user_of: Users | None, ip: str | None) -> Flow[Verdict]:
        given = user_of() if user_of is not None else None
        visitor = Visitor(given) if isinstance(given, str) else given
        by_id = visitor is not None and visitor.session_id is not None
        token = None if by_id else self._token(asked)
        if token is None and visitor is None:
            passes = self.rules.mode != "enforce" or self.rules.anonymous == "pass" or self._is_public(asked.path)
            return Verdict(passes=passes, state="anonymous")
        name = token or (f"{visitor.uid}:{visitor.session_id}" if visitor is not None and by_id else "")
        key = sha256(name.encode("utf-8", "surrogateescape")).digest()
        try:
            if token is not None or by_id:
                verdict = yield from self._look(asked, token, visitor, key, ip)
                if verdict.state != "unknown":
                    return verdict
            return (yield from self._unknown(asked, visitor, ip))
        except (Unavailable, CorruptData) as error:
            return self._unavailable(asked.path, key, error)

    def _look(
        self, asked: Asked, token: str | None, visitor: Visitor | None, key: bytes, ip: str | None
    ) -> Flow[Verdict]:
        """Ask of the session that the request names."""
        touch, beat = self._take_turn(key, ip)
        if token is not None:
            validation = yield from self._ask(lambda p: p.validate(token, touch=touch, ip=ip), key)
        else:
            assert visitor is not None
            uid, sid = visitor.uid, visitor.session_id
            validation = yield from self._ask(lambda p: p.validate_session(uid, sid, touch=touch, ip=ip), key)
        record = validation.session or validation.ended
        if record is not None and visitor is not None and visitor.uid != record.uid:
            validation = Validation(False, None)  # another user's: the site's word is the newer one
        session = validation.session
        if session is None:
            self._forget(key)
            if validation.ended is None:
                return Verdict(passes=False, state="unknown")
            return Verdict(passes=self._is_public(asked.path), state="ended", ended=validation.ended)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                known.every = min(self.rules.heartbeat, session.idle_timeout / 3)
                known.live_at, known.validation = self.clock(), validation
        if beat:
            try:
                self.buffer.beat(session.uid, session.session_id)
            except RuntimeError:
                pass  # closed: the site is going down
        return Verdict(passes=True, state="live", session=session)

    def _unknown(self, asked: Asked, visitor: Visitor | None, ip: str | None) -> Flow[Verdict]:
        """No session is known of this request: adopt its user, or refuse."""
        adopting = self.rules.mode == "adopt"
        if visitor is None or not (adopting if visitor.adopt is None else visitor.adopt):
            passes = (adopting and visitor is None) or self._is_public(asked.path)
            return Verdict(passes=passes, state="unknown")
        if visitor.session_id is None and self.rules.cookie is None:
            raise InvalidArgument("user_of", "must name a session_id where there is no cookie to keep a token in")
        details = {"ip": ip, "user_agent": asked.user_agent, **visitor.login}
        uid, sid = visitor.uid, visitor.session_id
        try:
            login = yield from self._ask(lambda p: p.login(uid, session_id=sid, **details))
        except LoginRefused as refused:
            public = self._is_public(asked.path)
            if refused.code == "ended":
                return Verdict(passes=public, state="ended")
            return replace(refusal(refused), passes=public)
        return Verdict(passes=True, state="adopted", session=login.session, token=login.token if sid is None else None)

    def _ask(self, call: Call, key: bytes | None = None) -> Flow[Any]:
        """One call, unless the breaker holds it back."""
        if not self.breaker.enter():
            raise Unavailable("Redis did not answer lately, and is not asked again for a few seconds.")
        try:
            answer = yield call
        except Unavailable:
            self.breaker.failed()
            if key is not None:
                self._give_turn_back(key)
            raise
        except PresenceError:
            self.breaker.succeeded()
            raise
        except BaseException:  # a mistake, or a request that was given up
            self.breaker.left()
            raise
        self.breaker.succeeded()
        return answer

    def _unavailable(self, path: str, key: bytes, error: Exception) -> Verdict:
        rules = self.rules
        route = longest(path, rules.routes)
        choice = rules.on_unavailable if route is None else rules.routes[route]
        with self._lock:
            known = self._known.get(key)
            session = known.validation.session if known is not None and known.validation is not None else None
            age = self.clock() - known.live_at if known is not None else float("inf")
            if session is None:  # a flood of tokens that open nothing must not crowd out those that did
                self._known.pop(key, None)
        if choice == "grace" and session is not None and age <= rules.grace:
            return Verdict(passes=True, state="grace", session=session)
        if choice == "open":
            return Verdict(passes=True, state="open", session=session)
        if not self.breaker.is_open:
            log.warning("a request was not checked: %s", error)
        return Verdict(passes=self._is_public(path), state="unavailable")

    # -- what the request says -----------------------------------------------------------------------------------------

    def address(self, asked: Asked) -> str | None:
        """The visitor's address, as far as anybody can say whom the rules trust."""
        return self._proxies.client(asked.peer, asked.forwarded)

    def _token(self, asked: Asked) -> str | None:
        if self.rules.bearer:
            scheme, _, value = asked.authorization.partition(" ")
            if scheme.lower() == "bearer" and value.strip():
                return value.strip()
        return read_cookie(asked.cookie, self.rules.cookie) if self.rules.cookie is not None else None

    def _is_public(self, path: str) -> bool:
        return longest(path, self.rules.public) is not None

    # -- what is remembered --------------------------------------------------------------------------------------------

    def _take_turn(self, key: bytes, ip: str | None) -> tuple[bool, bool]:
        """(note it in this very call, hand it to the buffer). One request of a session and interval gets a turn: the
        call itself notes a session that is new here or has a new address, which the buffer could not tell."""
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = _Known()
                if len(self._known) > self.rules.max_known:
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end(key)
            now = self.clock()
            if now - known.noted_at < known.every:
                return False, False
            touch = known.live_at == float("-inf") or known.ip != ip
            known.noted_at, known.ip = now, ip
            known.every = known.every or min(self.rules.heartbeat, 1.0)  # until its own timeout is known
            return touch, not touch

    def _give_turn_back(self, key: bytes) -> None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                known.noted_at = float("-inf")

    def _forget(self, key: bytes) -> None:
        with self._lock:
            self._known.pop(key, None)

    def _start_anew(self) -> None:
        """In a forked child."""
        self._lock = threading.Lock()

    # -- what the response says ----------------------------------------------------------------------------------------

    def set_cookie(self, verdict: Verdict) -> str | None:
        """The Set-Cookie header of a user who was adopted, else None."""
        rules = self.rules
        if verdict.token is None or rules.cookie is None:
            return None
        return set_cookie_header(
            verdict.token, name=rules.cookie, secure=rules.secure, same_site=rules.same_site, domain=rules.domain
        )


# -- the answer by default ---------------------------------------------------------------------------------------------

_TITLES: Final = {
    "ended": "Your session has ended.",
    "unknown": "You are not signed in.",
    "anonymous": "You are not signed in.",
    "refused": "You may not sign in now.",
    "unavailable": "Who you are cannot be checked right now. You have not been signed out.",
}


def refusal(error: LoginRefused) -> Verdict:
    """The verdict on a login that the site itself tried and that was refused: by a block, or by a limit."""
    block = PublicBlock(error.message, error.until) if error.code == "blocked" else None
    return Verdict(passes=False, state="refused", refusal=error.code, sentence=error.sentence, block=block)


def problem(verdict: Verdict) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body for who does not pass: problem+json (RFC 9457), with what is public and no more.

    ``code`` is "kicked", "expired", "replaced", "logout", "ended", "unknown", "missing", "unavailable", or why a login
    was refused; ``message`` is what staff wrote for the visitor; ``at`` is when it ended. While staff block the visitor
    there is a ``block`` with its ``message`` and ``until`` (null: until staff unblock them), and ``detail`` says it all
    in one sentence.
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
    """One word for why somebody does not pass."""
    if verdict.ended is not None:
        return verdict.ended.public.code
    return verdict.refusal or {"anonymous": "missing"}.get(verdict.state, verdict.state)
