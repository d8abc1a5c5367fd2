"""Saved phrases: they fill a reason and a message, and never take away what somebody has typed.

The fields that they fill must be outside of a form: what is typed in a form reaches the server when it is submitted,
so a phrase would take a field with text in it for an empty one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import streamlit as st

from presence_dashboard import texts

Act = Literal["kick", "kick and block", "block"]


def choice(key: str, on_change: Callable[..., None], *args: Any) -> None:
    """Draw the phrases. ``on_change`` calls ``fill``."""
    st.pills(
        texts.PHRASES_LABEL,
        list(texts.PHRASES),
        key=key,
        help=texts.PHRASES_HELP,
        on_change=on_change,
        args=args,
    )


def fill(key: str, reason: str, message: str, act: Act = "kick") -> None:
    """Fill each field that is empty or holds what was suggested before, with the chosen phrase as it fits the act.
    ``reason`` and ``message`` are the keys of the fields."""
    chosen = st.session_state.get(key)
    if chosen is None:
        return
    for_us, for_visitor = texts.PHRASES[chosen]
    if act != "kick":
        with_kick, alone = texts.PHRASES_BLOCKED[chosen]
        for_visitor = alone if act == "block" else with_kick
    for field, words in ((reason, for_us), (message, for_visitor)):
        written = (st.session_state.get(field) or "").strip()
        if written in ("", st.session_state.get(f"{field}-suggested")):
            suggest(field, words)


def suggest(field: str, words: str) -> None:
    """Fill a field with words that a phrase may replace."""
    st.session_state[field] = st.session_state[f"{field}-suggested"] = words
