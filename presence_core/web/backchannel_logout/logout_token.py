"""What a logout token says, once it has been verified."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from joserfc import jws

from presence_core.errors import InvalidArgument
from presence_core.validation import MAX_CLAIM, is_too_deep, plain_text
from presence_core.web.backchannel_logout.issuers import Issuer

MAX_TOKEN: Final = 16_384
"""Characters."""

MAX_ID: Final = 1_024
SLACK: Final = 60
"""How far the clocks of the provider and of this machine may differ, s."""

MAX_LIFE: Final = 86_400
"""From ``iat`` to ``exp`` at most, s: so long its id is kept."""

EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"


class TokenRefused(Exception):
    """The token does not count. Its text is for the log and the provider, and has nothing of the token."""


class WrongSignature(TokenRefused):
    """The key has not signed it."""


@dataclass(frozen=True, slots=True)
class LogoutToken:
    """A verified logout token."""

    issuer: str
    subject: str | None
    session: str | None
    token_id: str
    issued_at: float
    seconds: int  #: how long its id is to be kept


@dataclass(frozen=True, slots=True)
class Unverified:
    """The parts of a token that say with which key to verify it."""

    text: str
    issuer: str
    kid: str | None
    algorithm: str
    is_typed: bool  #: as a logout token


def _refuse(why: str) -> NoReturn:
    raise TokenRefused(why)


def _part(text: str) -> dict[str, Any]:
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        value = None if is_too_deep(raw) else json.loads(raw)
    except (ValueError, RecursionError, binascii.Error):
        value = None
    return value if isinstance(value, dict) else _refuse("is no JSON Web Token")


def look(text: str) -> Unverified:
    """Read the parts of a token that nothing has verified yet. Raises TokenRefused."""
    parts = text.split(".")
    if len(text) > MAX_TOKEN or len(parts) != 3 or not text.isascii():
        _refuse("is no JSON Web Token")
    header, claims = _part(parts[0]), _part(parts[1])
    kid, algorithm, issuer, kind = header.get("kid"), header.get("alg"), claims.get("iss"), header.get("typ", "JWT")
    words = kind.lower().removeprefix("application/") if isinstance(kind, str) else ""
    if words not in ("logout+jwt", "jwt"):
        _refuse("must have the type logout+jwt")
    if not isinstance(issuer, str) or not isinstance(algorithm, str) or not isinstance(kid, str | None):
        _refuse("must have iss, alg and kid as texts")
    return Unverified(text, issuer, kid, algorithm, words == "logout+jwt")


def verify(token: Unverified, issuer: Issuer, key: Any, now: float) -> LogoutToken:
    """Check signature and claims, as OpenID Connect Back-Channel Logout 1.0, 2.6 says. Raises TokenRefused."""
    if token.algorithm not in issuer.algorithms:
        _refuse("is signed by an algorithm that is not allowed")
    try:
        payload = jws.deserialize_compact(token.text, key, algorithms=list(issuer.algorithms)).payload
        claims = json.loads(payload)
    except Exception:  # with any failure here the token is not verified
        raise WrongSignature("is not signed by a key of its issuer") from None
    if not isinstance(claims, dict) or claims.get("iss") != issuer.issuer:
        _refuse("has another issuer")
    return _check_claims(claims, issuer, now)


def _check_claims(claims: Mapping[str, Any], issuer: Issuer, now: float) -> LogoutToken:
    audience, events = claims.get("aud"), claims.get("events")
    if issuer.audience not in (audience if isinstance(audience, list) else [audience]):
        _refuse("is for another audience")
    issued, expires = (_number(claims, name) for name in ("iat", "exp"))
    if issued > now + SLACK or expires <= now - SLACK or not 0 <= expires - issued <= MAX_LIFE:
        _refuse("is not valid now, or for longer than a day")
    if not isinstance(events, dict) or not isinstance(events.get(EVENT), dict):
        _refuse("must have the event of a back-channel logout")
    if "nonce" in claims:
        _refuse("must not have a nonce")
    token_id = _text(claims, "jti", MAX_ID)
    subject, session = _text(claims, "sub", MAX_CLAIM), _text(claims, "sid", MAX_CLAIM)
    if token_id is None or (subject is None and session is None):
        _refuse("must have jti, and sub or sid")
    return LogoutToken(issuer.issuer, subject, session, token_id, issued, int(expires - issued) + 2 * SLACK + 1)


def _number(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e11:
        _refuse(f"must have {name}, in seconds")
    return float(value)


def _text(claims: Mapping[str, Any], name: str, most: int) -> str | None:
    if name not in claims:
        return None
    try:
        return plain_text(name, claims[name], most, "")
    except InvalidArgument:
        _refuse(f"must have a {name} of 1 to {most} bytes")
