"""ASGI middleware: Streamlit receives only the messages and the requests that our pages send.

Streamlit obeys others from every role, and before a sign-in: an upload fills the memory, ``clear_cache`` closes the
store of this process, which gives up the kicks that it holds, and ``load_git_info`` tells where the program was
installed from.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg

from presence_dashboard.gate.oidc import BACK_CHANNEL

_NEEDED: Final = ("rerun_script", "stop_script", "app_heartbeat")

_CORE: Final = "/_stcore/"
_NEEDED_CORE: Final = ("health", "host-config", "bidi-components/")
"""The paths of Streamlit's own that pages read. Uploads, metrics and the routes for programs are not among them."""

_GATE: Final = ("/sign-in", "/sign-in-again", "/sign-out", BACK_CHANNEL)
"""The addresses of the gate that take a POST."""


class PageMessagesOnly:
    """The same for all modes of sign-in. A malformed message passes, and Streamlit closes the connection."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_needed() -> Message:
            while True:
                message = await receive()
                if message["type"] != "websocket.receive" or _is_needed(message.get("bytes")):
                    return message

        if scope["type"] == "http" and not _is_read(scope["method"], scope["path"]):
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
            return
        await self.app(scope, receive_needed if scope["type"] == "websocket" else receive, send)


def _is_read(method: str, path: str) -> bool:
    """Whether pages send such a request. They read files, and send forms to the gate."""
    if path in _GATE:
        return True
    _, is_core, core = path.partition(_CORE)  # Streamlit may run under a path of another host
    return method in ("GET", "HEAD") and not (is_core and not core.startswith(_NEEDED_CORE))


def _is_needed(raw: bytes | None) -> bool:
    try:
        return BackMsg.FromString(raw or b"").WhichOneof("type") in (*_NEEDED, None)
    except DecodeError:
        return True
