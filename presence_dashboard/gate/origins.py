"""Whether a request was sent by one of our own pages, by its header ``Origin``."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

_WEB: Final = ("http", "https")


def is_own(scope: Scope, headers: Headers, *schemes: str) -> bool:
    """Whether the page that sent this is of the origin that the request names: one of these schemes, host and port.

    Any other page on this machine has another port, and a browser extension or an app another scheme. A websocket must
    have an origin: a site can open one to another site, and the browser sends our cookie with it.
    """
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if len(hosts) != 1 or (scope["type"] == "websocket" and not origins):
        return False
    own = {f"{scheme}://{hosts[0].lower()}" for scheme in schemes or _WEB}
    return all(origin.lower() in own for origin in origins)


def scheme_of(scope: Scope) -> str:
    """The scheme of a page that no proxy forwards."""
    return "https" if scope.get("scheme") in ("https", "wss") else "http"
