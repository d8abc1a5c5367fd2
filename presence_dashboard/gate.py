"""Who gets in at all, and the headers that go with every answer. ASGI middleware around the whole app.

One mode so far: open on this machine only. Nobody signs in, so nobody else may reach the page: not by the network, not
through a proxy, and not by a web page that points its own name at this machine (DNS rebinding).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

REFUSAL: Final = "This dashboard is open on its own machine only: use http://localhost at the machine that runs it.\n"
PROXIED: Final = "This dashboard is open on its own machine only and does not answer through a proxy.\n"

_POLICY_VIOLATION: Final = 1008
_PROXY_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def refuse_public_address() -> None:
    """End the program with one sentence when Streamlit is told to listen to more than this machine."""
    address = st.get_option("server.address")
    if not (isinstance(address, str) and is_loopback(address)):
        said = f"server.address is {address}" if address else "server.address is not set, which means everywhere"
        raise SystemExit(
            f"The dashboard has no sign-in yet, so it listens to this machine only, but {said}: "
            "start it with --server.address 127.0.0.1."
        )


def is_loopback(host: str | None) -> bool:
    """Whether this host name or address is this machine, and nothing else can be meant by it."""
    if host is None:
        return False
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class LoopbackOnly:
    """Lets requests and websockets pass that come from this machine and name it; refuses all others."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(_POLICY_VIOLATION)(scope, receive, send)
        else:
            await PlainTextResponse(refusal, 403)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        if any(name in headers for name in _PROXY_HEADERS):
            return PROXIED
        # The server's own end of the connection tells of a wildcard bind that no option of Streamlit's showed.
        ends: Iterable[tuple[str, int] | None] = (scope.get("client"), scope.get("server"))
        if not all(end is not None and is_loopback(end[0]) for end in ends):
            return REFUSAL
        named = [f"//{host}" for host in headers.getlist("host")] + headers.getlist("origin")
        if not headers.get("host") or not all(is_loopback(_host_of(name)) for name in named):
            return REFUSAL
        return None


def _inline_scripts() -> list[str]:
    """The hash of every script inside Streamlit's one page, so that no other inline script may run."""
    page = Path(st.__file__).with_name("static") / "index.html"
    bodies = re.findall(r"<script>(.*?)</script>", page.read_text(encoding="utf-8"), re.DOTALL)
    return [f"'sha256-{b64encode(sha256(body.encode()).digest()).decode()}'" for body in bodies]


def security_headers() -> dict[str, str]:
    """What every answer carries. Nothing may be loaded from elsewhere, and no other site may frame this one."""
    policy = {
        "default-src": "'self'",
        "script-src": " ".join(("'self'", *_inline_scripts())),
        "style-src": "'self' 'unsafe-inline'",  # Streamlit writes its styles at run time
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }


class SecurityHeaders:
    """Adds headers to every answer, also to refusals."""

    def __init__(self, app: ASGIApp, headers: dict[str, str]) -> None:
        self.app = app
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)
