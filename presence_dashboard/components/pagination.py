"""A ``PagedList`` on a page: its read, its rows, and the buttons that refresh it and turn its pages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pandas as pd
import streamlit as st

from presence_core import Page
from presence_dashboard import texts
from presence_dashboard.components.buttons import live_button, page_buttons
from presence_dashboard.data.browser_tab import local_time, this_tab, zone
from presence_dashboard.data.paged_list import PagedList, ReadPage, Total
from presence_dashboard.data.store import open_store
from presence_dashboard.format import number, offset

ROW_HEIGHT: Final = 31


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


def row_table(
    columns: Mapping[str, Sequence[Any]], key: str, alt: str, config: dict[str, Any], *, most_rows: int = 20
) -> int | None:
    """Draw a table of which one row can be ticked. Returns its position. most_rows: shown without scrolling."""
    rows = pd.DataFrame(columns)
    event = st.dataframe(
        rows,
        key=key,
        on_select="rerun",
        selection_mode="single-row",
        column_config=config,
        hide_index=True,
        height=ROW_HEIGHT * (min(len(rows), most_rows) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="",
        alt=alt,
    )
    return next((position for position in event.selection.rows if position < len(rows)), None)


def time_column(moments: Iterable[datetime], label: str | None = None, width: int = 170) -> Any:
    """A column of times in the reader's time zone, with the offset if a clock shows one of them twice."""
    zone_name = str(zone())
    has_repeated = any(offset(moment.astimezone(zone())) for moment in moments)
    help_text = texts.time_column_help(zone_name)
    return st.column_config.DatetimeColumn(
        label,
        width=width,
        format=f"YYYY-MM-DD HH:mm:ss{' Z' if has_repeated else ''}",
        timezone=zone_name,
        help=help_text,
    )


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
