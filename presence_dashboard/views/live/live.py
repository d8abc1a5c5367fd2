"""The Live page: counts now and over time, by device, app and browser, and the latest activity. A Streamlit script."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from operator import methodcaller
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types
import streamlit as st

from presence_core import Counts, Presence, Sample, Unavailable, WorkerStatus
from presence_core.models.history import ends_of
from presence_dashboard import access, texts
from presence_dashboard.components.figures import metric, show_placeholder
from presence_dashboard.components.page_header import mirror_notice
from presence_dashboard.components.time_picker import address_choice
from presence_dashboard.data import chart_data
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.chart_data import RANGES, ChartSeries, ChartWindow, CountKind
from presence_dashboard.data.shared_reads import now, shared
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.format import DAY, HOUR, MINUTE, exact, literal, number, span
from presence_dashboard.language import gettext
from presence_dashboard.texts import english
from presence_dashboard.views.live import count_chart, free_range
from presence_dashboard.views.live.kicks_at import kicks_at
from presence_dashboard.views.live.latest_activity import latest_activity
from presence_dashboard.views.live.login_spike import login_spike
from presence_dashboard.views.live.span_logins import Span, show_span, shown_span, span_at
from presence_dashboard.views.live.split_chart import bar_picked, split_chart
from presence_dashboard.views.live.top_people import top_people
from presence_dashboard.views.live.usual_hours import usual_hours
from presence_dashboard.views.live.week_comparison import week_comparison

access.stop_without_gate()

COMPARISONS: Final = {english.LIVE_GHOST_NONE: 0, english.LIVE_GHOST_DAY: DAY, english.LIVE_GHOST_WEEK: 7 * DAY}
USUAL: Final = "1h"
_LINES: Final[dict[str, CountKind]] = {english.USERS: "users", english.SESSIONS: "sessions"}
_WHOLE: Final = "live-whole-run"
_LISTED: Final = "live-listed-span"
_SLOW: Final = 59.5
"""Seconds for which samples of an earlier day are shared. They do not change."""

_NOTICES: Final = 29.5
"""Seconds for which the number of users who have denied a login is shared."""


def page() -> None:
    # Each fragment needs its own container: in a shared one it may vanish during a rerun.
    with st.container(key="mirrored"):
        mirror_notice()
    top = st.container()
    with st.skeleton(height=520):
        _minutes(now())
    with top:
        st.session_state[_WHOLE] = True
        st.fragment(_figures, run_every=this_tab().tick)()
    if not access.current().may("people"):
        _sessions_by_value()
        week_comparison()
        usual_hours()
        return
    left, right = st.columns(2, gap="medium")
    with left, st.container():
        st.fragment(latest_activity, run_every=this_tab().tick)()
    with right, st.container():
        week_comparison()
    _sessions_by_value()
    with st.container(key="top-people"):
        top_people()
    usual_hours()


def _figures() -> None:
    """The figures and the chart. A choice in it redraws the whole page: the list of logins and ends is outside."""
    is_whole = st.session_state.pop(_WHOLE, False)
    _counts()
    _freshness()
    _chart()
    state = shown_span()
    key, before = state.key if state else None, st.session_state.get(_LISTED)
    st.session_state[_LISTED] = key
    if key != before and not is_whole:
        st.rerun()


def _sessions_by_value() -> None:
    with st.container():
        st.fragment(_breakdown, run_every=this_tab().tick)()


def _history(presence: Presence, until: datetime, back: int, step: int) -> list[Sample]:
    return presence.history(until - timedelta(seconds=back), step=step)


def _minutes(moment: datetime) -> Reading[list[Sample]]:
    """The samples of the last hour, by the minute."""
    return shared("live-minutes", lambda presence: _history(presence, moment, HOUR, MINUTE))


def _today(moment: datetime) -> Reading[list[Sample]]:
    """The samples since midnight in the reader's time zone."""
    midnight = moment.astimezone(zone()).replace(hour=0, minute=0, second=0, microsecond=0)
    return shared(
        ("live-today", midnight.timestamp()), lambda presence: presence.history(midnight, step=15 * MINUTE), keep=29.5
    )


