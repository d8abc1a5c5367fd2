"""Decide whether a request may pass, with no framework and no I/O.

``RequestChecker.check`` is a generator that yields calls of a Presence or an AsyncPresence (``drive_generators``).
Every request that names a session asks Redis, so a kick is final at the next request. Only the note that a session was
seen is limited in rate.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, Final

from presence_core import validation as check
from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import ClientCall, ClientCalls
from presence_core.errors import CorruptData, InvalidArgument, LoginRefused, PresenceError, Unavailable
from presence_core.fork_safety import renew_in_child
from presence_core.heartbeat_buffer import HeartbeatBuffer
from presence_core.logs import OutageLog, fields
from presence_core.models import Session, ValidationFailed
from presence_core.models.places import compared_network
from presence_core.operations.sessions.login_row import check_many_row
from presence_core.operations.sessions.request_tokens import Chosen, choose
from presence_core.web.cookies import clear_copies_headers, read_cookies, set_cookie_header
from presence_core.web.middleware.breaker import Breaker
from presence_core.web.middleware.known_sessions import NO_TURN, KnownSessions, Turn
from presence_core.web.middleware.open_connections import MessageBeats
from presence_core.web.middleware.passive_requests import PassiveRequests
from presence_core.web.middleware.refusals import login_refusal
from presence_core.web.middleware.request_data import RequestData, read_environ, read_scope
from presence_core.web.middleware.request_tokens import RequestTokens, read_tokens
from presence_core.web.middleware.shared_sessions import (
    MAX_TRIES,
    SharedSessions,
    is_held,
    last_end,
    live_id,
    next_id,
    prefix_of,
)
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

_NO_TOKENS: Final = RequestTokens([])


class RequestChecker:
    """Applies ``Rules``. Make one for each process and application; it is safe to share between threads."""

    def __init__(
        self,
        presence: Presence | AsyncPresence,
        rules: Rules | None = None,
        tally: MutableMapping[str, int] | None = None,
    ) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence", "wrong_type")
        if rules is not None and not isinstance(rules, Rules):
            raise InvalidArgument("rules", "must be Rules", "wrong_type")
        if tally is not None and not isinstance(tally, MutableMapping):
            raise InvalidArgument("tally", "must be a dict or a Counter", "wrong_type")
        self.rules = rules or Rules()
        self._context = presence.internal.context
        self.buffer = HeartbeatBuffer(presence)
        self.breaker = Breaker(self.rules.breaker_failures, self.rules.breaker_seconds)
        self.known = KnownSessions(self.rules.heartbeat, self.rules.max_known, self._network_of)
        self._outages = OutageLog(log, "check", "requests cannot be checked: %(error)s",
                                  "requests are checked again after %(seconds).1f s")  # fmt: skip
        self._proxies = Proxies(self.rules.trusted_proxies, self.rules.address_from)
        self.shared = SharedSessions(self.rules.max_known)
        self._passive = PassiveRequests(self.rules.passive)
        address_from = self.rules.address_from.lower()
        self.read_scope = partial(read_scope, address_from=address_from)
        self.read_environ = partial(read_environ, address_from=address_from)
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

    def _network_of(self, ip: str | None) -> bytes:
        """What a move compares of an address; empty where none is recorded, so none is compared."""
        address = self._context.visitor.address(ip)
        recorded = self._context.visitor.recorded(address)
        return compared_network(recorded, self._context.place_of(address)) if recorded else b""

    def set_cookies(self, verdict: Verdict, url_path: str, host: str) -> list[str]:
        """The Set-Cookie headers of the answer. ``host`` is the Host header."""
        rules = self.rules
        if rules.cookie is None or (verdict.token is None and not verdict.clears_cookies):
            return []
        options: dict[str, Any] = {
            "name": rules.cookie, "secure": rules.secure, "same_site": rules.same_site, "domain": rules.domain,
        }  # fmt: skip
        cleared = clear_copies_headers(**options, url_path=url_path, host=host) if verdict.clears_cookies else []
        return [*cleared, *([] if verdict.token is None else [set_cookie_header(verdict.token, **options)])]

    def tokens(self, request: RequestData) -> RequestTokens:
        """The tokens of a request, in the order in which they count."""
        rules = self.rules
        if rules.cookie is not None and not request.authorization:  # nearly every request
            cookies = read_cookies(request.cookie, rules.cookie)
            if len(cookies) < 2:
                return RequestTokens(cookies)
        return read_tokens(request.authorization if rules.bearer else "", request.cookie, rules.cookie)

    def forget(self, named: RequestTokens) -> None:
        """The sessions of these tokens are about to end: while Redis is away, none of them passes."""
        for name in (*named.tokens, " ".join(named.tokens)):
            self.known.forget(_known_key("token", name))

    def check_login(self, given: Mapping[str, Any]) -> None:
        """Raise InvalidArgument for arguments that ``login`` would refuse."""
        check_many_row(self._context.settings, self._context.visitor, given, "", imported=False)

    def new_id(self) -> str:
        """A new session id."""
        return self._context.new_id()

    def closes(self, verdict: Verdict, path: str) -> bool:
        """Whether a websocket or an event stream of this request closes when its session has ended."""
        rules = self.rules
        return verdict.session is not None and rules.mode != "observe" and longest_prefix(path, rules.keep_open) is None

    def message_beats(self, request: RequestData, session: Session) -> MessageBeats | None:
        """The heartbeats by the messages of a websocket; None if it is no activity of the visitor."""
        if not self._passive.is_empty and self._passive.match(request):
            return None
        return MessageBeats(self.buffer, session, min(self.rules.heartbeat, session.idle_timeout / 3))

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
        named = self.tokens(request) if session_id is None else _NO_TOKENS
        tokens = named.tokens
        if not tokens and visitor is None:
            passes = self.rules.mode != "enforce" or self.rules.anonymous == "pass" or self._is_public(request.path)
            return Verdict(passes=passes, state="anonymous")
        key = b""  # neither a token nor a session id of the site
        if tokens:
            key = _known_key("token", tokens[0] if len(tokens) == 1 else " ".join(tokens))
        elif visitor is not None and session_id is not None:
            key = _site_key(visitor.uid, session_id)
        try:
            if key:
                verdict = yield from self._validate(request, named, visitor, key, ip)
                if verdict.state != "unknown":
                    return verdict
            return (yield from self._begin_or_refuse(request, visitor, ip))
        except (Unavailable, CorruptData) as error:
            self._outages.failed(error)
            return self._redis_is_away(request.path, key or self._shared_key(request, visitor), visitor)

    def _validate(
        self, request: RequestData, named: RequestTokens, visitor: Visitor | None, key: bytes, ip: str | None
    ) -> ClientCalls[Verdict]:
        """Look up the session that the request names, and judge it."""
        turn, max_age = self._turn(request, key, ip), max_age_of(request.path, self.rules.fresh)
        source = {"ip": ip, "user_agent": request.user_agent}
        chosen: Chosen | None = None
        validation: Any
        if len(named.tokens) > 1:
            chosen = yield from self._choose(named, visitor, key, max_age)
            validation = chosen.validation
        else:
            look_up = partial(_look_up, named, visitor, touch=turn.by_call, max_age=max_age, **source)
            validation = yield from self._call(look_up, key)
        record = validation.session or validation.ended or validation.refused
        if record is not None and visitor is not None and visitor.uid != record.uid:
            validation = ValidationFailed()  # the token is another user's: the site's own sign-in is newer
        session = validation.session
        if session is None:
            verdict = self._not_live(request, key, validation, max_age)
            return verdict if chosen is None or verdict.state != "ended" else _once(verdict, named, chosen, visitor)
        self.known.note_live(key, session)
        if turn.by_buffer or (chosen is not None and turn.by_call):
            validation = yield from self._note_seen(validation, named, chosen, turn, key, source)
            if validation.refused is not None:
                return self._refuse_live(request, key, validation, max_age)
        if validation.moved:
            self._report_move(validation.session)
        return live_verdict(session, validation.authenticated_for, ip)

    def _turn(self, request: RequestData, key: bytes, ip: str | None) -> Turn:
        """How this request is noted as seen."""
        if not self._passive.is_empty and self._passive.match(request):
            self.known.add(key)
            return NO_TURN
        turn = self.known.take_turn(key, ip)
        if self._context.now:  # a test has stopped the clock: each request is seen at once, at its time
            return Turn(by_call=True, by_buffer=False)
        return turn

    def _not_live(self, request: RequestData, key: bytes, validation: ValidationFailed, max_age: int | None) -> Verdict:
        """The session is unknown or has ended, or its visitor must sign in again first."""
        if validation.refused is not None:
            return self._refuse_live(request, key, validation, max_age)
        self.known.forget(key)
        if validation.ended is None:
            return Verdict(passes=False, state="unknown")
        return Verdict(passes=self._is_public(request.path), state="ended", ended=validation.ended)

    def _note_seen(
        self, live: Any, named: RequestTokens, chosen: Chosen | None, turn: Turn, key: bytes, source: dict[str, Any]
    ) -> ClientCalls[Any]:
        """Note what the validation did not: several tokens are not seen at once. Returns the latest validation."""
        session = live.session
        if chosen is not None and turn.by_call and (self._context.now or source["ip"] not in (None, session.last_ip)):
            token = named.tokens[chosen.place]
            noted = yield from self._call(lambda p: p.validate(token, **source), key)
            return noted if noted or noted.refused is not None else live
        with suppress(RuntimeError):  # the buffer is closed: the site is shutting down
            self.buffer.beat(session.uid, session.session_id)
        return live

    def _report_move(self, session: Session) -> None:
        """Call the site's own function. Its error never keeps a visitor out."""
        if self.rules.on_move is not None:
            try:
                check.not_awaitable("on_move", self.rules.on_move(session))
            except Exception:
                log.exception("on_move of the rules has failed", extra=fields(event="on_move_error"))

    def _choose(
        self, named: RequestTokens, visitor: Visitor | None, key: bytes, max_age: int | None
    ) -> ClientCalls[Chosen]:
        """Validate several tokens in one round trip, and choose the one that counts."""
        uid = None if visitor is None else visitor.uid  # the token of another user is older than the site's own sign-in
        chosen: Chosen = yield from self._call(
            lambda p: p.internal.run(
                choose(p.internal.context, named.tokens, uid, max_age, first_end_counts=named.bearer)
            ),
            key,
        )
        return chosen

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
        sid = visitor.session_id
        if sid is None and self.rules.cookie is None:
            raise InvalidArgument("user_of", "must name a session_id if Rules.cookie is None: a token needs a cookie")
        prefix = prefix_of(request, visitor)
        if prefix is not None:
            return (yield from self._share(request, visitor, prefix, ip))
        verdict = yield from self._begin(request, visitor, sid, ip)
        return replace(verdict, token=None) if sid is not None else verdict

    def _begin(
        self, request: RequestData, visitor: Visitor, session_id: str | None, ip: str | None
    ) -> ClientCalls[Verdict]:
        details = {"ip": ip, "user_agent": request.user_agent, **visitor.login}
        try:
            login = yield from self._call(lambda p: p.login(visitor.uid, session_id=session_id, **details))
        except LoginRefused as refused:
            passes = self._is_public(request.path)
            if refused.code == "ended":
                return Verdict(passes=passes, state="ended")
            return replace(login_refusal(refused), passes=passes)
        return Verdict(passes=True, state="adopted", session=login.session, token=login.token)

    def _share(self, request: RequestData, visitor: Visitor, prefix: str, ip: str | None) -> ClientCalls[Verdict]:
        """The session of a client that keeps no cookie: the one that lives, or a new one."""
        uid, refused = visitor.uid, None
        known = self.shared.get(uid, prefix)
        if known is None:
            known = live_id((yield from self._call(lambda p: p.sessions(uid))), prefix)
        if known is not None:
            named = replace(visitor, session_id=known)
            verdict = yield from self._validate(request, _NO_TOKENS, named, _site_key(uid, known), ip)
            if verdict.session is not None or verdict.known is not None:
                self.shared.note(uid, prefix, known)
                return verdict
            self.shared.note(uid, prefix, None)
            refused = verdict
        ended = yield from self._call(lambda p: p.ended(uid, limit=100))
        last = last_end(ended, prefix)
        if last is not None and is_held(last, ended):
            return refused or Verdict(passes=self._is_public(request.path), state="ended", ended=last)
        before = last.session_id if last is not None else known or ""
        for tries_left in reversed(range(MAX_TRIES)):
            session_id = next_id(prefix, before) if tries_left else prefix + self.new_id()
            verdict = yield from self._begin(request, visitor, session_id, ip)
            if verdict.state != "ended":
                break
            before = session_id
        if verdict.session is not None:
            self.shared.note(uid, prefix, session_id)
        return verdict

    def _shared_key(self, request: RequestData, visitor: Visitor | None) -> bytes:
        """The key of the session that the client shares, if this process knows it."""
        prefix = None if visitor is None else prefix_of(request, visitor)
        known = None if visitor is None or prefix is None else self.shared.get(visitor.uid, prefix)
        return b"" if visitor is None or known is None else _site_key(visitor.uid, known)

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

    def _is_public(self, path: str) -> bool:
        return longest_prefix(path, self.rules.public) is not None


