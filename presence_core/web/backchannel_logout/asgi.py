"""Back-channel logout for ASGI applications: Starlette, FastAPI and others. It imports none of them."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Final

from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import drive, drive_async
from presence_core.errors import InvalidArgument
from presence_core.web.asgi import Receive, Scope, Send, read_body
from presence_core.web.backchannel_logout.receiver import MAX_BODY, Fetch, LogoutReceiver

RETRY_SECONDS: Final = 5.0


class BackchannelLogout:
    """``app.mount("/backchannel-logout", BackchannelLogout(presence, LogoutReceiver([…])))``.

    ``presence`` is an AsyncPresence, or a Presence, which then uses a thread for each call.
    """

    def __init__(self, presence: AsyncPresence | Presence, receiver: LogoutReceiver) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence", "wrong_type")
        self._presence, self._receiver = presence, receiver
        self._retrying: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("Mount BackchannelLogout in an application: it has no lifespan and no websockets.")
        body = await read_body(receive, MAX_BODY) if scope["method"] == "POST" else b""
        kinds = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-type"]
        response = await self._run(self._receiver.answer(scope["method"], "".join(kinds), body))
        self.watch_spool()
        headers = [(name.lower().encode(), value.encode()) for name, value in response.headers]
        length = (b"content-length", str(len(response.body)).encode())
        await send({"type": "http.response.start", "status": response.status, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": response.body})

    async def _run(self, steps: Any) -> Any:
        presence = self._presence
        if isinstance(presence, Presence):
            return await asyncio.to_thread(drive, steps, lambda step: step(presence))
        return await drive_async(steps, self._act)

    async def _act(self, step: Any) -> Any:
        if isinstance(step, Fetch):
            return await asyncio.to_thread(step.run)
        done = step(self._presence)
        return await done if inspect.isawaitable(done) else done

    def watch_spool(self) -> None:
        """Try what waits in the spool again, until nothing does. Call it on the event loop at start."""
        spool = self._receiver.spool
        if spool and (self._retrying is None or self._retrying.done()) and len(spool):
            self._retrying = asyncio.get_running_loop().create_task(self._retry())

    async def _retry(self) -> None:
        while await self._run(self._receiver.retry()):
            await asyncio.sleep(RETRY_SECONDS)
