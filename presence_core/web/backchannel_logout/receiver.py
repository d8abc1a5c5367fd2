"""The receiver without a framework: reads a request, verifies its token, ends the sessions, answers.

Each step is yielded: ``drive`` carries it out, ``drive_async`` awaits it. A step is a call of a client, or Blocking.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl

from presence_core.drive_generators import ClientCalls
from presence_core.errors import InvalidArgument, PresenceError, Unavailable
from presence_core.logs import fields
from presence_core.web.backchannel_logout.issuers import Issuer
from presence_core.web.backchannel_logout.logout_token import (
    LogoutToken,
    TokenRefused,
    Unverified,
    WrongSignature,
    look,
    verify,
)
from presence_core.web.backchannel_logout.signing_keys import KeysUnavailable, SigningKeys
from presence_core.web.backchannel_logout.spool import Spool

_log = logging.getLogger(__name__)

MAX_BODY: Final = 32_768
"""Bytes."""

ALERT_ABOVE: Final = 600
"""Logouts of an issuer in a minute, above which an error is logged. None is dropped."""

MAX_HELD: Final = 1_000
"""Tokens of each issuer that wait for its keys to be fetched again."""

_HEADERS: Final = [("Cache-Control", "no-store"), ("Content-Type", "application/json")]


@dataclass(frozen=True, slots=True)
class LogoutResponse:
    """The answer, for each framework."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Blocking:
    """A step that waits for a disk, or for the keys of an issuer: not on an event loop."""

    run: Callable[[], Any]
    keys: SigningKeys | None = None  #: which are fetched: one thread at a time does that

    def __call__(self, _presence: Any) -> Any:
        return self.run()


def _answer(status: int, why: str = "") -> LogoutResponse:
    error = "invalid_request" if status < 500 else "temporarily_unavailable"
    body = json.dumps({"error": error, "error_description": why}).encode() if why else b"{}"
    more = [("Retry-After", "5")] if status == 503 else [("Allow", "POST")] if status == 405 else []
    return LogoutResponse(status, [*_HEADERS, *more], body)


def digest_of(token: str) -> str:
    """What logs say of a token."""
    return sha256(token.encode()).hexdigest()[:16]


def _refused(why: TokenRefused, issuer: str, digest: str) -> LogoutResponse:
    _log.warning("A logout token was refused: it %s", why, extra=fields(issuer=issuer, digest=digest))
    return _answer(400, f"The token {why}.")


