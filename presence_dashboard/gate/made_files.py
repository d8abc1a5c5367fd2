"""Files that pages make, such as exports. Streamlit serves them at ``/media/<hash>`` to anyone who has the address.

Each opens only for the sign-in in whose page it was made, as long as that lasts, and no cache keeps it.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from threading import Lock
from typing import Final

import streamlit as st
from anyio import to_thread
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.runtime import get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx

from presence_core import PresenceError
from presence_dashboard.gate.oidc.claims import claims_of, is_live, provider_session
from presence_dashboard.gate.staff_sessions import COOKIE, StaffSessions
from presence_dashboard.gate_settings import Config, Mode

_PATH: Final = "/media/"
_MOST: Final = 5_000
"""Files whose makers are remembered. Streamlit keeps a file for little longer than its page shows it."""

_makers: Final[OrderedDict[str, set[str]]] = OrderedDict()
_lock: Final = Lock()
_log = logging.getLogger(__name__)


def made_here() -> None:
    """Note that the files which this page offers are of its sign-in. Call it after each download button."""
    run = get_script_run_ctx()
    maker = _maker(st.context.cookies.to_dict(), Config.from_env(os.environ).mode)
    if run is None or maker is None:
        return
    manager = get_instance().media_file_mgr
    with manager._lock:
        files = [*manager._files_by_session_and_coord.get(run.session_id, {}).values()]
    with _lock:
        for file in files:
            _makers.setdefault(file, set()).add(maker)
            _makers.move_to_end(file)
        while len(_makers) > _MOST:
            _makers.popitem(last=False)


class MadeFiles:
    """ASGI middleware of all modes. Without a sign-in, only this machine may ask at all."""

    def __init__(self, app: ASGIApp, staff: StaffSessions | None = None) -> None:
        self.app = app
        self._staff = staff

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_PATH):
            await self.app(scope, receive, send)
            return

        async def send_uncached(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Cache-Control"] = "no-store"
            await send(message)

        if self._staff is None or await self._may_open(self._staff, HTTPConnection(scope)):
            await self.app(scope, receive, send_uncached)
        else:
            await PlainTextResponse("Not Found", 404)(scope, receive, send_uncached)

    async def _may_open(self, staff: StaffSessions, connection: HTTPConnection) -> bool:
        maker = _maker(connection.cookies, staff.config.mode)
        file = connection.scope["path"].removeprefix(_PATH).partition(".")[0]
        with _lock:
            is_maker = maker is not None and maker in _makers.get(file, ())
        if not is_maker or staff.config.mode != "oidc":
            return is_maker  # the cookie of the other modes was checked before
        claims = claims_of(connection.cookies)
        try:
            return await to_thread.run_sync(lambda: is_live(claims, staff))
        except PresenceError as error:
            _log.warning("A sign-in cannot be checked: %s", error)
            return False


def _maker(cookies: Mapping[str, str], mode: Mode) -> str | None:
    """A name for the sign-in of these cookies; None without one. No secret."""
    if mode == "oidc":
        claims = claims_of(cookies)
        return provider_session(claims) if claims is not None else None
    token = cookies.get(COOKIE)
    return sha256(token.encode("utf-8", "replace")).hexdigest() if token else None
