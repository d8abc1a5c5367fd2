"""In place of what has not been read yet."""

from __future__ import annotations

from typing import Any

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.store import Reading
from presence_dashboard.tab import this_tab


def not_yet(reading: Reading[Any]) -> None:
    """Why there is nothing to show. While Redis is away the banner above the page says so already."""
    if reading.failure is None or this_tab().away:
        st.caption(texts.LIVE_NOT_YET)
    else:
        st.error(texts.unreadable(reading.failure))