class LogoutReceiver:
    """``LogoutReceiver([Issuer(…)])``: receives the logouts of these identity providers. Mount it by
    ``BackchannelLogout`` of ``asgi`` or ``wsgi``, or the view of ``django``.

    issuers: at least one, each issuer once. spool: a folder of this process that keeps logouts while Redis is away, at
    most 100,000, until they are done. Without it the answer is 503 then: providers seldom send twice. alert_above:
    log an error above so many logouts of an issuer in a minute; none is dropped.

    Checked are the type ``logout+jwt`` (``Issuer.typed``), algorithm, signature, issuer, audience, ``iat``, ``exp``
    (60 s for clocks, at most a day after ``iat``), ``events`` and ``jti``, and that there is no ``nonce``. Keys come
    from ``jwks_uri`` only, 256 KiB and 10 seconds at most, without redirects. They are kept for an hour; for an unknown
    key they are fetched again, at most once a minute.

    A wrong token is answered with 400 and ends nothing. 200 means that the logout is stored, and the sessions have
    ended, or that the spool has it. A token of a key that is not known, while the keys may not be fetched again, is
    answered with 400 and tried once more when they may: the issuer may have a new key. Cost: one verification, about
    0.1 ms, and the round trips of ``Presence.provider_logout``.
    """

    def __init__(
        self,
        issuers: Iterable[Issuer],
        *,
        spool: str | None = None,
        alert_above: int = ALERT_ABOVE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        listed = list(issuers)
        self._issuers = {issuer.issuer: issuer for issuer in listed}
        if not listed or len(self._issuers) != len(listed):
            raise InvalidArgument("issuers", "must be at least one Issuer, each issuer once")
        self._keys = {issuer.issuer: SigningKeys(issuer.jwks_uri) for issuer in listed}
        self.spool = None if spool is None else Spool(spool)
        self._alert_above, self._clock = alert_above, clock
        self._minutes: dict[str, tuple[int, int]] = {}  # by issuer: the minute, and its logouts
        # By digest: tokens of a key that is not known yet, and since when, by the clock of the keys.
        self._held: dict[str, tuple[Unverified, float]] = {}

    def answer(self, method: str, content_type: str, body: bytes | None) -> ClientCalls[LogoutResponse]:
        """Answer a request. ``body``: None if it is longer than MAX_BODY."""
        if method != "POST":
            return _answer(405, "Send a POST.")
        token = _token_of(content_type, body)
        if token is None:
            return _answer(400, "The body must be a form with one logout_token.")
        return (yield from self._receive(token, self._clock()))

    @property
    def waits(self) -> bool:
        """Whether ``retry`` has something to do. Costs nothing."""
        return bool(self._held) or (self.spool is not None and self.spool.waiting > 0)

    def retry(self) -> ClientCalls[bool]:
        """Try what waits: tokens of keys that were not known, and the logouts in the spool. Returns ``waits``."""
        yield from self._retry_held(self._clock())
        if self.spool is not None and self.spool.waiting:
            yield from self._retry_spool(self.spool)
        return self.waits

    def _retry_held(self, now: float) -> ClientCalls[None]:
        """The first of an issuer fetches its keys; what is not signed by one of these is refused for good."""
        may_fetch = {issuer for issuer, keys in self._keys.items() if keys.seconds_to_fetch() == 0}
        for digest, (token, since) in list(self._held.items()):
            if token.issuer in may_fetch or self._keys[token.issuer].find(token.kid):
                self._held.pop(digest, None)
                answer = yield from self._take(token, self._issuers[token.issuer], digest, now, since)
                if answer.status == 503:
                    self._held[digest] = token, since

    def _retry_spool(self, spool: Spool) -> ClientCalls[None]:
        for name, kept in (yield Blocking(spool.read)):
            try:
                yield _end(LogoutToken(**kept["logout"]), str(kept["by"]))
            except Unavailable:
                return  # Redis is still away: the others wait, too
            except Exception as error:  # also the next time: the others must not wait for it
                _log.error("A logout in the spool cannot be done, and is set aside as %s.failed: %s", name, error)
                yield Blocking(partial(spool.set_aside, name))
            else:
                yield Blocking(partial(spool.remove, name))

    def _receive(self, text: str, now: float) -> ClientCalls[LogoutResponse]:
        digest = digest_of(text)
        try:
            token = look(text)
            issuer = self._issuers.get(token.issuer)
            if issuer is None:
                raise TokenRefused("is of an issuer that is not configured")
        except TokenRefused as refused:
            return _refused(refused, "", digest)
        return (yield from self._take(token, issuer, digest, now, self._keys[token.issuer].now()))

    def _take(
        self, token: Unverified, issuer: Issuer, digest: str, now: float, since: float
    ) -> ClientCalls[LogoutResponse]:
        """since: when the token came, by the clock of the keys."""
        extra = fields(issuer=issuer.name, digest=digest)
        try:
            logout = yield from self._verify(token, issuer, now)
        except TokenRefused as refused:
            keys = self._keys[issuer.issuer]
            if not keys.find(token.kid) and not keys.are_newer_than(since):
                self._hold(token, digest, since)
            return _refused(refused, issuer.name, digest)
        except KeysUnavailable:
            _log.error("A logout was not verified: no keys", extra=extra)
            return _answer(503, "The keys of the issuer cannot be fetched now.")
        self._count(issuer)
        try:
            ended = yield _end(logout, issuer.name)
        except Unavailable as error:
            return (yield from self._keep(logout, digest, issuer, error))
        except PresenceError as error:
            _log.error("A logout could not be done: %s", error, extra=extra)
            return _answer(503, "The logout was not stored.")
        if ended is None:
            return _refused(TokenRefused("was received before"), issuer.name, digest)
        return _answer(200)

    def _verify(self, token: Unverified, issuer: Issuer, now: float) -> ClientCalls[LogoutToken]:
        if issuer.typed and not token.is_typed:
            raise TokenRefused("must have the type logout+jwt")
        if token.algorithm not in issuer.algorithms:  # before any fetch
            raise TokenRefused("is signed by an algorithm that is not allowed")
        keys = self._keys[issuer.issuer]
        if keys.must_fetch(token.kid):
            yield Blocking(lambda: keys.fetch(token.kid), keys)
        found = keys.find(token.kid)
        if not found:
            raise TokenRefused("is not signed by a key of its issuer")
        for key in found[:-1]:
            with contextlib.suppress(WrongSignature):
                return verify(token, issuer, key, now)
        return verify(token, issuer, found[-1], now)

    def _hold(self, token: Unverified, digest: str, since: float) -> None:
        if sum(held.issuer == token.issuer for held, _ in self._held.values()) < MAX_HELD:
            self._held[digest] = token, since

    def _keep(
        self, logout: LogoutToken, digest: str, issuer: Issuer, error: PresenceError
    ) -> ClientCalls[LogoutResponse]:
        """Redis is away: keep the logout, or let the provider send it again."""
        spool, kept = self.spool, {"logout": asdict(logout), "by": issuer.name}
        is_kept = spool is not None and (yield Blocking(lambda: spool.add(digest, kept)))
        outcome = "It waits in the spool." if is_kept else "It was not stored."
        _log.error("A logout could not be done: %s %s", error, outcome, extra=fields(issuer=issuer.name, digest=digest))
        return _answer(200) if is_kept else _answer(503, "The logout was not stored: send it again.")

    def _count(self, issuer: Issuer) -> None:
        minute = int(self._clock() // 60)
        last, number = self._minutes.get(issuer.issuer, (minute, 0))
        number = number + 1 if last == minute else 1
        self._minutes[issuer.issuer] = (minute, number)
        if number == self._alert_above + 1:
            _log.error(
                "More than %d logouts in a minute: is the identity provider compromised?", self._alert_above,
                extra=fields(issuer=issuer.name),
            )  # fmt: skip


def _end(logout: LogoutToken, name: str) -> Callable[[Any], Any]:
    return lambda presence: presence.provider_logout(
        logout.issuer, subject=logout.subject, session=logout.session, by=name, issued_at=logout.issued_at,
        token_id=logout.token_id, token_seconds=logout.seconds,
    )  # fmt: skip


def _token_of(content_type: str, body: bytes | None) -> str | None:
    if body is None or content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        return None
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError:
        return None
    tokens = [value for name, value in pairs if name == "logout_token"]
    return tokens[0] if len(tokens) == 1 and tokens[0] else None
