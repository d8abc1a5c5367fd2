"""The smallest sites to test the middleware with: one test body for ASGI and WSGI."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from presence_core import AsyncPresence, Presence, Settings
from presence_core.web import asgi, wsgi
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.rules import Rules, Visitor
from tests.support.facade import EventLoop


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass
class Site:
    """A site behind the middleware: it answers with the visitor that the middleware named."""

    checker: RequestChecker
    ask: Callable[..., Answer]
    close: Callable[[], Any]
    seen: list[Any] = field(default_factory=list)  #: the verdicts that the site received


def wsgi_site(url: str, settings: Settings, rules: Rules, user: Callable[[], Visitor | str | None] | None) -> Site:
    presence = Presence.from_url(url, settings)
    seen: list[Any] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        session = environ["presence.session"]
        seen.append(environ["presence.verdict"])
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [(session.uid if session else "nobody").encode()]

    site = wsgi.PresenceMiddleware(app, presence, rules=rules, user_of=None if user is None else lambda _: user())

    def ask(path: str = "/", *, method: str = "GET", peer: str = "192.0.2.1", **headers: str) -> Answer:
        environ = {"REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path, "REMOTE_ADDR": peer}
        environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        started: list[Any] = []
        body = b"".join(site(environ | {"wsgi.input": io.BytesIO()}, lambda *start: started.append(start)))
        status, headers_out = started[0][:2]
        return Answer(int(status.split()[0]), headers_out, body)

    def close() -> None:
        site.close()
        presence.close()

    return Site(site.checker, ask, close, seen)


def asgi_site(
    url: str,
    settings: Settings,
    rules: Rules,
    user: Callable[[], Visitor | str | None] | None,
    loop: EventLoop,
    *,
    use_threads: bool = False,
) -> Site:
    presence: Any = loop.call(lambda: (Presence if use_threads else AsyncPresence).from_url(url, settings))
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        session = scope["state"]["session"]
        assert session is scope["presence.session"]
        seen.append(scope["presence.verdict"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": (session.uid if session else "nobody").encode()})

    site = asgi.PresenceMiddleware(app, presence, rules=rules, user_of=None if user is None else lambda _: user())

    async def request(method: str, path: str, peer: str, headers: dict[str, str]) -> Answer:
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": path, "headers": raw, "client": (peer, 4711)}
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            await asyncio.sleep(3600)

        await site(scope, receive, send)
        got = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
        return Answer(sent[0]["status"], got, b"".join(part["body"] for part in sent[1:]))

    def ask(path: str = "/", *, method: str = "GET", peer: str = "192.0.2.1", **headers: str) -> Answer:
        return loop.run(request(method, path, peer, headers))

    async def closing() -> None:
        await site.aclose()
        if isinstance(presence, AsyncPresence):
            await presence.close()
        else:
            presence.close()

    return Site(site.checker, ask, lambda: loop.run(closing()), seen)
