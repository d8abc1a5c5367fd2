"""Mode "open": there is no sign-in, so only this machine may reach the dashboard.

Requests from the network, through a proxy, by DNS rebinding (a site whose name points to this machine), or by a page of
another origin are refused, also if that page is on this machine: a notebook or a published port of a container is not
the operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from presence_core.loopback import host_of, is_loopback, is_proxied
from presence_dashboard import texts
from presence_dashboard.gate.origins import is_own, scheme_of

_POLICY_VIOLATION: Final = 1008


def refuse_public_address() -> None:
    """End the program with one sentence if Streamlit would listen on a public address."""
    address = st.get_option("server.address")
    if not (isinstance(address, str) and is_loopback(address)):
        setting = f"server.address is {address}" if address else "server.address is not set, which means all addresses"
        raise SystemExit(
            f"The dashboard has no sign-in, so it listens on this machine only, but {setting}: "
            "set it to 127.0.0.1, or set PRESENCE_DASHBOARD_ACCESS (docs/run/access.md)."
        )


class LoopbackOnly:
    """ASGI middleware that refuses requests and websockets unless they come from this machine and name it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(_POLICY_VIOLATION)(scope, receive, send)
        else:
            await PlainTextResponse(f"{refusal}\n", 403)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        if is_proxied(headers):
            return texts.LOOPBACK_PROXIED
        # The server's own address shows a wildcard bind that Streamlit's options do not.
        ends: Iterable[tuple[str, int] | None] = (scope.get("client"), scope.get("server"))
        if not all(end is not None and is_loopback(end[0]) for end in ends):
            return texts.LOOPBACK_REFUSAL
        if not all(is_loopback(host_of(f"//{host}")) for host in headers.getlist("host") or [""]):
            return texts.LOOPBACK_REFUSAL
        return None if is_own(scope, headers, scheme_of(scope)) else texts.FOREIGN_ORIGIN
