"""Run one generator for both clients: it decides; ``drive`` carries its steps out, ``drive_async`` awaits them.

So each decision is written once. The transports carry out the steps of an exchange in this way, and the middleware and
the RevocationCache make calls of a client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")

ClientCall = Callable[[Any], Any]
"""A call of a method of a client, such as ``lambda presence: presence.counts()``."""

ClientCalls = Generator[ClientCall, Any, T]
"""A generator of such calls, which returns a T."""


def drive(steps: Generator[S, Any, T], act: Callable[[S], Any]) -> T:
    """The generator's result. It receives what ``act`` returns for each thing that it yields, or the exception."""
    try:
        step = next(steps)
        while True:
            try:
                done = act(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(done)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()


async def drive_async(steps: Generator[S, Any, T], act: Callable[[S], Awaitable[Any]]) -> T:
    try:
        step = next(steps)
        while True:
            try:
                done = await act(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(done)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()  # when the task is cancelled, the generator receives GeneratorExit
