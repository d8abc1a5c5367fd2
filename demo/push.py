"""A visitor's open page learns at once that its session is over: one look at the events for all pages together."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Final

from demo import pages
from presence_core import AsyncPresence, Event, InvalidArgument, PresenceError, Unavailable

QUIET: Final = 10.0
"""Seconds after which a stream with nothing to tell says so, and gives the browser a newer place to resume from."""

LOOK_EVERY: Final = 0.05
"""Seconds between two looks at the events, one round trip each, however many pages are open."""

RETRY: Final = 1000
"""Milliseconds after which a browser whose connection dropped comes back."""

_ENDS: Final = ("logout", "expired", "kicked", "replaced")

log = logging.getLogger("demo")


class Push:
    """Who waits for what. One task reads the events while anybody waits; it goes on from where it was."""

    def __init__(self, presence: AsyncPresence) -> None:
        self._presence = presence
        self._waiting: dict[tuple[str, str], set[asyncio.Queue[Event | None]]] = {}
        self._cursor: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._ending = False

    async def stream(self, uid: str, session_id: str, token: str, last_id: str | None) -> AsyncIterator[bytes]:
        """Server-sent events of one page: ``ended`` with what the page is to show, and nothing else.

        Whoever comes back with the id of the last event seen is told what has happened since; and the session is looked
        at once more after the page waits, so that no end falls between the page and its stream.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=16)
        name = (uid, session_id)
        self._waiting.setdefault(name, set()).add(queue)
        try:
            await self._start()
            yield f"retry: {RETRY}\nid: {self._cursor}\n\n".encode()
            for event in await self._missed(last_id, name):
                queue.put_nowait(event)
            if not await self._presence.validate(token, touch=False):
                queue.put_nowait(None)
            while not self._ending:
                try:
                    async with asyncio.timeout(QUIET):
                        news = await queue.get()
                except TimeoutError:
                    yield f"id: {self._cursor}\n\n".encode()
                    continue
                if not self._ending and (body := await self._told(token)) is not None:
                    cursor = news.cursor if news is not None else self._cursor
                    yield f"id: {cursor}\nevent: ended\ndata: {json.dumps(body)}\n\n".encode()
                    return
        except Unavailable:
            return  # the browser comes back, with the last id
        finally:
            waiting = self._waiting[name]
            waiting.discard(queue)
            if not waiting:
                del self._waiting[name]

    async def _told(self, token: str) -> dict[str, str] | None:
        """What the page is to show; None when the session is live."""
        validation = await self._presence.validate(token, touch=False)
        if validation:
            return None
        return pages.told(validation.ended)

    async def _missed(self, last_id: str | None, name: tuple[str, str]) -> list[Event]:
        if not last_id:
            return []
        try:
            events = await self._presence.events(after=last_id, limit=1000)
        except InvalidArgument:  # not an id of ours: the look at the session says what matters
            return []
        return [one for one in events if (one.uid, one.session_id) == name and one.kind in _ENDS][:1]

    async def _start(self) -> None:
        async with self._starting:
            if self._task is None or self._task.done():
                self._cursor = await self._presence.events_end()
                self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Until nobody waits any more: who comes later begins with a look at the session."""
        while self._waiting:
            try:
                batch = await self._presence.events(after=self._cursor, limit=1000)
            except InvalidArgument:  # Redis was laid out anew under us
                self._cursor = await self._presence.events_end()
                self._tell_all()
            except PresenceError as error:
                log.warning("the events wait: %s", error)
                await asyncio.sleep(0.5)
            else:
                for event in batch:
                    self._cursor = event.cursor
                    self._tell(event)
                if not batch:
                    await asyncio.sleep(LOOK_EVERY)

    def _tell(self, event: Event) -> None:
        if event.kind == "gap":  # who knows what was in it: everybody looks
            self._tell_all()
        elif event.kind in _ENDS:
            for queue in self._waiting.get((event.uid, event.session_id), ()):
                with contextlib.suppress(asyncio.QueueFull):
                    queue.put_nowait(event)

    def _tell_all(self) -> None:
        for queues in self._waiting.values():
            for queue in queues:
                with contextlib.suppress(asyncio.QueueFull):
                    queue.put_nowait(None)

    def end(self) -> None:
        """The site goes down: every stream ends, and the browsers come back when it is up again."""
        self._ending = True
        self._tell_all()
