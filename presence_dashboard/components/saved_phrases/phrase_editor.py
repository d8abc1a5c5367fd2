"""The editor of the team's phrases, for staff who may share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import streamlit as st

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.actions import saved_items
from presence_dashboard.components import notifications
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data import phrases
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.phrases import HIDDEN_PHRASE, Phrase, shown_label
from presence_dashboard.data.store import open_store
from presence_dashboard.format import name

_MOST: Final = 500
_FIELDS: Final = ("name", "reason", "message", "with-block", "block", "sign-in")


def phrase_editor(key: str, known: dict[str, Phrase]) -> None:
    """A button that opens the editor. key: of the dialog that it is in."""
    menu = st.popover(texts.PHRASES_EDIT, key=f"edit-{key}", icon=":material/edit:", on_change="rerun")
    if not menu.open:
        return
    with menu:
        chosen = st.selectbox(
            texts.PHRASE_TO_EDIT,
            [None, *known],
            key=f"edited-{key}",
            format_func=lambda label: texts.PHRASE_NEW if label is None else shown_label(label, 60),
        )
        phrase = known.get(chosen or "", HIDDEN_PHRASE)
        fields = {field: f"{key}-{field}-{chosen}" for field in _FIELDS}
        with st.form(f"form-{key}-{chosen}", border=False, enter_to_submit=False):
            st.text_input(texts.PHRASE_NAME, value=chosen or "", key=fields["name"], max_chars=60)
            for field, label, words in (
                ("reason", texts.REASON, phrase.reason),
                ("message", texts.PHRASE_MESSAGE, phrase.message),
                ("with-block", texts.PHRASE_WITH_BLOCK, phrase.message_with_block),
                ("block", texts.PHRASE_BLOCK, phrase.message_block),
                ("sign-in", texts.PHRASE_SIGN_IN, phrase.message_sign_in),
            ):
                st.text_area(label, value=words, key=fields[field], max_chars=_MOST, height=72)
            st.caption(texts.PHRASE_FOR_ALL)
            with st.container(horizontal=True, gap="small"):
                away = this_tab().away
                st.form_submit_button(texts.PHRASE_SAVE, on_click=_save, args=(chosen, fields), disabled=away)
                if chosen is not None:
                    st.form_submit_button(texts.PHRASE_DELETE, on_click=_delete, args=(chosen,), disabled=away)


def _save(old: str | None, fields: dict[str, str]) -> None:
    label, reason, message, with_block, block, sign_in = (
        (st.session_state.get(fields[field]) or "").strip() for field in _FIELDS
    )
    if not label or not reason:
        notifications.notify(Notification("bad", texts.PHRASE_MISSING))
        return
    text = Phrase(reason, message, with_block, block, sign_in).text
    renamed = old if old is not None and old != label else None
    if _change(lambda presence: saved_items.save(presence, "phrase", label, text, shared=True, instead_of=renamed)):
        if renamed in texts.PHRASES:
            _hide(renamed)
        notifications.notify(Notification("done", texts.phrase_saved(name(label))))


def _delete(label: str) -> None:
    if label in texts.PHRASES:
        done = _hide(label)
    else:
        done = _change(lambda presence: saved_items.remove(presence, "phrase", label, shared=True))
    if done:
        notifications.notify(Notification("done", texts.phrase_deleted(name(label))))


def _hide(label: str) -> bool:
    """A phrase of the product cannot be removed: an empty one takes its place."""
    return _change(lambda presence: saved_items.save(presence, "phrase", label, HIDDEN_PHRASE.text, shared=True))


def _change(act: Callable[[Presence], object]) -> bool:
    """Whether the change was made. If not, a toast says why."""
    done = notifications.attempt(lambda: act(open_store().presence))
    if done:
        phrases.phrases(open_store(), fresh=True)
    return done