# -- Counts ------------------------------------------------------------------------------------------------------------


def _counts() -> None:
    moment, counts = now(), open_store().counts().value
    minutes, today = _minutes(moment).value or [], _today(moment).value or []
    full = [sample for sample in minutes if sample.complete]
    last = chart_data.last_whole(full, moment)
    peak, peak_help = _peak(counts, today, moment)
    with st.grid(6, min_column_width=132, gap="xsmall", key="live-counts"):
        _metric(texts.USERS, counts.users if counts else None, [sample.users for sample in minutes], texts.USERS_HELP)
        _metric(
            texts.SESSIONS,
            counts.sessions if counts else None,
            [sample.sessions for sample in minutes],
            texts.SESSIONS_HELP,
        )
        _metric(
            texts.LIVE_LOGINS,
            last.logins if last else None,
            [sample.logins for sample in full],
            texts.LIVE_LOGINS_HELP,
        )
        _metric(
            texts.LIVE_ENDS,
            ends_of(last) if last else None,
            [*map(ends_of, full)],
            texts.LIVE_ENDS_HELP,
        )
        _metric(
            texts.LIVE_FAILED,
            last.failed_logins if last else None,
            [sample.failed_logins for sample in full],
            texts.LIVE_FAILED_HELP,
        )
        _metric(texts.LIVE_PEAK, peak, [sample.users_max for sample in today], peak_help)


def _metric(label: str, value: int | None, history: list[int], help_text: str) -> None:
    metric(label, texts.NO_VALUE if value is None else number(value), help_text, history)


def _peak(counts: Counts | None, today: list[Sample], moment: datetime) -> tuple[int | None, str]:
    """The peak of today, and a help text with its time in the reader's time zone."""
    peaks = [(sample.users_max, sample.at) for sample in today] + ([(counts.users, moment)] if counts else [])
    if not peaks:
        return None, texts.LIVE_PEAK_HELP
    most, at = max(peaks, key=lambda peak: peak[0])
    return most, texts.live_peak_help(at.astimezone(zone()).strftime("%H:%M"))


def _worker() -> Reading[WorkerStatus | None]:
    return shared("worker", methodcaller("worker_status"))


def _freshness() -> None:
    counts = open_store().counts()
    reading = _worker()
    worker = reading.value
    if counts.value is not None:
        st.caption(texts.updated_ago(span(counts.age)))
    if reading.failure is None and (worker is None or not worker.alive):
        st.warning(texts.live_no_worker(span((now() - worker.beat).total_seconds()) if worker else None))
    for alert in worker.alerts if worker else ():
        st.warning(texts.live_alert(alert))
    denied = shared("denied-logins", _denied_logins, keep=_NOTICES).value
    if denied:
        st.warning(texts.live_denied(denied))


def _denied_logins(presence: Presence) -> int:
    """Users who have said today or yesterday that a login was not theirs."""
    try:
        return presence.notices().not_me_today
    except Unavailable as error:
        if error.code != "NOPERM":  # an ACL user of an earlier version may not read that key
            raise
        return 0


# -- The chart ---------------------------------------------------------------------------------------------------------


