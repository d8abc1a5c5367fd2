"""The chart of the Live page. Its data is sent separately from its design, so that a tick changes only the data.

The browser draws times in the reader's time zone. The tooltip shows them in UTC too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Final

import altair as alt
import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types
import pyarrow.compute as pc  # type: ignore[import-untyped]
import streamlit as st

from presence_dashboard import language, texts
from presence_dashboard.data.chart_data import CountKind

HEIGHT: Final = 300

# For both themes: contrast of 3:1 or more. Shapes and words have the same meaning.
GREY: Final = "#7d8a97"
RED: Final = "#d1495b"

_CLOCK: Final = (
    "hours(datum.value) || minutes(datum.value)"
    " ? timeFormat(datum.value, '%H:%M') : timeFormat(datum.value, '%a %d %b')"
)

_PICKED: Final = "picked"
_ZOOM: Final = "zoom"
_LATEST: Final = 32_503_680_000_000  # the year 3000

Layer = Any
"""A chart of altair, whose own types do not follow method chains."""


def draw_count_chart(
    key: str,
    show: tuple[CountKind, ...],
    points: pa.Table,
    earlier: pa.Table | None,
    edges: tuple[float, float],
    zoom: Callable[[datetime, datetime], None],
) -> datetime | None:
    """Draw the chart. Returns the time that the reader clicked.

    edges: start and end of the range in Unix ms. zoom: is called when the reader drags over a part of the chart.
    """
    tables = [points] if earlier is None else [points, earlier]
    tops = [pc.max(part[f"{kind}_max"]).as_py() or 0 for part in tables for kind in show]
    data = {"points": points, "edges": edges_table(edges, max(tops))}
    if earlier is not None:
        data["earlier"] = earlier
    event: Any = st.vega_lite_chart(
        {**_spec(show, earlier is not None, language.current()), "datasets": data},
        width="stretch",
        height=HEIGHT,
        alt=texts.LIVE_CHART_ALT,
        key=key,
        on_select=partial(_zoom, key, zoom),
        selection_mode=[_PICKED, _ZOOM],
    )
    clicked: list[dict[str, Any]] = event.selection.get(_PICKED) or []
    return moment(clicked[0].get("at")) if clicked else None


def _zoom(key: str, zoom: Callable[[datetime, datetime], None]) -> None:
    dragged = st.session_state[key].selection.get(_ZOOM) or {}
    ends = dragged.get("at") if isinstance(dragged, dict) else None
    since, until = map(moment, sorted(ends, key=str)) if isinstance(ends, list) and len(ends) == 2 else (None, None)
    if since and until and since != until:
        zoom(min(since, until), max(since, until))


def moment(value: object) -> datetime | None:
    """A time of the browser, in Unix ms; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LATEST:
        return None
    return datetime.fromtimestamp(value / 1000, UTC)


@cache
def _spec(show: tuple[CountKind, ...], has_earlier: bool, _language: str) -> dict[str, Any]:
    """The design of the chart, made once for each language: altair's checks take longer than the rest of a tick.

    Points have no aria labels, because the text below the chart describes it. In SVG, the area that is dragged would be
    a graphic without a name, so the chart is drawn on a canvas.
    """
    near = alt.selection_point(
        name="near", nearest=True, on="pointermove", clear="pointerout", encodings=["x"], empty=False
    )
    picked = alt.selection_point(
        name=_PICKED, nearest=True, on="click", clear="dblclick", encodings=["x"], toggle=False, empty=False
    )
    zoom = alt.selection_interval(name=_ZOOM, encodings=["x"], zoom=False, translate=False)
    layers: list[Any] = [alt.Chart(alt.NamedData("edges")).mark_point(opacity=0, aria=False).encode(x=time_axis())]
    if has_earlier:
        layers.append(_earlier(show))
    layers += [
        _band(show),
        _line(show),
        _running(show),
        _alone(show),
        _kicks(),
        _pointer(near, picked, zoom),
    ]
    chart = alt.layer(*layers).properties(height=HEIGHT, usermeta={"embedOptions": {"renderer": "canvas"}})
    spec: dict[str, Any] = chart.to_dict()
    return spec


def time_axis() -> alt.X:
    """The axis of times, which all charts of the page share."""
    axis = alt.Axis(labelExpr=_CLOCK, labelOverlap=True, labelSeparation=10, grid=False, tickCount=8)
    return alt.X("at:T", title=None, axis=axis, scale=alt.Scale(domain=_domain("at")))


def _domain(field: str) -> list[alt.ExprRef]:
    """The ends of a scale, of the data ``edges``. By the data of the marks, Vega would warn before these have come."""
    return [alt.ExprRef(f"length(data('edges')) ? data('edges')[{place}].{field} : {place}") for place in (0, 1)]


def edges_table(edges: tuple[float, float], top: float) -> pa.Table:
    """The data ``edges``: start and end of the range in Unix ms, and of the values, with room for a line."""
    return pa.table({"at": list(edges), "value": [0.0, 1.04 * max(top, 1.0)]})


