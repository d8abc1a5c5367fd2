"""A small site: sign in, see your devices, sign out. presence_core keeps its sessions.

Every request with a cookie validates the session, so a kick is final at the next click. An open page gets a server-sent
event (``push``), so it closes at once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from ipaddress import ip_address
from typing import Final, TypedDict
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from presence_core import AsyncPresence, Ended, InvalidArgument, LoginRefused, Session, Unavailable
from presence_core.logs import start_logs
from presence_core.web.asgi import PresenceMiddleware
from presence_core.web.rules import Rules
from presence_core.web.your_devices.asgi import YourDevices
from presence_core.web.your_devices.options import DeviceOptions
from presence_dashboard.demo import pages, people
from presence_dashboard.demo.push import Push

HOST: Final = "127.0.0.1"
PORT: Final = 8502
COOKIE: Final = "paperboat"
MAX_FORM: Final = 8192
VERSION: Final = "2026.46"
SUGGESTIONS: Final = tuple(member.name for member in people.GUESTS)

# Timeouts of "keep me signed in": the demo's own are short, and people who try it look at the dashboard for a while.
REMEMBERED_IDLE: Final = 1800
REMEMBERED_ABSOLUTE: Final = 28_800

_DEVICES_BY_AGENT: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android phone"),
    ("Windows", "Windows PC"),
    ("Macintosh", "Mac"),
    ("CrOS", "Chromebook"),
    ("Linux", "Linux PC"),
)

Handler = Callable[[Request], Awaitable[Response]]


# -- The sender of a request -------------------------------------------------------------------------------------------


def _from_loopback(request: Request) -> bool:
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _client_ip(request: Request) -> str | None:
    """The visitor's address. Only a proxy on this machine (here the demo's visitors) may report another address."""
    peer = request.client.host if request.client else None
    if _from_loopback(request):
        # Our own proxy added the last entry; the sender can write the others.
        forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        with contextlib.suppress(ValueError):
            return str(ip_address(forwarded))
    return peer


class _Client(TypedDict):
    device: str | None
    app: str | None
    app_version: str | None
    device_id: str | None


def _client(request: Request, form: dict[str, str]) -> _Client:
    """Device, app and app version: from the simulated visitors' headers, or else from form and browser."""
    if _from_loopback(request) and "x-demo-app" in request.headers:
        headers = request.headers
        return {
            "device": headers.get("x-demo-device"),
            "app": headers["x-demo-app"],
            "app_version": headers.get("x-demo-app-version"),
            "device_id": headers.get("x-demo-device-id"),
        }
    agent = request.headers.get("user-agent", "")
    by_agent = next((device for mark, device in _DEVICES_BY_AGENT if mark in agent), None)
    return {"device": form.get("device") or by_agent, "app": "web", "app_version": VERSION, "device_id": None}


async def _read_form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise HTTPException(413)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20, errors="strict"))
    except ValueError:
        raise HTTPException(400) from None


def _refuse(ended: Ended | None) -> Response:
    """The page for a token without a session."""
    if ended is not None:
        # The cookie stays, so that a reload shows the same; the next sign-in replaces it. 403 for a kicked user:
        # signing in again may not be enough.
        return _html(pages.ended(ended), 403 if ended.reason == "kicked" else 401)
    response = _html(pages.unknown(), 401)
    response.delete_cookie(COOKIE)
    return response


def _html(page: str, status: int = 200) -> Response:
    return HTMLResponse(page, status)


# -- The site ----------------------------------------------------------------------------------------------------------


