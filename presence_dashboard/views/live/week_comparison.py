"""Some days compared with the same days of the week before. It does not refresh automatically."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import streamlit as st

from presence_core import Presence, Sample
from presence_dashboard import texts
from presence_dashboard.components.figures import show_placeholder
from presence_dashboard.data import chart_data
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.chart_data import MAX_DAYS, WEEK, PeriodSummary
from presence_dashboard.data.shared_reads import shared
from presence_dashboard.format import DAY, HOUR, number
from presence_dashboard.gate.made_files import made_here
from presence_dashboard.language import gettext
from presence_dashboard.texts import english

KEEP: Final = 59.5


@dataclass(frozen=True, slots=True)
class Days:
    """Hours and days of both weeks. Unique users are stored by day."""

    hours: tuple[Sample, ...]
    hours_before: tuple[Sample, ...]
    days: tuple[Sample, ...]
    days_before: tuple[Sample, ...]


def week_comparison() -> None:
    """Draw the comparison. Call it alone in its container."""
    st.fragment(_comparison)()


def _comparison() -> None:
    st.markdown(f"**{texts.LIVE_COMPARE}**")
    today = datetime.now(zone()).date()
    days = _chosen(today)
    if days is None:
        return
    first, last = days
    begin, end = _midnight(first), _midnight(last + timedelta(days=1))
    since, until = chart_data.whole_hours(begin, end, datetime.now(UTC))
    if since >= until:
        st.caption(texts.LIVE_TOO_EARLY)
        return
    st.caption(texts.live_compared(_shown(since), _shown(until), last >= today))
    reading = shared(
        ("live-compare", since, until, first, last),
        lambda presence: read(presence, since, until, first, last),
        keep=KEEP,
    )
    if reading.value is None:
        show_placeholder(reading)
        return
    _table(reading.value, since, until)


def _chosen(today: date) -> tuple[date, date] | None:
    presets = {
        english.LIVE_TODAY: (today, today),
        english.LIVE_YESTERDAY: (today - timedelta(days=1), today - timedelta(days=1)),
        english.LIVE_SEVEN_DAYS: (today - timedelta(days=7), today - timedelta(days=1)),
    }
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = st.segmented_control(
            texts.LIVE_PRESET,
            [*presets, english.LIVE_OTHER_DAYS],
            default=english.LIVE_TODAY,
            format_func=gettext,
            required=True,
            key="compare-days",
            wrap=True,
            label_visibility="collapsed",
        )
        if chosen in presets:
            return presets[chosen]
        first = st.date_input(
            texts.TIME_FROM, today - timedelta(days=1), max_value=today, key="compare-from", width=150
        )
        last = st.date_input(texts.LIVE_TO, today - timedelta(days=1), max_value=today, key="compare-to", width=150)
    if first > last:
        st.warning(texts.LIVE_FROM_AFTER_TO)
    elif (last - first).days >= MAX_DAYS:
        st.warning(texts.live_too_many_days(MAX_DAYS))
    else:
        return first, last
    return None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), zone()).astimezone(UTC)


def _shown(moment: datetime) -> str:
    return moment.astimezone(zone()).strftime("%Y-%m-%d %H:%M")


def read(presence: Presence, since: datetime, until: datetime, first: date, last: date) -> Days:
    """Read the samples. first, last: days in UTC, for unique users."""
    begin, end = (datetime.combine(day, time(), UTC) for day in (first, last + timedelta(days=1)))
    return Days(
        tuple(_samples(presence, since, until, HOUR)),
        tuple(_samples(presence, since - WEEK, until - WEEK, HOUR)),
        tuple(_samples(presence, begin, end, DAY)),
        tuple(_samples(presence, begin - WEEK, end - WEEK, DAY)),
    )


def _samples(presence: Presence, since: datetime, until: datetime, step: int) -> list[Sample]:
    return chart_data.within(presence.history(since, until, step=step), since, until)


def _table(days: Days, since: datetime, until: datetime) -> None:
    now, before = chart_data.summary(days.hours, days.days), chart_data.summary(days.hours_before, days.days_before)
    rows = _rows(now, before)
    st.dataframe(
        {
            texts.LIVE_FIGURE: list(rows),
            texts.LIVE_THIS: [_number(figure) for figure, _ in rows.values()],
            texts.LIVE_WEEK_BEFORE: [_number(figure) for _, figure in rows.values()],
            texts.LIVE_CHANGE: [_change(chart_data.change(*both)) for both in rows.values()],
        },
        column_config={
            texts.LIVE_FIGURE: st.column_config.TextColumn(width=150),
            texts.LIVE_THIS: st.column_config.TextColumn(width=75, alignment="right"),
            texts.LIVE_WEEK_BEFORE: st.column_config.TextColumn(width=85, alignment="right"),
            texts.LIVE_CHANGE: st.column_config.TextColumn(width=60, alignment="right"),
        },
        hide_index=True,
        height="content",
        row_height=31,
        alt=texts.LIVE_COMPARE_LABEL,
        key="compare-table",
    )
    hours = round((until - since) / timedelta(hours=1))
    if now.hours < hours or before.hours < hours:
        st.caption(texts.live_incomplete(now.hours, hours, before.hours))
    st.download_button(
        texts.LIVE_CSV,
        chart_data.as_csv({"these_days": days.hours, "week_before": days.hours_before}),
        file_name=f"counts-{since:%Y-%m-%dT%H}Z-{until:%Y-%m-%dT%H}Z.csv",
        mime="text/csv",
        on_click="ignore",
        help=texts.LIVE_CSV_HELP,
    )
    made_here()


def _rows(now: PeriodSummary, before: PeriodSummary) -> dict[str, tuple[float | None, float | None]]:
    return {
        texts.LIVE_UNIQUES_DAY: (now.uniques, before.uniques),
        texts.LIVE_PEAK_USERS: (now.peak_users, before.peak_users),
        texts.LIVE_MEAN_USERS: (now.mean_users, before.mean_users),
        texts.LIVE_PEAK_SESSIONS: (now.peak_sessions, before.peak_sessions),
        texts.LIVE_LOGINS_COLUMN: (now.logins, before.logins),
        texts.LIVE_KICKS_COLUMN: (now.kicks, before.kicks),
    }


def _number(value: float | None) -> str:
    return texts.NO_VALUE if value is None else number(round(value))


def _change(share: float | None) -> str:
    return texts.NO_VALUE if share is None else f"{share:+.0%}"
