"""The second chart of the Live page: ends by reason, flagged logins, or sessions by app or device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, Final, cast

import altair as alt
import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]
import streamlit as st

from presence_core import Sample
from presence_dashboard import access, language, texts
from presence_dashboard.components.figures import show_placeholder
from presence_dashboard.components.time_picker import address_choice
from presence_dashboard.data import chart_data
from presence_dashboard.data.chart_data import ChartWindow, Split, SplitField
from presence_dashboard.data.shared_reads import shared
from presence_dashboard.data.store import Reading
from presence_dashboard.format import cut, literal, name, number, span
from presence_dashboard.views.live.count_chart import GREY, RED, Layer, edges_table, moment, time_axis, value_scale
from presence_dashboard.views.live.failed_split import failed_split
from presence_dashboard.views.live.free_range import chart_key, forget_selection

HEIGHT: Final = 220
KEEP: Final = 59.5

_PICKS: Final = "logins"
"""The split of which a bar can be clicked."""

_PICKED: Final = "picked"
_BAR: Final = "live-bar"

_COLOURS: Final[dict[str, str]] = {"logouts": "#3f7cac", "expired": GREY, "replaced": "#b7791f", "kicked": RED}
"""Of the ends. Red means a kick, as in the first chart."""


def split_chart(window: ChartWindow, samples: Sequence[Sample], edges: tuple[float, float]) -> None:
    """Draw the choice of a split, and its chart. samples: of the first chart. edges: of the range in Unix ms."""
    options = dict(texts.LIVE_SPLITS)
    if not access.sees_names():
        del options["devices"]
        if st.session_state.get("split") == "devices":  # chosen with another role
            del st.session_state["split"]
    kind = address_choice("split", "split", texts.LIVE_SPLIT, options, wrap=True)
    if kind == "reason":
        split = chart_data.events_by(tuple(_COLOURS), samples)
        _draw_events(kind, split, edges, texts.LIVE_REASONS, texts.LIVE_NO_ENDS, texts.live_split_ends)
    elif kind == "logins":
        split = chart_data.events_by(("logins",), samples)
        words = {"logins": texts.LIVE_LOGINS_COLUMN}
        _draw_events(kind, split, edges, words, texts.LIVE_NO_LOGINS, texts.live_split_odd)
    elif kind == "odd":
        split = chart_data.events_by(chart_data.ODD, samples)
        _draw_events(kind, split, edges, texts.LIVE_ODD, texts.LIVE_NO_ODD, texts.live_split_odd)
    elif kind == "failed":
        split = chart_data.events_by(("failed_logins",), samples)
        words = texts.LIVE_FAILED_COLUMN
        _draw_events(kind, split, edges, words, texts.LIVE_FAILED_NONE, texts.live_split_failed)
        failed_split(window)
    elif kind in options and kind:
        _draw_sessions(cast("SplitField", kind), window, edges)


def _draw_events(
    kind: str,
    split: Split,
    edges: tuple[float, float],
    words: Mapping[str, str],
    none: str,
    in_words: Callable[[list[str], str], str],
) -> None:
    if not split.table.num_rows:
        st.caption(none)
        return
    labels = [words[value] for value in split.table["value"].to_pylist()]
    _draw(kind, _labelled(split.table, labels), edges)
    parts = [texts.live_split_part(texts.LIVE_IN_A_LIST[value], number(count)) for value, count in split.totals]
    st.caption(in_words(parts, span(split.step)))


def _draw_sessions(field: SplitField, window: ChartWindow, edges: tuple[float, float]) -> None:
    reading: Reading[list[Sample]] = shared(("live-hours", window.name), window.hours, keep=KEEP)
    if reading.value is None:
        show_placeholder(reading)
        return
    split = chart_data.sessions_by(field, reading.value)
    if not split.table.num_rows:
        st.caption(texts.LIVE_NO_SPLIT)
        return
    _draw(field, _labelled(split.table, [_plain(value) for value in split.table["value"].to_pylist()]), edges)
    parts = [
        texts.live_split_part(name(cut(value, 40)) if value else texts.LIVE_NOT_GIVEN, number(count))
        for value, count in split.totals
    ]
    if parts:
        st.caption(texts.live_split_sessions(parts))


def _plain(value: str) -> str:
    """A name that visitors chose, for the chart, which shows plain text."""
    return cut(literal(value), 40) if value else texts.LIVE_NOT_GIVEN


def _labelled(table: pa.Table, labels: list[str]) -> pa.Table:
    return table.set_column(table.column_names.index("value"), "value", pa.array(labels, pa.string()))


def _within(rows: pa.Table, edges: tuple[float, float]) -> pa.Table:
    """The bars cut at the edges, so that this chart has the same times as the first one."""
    at, until = (pc.min_element_wise(pc.max_element_wise(rows[name], edges[0]), edges[1]) for name in ("at", "until"))
    return rows.set_column(0, "at", at).set_column(1, "until", until)


def _draw(kind: str, rows: pa.Table, edges: tuple[float, float]) -> None:
    key = chart_key(f"split-{kind}")
    select: dict[str, Any] = {"on_select": partial(_pick, key), "selection_mode": [_PICKED]} if kind == _PICKS else {}
    st.vega_lite_chart(
        {
            **_spec(kind, language.current()),
            "datasets": {"rows": _within(rows, edges), "edges": edges_table(edges, _top(rows))},
        },
        width="stretch",
        height=HEIGHT,
        alt=texts.LIVE_SPLIT_ALT.format(texts.LIVE_SPLITS[kind]),
        key=key,
        **select,
    )


def _pick(key: str) -> None:
    """Keep the time of the clicked bar. It takes the place of a click on the other chart."""
    clicked = st.session_state[key].selection.get(_PICKED)
    at = moment(clicked[0].get("at")) if isinstance(clicked, list) and clicked else None
    forget_selection()
    if at is not None:
        st.session_state[_BAR] = chart_key(""), at


def bar_picked() -> datetime | None:
    """The time of the bar that the reader clicked last, unless the selection was left."""
    key, at = st.session_state.get(_BAR, (None, None))
    return at if key == chart_key("") else None


def _top(rows: pa.Table) -> float:
    """The highest bar: the values of a time stand on each other."""
    return float(pc.max(rows.group_by("at").aggregate([("count", "sum")])["count_sum"]).as_py() or 0)


@cache
def _spec(kind: str, _language: str) -> dict[str, Any]:
    """The design of the chart, made once for each language.

    Bars have no aria labels, because the text below the chart describes it.
    """
    reasons = [texts.LIVE_REASONS[count] for count in _COLOURS]
    scale = alt.Scale(domain=reasons, range=list(_COLOURS.values())) if kind == "reason" else alt.Undefined
    tooltip = [
        alt.Tooltip("at:T", title=texts.LIVE_AT, format="%a %d %b %H:%M:%S"),
        alt.Tooltip("value:N", title=texts.LIVE_SPLITS[kind]),
        alt.Tooltip("count:Q", title=texts.LIVE_COUNT, format=",d"),
    ]
    bars = (
        alt.Chart(alt.NamedData("rows"))
        .transform_stack(stack="count", groupby=["at"], as_=["low", "high"], sort=[alt.SortField("value")])
        .mark_rect(aria=False, stroke=None)
        .encode(
            x=time_axis(),
            x2="until:T",
            y=alt.Y("low:Q", title=None, scale=value_scale(), axis=alt.Axis(format=",d", tickMinStep=1, tickCount=4)),
            y2="high:Q",
            color=alt.Color("value:N", scale=scale, legend=alt.Legend(title=None, orient="top", symbolType="square")),
            tooltip=tooltip,
        )
    )
    edges = alt.Chart(alt.NamedData("edges")).mark_point(opacity=0, aria=False).encode(x=time_axis())
    layers: list[Layer] = [edges, bars]
    if kind == _PICKS:  # a bar may be too narrow for a click: the nearest one is picked
        near, picked = (
            alt.selection_point(name=name, nearest=True, on=on, clear=clear, encodings=["x"], toggle=False, empty=False)
            for name, on, clear in (("near", "pointermove", "pointerout"), (_PICKED, "click", "dblclick"))
        )
        rule = alt.Chart(alt.NamedData("rows")).mark_rule(color=GREY, cursor="pointer")
        shown = alt.condition(near, alt.value(0.8), alt.value(0))
        layers.append(rule.encode(x=time_axis(), opacity=shown, tooltip=tooltip).add_params(near, picked))
    spec: dict[str, Any] = alt.layer(*layers).properties(height=HEIGHT).to_dict()
    return spec
