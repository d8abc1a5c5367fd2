"""The failed sign-ins of a span of time, by reason, country and network. For roles that may see people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import streamlit as st

from presence_core import FailedLogin, Page
from presence_dashboard import access, texts
from presence_dashboard.components.figures import show_placeholder
from presence_dashboard.data.chart_data import ChartWindow
from presence_dashboard.data.shared_reads import shared
from presence_dashboard.data.store import Reading
from presence_dashboard.format import cut, name, number
from presence_dashboard.time_range import format_range

MOST: Final = 1_000
KEEP: Final = 29.5
VALUES: Final = 6
_SECTION: Final = 200  # pixels

_FIELDS: Final[Mapping[str, Callable[[FailedLogin], str | None]]] = {
    "why": lambda failure: failure.why,
    "country": lambda failure: failure.place.country if failure.place else None,
    "network": lambda failure: failure.place.network_id if failure.place else None,
    "app": lambda failure: failure.app,
}
"""What they are split by: all but the reason are labelled as filters of sessions are."""


def failed_split(window: ChartWindow) -> None:
    actor = access.with_right("people")
    if actor is None:
        return
    until = None if window.is_latest else window.until
    reading: Reading[Page[FailedLogin]] = shared(
        ("live-failed", window.name),
        lambda presence: presence.failed_logins(since=window.since, until=until, limit=MOST),
        keep=KEEP,
    )
    if reading.value is None:
        show_placeholder(reading)
        return
    failures = reading.value.items
    if not failures:
        return
    with st.container(border=True, gap="small", key="failed-split"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(texts.LIVE_FAILED_BY)
            st.space("stretch")
            address = {"view": "failed", "time": format_range(window.since, window.until)}
            st.page_link("views/history/history.py", label=texts.LIVE_FAILED_IN_HISTORY, query_params=address)
        with st.container(horizontal=True, gap="small", key="failed-splits"):
            for field in _FIELDS if not actor.masked else ("why", "app"):
                _section(field, failures)
        if reading.value.next_cursor is not None:
            st.caption(texts.LIVE_FAILED_MOST(number(MOST)))


def _section(field: str, failures: Sequence[FailedLogin]) -> None:
    counts: Counter[str] = Counter()
    for failure in failures:
        if value := _FIELDS[field](failure):
            counts[value] += failure.count
    if not counts:
        return
    with st.container(width=_SECTION, gap="xsmall"):
        st.markdown(f"**{texts.LABEL_REASON if field == 'why' else texts.FACET_LABELS[field]}**")
        rows = [texts.facet_value(_words(field, value), number(count)) for value, count in counts.most_common(VALUES)]
        st.markdown("  \n".join(rows))
        if len(counts) > VALUES:
            st.caption(texts.and_more(number(len(counts) - VALUES)))


def _words(field: str, value: str) -> str:
    return texts.FAILURE_WHYS.get(value, value) if field == "why" else name(cut(value, 40))
