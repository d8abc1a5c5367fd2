"""Take the steps of ``WatchedSessions`` while something is watched: in a thread for a Presence, in a task for an
AsyncPresence."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from contextvars import Context as Variables
from typing import Any, Final

from presence_core.drive_generators import drive, drive_async
from presence_core.end_watch.watched_sessions import OnEnd, Watch, WatchedSessions
from presence_core.fork_safety import renew_in_child
from presence_core.logs import OutageLog
from presence_core.operations import layout
from presence_core.operations.context import Context
from presence_core.scripts.calls import Op
from presence_core.transport import AsyncTransport, SyncTransport

INTERVAL: Final = 0.1
"""Seconds between two reads of the events."""

RETRY_INTERVAL: Final = 0.5
"""Seconds between two tries while Redis is away."""

log = logging.getLogger(__name__)


def _outage_log() -> OutageLog:
    return OutageLog(log, "end_watch", "ended sessions cannot be found, open connections stay open: %(error)s",
                     "ended sessions are found again after %(seconds).1f s")  # fmt: skip


class EndWatchThread:
    """For a Presence: a daemon thread that runs while a session is watched. ``on_end`` is called in that thread."""

    def __init__(self, ctx: Context, transport: SyncTransport) -> None:
        self._ctx = ctx
        self._transport = transport
        self._watched = WatchedSessions(ctx, time.monotonic)
        self._outages = _outage_log()
        self._reset()
        renew_in_child(self, EndWatchThread._reset)

    def _reset(self) -> None:
        """A forked child has none of the parent's threads."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, uid: str, session_id: str, on_end: OnEnd) -> Watch:
        """Call ``on_end`` once the session has ended, also if it is so already."""
        watch = self._watched.add((uid, session_id), on_end)
        with self._lock:
            if self._thread is None:
                self._wake.clear()
                self._thread = threading.Thread(target=self._run, name="presence-ends", daemon=True)
                self._thread.start()
        return watch

    def remove(self, watch: Watch) -> None:
        """Wait no longer. ``on_end`` may still be called if it was about to be."""
        self._watched.remove(watch)
        if not self._watched:
            self._wake.set()

    def stop(self) -> None:
        """Watch nothing any more, and end the thread."""
        self._watched.close()
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    def _has_ended(self) -> bool:
        """Whether nothing is watched. Then the thread ends, and the next ``add`` starts another one."""
        with self._lock:
            if self._watched:
                return False
            self._thread = None
            return True

    def _run(self) -> None:
        self._watched.restart()
        while not self._has_ended():
            try:
                has_more = drive(self._watched.step(), self._carry_out)
            except Exception as error:  # any error: connections must not stay open because of it
                self._outages.failed(error)
                self._watched.restart()
                self._wake.wait(RETRY_INTERVAL)
                self._wake.clear()
                continue
            self._outages.worked()
            if not has_more and self._wake.wait(INTERVAL):
                self._wake.clear()

    def _carry_out(self, operation: Op[Any]) -> Any:
        return self._transport.run(layout.with_layout(self._ctx, operation))


class _LoopWatch:
    """What an event loop watches."""

    def __init__(self, ctx: Context, transport: AsyncTransport, outages: OutageLog) -> None:
        self._ctx = ctx
        self._transport = transport
        self._outages = outages
        self.watched = WatchedSessions(ctx, time.monotonic)
        self._task: asyncio.Task[None] | None = None

    def add(self, uid: str, session_id: str, on_end: OnEnd) -> Watch:
        watch = self.watched.add((uid, session_id), on_end)
        if self._task is None or self._task.done():
            self.watched.restart()
            self._task = asyncio.create_task(self._run(), context=Variables())  # not in the trace of a request
        return watch

    def remove(self, watch: Watch) -> None:
        self.watched.remove(watch)
        if not self.watched:
            self._cancel()

    def stop(self) -> asyncio.Task[None] | None:
        """Returns the task, which ends now."""
        self.watched.close()
        return self._cancel()

    def _cancel(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        return task

    async def _run(self) -> None:
        me = asyncio.current_task()  # a cancel may get lost in the driver (CPython 3.11, wait_for)
        while self._task is me and self.watched:
            try:
                has_more = await drive_async(self.watched.step(), self._carry_out)
            except Exception as error:  # any error: connections must not stay open because of it
                self._outages.failed(error)
                self.watched.restart()
                await asyncio.sleep(RETRY_INTERVAL)
                continue
            self._outages.worked()
            await asyncio.sleep(0 if has_more else INTERVAL)

    async def _carry_out(self, operation: Op[Any]) -> Any:
        return await self._transport.run(layout.with_layout(self._ctx, operation))


class EndWatchTask:
    """For an AsyncPresence: a task in each event loop that watches a session. ``on_end`` is called in that loop."""

    def __init__(self, ctx: Context, transport: AsyncTransport) -> None:
        self._ctx = ctx
        self._transport = transport
        self._outages = _outage_log()
        self._reset()
        renew_in_child(self, EndWatchTask._reset)

    def _reset(self) -> None:
        """The event loops of the parent do not survive a fork."""
        self._loops: dict[asyncio.AbstractEventLoop, _LoopWatch] = {}

    def add(self, uid: str, session_id: str, on_end: OnEnd) -> Watch:
        """See EndWatchThread.add."""
        return self._here().add(uid, session_id, on_end)

    def remove(self, watch: Watch) -> None:
        """Wait no longer. Call it in the loop that ``add`` was called in."""
        self._here().remove(watch)

    async def stop(self) -> None:
        """Watch nothing any more, and end the tasks."""
        here = asyncio.get_running_loop()
        loops, self._loops = self._loops, {}
        for loop, watch in loops.items():
            if loop is here:
                task = watch.stop()
                if task is not None:
                    await asyncio.gather(task, return_exceptions=True)
            else:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(watch.stop)

    def _here(self) -> _LoopWatch:
        loop = asyncio.get_running_loop()
        watch = self._loops.get(loop)
        if watch is None:
            for known in [known for known in list(self._loops) if known.is_closed()]:
                self._loops.pop(known, None)
            watch = self._loops[loop] = _LoopWatch(self._ctx, self._transport, self._outages)
        return watch
