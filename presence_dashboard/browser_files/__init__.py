"""What we add to Streamlit's one page: a script and a style sheet of our own, served from the dashboard itself.

Inline scripts of components would need a wider Content-Security-Policy (they are loaded from ``blob:``); a file from
the same origin needs none.
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HERE: Final = Path(__file__).parent
_FILES: Final = {"page.js": "text/javascript", "page.css": "text/css", "icon.svg": "image/svg+xml"}


def _file(name: str) -> Route:
    body = (_HERE / name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(body, media_type=_FILES[name], headers={"Cache-Control": "public, max-age=86400"})

    return Route(f"/page/{name}", answer)


_ICON: Final = re.compile(rb'<link rel="shortcut icon"[^>]*>')
"""Streamlit's."""


async def _to_first_page(request: Request) -> Response:
    """Streamlit knows its first page by ``/`` alone; links to it by name are as good."""
    query = f"?{request.url.query}" if request.url.query else ""
    return Response(status_code=307, headers={"Location": f"/{query}"})


routes: Final = [*(_file(name) for name in _FILES), Route("/sessions", _to_first_page)]


def _tags() -> bytes:
    """The address of each file changes with its content: no browser runs yesterday's script.

    The icon is here, and not in ``set_page_config``, which would draw it anew in every run of the script (18 ms).
    """
    script, style, icon = (f"/page/{name}?{sha256((_HERE / name).read_bytes()).hexdigest()[:12]}" for name in _FILES)
    return (
        f'<script src="{script}" defer></script><link rel="stylesheet" href="{style}"><link rel="icon" href="{icon}">'
    ).encode()


class OwnFiles:
    """Names our files in the head of Streamlit's page. Around Streamlit alone: other pages have no need of them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.tags = _tags()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if not (pair[0] == b"accept-encoding" and _wants_page(scope))]
        await self.app({**scope, "headers": headers}, receive, _Rewriting(send, self.tags))


def _wants_page(scope: Scope) -> bool:
    """A browser that opens a page: 8 kB that are to come as they are, not packed."""
    return "text/html" in Headers(scope=scope).get("accept", "")


class _Rewriting:
    """Holds a page of HTML back until it is whole; everything else passes."""

    def __init__(self, send: Send, tags: bytes) -> None:
        self.send = send
        self.tags = tags
        self.start: Message | None = None
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._is_page(message):
            self.start = message
        elif message["type"] == "http.response.body" and self.start is not None:
            self.body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self.start)
        else:
            await self.send(message)

    @staticmethod
    def _is_page(start: Message) -> bool:
        """Streamlit's. The gate's own, such as the sign-in, bring a policy that lets no script in."""
        headers = Headers(raw=start["headers"])
        is_ours = "content-security-policy" in headers
        return start["status"] == 200 and headers.get("content-type", "").startswith("text/html") and not is_ours

    async def _finish(self, start: Message) -> None:
        body = _ICON.sub(b"", self.body).replace(b"</head>", self.tags + b"</head>", 1)
        headers = MutableHeaders(scope=start)
        if self.body:  # a HEAD has none, and tells the length all the same
            headers["content-length"] = str(len(body))
        del headers["etag"]  # of the page without our files
        del headers["last-modified"]
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})
