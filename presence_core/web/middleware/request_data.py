"""The parts of a request that the decision needs, read from an ASGI scope or a WSGI environ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from presence_core.web.proxies import FORWARDED_FOR


class RequestData(NamedTuple):
    """One request, independent of the framework."""

    path: str
    cookie: str = ""  #: the Cookie header
    authorization: str = ""
    peer: str | None = None  #: address of the connected peer; None for a Unix socket
    forwarded: str = ""  #: the header of ``Rules.address_from``, its lines joined by commas
    user_agent: str | None = None
    preflight: bool = False  #: has the method and headers of a CORS preflight, which browsers send without credentials
    source: Mapping[str, Any] | None = None  #: the ASGI scope or the WSGI environ, for ``read_header``


_READ: Final = {b"cookie", b"authorization", b"user-agent", b"origin", b"access-control-request-method"}


def read_scope(scope: Mapping[str, Any], address_from: str = FORWARDED_FOR) -> RequestData:
    """Read an ASGI scope."""
    values: dict[bytes, str] = {}
    forwarded = address_from.encode()
    for name, value in scope["headers"]:
        name = name.lower()
        if name not in _READ and name != forwarded:
            continue
        if name not in values:
            values[name] = value.decode("latin-1")
        elif name == b"cookie":  # HTTP/2 sends it in several lines
            values[name] += "; " + value.decode("latin-1")
        elif name == forwarded:  # and proxies do
            values[name] += "," + value.decode("latin-1")
    get, client = values.get, scope.get("client")
    return RequestData(
        scope["path"] or "/",
        get(b"cookie", ""),
        get(b"authorization", ""),
        (client[0] or None) if client else None,
        get(forwarded, ""),
        get(b"user-agent"),
        scope.get("method") == "OPTIONS" and b"origin" in values and b"access-control-request-method" in values,
        scope,
    )


def read_environ(environ: Mapping[str, Any], address_from: str = FORWARDED_FOR) -> RequestData:
    """Read a WSGI environ."""
    forwarded = "HTTP_" + address_from.upper().replace("-", "_")
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return RequestData(
        path=path.encode("latin-1", "replace").decode("utf-8", "replace") or "/",
        cookie=environ.get("HTTP_COOKIE", ""),
        authorization=environ.get("HTTP_AUTHORIZATION", ""),
        peer=environ.get("REMOTE_ADDR") or None,
        forwarded=environ.get(forwarded, ""),
        user_agent=environ.get("HTTP_USER_AGENT"),
        preflight=environ.get("REQUEST_METHOD") == "OPTIONS"
        and bool(environ.get("HTTP_ORIGIN") and environ.get("HTTP_ACCESS_CONTROL_REQUEST_METHOD")),
        source=environ,
    )


def read_header(request: RequestData, name: str) -> str:
    """The value of any header, its lines joined by commas; empty if it is missing."""
    source = request.source or {}
    if "headers" in source:  # an ASGI scope
        wanted = name.lower().encode("latin-1")
        return ",".join(value.decode("latin-1") for key, value in source["headers"] if key.lower() == wanted)
    key = name.upper().replace("-", "_")
    value = source.get(key if key == "CONTENT_TYPE" else f"HTTP_{key}", "")
    return value if isinstance(value, str) else ""
