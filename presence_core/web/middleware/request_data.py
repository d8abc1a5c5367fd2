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


_JOINED: Final = {b"cookie": "; ", b"x-forwarded-for": ","}  # by HTTP/2, and by proxies, in several lines
_READ: Final = {b"authorization", b"user-agent", b"origin", b"access-control-request-method", *_JOINED}


def read_scope(scope: Mapping[str, Any]) -> RequestData:
    """Read an ASGI scope."""
    values: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        name = name.lower()
        if name not in _READ:
            continue
        if name not in values:
            values[name] = value.decode("latin-1")
        elif name in _JOINED:
            values[name] += _JOINED[name] + value.decode("latin-1")
    get, client = values.get, scope.get("client")
    return RequestData(
        scope["path"] or "/",
        get(b"cookie", ""),
        get(b"authorization", ""),
        (client[0] or None) if client else None,
        get(b"x-forwarded-for", ""),
        get(b"user-agent"),
        scope.get("method") == "OPTIONS" and b"origin" in values and b"access-control-request-method" in values,
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
        preflight=environ.get("REQUEST_METHOD") == "OPTIONS"
        and bool(environ.get("HTTP_ORIGIN") and environ.get("HTTP_ACCESS_CONTROL_REQUEST_METHOD")),
    )
