"""The list of sessions as one browser tab sees it: which page, which rows, as of when. Kept in its session state.

Rows are read when somebody asks for them, never by a tick: what is under the pointer stays there. Every reading has a
generation of its own, and the table's key is made of it, so that an old click can never meet new rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

import streamlit as st

from presence_core import PresenceError, Session, Unavailable
from presence_dashboard.store import Reading, Store

Cursors = tuple[str | None, ...]

PAGE_SIZES: Final = (25, 50, 100)
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
    away: bool = False  #: whether this tab shows that Redis is away
    failure: str | None = None  #: why the list could not be read, although Redis answers
    _wanted: Cursors | None = (None,)

    @property
    def page(self) -> int:
        return len(self.cursors)

    @property
    def key(self) -> str:
        """What is on the screen, as a key for its widgets."""
        shown = repr((self.limit, self.cursors[-1], self.generation))
        return sha256(shown.encode()).hexdigest()[:16]

    def refresh(self) -> None:
        self._wanted = self.cursors

    def newest(self) -> None:
        self._wanted = (None,)

    def newer(self) -> None:
        self._wanted = self.cursors[:-1] or (None,)

    def older(self) -> None:
        if self.rows is not None and self.rows.next_cursor is not None:
            self._wanted = (*self.cursors, self.rows.next_cursor)

    def resize(self, limit: int) -> None:
        self.limit = limit
        self._wanted = (None,)

    def load(self, store: Store) -> None:
        """Read what is wanted. When that fails, what was shown stays, and so does the place in the list."""
        if self._wanted is None:
            return
        reading = store.read(anew=True)  # before the rows: a login in between is then hinted at, not missed
        if reading.counts is None or reading.failure is not None:
            self._give_up()
            return
        try:
            rows, cursors = _read(store, self._wanted, self.limit, reading.counts.totals["login"])
        except Unavailable:
            store.read(anew=True)
            self._give_up()
        except PresenceError as error:
            self.failure = str(error)
            self._give_up()
        else:
            self.rows, self.cursors, self.failure, self._wanted = rows, cursors, None, None
            self.generation += 1

    def _give_up(self) -> None:
        if self.rows is not None:
            self._wanted = None

    def newer_logins(self, reading: Reading) -> int:
        """How many have logged in since these rows were read."""
        if self.rows is None or reading.counts is None:
            return 0
        return max(reading.counts.totals["login"] - self.rows.logins, 0)


def _read(store: Store, cursors: Cursors, limit: int, logins: int) -> tuple[Rows, Cursors]:
    page = store.presence.list_sessions(limit=limit, cursor=cursors[-1])
    while not page.items and len(cursors) > 1:  # everybody on it has left
        cursors = cursors[:-1]
        page = store.presence.list_sessions(limit=limit, cursor=cursors[-1])
    rows = Rows(tuple(page.items), page.next_cursor, page.total, page.as_of, time.monotonic(), logins)
    return rows, cursors


def this_tab() -> Listing:
    """The list of the tab that this script runs for."""
    if _KEY not in st.session_state:
        st.session_state[_KEY] = Listing()
    listing: Listing = st.session_state[_KEY]
    return listing
