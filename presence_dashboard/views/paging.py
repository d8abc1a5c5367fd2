"""The way through a ledger: read again, and from page to page by cursor."""

from __future__ import annotations

from typing import Any

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.format import number
from presence_dashboard.ledger import Ledger
from presence_dashboard.tab import here, this_tab


def bar(ledger: Ledger[Any]) -> None:
    """Read again, and when the rows were read: a time of day, which stays true on a page that is not drawn again."""
    st.button(texts.HISTORY_REFRESH, key="refresh-ledger", disabled=this_tab().away, on_click=ledger.refresh)
    if ledger.page is not None:
        st.caption(texts.history_as_of(here(ledger.page.as_of)), width="content")


def pager(ledger: Ledger[Any], count: int) -> None:
    """Newest, newer, older, and where one is."""
    away = this_tab().away
    is_first, is_last = ledger.number == 1, ledger.page is None or ledger.page.next_cursor is None
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="pager"):
        if not (is_first and is_last):
            st.button(texts.NEWEST, key="newest", disabled=away or is_first, on_click=ledger.newest)
            st.button(texts.NEWER, key="newer", shortcut="N", disabled=away or is_first, on_click=ledger.newer)
            st.button(texts.OLDER, key="older", shortcut="O", disabled=away or is_last, on_click=ledger.older)
        first, last = ledger.before + 1, ledger.before + count
        total = None if ledger.total is None else number(ledger.total)
        st.markdown(texts.history_place(number(first), number(last), total, ledger.number), width="content")
