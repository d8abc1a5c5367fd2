"""A ``PagedList`` on a page: its read, its rows with their details, the buttons that refresh it and turn its pages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

import streamlit as st

from presence_core import Page
from presence_dashboard import texts
from presence_dashboard.components.buttons import live_button, page_buttons
from presence_dashboard.components.record_table import Cell, Column, Row, record_table, ref_of
from presence_dashboard.data.browser_tab import local_time, this_tab, zone
from presence_dashboard.data.paged_list import PagedList, ReadPage, Total
from presence_dashboard.data.store import open_store
from presence_dashboard.format import number

T = TypeVar("T")

FULL: Final = 20
"""Rows of a list that fills a screen: its place is kept free while the page loads."""


def load_rows(
    paged: PagedList[Any],
    query: Hashable,
    read_page: ReadPage[Any],
    *,
    height: int,
    may_retry: bool = False,
    count: Callable[[Page[Any]], Total] | None = None,
) -> list[Any] | None:
    """The rows; None if they could not be read, which the page then says. may_retry: with a button. count: the number
    of entries, given the first page."""
    with st.skeleton(height=height):
        paged.load(open_store(), query, read_page, count)
    has_failed = paged.failure is not None and not this_tab().away
    if has_failed:
        st.warning(texts.unreadable(paged.failure or ""))
    if paged.page is not None:
        return paged.page.items
    if has_failed and may_retry:
        st.button(texts.TRY_AGAIN, key="retry")  # any run of the script retries
    else:
        st.info(texts.LIST_UNREAD)
    return None


def record_list(
    paged: PagedList[T],
    items: Sequence[T],
    columns: Sequence[tuple[Column, Sequence[Cell]]],
    details: Callable[[T], None] | None = None,
    *,
    key: str,
    caption: str,
    hint: str | None = None,
) -> None:
    """Draw the rows, and the details of the one that the reader picks, with its actions. hint: while there are none."""
    refs = [f"{paged.generation}-{place}" for place in range(len(items))]  # a row of a former read is no row
    rows = [
        Row(ref, ref, cells)
        for ref, cells in zip(refs, zip(*(cells for _, cells in columns), strict=True), strict=True)
    ]

    def draw() -> None:
        record_table(
            [column for column, _ in columns],
            rows,
            key=key,
            shown=f"{key}-{paged.generation}",
            caption=caption,
            back=texts.BACK_TO_FIRST,
            now=paged.page.as_of if paged.page else datetime.now(zone()),
            picked=paged.picked,
            on_pick=(lambda: paged.pick(ref_of(key, "pick"))) if details else None,
        )

    picked = dict(zip(refs, items, strict=True)).get(paged.picked or "")
    shown = partial(details, picked) if details and picked is not None else None
    with_details(key, f"{'full' if len(rows) >= FULL else 'few'}-{key}", draw, shown, paged.pick)
    if shown is None and hint:
        st.caption(hint)


def with_details(
    key: str, box: str, draw: Callable[[], None], details: Callable[[], None] | None, pick: Callable[[None], None]
) -> None:
    """A list, and next to it the details of one of its rows: below it on a narrow screen.

    box: key of the container of the list. pick: called with None when the reader closes the details.
    """
    with st.container(key=f"split-{key}"):
        with st.container(key=box):  # alone in it: a fragment in a shared container may vanish during a rerun
            draw()
        if details is not None:
            with st.container(border=True, gap="xsmall", key="details"):
                look: dict[str, Any] = {"type": "tertiary", "icon": ":material/close:"}
                st.button(texts.CLOSE_DETAILS, key="close-details", on_click=pick, args=(None,), **look)
                details()


def refresh_bar(paged: PagedList[Any]) -> None:
    """The refresh button, and when the rows were read (a time of day, which stays true without a redraw)."""
    live_button(texts.REFRESH, "refresh-list", paged.refresh)
    if paged.page is not None:
        st.caption(texts.history_as_of(local_time(paged.page.as_of)), width="content")


def pager(paged: PagedList[Any], count: int) -> None:
    """The buttons Newest, Newer and Older, and the position in the list."""
    is_first, is_last = paged.number == 1, paged.page is None or paged.page.next_cursor is None
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="pager"):
        if not (is_first and is_last):
            page_buttons(paged, is_first=is_first, is_last=is_last)
        first, last = paged.before + 1, paged.before + count
        total = _total_words(paged.total)
        st.markdown(texts.history_place(number(first), number(last), total, paged.number), width="content")


def _total_words(total: Total) -> str:
    words = {"about": texts.about, "at least": texts.at_least}.get(total.kind)
    return words(number(total.number)) if words else number(total.number)
