"""API keys: create, list and remove them, and find the key for a secret."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Final, Protocol

from presence_core.client import AsyncPresence, Presence
from presence_core.errors import Unavailable
from presence_core.models import ApiKey
from presence_core.operations.staff import api_keys

CACHE_SECONDS: Final = 5.0
"""A removed key may still be accepted for this time."""

_PREFIX: Final = "presence_"


class Keys(Protocol):
    """Looks up API keys."""

    async def find(self, secret: str) -> ApiKey | None:
        """The key with this secret, or None. May raise Unavailable."""


def digest(secret: str) -> str:
    """The digest of a secret, which is stored in its place."""
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def make_key(presence: Presence, name: str, scopes: Sequence[str]) -> tuple[ApiKey, str]:
    """A new key and its secret. The secret is stored nowhere, so it cannot be shown again."""
    secret = _PREFIX + secrets.token_urlsafe(32)
    return presence.internal.run(api_keys.add_key(presence.internal.context, name, scopes, digest(secret))), secret


def list_keys(presence: Presence) -> list[ApiKey]:
    """All keys, by name."""
    return presence.internal.run(api_keys.keys(presence.internal.context))


def remove_key(presence: Presence, name: str) -> bool:
    """Remove a key. False: there is no key of this name."""
    return presence.internal.run(api_keys.remove_key(presence.internal.context, name))


class StoredKeys:
    """The keys of a namespace, which ``presence keys`` stores in Redis. They are read again every five seconds."""

    def __init__(self, presence: AsyncPresence) -> None:
        self._presence = presence
        self._keys: list[ApiKey] = []
        self._read_at = -CACHE_SECONDS
        self._failed_at = float("-inf")
        self._reading = asyncio.Lock()

    async def find(self, secret: str) -> ApiKey | None:
        """See Keys. Takes constant time for all secrets. Raises Unavailable while Redis is away: then a removed key
        looks like a valid one."""
        begin = time.monotonic()
        if begin - self._read_at >= CACHE_SECONDS:
            async with self._reading:  # one request reads, the others wait for its result
                if self._failed_at >= begin:
                    raise Unavailable("The API keys could not be read.")
                if time.monotonic() - self._read_at >= CACHE_SECONDS:
                    await self._read()
        wanted, match = digest(secret).encode(), None
        for key in self._keys:
            if compare_digest(key.digest.encode("utf-8", "replace"), wanted):
                match = key
        return match

    async def _read(self) -> None:
        begin = time.monotonic()
        try:
            self._keys = await self._presence.internal.run(api_keys.keys(self._presence.internal.context))
        except Unavailable:
            self._failed_at = time.monotonic()
            raise
        self._read_at = begin
