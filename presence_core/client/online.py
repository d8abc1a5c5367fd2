"""Who is online: one session, a user's, everybody's, the counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from presence_core.client.base import AsyncClient, Client
from presence_core.filters import SessionFilter
from presence_core.models import Counts, Page, Person, Plan, Session
from presence_core.operations import facets, listing, online, people, reading


class Online(Client):
    """Part of Presence."""

    def get(self, uid: str, session_id: str) -> Session | None:
        """One live session. Cost: O(1), one round trip."""
        return self._run(reading.get(self._ctx, uid, session_id))

    def sessions(self, uid: str) -> list[Session]:
        """A user's live sessions, newest login first. Cost: O(S), one round trip."""
        return self._run(reading.sessions(self._ctx, uid))

    def list_sessions(
        self, filter: SessionFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Session]:
        """A page of the live sessions that ``filter`` asks for (by default all), newest login first; limit is 1…1000.

        While others log in and out no session is shown twice, and none that lived throughout is missed. A cursor
        belongs to its filter. Without a filter a deep page costs what the first costs: O(P·log N + limit), mostly two
        round trips. With one, an index drives or the list is walked (``explain`` says which): one call looks at about
        20,000 entries of the list, so where matches are rare a page may be short or empty and still have a
        ``next_cursor``; ``progress`` says how far it looked. ``total`` is exact where ``total_is_exact``, else a guess.
        """
        return self._run(listing.list_sessions(self._ctx, filter, limit, cursor))

    def count_sessions(self, filter: SessionFilter | None = None) -> int:
        """How many live sessions match, exactly.

        Cost: O(log N) where an index or a counter knows; else it walks the list to its end, in steps of some ms.
        """
        return self._run(listing.count_sessions(self._ctx, filter))

    def explain(self, filter: SessionFilter | None = None) -> Plan:
        """How ``list_sessions`` will look for these: by which index, over how many entries, with which tests.

        Cost: O(P·log N), one or two round trips.
        """
        return self._run(listing.explain(self._ctx, filter))

    def facets(self, field: str) -> dict[str, int]:
        """Value → live sessions, the most frequent first. Exact as of the last sweep, unless a key was lost since the
        worker last looked.

        field: device, app, app_version, os, browser, or an attribute that ``Settings.facets`` names. Cost: O(values),
        one round trip.
        """
        return self._run(facets.facets(self._ctx, field))

    def people(self, text: str, *, limit: int = 20) -> list[Person]:
        """People whose uid, or a word of whose name or alias, starts with ``text``, online or gone not too long ago.

        text: 1-256 bytes, compared case- and accent-folded. limit: 1…100. The very uid first, then who is online, then
        the latest seen. Needs the indexes "uid", "name" and "alias"; without them only the very uid is found. Where
        more than some hundred entries start alike, some of those people. Cost: O(P·log N + limit), limit round trips.
        """
        return self._run(people.people(self._ctx, text, limit))

    def iter_sessions(self, filter: SessionFilter | None = None, *, page_size: int = 500) -> Iterator[Session]:
        """Every live session, or every one that matches, newest login first, page by page.

        page_size is 1…1000. What ``list_sessions`` says of its pages holds for all of them. Cost: that of each page.
        """
        cursor = None
        while True:
            page = self.list_sessions(filter, limit=page_size, cursor=cursor)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    def counts(self) -> Counts:
        """How many users and sessions are online, and totals by reason. Cost: O(P·log N), one round trip."""
        return self._run(reading.counts(self._ctx))

    def is_online(self, uid: str) -> bool:
        """Whether this user has a live session, exactly. Cost: O(S), one round trip."""
        return self._run(reading.is_online(self._ctx, uid))

    def online_among(self, uids: Iterable[str]) -> set[str]:
        """Those of these users, at most 10,000, who have a live session: the friends of somebody, say.

        Right though no sweep has come by, past deadlines and after a sign-everybody-out. Only a user all of whose
        records Redis has dropped counts as online until their deadline or ``repair``. Cost: O(uids), and as long as
        sessions wait for a sweep, at most O(S) for each user; one round trip, to all shards at once.
        """
        return self._run(online.online_among(self._ctx, uids))

    def live_among(self, refs: Iterable[str]) -> set[str]:
        """Those of these sessions (``uid:session_id``), at most 1,000, that are live: which rows of a list have ended
        since it was read. Writes nothing. Cost: O(refs), one round trip, to all shards at once.
        """
        return self._run(online.live_among(self._ctx, refs))

    def online_users(self, within: int = 900) -> list[str]:
        """Everybody online who was seen within so many seconds (1…10 years), on whatever device, the latest first.

        As right as ``online_among``, page by page: who comes, goes or is seen while it reads may or may not be there,
        who is online and of the period throughout is there once. Cost: O(users of the period), a round trip for 1,000
        on each shard; for a number there is ``count_users``, for pages ``list_sessions``.
        """
        return self._run(online.online_users(self._ctx, within))

    def count_users(self, within: int = 600) -> int:
        """How many users are online who were seen within so many seconds (1…10 years).

        Exact where at most a thousand sessions of a shard wait for a sweep; else as of the last sweep. Cost:
        O(P·(log N + waiting)), one round trip.
        """
        return self._run(online.count_users(self._ctx, within))


