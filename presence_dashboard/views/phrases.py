"""Saved phrases: they fill a reason and a message, and never take away what somebody has typed.

The fields that they fill must be outside of a form: what is typed in a form reaches the server when it is submitted,
so a phrase would take a field with text in it for an empty one.
"""

from __future__ import annotations

import streamlit as st

from presence_dashboard import texts


def choice(key: str, reason: str, message: str) -> None:
    """Draw the phrases. ``reason`` and ``message`` are the keys of the fields that a phrase fills."""
    st.pills(
        texts.PHRASES_LABEL,
        list(texts.PHRASES),
        key=key,
        help=texts.PHRASES_HELP,
        on_change=_fill,
        args=(key, reason, message),
    )


def _fill(key: str, *fields: str) -> None:
    """Fill each field that is empty, or that holds a phrase as it was saved."""
    chosen = st.session_state[key]
    if chosen is None:
        return
    for place, field in enumerate(fields):
        written = (st.session_state.get(field) or "").strip()
        if not written or written in {phrase[place] for phrase in texts.PHRASES.values()}:
            st.session_state[field] = texts.PHRASES[chosen][place]
