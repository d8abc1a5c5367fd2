"""What one browser tab knows of itself: whether Redis is away, how often it renews itself, the reader's time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

_KEY: Final = "tab"

TICKS: Final = (5, 10, 30, 0)
"""Seconds between two renewals that may be chosen; 0 is never. Faster ticks meet full reruns and lose elements
(streamlit #16708)."""

TICK_AWAY: Final = 3.0
"""Seconds, while Redis is away: nobody acts then, and the page is whole again within 5 s of its return."""


@dataclass(slots=True)
class Tab:
    """Kept in its session state."""

    away: bool = False  #: this tab shows that Redis is away: what acts is disabled
    hidden: bool = False  #: nobody looks at it: it does not renew itself
    refresh: int = TICKS[0]  #: seconds, as chosen; 0 is never
    acted: int = 0  #: rises with each action of this tab: a list that is older reads its rows anew

    @property
    def tick(self) -> float | None:
        """Seconds until a live part renews itself: ``run_every`` of its fragment."""
        if self.hidden:
            return None
        if self.away:
            return TICK_AWAY
        return float(self.refresh) if self.refresh else None


def this_tab() -> Tab:
    """That of the tab which this script runs for."""
    if _KEY not in st.session_state:
        st.session_state[_KEY] = Tab()
    tab: Tab = st.session_state[_KEY]
    return tab


def zone() -> tzinfo:
    """The reader's time zone, as their browser tells it; UTC where it does not."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def here(moment: datetime) -> str:
    """A moment of today as a time of day, where the reader is."""
    return f"{moment.astimezone(zone()):%H:%M:%S}"
