"""Who calls, and what for: the one place where requests are let in.

A key is sent as ``Authorization: Bearer …``. Its digest is compared with every stored one, in constant time; the stored
ones are read again every five seconds, so that is how long a removed key may still open anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Annotated, Final, Protocol

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer, SecurityScopes
from starlette.exceptions import HTTPException

from presence_core import settings as check
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import InvalidArgument, PresenceError, Unavailable
from presence_core.loopback import PROXY_HEADERS, host_of, is_loopback
from presence_core.models import ApiKey
from presence_core.operations import api_keys

CACHE_SECONDS: Final = 5.0

ACTOR_BYTES: Final = 128

LOCAL: Final = "local operator"

_PREFIX: Final = "presence_"
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="presence"'}

_bearer = HTTPBearer(
    auto_error=False, scheme_name="API key", description="Made by `presence keys add`; scopes: record, read, kick."
)


class Keys(Protocol):
    """Where keys are looked up."""

    async def find(self, secret: str) -> ApiKey | None:
        """The key that this secret is, or None. May raise Unavailable."""


def digest(secret: str) -> str:
    """What is stored of a key."""
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def make_key(presence: Presence, name: str, scopes: Sequence[str]) -> tuple[ApiKey, str]:
    """A new key; the secret is told here once and stored nowhere."""
    secret = _PREFIX + secrets.token_urlsafe(32)
    return presence._run(api_keys.add_key(presence._ctx, name, scopes, digest(secret))), secret


def list_keys(presence: Presence) -> list[ApiKey]:
    """All keys by name."""
    return presence._run(api_keys.keys(presence._ctx))


def remove_key(presence: Presence, name: str) -> bool:
    """Close a key. False: there was none of this name."""
    return presence._run(api_keys.remove_key(presence._ctx, name))


class StoredKeys:
    """The keys of a namespace, as ``presence keys`` keeps them in Redis."""

    def __init__(self, presence: AsyncPresence) -> None:
        self._presence = presence
        self._known: list[ApiKey] = []
        self._read_at = -CACHE_SECONDS
        self._failed_at = float("-inf")
        self._turn = asyncio.Lock()

    async def find(self, secret: str) -> ApiKey | None:
        """See Keys. While Redis is away nobody's key can be told from a removed one: Unavailable."""
        asked = time.monotonic()
        if asked - self._read_at >= CACHE_SECONDS:
            async with self._turn:  # one reads, the others wait for what it finds
                if self._failed_at >= asked:
                    raise Unavailable("The API keys could not be read.")
                if time.monotonic() - self._read_at >= CACHE_SECONDS:
                    await self._read()
        wanted, found = digest(secret).encode(), None
        for key in self._known:
            if compare_digest(key.digest.encode("utf-8", "replace"), wanted):
                found = key
        return found

    async def _read(self) -> None:
        begun = time.monotonic()
        try:
            self._known = await self._presence._run(api_keys.keys(self._presence._ctx))
        except Unavailable:
            self._failed_at = time.monotonic()
            raise
        self._read_at = begun


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: ``by`` is how the audit names them."""

    by: str
    scopes: tuple[str, ...]


async def let_in(request: Request, scope: str) -> Caller:
    """Who this is, where they may do what has this scope. Raises 401 and 403."""
    known: Keys | None = request.app.state.keys
    if known is None:
        _only_local(request)
        return Caller(_by(LOCAL, request), api_keys.SCOPES)
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise HTTPException(401, "An API key must be sent, as Authorization: Bearer.", _CHALLENGE)
    key = await known.find(secret.strip())
    if key is None:
        raise HTTPException(401, "This API key is not known.", _CHALLENGE)
    if scope not in key.scopes:
        if scope == "kick":
            await _write_down(request, key)
        raise HTTPException(403, f"This API key lacks the scope {scope}.")
    return Caller(_by(key.name, request), key.scopes)


async def _write_down(request: Request, key: ApiKey) -> None:
    """A key that may not kick has tried to: the audit says so, in a row for each key, route and hour. Whom it acts for
    stands in the row's reason, where it cannot make rows."""
    presence: AsyncPresence = request.app.state.presence
    route, uid, actor = request.scope["route"], request.path_params.get("uid"), request.headers.get("x-actor")
    what = f"{request.method} {getattr(route, 'path_format', '')}"
    try:
        reason = None if actor is None else f"for {_actor(actor)}"
        await presence.denied(by=key.name, what=what[:64], uid=uid, reason=reason)
    except InvalidArgument:  # of a uid or an actor that is none: the attempt counts all the same
        with contextlib.suppress(PresenceError):
            await presence.denied(by=key.name, what=what[:64])
    except PresenceError:
        pass  # Redis is away: the answer is no in any case


async def _let_in(request: Request, needed: SecurityScopes, _: Annotated[object, Depends(_bearer)]) -> Caller:
    """The same as a dependency, which the schema tells of."""
    [scope] = needed.scopes
    return await let_in(request, scope)


Recorder = Security(_let_in, scopes=["record"])
Reader = Security(_let_in, scopes=["read"])
Kicker = Security(_let_in, scopes=["kick"])
Staff = Annotated[Caller, Kicker]


def _by(name: str, request: Request) -> str:
    """The key's name, and whom the program that holds it acts for. No name of a key has a space in it, so nobody can
    pass for another key."""
    raw = request.headers.get("x-actor")
    return name if raw is None else check.actor(f"{name} ({_actor(raw)})")


def _actor(raw: str) -> str:
    """X-Actor, checked."""
    rule = f"must be text of 1 to {ACTOR_BYTES} bytes of UTF-8, without control characters"
    if len(raw) > ACTOR_BYTES:  # each character is a byte: headers are read as Latin-1
        raise InvalidArgument("X-Actor", rule)
    try:
        return check.uid(raw.encode("latin-1").decode(), "X-Actor")
    except (InvalidArgument, UnicodeDecodeError):
        raise InvalidArgument("X-Actor", rule) from None


# -- without keys -----------------------------------------------------------------------------------------------------


def _only_local(request: Request) -> None:
    """Without keys this machine alone is served: no network, no proxy, no web page that sends its reader's browser here
    or points its own name at this machine."""
    ends = (request.scope.get("client"), request.scope.get("server"))
    named = [f"//{request.headers.get('host', '')}", *request.headers.getlist("origin")]
    is_local = all(end is not None and is_loopback(end[0]) for end in ends) and all(
        is_loopback(host_of(name)) for name in named
    )
    if not is_local or any(name in request.headers for name in PROXY_HEADERS):
        raise HTTPException(403, "Without API keys this service answers its own machine only: make one, presence keys.")