def value_scale() -> alt.Scale:
    """The scale of values, which begins at zero."""
    return alt.Scale(domain=_domain("value"), nice=True)


def _value() -> alt.Y:
    return alt.Y("value:Q", title=None, scale=value_scale(), axis=alt.Axis(format=",d", tickMinStep=1))


def _colour(show: tuple[CountKind, ...]) -> alt.Color:
    """The theme's colours; a line keeps its colour if the other line is hidden."""
    labels: dict[CountKind, str] = {"users": texts.USERS, "sessions": texts.SESSIONS}
    return alt.Color(
        "line:N",
        scale=alt.Scale(domain=list(labels.values())),
        legend=alt.Legend(
            title=None,
            orient="top",
            values=[labels[kind] for kind in show],
            symbolType="stroke",
            symbolOpacity=1,
            symbolStrokeWidth=3,
        ),
    )


def _folded(name: str, show: tuple[CountKind, ...]) -> alt.Chart:
    """A row for each line and sample."""
    label = f"datum.what === 'users' ? {json.dumps(texts.USERS)} : {json.dumps(texts.SESSIONS)}"
    return (
        alt.Chart(alt.NamedData(name))
        .transform_fold(list(show), as_=["what", "value"])
        .transform_calculate(line=label, low="datum[datum.what + '_min']", high="datum[datum.what + '_max']")
    )


def _line(show: tuple[CountKind, ...]) -> Layer:
    lines = _folded("points", show).transform_filter("datum.done")
    return lines.mark_line(strokeWidth=2, clip=True).encode(
        x=time_axis(), y=_value(), color=_colour(show), detail="part:N"
    )


def _running(show: tuple[CountKind, ...]) -> Layer:
    lines = _folded("points", show).transform_filter("datum.tail")
    return lines.mark_line(strokeWidth=2, strokeDash=[4, 3], clip=True).encode(
        x=time_axis(), y=_value(), color=_colour(show), detail="part:N"
    )


def _alone(show: tuple[CountKind, ...]) -> Layer:
    points = _folded("points", show).transform_filter("datum.alone")
    return points.mark_point(filled=True, size=30, aria=False).encode(x=time_axis(), y=_value(), color=_colour(show))


def _band(show: tuple[CountKind, ...]) -> Layer:
    """A band from the least to the most of each step."""
    band = _folded("points", show).mark_area(opacity=0.14, clip=True)
    return band.encode(
        x=time_axis(),
        y=alt.Y("low:Q", title=None, scale=value_scale()),
        y2="high:Q",
        color=_colour(show),
        detail="part:N",
    )


def _earlier(show: tuple[CountKind, ...]) -> Layer:
    lines = _folded("earlier", show).mark_line(strokeWidth=1, strokeDash=[2, 2], color=GREY, clip=True)
    return lines.encode(x=time_axis(), y=_value(), detail=["line:N", "part:N"])


def _kicks() -> Layer:
    marks = alt.Chart(alt.NamedData("points")).transform_filter("datum.kicked > 0")
    return marks.mark_point(shape="triangle-down", filled=True, color=RED, opacity=0.9, aria=False).encode(
        x=time_axis(), y=alt.value(6), size=alt.Size("kicked:Q", scale=alt.Scale(range=[16, 110]), legend=None)
    )


def _pointer(near: Any, *selected: Any) -> Layer:
    """A vertical line at the nearest sample, with a tooltip of its values, and one at the sample that was clicked."""
    points = alt.Chart(alt.NamedData("points")).transform_calculate(
        here="timeFormat(datum.taken, '%a %d %b %H:%M:%S')",
        utc="utcFormat(datum.taken, '%Y-%m-%d %H:%M:%S') + ' UTC'",
        u=_tooltip("users"),
        s=_tooltip("sessions"),
    )
    rows = {
        "here:N": texts.LIVE_AT,
        "utc:N": texts.LIVE_AT_UTC,
        "u:N": texts.USERS,
        "s:N": texts.SESSIONS,
        "logins:Q": texts.LIVE_LOGINS_COLUMN,
        "ends:Q": texts.LIVE_ENDS_COLUMN,
        "kicked:Q": texts.LIVE_KICKS_COLUMN,
    }
    return (
        points.mark_rule(color=GREY)
        .encode(
            x=time_axis(),
            opacity=alt.condition(near | selected[0], alt.value(0.8), alt.value(0)),
            tooltip=[alt.Tooltip(field, title=title) for field, title in rows.items()],
        )
        .add_params(near, *selected)
    )


def _tooltip(kind: CountKind) -> str:
    """The count for the tooltip; for longer steps also the least and the most."""
    least, most = f"format(datum.{kind}_min, ',')", f"format(datum.{kind}_max, ',')"
    several = f"format(datum.{kind}, ',') + ' (' + {least} + '–' + {most} + ')'"
    return f"datum.{kind}_min === datum.{kind}_max ? format(datum.{kind}, ',') : {several}"
