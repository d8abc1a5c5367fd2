"""The banner of every page while Redis does not answer, and the choice of the refresh interval."""

from __future__ import annotations

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.access import Actor
from presence_dashboard.components.watch_list import announce
from presence_dashboard.data.browser_tab import TICKS, this_tab
from presence_dashboard.data.store import open_store
from presence_dashboard.format import span

_CHOICE = "every"


def connection_banner(actor: Actor) -> None:
    """Draw the banner. Call it before the page, alone in its container: it sets ``Tab.away``."""
    tab = this_tab()
    tab.away = open_store().counts().failure is not None
    st.fragment(_check, run_every=tab.watch_tick)(actor)


def _check(actor: Actor) -> None:
    tab, reading = this_tab(), open_store().counts()
    try:
        now = access.current(touch=False)
    except access.SignedOut:
        st.rerun()  # main draws the reason instead of the page
    if now != actor:
        st.rerun()  # the role has changed
    if (reading.failure is not None) != tab.away:
        st.rerun()  # the page enables or disables its actions
    if reading.failure is not None:
        st.error(texts.away(reading.failure, span(reading.age) if reading.value else None))
    announce(actor)


def refresh_choice() -> None:
    """The choice of the refresh interval. The browser remembers it in a cookie."""
    tab = this_tab()
    if _CHOICE not in st.session_state:
        st.session_state[_CHOICE] = _remembered()
    chosen = st.selectbox(
        texts.REFRESH_EVERY,
        TICKS,
        key=_CHOICE,
        format_func=texts.refresh_every,
        width=170,
        label_visibility="collapsed",
        help=texts.REFRESH_EVERY_HELP,
    )
    tab.refresh = TICKS[0] if chosen is None else chosen
    with st.container(key="tab-state"), st.container(key=f"every-{tab.refresh}"):  # invisible, for page.js
        tab.hidden = st.toggle(texts.TAB_HIDDEN, key="tab-hidden")


def _remembered() -> int:
    """The last choice, from the cookie."""
    seconds = st.context.cookies.get("presence_every", "")
    return int(seconds) if seconds in map(str, TICKS) else TICKS[0]
