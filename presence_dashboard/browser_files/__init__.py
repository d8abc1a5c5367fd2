"""Our additions to Streamlit's page: a script, a style sheet and the icon, served by the dashboard itself.

Inline scripts of components are loaded from ``blob:`` and would need a wider Content-Security-Policy. Files of the same
origin do not. ``dashboard.py`` imports this package. ``record_table`` has the files of a component, which Streamlit
serves: ``components/record_table.py`` tells it where they are.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from presence_core.text.languages import tag_of
from presence_dashboard import language, texts

_HERE: Final = Path(__file__).parent
_FILES: Final = {
    "page.js": "text/javascript", "type_scale.css": "text/css", "page.css": "text/css", "icon.svg": "image/svg+xml"
}  # fmt: skip


def _file(name: str) -> Route:
    body = (_HERE / name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(body, media_type=_FILES[name], headers={"Cache-Control": "public, max-age=86400"})

    return Route(f"/page/{name}", answer)


_ICON: Final = re.compile(rb'<link rel="shortcut icon"[^>]*>')
"""The icon that Streamlit sets."""


async def _to_first_page(request: Request) -> Response:
    """Redirect /sessions to ``/``, the only address that Streamlit gives its first page."""
    query = f"?{request.url.query}" if request.url.query else ""
    return Response(status_code=307, headers={"Location": f"/{query}"})


routes: Final = [*(_file(name) for name in _FILES), Route("/sessions", _to_first_page)]


@cache
def _tags(_language: str) -> tuple[bytes, bytes]:
    """HTML tags for our files: the script, which must run before Streamlit's, and the others, which come after its own.

    The script has its words in the language of the request.

    Each address has a digest of the content, so that no browser uses an old file.

    ``set_page_config`` would draw the icon again in every run of the script (18 ms).
    """
    script, scale, style, icon = (
        f"/page/{name}?{sha256((_HERE / name).read_bytes()).hexdigest()[:12]}" for name in _FILES
    )
    units = escape(texts.TABLE_WORDS["units"])
    first = f'<script src="{script}" defer data-lost="{escape(texts.CONNECTION_LOST)}" data-units="{units}"></script>'
    styles = "".join(f'<link rel="stylesheet" href="{address}">' for address in (scale, style))
    last = f'{styles}<link rel="icon" href="{icon}">'
    return first.encode(), last.encode()


class OwnFiles:
    """ASGI middleware that adds our files to the head of Streamlit's page. The innermost of all."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if not (pair[0] == b"accept-encoding" and _wants_page(scope))]
        await self.app({**scope, "headers": headers}, receive, _Rewriting(send))


def _wants_page(scope: Scope) -> bool:
    """Whether a browser opens a page. Its 8 kB must come uncompressed, so that they can be changed."""
    return "text/html" in Headers(scope=scope).get("accept", "")


class _Rewriting:
    """A ``send`` that collects an HTML page, adds the tags and sends it. Other messages pass unchanged."""

    def __init__(self, send: Send) -> None:
        self.send = send
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
        """Whether this is Streamlit's page. Pages of the gate set a policy of their own that allows no script."""
        headers = Headers(raw=start["headers"])
        is_ours = "content-security-policy" in headers
        return start["status"] == 200 and headers.get("content-type", "").startswith("text/html") and not is_ours

    async def _finish(self, start: Message) -> None:
        first, last = _tags(language.current())
        html = f'<html lang="{tag_of(language.current())}">'.encode()
        body = _ICON.sub(b"", self.body).replace(b'<html lang="en">', html, 1)
        body = body.replace(b"<head>", b"<head>" + first, 1)
        body = body.replace(b"</head>", last + b"</head>", 1)
        headers = MutableHeaders(scope=start)
        if self.body:  # a reply to HEAD has a length and no body
            headers["content-length"] = str(len(body))
        del headers["etag"]  # they belong to the page without our files
        del headers["last-modified"]
        await self.send(start)
        await self.send({"type": "http.response.body", "body": body})
