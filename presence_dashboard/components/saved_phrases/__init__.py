"""Saved phrases are added to the fields for reason and message, and never replace typed text.

The fields must be outside a form: text in a form reaches the server only when the form is submitted, so a field with
text would look empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.components import notifications
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.saved_phrases.phrase_editor import phrase_editor
from presence_dashboard.data.phrases import PhraseUse, phrases, shown_label
from presence_dashboard.data.store import open_store

MAX_TEXT: Final = 500
"""Characters of a reason or a message, at most."""


def phrase_choice(key: str, on_change: Callable[..., None], *args: Any) -> None:
    """Draw the phrases. ``on_change`` must call ``fill``."""
    known = phrases(open_store())
    st.pills(
        texts.PHRASES_LABEL,
        list(known),
        key=key,
        format_func=lambda label: shown_label(label, 40),
        help=texts.PHRASES_HELP,
        on_change=on_change,
        args=args,
    )
    if access.may("share"):
        phrase_editor(key, known)


def fill(key: str, reason: str, message: str, use: PhraseUse = "kick") -> None:
    """Add the chosen phrase to the texts, unless they have it already. Text that is there stays.

    reason, message: keys of the fields. use: selects the fitting message.
    """
    phrase = phrases(open_store()).get(st.session_state.get(key) or "")
    if phrase is None:  # none is chosen, or a colleague has just deleted it
        return
    fit(message, use)
    _append(reason, phrase.reason)
    _append(message, phrase.messages()[use])


def fit(message: str, use: PhraseUse) -> None:
    """Replace the phrases in a message by the versions that fit, after another block was chosen."""
    written = st.session_state.get(message) or ""
    for phrase in phrases(open_store()).values():
        versions = phrase.messages()
        for words in sorted({*versions.values()} - {""}, key=len, reverse=True):  # one may be a part of another
            if words in written:
                written = written.replace(words, versions[use], 1)
                break
    if len(written) <= MAX_TEXT:
        st.session_state[message] = written


def _append(field: str, words: str) -> None:
    written = (st.session_state.get(field) or "").strip()
    if not words or words in written:
        return
    longer = f"{written} {words}".strip()
    if len(longer) > MAX_TEXT:
        notifications.notify(Notification("note", texts.PHRASE_TOO_LONG))
    else:
        st.session_state[field] = longer
