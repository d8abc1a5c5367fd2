"""Messages of a websocket that are read while an earlier one waits, so that a client that leaves is noticed."""

from __future__ import annotations

import asyncio
from collections import deque

from anyio import sleep_forever
from starlette.types import Message, Receive


class ReadAhead:
    """The ``receive`` of a socket. Keeps up to ``most`` messages. No message is lost if ``disconnect`` is cancelled."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._kept: deque[Message] = deque()
        self._reading: asyncio.Future[Message] | None = None

    async def next(self) -> Message:
        """The next message: a kept one, or the one that comes next."""
        if self._kept:
            return self._kept.popleft()
        if self._reading is None:
            return await self._receive()
        message = await self._reading
        self._reading = None
        return message

    async def disconnect(self) -> Message:
        """Keep what comes, and return the message that says that the client has left."""
        while True:
            if len(self._kept) == self._most:
                await sleep_forever()
            self._reading = self._reading or asyncio.ensure_future(self._receive())
            message = await asyncio.shield(self._reading)
            self._reading = None
            if message["type"] == "websocket.disconnect":
                return message
            self._kept.append(message)

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
