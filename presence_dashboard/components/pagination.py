"""Refresh and paging buttons of a ``PagedList``."""

from __future__ import annotations

from typing import Any

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.paged_list import PagedList
from presence_dashboard.format import number


def refresh_bar(paged: PagedList[Any]) -> None:
    """The refresh button, and when the rows were read (a time of day, which stays true without a redraw)."""
    st.button(texts.REFRESH, key="refresh-list", disabled=this_tab().away, on_click=paged.refresh)
    if paged.page is not None:
        st.caption(texts.history_as_of(local_time(paged.page.as_of)), width="content")


def pager(paged: PagedList[Any], count: int) -> None:
    """The buttons Newest, Newer and Older, and the position in the list."""
    away = this_tab().away
    is_first, is_last = paged.number == 1, paged.page is None or paged.page.next_cursor is None
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="pager"):
        if not (is_first and is_last):
            st.button(texts.NEWEST, key="newest", disabled=away or is_first, on_click=paged.newest)
            st.button(texts.NEWER, key="newer", shortcut="N", disabled=away or is_first, on_click=paged.newer)
            st.button(texts.OLDER, key="older", shortcut="O", disabled=away or is_last, on_click=paged.older)
        first, last = paged.before + 1, paged.before + count
        total = None if paged.total is None else number(paged.total)
        st.markdown(texts.history_place(number(first), number(last), total, paged.number), width="content")
