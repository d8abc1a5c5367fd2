"""Around every request: its whole body within limits, its path as it was sent, headers on the answer, and a clock."""

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

from presence_core.web.problems import BROKEN, problem

MAX_BODY: Final = 65_536
BODY_SECONDS: Final = 10.0
"""How long a body may take to arrive."""

log = logging.getLogger("presence_core")

HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)

Observe = Callable[[Scope, int, float], None]
"""Told of each request: its scope, the status of its answer, how many seconds that took."""


class Shell:
    """ASGI middleware around the whole service."""

    def __init__(self, app: ASGIApp, observe: Observe) -> None:
        self.app = app
        self.observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Routes match the path as it was sent: decoded, a slash inside a uid would look like one between segments.
        scope["path"] = scope.get("raw_path", b"").decode("latin-1") or quote(scope["path"])
        begun = time.perf_counter()
        status = 0

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name.lower() for name, _ in message.get("headers", ())}
                headers = [*message.get("headers", ()), *(pair for pair in HEADERS if pair[0] not in given)]
                message = {**message, "headers": headers}
            await send(message)

        try:
            refusal, receive = await _whole_body(scope, receive)
            await (refusal or self.app)(scope, receive, with_headers)
        except Exception:
            log.exception("%s %s failed", scope["method"], _route(scope))
            if not status:
                await problem(500, BROKEN)(scope, receive, with_headers)
        finally:
            self.observe(scope, status, time.perf_counter() - begun)


def _route(scope: Scope) -> str:
    """Which route it was, without what the path held."""
    return getattr(scope.get("route"), "path", "(no route)")


async def _whole_body(scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
    """Take the body in before anything else happens. Answers a refusal where it is too long or too slow; and what the
    app receives instead."""
    length = None
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = value
        elif name == b"transfer-encoding":
            length = b""
    if length is None or length == b"0":
        return None, receive
    if length and (not re.fullmatch(rb"\d{1,18}", length) or int(length) > MAX_BODY):
        return _too_long(), receive
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":  # what came of it may look whole
                    return problem(400, "The body broke off."), receive
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    return _too_long(), receive
                if not message.get("more_body"):
                    break
    except TimeoutError:
        return problem(
            408, f"The body must arrive within {BODY_SECONDS:.0f} seconds.", {"Connection": "close"}
        ), receive
    first: list[dict[str, Any]] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return None, replay


def _too_long() -> Response:
    return problem(413, f"The body must be at most {MAX_BODY} bytes.", {"Connection": "close"})
