"""YourDevices for ASGI applications: Starlette, FastAPI and others. It imports none of them."""

from __future__ import annotations

import asyncio
from typing import Any

from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import drive, drive_async
from presence_core.errors import InvalidArgument
from presence_core.web.asgi import Receive, Scope, Send, read_body
from presence_core.web.rules import Verdict
from presence_core.web.your_devices.answers import DeviceAnswers
from presence_core.web.your_devices.exchange import MAX_BODY, NO_MIDDLEWARE, DeviceRequest, join_headers
from presence_core.web.your_devices.options import DeviceOptions


class YourDevices:
    """``app.mount("/devices", YourDevices(presence, DeviceOptions(key=KEY)))``: visitors see and end their sessions.

    It needs the ``PresenceMiddleware`` of ``presence_core.web.asgi`` around it. ``presence`` is an AsyncPresence, or a
    Presence, which then uses a thread for each call. Cost: two round trips to Redis for the list, up to four for a
    change.
    """

    def __init__(self, presence: AsyncPresence | Presence, options: DeviceOptions) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence", "wrong_type")
        self._presence = presence
        self._answers = DeviceAnswers(options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            raise RuntimeError("Mount YourDevices in an application: it has no lifespan.")
        calls = self._answers.answer(await _read(scope, receive))
        presence = self._presence
        if isinstance(presence, AsyncPresence):
            response = await drive_async(calls, lambda call: call(presence))
        else:
            response = await asyncio.to_thread(drive, calls, lambda call: call(presence))
        length = (b"content-length", str(len(response.body)).encode())
        headers = [(name.lower().encode(), value.encode()) for name, value in response.headers]
        await send({"type": "http.response.start", "status": response.status, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.body})


async def _read(scope: Scope, receive: Receive) -> DeviceRequest:
    verdict: Any = scope.get("presence.verdict")
    if not isinstance(verdict, Verdict):
        raise RuntimeError(NO_MIDDLEWARE)
    mount, path = scope.get("root_path", ""), scope["path"]
    below = path.removeprefix(mount) if mount and (path == mount or path.startswith(f"{mount}/")) else path
    return DeviceRequest(
        method=scope["method"],
        path=below,
        url_path=path if below != path or not mount else mount + path,
        query=scope.get("query_string", b"").decode("latin-1"),
        headers=join_headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]),
        session=verdict.session,
        verdict=verdict,
        body=await read_body(receive, MAX_BODY) if scope["method"] == "POST" else b"",
    )
