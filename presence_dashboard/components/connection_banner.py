"""What beats on every page: whether Redis answers and, while it does not, a banner that says so."""

from __future__ import annotations

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.access import Actor
from presence_dashboard.format import span
from presence_dashboard.store import open_store
from presence_dashboard.tab import TICKS, this_tab

_CHOICE = "every"


def pulse(actor: Actor) -> None:
    """Call it once a run, alone in a container of its own, before the page: it says whether Redis is away."""
    tab = this_tab()
    tab.away = open_store().counts().failure is not None
    st.fragment(_beat, run_every=tab.tick)(actor)


def _beat(actor: Actor) -> None:
    tab, reading = this_tab(), open_store().counts()
    try:
        now = access.current(touch=False)
    except access.SignedOut:
        st.rerun()  # the page goes, and whoever looked at it is told why
    if now != actor:
        st.rerun()  # another role: another page
    if (reading.failure is not None) != tab.away:
        st.rerun()  # the page around this fragment turns its actions off or on
    if reading.failure is not None:
        st.error(texts.away(reading.failure, span(reading.age) if reading.value else None))


def choice() -> None:
    """How often the live parts of every page renew themselves: chosen once, remembered by the browser."""
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
    with st.container(key="tab-state"), st.container(key=f"every-{tab.refresh}"):  # for page.js; nobody sees it
        tab.hidden = st.toggle(texts.TAB_HIDDEN, key="tab-hidden")


def _remembered() -> int:
    """The choice of last time, from the cookie that the browser keeps."""
    said = st.context.cookies.get("presence_every", "")
    return int(said) if said in map(str, TICKS) else TICKS[0]
