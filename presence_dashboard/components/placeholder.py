"""Drawn instead of data that has not been read yet."""

from __future__ import annotations

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
