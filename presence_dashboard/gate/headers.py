"""Security headers of every response, including refusals."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from presence_core.loopback import host_of, is_loopback

STRICT_TRANSPORT: Final = ("Strict-Transport-Security", "max-age=31536000")


def hashed(text: str) -> str:
    """The source expression for an inline script or style in a Content-Security-Policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def policy(parts: dict[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in parts.items())


def _inline_scripts() -> list[str]:
    """Hashes of the scripts in Streamlit's page, so that no other inline script runs."""
    page = Path(st.__file__).with_name("static") / "index.html"
    return [hashed(body) for body in re.findall(r"<script>(.*?)</script>", page.read_text("utf-8"), re.DOTALL)]


def security_headers() -> dict[str, str]:
    """Headers of every response. Nothing is loaded from other sites, and no other site may frame this one."""
    parts = {
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
        "Content-Security-Policy": policy(parts),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }


class SecurityHeaders:
    """ASGI middleware that adds headers to every response. Headers that a response has already are kept.

    Except on this machine, every cookie is Secure: Streamlit sets its own without it.
    """

    def __init__(self, app: ASGIApp, headers: dict[str, str]) -> None:
        self.app = app
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(self.headers)
        is_public = not is_loopback(host_of(f"//{Headers(scope=scope).get('host', '')}"))
        if is_public:
            headers |= [STRICT_TRANSPORT]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, value in headers.items():
                    given.setdefault(name, value)
                if is_public:
                    message["headers"] = [_secure(*pair) for pair in message["headers"]]
            await send(message)

        await self.app(scope, receive, send_with_headers)


def _secure(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """A header; if it sets a cookie, one that browsers send over https only."""
    attributes = [part.strip().lower() for part in value.split(b";")[1:]]
    return name, value + b"; Secure" if name.lower() == b"set-cookie" and b"secure" not in attributes else value
