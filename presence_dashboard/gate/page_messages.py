"""ASGI middleware: Streamlit receives only the messages that our pages send.

Streamlit obeys others from every role: ``clear_cache`` closes the store of this process, which gives up the kicks that
it holds, and ``load_git_info`` tells where the program was installed from.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg

_NEEDED: Final = ("rerun_script", "stop_script", "app_heartbeat", "file_urls_request", "backend_operation_request")


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

        await self.app(scope, receive_needed if scope["type"] == "websocket" else receive, send)


def _is_needed(raw: bytes | None) -> bool:
    try:
        return BackMsg.FromString(raw or b"").WhichOneof("type") in (*_NEEDED, None)
    except DecodeError:
        return True
