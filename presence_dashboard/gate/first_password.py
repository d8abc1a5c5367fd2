"""After a sign-in with a one-time password: the proof that lets the form choose another password.

The proof is made with the stored hash as its key, so it ends when the password changes, works on every process that has
the same file, and needs no memory. It belongs to one browser, by the value of its CSRF cookie.
"""

from __future__ import annotations

import hmac
import time
from typing import Final

from presence_core.files.password_file import LONGEST, SHORTEST, StoredPassword
from presence_dashboard import texts

PROOF_SECONDS: Final = 600


def proof(stored: StoredPassword, name: str, csrf: str) -> str:
    """The proof that this browser has just signed in as ``name`` with this one-time password."""
    return _signed(stored, name, csrf, int(time.time()) + PROOF_SECONDS)


def is_proof(value: str, stored: StoredPassword | None, name: str, csrf: str) -> bool:
    """Whether ``proof`` made this value, for the password that is stored now."""
    until, _, _ = value.partition(".")
    if stored is None or not stored.is_one_time or not (until.isascii() and until.isdecimal() and len(until) <= 12):
        return False
    return int(until) > time.time() and hmac.compare_digest(
        value.encode(), _signed(stored, name, csrf, int(until)).encode()
    )


def problem(new: str, repeated: str) -> str | None:
    """Why this password cannot be chosen; None: it can."""
    if not SHORTEST <= len(new) <= LONGEST:
        return texts.first_password_length(SHORTEST, LONGEST)
    return None if new == repeated else texts.FIRST_PASSWORD_DIFFERS


def _signed(stored: StoredPassword, name: str, csrf: str, until: int) -> str:
    digest = hmac.new(stored.hash.encode(), f"{until}\n{csrf}\n{name}".encode(), "sha256").hexdigest()
    return f"{until}.{digest}"
