"""Find and count the sessions and users that are online."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.filters import SessionFilter
from presence_core.models import Counts, ListOrder, Page, Person, Plan, Session
from presence_core.operations.search import facets, list_sessions, live_counts, online_users, people, similar
from presence_core.operations.sessions import read


class SearchMethods(Client):
    def list_sessions(
        self,
        filter: SessionFilter | None = None,
        *,
        order: ListOrder = "login",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Session]:
        """A page of the live sessions that match ``filter`` (by default all); limit is 1…1000.

        order: "login", newest login first, or "last_seen", last seen first; ties by uid, then session id. A cursor
        belongs to its filter and order.

        By login: while others log in and out, no session is on two pages, and none that lives all the time is missed.
        By last seen: sessions move to the front while you turn pages. A session whose user is not seen meanwhile is on
        exactly one page. One that is seen again may be on two; and so may other sessions of the same user be missed.

        Without a filter, every page by login costs the same: O(P·log N + limit), usually one round trip with one shard
        and a limit of up to 100, otherwise two. By last seen the first pages cost about that, too. Of the later
        ones, some also cost O(users who were seen after the cursor's time), about 10 ms of the server for 1,000, in
        steps of about 5 ms: ``iter_sessions`` reads the whole list without that.

        With a filter, an index is read or the list is scanned; ``explain`` says which. One call reads about 20,000
        entries of the list. So, if few sessions match, a page may be short or empty and still have a ``next_cursor``;
        ``progress`` says how much of the list was read. ``total`` is exact if ``total_is_exact``, else an estimate.
        """
        return self._run(list_sessions.list_sessions(self._ctx, filter, limit, cursor, order))

    def iter_sessions(
        self, filter: SessionFilter | None = None, *, order: ListOrder = "login", page_size: int = 500
    ) -> Iterator[Session]:
        """Every live session that matches ``filter`` (by default all), in this order, read page by page.

        page_size: 1…1000. The guarantees of ``list_sessions`` hold across all pages. Cost: that of each page; by last
        seen O(N) in all, and memory for the sessions that were not seen as late as their user.
        """
        if list_sessions.is_by_last_seen(order):
            pages = list_sessions.LastSeenPages(self._ctx, filter, page_size)
            while pages.has_more:
                yield from self._run(pages.next())
            return
        cursor = None
        while True:
            page = self.list_sessions(filter, limit=page_size, cursor=cursor)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    def count_sessions(self, filter: SessionFilter | None = None) -> int:
        """How many live sessions match, exactly.

        Cost: O(log N) if an index or a counter has the number; else the whole list is scanned, in steps of some ms.
        """
        return self._run(list_sessions.count_sessions(self._ctx, filter))

    def explain(self, filter: SessionFilter | None = None, *, order: ListOrder = "login") -> Plan:
        """How ``list_sessions`` answers this filter: the index, how many entries it reads, and the fields it tests.

        Cost: O(P·log N), one or two round trips.
        """
        return self._run(list_sessions.explain(self._ctx, filter, order))

    def facets(self, field: str) -> dict[str, int]:
        """Live sessions per value of a field, the most frequent value first.

        field: device, app, app_version, os, browser, country, network, or an attribute in ``Settings.facets``. Exact,
        unless a key was lost since the worker's last check, or more than 10,000 sessions of a shard wait for a sweep:
        those beyond are an estimate. Cost: O(values + waiting), one round trip for 500 that wait, at most 20.
        """
        return self._run(facets.facets(self._ctx, field))

    def people(self, text: str, *, limit: int = 20) -> list[Person]:
        """People, online or offline for at most ``Settings.keep_people``, whose uid, name or alias matches.

        text: 1-256 bytes, as ``SessionFilter.text``, without IP addresses and session ids: the start of the uid, of a
        part of the name or of an alias, the words of a name in any order. limit: 1…100. The exact uid comes first, then
        people who are online, then the last seen. A user whose sessions are all past their deadline is offline,
        also before a sweep ends them. Needs the indexes "uid", "name" and "alias"; without them only the
        exact uid is found. While ``reindex`` has to complete them, people are scanned until ``limit`` match, those
        online first; the order holds among these. If several hundred entries share this prefix, the result is
        incomplete. Cost: O(P·log N + limit), limit round trips; with several words also O(entries that begin with one
        of them).
        """
        return self._run(people.people(self._ctx, text, limit))

    def did_you_mean(self, text: str, *, limit: int = 3) -> list[str]:
        """Names, aliases or user ids, online or seen recently, that ``text`` may have been meant to be.

        text: 1-256 bytes, as for ``people``; limit: 1…10. Each word of three letters or more may have one mistake, two
        in all: a letter is wrong, missing or additional, or two next to each other are swapped. Of several words, those
        of a name are given in the order of the text. Words with digits are taken as they are, and a text of more than
        five words has no answer. Those with fewer mistakes come first, then those of people who are online; every
        answer finds its person by ``people`` and ``SessionFilter.text``. Empty also if the indexes "uid", "name" and
        "alias" lack the person.

        Cost: at most six calls to each shard, at once, of at most 2,000 reads of the index or about 5 ms each; then
        one round trip for up to 100 users and three for each of 10 people. Among very many names it may miss some.
        """
        return self._run(similar.did_you_mean(self._ctx, text, limit))

    def names_of(self, uids: Iterable[str]) -> dict[str, str]:
        """Names by uid, for at most 1,000 users. Users without a name are left out.

        The name is that of the newest session; of a user who is offline, the last name, for ``Settings.keep_people``
        and at most a day more. An erased person has none. A session past its deadline still counts until a sweep ends
        it. Needs no index. Cost: O(sessions of these users, 20 each at most), three round trips, to all shards at once.
        """
        return self._run(people.names_of(self._ctx, uids))

    def counts(self) -> Counts:
        """How many users and sessions are online, and totals by reason. Sessions that wait for a sweep are not online.

        If more than 20,000 of a shard wait, ``users`` is an estimate. Cost: O(P·log N + waiting), one round trip for
        1,000 of a shard that wait, at most 20.
        """
        return self._run(live_counts.counts(self._ctx))

    def is_online(self, uid: str, *, count_on_behalf: bool = False) -> bool:
        """Whether this user has a live session of their own, exactly. Cost: O(S), one round trip.

        count_on_behalf: a session of staff on behalf of the user counts, too.
        """
        return self._run(read.is_online(self._ctx, uid, count_on_behalf))

    def online_among(self, uids: Iterable[str]) -> set[str]:
        """Those of these users, at most 10,000, who have a live session: for example a user's friends.

        Exact without a sweep: expired and revoked sessions are excluded. One exception: if Redis lost all records of a
        user, the user counts as online until the deadline or ``repair``. Cost: O(uids), and for sessions that wait for
        a sweep at most O(S) a user; one round trip, to all shards at once.
        """
        return self._run(online_users.online_among(self._ctx, uids))

    def online_users(self, within: int = 900) -> list[str]:
        """Online users who were seen within so many seconds (1…10 years), on any device, last seen first.

        As exact as ``online_among``. It reads in pages. A user who is online and within the period all the time is
        listed once; users who come, go or are seen while it reads may be missing. Cost: O(users in the period), a round
        trip for 1,000 users of each shard. ``count_users`` gives the number alone, ``list_sessions`` gives pages.
        """
        return self._run(online_users.online_users(self._ctx, within))

    def count_users(self, within: int = 600) -> int:
        """How many online users were seen within so many seconds (1…10 years).

        Sessions that wait for a sweep are not online. Cost: that of ``counts``.
        """
        return self._run(online_users.count_users(self._ctx, within))


class AsyncSearchMethods(AsyncClient):
    list_sessions = awaited(SearchMethods.list_sessions)

    async def iter_sessions(
        self, filter: SessionFilter | None = None, *, order: ListOrder = "login", page_size: int = 500
    ) -> AsyncIterator[Session]:
        if list_sessions.is_by_last_seen(order):
            pages = list_sessions.LastSeenPages(self._ctx, filter, page_size)
            while pages.has_more:
                for session in await self._run(pages.next()):
                    yield session
            return
        cursor = None
        while True:
            page = await self.list_sessions(filter, limit=page_size, cursor=cursor)
            for session in page.items:
                yield session
            cursor = page.next_cursor
            if cursor is None:
                return

    count_sessions = awaited(SearchMethods.count_sessions)
    explain = awaited(SearchMethods.explain)
    facets = awaited(SearchMethods.facets)
    people = awaited(SearchMethods.people)
    did_you_mean = awaited(SearchMethods.did_you_mean)
    names_of = awaited(SearchMethods.names_of)
    counts = awaited(SearchMethods.counts)
    is_online = awaited(SearchMethods.is_online)
    online_among = awaited(SearchMethods.online_among)
    online_users = awaited(SearchMethods.online_users)
    count_users = awaited(SearchMethods.count_users)
