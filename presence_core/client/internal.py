"""The internal interface of a client: what our own worker, web service and commands need beyond its public methods.

``presence.internal`` is not part of the public API and may change without notice. It runs operations that have no
public method, and gives access to the state that operations share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from presence_core.client.replica_ack import ReplicaAckTask, ReplicaAckThread
from presence_core.end_watch import EndWatchTask, EndWatchThread
from presence_core.errors import Unavailable
from presence_core.operations import layout
from presence_core.operations.context import Context
from presence_core.scripts.calls import Op
from presence_core.transport import AsyncTransport, SyncTransport

T = TypeVar("T")

Observer = Callable[[Op[Any], float], None]
"""Called with each operation that has ended, and the seconds that it took."""

Around = Callable[[Op[Any]], AbstractContextManager[object]]
"""Makes a context around an operation, such as a span."""


def operation_name(operation: object) -> str:
    """The name of an operation for metrics and traces: that of its function."""
    return getattr(operation, "__qualname__", "unknown").partition(".")[0].lstrip("_")


class _Shared:
    """What both clients have."""

    def __init__(self, context: Context, redis_client: Any, transport: Any, replica_acks: Any, ends: Any) -> None:
        self.context = context  #: what operations take as their first argument
        self.redis_client = redis_client  #: a client of redis-py, for trackers on the same server
        self.observers: list[Observer] = []  #: to measure how long operations take
        self.around: Around | None = None  #: the spans of ``presence_core.otel``
        self.ends = ends
        self.is_closed = False
        self._transport = transport
        self._replica_acks = replica_acks

    def _check_open(self) -> None:
        if self.is_closed:
            raise Unavailable("This client is closed. Make a new one, or open it again with `with`.")


class Internal(_Shared):
    """``Presence.internal``. Safe to share between threads."""

    _transport: SyncTransport
    _replica_acks: ReplicaAckThread
    ends: EndWatchThread  #: calls back when a session has ended

    def run(self, operation: Op[T]) -> T:
        """Run an operation and return its result. Reads the layout first, if it is not known. Raises PresenceError."""
        self._check_open()
        begin = time.perf_counter()
        try:
            steps = layout.with_layout(self.context, operation)
            if self.around is None:
                return self._transport.run(steps)
            with self.around(operation):
                return self._transport.run(steps)
        finally:
            if self.context.held:
                self._replica_acks.start()
            for observer in self.observers:
                observer(operation, time.perf_counter() - begin)


class AsyncInternal(_Shared):
    """``AsyncPresence.internal``."""

    _transport: AsyncTransport
    _replica_acks: ReplicaAckTask
    ends: EndWatchTask  #: calls back when a session has ended

    async def run(self, operation: Op[T]) -> T:
        self._check_open()
        begin = time.perf_counter()
        try:
            steps = layout.with_layout(self.context, operation)
            if self.around is None:
                return await self._transport.run(steps)
            with self.around(operation):
                return await self._transport.run(steps)
        finally:
            if self.context.held:
                self._replica_acks.start()
            for observer in self.observers:
                observer(operation, time.perf_counter() - begin)