def _look_up(named: RequestTokens, visitor: Visitor | None, presence: Any, **how: Any) -> Any:
    """Ask for the one session that a request names, by token or by the site's own session id."""
    if named.tokens:
        return presence.validate(named.tokens[0], **how)
    assert visitor is not None
    return presence.validate_session(visitor.uid, visitor.session_id, **how)


def _once(verdict: Verdict, named: RequestTokens, chosen: Chosen, visitor: Visitor | None) -> Verdict:
    """Let the answer delete the cookie of a kicked session, which no later request is to bring next to a live one.

    Not if that would leave a signed-in user without a token: ``adopt`` would begin a session for the kicked user.
    """
    is_cookie = chosen.place > 0 or not named.bearer
    if verdict.passes or not (chosen.is_kick and is_cookie) or (chosen.live is None and visitor is not None):
        return verdict
    is_live_cookie = chosen.live is not None and (chosen.live > 0 or not named.bearer)
    token = named.tokens[chosen.live] if is_live_cookie and chosen.live is not None else None
    return replace(verdict, clears_cookies=True, token=token)


def _site_key(uid: str, session_id: str) -> bytes:
    return _known_key("site", f"{uid}:{session_id}")


def _known_key(kind: str, name: str) -> bytes:
    """The key of ``KnownSessions``. A token must never have that of a site's session id, which is public."""
    return sha256(f"{kind} {name}".encode("utf-8", "surrogateescape")).digest()
