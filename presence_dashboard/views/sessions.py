"""The Sessions page: who is online, newest login first. Streamlit runs this file as a script of its own."""

from __future__ import annotations

import streamlit as st

from presence_dashboard import access, texts
from presence_dashboard.access import Actor
from presence_dashboard.format import code, cut
from presence_dashboard.listing import Listing, this_listing
from presence_dashboard.questions import Question
from presence_dashboard.store import Store, open_store
from presence_dashboard.tab import this_tab, zone
from presence_dashboard.views import bulk, export, kick
from presence_dashboard.views.search import ask_for_person, go_to_person, link_faults, look_inside, refuse_link, search
from presence_dashboard.views.strip import strip
from presence_dashboard.views.table import column_choice, has_ticks, pager, rare, table

access.stop_without_gate()


def page() -> None:
    go_to_person()
    store, listing, actor = open_store(), this_listing(), access.current()
    counts = st.container()  # the strip's own: a fragment that shares one may vanish when it meets a rerun
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="search"):
        question = search(actor)
        column_choice()
    faults = link_faults(question)
    if faults:
        listing.clear()
        _find_out_whether_redis_is_away(store)
        with counts:
            strip()
        refuse_link(faults)
        return
    problem, jobs, first = st.container(), st.container(), st.empty()
    if listing.rows is None:
        with first, st.skeleton(height=320):
            listing.load(store, question, zone())
        first.empty()
    else:  # what is there stays until the answer is: a list that blinks at each key cannot be read
        listing.load(store, question, zone())
    _find_out_whether_redis_is_away(store)
    if not this_tab().away:
        listing.look(store)
    with counts:
        strip()
    if listing.problem is not None:
        problem.warning(listing.problem)
    if actor.may("bulk"):
        with jobs:
            bulk.panel(may_reread=not (has_ticks(listing) or kick.is_open()))
    _list(listing, actor)
    if not kick.is_open():  # of dialogs there may be one
        _ = bulk.dialog() or export.dialog()


def _find_out_whether_redis_is_away(store: Store) -> None:
    tab, was = this_tab(), this_tab().away
    tab.away = store.counts().failure is not None
    if tab.away and not was:
        st.rerun()  # the banner above is drawn before the page: without it, old rows would look like an answer


def _list(listing: Listing, actor: Actor) -> None:
    if listing.failure is not None:
        st.error(texts.unreadable(listing.failure))
    rows = listing.rows
    if rows is None and listing.problem is not None:
        return  # there is no list that it could be the answer to
    if rows is None:
        st.info(texts.NO_LIST_YET)
        return
    if rows.sessions:
        table(listing, rows, actor)
    if listing.is_short:
        rare(listing, rows)
    if rows.sessions:
        pager(listing, rows)
    elif rows.next_cursor is None:
        _no_match(listing.question) if not listing.question.is_everybody else _nobody()


def _nobody() -> None:
    with st.container(border=True, key="empty"):
        st.subheader(texts.EMPTY_TITLE, anchor=False)
        st.markdown(texts.EMPTY)
        st.code(texts.EMPTY_CODE, language="python")
        st.caption(texts.EMPTY_NEXT)


def _no_match(question: Question) -> None:
    with st.container(border=True, key="no-match"):
        st.subheader(texts.NO_MATCH_TITLE, anchor=False)
        st.markdown(texts.NO_MATCH_MASKED if question.exact else texts.NO_MATCH)
        if question.is_part_of_a_name:
            st.button(
                texts.INSIDE_NAMES,
                key="look-inside",
                disabled=this_tab().away,
                on_click=look_inside,
                args=(question.text,),
            )
        if question.text:
            st.button(
                texts.offline(code(cut(question.text, 40))),
                key="look-offline",
                on_click=ask_for_person,
                args=(question.text,),
            )
        st.page_link("views/history.py", label=texts.ENDED_SESSIONS)


page()