class Site:
    """The site's routes. ``dashboard`` is the URL of the dashboard, for a link."""

    def __init__(self, presence: AsyncPresence, dashboard: str | None = None) -> None:
        self._presence = presence
        self._dashboard = dashboard
        self.push = Push(presence)
        options = DeviceOptions(
            key=secrets.token_bytes(32),  # of this process: the demo has one
            sign_in_url="/sign-in?again=yes",
            theme=pages.DEVICES_THEME,
            template=pages.devices,
            policy=pages.DEVICES_POLICY,
        )
        rules = Rules(cookie=COOKIE, bearer=False, secure=False, trusted_proxies=("127.0.0.0/8", "::1"))
        self.devices = PresenceMiddleware(
            YourDevices(presence, options), presence, rules=rules, on_ended=lambda _, ended: _refuse(ended)
        )

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self._signed_in(self._home)),
            Route("/sign-in", self._form),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/sign-out", self._signed_in(self._sign_out), methods=["POST"]),
            Route("/live", self._live),
            Mount("/devices", self.devices),
        ]

    async def _session(self, request: Request) -> Session | Response:
        """The session of the request, or the page that answers a request without one."""
        token = request.cookies.get(COOKIE)
        if not token:
            return RedirectResponse("/sign-in", 303)
        validation = await self._presence.validate(token, ip=_client_ip(request))
        if validation.session is not None:
            return validation.session
        return _refuse(validation.ended)

    def _signed_in(self, handler: Callable[[Request, Session], Awaitable[Response]]) -> Handler:
        async def handle(request: Request) -> Response:
            session = await self._session(request)
            return await handler(request, session) if isinstance(session, Session) else session

        return handle

    async def _home(self, request: Request, session: Session) -> Response:
        count = len(await self._presence.sessions(session.uid))
        return _html(pages.home(session, count, self._dashboard))

    async def _live(self, request: Request) -> Response:
        """Close an open page when its session ends. An open page is not activity, so this is no heartbeat."""
        token = request.cookies.get(COOKIE, "")
        validation = await self._presence.validate(token, touch=False)
        record = validation.session or validation.ended
        if record is None:
            return Response(status_code=204)  # and the browser does not come back
        stream = self.push.stream(record.uid, record.session_id, token, request.headers.get("last-event-id"))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _form(self, request: Request) -> Response:
        is_again = "again" in request.query_params  # a signed-in visitor proves who they are
        if not is_again and request.cookies.get(COOKIE) and isinstance(await self._session(request), Session):
            return RedirectResponse("/", 303)
        return _html(pages.sign_in(random.choice(SUGGESTIONS), SUGGESTIONS))

    async def _sign_in(self, request: Request) -> Response:
        form = await _read_form(request)
        who = form.get("who", "")
        member = people.find(who)
        if member is None or not form.get("password"):
            error = "There is no user with this name or email." if member is None else "Type some password."
            return _html(pages.sign_in(random.choice(SUGGESTIONS), SUGGESTIONS, who=who, error=error), 403)
        if request.cookies.get(COOKIE):
            # A browser has one session. Without this, its old session would look like another device.
            old = await self._session(request)
            if isinstance(old, Session):
                await self._presence.logout(old.uid, old.session_id)
        remember = "remember" in form
        login = await self._presence.login(
            member.uid,
            name=member.name,
            aliases=member.aliases,
            ip=_client_ip(request),
            user_agent=request.headers.get("user-agent"),
            idle_timeout=REMEMBERED_IDLE if remember else None,
            absolute_timeout=REMEMBERED_ABSOLUTE if remember else None,
            **_client(request, form),
        )
        response = RedirectResponse("/", 303)
        # Not Secure, because the demo is plain HTTP on loopback. A real site's cookie must be Secure.
        response.set_cookie(COOKIE, login.token, httponly=True, samesite="lax")
        return response

    async def _sign_out(self, request: Request, session: Session) -> Response:
        await self._presence.logout(session.uid, session.session_id)
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(COOKIE)
        return response


# -- Around every page -------------------------------------------------------------------------------------------------


class CrossSiteGuard:
    """Refuses form posts from pages of other sites, and adds security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", pages.POLICY)
                headers["Cache-Control"] = "no-store"
                headers["X-Content-Type-Options"] = "nosniff"
                # Not "no-referrer": browsers would then send "Origin: null" with our own forms.
                headers["Referrer-Policy"] = "same-origin"
            await send(message)

        if scope["method"] not in ("GET", "HEAD") and not _is_same_origin(Headers(scope=scope)):
            sentence = "This request did not come from a page of this site, so nothing was done."
            await _html(pages.notice("Refused", sentence), 403)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)


def _is_same_origin(headers: Headers) -> bool:
    # Every browser sends Origin with a POST. TrustedHostMiddleware has checked Host.
    return headers.get("origin") == f"http://{headers.get('host', '')}"


async def _on_unavailable(request: Request, error: Exception) -> Response:
    response = _html(pages.unavailable(), 503)
    response.headers["Retry-After"] = "5"
    return response


async def _on_refused(request: Request, error: Exception) -> Response:
    return _html(pages.notice("You cannot sign in now", str(error), "/sign-in"), 403)


async def _on_bad_argument(request: Request, error: Exception) -> Response:
    return _html(pages.notice("Invalid input", str(error)), 400)


async def _on_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    title = {404: "Page not found", 405: "Not supported", 413: "Too much data"}
    return _html(pages.notice(title.get(status, "That did not work"), "Go back and try again."), status)


def create_app(presence: AsyncPresence, dashboard: str | None = None) -> Starlette:
    """The site as an ASGI application. The caller closes ``presence``."""
    site = Site(presence, dashboard)
    app = Starlette(
        routes=site.routes(),
        middleware=[
            # Against DNS rebinding: a foreign host name that points to this machine is refused.
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False),
            Middleware(CrossSiteGuard),
        ],
        exception_handlers={
            Unavailable: _on_unavailable,
            LoginRefused: _on_refused,
            InvalidArgument: _on_bad_argument,
            HTTPException: _on_http_error,
            500: _on_http_error,
        },
    )
    app.state.push, app.state.devices = site.push, site.devices
    return app


# -- Serving it --------------------------------------------------------------------------------------------------------


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals without uvicorn's second raise, after which the exit would look like a crash."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the open streams first: uvicorn would wait for them."""
        self.config.app.state.push.end()  # type: ignore[union-attr]
        await super().shutdown(sockets)


async def serve(port: int) -> None:
    """Serve on loopback until SIGINT or SIGTERM. Settings and Redis come from ``PRESENCE_*``."""
    start_logs(os.environ)
    async with AsyncPresence.from_env() as presence:
        app = create_app(presence, os.environ.get("PRESENCE_DEMO_DASHBOARD"))
        config = uvicorn.Config(
            app,
            host=HOST,
            port=port,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # this site reads X-Forwarded-For itself
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
        await _Server(config).serve()
        await app.state.devices.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m presence_dashboard.demo.site", description="The demo site.")
    parser.add_argument("--port", type=int, default=PORT)
    asyncio.run(serve(parser.parse_args().port))
