"""Server-sent events for many readers: one poller for the process, a bounded queue for each reader.

A reader that comes back with the id of its last event first reads what it missed, up to the poller's position when it
joined. From there on its queue has the events. So each event arrives once, and none is lost in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextvars import Context
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from presence_core.client import AsyncPresence
from presence_core.errors import Unavailable
from presence_core.logs import OutageLog
from presence_core.models import Event, moment, plain
from presence_core.operations.sessions import events, read

INTERVAL: Final = 0.1
"""Seconds between two reads of the streams."""

COMMENT_INTERVAL: Final = 15.0
"""Seconds of silence after which a comment shows reader and proxies that the connection is open."""

RECHECK_INTERVAL: Final = 5.0
"""Seconds after which a reader gets nothing more before its key is checked again."""

BATCH: Final = 1000

MAX_WAITING: Final = 4 << 20
"""Bytes that may wait for one reader. A slower reader is disconnected, and comes back with its last id."""

MAX_READERS: Final = 5000

log = logging.getLogger(__name__)

Positions = list[tuple[int, int]]
"""A position in the stream of each shard."""

Allowed = Callable[[], Awaitable[bool]]


def event_frame(event: Event, cursor: str) -> bytes:
    """An event as it is sent."""
    kind = event.kind if event.kind.replace("_", "").isalpha() else "unknown"
    return f"id: {cursor}\nevent: {kind}\ndata: {json.dumps(plain(event) | {'cursor': cursor})}\n\n".encode()


def revoked_frame(watermark: int) -> bytes:
    """``revoke_before`` as it is sent: without an id, because it is no event of a stream."""
    data = {"kind": "revoked", "login_until": plain(moment(watermark))}
    return f"event: revoked\ndata: {json.dumps(data)}\n\n".encode()


def _position_frame(cursor: str) -> bytes:
    """The reader's position without an event: a reader that is cut off before its first event comes back with it."""
    return f": welcome\nid: {cursor}\n\n".encode()


