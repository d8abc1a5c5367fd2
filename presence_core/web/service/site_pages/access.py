"""Which pages may call, and how often: allowed origins, CORS, and a rate limit for each address."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from math import ceil
from typing import Final

from fastapi import Request, Response
from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from presence_core.web.service.problems import problem
from presence_core.web.service.site_pages.options import Pages

PATHS: Final = ("/counter", "/visit", "/online", "/online/friends", "/goodbye", "/presence.js")

_FOREIGN: Final = "Pages of this origin may not call this address, or not with this method."


class AddressLimiter:
    """``burst`` requests of an address in ``burst / per_second`` seconds. Each process counts for itself.

    A sliding window: an address needs two counters, which expire, and a clock that is set back locks no address out.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._limit = RateLimitItemPerSecond(burst, max(1, ceil(burst / per_second)))
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def check(self, ip: str | None) -> None:
        """Count this request. Raises HTTPException 429 if there were too many."""
        if not self._limiter.hit(self._limit, limited_network(ip)):
            headers = {"Retry-After": str(self._limit.get_expiry())}
            raise HTTPException(429, "Too many requests from this address.", headers)


def limited_network(ip: str | None) -> str:
    """The address, or its /64 network: with IPv6 a site's visitor has all addresses of it."""
    if ip is None or ":" not in ip:
        return ip or ""
    address = ip_address(ip.partition("%")[0])
    return str(ip_network((address, 64), strict=False))


def check_origin(request: Request, pages: Pages) -> None:
    """Raise HTTPException 403 if the page's origin is not allowed."""
    origin = request.headers.get("origin")
    if origin is None:
        allowed = request.headers.get("sec-fetch-site") != "cross-site"
    else:
        allowed = origin in pages.origins or origin.partition("://")[2] == request.headers.get("host")
    if not allowed:
        raise HTTPException(403, _FOREIGN)


class _Cors(CORSMiddleware):
    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        return response if response.status_code < 400 else problem(403, _FOREIGN)


class SitePagesCors:
    """CORS for the pages' addresses only."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self.app = app
        self.cors = _Cors(app, origins, allow_methods=["GET", "POST"], allow_credentials=True,
                          allow_headers=["Authorization"])  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and scope["path"] in PATHS
        await (self.cors if is_page else self.app)(scope, receive, send)
