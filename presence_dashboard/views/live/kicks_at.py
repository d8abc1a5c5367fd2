"""The kicks behind a mark of the chart: who was kicked, by whom and why. For roles that may see people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import streamlit as st

from presence_core import Ended, Page, Sample
from presence_dashboard import access, texts
from presence_dashboard.components.figures import show_placeholder
from presence_dashboard.components.session_facts import time_of_day
from presence_dashboard.data import chart_data
from presence_dashboard.data.chart_data import KickMark
from presence_dashboard.data.shared_reads import shared
from presence_dashboard.data.store import Reading
from presence_dashboard.format import exact
from presence_dashboard.time_range import format_range
from presence_dashboard.views.live.latest_activity import kick_words, person_row

MAX_SHOWN: Final = 50
KEEP: Final = 29.5


def kicks_at(samples: Sequence[Sample], picked: datetime, seconds: float) -> None:
    """Draw the kicks of the mark nearest to the clicked time, if one is near. seconds: length of the chart's range."""
    actor = access.with_right("people")
    if actor is None:
        return
    mark = chart_data.kick_mark(samples, picked, seconds)
    if mark is None:
        return
    with st.container(border=True, gap="xxsmall", key="kicks-at"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"**{texts.live_kicks(mark.kicked, time_of_day(mark.since), time_of_day(mark.until))}**")
            st.space("stretch")
            st.page_link("views/history/history.py", label=texts.LIVE_KICKS_HISTORY, query_params=_in_history(mark))
        _list(mark, "name" in actor.masked)


def _list(mark: KickMark, masked: bool) -> None:
    reading: Reading[Page[Ended]] = shared(
        ("live-kicks", mark.since, mark.until),
        lambda presence: presence.ended(reason="kicked", since=mark.since, until=mark.until, limit=MAX_SHOWN),
        keep=KEEP,
    )
    if reading.value is None:
        show_placeholder(reading)
        return
    records = reading.value.items
    for record in records:
        words = texts.live_kick_row(time_of_day(record.at), kick_words(record))
        person_row(record, masked, "kicked", exact(record.at), words)
    if not records:
        st.caption(texts.LIVE_KICKS_GONE)
    elif len(records) == MAX_SHOWN and reading.value.next_cursor:
        st.caption(texts.live_kicks_shown(MAX_SHOWN))


def _in_history(mark: KickMark) -> dict[str, str]:
    """The address of these kicks on the History page."""
    return {"view": "ended", "how": "kicked", "time": format_range(mark.since, mark.until)}
