"""The receiver without a framework: reads a request, verifies its token, ends the sessions, answers.

Each step is yielded: ``drive`` carries it out, ``drive_async`` awaits it. A step is a call of a client, or Fetch.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl

from presence_core.drive_generators import ClientCalls
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.logs import fields
from presence_core.web.backchannel_logout.issuers import Issuer
from presence_core.web.backchannel_logout.logout_token import LogoutToken, TokenRefused, Unverified, look, verify
from presence_core.web.backchannel_logout.signing_keys import KeysUnavailable, SigningKeys
from presence_core.web.backchannel_logout.spool import Spool

_log = logging.getLogger(__name__)

MAX_BODY: Final = 32_768
"""Bytes."""

ALERT_ABOVE: Final = 600
"""Logouts of an issuer in a minute, above which a warning is logged. None is dropped."""

_HEADERS: Final = [("Cache-Control", "no-store"), ("Content-Type", "application/json")]


@dataclass(frozen=True, slots=True)
class LogoutResponse:
    """The answer, for each framework."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """A step that blocks: fetch the keys of an issuer."""

    run: Callable[[], None]

    def __call__(self, _presence: Any) -> None:
        self.run()


def _answer(status: int, why: str = "") -> LogoutResponse:
    error = "invalid_request" if status < 500 else "temporarily_unavailable"
    body = json.dumps({"error": error, "error_description": why}).encode() if why else b"{}"
    more = [("Retry-After", "5")] if status == 503 else [("Allow", "POST")] if status == 405 else []
    return LogoutResponse(status, [*_HEADERS, *more], body)


def digest_of(token: str) -> str:
    """What logs say of a token."""
    return sha256(token.encode()).hexdigest()[:16]


class LogoutReceiver:
    """``LogoutReceiver([Issuer(…)])``: receives the logouts of these identity providers. Mount it by
    ``BackchannelLogout`` of ``asgi`` or ``wsgi``, or the view of ``django``.

    issuers: at least one, each issuer once. spool: a folder that keeps logouts while Redis is away, until they are
    done. Without it the answer is 503 then: providers seldom send twice. alert_above:
    log a warning above so many logouts of an issuer in a minute; none is dropped.

    A wrong token is answered with 400 and ends nothing. 200 means that the logout is stored, and the sessions have
    ended. Cost: one verification, about 0.1 ms, and the round trips of ``Presence.provider_logout``.
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

    def answer(self, method: str, content_type: str, body: bytes | None) -> ClientCalls[LogoutResponse]:
        """Answer a request. ``body``: None if it is longer than MAX_BODY."""
        if method != "POST":
            return _answer(405, "Send a POST.")
        token = _token_of(content_type, body)
        if token is None:
            return _answer(400, "The body must be a form with one logout_token.")
        return (yield from self._receive(token, self._clock()))

    def retry(self) -> ClientCalls[int]:
        """Do the logouts that wait in the spool. Returns how many are left."""
        spool = self.spool
        for name, kept in spool.read() if spool else ():
            try:
                logout, by = LogoutToken(**kept["logout"]), str(kept["by"])
            except (TypeError, KeyError):
                continue  # not ours: it stays
            try:
                yield _end(logout, by)
            except PresenceError:
                return len(spool) if spool else 0
            if spool:
                spool.remove(name)
        return 0

    def _receive(self, token: str, now: float) -> ClientCalls[LogoutResponse]:
        digest, known = digest_of(token), ""
        try:
            unverified = look(token)
            issuer = self._issuers.get(unverified.issuer)
            if issuer is None:
                raise TokenRefused("is of an issuer that is not configured")
            known = issuer.name
            logout = yield from self._verify(unverified, issuer, now)
        except TokenRefused as refused:
            _log.warning("A logout token was refused: it %s", refused, extra=fields(issuer=known, digest=digest))
            return _answer(400, f"The token {refused}.")
        except KeysUnavailable:
            _log.error("A logout was not verified: no keys", extra=fields(issuer=known, digest=digest))
            return _answer(503, "The keys of the issuer cannot be fetched now.")
        self._count(issuer)
        try:
            ended = yield _end(logout, issuer.name)
        except PresenceError as error:
            return self._keep(logout, digest, issuer, error)
        if ended is None:
            _log.warning("A logout token was refused: received before", extra=fields(issuer=known, digest=digest))
            return _answer(400, "The token was received before.")
        return _answer(200)

    def _verify(self, token: Unverified, issuer: Issuer, now: float) -> ClientCalls[LogoutToken]:
        if token.algorithm not in issuer.algorithms:  # before any fetch
            raise TokenRefused("is signed by an algorithm that is not allowed")
        keys = self._keys[issuer.issuer]
        if keys.must_fetch(token.kid):
            yield Fetch(lambda: keys.fetch(token.kid))
        key = keys.find(token.kid)
        if key is None:
            raise TokenRefused("is not signed by a key of its issuer")
        return verify(token, issuer, key, now)

    def _keep(self, logout: LogoutToken, digest: str, issuer: Issuer, error: PresenceError) -> LogoutResponse:
        """Redis is away: keep the logout, or let the provider send it again."""
        kept = {"logout": asdict(logout), "by": issuer.name}
        is_kept = self.spool is not None and self.spool.add(digest, kept)
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