def _chart() -> None:
    st.markdown(f"**{texts.LIVE_CHART}**")
    free = free_range.free_range()
    chosen, show, compared_with, as_table = _choices(free)
    window = ChartWindow.free(*free) if free else ChartWindow.latest(chosen, now())
    reading = shared(("live-curve", window.name), window.curve, keep=window.keep)
    if reading.value is None:
        show_placeholder(reading)
        return
    curve = reading.value
    if not curve.samples:
        _no_samples()
        return
    earlier = _earlier(window, COMPARISONS[compared_with])
    step = curve.samples[-1].step
    end = curve.samples[-1].at + timedelta(seconds=step) if reading.failure else window.until
    end_ms = end.timestamp() * 1000
    picked = count_chart.draw_count_chart(
        free_range.chart_key(window.name),
        show,
        curve.table,
        earlier.table if earlier else None,
        (end_ms - window.seconds * 1000, end_ms),
        free_range.set_range,
    )
    caption = [
        texts.live_key(_key(curve, compared_with, earlier), span(step), str(zone())),
        *_in_words(curve, show, window.seconds),
    ]
    if reading.failure is not None:
        caption.append(texts.updated_ago(span(reading.age)))
    st.caption("  \n".join(caption))
    picked = picked or bar_picked()
    if picked is not None:
        kicks_at(curve.samples, picked, window.seconds)
    chosen_span = span_at(curve.samples, picked) if picked is not None else Span(*free) if free else None
    state = show_span(chosen_span)
    if state is not None:
        login_spike(state, curve.samples, is_picked=picked is not None)
    split_chart(window, curve.samples, (end_ms - window.seconds * 1000, end_ms))
    if as_table:
        _as_table(curve, show)


def _choices(free: free_range.Range | None) -> tuple[str, tuple[CountKind, ...], str, bool]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", width="content"):
            chosen = free_range.latest_choice(RANGES, USUAL, is_free=free is not None)
            free_range.controls(free, chosen)
        lines = st.pills(
            texts.LIVE_SHOWN,
            list(_LINES),
            format_func=gettext,
            selection_mode="multi",
            default=list(_LINES),
            key="lines",
            persist_state="session",
        )
        earlier = _comparison()
        as_table = st.toggle(texts.LIVE_AS_TABLE, key="live-as-table")
    show = tuple(kind for label, kind in _LINES.items() if label in lines)
    return chosen, show or ("users",), earlier, as_table


def _comparison() -> str:
    """The choice of an earlier day. It is in the address in English, so that a link works in each language."""
    labels, usual = {label: gettext(label) for label in COMPARISONS}, english.LIVE_GHOST_DAY
    return address_choice("ghost", "ghost", texts.LIVE_GHOST, labels, default=usual, left_out=usual)


def _earlier(window: ChartWindow, shift: int) -> ChartSeries | None:
    """The same range of an earlier day, drawn under this one; None if not wanted or without samples."""
    if not shift:
        return None
    reading = shared(("live-ghost", window.name, shift), lambda presence: window.earlier(presence, shift), keep=_SLOW)
    return reading.value if reading.value and reading.value.samples else None


def _key(curve: ChartSeries, compared_with: str, earlier: ChartSeries | None) -> list[str]:
    parts = []
    if COMPARISONS[compared_with]:
        parts.append((texts.LIVE_KEY_GHOST if earlier else texts.LIVE_KEY_NO_GHOST)[compared_with])
    if chart_data.is_running(curve.samples[-1]):
        parts.append(texts.LIVE_KEY_RUNNING)
    if any(sample.kicked for sample in curve.samples):
        parts.append(texts.LIVE_KEY_KICKS if access.may("people") else texts.LIVE_KEY_KICKS_COUNTED)
    return [*parts, *([texts.LIVE_KEY_LOGINS] if access.may("people") else []), texts.LIVE_KEY_ZOOM]


def _in_words(curve: ChartSeries, show: tuple[CountKind, ...], seconds: float) -> Iterator[str]:
    """The chart in words, for readers who cannot see it."""

    def words(at: datetime) -> str:
        return texts.weekday_and_time(at, f"{at:%H:%M}") if seconds > DAY else f"{at:%H:%M}"

    def when(sample: Sample) -> str:
        begin = sample.at.astimezone(zone())
        end = (sample.at + timedelta(seconds=sample.step)).astimezone(zone())
        if sample.step <= 60:
            return texts.live_at(words(begin))
        return texts.live_between(words(begin), f"{end:%H:%M}" if end.date() == begin.date() else words(end))

    for label, kind in _LINES.items():
        found = chart_data.extent(curve.samples, kind) if kind in show else None
        if found is not None:
            low_when, high_when = when(found.low_in), when(found.high_in)
            low, high, latest = (number(int(value)) for value in (found.low, found.high, found.latest))
            yield texts.live_summary(gettext(label), low, low_when, high, high_when, latest)


