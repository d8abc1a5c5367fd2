"""Who is not signed in gets no further than this: pages, files and websockets alike."""

from __future__ import annotations

import logging
import re
from typing import Final
from urllib.parse import quote, urlsplit

import streamlit as st
from anyio import to_thread
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit.proto.BackMsg_pb2 import BackMsg

from presence_core import PresenceError
from presence_dashboard import texts
from presence_dashboard.gate import pages
from presence_dashboard.gate.desk import COOKIE, Desk, Member, NoRole
from presence_dashboard.gate.forms import client_of, is_secure, set_cookie
from presence_dashboard.roles import Denied, SignedOut

_POLICY_VIOLATION: Final = 1008
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_FORMS: Final = ("/sign-in", "/sign-out")
_PUBLIC: Final = ("/favicon.png", "/favicon.ico", "/manifest.json")
"""Beside /static/: Streamlit's own files, the same for all."""

_log = logging.getLogger(__name__)


class _Refused(Exception):
    """The answer is this one."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class SignedInOnly:
    """ASGI middleware of the modes in which people sign in. Streamlit runs the sign-in of OIDC on its own page, so
    there only host and origin are looked at here, and ``access`` does the rest."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self.app = app
        self._desk = desk
        self._config = desk.config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        token = None
        try:
            if not _is_health(scope):
                self._check_place(connection)
                if not (self._config.mode == "oidc" or _is_public(scope)):
                    token = await self._check_person(connection)
        except _Refused as refused:
            await _answer(refused.response, scope, receive, send)
        else:
            if scope["type"] == "websocket" and self._config.mode != "oidc":
                receive = self._guarded(connection, receive)
            await self.app(scope, receive, _with_cookie(connection, send, token) if token else send)

    # -- from where --------------------------------------------------------------------------------------------------

    def _check_place(self, connection: HTTPConnection) -> None:
        hosts, origins = connection.headers.getlist("host"), connection.headers.getlist("origin")
        if len(hosts) != 1 or not is_allowed(hosts[0]):
            raise _Refused(pages.refused(texts.FOREIGN_HOST, 421))
        # A page of another site can open a websocket to this one, and the browser sends our cookie along.
        needed = connection.scope["type"] == "websocket"
        if (needed and not origins) or any(_place(origin) != hosts[0].lower() for origin in origins):
            raise _Refused(pages.refused(texts.FOREIGN_ORIGIN))
        peer = connection.client.host if connection.client else None
        if self._config.mode == "proxy" and not self._config.trusts(peer):
            raise _Refused(pages.refused(texts.NOT_BY_PROXY))

    # -- who ----------------------------------------------------------------------------------------------------------

    async def _check_person(self, connection: HTTPConnection) -> str | None:
        """Answers the token of a session that has begun here."""
        vouched = self._vouched(connection) if self._config.mode == "proxy" else None
        is_page = _is_page(connection)
        try:
            try:
                member = await self._member(connection, touch=is_page)
                if vouched in (None, member.name):
                    return None
            except SignedOut as over:
                if vouched is None or isinstance(over, NoRole):
                    raise
            if not is_page:
                raise SignedOut(texts.NOT_SIGNED_IN)
            return await self._admit(connection, vouched or "")
        except PresenceError as error:
            _log.warning("Nobody can be let in: %s", error)
            raise _Refused(pages.redis_away()) from error
        except Denied as denied:
            raise _Refused(pages.refused(str(denied))) from denied
        except SignedOut as over:
            raise _Refused(self._way_in(connection, over, is_page)) from over

    def _way_in(self, connection: HTTPConnection, over: SignedOut, is_page: bool) -> Response:
        if not is_page:
            return PlainTextResponse(str(over), 403 if isinstance(over, NoRole) else 401)
        if isinstance(over, NoRole):
            return pages.refused(str(over))
        query = f"?{connection.url.query}" if connection.url.query else ""
        return RedirectResponse(f"/sign-in?next={quote(connection.url.path + query, safe='/')}", 303)

    async def _member(self, connection: HTTPConnection, *, touch: bool) -> Member:
        token = connection.cookies.get(COOKIE)
        return await to_thread.run_sync(lambda: self._desk.by_token(token, touch=touch))

    def _vouched(self, connection: HTTPConnection) -> str:
        """Whom the proxy names: once. A second line is one that a client sent, and the proxy left."""
        said = connection.headers.getlist(self._config.header)
        name = said[0].strip().lower() if len(said) == 1 else ""
        if not name or not name.isprintable() or len(name.encode()) > 128:
            raise _Refused(pages.refused(texts.PROXY_SILENT))
        return name

    async def _admit(self, connection: HTTPConnection, name: str) -> str:
        header = self._config.role_header
        lines = connection.headers.getlist(header) if header else []
        groups = [group.strip() for line in lines for group in line.split(",")]
        ip, agent = client_of(self._desk, connection), connection.headers.get("user-agent")

        def admit() -> str:
            self._desk.seeded(name, groups, "proxy")
            return self._desk.admit(name, ip, agent)

        return await to_thread.run_sync(admit)

    # -- a page that is open ------------------------------------------------------------------------------------------

    def _guarded(self, connection: HTTPConnection, receive: Receive) -> Receive:
        """What the browser asks for, as long as nothing has changed for who sits there. Once it has, the whole page is
        run also where a part of it was asked for: it finds out who that is, and draws what they may see, or why that is
        nothing. Where Redis is away, an open page stays."""
        last: Member | None = None
        has_begun = False

        async def guarded() -> Message:
            nonlocal last, has_begun
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                try:
                    member: Member | None = await self._member(connection, touch=False)
                except SignedOut:
                    member = None
                except PresenceError:
                    return message
                is_as_before = member is not None and (member == last or not has_begun)
                last, has_begun = member, True
                whole = message if is_as_before else whole_page(message)
                if whole is not None:
                    return whole

        return guarded


