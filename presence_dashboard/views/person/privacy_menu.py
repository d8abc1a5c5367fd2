"""The privacy menu for admins: export or erase the data of a person."""

from __future__ import annotations

from typing import Final

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.actions import privacy
from presence_dashboard.components import account, notifications
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.person_state import PersonState
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import code, isolated
from presence_dashboard.gate.made_files import made_here
from presence_dashboard.roles import Actor

_FILE: Final = "privacy-file"
"""Key of the uid and the content of the created file."""


def privacy_menu(person: PersonState, actor: Actor) -> None:
    if not actor.may("staff"):
        return
    with st.popover(texts.PRIVACY, disabled=this_tab().away):
        must_sign_in_again = account.must_sign_in_again("privacy")
        _export(person.uid, disabled=must_sign_in_again)
        _erase(person, disabled=must_sign_in_again)


def _export(uid: str, *, disabled: bool) -> None:
    st.caption(texts.PRIVACY_EXPORT_EXPLAINED)
    if notifications.checked_button(
        texts.PRIVACY_EXPORT, "privacy-export", "staff", "export_person", uid, disabled=disabled
    ):
        try:
            st.session_state[_FILE] = (uid, privacy.export_person(open_store().presence, uid))
        except REFUSALS as error:
            st.warning(texts.action_failed(plain(error)))
    uid_of_file, content = st.session_state.get(_FILE, (None, ""))
    if uid_of_file == uid:
        st.download_button(
            texts.EXPORT_SAVE, content, "person.json", "application/json", key="privacy-save", on_click=_drop_file
        )
        made_here()


def _drop_file() -> None:
    st.session_state.pop(_FILE, None)


def _erase(person: PersonState, *, disabled: bool) -> None:
    st.caption(texts.PRIVACY_ERASE_EXPLAINED)
    reason = st.text_input(texts.REASON, key="erase-reason", max_chars=500)
    st.text(texts.privacy_type(isolated(person.uid)))
    typed = st.text_input(texts.LABEL_UID, key="erase-typed", max_chars=256)
    is_confirmed = typed.strip() == person.uid.strip() and bool(reason.strip())
    off = disabled or not is_confirmed
    pressed = notifications.checked_button(
        texts.PRIVACY_ERASE, "danger-erase", "staff", "forget", person.uid, disabled=off, type="primary"
    )
    if not pressed or not is_confirmed:
        return
    try:
        report = privacy.erase_person(open_store().presence, person.uid, reason)
        pseudonym = code(report.pseudonym)
        if report.complete:
            notifications.notify(Notification("done", texts.privacy_erased(report.sessions, pseudonym)))
        else:
            notifications.notify(Notification("bad", texts.privacy_not_erased(pseudonym)))
    except REFUSALS as error:
        notifications.notify(notifications.failed(plain(error)))
    _drop_file()
    this_tab().acted += 1
    person.refresh()
    st.rerun()