class AsyncOnline(AsyncClient):
    """Part of AsyncPresence."""

    async def get(self, uid: str, session_id: str) -> Session | None:
        """See Presence.get."""
        return await self._run(reading.get(self._ctx, uid, session_id))

    async def sessions(self, uid: str) -> list[Session]:
        """See Presence.sessions."""
        return await self._run(reading.sessions(self._ctx, uid))

    async def list_sessions(
        self, filter: SessionFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Session]:
        """See Presence.list_sessions."""
        return await self._run(listing.list_sessions(self._ctx, filter, limit, cursor))

    async def count_sessions(self, filter: SessionFilter | None = None) -> int:
        """See Presence.count_sessions."""
        return await self._run(listing.count_sessions(self._ctx, filter))

    async def explain(self, filter: SessionFilter | None = None) -> Plan:
        """See Presence.explain."""
        return await self._run(listing.explain(self._ctx, filter))

    async def facets(self, field: str) -> dict[str, int]:
        """See Presence.facets."""
        return await self._run(facets.facets(self._ctx, field))

    async def people(self, text: str, *, limit: int = 20) -> list[Person]:
        """See Presence.people."""
        return await self._run(people.people(self._ctx, text, limit))

    async def iter_sessions(
        self, filter: SessionFilter | None = None, *, page_size: int = 500
    ) -> AsyncIterator[Session]:
        """See Presence.iter_sessions."""
        cursor = None
        while True:
            page = await self.list_sessions(filter, limit=page_size, cursor=cursor)
            for session in page.items:
                yield session
            cursor = page.next_cursor
            if cursor is None:
                return

    async def counts(self) -> Counts:
        """See Presence.counts."""
        return await self._run(reading.counts(self._ctx))

    async def is_online(self, uid: str) -> bool:
        """See Presence.is_online."""
        return await self._run(reading.is_online(self._ctx, uid))

    async def online_among(self, uids: Iterable[str]) -> set[str]:
        """See Presence.online_among."""
        return await self._run(online.online_among(self._ctx, uids))

    async def live_among(self, refs: Iterable[str]) -> set[str]:
        """See Presence.live_among."""
        return await self._run(online.live_among(self._ctx, refs))

    async def online_users(self, within: int = 900) -> list[str]:
        """See Presence.online_users."""
        return await self._run(online.online_users(self._ctx, within))

    async def count_users(self, within: int = 600) -> int:
        """See Presence.count_users."""
        return await self._run(online.count_users(self._ctx, within))
