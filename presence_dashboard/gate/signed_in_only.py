"""ASGI middleware that refuses requests without a sign-in: pages, files and websockets."""

from __future__ import annotations

import logging
import re
from typing import Final
from urllib.parse import quote

import streamlit as st
from anyio import to_thread
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit.proto.BackMsg_pb2 import BackMsg

from presence_core import PresenceError
from presence_dashboard import staff_names, texts
from presence_dashboard.gate import html_pages
from presence_dashboard.gate.origins import is_own
from presence_dashboard.gate.sign_in_forms import client_of, is_secure, set_cookie
from presence_dashboard.gate.staff_sessions import COOKIE, NoRole, SignedInMember, StaffSessions
from presence_dashboard.roles import Denied, SignedOut

_POLICY_VIOLATION: Final = 1008
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_FORMS: Final = ("/sign-in", "/sign-in-again", "/sign-out")
_PUBLIC: Final = ("/favicon.png", "/favicon.ico", "/manifest.json", "/page/icon.svg", "/page/connection")
"""Addresses that need no sign-in, in addition to /static/. The last says whether Redis answers: a check of the sign-in
would wait for it."""

_log = logging.getLogger(__name__)


class _Refused(Exception):
    """The request is answered with this response."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class SignedInOnly:
    """ASGI middleware of all modes with a sign-in.

    With OIDC, Streamlit runs the sign-in on its own page: only host and origin are checked here, ``access`` does the
    rest.
    """

    def __init__(self, app: ASGIApp, staff: StaffSessions) -> None:
        self.app = app
        self._staff = staff
        self._config = staff.config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        token = None
        try:
            if not _is_health(scope):
                self._check_origin(connection)
                if not (self._config.mode == "oidc" or _is_public(scope)):
                    token = await self._check_sign_in(connection)
        except _Refused as refused:
            await _answer(refused.response, scope, receive, send)
        else:
            if scope["type"] == "websocket" and self._config.mode != "oidc":
                receive = self._with_role_check(connection, receive)
            await self.app(scope, receive, _with_cookie(connection, send, token) if token else send)

    # -- Host, origin and peer ----------------------------------------------------------------------------------------

    def _check_origin(self, connection: HTTPConnection) -> None:
        hosts = connection.headers.getlist("host")
        if len(hosts) != 1 or not is_allowed(hosts[0]):
            raise _Refused(html_pages.refused(texts.FOREIGN_HOST, 421))
        if not is_own(connection.scope, connection.headers):
            raise _Refused(html_pages.refused(texts.FOREIGN_ORIGIN))
        peer = connection.client.host if connection.client else None
        if self._config.mode == "proxy" and not self._config.trusts(peer):
            raise _Refused(html_pages.refused(texts.NOT_BY_PROXY))

    # -- Sign-in ------------------------------------------------------------------------------------------------------

    async def _check_sign_in(self, connection: HTTPConnection) -> str | None:
        """The token of a new session, if one was started here. Raises _Refused."""
        proxy_name = self._name_from_proxy(connection) if self._config.mode == "proxy" else None
        is_page = _is_page(connection)
        try:
            try:
                member = await self._member(connection, touch=is_page)
                if proxy_name in (None, member.name):
                    return None
            except SignedOut as signed_out:
                if proxy_name is None or isinstance(signed_out, NoRole):
                    raise
            if not is_page:
                raise SignedOut(texts.NOT_SIGNED_IN)
            return await self._start_session(connection, proxy_name or "")
        except PresenceError as error:
            _log.warning("A sign-in cannot be checked: %s", error)
            raise _Refused(html_pages.redis_away()) from error
        except Denied as denied:
            raise _Refused(html_pages.refused(str(denied))) from denied
        except SignedOut as signed_out:
            raise _Refused(self._refusal_of(connection, signed_out, is_page)) from signed_out

    def _refusal_of(self, connection: HTTPConnection, signed_out: SignedOut, is_page: bool) -> Response:
        if not is_page:
            return PlainTextResponse(str(signed_out), 403 if isinstance(signed_out, NoRole) else 401)
        if isinstance(signed_out, NoRole):
            return html_pages.refused(str(signed_out))
        query = f"?{connection.url.query}" if connection.url.query else ""
        return RedirectResponse(f"/sign-in?next={quote(connection.url.path + query, safe='/')}", 303)

    async def _member(self, connection: HTTPConnection, *, touch: bool) -> SignedInMember:
        token = connection.cookies.get(COOKIE)
        return await to_thread.run_sync(lambda: self._staff.by_token(token, touch=touch))

    def _name_from_proxy(self, connection: HTTPConnection) -> str:
        """The name in the proxy's header.

        If one of its headers comes twice, a client sent one of the lines. Some proxies join the lines with a comma.
        """
        headers, name_header, role_header = connection.headers, self._config.header, self._config.role_header
        values = headers.getlist(name_header)
        if len(values) > 1 or len(headers.getlist(role_header)) > 1 or "," in "".join(values):
            raise _Refused(html_pages.refused(texts.PROXY_TWICE))
        try:
            name = staff_names.folded(values[0].encode("latin-1").decode()) if values else None
        except UnicodeDecodeError:
            name = None
        if name is None:
            raise _Refused(html_pages.refused(texts.PROXY_SILENT))
        return name

    async def _start_session(self, connection: HTTPConnection, name: str) -> str:
        header = self._config.role_header
        groups = [group.strip() for group in connection.headers.get(header, "").split(",")] if header else []
        ip, agent = client_of(self._staff, connection), connection.headers.get("user-agent")

        def sign_in() -> str:
            self._staff.seed_role(name, groups, "proxy")
            return self._staff.sign_in_as(name, ip, agent)

        return await to_thread.run_sync(sign_in)

    # -- An open page -------------------------------------------------------------------------------------------------

    def _with_role_check(self, connection: HTTPConnection, receive: Receive) -> Receive:
        """A ``receive`` that checks the sign-in at each message of an open page.

        If the role has changed or the sign-in has ended, a request for a part of the page becomes one for the whole
        page, which then draws what the role may see. While Redis is unavailable, messages pass unchanged.
        """
        last: SignedInMember | None = None
        has_begun = False

        async def checked() -> Message:
            nonlocal last, has_begun
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                try:
                    member: SignedInMember | None = await self._member(connection, touch=False)
                except SignedOut:
                    member = None
                except PresenceError:
                    return message
                is_as_before = member is not None and (member == last or not has_begun)
                last, has_begun = member, True
                whole = message if is_as_before else whole_page(message)
                if whole is not None:
                    return whole

        return checked


def whole_page(message: Message) -> Message | None:
    """The message of Streamlit's browser side as a request for the whole page; None if it is another message."""
    request = BackMsg()
    try:
        request.ParseFromString(message.get("bytes") or b"")
    except DecodeError:
        return None
    if request.WhichOneof("type") != "rerun_script":
        return None
    request.rerun_script.fragment_id = ""
    request.rerun_script.is_auto_rerun = False
    return {"type": "websocket.receive", "bytes": request.SerializeToString()}


def is_allowed(host: str) -> bool:
    """Whether the host name is in ``server.allowedHosts``, as Streamlit reads it."""
    found = _HOST.fullmatch(host)
    name = found[1].lower().strip("[]").rstrip(".") if found else ""
    for allowed in st.get_option("server.allowedHosts") or ():
        pattern: str = allowed.strip().lower().rstrip(".")
        if pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:])):
            return name != ""
    return False


def _is_health(scope: Scope) -> bool:
    return (scope["type"], scope["path"]) == ("http", "/healthz")


def _is_public(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    path = scope["path"]
    is_read = scope["method"] in ("GET", "HEAD")
    return path in _FORMS or (is_read and (path.startswith("/static/") or path in _PUBLIC))


def _is_page(connection: HTTPConnection) -> bool:
    """Whether a browser opens an address, so that it can be redirected to the sign-in form."""
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
