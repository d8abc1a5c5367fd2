"""The events of sessions: read them in pages, or watch them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.models import Event
from presence_core.operations.sessions import events

WATCH_INTERVAL = 0.1
"""Seconds between two reads of the event streams while watching."""


class EventsMethods(Client):
    """Part of Presence."""

    def events(self, *, after: str | None = None, limit: int = 100) -> list[Event]:
        """Events after ``after`` (the cursor of an event), oldest first; by default from the oldest kept.

        limit: 1…1000. If events in between were dropped because of ``Settings.max_events``, a ``gap`` event comes
        first. Cost: O(P + limit), one round trip.
        """
        return self._run(events.events(self._ctx, after, limit))

    def events_end(self) -> str:
        """Cursor of the newest event: later events come after it. Cost: O(P), one round trip."""
        return self._run(events.latest(self._ctx))

    def watch(self, *, after: str | None = None) -> Iterator[Event]:
        """Events as they happen, without end, from now on or after ``after``. Each arrives once, in about 0.1 s.

        Raises Unavailable while Redis is unreachable: continue with the cursor of the last event, and none is missed.
        Cost: that of ``events``, ten times a second.
        """
        cursor = self.events_end() if after is None else after
        return self._watch(cursor)

    def _watch(self, cursor: str) -> Iterator[Event]:
        while True:
            batch = self.events(after=cursor, limit=1000)
            for event in batch:
                cursor = event.cursor
                yield event
            if not batch:
                time.sleep(WATCH_INTERVAL)


class AsyncEventsMethods(AsyncClient):
    """Part of AsyncPresence."""

    events = awaited(EventsMethods.events)
    events_end = awaited(EventsMethods.events_end)

    async def watch(self, *, after: str | None = None) -> AsyncIterator[Event]:
        """See Presence.watch: ``async for event in presence.watch()``. "Now" is when the loop begins."""
        cursor = await self.events_end() if after is None else after
        while True:
            batch = await self.events(after=cursor, limit=1000)
            for event in batch:
                cursor = event.cursor
                yield event
            if not batch:
                await asyncio.sleep(WATCH_INTERVAL)
