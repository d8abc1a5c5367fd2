"""Back-channel logout for ASGI applications: Starlette, FastAPI and others. It imports none of them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from typing import Any, Final

from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import drive, drive_async
from presence_core.errors import InvalidArgument
from presence_core.web.asgi import Receive, Scope, Send, read_body
from presence_core.web.backchannel_logout.receiver import MAX_BODY, Blocking, LogoutReceiver
from presence_core.web.backchannel_logout.signing_keys import SigningKeys

RETRY_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class BackchannelLogout:
    """``app.mount("/backchannel-logout", BackchannelLogout(presence, LogoutReceiver([…])))``.

    ``presence`` is an AsyncPresence, or a Presence, which then uses a thread for each call. With a spool, call
    ``watch_spool`` in the application's lifespan: else what a process before has left waits for the first request.
    """

    def __init__(self, presence: AsyncPresence | Presence, receiver: LogoutReceiver) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence", "wrong_type")
        self._presence, self._receiver = presence, receiver
        self._retrying: asyncio.Task[None] | None = None
        self._fetches: dict[SigningKeys, asyncio.Task[Any]] = {}
        with contextlib.suppress(RuntimeError):  # made before there is a loop
            self.watch_spool()

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
        if isinstance(step, Blocking):
            return await (asyncio.to_thread(step.run) if step.keys is None else self._fetch(step, step.keys))
        done = step(self._presence)
        return await done if inspect.isawaitable(done) else done

    async def _fetch(self, step: Blocking, keys: SigningKeys) -> None:
        """All requests that need the keys of an issuer wait for one thread: a slow issuer takes no others."""
        fetch = self._fetches.get(keys)
        if fetch is None:
            fetch = self._fetches[keys] = asyncio.create_task(asyncio.to_thread(step.run))
            fetch.add_done_callback(lambda _: self._fetches.pop(keys, None))
        await asyncio.shield(fetch)

    def watch_spool(self) -> None:
        """Try what waits again, until nothing does. Call it on the event loop at start."""
        if self._receiver.waits and (self._retrying is None or self._retrying.done()):
            self._retrying = asyncio.get_running_loop().create_task(self._retry())

    async def _retry(self) -> None:
        while self._receiver.waits:
            try:
                await self._run(self._receiver.retry())
            except Exception:
                _log.exception("Logouts that wait could not be tried again")
            await asyncio.sleep(RETRY_SECONDS)
