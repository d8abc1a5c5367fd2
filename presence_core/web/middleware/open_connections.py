"""Open websockets and event streams: each closes when its session has ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import partial
from typing import Any, Final

from presence_core.client import AsyncPresence, Presence
from presence_core.heartbeat_buffer import HeartbeatBuffer
from presence_core.models import Session, ValidationFailed

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

REFUSED: Final = 4401
"""Close code of a websocket."""

_OPENS: Final = frozenset({"websocket.accept", "http.response.start"})
_CLOSES: Final = frozenset({"websocket.close", "websocket.http.response.start"})
_OF_STARLETTE: Final = frozenset({"WebSocketDisconnect", "ClientDisconnect"})
"""What Starlette raises in place of an OSError, and at a disconnect."""


class SessionEnded(OSError):
    """The application sends to a visitor whose session has ended. ASGI has OSError for a client that has gone."""


def is_event_stream(content_type: str) -> bool:
    """Whether this is the type of an event stream."""
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"


def begins_event_stream(message: Message) -> bool:
    """Whether an event stream begins with this message."""
    if message["type"] != "http.response.start":
        return False
    headers: Iterable[tuple[bytes, bytes]] = message.get("headers", ())
    return any(name.lower() == b"content-type" and is_event_stream(value.decode("latin-1")) for name, value in headers)


class OpenConnection:
    """A websocket, or a response that is an event stream.

    The application uses ``receive`` and ``send``. Once the session has ended, the connection closes, nothing passes in
    either direction, and the application receives a disconnect. What it was about to send arrives before.
    """

    __slots__ = (
        "_close_task", "_failed", "_is_closed", "_is_open", "_is_websocket", "_on_message", "_receive", "_send",
        "_sending", "_unwatch",
    )  # fmt: skip

    def __init__(
        self, receive: Receive, send: Send, *, is_websocket: bool, on_message: Callable[[], object] | None = None
    ) -> None:
        self._receive = receive
        self._send = send
        self._is_websocket = is_websocket
        self._on_message = on_message  #: called for each message of the visitor
        self._failed: ValidationFailed | None = None  #: why the session has ended
        self._sending = 0  #: messages under way
        self._is_open = self._is_closed = False
        self._close_task: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], object] | None = None

    def watch(self, presence: AsyncPresence | Presence, session: Session) -> None:
        """Close the connection once the session has ended."""
        self._unwatch = watch(presence, session, self.end)

    def _has_ended(self) -> bool:
        return self._failed is not None and self._is_open

    def end(self, failed: ValidationFailed | None) -> None:
        """The session has ended. None: nothing is known any more, because the client closes."""
        if failed is None or self._failed is not None:
            return
        self._failed = failed
        if self._is_open and not (self._sending or self._is_closed):  # else ``send`` closes it
            self._close_task = asyncio.create_task(self._close())

    async def receive(self) -> Message:
        """For the application of a websocket."""
        if not self._has_ended():
            message = await self._receive()
            if not self._has_ended():
                if self._on_message is not None and message["type"] == "websocket.receive":
                    self._on_message()
                return message
        return {"type": "websocket.disconnect", "code": REFUSED, "reason": self._word}

    async def send(self, message: Message) -> None:
        """For the application."""
        kind = message["type"]
        if self._has_ended():
            if kind == "websocket.close":
                return
            raise SessionEnded("The session of this connection has ended.")
        self._sending += 1
        try:
            await self._send(message)
        finally:
            self._sending -= 1
        self._is_open = self._is_open or kind in _OPENS
        if kind in _CLOSES or (kind == "http.response.body" and not message.get("more_body", False)):
            self._is_closed = True
        if self._has_ended() and not self._sending:
            await self._close()

    async def aclose(self) -> None:
        """The application has returned: wait until the connection is closed, if it is about to be."""
        if self._unwatch is not None:
            self._unwatch()
        if self._close_task is not None:
            await self._close_task

    async def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        last: Message = {"type": "http.response.body", "body": b"", "more_body": False}
        if self._is_websocket:
            last = {"type": "websocket.close", "code": REFUSED, "reason": self._word}
        with contextlib.suppress(OSError, RuntimeError):  # the client has gone meanwhile
            await self._send(last)

    @property
    def _word(self) -> str:
        """The reason in one word, as a refused request has it."""
        assert self._failed is not None
        ended = self._failed.ended
        return self._failed.code if ended is None else ended.public.code


def is_of_the_end(error: BaseException) -> bool:
    """Whether an application raised this because it used a connection whose session has ended."""
    if isinstance(error, BaseExceptionGroup):  # of the tasks of one connection
        return all(map(is_of_the_end, error.exceptions))
    if type(error).__name__ in _OF_STARLETTE:
        return isinstance(error.__context__, SessionEnded) or getattr(error, "code", None) == REFUSED
    return isinstance(error, SessionEnded)


def free_frames(error: BaseException) -> None:
    """Free what the frames of an error refer to. A generator that makes the parts of a response then ends at once, not
    at the next garbage collection."""
    freed: set[int] = set()  # a task group raises a part of itself again: each is then found from the other
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is None or id(each) in freed:
            continue
        freed.add(id(each))
        traceback.clear_frames(each.__traceback__)
        left += [each.__context__, *(each.exceptions if isinstance(each, BaseExceptionGroup) else ())]


class MessageBeats:
    """Heartbeats of a session by the messages of its visitor over a websocket, one in ``interval`` seconds."""

    __slots__ = ("_buffer", "_due", "_interval", "_session")

    def __init__(self, buffer: HeartbeatBuffer, session: Session, interval: float) -> None:
        self._buffer = buffer
        self._session = session
        self._interval = interval
        self._due = time.monotonic() + interval  # the request itself was one

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._interval
            with contextlib.suppress(RuntimeError):  # the buffer is closed: the site is shutting down
                self._buffer.beat(self._session.uid, self._session.session_id)


def watch(
    presence: AsyncPresence | Presence, session: Session, on_end: Callable[[ValidationFailed | None], object]
) -> Callable[[], None]:
    """Call ``on_end`` in this event loop once the session has ended: with why, or None if the client closes. Returns a
    function that ends it."""
    if isinstance(presence, AsyncPresence):
        tasks = presence.internal.ends
        return partial(tasks.remove, tasks.add(session.uid, session.session_id, on_end))
    loop, threads = asyncio.get_running_loop(), presence.internal.ends

    def call_in_loop(failed: ValidationFailed | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(on_end, failed)

    return partial(threads.remove, threads.add(session.uid, session.session_id, call_in_loop))
