"""The parts of a request that the decision needs, read from an ASGI scope or a WSGI environ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class RequestData(NamedTuple):
    """One request, independent of the framework."""

    path: str
    cookie: str = ""  #: the Cookie header
    authorization: str = ""
    peer: str | None = None  #: address of the connected peer; None for a Unix socket
    forwarded: str = ""  #: X-Forwarded-For, its lines joined by commas
    user_agent: str | None = None
    preflight: bool = False  #: has the method and headers of a CORS preflight, which browsers send without credentials


_NONE: Final = ("",)
_READ: Final = frozenset(
    (b"cookie", b"authorization", b"x-forwarded-for", b"user-agent", b"origin", b"access-control-request-method")
)


def read_scope(scope: Mapping[str, Any]) -> RequestData:
    """Read an ASGI scope."""
    values: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        if (name if name in _READ else name.lower()) in _READ:
            values.setdefault(name.lower(), []).append(value.decode("latin-1"))
    client = scope.get("client")
    get = values.get
    agent, cookies, forwarded = get(b"user-agent"), get(b"cookie"), get(b"x-forwarded-for")
    return RequestData(
        scope["path"] or "/",
        "; ".join(cookies) if cookies else "",  # HTTP/2 may split it
        get(b"authorization", _NONE)[0],
        (client[0] or None) if client else None,
        ",".join(forwarded) if forwarded else "",
        agent[0] if agent else None,
        _is_preflight(scope.get("method", ""), get(b"origin"), get(b"access-control-request-method")),
    )


def read_environ(environ: Mapping[str, Any]) -> RequestData:
    """Read a WSGI environ."""
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return RequestData(
        path=path.encode("latin-1", "replace").decode("utf-8", "replace") or "/",
        cookie=environ.get("HTTP_COOKIE", ""),
        authorization=environ.get("HTTP_AUTHORIZATION", ""),
        peer=environ.get("REMOTE_ADDR") or None,
        forwarded=environ.get("HTTP_X_FORWARDED_FOR", ""),
        user_agent=environ.get("HTTP_USER_AGENT"),
        preflight=_is_preflight(
            environ.get("REQUEST_METHOD", ""),
            environ.get("HTTP_ORIGIN"),
            environ.get("HTTP_ACCESS_CONTROL_REQUEST_METHOD"),
        ),
    )


def _is_preflight(method: str, origin: object, requested_method: object) -> bool:
    return method == "OPTIONS" and bool(origin) and bool(requested_method)
