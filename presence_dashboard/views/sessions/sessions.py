"""The Sessions page: live sessions, newest login or last active first. A Streamlit script."""

from __future__ import annotations

from typing import Final

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.components import export_dialog, kick_dialog
from presence_dashboard.components.buttons import button, live_button
from presence_dashboard.components.page_header import mirror_notice
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.session_list import SessionList, this_session_list
from presence_dashboard.data.session_query import SessionQuery
from presence_dashboard.data.store import Store, open_store
from presence_dashboard.format import code, cut
from presence_dashboard.roles import Actor
from presence_dashboard.views.sessions import (
    approval_dialog,
    approval_list,
    bulk_kick_dialog,
    bulk_kick_progress,
    bulk_timeouts_dialog,
)
from presence_dashboard.views.sessions.list_refresh import list_refresh
from presence_dashboard.views.sessions.saved_views import open_linked_view, views_menu
from presence_dashboard.views.sessions.search_bar import (
    go_to_person,
    link_faults,
    open_single,
    refuse_link,
    request_person,
    search_bar,
    search_inside,
)
from presence_dashboard.views.sessions.search_hints import search_hints
from presence_dashboard.views.sessions.session_table import pager, search_further, session_table
from presence_dashboard.views.sessions.table_columns import column_choice

access.stop_without_gate()

_LOADING: Final = '<div class="presence-loading"><div></div></div>'
"""The outlines of the buttons and of the table, so that nothing moves when they come."""


def page() -> None:
    go_to_person()
    store, listing, actor = open_store(), this_session_list(), access.current()
    open_linked_view(actor)
    opens_kick = st.query_params.pop("act", None) == "kick"  # a link of a block rule
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="search"):
        query = search_bar(actor)
        views_menu(actor)
        column_choice()
        refresh = st.container(width="content", key="list-refresh")  # for one fragment: a shared one may vanish
    faults = link_faults(query)
    if faults:
        open_single(query, ())
        listing.clear()
        _update_availability(store)
        with refresh:
            list_refresh()
        refuse_link(faults)
        return
    problem, mirrored = st.container(), st.container(key="mirrored")
    jobs, requests, first = st.container(key="bulk-progress"), st.container(key="requests"), st.empty()
    if listing.rows is None:
        with first:
            st.html(_LOADING)
        listing.load(store, query, zone())
        first.empty()
    else:  # the old list stays until the new one is read, so that it does not flicker while typing
        listing.load(store, query, zone())
    _update_availability(store)
    with mirrored:
        mirror_notice()
    rows = listing.rows if listing.query == query and listing.problem is None else None
    open_single(query, rows.sessions if rows and rows.next_cursor is None and listing.number == 1 else ())
    if not this_tab().away:
        listing.update(store)
    with refresh:
        list_refresh()
    if listing.problem is not None:
        problem.warning(listing.problem)
    if actor.may("bulk"):
        with jobs:
            bulk_kick_progress.bulk_kick_progress(may_reread=not kick_dialog.is_open())
        if opens_kick and listing.filter is not None and rows is not None:
            bulk_kick_dialog.open_dialog(listing.filter, query, ())
        bulk_kick_dialog.draft_offer()
        with requests:
            approval_list.request_list(actor)
    _list(listing, actor)
    if not kick_dialog.is_open():  # Streamlit allows one dialog at a time
        any(part.dialog() for part in (bulk_kick_dialog, bulk_timeouts_dialog, approval_dialog, export_dialog))


def _update_availability(store: Store) -> None:
    tab, was_away = this_tab(), this_tab().away
    tab.away = store.counts().failure is not None
    if tab.away and not was_away:
        st.rerun()  # the banner was already drawn: without it, old rows would look like the answer


def _list(listing: SessionList, actor: Actor) -> None:
    if listing.failure is not None:
        st.warning(texts.unreadable(listing.failure))
    search_hints(listing)
    rows = listing.rows
    if rows is None and listing.problem is not None:
        return  # a list would not answer this query
    if rows is None:
        st.info(texts.LIST_UNREAD)
        return
    if rows.sessions:
        session_table(listing, rows, actor)
    if listing.is_short:
        search_further(listing, rows)
    if rows.sessions:
        pager(listing, rows)
    elif listing.is_emptied:
        _emptied()
    elif rows.next_cursor is None:
        _no_match(listing.query) if not listing.query.is_everyone else _empty()


def _empty() -> None:
    with st.container(border=True, key="empty"):
        st.subheader(texts.EMPTY_TITLE, anchor=False)
        st.markdown(texts.EMPTY)
        st.code(texts.EMPTY_CODE, language="python")
        st.caption(texts.EMPTY_NEXT)


def _emptied() -> None:
    with st.container(border=True, key="emptied"):
        st.subheader(texts.EMPTIED_TITLE, anchor=False)
        st.markdown(texts.EMPTIED)
        st.page_link("views/history/history.py", label=texts.ENDED_SESSIONS)


def _no_match(query: SessionQuery) -> None:
    with st.container(border=True, key="no-match"):
        st.subheader(texts.NO_MATCH_TITLE, anchor=False)
        hints = [texts.NO_MATCH_MASKED if query.exact else texts.NO_MATCH]
        if query.is_filtered:
            hints.append(texts.NO_MATCH_FILTERED)
        st.markdown(" ".join(hints))
        if query.is_part_of_a_name:
            live_button(texts.INSIDE_NAMES, "look-inside", search_inside, query.text)
        if query.may_name_a_person:
            button(texts.offline(code(cut(query.text, 40))), "look-offline", request_person, query.text)
        st.page_link("views/history/history.py", label=texts.ENDED_SESSIONS)


page()
