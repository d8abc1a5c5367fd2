"""The dialog that adds a staff member, and the one that shows a one-time password.

The password is in the session state of this tab until the dialog closes, the page changes or ten minutes have passed.
After that it is nowhere: the password file has only its hash.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import urlsplit

import streamlit as st

from presence_core import StaffRole
from presence_dashboard import access, texts
from presence_dashboard.actions import staff_members
from presence_dashboard.actions.staff_members import NewPassword
from presence_dashboard.components import account, kick_dialog, notifications, session_facts
from presence_dashboard.components.buttons import live_button
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import cut, minute, name
from presence_dashboard.roles import ROLES

KEEP: Final = 600.0
"""Seconds for which a password is shown."""

_DIALOG: Final = "staff-dialog"
_NUMBER: Final = "staff-dialog-number"


@dataclass(frozen=True, slots=True)
class _Dialog:
    """The open dialog of this tab."""

    new: NewPassword | None  #: None: the form that adds a member
    role: str | None = None  #: of a member who was just added
    visit: int = field(default_factory=lambda: this_tab().visit)
    at: float = field(default_factory=time.monotonic)

    @property
    def is_current(self) -> bool:
        return self.visit == this_tab().visit and time.monotonic() - self.at < KEEP


def add_button(*, disabled: bool) -> None:
    look = {"icon": ":material/person_add:", "type": "primary"}
    live_button(texts.STAFF_ADD, "add-staff", _open_form, disabled=disabled, **look)


def show_password(new: NewPassword, role: str | None = None) -> None:
    """Show this one-time password in the next run. role: of a member who was just added."""
    st.session_state[_DIALOG] = _Dialog(new, role)


def dialog() -> None:
    opened: _Dialog | None = st.session_state.get(_DIALOG)
    if opened is None or kick_dialog.is_open():
        return
    if not opened.is_current or not access.may("staff"):
        _close()
    elif opened.new is None:
        st.dialog(texts.STAFF_ADD, on_dismiss=_close)(_form)()
    else:
        # Only its button closes it: a click next to it would lose the password.
        st.dialog(texts.STAFF_PASSWORD_TITLE, dismissible=False)(_password)(opened.new, opened.role)


def _open_form() -> None:
    if not notifications.refused("staff", staff_members.ADD):
        st.session_state[_NUMBER] = st.session_state.get(_NUMBER, 0) + 1  # so that its fields are empty
        st.session_state[_DIALOG] = _Dialog(None)


def _close() -> None:
    st.session_state.pop(_DIALOG, None)


def _form() -> None:
    number = st.session_state.get(_NUMBER, 0)
    must_sign_in_again = account.must_sign_in_again("add-staff")
    with st.form(f"add-staff-{number}", border=False):
        entered = st.text_input(texts.STAFF_NAME_FIELD, key=f"staff-name-{number}", max_chars=128, autocomplete="off")
        role = st.radio(
            texts.LABEL_ROLE,
            list(ROLES),
            index=None,
            key=f"staff-role-{number}",
            captions=[texts.STAFF_ROLES_MEAN[role] for role in ROLES],
        )
        if staff_members.password_file() is not None:
            st.caption(texts.STAFF_ADD_PASSWORD)
        with st.container(key="dialog-foot"):
            problem = st.container()
            with st.container(horizontal=True, gap="small"):
                pressed = st.form_submit_button(
                    texts.STAFF_ADD_CONFIRM,
                    type="primary",
                    disabled=this_tab().away or must_sign_in_again,
                    on_click=notifications.check,
                    args=("staff", staff_members.ADD),
                )
                cancelled = st.form_submit_button(texts.CANCEL)
    if cancelled:
        _close()
        st.rerun()
    if pressed:
        problem.warning(_add(entered.strip(), role))


def _add(member: str, role: str | None) -> str:
    """Add the member and show their password; or return why not."""
    if not member:
        return texts.STAFF_NAME_MISSING
    if role is None:
        return texts.STAFF_ROLE_MISSING
    try:
        new = staff_members.add(open_store().presence, member, cast("StaffRole", role))
    except REFUSALS as error:
        return texts.action_failed(plain(error))
    _close()
    if new is not None:
        show_password(new, role)
    else:
        notifications.notify(Notification("done", texts.staff_added(name(cut(member.lower(), 60)), role)))
    this_tab().acted += 1
    st.rerun()


def _password(new: NewPassword, role: str | None) -> None:
    member, until = name(cut(new.member, 60)), minute(new.until, zone())
    st.markdown(texts.staff_added(member, role) if role else texts.staff_reset(member))
    st.markdown(texts.staff_password_until(until))
    st.code(new.password, language=None)
    session_facts.show_facts({texts.LABEL_SIGN_IN_AT: _address()})
    st.caption(texts.STAFF_PASSWORD_ONCE)
    if st.button(texts.STAFF_PASSWORD_DONE, key="password-done", type="primary"):
        _close()
        st.rerun()


def _address() -> str:
    """The address of this dashboard, as the browser has it."""
    place = urlsplit(st.context.url or "")
    return f"{place.scheme}://{place.netloc}/" if place.netloc else texts.NO_VALUE