def _chunks(batch: list[Event]) -> Iterator[list[Event]]:
    """The batch in parts that leave room in a queue: with many shards a cursor is long."""
    if not batch:
        return
    size = max(1, MAX_WAITING // 4 // len(event_frame(batch[-1], batch[-1].cursor)))
    if len(batch) <= size:
        yield batch
        return
    for first in range(0, len(batch), size):
        yield batch[first : first + size]


class ReaderQueue:
    """The frames that wait for one reader."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self.closed = False

    def put(self, data: bytes) -> None:
        """Add frames, without blocking. Closes the queue if it would hold too much."""
        if self._size + len(data) > MAX_WAITING:
            self.close()
        elif not self.closed:
            self._waiting.append(data)
            self._size += len(data)
            self._changed.set()

    def close(self) -> None:
        """End it. What waits is not sent; the reader gets it when it comes back."""
        self.closed = True
        self._waiting.clear()
        self._size = 0
        self._changed.set()

    async def get(self) -> bytes | None:
        """The next frames. None at the end."""
        while not self._waiting:
            if self.closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        data = self._waiting.popleft()
        self._size -= len(data)
        return data


class _Resume(NamedTuple):
    """Where a returning reader stopped, and where its queue begins."""

    cursor: str
    seen: Positions
    target: Positions
    gap: list[Event]  #: events that tell the reader of a loss


class EventPoller:
    """The poller of a process. It runs while there are readers."""

    def __init__(self, presence: AsyncPresence) -> None:
        self._presence = presence
        self._queues: set[ReaderQueue] = set()
        self._reader_count = 0  # also those that are about to have a queue
        self._cursor = ""
        self._watermark = -1  #: login time, ms, up to which revoke_before has revoked all sessions
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiters: list[asyncio.Future[None]] = []
        self._closed = False
        self._outages = OutageLog(log, "events", "events cannot be read, trying again: %(error)s",
                                  "events are read again after %(seconds).1f s")  # fmt: skip

    @property
    def readers(self) -> int:
        return len(self._queues)

    async def open(self, after: str | None, allowed: Allowed | None = None) -> EventStream:
        """The stream for one reader, from now on or from the cursor ``after``.

        ``allowed`` is asked every five seconds whether the reader may continue. Raises InvalidArgument, Unavailable,
        and HTTPException 503 if there are too many readers.
        """
        seen = None if after is None else events.positions(after)
        if self._reader_count >= MAX_READERS or self._closed:
            raise HTTPException(503, "This process has its maximum of readers: try again later.", {"Retry-After": "5"})
        self._reader_count += 1
        try:
            await self._start()
            resume = None if after is None or seen is None else await self._resume_from(after, seen)
            queue, key = ReaderQueue(), _KeyCheck(allowed)
            if self._watermark >= 0:
                queue.put(revoked_frame(self._watermark))
            self._queues.add(queue)  # no await since the position was read, so nothing falls in between
            if resume is None:
                return EventStream(self, queue, _from_queue(queue, key, self._cursor))
            return EventStream(self, queue, self._resumed(queue, resume, key))
        except BaseException:
            self._release()
            raise

    async def _resume_from(self, after: str, seen: Positions) -> _Resume:
        await self._wait_for_end()
        gap: list[Event] = []
        if len(seen) != len(events.positions(self._cursor)):  # resharded since, or never a cursor of this namespace
            gap = await self._presence.events(after=after, limit=BATCH)
            after = gap[-1].cursor if gap else after
            seen = events.positions(after)
        target = events.positions(self._cursor)
        if len(seen) != len(target):
            raise Unavailable("The namespace is being resharded: try again.")
        return _Resume(after, seen, target, gap)

    def leave(self, queue: ReaderQueue) -> None:
        queue.close()
        if queue in self._queues:
            self._queues.discard(queue)
            self._release()

    def close(self) -> None:
        """Disconnect all readers: the process shuts down."""
        self._closed = True
        for queue in list(self._queues):
            queue.close()

    def _release(self) -> None:
        self._reader_count -= 1
        if not self._reader_count and self._task is not None:
            self._task.cancel()
            self._task = None

    # -- the poller ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._starting:
            if self._task is None or self._task.done():
                self._cursor = await self._presence.events_end()
                self._watermark = await self._read_watermark()
                self._task = asyncio.create_task(self._poll(), context=Context())  # not in the trace of its reader

    async def _wait_for_end(self) -> None:
        """Wait until the poller has read the streams to their end once more."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def _poll(self) -> None:
        me = asyncio.current_task()  # a cancel may get lost in the driver (CPython 3.11, wait_for)
        while self._task is me:
            waiters, self._waiters = self._waiters, []
            try:
                watermark = await self._read_watermark()
                batch = await self._presence.events(after=self._cursor, limit=BATCH)
            except Exception as error:  # any error: the readers' position must not be lost
                _wake(waiters, error)
                self._outages.failed(error)
                await asyncio.sleep(5 * INTERVAL)
                continue
            except BaseException:
                for waiter in waiters:
                    waiter.cancel()
                raise
            self._outages.worked()
            if watermark > self._watermark and self._task is me:
                self._watermark = watermark
                for queue in self._queues:
                    queue.put(revoked_frame(watermark))
            await self._send_to_readers(batch, me)
            if len(batch) < BATCH:
                _wake(waiters)
                await asyncio.sleep(INTERVAL)
            else:
                self._waiters += waiters

    async def _read_watermark(self) -> int:
        watermark, _ = await self._presence.internal.run(read.watermark(self._presence.internal.context))
        return watermark

    async def _send_to_readers(self, batch: list[Event], me: asyncio.Task[None] | None) -> None:
        for chunk in _chunks(batch):
            if chunk is not batch:
                await asyncio.sleep(INTERVAL / 10)  # so that readers take the chunk before
            if self._task is me:
                self._cursor = chunk[-1].cursor
                data = b"".join(event_frame(event, event.cursor) for event in chunk)
                for queue in self._queues:
                    queue.put(data)

    # -- one reader ---------------------------------------------------------------------------------------------------

    async def _resumed(self, queue: ReaderQueue, resume: _Resume, key: _KeyCheck) -> AsyncIterator[bytes]:
        """What the reader missed up to the target, then its queue."""
        cursor, seen, target = resume.cursor, resume.seen, resume.target
        gap = b"".join(event_frame(event, event.cursor) for event in resume.gap)
        yield gap or _position_frame(events.cursor_of(seen))
        # A reader ahead of the target reads too: the poller was at the end of the streams, so these are others.
        is_behind = seen != target
        while is_behind and not queue.closed:
            if not await key.is_valid():
                return
            try:
                batch = await self._presence.events(after=cursor, limit=BATCH)
            except Unavailable:
                yield b": waiting\n\n"
                await asyncio.sleep(10 * INTERVAL)
                continue
            if batch:
                cursor = batch[-1].cursor
                if len(events.positions(cursor)) != len(target):
                    return  # resharded just now: the reader comes back with its last id, and gets a gap
            frames, seen = _missed(batch, seen, target)
            is_behind = bool(batch) and any(ours < theirs for ours, theirs in zip(seen, target, strict=True))
            if frames:
                yield frames
        async for data in _from_queue(queue, key):
            yield data


def _missed(batch: Iterable[Event], seen: Positions, target: Positions) -> tuple[bytes, Positions]:
    """The frames up to the target, and the positions after the batch. Later events come through the queue."""
    frames = []
    for event in batch:
        before, seen = seen, events.positions(event.cursor)
        shard = next((shard for shard in range(len(seen)) if seen[shard] != before[shard]), 0)
        if event.kind == "gap" or seen[shard] <= target[shard]:
            cursor = events.cursor_of([min(both) for both in zip(seen, target, strict=True)])
            frames.append(event_frame(event, cursor))
    return b"".join(frames), seen


def _wake(waiters: list[asyncio.Future[None]], error: Exception | None = None) -> None:
    for waiter in (waiter for waiter in waiters if not waiter.done()):
        waiter.set_result(None) if error is None else waiter.set_exception(error)


class _KeyCheck:
    """Whether the key of a reader is still valid. The key is looked up when ``due`` has come."""

    def __init__(self, allowed: Allowed | None) -> None:
        self._allowed = allowed
        self.due = math.inf if allowed is None else time.monotonic() + RECHECK_INTERVAL

    async def is_valid(self) -> bool:
        """False if the reader must get nothing more."""
        if self._allowed is None or time.monotonic() < self.due:
            return True
        self.due = time.monotonic() + RECHECK_INTERVAL
        return await self._allowed()


async def _from_queue(queue: ReaderQueue, key: _KeyCheck, cursor: str = "") -> AsyncIterator[bytes]:
    if cursor:
        yield _position_frame(cursor)
    comment_due = time.monotonic() + COMMENT_INTERVAL
    while True:
        data: bytes | None = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(comment_due, key.due) - time.monotonic()):
                data = await queue.get()
        if data is None or not await key.is_valid():
            return
        if not data and time.monotonic() >= comment_due:
            data = b": still here\n\n"
        if data:
            yield data
            comment_due = time.monotonic() + COMMENT_INTERVAL


class EventStream(StreamingResponse):
    """The response to one reader."""

    def __init__(self, poller: EventPoller, queue: ReaderQueue, frames: AsyncIterator[bytes]) -> None:
        super().__init__(frames, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._poller = poller
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._poller.leave(self._queue)
