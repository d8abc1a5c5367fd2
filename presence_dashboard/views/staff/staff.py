"""The Staff page: staff members, their roles, passwords and sign-ins. A Streamlit script."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import streamlit as st

from presence_core import PresenceError, StaffRole
from presence_dashboard import access, texts
from presence_dashboard.actions import staff_members
from presence_dashboard.actions.staff_members import StaffEntry, StaffQuery
from presence_dashboard.components import account, notifications, session_facts
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.pagination import load_rows, pager, record_list, refresh_bar
from presence_dashboard.components.record_table import Column
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.paged_list import PagedList, this_paged_list
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import cut, literal, name
from presence_dashboard.roles import ROLES
from presence_dashboard.views.staff import staff_dialogs

access.stop_without_gate()


def page() -> None:
    store = open_store()
    is_read_only = staff_members.passwords_are_read_only()
    query = _query(is_read_only)
    if is_read_only:
        st.info(texts.STAFF_READ_ONLY)
    paged: PagedList[StaffEntry] = this_paged_list("staff-members")
    rows = load_rows(paged, query, partial(staff_members.list_staff, store, query), height=200)
    if rows:
        _table(paged, rows, is_read_only)
        if access.mode() in ("proxy", "oidc"):
            st.caption(texts.STAFF_BY_PROVIDER)
    elif rows is not None:
        _empty(query)
    staff_dialogs.dialog()


def _query(is_read_only: bool) -> StaffQuery:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        text = st.text_input(
            texts.STAFF_SEARCH,
            key="staff-search",
            type="search",
            live="300ms",
            max_chars=128,
            placeholder=texts.STAFF_SEARCH,
            label_visibility="collapsed",
            width=280,
        )
        removed = st.toggle(texts.STAFF_REMOVED, key="staff-removed")
        st.space("stretch")
        staff_dialogs.add_button(disabled=is_read_only)
    return StaffQuery((text or "").strip(), removed)


def _empty(query: StaffQuery) -> None:
    with st.container(border=True, key="no-staff"):
        if query != StaffQuery():
            st.markdown(texts.STAFF_NO_MATCH)
            return
        st.subheader(texts.STAFF_EMPTY_TITLE, anchor=False)
        st.markdown(texts.STAFF_EMPTY)
        st.code(texts.STAFF_EMPTY_CODE, language=None)


def _table(paged: PagedList[StaffEntry], rows: list[StaffEntry], is_read_only: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        refresh_bar(paged)
    passwords = [texts.STAFF_PASSWORDS.get(entry.password or "", texts.NO_VALUE) for entry in rows]
    has_passwords = any(entry.password is not None for entry in rows)
    record_list(
        paged,
        rows,
        [
            (Column("name", texts.LABEL_NAME), [literal(entry.member.name) for entry in rows]),
            (Column("role", texts.LABEL_ROLE), [entry.member.role or texts.STAFF_NO_ROLE for entry in rows]),
            (
                Column("signed_in", texts.LABEL_SIGNED_IN),
                [texts.STAFF_YES if entry.is_signed_in else texts.STAFF_NO for entry in rows],
            ),
            *([(Column("password", texts.LABEL_PASSWORD), passwords)] if has_passwords else []),
            (Column("since", texts.LABEL_SINCE, "time"), [entry.member.since for entry in rows]),
            (Column("by", texts.LABEL_GIVEN_BY), [literal(entry.member.by) for entry in rows]),
        ],
        partial(_member_panel, is_read_only=is_read_only),
        key="staff-members",
        caption=texts.STAFF_ALT,
        hint=texts.STAFF_SELECT_HINT,
    )
    pager(paged, len(rows))


def _member_panel(entry: StaffEntry, is_read_only: bool) -> None:
    member = entry.member
    st.subheader(name(cut(member.name, 80)), anchor=False)
    session_facts.show_facts(
        {
            texts.LABEL_ROLE: texts.staff_role(member.role or texts.STAFF_NO_ROLE),
            texts.LABEL_SINCE: member.since,
            texts.LABEL_GIVEN_BY: member.by,
            texts.LABEL_SIGNED_IN: _sign_ins(member.name) if entry.is_signed_in else texts.STAFF_NO,
            texts.LABEL_PASSWORD: texts.STAFF_PASSWORDS[entry.password] if entry.password else None,
        },
    )
    # Signing out needs no fresh authentication, as a kick: it must be quick.
    must_sign_in_again = account.must_sign_in_again("staff")
    _role(member.name, member.role, disabled=must_sign_in_again)
    with st.container(horizontal=True, gap="small"):
        _button(
            "sign-out",
            texts.STAFF_SIGN_OUT,
            partial(_sign_out, member.name),
            staff_members.SIGN_OUT,
            disabled=not entry.is_signed_in,
        )
        if entry.password is not None:
            _reset(member.name, disabled=is_read_only or must_sign_in_again or member.role is None)
        with st.popover(texts.STAFF_REMOVE, disabled=this_tab().away or member.role is None):
            st.caption(texts.STAFF_REMOVE_EXPLAINED)
            _button(
                "remove",
                texts.STAFF_REMOVE_CONFIRM,
                partial(_remove, member.name),
                staff_members.REMOVE,
                disabled=must_sign_in_again,
            )


def _reset(member_name: str, *, disabled: bool) -> None:
    is_own = member_name == access.current(touch=False).name
    with st.popover(
        texts.STAFF_RESET,
        disabled=this_tab().away or disabled or is_own,
        help=texts.STAFF_RESET_OWN if is_own else None,
    ):
        st.caption(texts.STAFF_RESET_EXPLAINED)
        _button(
            "reset",
            texts.STAFF_RESET_CONFIRM,
            partial(_reset_password, member_name),
            staff_members.RESET,
            disabled=disabled,
        )


def _sign_ins(member_name: str) -> str:
    try:
        sessions = staff_members.sign_ins(member_name)
    except PresenceError:
        return texts.NO_VALUE
    return "\n".join(
        texts.staff_sign_in(
            session_facts.client(session) or "", session.ip or "", session_facts.time_of_day(session.last_seen)
        )
        for session in sessions
    )


def _role(member_name: str, role: str | None, *, disabled: bool) -> None:
    roles = list(ROLES)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        chosen = st.selectbox(
            texts.STAFF_NEW_ROLE,
            roles,
            index=roles.index(role) if role in roles else None,
            key=f"role-{member_name}-{role}",
            width=160,
        )
        _button(
            "set-role",
            texts.STAFF_SET,
            partial(_set_role, member_name, chosen or ""),
            staff_members.SET_ROLE,
            disabled=disabled or chosen in (None, role),
        )


def _button(
    key: str, label: str, act: Callable[[], Notification | None], audit_name: str, *, disabled: bool = False
) -> None:
    if notifications.checked_button(label, key, "staff", audit_name, disabled=disabled):
        try:
            result = act()
        except REFUSALS as error:
            result = notifications.failed(plain(error))
        if result is not None:
            notifications.notify(result)
        this_tab().acted += 1
        st.rerun()


def _set_role(member_name: str, role: str) -> Notification:
    record = staff_members.set_role(open_store().presence, member_name, cast("StaffRole", role))
    return Notification("done", texts.staff_is_now(name(cut(member_name, 60)), record.role or texts.STAFF_NO_ROLE))


def _reset_password(member_name: str) -> None:
    staff_dialogs.show_password(staff_members.reset_password(open_store().presence, member_name))


def _remove(member_name: str) -> Notification:
    removal = staff_members.remove(open_store().presence, member_name)
    shown = name(cut(member_name, 60))
    if not removal.is_complete:
        return Notification("bad", texts.staff_removed_in_part(shown))
    if not removal.had_role:
        return Notification("note", texts.staff_had_no_role(shown))
    return Notification("done", texts.staff_removed(shown))


def _sign_out(member_name: str) -> Notification:
    return Notification(
        "done",
        texts.staff_signed_out(name(cut(member_name, 60)), staff_members.sign_out(open_store().presence, member_name)),
    )


page()
