"""The logins of a part of the chart: how many, from where and on what, and the way to Sessions and History.

``latest_activity`` lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from presence_core import Sample
from presence_dashboard import access, texts
from presence_dashboard.components.buttons import button
from presence_dashboard.components.figures import show_placeholder
from presence_dashboard.components.session_facts import time_of_day
from presence_dashboard.data.session_query import facets_for
from presence_dashboard.data.store import open_store
from presence_dashboard.format import cut, name, number
from presence_dashboard.roles import Actor
from presence_dashboard.time_range import format_range
from presence_dashboard.views.live.free_range import forget_selection
from presence_dashboard.views.live.span_logins import (
    MOST,
    SPLITS,
    Record,
    SpanState,
    logins_counted,
    matches,
    split,
)

VALUES: Final = 6
"""Values of a field that are shown, before "and N more"."""

_SECTION: Final = 160  # pixels: two on a phone


def login_spike(state: SpanState, samples: Sequence[Sample], *, is_picked: bool) -> None:
    """Draw the logins of the span, for roles that may see people. is_picked: by a click, with a way back."""
    actor = access.with_right("people")
    if actor is None:
        return
    state.load(open_store())
    with st.container(border=True, gap="small", key="login-spike"):
        activity = state.reading.value
        if activity is None:
            show_placeholder(state.reading)
            return
        found = [record for record in activity.logins if matches(record, state.narrowed)]
        is_all = activity.is_whole or bool(state.narrowed)
        counted = 0 if is_all else logins_counted(samples, state.span)
        _head(state, max(len(found), counted), is_picked=is_picked)
        _splits(state, found, actor)
        if not activity.is_whole:
            st.caption(texts.live_span_most(number(MOST)))


def _head(state: SpanState, count: int, *, is_picked: bool) -> None:
    span = state.span
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{texts.live_logins(count, time_of_day(span.since), time_of_day(span.until))}**")
        for field, value in state.narrowed.items():
            words = texts.FLAG_WORDS[value] if field == "flag" else name(cut(value, 24))
            label = words if field == "flag" else texts.labelled(texts.FACET_LABELS[field], words)
            look = {"icon": ":material/close:", "icon_position": "right", "help": texts.CHIP_HELP}
            button(label, f"span-all-{field}", _widen, state, field, **look)
        st.space("stretch")
        time = format_range(span.since, span.until)
        sessions = {"login": time, **state.narrowed}
        st.page_link("views/sessions/sessions.py", label=texts.LIVE_SPAN_SESSIONS, query_params=sessions)
        history = {"view": "ended", "time": time}
        st.page_link("views/history/history.py", label=texts.LIVE_KICKS_HISTORY, query_params=history)
        if is_picked:
            st.button(texts.LIVE_KICKS_CLOSE, key="span-close", type="tertiary", on_click=forget_selection)


def _splits(state: SpanState, found: Sequence[Record], actor: Actor) -> None:
    """A part for each field that is not chosen yet, as in the filters of the Sessions page."""
    shown = {*facets_for(exact=bool(actor.masked)), "flag"}
    with st.container(horizontal=True, gap="small", key="span-splits"):
        for field in SPLITS:
            values, without = split(found, field)
            if not values or field in state.narrowed or field not in shown:
                continue
            with st.container(width=_SECTION, gap="xsmall"):
                st.markdown(f"**{texts.LABEL_FLAGS if field == 'flag' else texts.FACET_LABELS[field]}**")
                with st.container(gap=None):
                    for value, count in values[:VALUES]:
                        label = texts.facet_value(_words(field, value, found), number(count))
                        button(label, f"span-{field}-{value}", _narrow, state, field, value, type="tertiary")
                if len(values) > VALUES:
                    st.caption(texts.and_more(number(len(values) - VALUES)))
                if without and field != "flag":
                    st.caption(texts.facet_value(texts.LIVE_NOT_GIVEN, number(without)))


def _narrow(state: SpanState, field: str, value: str) -> None:
    state.narrowed[field] = value


def _widen(state: SpanState, field: str) -> None:
    state.narrowed.pop(field, None)


def _words(field: str, value: str, found: Sequence[Record]) -> str:
    """A value in words, safe for Markdown: of a network also its name."""
    if field == "flag":
        return texts.FLAG_WORDS[value]
    if field == "network":
        known = next(record.place for record in found if record.place and record.place.network_id == value)
        return name(cut(texts.provider(known.network, value), 40))
    return name(cut(value, 40))
