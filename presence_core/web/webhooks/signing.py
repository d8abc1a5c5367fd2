"""Sign webhooks, and verify the signature: HMAC-SHA256 over the time and the body.

::

    Presence-Id: 7f0c…                       the same at every try: remember it, and act once
    Presence-Signature: t=1791000000,v1=5f…  hex HMAC-SHA256 of "1791000000." and the body, keyed with the secret
                                             (with two secrets two v1, so that a secret can be replaced)
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


def check_secrets(secret: str | Iterable[str]) -> tuple[bytes, ...]:
    """The secret or secrets as bytes. Raises InvalidArgument, which never shows a secret."""
    secrets = [secret] if isinstance(secret, str) else list(secret) if isinstance(secret, Iterable) else []
    if not 1 <= len(secrets) <= 4 or not all(isinstance(text, str) and len(text.encode()) >= 16 for text in secrets):
        raise InvalidArgument("secret", "must be text of at least 16 bytes, or a list of up to 4 such texts")
    return tuple(text.encode() for text in secrets)


def sign(secret: str | Iterable[str], body: bytes, at: int | None = None) -> str:
    """The value of Presence-Signature for this body. at: Unix seconds, by default now."""
    seconds = int(time.time()) if at is None else at
    parts = [f"v1={_mac(key, seconds, body)}" for key in check_secrets(secret)]
    return ",".join([f"t={seconds}", *parts])


def verify(
    secret: str | Iterable[str], signature: str | None, body: bytes, *, tolerance: int = 300, now: float | None = None
) -> bool:
    """Whether the body was signed with one of the secrets, at most ``tolerance`` seconds ago or ahead.

    Pass the body's bytes as received, before any parsing. Takes constant time.
    """
    keys = check_secrets(secret)
    seconds, macs = None, []
    for part in (signature or "").split(",")[:8]:
        name, _, value = part.strip().partition("=")
        if name == "t" and value.isascii() and value.isdigit() and len(value) < 12:
            seconds = int(value)
        elif name == "v1" and value.isascii():
            macs.append(value)
    if seconds is None or abs((time.time() if now is None else now) - seconds) > tolerance:
        return False
    is_valid = False
    for key in keys:
        expected = _mac(key, seconds, body)
        for mac in macs:
            is_valid |= hmac.compare_digest(expected, mac)
    return is_valid


def _mac(key: bytes, seconds: int, body: bytes) -> str:
    return hmac.new(key, b"%d." % seconds + body, sha256).hexdigest()
