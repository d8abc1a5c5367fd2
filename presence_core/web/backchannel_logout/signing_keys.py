"""The public keys of an issuer: fetched within limits, kept, and fetched again when it uses a new one."""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import KeySet

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 262_144
MAX_KEYS: Final = 100
FETCH_SECONDS: Final = 5.0
"""For each step of a fetch; twice as long for all of it."""

KEEP_SECONDS: Final = 3_600.0
"""After that they are fetched again: a key that the issuer has withdrawn is no longer trusted."""

AGAIN_SECONDS: Final = 60.0
"""Between two fetches for a key that is not known."""

RETRY_SECONDS: Final = 5.0
"""Between two fetches while there are no keys."""


MOST_TRIED: Final = 8
"""Keys with which one token is verified at most."""


class KeysUnavailable(Exception):
    """The keys cannot be fetched now."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


FETCH_ERRORS: Final = (OSError, ValueError, RecursionError, HTTPException, JoseError, TypeError, KeyError)
"""What goes wrong in a fetch, or with what was fetched."""


def fetch_json(uri: str) -> dict[str, Any]:
    """What an identity provider publishes, within limits of size and time. Raises FETCH_ERRORS."""
    begin, body = time.monotonic(), b""
    request = urllib.request.Request(uri, headers={"Accept": "application/json"})
    with _OPENER.open(request, timeout=FETCH_SECONDS) as response:
        while part := response.read1(65_536):
            body += part
            if len(body) > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES} bytes")
            if time.monotonic() - begin > 2 * FETCH_SECONDS:
                raise ValueError("too slow")
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found


def _fetch(uri: str) -> KeySet:
    listed = fetch_json(uri).get("keys")
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise ValueError("no JSON Web Key Set")
    # Only public keys for signatures: with a shared secret among them, anyone who reads the address could sign.
    kinds = [key for key in listed if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP")]
    usable = [key for key in kinds if key.get("use", "sig") == "sig" and "d" not in key]
    return KeySet.import_key_set({"keys": usable})


class SigningKeys:
    """The keys of one issuer. Threads may share it; one of them fetches, and the others wait for it."""

    def __init__(self, uri: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._uri, self._clock = uri, clock
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._fetched = self._tried = float("-inf")

    def must_fetch(self, kid: str | None) -> bool:
        """Whether ``fetch`` would ask the issuer before this key is used."""
        now = self._clock()
        if self._keys is None:
            return True
        if now - self._fetched > KEEP_SECONDS:
            return now - self._tried > RETRY_SECONDS
        return not self.find(kid) and now - self._tried >= AGAIN_SECONDS

    def fetch(self, kid: str | None) -> None:
        """Ask the issuer, if that is due. Blocks. Raises KeysUnavailable while there are none."""
        with self._lock:
            if not self.must_fetch(kid):
                return
            now = self._clock()
            if self._keys is None and now - self._tried <= RETRY_SECONDS:
                raise KeysUnavailable
            self._tried = now
            try:
                self._keys, self._fetched = _fetch(self._uri), now
            except FETCH_ERRORS as error:
                _log.warning("The keys of an identity provider cannot be fetched from %s: %s", self._uri, error)
                if self._keys is None or now - self._fetched > 24 * KEEP_SECONDS:
                    self._keys = None
                    raise KeysUnavailable from None

    def find(self, kid: str | None) -> list[Any]:
        """The keys of this id, rarely more than one; without an id all, at most MOST_TRIED."""
        keys = self._keys.keys if self._keys else []
        return [key for key in keys if kid is None or key.kid == kid][:MOST_TRIED]

    def now(self) -> float:
        """By the clock of this object."""
        return self._clock()

    def are_newer_than(self, moment: float) -> bool:
        """Whether they were fetched after this moment."""
        return self._fetched > moment

    def seconds_to_fetch(self) -> float:
        """Seconds until ``fetch`` may ask for a key that is not known."""
        return max(0.0, self._tried + AGAIN_SECONDS - self._clock())
