"""Event streams of applications that return their parts, with WSGI and in Django: each ends with its session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, TypeVar

from presence_core.client import Presence
from presence_core.models import Session
from presence_core.web.middleware.open_connections import watch

T = TypeVar("T")


class PartsUntilEnd(Iterable[T]):
    """The parts of a response. Once the session has ended there are no more: the next part is not sent.

    The application makes each part in the server's thread, so it is not interrupted while it waits for one.
    """

    def __init__(self, parts: Iterable[T], presence: Presence, session: Session) -> None:
        self._parts = parts
        self._ends = presence.internal.ends
        self._ended: list[Any] = []
        self._watch = self._ends.add(session.uid, session.session_id, self._note)

    def _note(self, failed: object) -> None:
        if failed is not None:  # else nothing is known any more, because the client closes
            self._ended.append(failed)

    def __iter__(self) -> Iterator[T]:
        for part in self._parts:
            if self._ended:
                return
            yield part

    def close(self) -> None:
        """The response is at its end, or the client has gone."""
        self._ends.remove(self._watch)
        getattr(self._parts, "close", lambda: None)()


async def parts_until_end(parts: AsyncIterable[T], presence: Presence, session: Session) -> AsyncIterator[T]:
    """The parts of a response, until the session has ended. Then the application is cancelled where it waits."""
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def note(failed: object) -> None:
        if failed is not None and not ended.done():
            ended.set_result(failed)

    unwatch, iterator, part = watch(presence, session, note), aiter(parts), None
    try:
        while True:
            part = asyncio.ensure_future(anext(iterator))
            await asyncio.wait({part, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return
            try:
                got = part.result()
            except StopAsyncIteration:
                return
            yield got
    finally:
        unwatch()
        if part is not None and not part.done():
            part.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await part
        if hasattr(iterator, "aclose"):
            await iterator.aclose()
