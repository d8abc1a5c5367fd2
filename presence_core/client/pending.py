"""What the methods of AsyncPresence return: a coroutine that has no truth value.

``if presence.validate(token):`` without ``await`` would let everyone in, and no type checker says so.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Pending(Coroutine[Any, Any, T]):
    """The coroutine of a call. It works wherever a coroutine does: ``await``, ``asyncio.run``, ``create_task``,
    ``gather``, ``wait_for``, TaskGroup. Without ``await`` Python warns that it was never awaited."""

    __slots__ = ("__weakref__", "_steps")

    def __init__(self, steps: Coroutine[Any, Any, T]) -> None:
        self._steps = steps

    def __bool__(self) -> bool:
        """Raises TypeError: the call was not made yet."""
        if sys._getframe(1).f_globals.get("__name__") == "asyncio.base_tasks":
            return True  # the repr of a task, which `asyncio.run` of Python 3.12 reads
        self._steps.close()
        raise TypeError(f"{self.__qualname__}() was not awaited: write `await` before the call.")

    def __await__(self) -> Generator[Any, Any, T]:
        return self._steps.__await__()

    def send(self, value: Any) -> Any:
        """Go on, as a coroutine does."""
        return self._steps.send(value)

    def throw(self, kind: Any, value: Any = None, traceback: TracebackType | None = None) -> Any:
        """Raise an exception in it, as in a coroutine."""
        try:
            return self._steps.throw(kind if value is None else value)
        finally:
            del kind, value, traceback  # else the exception holds this frame, and the frame the exception

    def close(self) -> None:
        """End it, as a coroutine."""
        self._steps.close()

    def __getattr__(self, name: str) -> Any:
        """What debuggers ask of a coroutine: cr_frame, __qualname__ and their like."""
        if name.startswith("cr_") or name in ("__name__", "__qualname__"):
            return getattr(self._steps, name)
        raise AttributeError(name)


def pending(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let an ``async def`` return a Pending. It stays a coroutine function for those that look."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        return Pending(method(*args, **kwargs))

    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(call)
    call._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return call
