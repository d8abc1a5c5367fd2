"""A call of AsyncPresence without ``await`` lets no one in, and stays a coroutine for everything that takes one."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from collections.abc import Coroutine
from typing import Any

import pytest

from presence_core import AsyncPresence, InvalidArgument, Settings
from tests.conftest import Bed, on
from tests.support.facade import P


def test_the_truth_of_a_call_that_was_not_awaited_is_an_error() -> None:
    presence = AsyncPresence.from_url("redis://127.0.0.1:1")
    for name, arguments in (("validate", ("x",)), ("is_online", ("ada",)), ("counts", ()), ("held", ())):
        call = getattr(presence, name)(*arguments)
        with pytest.raises(TypeError, match=rf"^\w+\.{name}\(\) was not awaited: write `await` before the call\.$"):
            assert call
        with pytest.raises(TypeError, match="was not awaited"):
            assert not getattr(presence, name)(*arguments)


def test_python_still_warns_of_a_call_that_was_never_awaited() -> None:
    presence = AsyncPresence.from_url("redis://127.0.0.1:1")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        presence.validate("x")  # type: ignore[unused-coroutine]
        gc.collect()
    assert [str(warning.message) for warning in found] == ["coroutine 'SessionsMethods.validate' was never awaited"]


def test_debuggers_see_a_coroutine() -> None:
    call = AsyncPresence.from_url("redis://127.0.0.1:1").validate("x")
    assert isinstance(call, Coroutine)
    assert asyncio.iscoroutine(call)
    assert inspect.isawaitable(call)
    assert inspect.getcoroutinestate(call) == inspect.CORO_CREATED
    assert call.__qualname__ == "SessionsMethods.validate"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        call.nothing  # type: ignore[attr-defined]  # noqa: B018
    call.close()
    assert asyncio.iscoroutinefunction(AsyncPresence.validate)


@on("valkey-async")
def test_all_that_takes_a_coroutine_takes_a_call(bed: Bed) -> None:
    async def main() -> list[bool]:
        async with AsyncPresence.from_url(bed.url, Settings(namespace=bed.namespace)) as presence:
            token = (await presence.login("ada")).token
            found: list[Any] = [await presence.validate(token)]
            found += await asyncio.gather(presence.validate(token), presence.validate(token))
            found.append(await asyncio.wait_for(presence.validate(token), 30))
            found.append(await asyncio.create_task(presence.validate(token)))
            found.append(await asyncio.ensure_future(presence.validate(token)))
            async with asyncio.TaskGroup() as group:
                task = group.create_task(presence.validate(token))
            found.append(task.result())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(presence.validate(token), 0)
            cancelled = asyncio.create_task(presence.validate(token))
            assert repr(cancelled)  # as in asyncio.run, from Python 3.12 on
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            with pytest.raises(InvalidArgument):
                await presence.login("")
        return [bool(answer) for answer in found]

    assert asyncio.run(main()) == [True] * 7
    other = AsyncPresence.from_url(bed.url, Settings(namespace=bed.namespace))
    assert asyncio.run(other.is_online("ada")) is True


@on("valkey")
def test_a_token_in_bytes_is_refused_in_a_sentence(p: P) -> None:
    token = p.login("ada").token
    for method in (p.validate, p.rotate, p.reauthenticated):
        with pytest.raises(InvalidArgument, match=r"^token must be text, not bytes: decode it\.$"):
            method(token.encode())  # type: ignore[arg-type]
    assert p.validate(token)
