"""The counts at the top of the Sessions page. They refresh automatically."""

from __future__ import annotations

import streamlit as st

from presence_core import Counts
from presence_dashboard import texts
from presence_dashboard.data.browser_tab import local_time, this_tab, zone
from presence_dashboard.data.session_list import SessionList, this_session_list
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.format import MINUTE, code, number, span


def counts_bar() -> None:
    """Draw counts, their age, and the refresh button. Call it alone in its container."""
    st.fragment(_counts_bar, run_every=this_tab().tick)()


def _counts_bar() -> None:
    store, listing = open_store(), this_session_list()
    reading = store.counts()
    if listing.query.is_everyone and _is_empty(listing) and listing.newer_logins(reading):
        listing.refresh()  # an empty list has no rows that could move under the pointer
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _counts(reading.value)
        _refresh(listing, reading)
        st.caption(_ages(listing, reading), width="content")


def _is_empty(listing: SessionList) -> bool:
    return listing.rows is not None and not listing.rows.sessions


def _counts(counts: Counts | None) -> None:
    users, sessions = (number(counts.users), number(counts.sessions)) if counts else (texts.NO_VALUE, texts.NO_VALUE)
    st.markdown(texts.online_now(users, sessions), width="content", help=texts.USERS_HELP)


def _refresh(listing: SessionList, reading: Reading[Counts]) -> None:
    """The refresh button. It keeps its place, so that the table does not move under the pointer."""
    new = listing.newer_logins(reading) if listing.page == 1 else 0
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
    """Times of day, which stay true without a refresh. The age is added if the page refreshes."""
    parts = []
    if listing.rows is not None:
        new = listing.newer_logins(reading) if listing.page > 1 else 0
        ago = span(listing.rows.age) if this_tab().tick and listing.rows.age >= MINUTE else None
        parts.append(texts.rows_as_of(local_time(listing.rows.as_of), ago, number(new) if new else None))
    if reading.value is not None and reading.failure is None:
        users = reading.value.swept_at
        parts.append(texts.counts_as_of(local_time(reading.value.as_of), local_time(users) if users else None))
    return " · ".join((*parts, texts.login_zone(code(str(zone())))))
