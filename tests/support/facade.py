"""One interface for Presence and AsyncPresence, so that one test body serves both; and a clock that tests set."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from presence_core import AsyncPresence, Presence
from presence_core.operations.context import Context

T = TypeVar("T")

AWAIT_SECONDS = 60


class EventLoop:
    """A private event loop in a thread of its own. Any thread may run coroutines on it, many at a time."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="tests-asyncio", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(AWAIT_SECONDS)

    def call(self, function: Callable[[], T]) -> T:
        async def on_the_loop() -> T:
            return function()

        return self.run(on_the_loop())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Clock:
    """The time that scripts see instead of the server's. Every client of a test shares one."""

    def __init__(self, server_ms: Callable[[], int]) -> None:
        self._server_ms = server_ms
        self.ms = server_ms()
        self._contexts: list[Context] = []
        self._frozen = False

    def adopt(self, context: Context) -> None:
        self._contexts.append(context)
        if self._frozen:
            context.now = str(self.ms)

    def set(self, ms: int) -> None:
        self.ms = ms
        self._frozen = True
        for context in self._contexts:
            context.now = str(ms)

    def stop(self) -> None:
        """Set the clock to the server's own, which ran until now: no call was later than that."""
        if not self._frozen:
            self.set(max(self.ms, self._server_ms()))

    def run_freely(self) -> None:
        """Back to the server's own clock."""
        self._frozen = False
        for context in self._contexts:
            context.now = ""

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.ms / 1000, UTC)


class P(Presence):
    """Presence with a clock that tests move. For an async backend, mypy sees this class in place of _Bridge."""

    clock: Clock

    @property
    def context(self) -> Context:
        return self.internal.context

    def freeze(self) -> int:
        """Stop the clock; returns the time, ms."""
        self.clock.stop()
        return self.clock.ms

    def set_now(self, ms: int) -> None:
        self.clock.set(ms)

    def advance(self, seconds: float) -> None:
        self.clock.stop()
        self.clock.set(self.clock.ms + round(seconds * 1000))


class _BridgeInternal:
    """AsyncPresence.internal with the methods of Presence.internal."""

    def __init__(self, target: AsyncPresence, loop: EventLoop) -> None:
        self._target = target
        self._loop = loop
        self.context = target.internal.context

    def run(self, operation: Any) -> Any:
        return self._loop.run(self._target.internal.run(operation))


class _Bridge:
    """AsyncPresence with the methods of Presence: each call is awaited on the private loop.

    test_house.py checks that the methods and their signatures are the same, which makes the cast valid.
    """

    def __init__(self, target: AsyncPresence, loop: EventLoop, clock: Clock) -> None:
        self._target = target
        self._loop = loop
        self.clock = clock

    freeze, set_now, advance = P.freeze, P.set_now, P.advance

    @property
    def context(self) -> Context:
        return self._target.internal.context

    @property
    def internal(self) -> _BridgeInternal:
        return _BridgeInternal(self._target, self._loop)

    def iter_sessions(self, *args: Any, **options: Any) -> Iterator[Any]:
        return self._iterate(self._target.iter_sessions(*args, **options))

    def watch(self, **options: Any) -> Iterator[Any]:
        return self._iterate(self._target.watch(**options))

    def _iterate(self, source: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._loop.run(source.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run(source.aclose())

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not asyncio.iscoroutinefunction(value):
            return value

        def awaited(*args: Any, **kwargs: Any) -> Any:
            return self._loop.run(value(*args, **kwargs))

        return awaited


def sync_facade(presence: P, clock: Clock) -> P:
    presence.clock = clock
    clock.adopt(presence.internal.context)
    return presence


def async_facade(presence: AsyncPresence, loop: EventLoop, clock: Clock) -> P:
    clock.adopt(presence.internal.context)
    return cast(P, _Bridge(presence, loop, clock))