def _as_table(curve: ChartSeries, show: tuple[CountKind, ...]) -> None:
    newest = curve.samples[::-1]
    time_zone = zone()
    columns: dict[str, list[object]] = {
        texts.LIVE_AT: [sample.at.astimezone(time_zone).strftime("%Y-%m-%d %H:%M:%S") for sample in newest],
        texts.LIVE_AT_UTC: [exact(sample.at) for sample in newest],
    }
    for line, kind in _LINES.items():
        label = gettext(line)
        if kind in show:
            columns[label] = [chart_data.level(sample, kind) for sample in newest]
            columns[f"{label}: {texts.LIVE_LEAST}"] = [getattr(sample, f"{kind}_min") for sample in newest]
            columns[f"{label}: {texts.LIVE_MOST}"] = [getattr(sample, f"{kind}_max") for sample in newest]
    columns[texts.LIVE_LOGINS_COLUMN] = [chart_data.known(sample, sample.logins) for sample in newest]
    columns[texts.LIVE_ENDS_COLUMN] = [chart_data.known(sample, ends_of(sample)) for sample in newest]
    for field, label in {**texts.LIVE_REASONS, **texts.LIVE_ODD, **texts.LIVE_FAILED_COLUMN}.items():
        columns[label] = [chart_data.known(sample, getattr(sample, field)) for sample in newest]
    st.dataframe(columns, hide_index=True, height=320, alt=texts.LIVE_TABLE_LABEL)


def _no_samples() -> None:
    if _minutes(now()).value:
        st.info(texts.LIVE_NONE_IN_RANGE)
        return
    worker = _worker().value
    with st.container(border=True, key="no-samples"):
        st.subheader(texts.LIVE_NO_SAMPLES_TITLE, anchor=False)
        st.markdown(texts.LIVE_NO_SAMPLES)
        if worker is None or not worker.alive:
            st.markdown(texts.LIVE_START_ONE)
            st.code(texts.LIVE_NO_SAMPLES_CODE, language="bash")


# -- Sessions by device, app and browser -------------------------------------------------------------------------------


def _breakdown() -> None:
    counts = open_store().counts().value
    if counts is None:
        return
    labels = {"device": texts.LABEL_DEVICE, "app": texts.LABEL_APP, "browser": texts.LABEL_BROWSER}
    title = texts.LIVE_BREAKDOWN
    if not access.sees_names():
        del labels["device"]
        title = texts.LIVE_BREAKDOWN_NO_DEVICES
    st.markdown(f"**{title}**")
    if not counts.sessions:
        st.caption(texts.LIVE_NO_ONE)
        return
    with st.grid(len(labels), min_column_width=260, gap="small", key="breakdown"):
        for field, label in labels.items():
            reading: Reading[dict[str, int]] = shared(("facets", field), methodcaller("facets", field))
            if reading.value is not None:
                _shares(label, chart_data.shares(reading.value, counts.sessions))
            else:
                show_placeholder(reading)


def _shares(label: str, found: list[chart_data.FacetShare]) -> None:
    names = [
        texts.live_other(share.values) if share.value is None else literal(share.value) or texts.LIVE_NOT_GIVEN
        for share in found
    ]
    columns = {
        label: names,
        texts.LIVE_SHARE: [100 * share.share for share in found],
        texts.SESSIONS: [share.sessions for share in found],
    }
    st.dataframe(
        pa.table(columns),  # a dict would go through pandas and take ten times as long
        column_config={
            label: st.column_config.TextColumn(width=112),
            texts.LIVE_SHARE: st.column_config.ProgressColumn(format="%.0f%%", min_value=0, max_value=100, width=88),
            texts.SESSIONS: st.column_config.NumberColumn(format="localized", width=66),
        },
        hide_index=True,
        height="content",
        row_height=31,
        alt=f"{texts.LIVE_BREAKDOWN}: {label}",
    )


page()
