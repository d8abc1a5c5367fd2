"""The Staff page: who may work with the dashboard. Streamlit runs this file as a script of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pandas as pd
import streamlit as st

from presence_core import PresenceError
from presence_dashboard import access, team, texts
from presence_dashboard.format import cut, literal, name
from presence_dashboard.ledger import Ledger, this_ledger
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab, zone
from presence_dashboard.team import Colleague, Wanted
from presence_dashboard.views import cards, notices
from presence_dashboard.views.notices import Notice
from presence_dashboard.views.paging import bar, pager
from presence_dashboard.wording import plain

access.stop_without_gate()

ROW_HEIGHT: Final = 31
MOST_ROWS: Final = 20


def page() -> None:
    store = open_store()
    wanted = _wanted()
    ledger: Ledger[Colleague] = this_ledger("team")
    with st.skeleton(height=200):
        ledger.load(store, wanted, partial(team.colleagues, store, wanted))
    if ledger.failure is not None and not this_tab().away:
        st.error(texts.unreadable(ledger.failure))
    if ledger.page is None:
        st.info(texts.STAFF_UNREAD)
    elif ledger.page.items:
        _table(ledger, ledger.page.items)
        st.caption(texts.STAFF_ADD_HINT)
    else:
        _nobody(wanted)


def _wanted() -> Wanted:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        text = st.text_input(
            texts.STAFF_SEARCH,
            key="colleague",
            type="search",
            live="300ms",
            max_chars=128,
            placeholder=texts.STAFF_SEARCH,
            label_visibility="collapsed",
            width=280,
        )
        removed = st.toggle(texts.STAFF_REMOVED, key="colleagues-removed")
    return Wanted((text or "").strip(), removed)


def _nobody(wanted: Wanted) -> None:
    with st.container(border=True, key="nobody"):
        if wanted != Wanted():
            st.markdown(texts.STAFF_NO_MATCH)
            return
        st.subheader(texts.STAFF_EMPTY_TITLE, anchor=False)
        st.markdown(texts.STAFF_EMPTY)
        st.code(texts.STAFF_EMPTY_CODE, language=None)


def _table(ledger: Ledger[Colleague], rows: list[Colleague]) -> None:
    column, here = st.column_config, str(zone())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        bar(ledger)
    columns: dict[str, list[Any]] = {
        texts.STAFF_NAME: [literal(one.member.name) for one in rows],
        texts.STAFF_ROLE: [one.member.role or texts.STAFF_NO_ROLE for one in rows],
        texts.STAFF_IS_IN: [texts.STAFF_YES if one.is_in else texts.STAFF_NO for one in rows],
        texts.staff_since(here): [one.member.since for one in rows],
        texts.STAFF_BY: [literal(one.member.by) for one in rows],
    }
    event = st.dataframe(
        pd.DataFrame(columns),
        key=f"team-{ledger.generation}",
        on_select="rerun",
        selection_mode="single-row",
        column_config={
            texts.staff_since(here): column.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", timezone=here, width=170)
        },
        hide_index=True,
        height=ROW_HEIGHT * (min(len(rows), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="",
        alt=texts.STAFF_ALT,
    )
    pager(ledger, len(rows))
    ticked = next(iter(event.selection.rows), None)
    if ticked is not None and ticked < len(rows):
        _colleague(rows[ticked])
    else:
        st.caption(texts.STAFF_SELECT_HINT)


def _colleague(one: Colleague) -> None:
    member = one.member
    with st.container(border=True, gap="small", key="colleague-panel"):
        st.subheader(name(cut(member.name, 80)), anchor=False)
        with st.container(gap="xxsmall"):
            cards.facts(
                {
                    texts.FACT_ROLE: texts.staff_role(member.role or texts.STAFF_NO_ROLE),
                    texts.FACT_SINCE: member.since,
                    texts.FACT_GIVEN_BY: member.by,
                    texts.FACT_SIGNED_IN: _sign_ins(member.name) if one.is_in else texts.STAFF_NO,
                },
            )
        _role(member.name, member.role)
        with st.container(horizontal=True, gap="small"):
            _act("sign-out", texts.STAFF_SIGN_OUT, partial(_sign_out, member.name), team.SIGN_OUT, is_off=not one.is_in)
            with st.popover(texts.STAFF_REMOVE, disabled=this_tab().away or member.role is None):
                st.caption(texts.STAFF_REMOVE_EXPLAINED)
                _act("remove", texts.STAFF_REMOVE_CONFIRM, partial(_remove, member.name), team.REMOVE)


def _sign_ins(who: str) -> str:
    try:
        found = team.sign_ins(who)
    except PresenceError:
        return texts.NO_VALUE
    return "\n".join(
        texts.staff_sign_in(cards.client(one) or "", one.ip or "", cards.time_of_day(one.last_seen)) for one in found
    )


def _role(who: str, role: str | None) -> None:
    roles = list(access.ROLES)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        wanted = st.selectbox(
            texts.STAFF_NEW_ROLE,
            roles,
            index=roles.index(role) if role in roles else None,
            key=f"role-{who}-{role}",
            width=160,
        )
        _act(
            "set-role",
            texts.STAFF_SET,
            partial(_set_role, who, wanted or ""),
            team.SET_ROLE,
            is_off=wanted in (None, role),
        )


def _act(key: str, label: str, act: Callable[[], Notice], what: str, *, is_off: bool = False) -> None:
    if st.button(label, key=key, disabled=this_tab().away or is_off, on_click=notices.check, args=("staff", what)):
        try:
            told = act()
        except (PresenceError, access.Denied, access.SignedOut) as error:
            told = Notice("bad", texts.could_not(plain(error)))
        notices.tell(told)
        this_tab().acted += 1
        st.rerun()


def _set_role(who: str, role: str) -> Notice:
    record = team.set_role(open_store().presence, who, role)
    return Notice("done", texts.staff_is_now(name(cut(who, 60)), record.role or texts.STAFF_NO_ROLE))


def _remove(who: str) -> Notice:
    was = team.remove(open_store().presence, who)
    shown = name(cut(who, 60))
    return Notice("done", texts.staff_removed(shown)) if was else Notice("note", texts.staff_had_no_role(shown))


def _sign_out(who: str) -> Notice:
    return Notice("done", texts.staff_signed_out(name(cut(who, 60)), team.sign_out(open_store().presence, who)))


page()
