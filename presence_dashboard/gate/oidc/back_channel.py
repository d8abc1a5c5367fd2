"""OIDC: the provider signs a staff member out, and their sign-ins here end (OpenID Connect Back-Channel Logout 1.0)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

import streamlit as st
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from presence_core import PresenceError
from presence_core.web.backchannel_logout import Issuer, LogoutReceiver
from presence_core.web.backchannel_logout.asgi import BackchannelLogout
from presence_core.web.backchannel_logout.issuers import ALGORITHMS
from presence_core.web.backchannel_logout.signing_keys import FETCH_ERRORS, fetch_json
from presence_dashboard.gate.staff_sessions import StaffSessions

_AGAIN: Final = 5.0
"""Seconds between two requests for the metadata of the provider: anyone may send us a POST."""

_log = logging.getLogger(__name__)


class StaffLogout:
    """An ASGI application at ``BACK_CHANNEL``. It needs no sign-in: the provider signs what it sends.

    It asks the provider for its metadata at the first request, so that the dashboard starts without it.
    """

    def __init__(self, staff: StaffSessions) -> None:
        self._staff = staff
        self._receiver: ASGIApp | None = None
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = -_AGAIN

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._receiver is None:
            if self._asking is None and time.monotonic() - self._asked_at >= _AGAIN:
                self._asking = asyncio.create_task(self._ask())
            if self._asking is not None:  # requests that come meanwhile wait for the same answer
                await asyncio.shield(self._asking)
        if self._receiver is None:
            answer = PlainTextResponse("Try again later.", 503, {"Retry-After": "5", "Cache-Control": "no-store"})
            await answer(scope, receive, send)
        else:
            await self._receiver(scope, receive, send)

    async def _ask(self) -> None:
        try:
            self._receiver = await asyncio.to_thread(self._make)
        except (PresenceError, *FETCH_ERRORS) as error:
            _log.error("A logout of the identity provider cannot be received: %s", error)
        finally:
            self._asking, self._asked_at = None, time.monotonic()

    def _make(self) -> ASGIApp:
        auth = st.secrets["auth"]
        found = fetch_json(auth["server_metadata_url"])
        supported = found.get("id_token_signing_alg_values_supported") or ["RS256"]
        issuer = Issuer(
            found["issuer"], auth["client_id"], found["jwks_uri"],
            algorithms=tuple(name for name in ALGORITHMS if name in supported),
        )  # fmt: skip
        return BackchannelLogout(self._staff.sessions, LogoutReceiver([issuer]))
