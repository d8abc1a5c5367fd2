"""Authorize requests: every route of the service comes through ``authorize``.

A key is sent as ``Authorization: Bearer …``. Without keys, the service answers only requests from this machine.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer, SecurityScopes
from starlette.exceptions import HTTPException

from presence_core import validation as check
from presence_core.client import AsyncPresence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.loopback import host_of, is_loopback, is_proxied
from presence_core.models import ApiKey
from presence_core.operations.staff import api_keys
from presence_core.web.service.access_log import KEY_NAME
from presence_core.web.service.api_keys import Keys

Scope = Literal["record", "read", "failures", "kick", "admin"]

ACTOR_BYTES: Final = 128

LOCAL: Final = "local operator"
"""The actor in the audit if there are no keys."""

_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="presence"'}

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="API key",
    description="Created by `presence keys add`. Scopes: record, read, failures, kick, admin.",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The authorized caller. ``by`` is its name in the audit; ``name`` is that of its key alone."""

    by: str
    scopes: tuple[str, ...]
    name: str


async def authorize(request: Request, scope: str) -> Caller:
    """The caller, if it has this scope. Raises HTTPException 401 or 403."""
    keys: Keys | None = request.app.state.keys
    if keys is None:
        _require_local(request)
        return Caller(_actor_name(LOCAL, request), api_keys.SCOPES, LOCAL)
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise HTTPException(401, "An API key is required: send the header Authorization: Bearer KEY.", _CHALLENGE)
    key = await keys.find(secret.strip())
    if key is None:
        raise HTTPException(401, "This API key is unknown.", _CHALLENGE)
    request.scope[KEY_NAME] = key.name
    if scope not in key.scopes:
        if scope in ("kick", "admin"):
            await _audit_denied(request, key)
        raise HTTPException(403, f"This API key lacks the scope {scope}.")
    return Caller(_actor_name(key.name, request), key.scopes, key.name)


async def _authorize_dependency(
    request: Request, needed: SecurityScopes, _: Annotated[object, Depends(_bearer)]
) -> Caller:
    """``authorize`` as a dependency, which puts the scope into the OpenAPI schema."""
    [scope] = needed.scopes
    return await authorize(request, scope)


def _require(scope: Scope) -> Any:
    return Security(_authorize_dependency, scopes=[scope])


Recorder = _require("record")
Reader = _require("read")
FailureReader = _require("failures")
Kicker = _require("kick")
Staff = Annotated[Caller, Kicker]


async def _audit_denied(request: Request, key: ApiKey) -> None:
    """Write an audit entry: a key without the scope has tried a staff action. The audit keeps one row for each key,
    route and hour, with a count. The person that the key acts for is in the row's reason, where it cannot create more
    rows."""
    presence: AsyncPresence = request.app.state.presence
    route, uid, actor = request.scope["route"], request.path_params.get("uid"), request.headers.get("x-actor")
    action = f"{request.method} {getattr(route, 'path_format', '')}"[:64]
    try:
        reason = None if actor is None else f"for {_check_actor(actor)}"
        await presence.denied(by=key.name, what=action, uid=uid, reason=reason)
    except InvalidArgument:  # an invalid uid or actor: the attempt counts without it
        with contextlib.suppress(PresenceError):
            await presence.denied(by=key.name, what=action)
    except PresenceError:
        pass  # Redis is away: the request is refused in any case


def _actor_name(name: str, request: Request) -> str:
    """The key's name, with the person that its holder acts for. A key's name has no space, so this cannot look like
    another key."""
    actor = request.headers.get("x-actor")
    return name if actor is None else check.actor(f"{name} ({_check_actor(actor)})")


def _check_actor(header: str) -> str:
    """The text of X-Actor. Raises InvalidArgument."""
    rule = f"must be text of 1 to {ACTOR_BYTES} bytes of UTF-8, without control characters"
    if len(header) > ACTOR_BYTES:  # each character is one byte: headers are decoded as Latin-1
        raise InvalidArgument("X-Actor", rule, "malformed")
    try:
        return check.uid(header.encode("latin-1").decode(), "X-Actor")
    except (InvalidArgument, UnicodeDecodeError):
        raise InvalidArgument("X-Actor", rule, "malformed") from None


def _require_local(request: Request) -> None:
    """Refuse what does not come from this machine: the network, a proxy, or a web page of another origin whose reader's
    browser runs here, also with a host name that points to this machine."""
    ends = (request.scope.get("client"), request.scope.get("server"))
    names = [f"//{request.headers.get('host', '')}", *request.headers.getlist("origin")]
    is_local = all(end is not None and is_loopback(end[0]) for end in ends) and all(
        is_loopback(host_of(name)) for name in names
    )
    if not is_local or is_proxied(request.headers):
        raise HTTPException(403, "Without API keys this service answers only its own machine: run presence keys add.")
