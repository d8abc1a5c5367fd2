"""One flow, two drivers: what here talks to a Presence is a generator that yields calls and is sent their answers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from presence_core.client import AsyncPresence, Presence

T = TypeVar("T")

Call = Callable[[Any], Any]
"""Something to do with a Presence; with an AsyncPresence the answer is awaited."""

Flow = Generator[Call, Any, T]


def drive(flow: Flow[T], presence: Presence) -> T:
    """To its end with a Presence."""
    try:
        call = next(flow)
        while True:
            try:
                answer = call(presence)
            except Exception as error:
                call = flow.throw(error)
            else:
                call = flow.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()


async def drive_async(flow: Flow[T], presence: AsyncPresence) -> T:
    """To its end with an AsyncPresence."""
    try:
        call = next(flow)
        while True:
            try:
                answer = await call(presence)
            except Exception as error:
                call = flow.throw(error)
            else:
                call = flow.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()  # a task that was cancelled half-way: the flow hears of it
