"""Close a visitor's open page when its session ends. One task reads the events for all pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Final

from presence_core import AsyncPresence, Event, InvalidArgument, PresenceError, Unavailable
from presence_core.logs import OutageLog
from presence_dashboard.demo import pages

SILENCE: Final = 10.0
"""Seconds after which a silent stream sends the browser a newer id to resume from."""

INTERVAL: Final = 0.05
"""Seconds between two reads of the events: one round trip each, for any number of pages."""

RETRY: Final = 1000
"""Milliseconds after which a disconnected browser comes back."""

_ENDS: Final = ("logout", "expired", "kicked", "replaced")

log = logging.getLogger(__name__)


class Push:
    """The open pages that wait for an end. One task reads the events while there are any."""

    def __init__(self, presence: AsyncPresence) -> None:
        self._presence = presence
        self._waiting: dict[tuple[str, str], set[asyncio.Queue[Event | None]]] = {}
        self._cursor: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._ending = False

    async def stream(self, uid: str, session_id: str, token: str, last_id: str | None) -> AsyncIterator[bytes]:
        """Server-sent events of one page: one ``ended`` event, with the content for the page.

        A browser that comes back with the id of its last event gets what happened since. The session is validated once
        more after the page begins to wait, so that no end is missed between the page and its stream.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=16)
        name = (uid, session_id)
        self._waiting.setdefault(name, set()).add(queue)
        try:
            await self._start()
            yield f"retry: {RETRY}\nid: {self._cursor}\n\n".encode()
            for missed in await self._missed(last_id, name):
                queue.put_nowait(missed)
            if not await self._presence.validate(token, touch=False):
                queue.put_nowait(None)
            while not self._ending:
                try:
                    async with asyncio.timeout(SILENCE):
                        event = await queue.get()
                except TimeoutError:
                    yield f"id: {self._cursor}\n\n".encode()
                    continue
                if not self._ending and (content := await self._ended_content(token)) is not None:
                    cursor = event.cursor if event is not None else self._cursor
                    yield f"id: {cursor}\nevent: ended\ndata: {json.dumps(content)}\n\n".encode()
                    return
        except Unavailable:
            return  # the browser comes back, with the last id
        finally:
            waiting = self._waiting[name]
            waiting.discard(queue)
            if not waiting:
                del self._waiting[name]

    async def _ended_content(self, token: str) -> dict[str, str] | None:
        """The content for a page whose session has ended; None if the session is live."""
        validation = await self._presence.validate(token, touch=False)
        if validation:
            return None
        return pages.ended_content(validation.ended)

    async def _missed(self, last_id: str | None, name: tuple[str, str]) -> list[Event]:
        if not last_id:
            return []
        try:
            events = await self._presence.events(after=last_id, limit=1000)
        except InvalidArgument:  # not one of our ids: validating the session is enough
            return []
        return [event for event in events if (event.uid, event.session_id) == name and event.kind in _ENDS][:1]

    async def _start(self) -> None:
        async with self._starting:
            if self._task is None or self._task.done():
                self._cursor = await self._presence.events_end()
                self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Read events until no page waits. A later page begins by validating its session."""
        outages = OutageLog(log, "events", "events cannot be read, trying again: %(error)s",
                            "events are read again after %(seconds).1f s")  # fmt: skip
        while self._waiting:
            try:
                batch = await self._presence.events(after=self._cursor, limit=1000)
            except InvalidArgument:  # the namespace was resharded
                self._cursor = await self._presence.events_end()
                self._wake_all()
            except PresenceError as error:
                outages.failed(error)
                await asyncio.sleep(0.5)
            else:
                outages.worked()
                for event in batch:
                    self._cursor = event.cursor
                    self._wake(event)
                if not batch:
                    await asyncio.sleep(INTERVAL)

    def _wake(self, event: Event) -> None:
        if event.kind == "gap":  # events were lost: all pages validate their session
            self._wake_all()
        elif event.kind in _ENDS:
            for queue in self._waiting.get((event.uid, event.session_id), ()):
                with contextlib.suppress(asyncio.QueueFull):
                    queue.put_nowait(event)

    def _wake_all(self) -> None:
        for queues in self._waiting.values():
            for queue in queues:
                with contextlib.suppress(asyncio.QueueFull):
                    queue.put_nowait(None)

    def end(self) -> None:
        """End all streams: the site shuts down. Browsers come back when it is up again."""
        self._ending = True
        self._wake_all()
