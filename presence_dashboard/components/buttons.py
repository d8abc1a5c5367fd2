"""Buttons with what they call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.paged_list import ListState


def button(label: str, key: str, act: Callable[..., None], *args: Any, **look: Any) -> None:
    """A button that calls ``act`` with these arguments. look: options of ``st.button``."""
    st.button(label, key=key, on_click=act, args=args, **look)


def live_button(
    label: str, key: str, act: Callable[..., None], *args: Any, disabled: bool = False, **look: Any
) -> None:
    """The same, off while Redis is unavailable."""
    button(label, key, act, *args, disabled=disabled or this_tab().away, **look)


def more_actions(key: str, acts: Sequence[tuple[str, str, Callable[[], None] | None]]) -> None:
    """A menu of further actions: label, key, and what it calls; None: disabled. page.js closes it."""
    with st.popover(texts.MORE_ACTIONS, key=key, type="tertiary", disabled=this_tab().away):
        for label, name, act in acts:
            live_button(label, name, act or _nothing, type="tertiary", disabled=act is None)


def _nothing() -> None:
    """What a disabled button calls."""


def page_buttons(paged: ListState, *, is_first: bool, is_last: bool) -> None:
    """The buttons Newest, Newer and Older of a list."""
    live_button(texts.NEWEST, "newest", paged.newest, disabled=is_first)
    live_button(texts.NEWER, "newer", paged.newer, disabled=is_first, shortcut="N")
    live_button(texts.OLDER, "older", paged.older, disabled=is_last, shortcut="O")
