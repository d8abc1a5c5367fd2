"""State of one browser tab: whether Redis is unavailable, the refresh interval, the reader's time zone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from presence_dashboard.format import clock

_KEY: Final = "tab"

TICKS: Final = (5, 10, 30, 0)
"""Choices of the refresh interval in seconds; 0 is never. With faster ticks, elements are lost (streamlit #16708)."""

TICK_AWAY: Final = 3.0
"""The interval while Redis is unavailable, so that pages recover within 5 s."""


TICK_HIDDEN: Final = 30.0
"""The interval of the look at watched people in a tab in the background."""


@dataclass(slots=True)
class Tab:
    """State of one tab, in its session state."""

    away: bool = False  #: Redis is unavailable: the banner is shown and actions are disabled
    hidden: bool = False  #: in the background: it does not refresh
    refresh: int = TICKS[0]  #: chosen interval in seconds; 0 is never
    watches: bool = False  #: its reader watches people: their arrival is announced also in the background
    acted: int = 0  #: number of actions in this tab; a list reads its rows again after each
    page: str = ""  #: name of the page that is open
    visit: int = 0  #: number of pages that were opened in this tab
    requests: tuple[tuple[str, str], ...] | None = None  #: those that the page shows, each with its state; None: none
    opened_at: float = field(default_factory=time.monotonic)

    def opened(self, page: str) -> None:
        """Note which page this run draws."""
        if page != self.page:
            self.page, self.visit = page, self.visit + 1

    @property
    def tick(self) -> float | None:
        """Seconds until a live part refreshes: ``run_every`` of its fragment."""
        if self.hidden:
            return None
        if self.away:
            return TICK_AWAY
        return float(self.refresh) if self.refresh else None

    @property
    def watch_tick(self) -> float | None:
        """Seconds until the next look at the connection and at the watched people."""
        return TICK_HIDDEN if self.tick is None and self.watches else self.tick


def this_tab() -> Tab:
    """The state of the tab for which this script runs."""
    if _KEY not in st.session_state:
        st.session_state[_KEY] = Tab()
    tab: Tab = st.session_state[_KEY]
    return tab


def tab_id() -> str | None:
    """The name of the tab for which this script runs, as Streamlit gives it. A reload makes it another tab."""
    context = get_script_run_ctx(suppress_warning=True)
    return context.session_id if context is not None else None


def is_open(tab: str | None) -> bool:
    """Whether a browser shows this tab. True where that is not known."""
    return tab is None or not runtime.exists() or runtime.get_instance().is_active_session(tab)


def zone() -> tzinfo:
    """The reader's time zone, from the browser; UTC if it sends none."""
    return zone_named(st.context.timezone)


def zone_named(name: str | None) -> tzinfo:
    """The time zone of this name; UTC if there is none."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def local_time(moment: datetime) -> str:
    return clock(moment, zone())
