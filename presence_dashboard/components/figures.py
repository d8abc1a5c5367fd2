"""Figures of a page, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.store import Reading


def show_placeholder(reading: Reading[Any]) -> None:
    """Why there is no data. While Redis is unavailable, the banner above the page says so already."""
    if reading.failure is None or this_tab().away:
        st.caption(texts.LIVE_NOT_YET)
    else:
        st.warning(texts.unreadable(reading.failure))


def metric(label: str, shown: str, help_text: str, history: Sequence[float]) -> None:
    """A figure above the small curve of its last values. The curve of ``st.metric`` is a graphic without a name, takes
    longer to draw, and warns in the console of the browser."""
    with st.container(border=True, gap="xxsmall", height="stretch"):
        st.metric(label, shown, help=help_text)
        st.html(f'<div class="presence-curve" aria-hidden="true">{_curve(history) if len(history) > 1 else ""}</div>')


def _curve(history: Sequence[float]) -> str:
    """The area below the values, cut out of a box: Streamlit removes SVG from HTML."""
    low, high = min(history), max(history)
    step, scale = 100 / (len(history) - 1), 90 / ((high - low) or 1)
    points = [f"{step * place:.1f}% {95 - scale * (value - low):.1f}%" for place, value in enumerate(history)]
    return f'<div style="clip-path: polygon(0% 100%, {", ".join(points)}, 100% 100%)"></div>'
