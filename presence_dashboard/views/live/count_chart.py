"""How the chart of the Live page looks. Its data travels beside it, so that a tick changes the data alone.

Times are drawn by the browser, in the reader's own time zone; what the pointer meets also tells them in UTC.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import altair as alt
import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types
import streamlit as st

from presence_dashboard import texts
from presence_dashboard.figures import What

HEIGHT: Final = 300

# Of both themes: 3:1 and more on either surface. What they mean is also told by shape, and in words.
GREY: Final = "#7d8a97"
RED: Final = "#d1495b"

_LABELS: Final[dict[What, str]] = {"users": texts.USERS, "sessions": texts.SESSIONS}
_CLOCK: Final = (
    "hours(datum.value) || minutes(datum.value)"
    " ? timeFormat(datum.value, '%H:%M') : timeFormat(datum.value, '%a %d %b')"
)

Layer = Any
"""A chart of altair's, whose own types lose track of it on the way."""


def draw(show: tuple[What, ...], points: pa.Table, ghost: pa.Table | None, edges: tuple[float, float]) -> None:
    """edges: where the range begins and ends, Unix ms, whatever of it has samples."""
    data = {"points": points, "edges": pa.table({"at": list(edges)})}
    if ghost is not None:
        data["ghost"] = ghost
    st.vega_lite_chart(
        {**_spec(show, ghost is not None), "datasets": data},
        width="stretch",
        height=HEIGHT,
        alt=texts.LIVE_CHART_ALT,
    )


@cache
def _spec(show: tuple[What, ...], has_ghost: bool) -> dict[str, Any]:
    """Made once: altair checks every word of it, which takes longer than all the rest of a tick.

    Points say nothing by themselves to who cannot see them (aria): what the chart shows is told in words below it.
    """
    near = alt.selection_point(
        name="near", nearest=True, on="pointermove", clear="pointerout", encodings=["x"], empty=False
    )
    layers: list[Any] = [alt.Chart(alt.NamedData("edges")).mark_point(opacity=0, aria=False).encode(x=_time())]
    if has_ghost:
        layers.append(_ghost(show))
    layers += [_band(show), _line(show), _running(show), _alone(show), _kicks(), _pointer(near)]
    chart = alt.layer(*layers).properties(height=HEIGHT)
    spec: dict[str, Any] = chart.to_dict()
    return spec


def _time() -> alt.X:
    axis = alt.Axis(labelExpr=_CLOCK, labelOverlap=True, labelSeparation=10, grid=False, tickCount=8)
    return alt.X("at:T", title=None, axis=axis)


def _value() -> alt.Y:
    return alt.Y(
        "value:Q", title=None, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(format=",d", tickMinStep=1)
    )


def _colour(show: tuple[What, ...]) -> alt.Color:
    """The theme's own colours, the same for a line whatever is beside it."""
    return alt.Color(
        "line:N",
        scale=alt.Scale(domain=list(_LABELS.values())),
        legend=alt.Legend(
            title=None,
            orient="top",
            values=[_LABELS[one] for one in show],
            symbolType="stroke",
            symbolOpacity=1,
            symbolStrokeWidth=3,
        ),
    )


def _folded(name: str, show: tuple[What, ...]) -> alt.Chart:
    """A row for each line and sample."""
    label = f"datum.what === 'users' ? '{texts.USERS}' : '{texts.SESSIONS}'"
    return (
        alt.Chart(alt.NamedData(name))
        .transform_fold(list(show), as_=["what", "value"])
        .transform_calculate(line=label, low="datum[datum.what + '_min']", high="datum[datum.what + '_max']")
    )


def _line(show: tuple[What, ...]) -> Layer:
    lines = _folded("points", show).transform_filter("datum.done")
    return lines.mark_line(strokeWidth=2).encode(x=_time(), y=_value(), color=_colour(show), detail="part:N")


def _running(show: tuple[What, ...]) -> Layer:
    lines = _folded("points", show).transform_filter("datum.tail")
    return lines.mark_line(strokeWidth=2, strokeDash=[4, 3]).encode(
        x=_time(), y=_value(), color=_colour(show), detail="part:N"
    )


def _alone(show: tuple[What, ...]) -> Layer:
    points = _folded("points", show).transform_filter("datum.alone")
    return points.mark_point(filled=True, size=30, aria=False).encode(x=_time(), y=_value(), color=_colour(show))


def _band(show: tuple[What, ...]) -> Layer:
    """From the least to the most of each step."""
    band = _folded("points", show).mark_area(opacity=0.14)
    return band.encode(x=_time(), y=alt.Y("low:Q", title=None), y2="high:Q", color=_colour(show), detail="part:N")


def _ghost(show: tuple[What, ...]) -> Layer:
    lines = _folded("ghost", show).mark_line(strokeWidth=1, strokeDash=[2, 2], color=GREY)
    return lines.encode(x=_time(), y=_value(), detail=["line:N", "part:N"])


def _kicks() -> Layer:
    marks = alt.Chart(alt.NamedData("points")).transform_filter("datum.kicked > 0")
    return marks.mark_point(shape="triangle-down", filled=True, color=RED, opacity=0.9, aria=False).encode(
        x=_time(), y=alt.value(6), size=alt.Size("kicked:Q", scale=alt.Scale(range=[16, 110]), legend=None)
    )


def _pointer(near: Any) -> Layer:
    """A rule at the nearest sample, with all that is known of it."""
    told = alt.Chart(alt.NamedData("points")).transform_calculate(
        here="timeFormat(datum.taken, '%a %d %b %H:%M:%S')",
        utc="utcFormat(datum.taken, '%Y-%m-%d %H:%M:%S') + ' UTC'",
        u=_told("users"),
        s=_told("sessions"),
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
        told.mark_rule(color=GREY)
        .encode(
            x=_time(),
            opacity=alt.condition(near, alt.value(0.8), alt.value(0)),
            tooltip=[alt.Tooltip(field, title=title) for field, title in rows.items()],
        )
        .add_params(near)
    )


def _told(what: What) -> str:
    """A count, and of a longer step the least and the most."""
    least, most = f"format(datum.{what}_min, ',')", f"format(datum.{what}_max, ',')"
    several = f"format(datum.{what}, ',') + ' (' + {least} + '–' + {most} + ')'"
    return f"datum.{what}_min === datum.{what}_max ? format(datum.{what}, ',') : {several}"
