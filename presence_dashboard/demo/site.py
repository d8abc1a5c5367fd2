"""A small site: sign in, see your devices, sign out. presence_core keeps its sessions.

The middleware validates the session of every request, so a kick is final at the next click. An open page gets a
server-sent event, so it closes at once. Simulated visitors, who need no pages, run in the same process.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import Scope

from presence_core import AsyncPresence, Ended, LoginRefused, Presence, Session, Unavailable
from presence_core import validation as check
from presence_core.web.asgi import PresenceMiddleware
from presence_core.web.cookies import new_device_id
from presence_core.web.rules import Rules
from presence_core.web.your_devices.asgi import YourDevices
from presence_core.web.your_devices.options import DeviceOptions
from presence_dashboard.demo import mails, pages, people
from presence_dashboard.demo.mails import Mailbox
from presence_dashboard.demo.visitors import Crowd

HOST: Final = "127.0.0.1"
PORT: Final = 8502
COOKIE: Final = "paperboat"
DEVICE_COOKIE: Final = "paperboat-device"
MAX_FORM: Final = 8192
VERSION: Final = "2026.46"

# Timeouts of people who try the demo: its own are short, and they look at the dashboard for a while.
IDLE: Final = 1800
ABSOLUTE: Final = 28_800

STOP_SECONDS: Final = 2.5

RETRY: Final = 1000
"""Milliseconds after which an open page that was disconnected comes back."""

INTERVAL: Final = 0.05
"""Seconds between two reads of the events."""


def html(page: str, status: int = 200) -> Response:
    headers = {"Content-Security-Policy": pages.POLICY, "Cache-Control": "no-store"}
    return HTMLResponse(page, status, headers)


def _refused(scope: Scope, ended: Ended | None) -> Response:
    """The answer to a request without a live session. The cookie stays, so that a reload shows the same."""
    if ended is None:
        return RedirectResponse("/sign-in", 303)
    return html(pages.ended(ended), 403 if ended.reason == "kicked" else 401)


def require_own_page(request: Request) -> None:
    """Every browser sends Origin with a POST. TrustedHostMiddleware has checked Host."""
    if request.headers.get("origin") != f"http://{request.headers.get('host')}":
        raise HTTPException(403)


async def form_of(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise HTTPException(413)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20, errors="strict"))
    except ValueError:
        raise HTTPException(400) from None


def device_id(browser: str, device: str | None) -> str:
    """The id of a device. A real site takes that of the browser; here each choice of a device is another one, so that
    one browser is enough to see what happens on a new device."""
    place = pages.DEVICES.index(device) if device in pages.DEVICES else len(pages.DEVICES)
    return f"{browser}-{place}"


class Site:
    """The pages. dashboard: its URL, for a link. shuts_down: whether the site shuts down, so that open pages end."""

    def __init__(
        self, presence: AsyncPresence, dashboard: str | None, shuts_down: Callable[[], bool], mailbox: Mailbox
    ) -> None:
        self._presence, self._mailbox = presence, mailbox
        self._dashboard = dashboard
        self._shuts_down = shuts_down

    async def home(self, request: Request) -> Response:
        session: Session = request.state.session
        count = len(await self._presence.sessions(session.uid))
        return html(pages.home(session, count, self._dashboard, len(self._mailbox.of(session.uid))))

    async def mails(self, request: Request) -> Response:
        session: Session = request.state.session
        return html(pages.mails(self._mailbox.of(session.uid), self._mailbox.folder))

    async def form(self, request: Request) -> Response:
        return html(pages.sign_in(people.GUESTS))

    async def sign_in(self, request: Request) -> Response:
        require_own_page(request)
        form = await form_of(request)
        member, token = people.BY_UID.get(form.get("uid", "")), request.cookies.get(COOKIE)
        if member is None:
            raise HTTPException(400)
        if token and (old := await self._presence.validate(token)).session is not None:
            # A browser has one session. Without this, its old session would look like another device.
            await self._presence.logout(old.session.uid, old.session.session_id)
        browser = request.cookies.get(DEVICE_COOKIE, "")
        browser = browser if check.is_session_id(browser) else new_device_id()
        device = form.get("device") or None
        login = await self._presence.login(
            member.uid,
            name=member.name,
            aliases=member.aliases,
            ip=request.client.host if request.client else None,
            user_agent=request.headers.get("user-agent"),
            device=device,
            device_id=device_id(browser, device),
            app="web",
            app_version=VERSION,
            idle_timeout=IDLE,
            absolute_timeout=ABSOLUTE,
        )
        response = RedirectResponse("/", 303)
        # Not Secure, because the demo is plain HTTP on loopback. A real site's cookie must be Secure.
        response.set_cookie(COOKIE, login.token, httponly=True, samesite="lax")
        response.set_cookie(DEVICE_COOKIE, browser, max_age=400 * 86_400, httponly=True, samesite="lax")
        return response

    async def sign_out(self, request: Request) -> Response:
        require_own_page(request)
        session: Session = request.state.session
        await self._presence.logout(session.uid, session.session_id)
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(COOKIE)
        return response

    async def live(self, request: Request) -> Response:
        """The events of an open page. An open page is not activity, so this is no heartbeat."""
        token = request.cookies.get(COOKIE, "")
        validation = await self._presence.validate(token, touch=False)
        record = validation.session or validation.ended
        if record is None:
            return Response(status_code=204)  # and the browser does not come back
        stream = self._until_the_end(token, record.session_id)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _until_the_end(self, token: str, session_id: str) -> AsyncIterator[bytes]:
        """One event: the session has ended. First the cursor, then the session: no end is missed in between."""
        try:
            cursor = await self._presence.events_end()
            yield f"retry: {RETRY}\n\n".encode()
            validation = await self._presence.validate(token, touch=False)
            while validation and not self._shuts_down():
                events = await self._presence.events(after=cursor, limit=1000)
                cursor = events[-1].cursor if events else cursor
                if any(event.session_id == session_id or event.kind == "gap" for event in events):
                    validation = await self._presence.validate(token, touch=False)
                elif not events:
                    await asyncio.sleep(INTERVAL)
            if not validation:
                content = pages.ended_content(validation.ended)
                yield f"event: ended\ndata: {json.dumps(content)}\n\n".encode()
        except Unavailable:
            return  # the browser comes back


async def _on_unavailable(request: Request, error: Exception) -> Response:
    return html(pages.notice("Try again shortly", "Our session store does not answer. You are still signed in."), 503)


async def _on_refused(request: Request, error: Exception) -> Response:
    return html(pages.notice("You cannot sign in now", str(error), "/sign-in"), 403)


def create_app(
    presence: AsyncPresence,
    dashboard: str | None = None,
    shuts_down: Callable[[], bool] = lambda: False,
    mailbox: Mailbox | None = None,
    key: bytes = b"",
) -> Starlette:
    """The site as an ASGI application. The caller closes ``presence``. key: of "Your devices" and of the links of
    mails. The other arguments are those of ``Site``."""
    site = Site(presence, dashboard, shuts_down, mailbox or Mailbox())
    devices = YourDevices(presence, DeviceOptions(key=key or secrets.token_bytes(32), sign_in_url="/sign-in"))
    signed_in = Starlette(
        routes=[
            Route("/", site.home),
            Route("/sign-out", site.sign_out, methods=["POST"]),
            Route("/mails", site.mails),
            Mount("/devices", devices),
        ]
    )
    rules = Rules(cookie=COOKIE, bearer=False, secure=False, public=("/devices/notice",))
    return Starlette(
        routes=[
            Route("/sign-in", site.form),
            Route("/sign-in", site.sign_in, methods=["POST"]),
            Route("/live", site.live),
            Mount("/", PresenceMiddleware(signed_in, presence, rules=rules, on_ended=_refused)),
        ],
        # Against DNS rebinding: a foreign host name that points to this machine is refused.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False)],
        exception_handlers={Unavailable: _on_unavailable, LoginRefused: _on_refused},
    )


@contextmanager
def running(environ: Mapping[str, str], port: int, visitors: int) -> Iterator[None]:
    """Serve on loopback, in a thread, while the body runs. Settings and Redis come from ``PRESENCE_*``."""

    mailbox, key = mails.Mailbox(mails.folder_of(environ)), secrets.token_bytes(32)

    async def serve() -> None:
        async with AsyncPresence.from_env(environ) as presence:
            dashboard = environ.get("PRESENCE_DEMO_DASHBOARD")
            config.app = create_app(presence, dashboard, lambda: server.should_exit, mailbox, key)
            crowd = asyncio.create_task(Crowd(presence, visitors).run()) if visitors else None
            await server.serve([listening])
            if crowd is not None:
                crowd.cancel()

    config = uvicorn.Config(_no_app, lifespan="off", ws="none", log_config=None, log_level="warning", access_log=False,
                            server_header=False, proxy_headers=False, timeout_graceful_shutdown=1)  # fmt: skip
    server = uvicorn.Server(config)
    with (
        socket.create_server((HOST, port)) as listening,
        Presence.from_env(environ) as presence,
        mails.sender(presence, mailbox, f"http://{HOST}:{port}", key),
    ):
        thread = threading.Thread(target=lambda: asyncio.run(serve()), name="demo-site", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(STOP_SECONDS)


async def _no_app(*_: object) -> None:
    raise RuntimeError("the app is created on the event loop")
