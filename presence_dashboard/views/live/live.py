"""The Live page: how many are online, now and over time, on what, and who came and went. Streamlit runs this file as a
script of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from operator import methodcaller
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types
import streamlit as st

from presence_core import Counts, Presence, Sample, WorkerStatus
from presence_dashboard import access, figures, texts
from presence_dashboard.figures import RANGES, Curve, Range, What
from presence_dashboard.format import DAY, HOUR, MINUTE, code, exact, literal, number, span
from presence_dashboard.readings import now, shared
from presence_dashboard.store import Reading, open_store
from presence_dashboard.tab import this_tab, zone
from presence_dashboard.views import charts
from presence_dashboard.views.compare import compare
from presence_dashboard.views.feed import feed
from presence_dashboard.views.pending import not_yet

access.stop_without_gate()

GHOSTS: Final = {texts.LIVE_GHOST_NONE: 0, texts.LIVE_GHOST_DAY: DAY, texts.LIVE_GHOST_WEEK: 7 * DAY}
FIELDS: Final = {"device": texts.LIVE_BY_DEVICE, "app": texts.LIVE_BY_APP, "browser": texts.LIVE_BY_BROWSER}
_LINES: Final[dict[str, What]] = {texts.USERS: "users", texts.SESSIONS: "sessions"}
_SLOW: Final = 59.5
"""Seconds for which the past is shared: it does not change."""


def page() -> None:
    # Each alone in a container of its own: a fragment that shares one may vanish when it meets a rerun.
    top = st.container()
    with st.skeleton(height=520):
        _minutes(now())
    with top:
        st.fragment(_figures, run_every=this_tab().tick)()
    if not access.current().may("people"):
        compare()
        return
    left, right = st.columns(2, gap="medium")
    with left, st.container():
        st.fragment(feed, run_every=this_tab().tick)()
    with right, st.container():
        compare()


def _figures() -> None:
    _strip()
    _freshness()
    _chart()
    _breakdown()


def _history(presence: Presence, until: datetime, back: int, step: int) -> list[Sample]:
    return presence.history(until - timedelta(seconds=back), step=step)


def _minutes(moment: datetime) -> Reading[list[Sample]]:
    """The last hour."""
    return shared("live-minutes", lambda presence: _history(presence, moment, HOUR, MINUTE))


def _today(moment: datetime) -> Reading[list[Sample]]:
    """Since midnight, by the reader's clock."""
    midnight = moment.astimezone(zone()).replace(hour=0, minute=0, second=0, microsecond=0)
    return shared(
        ("live-today", midnight.timestamp()), lambda presence: presence.history(midnight, step=15 * MINUTE), keep=29.5
    )


# -- The strip ---------------------------------------------------------------------------------------------------------


def _strip() -> None:
    moment, counts = now(), open_store().counts().value
    minutes, today = _minutes(moment).value or [], _today(moment).value or []
    whole = [one for one in minutes if one.complete]
    last = figures.last_whole(whole, moment)
    peak, peak_help = _peak(counts, today, moment)
    with st.grid(5, min_column_width=132, gap="xsmall", key="live-strip"):
        _metric(texts.USERS, counts.users if counts else None, [one.users for one in minutes], texts.USERS_HELP)
        _metric(
            texts.SESSIONS, counts.sessions if counts else None, [one.sessions for one in minutes], texts.SESSIONS_HELP
        )
        _metric(texts.LIVE_LOGINS, last.logins if last else None, [one.logins for one in whole], texts.LIVE_LOGINS_HELP)
        _metric(
            texts.LIVE_ENDS, figures.ends(last) if last else None, [*map(figures.ends, whole)], texts.LIVE_ENDS_HELP
        )
        _metric(texts.LIVE_PEAK, peak, [one.users_max for one in today], peak_help)


def _metric(label: str, value: int | None, history: list[int], explained: str) -> None:
    st.metric(
        label,
        texts.NO_VALUE if value is None else number(value),
        help=explained,
        border=True,
        height="stretch",
        delta_color="off",
        chart_data=history if len(history) > 1 else None,
    )


def _peak(counts: Counts | None, today: list[Sample], moment: datetime) -> tuple[int | None, str]:
    """And when it was, by the reader's clock."""
    found = [(one.users_max, one.at) for one in today] + ([(counts.users, moment)] if counts else [])
    if not found:
        return None, texts.LIVE_PEAK_HELP
    most, at = max(found, key=lambda one: one[0])
    return most, texts.live_peak_help(at.astimezone(zone()).strftime("%H:%M"))


def _worker() -> Reading[WorkerStatus | None]:
    return shared("worker", methodcaller("worker_status"))


def _freshness() -> None:
    counts = open_store().counts()
    reading = _worker()
    worker = reading.value
    parts = [texts.live_exact_as_of(span(counts.age))] if counts.value is not None else []
    if worker is not None and worker.alive:
        parts.append(texts.live_lag(f"{worker.lag_seconds:.1f} s"))
        parts.append(texts.live_worker(code(worker.leader)))
    if parts:
        st.caption(" · ".join(parts))
    if reading.failure is None and (worker is None or not worker.alive):
        st.warning(texts.live_no_worker(span((now() - worker.beat).total_seconds()) if worker else None))


# -- The chart ---------------------------------------------------------------------------------------------------------


