"""Who is online: one session, a user's, everybody's, the counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from presence_core.client.base import AsyncClient, Client
from presence_core.models import Counts, Page, Session
from presence_core.operations import listing, reading


class Online(Client):
    """Part of Presence."""

    def get(self, uid: str, session_id: str) -> Session | None:
        """One live session. Cost: O(1), one round trip."""
        return self._run(reading.get(self._ctx, uid, session_id))

    def sessions(self, uid: str) -> list[Session]:
        """A user's live sessions, newest login first. Cost: O(S), one round trip."""
        return self._run(reading.sessions(self._ctx, uid))

    def list_sessions(self, *, limit: int = 50, cursor: str | None = None) -> Page[Session]:
        """A page of everybody's live sessions, newest login first; ``limit`` is 1…1000.

        While others log in and out no session is shown twice, and none that lived throughout is missed. A deep page
        costs what the first costs: O(P·log N + limit), mostly one round trip.
        """
        return self._run(listing.list_sessions(self._ctx, limit, cursor))

    def iter_sessions(self, *, page_size: int = 500) -> Iterator[Session]:
        """Every live session, newest login first, page by page."""
        cursor = None
        while True:
            page = self.list_sessions(limit=page_size, cursor=cursor)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    def counts(self) -> Counts:
        """How many users and sessions are online, and totals by reason. Cost: O(P·log N), one round trip."""
        return self._run(reading.counts(self._ctx))


class AsyncOnline(AsyncClient):
    """Part of AsyncPresence."""

    async def get(self, uid: str, session_id: str) -> Session | None:
        """See Presence.get."""
        return await self._run(reading.get(self._ctx, uid, session_id))

    async def sessions(self, uid: str) -> list[Session]:
        """See Presence.sessions."""
        return await self._run(reading.sessions(self._ctx, uid))

    async def list_sessions(self, *, limit: int = 50, cursor: str | None = None) -> Page[Session]:
        """See Presence.list_sessions."""
        return await self._run(listing.list_sessions(self._ctx, limit, cursor))

    async def iter_sessions(self, *, page_size: int = 500) -> AsyncIterator[Session]:
        """See Presence.iter_sessions."""
        cursor = None
        while True:
            page = await self.list_sessions(limit=page_size, cursor=cursor)
            for session in page.items:
                yield session
            cursor = page.next_cursor
            if cursor is None:
                return

    async def counts(self) -> Counts:
        """See Presence.counts."""
        return await self._run(reading.counts(self._ctx))
