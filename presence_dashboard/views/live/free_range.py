"""A free range of the chart, typed or dragged over the chart. It is in the address, so that a link shows the same."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.shared_reads import now

Range = tuple[datetime, datetime]

SHORTEST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(days=731)
"""Counts are kept for two years at most."""

FIELDS: Final = ("from", "to")
"""Of the address: Unix seconds."""

_LATEST: Final = "live-latest"
_LEAVE: Final = "range-left"
_NUMBER: Final = "live-chart-number"
_PROBLEM: Final = "live-range-problem"


def chart_key(chosen: str) -> str:
    """The key of the chart. Another key forgets what was clicked or dragged."""
    return f"live-chart-{chosen}-{st.session_state.get(_NUMBER, 0)}"


def forget_selection() -> None:
    st.session_state[_NUMBER] = st.session_state.get(_NUMBER, 0) + 1


def free_range() -> Range | None:
    """The range of the address; None if it has none that can be shown."""
    found = [value for field in FIELDS if (value := st.query_params.get(field, "")).isascii() and value.isdecimal()]
    if len(found) < 2 or max(map(len, found)) > 10:
        return None
    since, until = (datetime.fromtimestamp(int(value), UTC) for value in found)
    if until > now() + SHORTEST or not since + SHORTEST <= until <= since + LONGEST:
        return None
    return since, until


def set_range(since: datetime, until: datetime) -> None:
    """Show this range: whole samples, at least a minute and not in the future."""
    until = min(until, now())
    if (short := SHORTEST - (until - since)) > timedelta():
        until = min(until + short / 2, now())
        since = min(since, until - SHORTEST)
    first = int(since.timestamp()) // 10 * 10
    last = max(-(-int(until.timestamp()) // 10) * 10, first + int(SHORTEST.total_seconds()))
    st.query_params["from"], st.query_params["to"] = str(first), str(last)
    st.session_state.pop(_PROBLEM, None)
    forget_selection()


def latest_choice(ranges: Collection[str], usual: str, *, is_free: bool) -> str:
    """Draw the choice of a range up to now. Returns it, or the one to return to while a free range is shown: then none
    is marked as chosen, by a widget of its own."""
    if is_free:
        st.segmented_control(texts.LIVE_RANGE, list(ranges), key=_LEAVE, on_change=_leave_for)
        before: str = st.session_state.get(_LATEST) or st.query_params.get("range", usual)
        return before if before in ranges else usual
    chosen = st.segmented_control(
        texts.LIVE_RANGE, list(ranges), default=usual, required=True, key="range", bind="query-params"
    )
    st.session_state[_LATEST] = chosen or usual  # an address may have an empty one
    return chosen or usual


def _leave_for() -> None:
    leave_range(st.session_state[_LEAVE])


def leave_range(latest: str) -> None:
    """Show the latest counts again: this range of them."""
    st.session_state["range"] = latest
    for field in FIELDS:
        st.query_params.pop(field, None)
    forget_selection()


def controls(shown: Range | None, latest: str) -> None:
    """Draw the choice of a free range, and the ways out of the one that is shown. latest: the range to return to."""
    since, until = (moment.astimezone(zone()).replace(tzinfo=None) for moment in shown) if shown else (None, None)
    number = st.session_state.get(_NUMBER, 0)
    with st.popover(_words(since, until) if since and until else texts.LIVE_OTHER_TIMES, type="secondary"):
        with st.form(f"live-times-{number}", border=False):
            for key, label, value in (
                ("live-from", texts.live_from(str(zone())), since),
                ("live-to", texts.live_to(str(zone())), until),
            ):
                minute = value.replace(second=0) if value else None
                st.datetime_input(label, minute, key=f"{key}-{number}", format="YYYY-MM-DD", width=240)
            st.form_submit_button(texts.LIVE_SHOW_TIMES, on_click=_show_typed, args=(number,))
        if _PROBLEM in st.session_state:
            st.warning(st.session_state[_PROBLEM])
    if shown:
        st.button(texts.LIVE_ZOOM_OUT, key="zoom-out", on_click=_zoom_out, args=(*shown, latest))
        st.button(texts.live_back_to(latest), key="leave-range", on_click=leave_range, args=(latest,))


def _words(since: datetime, until: datetime) -> str:
    shape = "%H:%M:%S" if until - since < timedelta(minutes=10) else "%H:%M"
    end = (
        until.strftime(shape) if since.date() == until.date() else texts.weekday_and_time(until, until.strftime(shape))
    )
    return f"{texts.weekday_and_time(since, since.strftime(shape))} – {end}"


def _show_typed(number: int) -> None:
    first, last = (st.session_state.get(f"{key}-{number}") for key in ("live-from", "live-to"))
    if first is None or last is None:
        st.session_state[_PROBLEM] = texts.LIVE_TIMES_MISSING
        return
    since, until = (moment.replace(tzinfo=zone()).astimezone(UTC) for moment in (first, last))
    if since >= min(until, now()):
        st.session_state[_PROBLEM] = texts.LIVE_TIMES_REVERSED
    elif until - since > LONGEST:
        st.session_state[_PROBLEM] = texts.LIVE_TIMES_LONG
    else:
        set_range(since, until)


def _zoom_out(since: datetime, until: datetime, latest: str) -> None:
    """Show twice as much, around the same time."""
    half = (until - since) / 2
    set_range(since - half, until + half) if 4 * half <= LONGEST else leave_range(latest)
