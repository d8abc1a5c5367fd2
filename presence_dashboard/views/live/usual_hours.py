"""The users who are usually online, by hour and weekday: the mean of four weeks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from typing import Final

import streamlit as st

from presence_core import Sample
from presence_dashboard import texts
from presence_dashboard.components.session_facts import html_table
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.shared_reads import now, shared
from presence_dashboard.format import HOUR, number

WEEKS: Final = 4
KEEP: Final = 599.5


def usual_hours() -> None:
    """Draw the table, closed at first: a closed one reads nothing."""
    part = st.expander(texts.LIVE_USUAL, key="usual-hours", on_change="rerun")
    if not part.open:
        return
    with part:
        until = now().replace(minute=0, second=0, microsecond=0)
        since = until - timedelta(weeks=WEEKS)
        reading = shared(("usual-hours", since), lambda presence: presence.history(since, until, step=HOUR), keep=KEEP)
        means = averages(reading.value or (), zone())
        if not means:
            st.caption(reading.failure or texts.LIVE_USUAL_NONE)
            return
        most = max(means.values())
        columns = {texts.LIVE_USUAL_DAY: [texts.weekday(day) for day in range(7)]}
        for hour in range(24):
            columns[f"{hour:02}"] = [_cell(means.get((day, hour)), most) for day in range(7)]
        html_table(columns, texts.LIVE_USUAL)
        st.caption(texts.live_usual_key(WEEKS, str(zone())))


def averages(samples: Iterable[Sample], reader: tzinfo) -> dict[tuple[int, int], float]:
    """(weekday, hour) in the reader's zone → mean users; 0 is Monday. Hours that were not sampled do not count."""
    found: dict[tuple[int, int], list[float]] = {}
    for sample in samples:
        if sample.samples:
            at: datetime = sample.at.astimezone(reader)
            found.setdefault((at.weekday(), at.hour), []).append(sample.users_mean)
    return {place: sum(means) / len(means) for place, means in found.items()}


def _cell(mean: float | None, most: float) -> str:
    if mean is None:
        return ""
    return f"<strong>{number(round(mean))}</strong>" if mean == most else number(round(mean))
