"""Any days against the same days a week before. Drawn when somebody asks; it does not renew itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import streamlit as st

from presence_core import Presence, Sample
from presence_dashboard import figures, texts
from presence_dashboard.figures import MOST_DAYS, WEEK, Summary
from presence_dashboard.format import DAY, HOUR, number
from presence_dashboard.readings import shared
from presence_dashboard.tab import zone
from presence_dashboard.views.pending import not_yet

KEEP: Final = 59.5


@dataclass(frozen=True, slots=True)
class Days:
    """Hours, and whole days for the uniques, of both weeks."""

    hours: tuple[Sample, ...]
    hours_before: tuple[Sample, ...]
    days: tuple[Sample, ...]
    days_before: tuple[Sample, ...]


def compare() -> None:
    """Call it alone in a container of its own."""
    st.fragment(_compare)()


def _compare() -> None:
    st.markdown(f"**{texts.LIVE_COMPARE}**")
    today = datetime.now(zone()).date()
    days = _chosen(today)
    if days is None:
        return
    first, last = days
    begin, end = _midnight(first), _midnight(last + timedelta(days=1))
    since, until = figures.whole_hours(begin, end, datetime.now(UTC))
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
        not_yet(reading)
        return
    _table(reading.value, since, until)


def _chosen(today: date) -> tuple[date, date] | None:
    presets = {
        texts.LIVE_TODAY: (today, today),
        texts.LIVE_YESTERDAY: (today - timedelta(days=1), today - timedelta(days=1)),
        texts.LIVE_SEVEN_DAYS: (today - timedelta(days=7), today - timedelta(days=1)),
    }
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = st.segmented_control(
            texts.LIVE_PRESET,
            [*presets, texts.LIVE_OTHER_DAYS],
            default=texts.LIVE_TODAY,
            required=True,
            key="compare-days",
            wrap=True,
            label_visibility="collapsed",
        )
        if chosen in presets:
            return presets[chosen]
        first = st.date_input(
            texts.LIVE_FROM, today - timedelta(days=1), max_value=today, key="compare-from", width=150
        )
        last = st.date_input(texts.LIVE_TO, today - timedelta(days=1), max_value=today, key="compare-to", width=150)
    if first > last:
        st.error(texts.LIVE_FROM_AFTER_TO)
    elif (last - first).days >= MOST_DAYS:
        st.error(texts.live_too_many_days(MOST_DAYS))
    else:
        return first, last
    return None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), zone()).astimezone(UTC)


def _shown(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def read(presence: Presence, since: datetime, until: datetime, first: date, last: date) -> Days:
    """first, last: the days as UTC knows them, of which uniques are kept."""
    begin, end = (datetime.combine(day, time(), UTC) for day in (first, last + timedelta(days=1)))
    return Days(
        tuple(_samples(presence, since, until, HOUR)),
        tuple(_samples(presence, since - WEEK, until - WEEK, HOUR)),
        tuple(_samples(presence, begin, end, DAY)),
        tuple(_samples(presence, begin - WEEK, end - WEEK, DAY)),
    )


def _samples(presence: Presence, since: datetime, until: datetime, step: int) -> list[Sample]:
    return figures.within(presence.history(since, until, step=step), since, until)


def _table(days: Days, since: datetime, until: datetime) -> None:
    now, before = figures.summary(days.hours, days.days), figures.summary(days.hours_before, days.days_before)
    rows = _rows(now, before)
    st.dataframe(
        {
            texts.LIVE_WHAT: list(rows),
            texts.LIVE_THIS: [_number(one) for one, _ in rows.values()],
            texts.LIVE_WEEK_BEFORE: [_number(one) for _, one in rows.values()],
            texts.LIVE_CHANGE: [_change(figures.change(*both)) for both in rows.values()],
        },
        column_config={
            texts.LIVE_WHAT: st.column_config.TextColumn(width=150),
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
        figures.as_csv({"these_days": days.hours, "week_before": days.hours_before}),
        file_name=f"counts-{since:%Y-%m-%dT%H}Z-{until:%Y-%m-%dT%H}Z.csv",
        mime="text/csv",
        on_click="ignore",
        help=texts.LIVE_CSV_HELP,
    )


def _rows(now: Summary, before: Summary) -> dict[str, tuple[float | None, float | None]]:
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
