"""The line at the top of every page: brand, counts, connection, watch list and account. And the notices of an outage
and of mirrored sessions.

Streamlit draws the links to the pages in the same line. ``page.css`` gives each part its place.
"""

from __future__ import annotations

import os
from html import escape
from urllib.parse import urlsplit

import streamlit as st

from presence_core import Counts, PresenceError
from presence_dashboard import access, texts
from presence_dashboard.actions import approvals
from presence_dashboard.components import account
from presence_dashboard.components.watch_list import announce, watch_menu
from presence_dashboard.data.browser_tab import local_time, this_tab, zone
from presence_dashboard.data.shared_reads import mirrors, now
from presence_dashboard.data.store import Reading, open_store, outage_words
from presence_dashboard.format import code, name, number, span
from presence_dashboard.roles import Actor


def page_header(actor: Actor) -> None:
    """Draw the header. Call it before the page: it sets ``Tab.away``."""
    this_tab().away = open_store().counts().failure is not None
    this_tab().requests = None
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small", key="header"):
        st.html(f'<h1 class="presence-brand"><i></i><span>{escape(texts.PRODUCT)}</span></h1>', width="content")
        if os.environ.get("PRESENCE_DEMO") == "1":
            with st.container(width="content", key="demo-notice"):
                st.markdown(texts.demo_notice(demo_site(os.environ.get("PRESENCE_DEMO_SITE"))), width="content")
        status = st.container(width="content", key="status")  # for one fragment: in a shared container it may vanish
        watch_menu(actor)
        account.menu(actor)  # it sets the interval of the fragment
        with status:
            st.fragment(_status, run_every=this_tab().watch_tick)(actor)


def outage_notice() -> None:
    """The notice while Redis does not answer. It lies over the end of the page and moves nothing.

    Its container is always drawn: Streamlit finds parts by their place, and one more would move those that follow.
    page.js says the same sooner.
    """
    reading = open_store().counts()
    with st.container(key="outage"):
        if reading.failure is not None:
            st.warning(outage_words(reading, zone()))


def mirror_notice() -> None:
    """Say that sessions are mirrored from the site's own store, how far behind, and what a kick does.

    A line for each mirror of this namespace, nothing without one. Call it alone in its container: it refreshes.
    """
    if mirrors():
        st.fragment(_mirror_notices, run_every=this_tab().tick)()


def _mirror_notices() -> None:
    for status in mirrors():
        store, age = name(status.store), max(0.0, (now() - status.at).total_seconds())
        if not status.alive:
            st.warning(texts.mirror_stopped(store, span(age)))
        elif status.problem:
            st.warning(texts.mirror_waits(store))
        else:
            waiting = f" {texts.mirror_waiting(status.waiting)}" if status.waiting else ""
            st.caption(texts.mirrored(store, span(status.behind_seconds + age)) + waiting)


def _status(actor: Actor) -> None:
    """The counts and the connection, at each tick. A change of the connection or of the role redraws the page."""
    reading = open_store().counts()
    if not access.is_still(actor) or (reading.failure is not None) != this_tab().away:
        st.rerun()
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small", width="content"):
        _requests(actor)
        with st.container(width="content", key="namespace"):
            st.caption(_namespace(), width="content")
        st.markdown(_online(reading.value), width="content", help=_help(reading.value))
        with st.container(width="content", key="connection"):
            st.html(_connection(reading), width="content")
    announce(actor)


def _requests(actor: Actor) -> None:
    """How many requests of other people wait for this admin. If the page lists requests and one has changed, it is
    drawn again. The container is always drawn, so that no part moves."""
    with st.container(width="content", key="waiting-requests"):
        if not actor.may("bulk"):
            return
        found = approvals.requests(open_store()).value or []
        if this_tab().requests not in (None, approvals.states_of(approvals.shown_to(actor, found))):
            st.rerun()
        waiting = len(approvals.waiting_for(actor, found))
        if waiting:
            words = texts.request_badge(waiting)  # the number alone is seen; screen readers read all
            st.page_link("views/sessions/sessions.py", label=words, icon=":material/approval:", help=words)


def _namespace() -> str:
    try:
        return code(open_store().presence.settings.namespace)
    except PresenceError:
        return texts.NO_VALUE


def _online(counts: Counts | None) -> str:
    users, sessions = (number(counts.users), number(counts.sessions)) if counts else (texts.NO_VALUE, texts.NO_VALUE)
    return texts.online_now(users, sessions)


def _help(counts: Counts | None) -> str:
    if counts is None:
        return texts.USERS_HELP
    return f"{texts.USERS_HELP} {texts.counted_at(local_time(counts.as_of))}."


def _connection(reading: Reading[Counts]) -> str:
    """How old the counts are, as a time of day that stays true, in the zone of all times of the page."""
    lost = reading.failure is not None
    time = local_time(reading.value.as_of) if reading.value else texts.NO_VALUE
    words = texts.connection_lost_since(time) if lost else texts.counted_at(time)
    region = escape(texts.in_zone(str(zone())))
    return f'<p class="presence-connection" data-lost="{int(lost)}">{escape(words)} <span>{region}</span></p>'


def demo_site(address: str | None) -> str | None:
    """The demo site's address, if it is safe in a link; else None."""
    if not address or any(char in address for char in "<>\\ \n"):
        return None
    return address if urlsplit(address).scheme in ("http", "https") else None
