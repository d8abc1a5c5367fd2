"""The refresh button of the list of sessions, with the number of new logins and the time of the rows."""

from __future__ import annotations

import streamlit as st

from presence_core import Counts
from presence_dashboard import texts
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.session_list import SessionList, this_session_list
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.format import MINUTE, number, span


def list_refresh() -> None:
    """Draw the button and the time. Call it alone in its container: both refresh automatically."""
    st.fragment(_list_refresh, run_every=this_tab().tick)()


def _list_refresh() -> None:
    listing, reading = this_session_list(), open_store().counts()
    if listing.query.is_everyone and _is_empty(listing) and listing.newer_logins(reading):
        listing.refresh()  # an empty list has no rows that could move under the pointer
        st.rerun()
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small", width="content"):
        _refresh(listing, reading)
        st.caption(_ages(listing, reading), width="content")


def _is_empty(listing: SessionList) -> bool:
    return listing.rows is not None and not listing.rows.sessions


def _refresh(listing: SessionList, reading: Reading[Counts]) -> None:
    """The refresh button. It keeps its place, so that the table does not move under the pointer."""
    new = listing.newer_logins(reading) if listing.number == 1 else 0
    # With filters, new logins do not have to match.
    label_of = texts.newer if listing.query.is_everyone else texts.logins_since
    label = label_of(new, number(new)) if new else texts.REFRESH
    if st.button(
        label,
        key="refresh",
        help=texts.REFRESH_HELP,
        type="primary" if new else "secondary",
        disabled=reading.failure is not None,
    ):
        listing.refresh()
        st.rerun()


def _ages(listing: SessionList, reading: Reading[Counts]) -> str:
    """A time of day, which stays true without a refresh. The age is added if the page refreshes."""
    if listing.rows is None:
        return ""
    new = listing.newer_logins(reading) if listing.number > 1 else 0
    ago = span(listing.rows.age) if this_tab().tick and listing.rows.age >= MINUTE else None
    return texts.rows_as_of(local_time(listing.rows.as_of), ago, number(new) if new else None)