def whole_page(message: Message) -> Message | None:
    """The same wish of Streamlit's browser side, but for all of the page; None for wishes of another kind."""
    asked = BackMsg()
    try:
        asked.ParseFromString(message.get("bytes") or b"")
    except DecodeError:
        return None
    if asked.WhichOneof("type") != "rerun_script":
        return None
    asked.rerun_script.fragment_id = ""
    asked.rerun_script.is_auto_rerun = False
    return {"type": "websocket.receive", "bytes": asked.SerializeToString()}


def is_allowed(host: str) -> bool:
    """Whether the dashboard answers under this name: ``server.allowedHosts``, as Streamlit reads them."""
    found = _HOST.fullmatch(host)
    name = found[1].lower().strip("[]").rstrip(".") if found else ""
    for allowed in st.get_option("server.allowedHosts") or ():
        pattern: str = allowed.strip().lower().rstrip(".")
        if pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:])):
            return name != ""
    return False


def _place(origin: str) -> str | None:
    """Host and port of an origin."""
    try:
        place: str = urlsplit(origin).netloc
    except ValueError:
        return None
    return place.lower()


def _is_health(scope: Scope) -> bool:
    return (scope["type"], scope["path"]) == ("http", "/healthz")


def _is_public(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    path = scope["path"]
    is_read = scope["method"] in ("GET", "HEAD")
    return path in _FORMS or (is_read and (path.startswith("/static/") or path in _PUBLIC))


def _is_page(connection: HTTPConnection) -> bool:
    """Somebody opened an address, and can be sent to the form."""
    scope = connection.scope
    if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith("/_stcore/"):
        return False
    return "text/html" in connection.headers.get("accept", "")


def _with_cookie(connection: HTTPConnection, send: Send, token: str) -> Send:
    cookie = Response()
    set_cookie(cookie, COOKIE, token, secure=is_secure(connection))
    header = next(pair for pair in cookie.raw_headers if pair[0] == b"set-cookie")

    async def send_with_cookie(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), header]
        await send(message)

    return send_with_cookie


async def _answer(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await WebSocketClose(_POLICY_VIOLATION)(scope, receive, send)
    else:
        await response(scope, receive, send)