def _chart() -> None:
    st.markdown(f"**{texts.LIVE_CHART}**")
    chosen, show, ghost_name, as_table = _choices()
    reach, moment = RANGES[chosen], now()
    reading = shared(
        ("live-curve", chosen),
        lambda presence: figures.curve(_history(presence, moment, reach.seconds, reach.step)),
        keep=reach.keep,
    )
    if reading.value is None:
        not_yet(reading)
        return
    curve = reading.value
    if not curve.samples:
        _no_samples()
        return
    ghost = _ghost(chosen, reach, GHOSTS[ghost_name], moment)
    end = curve.samples[-1].at + timedelta(seconds=reach.step) if reading.failure else moment
    end_ms = end.timestamp() * 1000
    charts.draw(show, curve.table, ghost.table if ghost else None, (end_ms - reach.seconds * 1000, end_ms))
    words = [
        texts.live_key(_key(curve, ghost_name, ghost), span(reach.step), str(zone())),
        *_in_words(curve, show, chosen),
    ]
    if reading.failure is not None:
        words.append(texts.live_read_ago(span(reading.age)))
    st.caption("  \n".join(words))
    if as_table:
        _as_table(curve, show)


def _choices() -> tuple[str, tuple[What, ...], str, bool]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        chosen = st.segmented_control(
            texts.LIVE_RANGE, list(RANGES), default="1h", required=True, key="range", bind="query-params"
        )
        lines = st.pills(
            texts.LIVE_SHOWN,
            list(_LINES),
            selection_mode="multi",
            default=list(_LINES),
            key="lines",
            persist_state="session",
        )
        ghost = st.segmented_control(
            texts.LIVE_GHOST,
            list(GHOSTS),
            default=texts.LIVE_GHOST_DAY,
            required=True,
            key="ghost",
            bind="query-params",
        )
        as_table = st.toggle(texts.LIVE_AS_TABLE, key="live-as-table")
    show = tuple(what for label, what in _LINES.items() if label in lines)
    return chosen, show or ("users",), ghost, as_table


def _ghost(chosen: str, reach: Range, shift: int, moment: datetime) -> Curve | None:
    """The same stretch of an earlier day, drawn over this one; None where none is wanted, or none was sampled."""
    if not shift:
        return None
    until = moment - timedelta(seconds=shift)
    since = until - timedelta(seconds=reach.seconds)
    reading = shared(
        ("live-ghost", chosen, shift),
        lambda presence: figures.curve(presence.history(since, until, step=reach.ghost_step), shift),
        keep=_SLOW,
    )
    return reading.value if reading.value and reading.value.samples else None


def _key(curve: Curve, ghost_name: str, ghost: Curve | None) -> list[str]:
    parts = []
    if GHOSTS[ghost_name]:
        parts.append((texts.LIVE_KEY_GHOST if ghost else texts.LIVE_KEY_NO_GHOST)[ghost_name])
    if not curve.samples[-1].complete:
        parts.append(texts.LIVE_KEY_RUNNING)
    if any(one.kicked for one in curve.samples):
        parts.append(texts.LIVE_KEY_KICKS)
    return parts


def _in_words(curve: Curve, show: tuple[What, ...], chosen: str) -> Iterator[str]:
    """What the chart shows, for who cannot see it."""
    shape = "%a %d %b %H:%M" if RANGES[chosen].seconds > DAY else "%H:%M"
    for label, what in _LINES.items():
        found = figures.extent(curve.samples, what) if what in show else None
        if found is not None:
            low_at, high_at = (at.astimezone(zone()).strftime(shape) for at in (found.low_at, found.high_at))
            low, high, latest = (number(int(one)) for one in (found.low, found.high, found.latest))
            yield texts.live_summary(label, low, low_at, high, high_at, latest)


def _as_table(curve: Curve, show: tuple[What, ...]) -> None:
    newest = curve.samples[::-1]
    here = zone()
    columns: dict[str, list[object]] = {
        texts.LIVE_AT: [one.at.astimezone(here).strftime("%Y-%m-%d %H:%M:%S") for one in newest],
        texts.LIVE_AT_UTC: [exact(one.at) for one in newest],
    }
    for label, what in _LINES.items():
        if what in show:
            columns[label] = [figures.level(one, what) for one in newest]
            columns[f"{label}: {texts.LIVE_LEAST}"] = [getattr(one, f"{what}_min") for one in newest]
            columns[f"{label}: {texts.LIVE_MOST}"] = [getattr(one, f"{what}_max") for one in newest]
    columns[texts.LIVE_LOGINS_COLUMN] = [one.logins for one in newest]
    columns[texts.LIVE_ENDS_COLUMN] = [figures.ends(one) for one in newest]
    columns[texts.LIVE_KICKS_COLUMN] = [one.kicked for one in newest]
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


# -- On what -----------------------------------------------------------------------------------------------------------


def _breakdown() -> None:
    counts = open_store().counts().value
    if counts is None:
        return
    st.markdown(f"**{texts.LIVE_BREAKDOWN}**")
    if not counts.sessions:
        st.caption(texts.LIVE_NOBODY)
        return
    with st.grid(3, min_column_width=260, gap="small", key="breakdown"):
        for field, label in FIELDS.items():
            reading: Reading[dict[str, int]] = shared(("facets", field), methodcaller("facets", field))
            if reading.value is not None:
                _shares(label, figures.shares(reading.value, counts.sessions))
            else:
                not_yet(reading)


def _shares(label: str, found: list[figures.Share]) -> None:
    names = [
        texts.live_other(one.values) if one.value is None else literal(one.value) or texts.LIVE_NOT_TOLD
        for one in found
    ]
    columns = {
        label: names,
        texts.LIVE_SHARE: [100 * one.share for one in found],
        texts.SESSIONS: [one.sessions for one in found],
    }
    st.dataframe(
        pa.table(columns),  # a dict would go through pandas, which takes ten times as long
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
