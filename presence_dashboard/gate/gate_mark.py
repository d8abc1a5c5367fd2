"""A header by which a page knows that the gate let its connection in. Without it, a page draws nothing.

A Streamlit script cannot see the middleware around it, only the headers of its websocket. So the gate adds a header
with a secret value, and removes the header if a client sent it.
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
    """ASGI middleware that sets the mark. The innermost of the gate: connections that reach it were let in."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0].lower() != _NAME]
        if scope["type"] == "websocket":  # only websockets draw pages
            headers.append((_NAME, _mark().encode()))
        await self.app({**scope, "headers": headers}, receive, send)


def is_marked(values: Sequence[str]) -> bool:
    """Whether these values of HEADER are the mark of this process."""
    return len(values) == 1 and hmac.compare_digest(values[0].encode(), _mark().encode())


def _mark() -> str:
    """The secret value, different in each process.

    Made of the random key of the process, not of a key in this module: Streamlit reloads changed modules, and open
    pages must keep their mark.
    """
    return hmac.new(current_process().authkey, _NAME, sha256).hexdigest()
