"""Signatures of webhooks: HMAC-SHA256 over the time and the body, as the receiver checks them.

::

    Presence-Id: 7f0c…                       the same at every try: note it, and do each once
    Presence-Signature: t=1791000000,v1=5f…  hex HMAC-SHA256 of "1791000000." and the body, by the secret
                                             (with two secrets two v1, so that one can be changed for the other)
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from presence_core.errors import InvalidArgument

SIGNATURE: Final = "Presence-Signature"
DELIVERY_ID: Final = "Presence-Id"


def secrets_of(secret: str | Iterable[str]) -> tuple[bytes, ...]:
    """One secret or several, checked. Raises InvalidArgument, and never shows one."""
    given = [secret] if isinstance(secret, str) else list(secret) if isinstance(secret, Iterable) else []
    if not 1 <= len(given) <= 4 or not all(isinstance(one, str) and len(one.encode()) >= 16 for one in given):
        raise InvalidArgument("secret", "must be text of at least 16 bytes, or up to 4 of them")
    return tuple(one.encode() for one in given)


def sign(secret: str | Iterable[str], body: bytes, at: int | None = None) -> str:
    """The value of Presence-Signature for this body. at: Unix seconds, by default now."""
    when = int(time.time()) if at is None else at
    parts = [f"v1={_mac(one, when, body)}" for one in secrets_of(secret)]
    return ",".join([f"t={when}", *parts])


def verify(
    secret: str | Iterable[str], signature: str | None, body: bytes, *, tolerance: int = 300, now: float | None = None
) -> bool:
    """Whether this body was signed with one of the secrets, at most ``tolerance`` seconds ago (or ahead). In constant
    time. Give the body's bytes as they came, before anybody parsed them."""
    secrets = secrets_of(secret)
    when, macs = None, []
    for part in (signature or "").split(",")[:8]:
        name, _, value = part.strip().partition("=")
        if name == "t" and value.isascii() and value.isdigit() and len(value) < 12:
            when = int(value)
        elif name == "v1" and value.isascii():
            macs.append(value)
    if when is None or abs((time.time() if now is None else now) - when) > tolerance:
        return False
    found = False
    for one in secrets:
        expected = _mac(one, when, body)
        for mac in macs:
            found |= hmac.compare_digest(expected, mac)
    return found


def _mac(secret: bytes, at: int, body: bytes) -> str:
    return hmac.new(secret, b"%d." % at + body, sha256).hexdigest()
