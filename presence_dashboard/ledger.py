"""A list of what has happened as one browser tab sees it: which question, which page. Kept in its session state.

The library answers by cursor, and by what it has an index of. What else a filter asks for is looked for here, in page
after page, up to a bound: a page may then be short although more follows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import streamlit as st

from presence_core import Page, PresenceError, Unavailable
from presence_dashboard.store import Store
from presence_dashboard.tab import this_tab
from presence_dashboard.wording import plain

T = TypeVar("T")

Ask = Callable[[int, str | None], Page[T]]
"""A page of so many, behind this cursor."""

Place = tuple[str | None, int]
"""Cursor of a page, and how many were shown on those before it."""

LIMIT: Final = 50
LOOK_AT: Final = 5_000
"""So many entries are looked at for one page."""

_STEP: Final = 200
_START: Final[tuple[Place, ...]] = ((None, 0),)


def scan(ask: Ask[T], keep: Callable[[T], bool], limit: int, cursor: str | None) -> Page[T]:
    """Those that ``keep`` keeps: ``limit`` or some more, fewer where the bound was reached or the list is over."""
    found: list[T] = []
    looked = 0
    while True:
        page = ask(_STEP, cursor)
        found += filter(keep, page.items)
        looked += max(len(page.items), 1)
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit or looked >= LOOK_AT:
            return Page(found, cursor, len(found), cursor is None, looked, page.as_of)


@dataclass(slots=True)
class Ledger(Generic[T]):
    """Where this tab is in a list, and what it shows."""

    question: Hashable = None
    places: tuple[Place, ...] = _START  #: of this page and of all before it
    page: Page[T] | None = None
    failure: str | None = None
    generation: int = 0
    acted: int = -1
    _wanted: tuple[Place, ...] | None = _START

    @property
    def number(self) -> int:
        return len(self.places)

    @property
    def before(self) -> int:
        """How many were on the pages before this one."""
        return self.places[-1][1]

    @property
    def total(self) -> int | None:
        """How many there are in all, where that is known."""
        if self.page is None or not self.page.total_is_exact:
            return None
        return max(self.page.total, self.before + len(self.page.items))

    def refresh(self) -> None:
        self._wanted = self.places

    def newest(self) -> None:
        self._wanted = _START

    def newer(self) -> None:
        self._wanted = self.places[:-1] or _START

    def older(self) -> None:
        if self.page is not None and self.page.next_cursor is not None:
            self._wanted = (*self.places, (self.page.next_cursor, self.before + len(self.page.items)))

    def load(self, store: Store, question: Hashable, ask: Ask[T]) -> None:
        """Read what is wanted. When that fails, what was shown stays; but nothing of another question does."""
        if question != self.question:
            self.question, self.page, self.places = question, None, _START
            self.newest()
        if self.acted != this_tab().acted:
            self.acted = this_tab().acted
            self._wanted = self._wanted or self.places
        if self._wanted is None:
            return
        try:
            page, places = _read(ask, self._wanted)
        except PresenceError as error:
            self.failure = plain(error)
            if isinstance(error, Unavailable):
                store.counts(anew=True)
            self._wanted = None if self.page is not None else self._wanted
        else:
            self.page, self.places, self.failure, self._wanted = page, places, None, None
            self.generation += 1


def _read(ask: Ask[T], places: tuple[Place, ...]) -> tuple[Page[T], tuple[Place, ...]]:
    page = ask(LIMIT, places[-1][0])
    while not page.items and len(places) > 1:  # all that was on it is forgotten
        places = places[:-1]
        page = ask(LIMIT, places[-1][0])
    return page, places


def this_ledger(view: str) -> Ledger[T]:
    """That of a view, of the tab which this script runs for."""
    key = f"ledger-{view}"
    if key not in st.session_state:
        st.session_state[key] = Ledger()
    ledger: Ledger[T] = st.session_state[key]
    return ledger
