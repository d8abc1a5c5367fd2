"""The strip of counts at the top: the one part of the page that renews itself."""

from __future__ import annotations

from typing import Final

import streamlit as st

from presence_core import Counts
from presence_dashboard import texts
from presence_dashboard.format import MINUTE, code, number, span
from presence_dashboard.listing import Listing, this_listing
from presence_dashboard.store import Reading, open_store
from presence_dashboard.tab import here, this_tab, zone

METRIC_WIDTH: Final = 136

_METRICS: Final = (
    ("users", texts.USERS, texts.USERS_HELP),
    ("sessions", texts.SESSIONS, texts.SESSIONS_HELP),
    ("login", texts.LOGINS, texts.LOGINS_HELP),
    ("kicked", texts.KICKED, texts.KICKED_HELP),
)


def strip() -> None:
    """Counts, how old they are, and whether there is anything new to see. Call it alone in a container of its own."""
    st.fragment(_strip, run_every=this_tab().tick)()


def _strip() -> None:
    store, listing = open_store(), this_listing()
    reading = store.counts()
    if reading.failure is None and listing.look(store):
        st.rerun()  # the page marks them in its table
    if listing.question.is_everybody and _is_empty(listing) and listing.newer_logins(reading):
        listing.refresh()  # nothing is there that could move under a pointer
        st.rerun()
    _counts(reading.value)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _refresh(listing, reading)
        st.caption(_ages(listing, reading), width="content")


def _is_empty(listing: Listing) -> bool:
    return listing.rows is not None and not listing.rows.sessions


def _counts(counts: Counts | None) -> None:
    known = {} if counts is None else {"users": counts.users, "sessions": counts.sessions, **counts.totals}
    with st.container(horizontal=True, gap="small"):
        for kind, label, explained in _METRICS:
            value = number(known[kind]) if kind in known else texts.NO_VALUE
            st.metric(label, value, help=explained, border=True, width=METRIC_WIDTH)


def _refresh(listing: Listing, reading: Reading[Counts]) -> None:
    """One button in one place, whatever it says: it must not move the table under somebody's pointer."""
    new = listing.newer_logins(reading) if listing.page == 1 else 0
    # Who has logged in need not match: with a question, the count says no more than it knows.
    tell = texts.newer if listing.question.is_everybody else texts.logins_since
    label = tell(new, number(new)) if new else texts.REFRESH
    if st.button(
        label,
        key="refresh",
        help=texts.REFRESH_HELP,
        type="primary" if new else "secondary",
        disabled=reading.failure is not None,
    ):
        listing.refresh()
        st.rerun()


def _ages(listing: Listing, reading: Reading[Counts]) -> str:
    """Times of day: they stay true on a page that does not renew itself. How long ago is added where it does."""
    parts = []
    if listing.rows is not None:
        new = listing.newer_logins(reading) if listing.page > 1 else 0
        ago = span(listing.rows.age) if this_tab().tick and listing.rows.age >= MINUTE else None
        parts.append(texts.rows_as_of(here(listing.rows.as_of), ago, number(new) if new else None))
    if reading.value is not None and reading.failure is None:
        users = reading.value.swept_at
        parts.append(texts.counts_as_of(here(reading.value.as_of), here(users) if users else None))
    return " · ".join((*parts, texts.login_zone(code(str(zone())))))
