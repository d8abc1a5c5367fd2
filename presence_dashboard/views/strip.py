"""The strip of counts at the top: the one part of the page that renews itself."""

from __future__ import annotations

from typing import Final

import streamlit as st

from presence_core import Counts
from presence_dashboard import texts
from presence_dashboard.format import clock, code, number, span
from presence_dashboard.listing import Listing, this_tab
from presence_dashboard.store import Reading, open_store

TICK: Final = 5.0
"""Seconds. Faster ticks meet full reruns and lose elements (streamlit #16708)."""

TICK_AWAY: Final = 3.0
"""The same while Redis is away: nobody acts then, and the page is whole again within 5 s of its return."""

METRIC_WIDTH: Final = 136

_METRICS: Final = (
    ("users", texts.USERS, texts.USERS_HELP),
    ("sessions", texts.SESSIONS, texts.SESSIONS_HELP),
    ("login", texts.LOGINS, None),
    ("kicked", texts.KICKED, None),
)


def strip(away: bool) -> None:
    """Counts, how old they are, and whether there is anything new to see. Call it alone in a container of its own."""
    st.fragment(_strip, run_every=TICK_AWAY if away else TICK)()


def _strip() -> None:
    reading, listing = open_store().read(), this_tab()
    if (reading.failure is not None) != listing.away:
        st.rerun()  # the page around this fragment turns its actions off or on
    if listing.rows is not None and not listing.rows.sessions and listing.newer_logins(reading):
        listing.refresh()  # nothing is there that could move under a pointer
        st.rerun()
    if reading.failure is not None:
        age = span(reading.age) if reading.counts else None
        st.error(texts.away(code(reading.failure), age))
    _counts(reading.counts)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _refresh(listing, reading)
        st.caption(_ages(listing, reading), width="content")


def _counts(counts: Counts | None) -> None:
    known = {} if counts is None else {"users": counts.users, "sessions": counts.sessions, **counts.totals}
    with st.container(horizontal=True, gap="small"):
        for kind, label, explained in _METRICS:
            value = number(known[kind]) if kind in known else texts.NO_VALUE
            st.metric(label, value, help=explained, border=True, width=METRIC_WIDTH)


def _refresh(listing: Listing, reading: Reading) -> None:
    """One button in one place, whatever it says: it must not move the table under somebody's pointer."""
    new = listing.newer_logins(reading) if listing.page == 1 else 0
    label = texts.newer(new, number(new)) if new else texts.REFRESH
    if st.button(
        label,
        key="refresh",
        help=texts.REFRESH_HELP,
        type="primary" if new else "secondary",
        disabled=reading.failure is not None,
    ):
        listing.refresh()
        st.rerun()


def _ages(listing: Listing, reading: Reading) -> str:
    parts = []
    if listing.rows is not None:
        new = listing.newer_logins(reading) if listing.page > 1 else 0
        parts.append(texts.rows_as_of(clock(listing.rows.as_of), span(listing.rows.age), number(new) if new else None))
    if reading.counts is not None and reading.failure is None:
        parts.append(texts.exact_as_of(span(reading.age), _swept(reading.counts, reading.age)))
    return " · ".join(parts)


def _swept(counts: Counts, age: float) -> str | None:
    """How long ago a sweep ran: by the clock of Redis alone, ours may be wrong."""
    if counts.swept_at is None:
        return None
    return span(age + (counts.as_of - counts.swept_at).total_seconds())
