"""The remarks of staff on a person, and the box to leave one."""

from __future__ import annotations

from typing import Final

import streamlit as st

from presence_core import Remark
from presence_dashboard import texts
from presence_dashboard.actions import remarks
from presence_dashboard.components.buttons import live_button
from presence_dashboard.components.notifications import Notification, attempt, notify
from presence_dashboard.components.session_facts import time_of_day
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.person_state import PersonState
from presence_dashboard.data.store import open_store
from presence_dashboard.format import cut, isolated, minute, name, span
from presence_dashboard.roles import Actor

_MOST: Final = 500
_TEXT: Final = "remark-text"
_MENU: Final = "menu-remark"


def remark_list(state: PersonState, found: tuple[Remark, ...], actor: Actor) -> None:
    """Nothing for roles from which something of people is hidden: a remark may name it."""
    if actor.masked:
        return
    with st.container(gap="xsmall", key="remarks"):
        for remark in found:
            _row(state, remark, actor)
        if actor.may("remark"):
            with st.popover(texts.REMARK_ADD, key=_MENU, icon=":material/add_comment:", on_change="rerun"):
                _form(state)


def _row(state: PersonState, remark: Remark, actor: Actor) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
        with st.container(gap="xxsmall", width="stretch"):
            st.text(isolated(remark.text))
            until = minute(remark.until, zone())
            st.caption(texts.remark_by(name(cut(remark.by, 40)), time_of_day(remark.at), until))
        if actor.may("remark"):
            live_button("", f"remove-{remark.id}", _remove, state, remark.id, type="tertiary", icon=":material/close:",
                        help=texts.REMARK_REMOVE)  # fmt: skip


def _form(state: PersonState) -> None:
    st.text_area(texts.REMARK, key=_TEXT, max_chars=_MOST, height=90, placeholder=texts.REMARK_HINT)
    st.caption(texts.remark_kept(span(open_store().presence.settings.keep_remarks)))
    live_button(texts.REMARK_SAVE, "remark-save", _add, state, type="primary")


def _add(state: PersonState) -> None:
    text = (st.session_state.get(_TEXT) or "").strip()
    if not text:
        notify(Notification("note", texts.REMARK_MISSING))
    elif attempt(lambda: remarks.add(open_store().presence, state.uid, text)):
        st.session_state[_TEXT], st.session_state[_MENU] = "", False
        this_tab().acted += 1


def _remove(state: PersonState, remark_id: str) -> None:
    if attempt(lambda: remarks.remove(open_store().presence, state.uid, remark_id)):
        this_tab().acted += 1
