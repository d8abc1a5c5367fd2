"""Collect the heartbeats of a busy process and send them together: many requests of a visitor are one heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Generator
from contextvars import Context
from types import TracebackType

from presence_core import validation as check
from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import drive, drive_async
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.fork_safety import renew_in_child
from presence_core.logs import OutageLog, fields

BATCH = 5_000
"""Heartbeats sent in one call."""

log = logging.getLogger(__name__)


class HeartbeatBuffer:
    """Collects heartbeats and sends them every ``interval`` seconds, or as soon as ``max_refs`` sessions wait.

    With a Presence a daemon thread sends them, with an AsyncPresence a task of the running loop. ``on_offline`` is
    called there with the refs that are no longer live. While Redis is unreachable, the refs wait: one entry for each
    session, and at most ``max_waiting``; ``dropped`` counts the heartbeats beyond. ``beat`` never blocks and does no
    I/O. A forked child begins with an empty buffer and a thread of its own; its parent keeps what waited.

    Use it as a context manager, or call ``close()`` (``await aclose()``): that sends what waits, and raises Unavailable
    if it cannot.
    """

    def __init__(
        self,
        presence: Presence | AsyncPresence,
        *,
        interval: float = 1.0,
        max_refs: int = 5_000,
        max_waiting: int = 100_000,
        on_offline: Callable[[list[str]], None] | None = None,
    ) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence", "wrong_type")
        check.callback("on_offline", on_offline)
        self._presence = presence
        self._interval = float(check.duration("interval", interval, 0.01, 3600))
        self._max_refs = check.whole("max_refs", max_refs, 1, 1_000_000)
        self._max_waiting = check.whole("max_waiting", max_waiting, 1, 10_000_000)
        self._on_offline = on_offline
        self._closed = False
        self._outages = OutageLog(
            log, "heartbeats", "heartbeats wait: %(error)s", "heartbeats are sent again after %(seconds).1f s"
        )
        self.dropped = 0  #: heartbeats that were not kept because the buffer was full
        self._renew()
        renew_in_child(self, HeartbeatBuffer._renew)

    def _renew(self) -> None:
        """Also in a forked child: threads of the parent may have held the locks."""
        self._waiting: dict[str, None] = {}
        self._lock = threading.Lock()
        self._sending = threading.RLock()  # on_offline may call close or flush
        self._full = threading.Event()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._full_async: asyncio.Event | None = None
        self._sending_async: asyncio.Lock | None = None

    @property
    def waiting(self) -> int:
        """How many sessions have a heartbeat that waits to be sent."""
        return len(self._waiting)

    def beat(self, uid: str, session_id: str) -> None:
        """Record that a session was seen. Raises InvalidArgument for a malformed id, RuntimeError after ``close``."""
        ref = f"{check.uid(uid)}:{check.session_id(session_id)}"
        with self._lock:
            if self._closed:
                raise RuntimeError("this HeartbeatBuffer is closed")
            if len(self._waiting) >= self._max_waiting and ref not in self._waiting:
                self.dropped += 1
                return
            self._waiting[ref] = None
            full = len(self._waiting) >= self._max_refs
        if isinstance(self._presence, Presence):
            if self._thread is None or not self._thread.is_alive():  # the first beat of this process
                self._start_thread()
            if full:
                self._full.set()
        else:
            if self._task is None or self._task.done():
                self._start_task()
            if full and self._full_async is not None and self._loop is not None:
                self._loop.call_soon_threadsafe(self._full_async.set)

    def _take(self) -> list[str]:
        with self._lock:
            refs, self._waiting = list(self._waiting), {}
        return refs

    def _send_waiting(self) -> Generator[list[str], list[str], list[str]]:
        """Yields refs to be sent, and receives those that are no longer live. Returns all of these."""
        offline: list[str] = []
        refs = self._take()
        try:
            while refs:
                offline += yield refs[:BATCH]
                refs = refs[BATCH:]
        finally:
            self._put_back(refs)  # not sent because of an outage
            self._report(offline)
        return offline

    def _put_back(self, refs: list[str]) -> None:
        with self._lock:
            together = list(dict.fromkeys(refs) | self._waiting)
            self.dropped += max(0, len(together) - self._max_waiting)
            self._waiting = dict.fromkeys(together[: self._max_waiting])

    def _report(self, offline: list[str]) -> None:
        if offline and self._on_offline is not None:
            try:
                self._on_offline(offline)
            except Exception:
                log.exception("on_offline failed", extra=fields(event="callback_failed"))

    # -- with a Presence ----------------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        with self._lock:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._send_forever, name="presence-heartbeats", daemon=True)
            self._thread.start()

    def _send_forever(self) -> None:
        while not self._closed:
            self._full.wait(self._interval)
            self._full.clear()
            try:
                self.flush()
                self._outages.worked()
            except PresenceError as error:
                self._outages.failed(error)
                threading.Event().wait(self._interval)

    def flush(self) -> list[str]:
        """Send what waits now. Returns the refs that are no longer live. After Unavailable, what was not sent waits.

        Cost: that of ``heartbeats``, a call for 5,000 refs.
        """
        if not isinstance(self._presence, Presence):
            raise RuntimeError("an AsyncPresence's buffer is flushed by aflush()")
        with self._sending:
            return drive(self._send_waiting(), self._presence.heartbeats)

    def close(self) -> None:
        """Send what waits, and stop. Raises Unavailable if it cannot be sent; then it may be called again."""
        self._closed = True
        self._full.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self.flush()

    def __enter__(self) -> HeartbeatBuffer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # An error of the body is more important than ours.
        with contextlib.suppress(PresenceError) if error else contextlib.nullcontext():
            self.close()

    # -- with an AsyncPresence ----------------------------------------------------------------------------------------

    async def astart(self) -> None:
        """Begin to send in the running loop. Then ``beat`` may be called in any thread; without this, the first call
        must be in the loop."""
        if self._task is None or self._task.done():
            self._start_task()

    def _start_task(self) -> None:
        self._loop = asyncio.get_running_loop()
        # A context of its own: not in the trace of the request that began it.
        self._full_async = asyncio.Event()
        self._task = self._loop.create_task(self._send_forever_async(), context=Context())

    async def _send_forever_async(self) -> None:
        assert self._full_async is not None
        while not self._closed:
            try:
                await asyncio.wait_for(self._full_async.wait(), self._interval)
            except TimeoutError:
                pass
            self._full_async.clear()
            try:
                await self.aflush()
                self._outages.worked()
            except PresenceError as error:
                self._outages.failed(error)
                await asyncio.sleep(self._interval)

    async def aflush(self) -> list[str]:
        """See flush."""
        if not isinstance(self._presence, AsyncPresence):
            raise RuntimeError("a Presence's buffer is flushed by flush()")
        if self._sending_async is None:
            self._sending_async = asyncio.Lock()
        async with self._sending_async:
            return await drive_async(self._send_waiting(), self._presence.heartbeats)

    async def aclose(self) -> None:
        """See close."""
        self._closed = True
        if self._full_async is not None:
            self._full_async.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=5)
        await self.aflush()

    async def __aenter__(self) -> HeartbeatBuffer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        with contextlib.suppress(PresenceError) if error else contextlib.nullcontext():
            await self.aclose()
