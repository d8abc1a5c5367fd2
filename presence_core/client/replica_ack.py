"""Waits for replica acknowledgements in the background, for as long as the client holds changes.

With ``Settings.confirm_replicas`` the client holds every end, block and revocation until enough replicas have it, so
that a failover cannot undo it (``operations`` has the rules). Each round looks at what is held, about once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time

from presence_core import validation as check
from presence_core.errors import PresenceError
from presence_core.fork_safety import renew_in_child
from presence_core.logs import fields
from presence_core.operations import layout
from presence_core.operations.context import Context
from presence_core.operations.durability import held_changes, replica_ack
from presence_core.transport import AsyncTransport, SyncTransport

log = logging.getLogger(__name__)

ROUND_SECONDS = 1.0
"""From one round to the next."""

MASTER_CHECK_SECONDS = 0.05
"""How often to check which master the Sentinels name, between two rounds. Needs no round trip."""


def seconds_to_wait(ctx: Context, wait: float | None) -> float:
    """How many seconds ``close`` waits at most. Raises InvalidArgument."""
    if wait is None:
        return 2.0 * ctx.settings.confirm_hold
    return check.duration("wait", wait, 0, 7200)


def give_up(ctx: Context, level: int) -> None:
    """Log what is still held, and hold it no longer."""
    if ctx.held:
        log.log(level, "%d changes were still held, %d of them not confirmed on a replica: a failover may undo them",
                len(ctx.held), held_changes.unconfirmed(ctx),
                extra=fields(event="held_given_up", count=len(ctx.held)))  # fmt: skip
        ctx.held.clear()


def _log_unconfirmed(ctx: Context, rounds: int) -> None:
    """Warn after the second round, and then every ten minutes."""
    if rounds % 600 == 1:
        unconfirmed = held_changes.unconfirmed(ctx)
        if unconfirmed:
            extra = fields(event="held_unconfirmed", count=unconfirmed)
            log.warning("%d kicks, blocks or revocations wait for a replica to confirm them", unconfirmed, extra=extra)
    if ctx.not_held:
        log.warning("%d ends are not held, a failover may undo them: %d are held", ctx.not_held, len(ctx.held),
                    extra=fields(event="not_held", count=ctx.not_held))  # fmt: skip
        ctx.not_held = 0


class ReplicaAckThread:
    """A daemon thread that runs while something is held."""

    def __init__(self, ctx: Context, transport: SyncTransport) -> None:
        self._ctx = ctx
        self._transport = transport
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        renew_in_child(self, ReplicaAckThread._renew)

    def _renew(self) -> None:
        """In a forked child: it has no thread yet, the Event's lock may be held, and the parent keeps what it holds."""
        was_stopped, self._stopped, self._thread = self._stopped.is_set(), threading.Event(), None
        if was_stopped:
            self._stopped.set()
        self._ctx.held.clear()

    def start(self) -> None:
        """Start the thread unless it runs or the client is closed."""
        if not self._stopped.is_set() and (self._thread is None or not self._thread.is_alive()):
            thread = threading.Thread(target=self._run, name="presence-replica-acks", daemon=True)
            with contextlib.suppress(RuntimeError):  # no thread can be started now: the next call tries again
                thread.start()
                self._thread = thread

    def stop(self, until: float) -> None:
        """Wait until nothing is held, at most until this time (monotonic); then end the thread."""
        if threading.current_thread() is self._thread:
            return
        while self._ctx.held and not self._stopped.is_set() and (left := until - time.monotonic()) > 0:
            self.start()
            thread = self._thread
            if thread is not None and thread.is_alive():
                thread.join(left)
            else:  # it has just ended, or no thread can be started
                self._stopped.wait(min(MASTER_CHECK_SECONDS, left))
        self._stopped.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        rounds = 0
        while self._ctx.held and self._wait_for_round():
            try:
                self._transport.run(layout.with_layout(self._ctx, replica_ack.confirm(self._ctx)))
            except PresenceError:
                pass  # no server, or no new master yet: the next round tries again
            rounds += 1
            _log_unconfirmed(self._ctx, rounds)
        self._thread = None  # then look again: a call that held a change meanwhile has seen this thread run
        if self._ctx.held:
            self.start()

    def _wait_for_round(self) -> bool:
        """Wait until the next round is due: at once when Sentinels name another master. False after ``stop``."""
        master, end = self._transport.master, time.monotonic() + ROUND_SECONDS
        while (left := end - time.monotonic()) > 0 and self._transport.master == master:
            if self._stopped.wait(left if master is None else min(MASTER_CHECK_SECONDS, left)):
                return False
        return True


class ReplicaAckTask:
    """The same as a task of the running event loop."""

    def __init__(self, ctx: Context, transport: AsyncTransport) -> None:
        self._ctx = ctx
        self._transport = transport
        self._stopped = False
        self._task: asyncio.Task[None] | None = None
        renew_in_child(self, ReplicaAckTask._renew)

    def _renew(self) -> None:
        """In a forked child: it has an event loop of its own, and the parent keeps what it holds."""
        self._task = None
        self._ctx.held.clear()

    def start(self) -> None:
        """Start the task unless it runs or the client is closed."""
        if not self._stopped and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    async def stop(self, until: float) -> None:
        """See ReplicaAckThread.stop. The task also ends when the caller is cancelled."""
        try:
            while self._ctx.held and not self._stopped and (left := until - time.monotonic()) > 0:
                self.start()
                if self._task is not None:
                    await asyncio.wait({self._task}, timeout=left)
        finally:
            self._stopped = True
            if self._task is not None:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
                self._task = None

    async def _run(self) -> None:
        rounds = 0
        while self._ctx.held:
            await self._wait_for_round()
            try:
                await self._transport.run(layout.with_layout(self._ctx, replica_ack.confirm(self._ctx)))
            except PresenceError:
                pass  # no server, or no new master yet: the next round tries again
            rounds += 1
            _log_unconfirmed(self._ctx, rounds)

    async def _wait_for_round(self) -> None:
        """Wait until the next round is due: at once when Sentinels name another master."""
        master, end = self._transport.master, time.monotonic() + ROUND_SECONDS
        while (left := end - time.monotonic()) > 0 and self._transport.master == master:
            await asyncio.sleep(left if master is None else min(MASTER_CHECK_SECONDS, left))
