"""What an admin does at a person's wish: a file of all that is kept of them, and that it goes."""

from __future__ import annotations

from typing import Final

import streamlit as st

from presence_core import PresenceError
from presence_dashboard import access, actions, texts
from presence_dashboard.access import Actor
from presence_dashboard.dossier import Dossier
from presence_dashboard.format import code, isolated
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab
from presence_dashboard.views import notices
from presence_dashboard.views.notices import Notice
from presence_dashboard.wording import plain

_FILE: Final = "privacy-file"
"""Whose file was made, and what is in it."""


def rights(dossier: Dossier, actor: Actor) -> None:
    """For who may do both."""
    if not actor.may("staff"):
        return
    with st.popover(texts.PRIVACY, disabled=this_tab().away):
        _export(dossier.uid)
        _forget(dossier)


def _export(uid: str) -> None:
    st.caption(texts.PRIVACY_EXPORT_EXPLAINED)
    if st.button(
        texts.PRIVACY_EXPORT, key="privacy-export", on_click=notices.check, args=("staff", "export_person", uid)
    ):
        try:
            st.session_state[_FILE] = (uid, actions.export_person(open_store().presence, uid))
        except (PresenceError, access.Denied, access.SignedOut) as error:
            st.error(texts.could_not(plain(error)))
    of, made = st.session_state.get(_FILE, (None, ""))
    if of == uid:
        st.download_button(
            texts.EXPORT_SAVE, made, "person.json", "application/json", key="privacy-save", on_click=_saved
        )


def _saved() -> None:
    st.session_state.pop(_FILE, None)


def _forget(dossier: Dossier) -> None:
    st.caption(texts.PRIVACY_FORGET_EXPLAINED)
    reason = st.text_input(texts.PRIVACY_REASON, key="forget-reason", max_chars=500)
    st.text(texts.privacy_type(isolated(dossier.uid)))
    typed = st.text_input(texts.PRIVACY_TYPED, key="forget-typed", max_chars=256)
    is_meant = typed.strip() == dossier.uid.strip() and bool(reason.strip())
    pressed = st.button(
        texts.PRIVACY_FORGET,
        key="forget",
        type="primary",
        disabled=not is_meant,
        on_click=notices.check,
        args=("staff", "forget", dossier.uid),
    )
    if not pressed or not is_meant:
        return
    try:
        report = actions.forget(open_store().presence, dossier.uid, reason)
        shown = code(report.pseudonym)
        if report.complete:
            notices.tell(Notice("done", texts.privacy_forgotten(report.sessions, shown)))
        else:
            notices.tell(Notice("bad", texts.privacy_not_all(shown)))
    except (PresenceError, access.Denied, access.SignedOut) as error:
        notices.tell(Notice("bad", texts.could_not(plain(error))))
    _saved()
    this_tab().acted += 1
    dossier.refresh()
    st.rerun()
