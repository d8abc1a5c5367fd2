"""Handles: names of sessions that only their own user's pages have.

A site may use its own session ids, which may be the credential itself. So neither HTML nor JSON holds a session id, but
an HMAC of it. A handle that a visitor sends is compared with those of all their own sessions. So a handle of another
user is a handle that no session has, like any other text.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterable


def derive_key(secret: bytes, purpose: str) -> bytes:
    """A key for one purpose."""
    return hmac.digest(secret, b"presence your_devices " + purpose.encode(), "sha256")


def handle_of(key: bytes, uid: str, session_id: str) -> str:
    """The handle of a user's session: 128 bits, 22 URL-safe characters."""
    ref = f"{uid}:{session_id}".encode("utf-8", "surrogateescape")  # session ids hold no colon
    return urlsafe_b64encode(hmac.digest(key, ref, "sha256")[:16]).rstrip(b"=").decode()


def find_session(key: bytes, uid: str, session_ids: Iterable[str], handle: str) -> str | None:
    """The id of the user's session with this handle, or None. Takes as long for each text."""
    given = handle.encode("utf-8", "surrogatepass")
    found = None
    for session_id in session_ids:
        if hmac.compare_digest(handle_of(key, uid, session_id).encode(), given):
            found = session_id
    return found
