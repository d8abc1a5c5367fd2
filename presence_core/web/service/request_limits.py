"""Limits and headers around every request: size and time of the body, the path as sent, security headers, timing."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from presence_core.logs import fields
from presence_core.web.service.problems import BROKEN, problem

MAX_BODY: Final = 65_536

BODY_SECONDS: Final = 10.0
"""How long a body may take to arrive."""

HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)

Observe = Callable[[Scope, int, float], None]
"""Called with the scope, the status and the seconds of each request that has ended."""

log = logging.getLogger(__name__)


class RequestLimits:
    """ASGI middleware around the whole service."""

    def __init__(self, app: ASGIApp, observe: Observe) -> None:
        self.app = app
        self.observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Routes match the path as sent: in the decoded path, a slash inside a uid would separate segments.
        scope["path"] = scope.get("raw_path", b"").decode("latin-1") or quote(scope["path"])
        begin = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name.lower() for name, _ in message.get("headers", ())}
                headers = [*message.get("headers", ()), *(pair for pair in HEADERS if pair[0] not in given)]
                message = {**message, "headers": headers}
            await send(message)

        try:
            refusal, receive = await _read_body(scope, receive)
            await (refusal or self.app)(scope, receive, send_with_headers)
        except Exception:
            route = _route(scope)
            extra = fields(event="request_failed", method=scope["method"], route=route)
            log.exception("%s %s failed", scope["method"], route, extra=extra)
            if not status:
                await problem(500, BROKEN)(scope, receive, send_with_headers)
        finally:
            self.observe(scope, status, time.perf_counter() - begin)


def _route(scope: Scope) -> str:
    """The route's template, without the values in the path."""
    return getattr(scope.get("route"), "path", "(no route)")


async def _read_body(scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
    """Read the whole body before the app runs.

    Returns a refusal if it is too long or too slow, and the ``receive`` that gives the body to the app.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and (not re.fullmatch(rb"\d{1,18}", value) or int(value) > MAX_BODY):
            return _too_long(), receive
    # No header says that there is no body: HTTP/2 needs none for one. A request without a body has one empty message.
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":  # the part that arrived may look complete
                    return problem(400, "The body ended too early."), receive
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    return _too_long(), receive
                if not message.get("more_body"):
                    break
    except TimeoutError:
        detail = f"The body must arrive within {BODY_SECONDS:.0f} seconds."
        return problem(408, detail, {"Connection": "close"}), receive
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return None, replay


def _too_long() -> Response:
    return problem(413, f"The body must be at most {MAX_BODY} bytes.", {"Connection": "close"})
