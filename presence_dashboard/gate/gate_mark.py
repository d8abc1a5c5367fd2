"""The gate's mark on a connection that it let in. A page without it was started without the gate, and draws nothing.

A script of Streamlit cannot see the middleware around it, only the headers of its websocket. So the gate adds one that
no client can know, and takes away what a client sent under its name.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from multiprocessing import current_process
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

HEADER: Final = "x-presence-gate"

_NAME: Final = HEADER.encode()


class GateMark:
    """ASGI middleware, the innermost of the gate: what reaches it has been let in."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0].lower() != _NAME]
        if scope["type"] == "websocket":  # a page is drawn for a websocket, and for nothing else
            headers.append((_NAME, _mark().encode()))
        await self.app({**scope, "headers": headers}, receive, send)


def is_marked(values: Sequence[str]) -> bool:
    """Whether these are the values of HEADER on a connection that the gate of this process let in."""
    return len(values) == 1 and hmac.compare_digest(values[0].encode(), _mark().encode())


def _mark() -> str:
    """Differs in each process, and nothing outside of it knows it. Made of the process's own random key, not of one in
    this module: Streamlit imports our modules again when a developer changes one, and open pages keep their mark."""
    return hmac.new(current_process().authkey, _NAME, sha256).hexdigest()
