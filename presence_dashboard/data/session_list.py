"""The list of sessions in one browser tab: its query, page and rows. Kept in the session state.

Which rows are shown changes only on request, never by a tick, so that rows do not move under the pointer. A tick brings
the shown rows up to date: their times, and which have ended and why. Selected sessions are kept by ref while the reader
turns pages.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from hashlib import sha256
from typing import Final

import streamlit as st

from presence_core import (
    Block,
    Counts,
    Ended,
    InvalidArgument,
    ListOrder,
    Presence,
    PresenceError,
    Session,
    SessionFilter,
    Unavailable,
)
from presence_dashboard.data.paged_list import START, ListState, Position, read_at
from presence_dashboard.data.session_query import SessionQuery
from presence_dashboard.data.shared_reads import blocks_of, remarks_of
from presence_dashboard.data.store import KEEP, Reading, Store
from presence_dashboard.error_sentences import plain

PAGE_SIZES: Final = (25, 50, 100)

SCAN_SECONDS: Final = 2.0
"""Seconds for which one click searches for rare matches."""

MAX_SELECTED: Final = 200
"""Most sessions that can be selected, on all pages together. More are for a bulk kick."""

MAX_EXACT: Final = 10
"""Sessions of the user whose ID is the search text that are shown before all others."""

_KEY: Final = "session-list"


@dataclass(frozen=True, slots=True)
class Rows:
    sessions: tuple[Session, ...]
    next_cursor: str | None
    total: int
    as_of: datetime  #: by the Redis clock
    read: float  #: the same by the monotonic clock
    logins: int  #: total logins just before the read
    total_is_exact: bool = True
    scanned: int = 0  #: sessions searched for this page
    progress: float = 1.0  #: searched share of the list, 0…1
    blocks: dict[str, Block] = field(default_factory=dict)  #: blocks of these users
    remarks: dict[str, int] = field(default_factory=dict)  #: how many remarks staff have left on these users
    exact: frozenset[str] = frozenset()  #: refs that come first: the search text is their user ID, and others match

    @property
    def age(self) -> float:
        """Seconds since the read."""
        return time.monotonic() - self.read

    def without(self, refs: frozenset[str]) -> Rows:
        """The rows without sessions that stand elsewhere."""
        kept = tuple(session for session in self.sessions if session.ref not in refs or session.ref in self.exact)
        return replace(self, sessions=kept)


@dataclass(slots=True)
class SessionList(ListState):
    """The position of this tab in the list, and its rows. ``failure``: while Redis answers."""

    limit: int = 50
    rows: Rows | None = None
    problem: str | None = None  #: what is wrong with the query; the rows answer the previous query
    ended: dict[str, Ended | None] = field(default_factory=dict)  #: by ref, since the read; None: why is not known
    selected: dict[str, Session] = field(default_factory=dict)  #: by ref, on all pages
    ticks: int = 0  #: number of the browser's last change of ticks
    query: SessionQuery = field(default_factory=SessionQuery)  #: answered by the rows
    filter: SessionFilter | None = None  #: the same as a filter of page 1, to which the cursors belong
    is_emptied: bool = False  #: it had rows, and all of them have ended
    exact: frozenset[str] = frozenset()  #: refs that page 1 has put first
    _scanning_further: bool = False
    _checked: float = 0.0  #: last check for ended rows, by the monotonic clock

    @property
    def _rows(self) -> tuple[int, str | None]:
        return (0, None) if self.rows is None else (len(self.rows.sessions), self.rows.next_cursor)

    @property
    def key(self) -> str:
        """Names the rows on the screen."""
        filter_digest = self.filter.digest if self.filter else ""
        shown = repr((filter_digest, self.query.order, self.limit, self.positions[-1][0], self.generation))
        return sha256(shown.encode()).hexdigest()[:16]

    @property
    def is_short(self) -> bool:
        """Whether the page is not full although the list continues, because few sessions match."""
        return self.rows is not None and self.rows.next_cursor is not None and len(self.rows.sessions) < self.limit

    def scan_further(self) -> None:
        self._scanning_further = True

    def resize(self, limit: int) -> None:
        self.limit = limit
        self.newest()

    def clear(self) -> None:
        """Remove the rows, until the first page of the next query is read."""
        self.rows, self.failure, self.problem, self.ended, self.selected = None, None, None, {}, {}
        self.query, self.filter, self.positions = SessionQuery(), None, START
        self.newest()

    def load(self, store: Store, query: SessionQuery, zone: tzinfo) -> None:
        """Read the requested page. If that fails, the rows and the position stay."""
        query = self._accepted(query, zone)
        if self.problem is not None and self.rows is None:
            return  # no list is better than a list for another query
        if self.has_acted():
            self.refresh()
            self._checked = 0.0
            self.update(store)
        if query != self.query:
            self.newest()
            if replace(query, order=self.query.order) != self.query:
                self.selected = {}  # what a search no longer shows is not kicked by surprise
        if self._wanted is not None:
            self._read(store, query, zone)
        elif self._scanning_further:
            self._scan_further(store)
        self._scanning_further = False

    def _accepted(self, query: SessionQuery, zone: tzinfo) -> SessionQuery:
        """The query, or the previous query if this one is wrong."""
        try:
            query.filter(datetime.now(UTC), zone)
        except InvalidArgument as error:
            self.problem = plain(error)
            return self.query
        self.problem = None
        return query

    def _read(self, store: Store, query: SessionQuery, zone: tzinfo) -> None:
        wanted = self._wanted or START  # an interrupted run of this tab may still be reading
        reading = store.counts()
        if reading.failure is None:
            reading = store.counts(fresh=True)  # before the rows, so that a login in between counts as new
        if reading.value is None or reading.failure is not None:
            self._give_up()
            return
        # Page 1 uses the current time. Later pages use the filter of page 1, to which their cursors belong.
        matching = query.filter(reading.value.as_of, zone) if len(wanted) == 1 else self.filter
        try:
            rows, positions = _page(
                store.presence, matching, query.order, wanted, self.limit, reading.value.totals["login"]
            )
            is_first = len(positions) == 1
            rows = _exact_first(store.presence, matching, query, rows) if is_first else rows.without(self.exact)
        except PresenceError as error:
            self._failed(store, error)
        else:
            had_rows = query == self.query and self.rows is not None and (self.is_emptied or bool(self.rows.sessions))
            self.is_emptied = had_rows and not rows.sessions and rows.next_cursor is None
            if is_first:
                self.exact = rows.exact
            self.query, self.filter = query, matching
            self.rows, self.positions, self.failure, self._wanted = rows, positions, None, None
            self.selected = {ref: session for ref, session in self.selected.items() if ref not in self.ended}
            self.ended, self._checked = {}, rows.read
            self.generation += 1

    def _scan_further(self, store: Store) -> None:
        end = time.monotonic() + SCAN_SECONDS
        try:
            while self.is_short and time.monotonic() < end:
                assert self.rows is not None
                rows = _further(store.presence, self.filter, self.query.order, self.rows, self.limit)
                self.rows = rows.without(self.exact)
        except PresenceError as error:
            self._failed(store, error)
        self.generation += 1

    def _failed(self, store: Store, error: PresenceError) -> None:
        if isinstance(error, Unavailable):
            store.counts(fresh=True)
        else:
            self.failure = plain(error)
        self._give_up()

    def _give_up(self) -> None:
        if self.rows is not None:
            self._wanted = None

    def update(self, store: Store) -> bool:
        """Bring the shown rows and the selection up to date, at most once a tick. Returns whether some have ended."""
        if self.rows is None or time.monotonic() - self._checked < KEEP:
            return False
        shown = {session.ref: session for session in self.rows.sessions}
        refs = [ref for ref in {**shown, **self.selected} if ref not in self.ended]
        if not refs:
            return False
        try:
            found = store.presence.sessions_among(refs)
        except PresenceError:
            return False  # the counts report an unavailable Redis
        finally:
            self._checked = time.monotonic()
        live = {ref: session for ref, session in found.items() if isinstance(session, Session)}
        ended = {ref: session for ref, session in found.items() if isinstance(session, Ended)}
        gone = {ref: ended.get(ref) for ref in refs if ref not in live}
        self.rows = replace(self.rows, sessions=tuple(live.get(ref, session) for ref, session in shown.items()))
        self.ended |= gone
        return bool(gone)

    # -- Selection -----------------------------------------------------------------------------------------------------

    @property
    def live_selected(self) -> tuple[Session, ...]:
        """The selected sessions that are live, as far as known."""
        return tuple(session for ref, session in self.selected.items() if ref not in self.ended)

    @property
    def selected_elsewhere(self) -> int:
        shown = {session.ref for session in self.rows.sessions} if self.rows is not None else set()
        return sum(session.ref not in shown for session in self.live_selected)

    def select(self, refs: Collection[str], most: int) -> int:
        """Select these of the shown rows and no others of them, at most ``most`` in all. Returns how many it wants."""
        shown = self.rows.sessions if self.rows is not None else ()
        others = {session.ref for session in shown}
        kept = {ref: session for ref, session in self.selected.items() if ref not in others or ref in self.ended}
        chosen = [session for session in shown if session.ref in refs and session.ref not in self.ended]
        room = max(0, most - len(kept))
        self.selected = {**kept, **{session.ref: session for session in chosen[:room]}}
        return len(kept) + len(chosen)

    def select_none(self) -> None:
        self.selected = {}

    def newer_logins(self, reading: Reading[Counts]) -> int:
        """The number of logins since the read, matching or not."""
        if self.rows is None or reading.value is None:
            return 0
        return max(reading.value.totals["login"] - self.rows.logins, 0)


def _page(
    presence: Presence,
    matching: SessionFilter | None,
    order: ListOrder,
    wanted: tuple[Position, ...],
    limit: int,
    logins: int,
) -> tuple[Rows, tuple[Position, ...]]:
    page, positions = read_at(
        wanted, lambda cursor: presence.list_sessions(matching, order=order, limit=limit, cursor=cursor)
    )
    rows = Rows(
        sessions=tuple(page.items),
        next_cursor=page.next_cursor,
        total=page.total,
        as_of=page.as_of,
        read=time.monotonic(),
        logins=logins,
        total_is_exact=page.total_is_exact,
        scanned=page.scanned,
        progress=page.progress,
        blocks=blocks_of(presence, {session.uid for session in page.items}),
        remarks=remarks_of(presence, {session.uid for session in page.items}),
    )
    return rows, positions


def _exact_first(presence: Presence, matching: SessionFilter | None, query: SessionQuery, rows: Rows) -> Rows:
    """Page 1 with the sessions first whose user ID is the search text, if others match, too."""
    if matching is None or matching.text is None or all(session.uid == matching.text for session in rows.sessions):
        return rows
    found: Sequence[Session] = rows.sessions
    if rows.next_cursor is not None:  # they may be on another page
        try:
            of_user = replace(matching, text=None, uid=matching.text)
        except InvalidArgument:
            return rows  # it can be no user ID
        found = presence.list_sessions(of_user, order=query.order, limit=MAX_EXACT).items
    first = tuple(session for session in found if session.uid == matching.text)[:MAX_EXACT]
    refs = frozenset(session.ref for session in first)
    others = tuple(session for session in rows.sessions if session.ref not in refs)
    user = {matching.text} if first else set()
    blocks, remarks = rows.blocks | blocks_of(presence, user), rows.remarks | remarks_of(presence, user)
    return replace(rows, sessions=(*first, *others), exact=refs, blocks=blocks, remarks=remarks)


def _further(presence: Presence, matching: SessionFilter | None, order: ListOrder, rows: Rows, limit: int) -> Rows:
    page = presence.list_sessions(matching, order=order, limit=limit - len(rows.sessions), cursor=rows.next_cursor)
    return replace(
        rows,
        sessions=(*rows.sessions, *page.items),
        next_cursor=page.next_cursor,
        scanned=rows.scanned + page.scanned,
        progress=page.progress,
        blocks=rows.blocks | blocks_of(presence, {session.uid for session in page.items}),
        remarks=rows.remarks | remarks_of(presence, {session.uid for session in page.items}),
    )


def this_session_list() -> SessionList:
    """The list of the tab for which this script runs."""
    if _KEY not in st.session_state:
        st.session_state[_KEY] = SessionList()
    listing: SessionList = st.session_state[_KEY]
    return listing
