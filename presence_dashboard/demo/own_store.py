"""The demo of ``presence mirror``: a site that knows nothing of presence_core, and keeps its sessions in its own store.

It writes them as express-session with connect-redis does: JSON with a time to live, which each request sets again. Its
visitors sign in, click and sign out, in the same process.
"""

from __future__ import annotations

import json
import random
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from presence_core.transport import connect
from presence_dashboard.demo import pages, people
from presence_dashboard.demo.site import COOKIE, HOST, STOP_SECONDS, form_of, html, require_own_page

LIFE: Final = 1800
"""Seconds that a session lives after a request."""

PREFIX: Final = "sess:"


class OwnStore:
    """The site's sessions in Redis."""

    def __init__(self, url: str) -> None:
        self._redis: Any = connect(url, 2.0, use_asyncio=False)

    def begin(self, member: people.Member) -> str:
        session_id = secrets.token_urlsafe(24)
        user = {"id": member.uid, "name": member.name, "email": member.aliases[0] if member.aliases else ""}
        cookie = {"originalMaxAge": LIFE * 1000, "httpOnly": True, "path": "/"}
        self._redis.set(PREFIX + session_id, json.dumps({"cookie": cookie, "user": user}), ex=LIFE)
        return session_id

    def user(self, session_id: str) -> str:
        """The name of the user, who has just made a request; "" without a session."""
        key = PREFIX + session_id
        raw = self._redis.get(key)
        self._redis.expire(key, LIFE)
        return str(json.loads(raw)["user"]["name"]) if raw else ""

    def end(self, session_id: str) -> None:
        self._redis.delete(PREFIX + session_id)

    def close(self) -> None:
        self._redis.close()


class Visitors:
    """So many simulated visitors: they sign in, click and sign out until ``stop``."""

    def __init__(self, store: OwnStore, number: int) -> None:
        self._store, self._number = store, number
        self._sessions: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-visitors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        members = list(people.BY_UID.values())
        while not self._over.wait(0.2):
            for _ in range(max(1, self._number // 50)):
                if len(self._sessions) < self._number:
                    self._sessions.append(self._store.begin(random.choice(members)))
            for session_id in random.sample(self._sessions, min(5, len(self._sessions))):
                if not self._store.user(session_id):  # kicked
                    self._sessions.remove(session_id)
            if self._sessions and random.random() < 0.1:
                self._store.end(self._sessions.pop(random.randrange(len(self._sessions))))


def create_app(store: OwnStore, dashboard: str | None = None) -> Starlette:
    """The site as an ASGI application."""

    async def home(request: Request) -> Response:
        name = await run_in_threadpool(store.user, request.cookies.get(COOKIE, ""))
        return html(pages.own_store_home(name, dashboard)) if name else RedirectResponse("/sign-in", 303)

    async def form(request: Request) -> Response:
        return html(pages.sign_in(people.GUESTS))

    async def sign_in(request: Request) -> Response:
        require_own_page(request)
        member = people.BY_UID.get((await form_of(request)).get("uid", ""))
        if member is None:
            return Response(status_code=400)
        response = RedirectResponse("/", 303)
        # Not Secure, because the demo is plain HTTP on loopback.
        response.set_cookie(COOKIE, await run_in_threadpool(store.begin, member), httponly=True, samesite="lax")
        return response

    async def sign_out(request: Request) -> Response:
        require_own_page(request)
        await run_in_threadpool(store.end, request.cookies.get(COOKIE, ""))
        return RedirectResponse("/sign-in", 303)

    return Starlette(
        routes=[
            Route("/", home),
            Route("/sign-in", form),
            Route("/sign-in", sign_in, methods=["POST"]),
            Route("/sign-out", sign_out, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False)],
    )


@contextmanager
def running(url: str, port: int, visitors: int, dashboard: str | None = None) -> Iterator[None]:
    """Serve on loopback, in a thread, while the body runs. url: the Redis of the site."""
    store = OwnStore(url)
    crowd = Visitors(store, visitors)
    config = uvicorn.Config(create_app(store, dashboard), lifespan="off", ws="none", log_config=None,
                            log_level="warning", access_log=False, server_header=False, proxy_headers=False,
                            timeout_graceful_shutdown=1)  # fmt: skip
    server = uvicorn.Server(config)
    with socket.create_server((HOST, port)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), name="demo-site", daemon=True)
        thread.start()
        crowd.start()
        try:
            yield
        finally:
            crowd.stop()
            server.should_exit = True
            thread.join(STOP_SECONDS)
            store.close()
