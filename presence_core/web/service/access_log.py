"""The access log: one line for each request, without the values in its path, its query and its key."""

from __future__ import annotations

import logging
from typing import Final

from starlette.types import Scope

from presence_core.logs import fields

ACCESS_LOG: Final = __name__
"""The name of its logger."""

KEY_NAME: Final = "presence.key"
"""Where the scope has the name of the API key."""

_PROBES: Final = ("/healthz", "/readyz", "/metrics")
"""Called every few seconds: at level DEBUG while they succeed."""

log = logging.getLogger(ACCESS_LOG)


def method_and_route(scope: Scope, status: int) -> tuple[str, str]:
    """The method and the route's template, or "any" and "none": clients may invent methods and paths."""
    route = getattr(scope.get("route"), "path_format", None)
    return (scope["method"] if route and status != 405 else "any"), route or "none"


def log_request(scope: Scope, status: int, seconds: float) -> None:
    """Log a request that has ended. Status 0: its client left before the response."""
    method, route = method_and_route(scope, status)
    level = logging.DEBUG if route in _PROBES and status < 400 else logging.INFO
    if log.isEnabledFor(level):
        ms, key = round(seconds * 1000, 1), scope.get(KEY_NAME)
        extra = fields(event="request", method=method, route=route, status=status, ms=ms, key=key)
        log.log(level, "%s %s %d %.1f ms%s", method, route, status, ms, f" by {key}" if key else "", extra=extra)
