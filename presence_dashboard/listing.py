"""The list of sessions as one browser tab sees it: what it asks for, which page, which rows, as of when. Kept in its
session state.

Rows are read when somebody asks for them, never by a tick: what is under the pointer stays there. A tick only marks
those that have ended. Every reading has a generation of its own, and the table's key is made of it, so that an old
click can never meet new rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from hashlib import sha256
from typing import Final

import streamlit as st

from presence_core import Block, Counts, InvalidArgument, Presence, PresenceError, Session, SessionFilter, Unavailable
from presence_dashboard.actions import blocks_of
from presence_dashboard.questions import Question
from presence_dashboard.store import KEEP, Reading, Store
from presence_dashboard.tab import this_tab
from presence_dashboard.wording import plain

Cursors = tuple[str | None, ...]

PAGE_SIZES: Final = (25, 50, 100)

GO_ON: Final = 2.0
"""Seconds for which one click looks for rare matches."""

_KEY: Final = "listing"


@dataclass(frozen=True, slots=True)
class Rows:
    """One page of sessions, as it was read."""

    sessions: tuple[Session, ...]
    next_cursor: str | None
    total: int
    as_of: datetime  #: by the clock of Redis
    read: float  #: the same moment by this process's own clock
    logins: int  #: how many logins had been counted just before
    total_is_exact: bool = True
    scanned: int = 0  #: entries looked at for them
    progress: float = 1.0  #: how much of the list has been looked through
    blocks: dict[str, Block] = field(default_factory=dict)  #: of the users of these sessions

    @property
    def age(self) -> float:
        """Seconds since they were read."""
        return time.monotonic() - self.read


@dataclass(slots=True)
class Listing:
    """Where this tab is in the list, and what it shows."""

    limit: int = 50
    cursors: Cursors = (None,)  #: of this page and of all before it
    generation: int = 0
    rows: Rows | None = None
    failure: str | None = None  #: why the list could not be read, although Redis answers
    problem: str | None = None  #: what is wrong with the question; the rows are those of the one before
    ended: frozenset[str] = frozenset()  #: refs of rows that have ended since they were read
    acted: int = 0  #: actions of this tab when the rows were read
    question: Question = field(default_factory=Question)  #: that the rows answer
    filter: SessionFilter | None = None  #: the same, as of page 1: the cursors belong to it
    _wanted: Cursors | None = (None,)
    _going_on: bool = False
    _looked: float = 0.0  #: when the rows were last known to be live, by this process's own clock

    @property
    def page(self) -> int:
        return len(self.cursors)

    @property
    def key(self) -> str:
        """What is on the screen, as a key for its widgets."""
        asked = self.filter.digest if self.filter else ""
        shown = repr((asked, self.limit, self.cursors[-1], self.generation))
        return sha256(shown.encode()).hexdigest()[:16]

    @property
    def is_short(self) -> bool:
        """Matches are rare: there may be more of them, beyond what was looked at for this page."""
        return self.rows is not None and self.rows.next_cursor is not None and len(self.rows.sessions) < self.limit

    def refresh(self) -> None:
        self._wanted = self.cursors

    def newest(self) -> None:
        self._wanted = (None,)

    def newer(self) -> None:
        self._wanted = self.cursors[:-1] or (None,)

    def older(self) -> None:
        if self.rows is not None and self.rows.next_cursor is not None:
            self._wanted = (*self.cursors, self.rows.next_cursor)

    def go_on(self) -> None:
        """Look further for what this page still has room for."""
        self._going_on = True

    def resize(self, limit: int) -> None:
        self.limit = limit
        self._wanted = (None,)

    def clear(self) -> None:
        """Show nothing, until the first page of what is asked for next has been read."""
        self.rows, self.failure, self.problem, self.ended = None, None, None, frozenset()
        self.question, self.filter, self.cursors = Question(), None, (None,)
        self.newest()

    def load(self, store: Store, question: Question, zone: tzinfo) -> None:
        """Read what is wanted. When that fails, what was shown stays, and so does the place in the list."""
        question = self._accepted(question, zone)
        if self.problem is not None and self.rows is None:
            return  # rather no list than one that was not asked for
        if self.acted != this_tab().acted:
            self.acted = this_tab().acted
            self.refresh()
        if question != self.question:
            self._wanted = (None,)
        if self._wanted is not None:
            self._read(store, question, zone)
        elif self._going_on:
            self._look_further(store)
        self._going_on = False

    def _accepted(self, question: Question, zone: tzinfo) -> Question:
        """The question or, where something is wrong with it, the one before."""
        try:
            question.filter(datetime.now(UTC), zone)
        except InvalidArgument as error:
            self.problem = plain(error)
            return self.question
        self.problem = None
        return question

    def _read(self, store: Store, question: Question, zone: tzinfo) -> None:
        assert self._wanted is not None
        reading = store.counts()
        if reading.failure is None:
            reading = store.counts(anew=True)  # before the rows: a login in between is then hinted at, not missed
        if reading.value is None or reading.failure is not None:
            self._give_up()
            return
        # Page 1 asks as of now; what is behind it, as page 1 did: a cursor belongs to its filter.
        asked = question.filter(reading.value.as_of, zone) if len(self._wanted) == 1 else self.filter
        try:
            rows, cursors = _page(store.presence, asked, self._wanted, self.limit, reading.value.totals["login"])
        except PresenceError as error:
            self._failed(store, error)
        else:
            self.question, self.filter = question, asked
            self.rows, self.cursors, self.failure, self._wanted = rows, cursors, None, None
            self.ended, self._looked = frozenset(), rows.read
            self.generation += 1

    def _look_further(self, store: Store) -> None:
        end = time.monotonic() + GO_ON
        try:
            while self.is_short and time.monotonic() < end:
                assert self.rows is not None
                self.rows = _further(store.presence, self.filter, self.rows, self.limit)
        except PresenceError as error:
            self._failed(store, error)
        self.generation += 1

    def _failed(self, store: Store, error: PresenceError) -> None:
        if isinstance(error, Unavailable):
            store.counts(anew=True)
        else:
            self.failure = plain(error)
        self._give_up()

    def _give_up(self) -> None:
        if self.rows is not None:
            self._wanted = None

    def look(self, store: Store) -> bool:
        """Find out which rows have ended since they were read; whether any are new among them. Once a tick at most."""
        if self.rows is None or time.monotonic() - self._looked < KEEP:
            return False
        refs = [session.ref for session in self.rows.sessions if session.ref not in self.ended]
        if not refs:
            return False
        try:
            gone = frozenset(refs) - store.presence.live_among(refs)
        except PresenceError:
            gone = frozenset()  # whether Redis is away is for the counts to find out
        self._looked = time.monotonic()
        self.ended |= gone
        return bool(gone)

    def newer_logins(self, reading: Reading[Counts]) -> int:
        """How many have logged in since these rows were read, whether or not they match."""
        if self.rows is None or reading.value is None:
            return 0
        return max(reading.value.totals["login"] - self.rows.logins, 0)


def _page(
    presence: Presence, asked: SessionFilter | None, cursors: Cursors, limit: int, logins: int
) -> tuple[Rows, Cursors]:
    page = presence.list_sessions(asked, limit=limit, cursor=cursors[-1])
    while not page.items and page.next_cursor is None and len(cursors) > 1:  # everybody on it has left
        cursors = cursors[:-1]
        page = presence.list_sessions(asked, limit=limit, cursor=cursors[-1])
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
        blocks=blocks_of(presence, {one.uid for one in page.items}),
    )
    return rows, cursors


def _further(presence: Presence, asked: SessionFilter | None, rows: Rows, limit: int) -> Rows:
    page = presence.list_sessions(asked, limit=limit - len(rows.sessions), cursor=rows.next_cursor)
    return replace(
        rows,
        sessions=(*rows.sessions, *page.items),
        next_cursor=page.next_cursor,
        scanned=rows.scanned + page.scanned,
        progress=page.progress,
        blocks=rows.blocks | blocks_of(presence, {one.uid for one in page.items}),
    )


def this_listing() -> Listing:
    """The list of the tab that this script runs for."""
    if _KEY not in st.session_state:
        st.session_state[_KEY] = Listing()
    listing: Listing = st.session_state[_KEY]
    return listing
