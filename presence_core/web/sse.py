"""Events as they happen, to many readers at once: one poller for a whole process, a bounded line to each reader.

A reader that comes back with the id of the last event it saw first reads by itself what the poller has behind it, up to
where the poller was when the reader joined, and then stands in line with the others. So each event arrives once, and no
event falls between the two.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from presence_core.client import AsyncPresence
from presence_core.errors import Unavailable
from presence_core.models import Event, plain
from presence_core.operations import events

INTERVAL: Final = 0.1
"""Seconds between two looks at the streams."""

BEAT: Final = 15.0
"""Seconds of silence after which a comment shows reader and proxies that the line is open."""

LOOK: Final = 5.0
"""Seconds after which a reader is told nothing more before it is asked anew whether they still may be."""

BATCH: Final = 1000
MAX_WAITING: Final = 4 << 20
"""Bytes that may wait for one reader; who is further behind is dropped, and comes back with its last id."""

MAX_READERS: Final = 5000

log = logging.getLogger("presence_core")

Places = list[tuple[int, int]]
Allowed = Callable[[], Awaitable[bool]]


def frame(event: Event, cursor: str) -> bytes:
    """An event on the wire."""
    kind = event.kind if event.kind.isalpha() else "unknown"
    return f"id: {cursor}\nevent: {kind}\ndata: {json.dumps(plain(event) | {'cursor': cursor})}\n\n".encode()


def _pieces(batch: list[Event]) -> Iterator[list[Event]]:
    """Some events at a time, so that none who reads them is further behind than may be: cursors of many shards are
    long."""
    if not batch:
        return
    most = max(1, MAX_WAITING // 4 // len(frame(batch[-1], batch[-1].cursor)))
    if len(batch) <= most:
        yield batch
        return
    for first in range(0, len(batch), most):
        yield batch[first : first + most]


class Line:
    """What waits for one reader."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self.closed = False

    def put(self, data: bytes) -> None:
        """Never blocks, never grows without bound."""
        if self._size + len(data) > MAX_WAITING:
            self.close()
        elif not self.closed:
            self._waiting.append(data)
            self._size += len(data)
            self._news.set()

    def close(self) -> None:
        """End it where it is; what waits is not sent, and is read again by whoever comes back."""
        self.closed = True
        self._waiting.clear()
        self._size = 0
        self._news.set()

    async def get(self) -> bytes | None:
        """What comes next; None at the end."""
        while not self._waiting:
            if self.closed:
                return None
            self._news.clear()
            await self._news.wait()
        data = self._waiting.popleft()
        self._size -= len(data)
        return data


