"""A paged list in one browser tab, such as the history: its query, page and rows. Kept in the session state.

The library pages by cursor, and filters by what it indexes. ``scan`` applies other filters here, page after page, up to
a limit. A page may then be short although the list continues.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

import streamlit as st

from presence_core import Page, PresenceError, Unavailable
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.store import Store
from presence_dashboard.error_sentences import plain

T = TypeVar("T")

ReadPage = Callable[[int, str | None], Page[T]]
"""Reads a page: limit and cursor → page."""

Position = tuple[str | None, int]
"""Cursor of a page, and the number of rows on the pages before it."""

LIMIT: Final = 50
MAX_SCANNED: Final = 5_000
"""Most entries that are read for one page."""

_SCAN_STEP: Final = 200
COUNT_STEP: Final = 1_000
"""Entries that one call counts."""
START: Final[tuple[Position, ...]] = ((None, 0),)


def scan(read_page: ReadPage[T], matches: Callable[[T], bool], limit: int, cursor: str | None) -> Page[T]:
    """A page of the entries that match: ``limit`` or slightly more; fewer at the end or after MAX_SCANNED."""
    found: list[T] = []
    scanned = 0
    while True:
        page = read_page(_SCAN_STEP, cursor)
        found += filter(matches, page.items)
        scanned += max(len(page.items), 1)
        cursor = page.next_cursor
        if cursor is None or len(found) >= limit or scanned >= MAX_SCANNED:
            return Page(
                found, cursor, len(found), cursor is None, scanned, page.as_of, complete_since=page.complete_since
            )


@dataclass(frozen=True, slots=True)
class Total:
    """How many entries a list has."""

    number: int
    kind: Literal["exact", "about", "at least"] = "exact"


def count_on(read_page: ReadPage[T], first: Page[T]) -> Total:
    """The number of entries of a list, given its first page: at least, after MAX_SCANNED of them."""
    found, scanned, cursor = len(first.items), 0, first.next_cursor
    while cursor is not None and scanned < MAX_SCANNED:
        page = read_page(COUNT_STEP, cursor)
        found += len(page.items)
        scanned += max(page.scanned, 1)
        cursor = page.next_cursor
    return Total(found, "exact" if cursor is None else "at least")


@dataclass(slots=True)
class TabState:
    """What a tab has read, and the row whose details it shows."""

    failure: str | None = None  #: why it could not be read
    generation: int = 0  #: of the rows: another one with each read
    acted: int = -1  #: ``Tab.acted`` at the last read
    picked: str | None = None  #: the row whose details are shown

    def pick(self, ref: str | None) -> None:
        """Show the details of this row; None: of no row."""
        self.picked = ref

    def has_acted(self) -> bool:
        """Whether this tab has changed something since the last call."""
        before, self.acted = self.acted, this_tab().acted
        return before != self.acted


@dataclass(slots=True)
class ListState(TabState):
    """The position of a tab in a list, and the page that it is to read."""

    positions: tuple[Position, ...] = START  #: of this page and all pages before it
    _wanted: tuple[Position, ...] | None = START

    @property
    def number(self) -> int:
        return len(self.positions)

    @property
    def before(self) -> int:
        """The number of rows on the pages before this one."""
        return self.positions[-1][1]

    @property
    def _rows(self) -> tuple[int, str | None]:
        """How many rows the page has, and the cursor of the next one."""
        raise NotImplementedError

    def refresh(self) -> None:
        self._wanted = self.positions

    def newest(self) -> None:
        self._wanted = START

    def newer(self) -> None:
        self._wanted = self.positions[:-1] or START

    def older(self) -> None:
        count, cursor = self._rows
        if cursor is not None:
            self._wanted = (*self.positions, (cursor, self.before + count))


@dataclass(slots=True)
class PagedList(ListState, Generic[T]):
    """A list with its rows."""

    query: Hashable = None
    page: Page[T] | None = None
    counted: Total | None = None  #: when the first page was read

    @property
    def _rows(self) -> tuple[int, str | None]:
        return (0, None) if self.page is None else (len(self.page.items), self.page.next_cursor)

    @property
    def total(self) -> Total:
        """How many entries the list has, at least those on the pages so far."""
        if self.page is None:
            return Total(0)
        shown = self.before + len(self.page.items)
        if self.page.total_is_exact:
            return Total(max(self.page.total, shown))
        if self.counted is None:
            return Total(shown, "at least")
        return Total(max(self.counted.number, shown), self.counted.kind)

    @property
    def reads_first_page(self) -> bool:
        return self._wanted == START

    def load(
        self, store: Store, query: Hashable, read_page: ReadPage[T], count: Callable[[Page[T]], Total] | None = None
    ) -> None:
        """Read the requested page. If that fails, the rows stay, unless the query has changed.

        count: the number of entries, given the first page.
        """
        if query != self.query:
            self.query, self.page, self.positions = query, None, START
            self.newest()
        if self.has_acted():
            self._wanted = self._wanted or self.positions
        if self._wanted is None:
            return
        try:
            page, positions = read_at(self._wanted, lambda cursor: read_page(LIMIT, cursor))
            if count is not None and positions == START and not page.total_is_exact:
                self.counted = count(page)
        except PresenceError as error:
            self.failure = plain(error)
            if isinstance(error, Unavailable):
                store.counts(fresh=True)
            self._wanted = None if self.page is not None else self._wanted
        else:
            self.page, self.positions, self.failure, self._wanted = page, positions, None, None
            self.generation += 1


def read_at(
    positions: tuple[Position, ...], read: Callable[[str | None], Page[T]]
) -> tuple[Page[T], tuple[Position, ...]]:
    """The page at the last position that still has entries, and the positions up to it."""
    page = read(positions[-1][0])
    while not page.items and page.next_cursor is None and len(positions) > 1:  # its entries are no longer stored
        positions = positions[:-1]
        page = read(positions[-1][0])
    return page, positions


def this_paged_list(view: str) -> PagedList[T]:
    """The list of a view, of the tab for which this script runs."""
    key = f"list-{view}"
    if key not in st.session_state:
        st.session_state[key] = PagedList()
    paged: PagedList[T] = st.session_state[key]
    return paged
