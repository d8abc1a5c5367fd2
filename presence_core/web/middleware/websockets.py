"""Websockets of ASGI applications: the refused ones are closed, the others when their session has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from presence_core.client import AsyncPresence, Presence
from presence_core.web.middleware.open_connections import (
    REFUSED,
    OpenConnection,
    Receive,
    Send,
    free_frames,
    is_of_the_end,
)
from presence_core.web.middleware.refusals import code_of
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.rules import Verdict

TRY_LATER: Final = 1013
"""Close code while Redis is away."""


async def run_websocket(
    app: Callable[[Any, Any, Any], Awaitable[None]],
    presence: AsyncPresence | Presence,
    checker: RequestChecker,
    verdict: Verdict,
    scope: Mapping[str, Any],
    receive: Receive,
    send: Send,
) -> None:
    """Run the application of a websocket, or close it as the verdict says."""
    session = verdict.session
    if not verdict.passes:
        await _refuse(verdict, receive, send)
        return
    if session is None:
        await app(scope, receive, send)
        return
    beats = checker.message_beats(checker.read_scope(scope), session)
    websocket = OpenConnection(receive, send, is_websocket=True, on_message=beats)
    if checker.closes(verdict, scope["path"]):
        websocket.watch(presence, session)
    try:
        await app(scope, websocket.receive, websocket.send)
    except Exception as error:
        if not is_of_the_end(error):
            raise
        free_frames(error)
    finally:
        await websocket.aclose()


async def _refuse(verdict: Verdict, receive: Receive, send: Send) -> None:
    """Accept and close it: browsers hide the reason of a websocket that was never accepted."""
    if (await receive())["type"] != "websocket.connect":
        return
    await send({"type": "websocket.accept"})
    code = TRY_LATER if verdict.state == "unavailable" else REFUSED
    await send({"type": "websocket.close", "code": code, "reason": code_of(verdict)})