class Feed:
    """The one poller of a process. It runs while somebody listens."""

    def __init__(self, presence: AsyncPresence) -> None:
        self._presence = presence
        self._lines: set[Line] = set()
        self._users = 0  # lines, and those about to be
        self._cursor = ""
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False

    @property
    def readers(self) -> int:
        """How many are listening."""
        return len(self._lines)

    async def open(self, after: str | None, allowed: Allowed | None = None) -> EventStream:
        """A reader's stream, from now on or behind ``after``. ``allowed`` is asked, every 5 s, whether it may go on.

        Raises InvalidArgument and Unavailable.
        """
        seen = None if after is None else events.positions(after)
        if self._users >= MAX_READERS or self._closed:
            raise HTTPException(503, "This process has as many readers as it takes.", {"Retry-After": "5"})
        self._users += 1
        try:
            await self._start()
            gap: list[Event] = []
            if after is not None and seen is not None:
                await self._fresh()
                if len(seen) != len(events.positions(self._cursor)):  # moved to other shards since, or never a cursor
                    gap = await self._presence.events(after=after, limit=BATCH)
                    after = gap[-1].cursor if gap else after
                    seen = events.positions(after)
            target = events.positions(self._cursor)
            if seen is not None and len(seen) != len(target):
                raise Unavailable("The sessions are being moved to another number of shards; try again.")
            line = Line()
            self._lines.add(line)  # from here to the next await nothing can happen: the poller is where `_cursor` says
            if after is None or seen is None:
                return EventStream(self, line, _live(line, allowed, self._cursor))
            return EventStream(self, line, self._resumed(line, gap, after, seen, target, allowed))
        except BaseException:
            self._release()
            raise

    def leave(self, line: Line) -> None:
        """This reader has gone."""
        line.close()
        if line in self._lines:
            self._lines.discard(line)
            self._release()

    def close(self) -> None:
        """Let every reader go: the process is about to end."""
        self._closed = True
        for line in list(self._lines):
            line.close()

    def _release(self) -> None:
        self._users -= 1
        if not self._users and self._task is not None:
            self._task.cancel()
            self._task = None

    # -- the poller ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._starting:
            if self._task is None or self._task.done():
                self._cursor = await self._presence.events_end()
                self._task = asyncio.create_task(self._poll())

    async def _fresh(self) -> None:
        """Wait until the poller has been to the end of the streams once more."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def _poll(self) -> None:
        is_away = False
        me = asyncio.current_task()  # a cancel may be lost on its way through the driver (CPython 3.11, wait_for)
        while self._task is me:
            waiters, self._waiters = self._waiters, []
            try:
                batch = await self._presence.events(after=self._cursor, limit=BATCH)
            except Exception as error:  # whatever it is, the readers' place in the streams must not be lost
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_exception(error)
                if not is_away:
                    log.warning("events wait: %s", error)
                is_away = True
                await asyncio.sleep(5 * INTERVAL)
                continue
            except BaseException:
                for waiter in waiters:
                    waiter.cancel()
                raise
            is_away = False
            for part in _pieces(batch):
                if part is not batch:
                    await asyncio.sleep(INTERVAL / 10)  # for readers to take what came before
                if self._task is me:
                    self._cursor = part[-1].cursor
                    data = b"".join(frame(event, event.cursor) for event in part)
                    for line in self._lines:
                        line.put(data)
            if len(batch) < BATCH:
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_result(None)
                await asyncio.sleep(INTERVAL)
            else:
                self._waiters += waiters

    # -- one reader ---------------------------------------------------------------------------------------------------

    async def _resumed(
        self, line: Line, gap: list[Event], after: str, seen: Places, target: Places, allowed: Allowed | None
    ) -> AsyncIterator[bytes]:
        cursor = after
        yield b"".join(frame(event, event.cursor) for event in gap) or _place(events.cursor_of(seen))
        # Also who is ahead must look: the poller has been where the stream ends now, so theirs was another stream.
        behind = seen != target
        while behind and not line.closed:
            try:
                batch = await self._presence.events(after=cursor, limit=BATCH)
            except Unavailable:
                yield b": waiting\n\n"
                await asyncio.sleep(10 * INTERVAL)
                continue
            if batch and len(events.positions(batch[-1].cursor)) != len(target):
                return  # moved to other shards just now: who comes again with the last id is told of a gap
            frames = []
            for event in batch:
                before, seen, cursor = seen, events.positions(event.cursor), event.cursor
                changed = next((one for one in range(len(seen)) if seen[one] != before[one]), 0)
                if event.kind == "gap" or seen[changed] <= target[changed]:  # what is beyond comes by the line
                    told = events.cursor_of([min(both) for both in zip(seen, target, strict=True)])
                    frames.append(frame(event, told))
            behind = bool(batch) and any(ours < theirs for ours, theirs in zip(seen, target, strict=True))
            if frames:
                yield b"".join(frames)
        async for data in _live(line, allowed):
            yield data


def _place(cursor: str) -> bytes:
    """No event, but where the reader is: one that is cut off before its first event comes back with it."""
    return f": welcome\nid: {cursor}\n\n".encode()


async def _live(line: Line, allowed: Allowed | None, cursor: str = "") -> AsyncIterator[bytes]:
    if cursor:
        yield _place(cursor)
    asked = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(BEAT):
                data = await line.get()
        except TimeoutError:
            data = b": still here\n\n"
        if allowed is not None and time.monotonic() - asked >= LOOK:
            asked = time.monotonic()
            if not await allowed():
                return
        if data is None:
            return
        yield data


class EventStream(StreamingResponse):
    """The answer to one reader."""

    def __init__(self, feed: Feed, line: Line, frames: AsyncIterator[bytes]) -> None:
        super().__init__(frames, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._feed = feed
        self._line = line

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.leave(self._line)
