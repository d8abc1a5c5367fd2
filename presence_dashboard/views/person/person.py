"""The Person page: search, and one person, online or not. A Streamlit script."""

from __future__ import annotations

from functools import partial
from typing import Final

import streamlit as st

from presence_core import FailedLogin, InvalidArgument, Page
from presence_core.schema.endings import kept
from presence_core.settings import DAY
from presence_dashboard import access, failure_facts, texts
from presence_dashboard.actions import kick_and_block
from presence_dashboard.components import (
    kick_dialog,
    notifications,
    people_list,
    session_facts,
    watch_list,
)
from presence_dashboard.components.buttons import live_button, more_actions
from presence_dashboard.components.page_header import mirror_notice
from presence_dashboard.data.browser_tab import local_time, this_tab, zone
from presence_dashboard.data.person_state import (
    PersonFacts,
    PersonState,
    find,
    other_viewers,
    this_person,
)
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.error_sentences import plain
from presence_dashboard.format import author, code, cut, isolated, literal, name, number, short_name, span
from presence_dashboard.format import outcome as entry_outcome
from presence_dashboard.roles import Actor
from presence_dashboard.views.person import privacy_menu, session_cards
from presence_dashboard.views.person.remark_list import remark_list
from presence_dashboard.views.person.timeline_list import history_link, timeline_list

NAMED: Final = 4
"""Colleagues that are named, and their actions that are announced at once."""

_OPEN: Final = "person-open"

access.stop_without_gate()


def page() -> None:
    actor = access.current()
    by_name = not actor.masked  # a role that may not see names may not search them
    wanted = st.text_input(
        texts.PERSON_SEARCH,
        key="q",
        type="search",
        live="300ms",
        bind="query-params",
        placeholder=texts.PERSON_SEARCH_HINT if by_name else texts.EXACT_UID_HINT,
        label_visibility="collapsed",
        width=520,
        on_change=people_list.tidy,
        args=("q",),
    )
    if not (wanted or "").strip():
        _note("start", texts.PERSON_START_TITLE, texts.PERSON_START if by_name else texts.PERSON_START_MASKED)
        return
    reading = find(open_store(), wanted, by_name=by_name)
    if isinstance(reading.error, InvalidArgument):
        st.warning(plain(reading.error))
        return
    if reading.failure is not None and not this_tab().away:
        st.warning(texts.unreadable(reading.failure))
        st.button(texts.TRY_AGAIN, key="retry")  # any run of the script retries
    found = reading.value
    if found is None:
        if this_tab().away:
            st.info(texts.PERSON_UNREAD)
    elif found.uid is not None:
        people_list.offer_others(found, "q")
        _person(this_person(found.uid), actor)
    elif found.others:
        people_list.offer(found.others, "q")
    else:
        settings = open_store().presence.settings
        longest = max(kept(settings).values())
        none = texts.person_none(settings.people_kept // DAY, longest // DAY)
        if by_name:
            _failed_names(wanted, actor)
        _note("no-match", texts.PERSON_NONE_TITLE, none, wanted)


def _note(key: str, title: str, text: str, wanted: str | None = None) -> None:
    with st.container(border=True, key=key):
        st.subheader(title, anchor=False)
        st.markdown(text)
        if wanted is not None:
            if not access.current().masked:
                people_list.did_you_mean(people_list.meant_texts(wanted), "q")
            history_link(wanted)


def _failed_names(wanted: str, actor: Actor) -> None:
    """The failed sign-ins under a name that no one here has: a visitor who never got in."""
    reading: Reading[Page[FailedLogin]] = open_store().shared(
        ("failed", wanted), lambda presence: presence.failed_logins(wanted, limit=NAMED)
    )
    if reading.value is None or not reading.value.items:
        return
    with st.container(border=True, gap="xsmall", key="failed-names"):
        st.markdown(texts.FAILED_NO_ONE)
        for failure in reading.value.items:
            st.markdown(texts.failed(failure.why, failure.count, number(failure.count)))
            at = session_facts.time_of_day(failure.at)
            st.text(" · ".join(filter(None, (at, failure_facts.details(failure, actor)))))
        address = {"view": "failed", "person": wanted}
        st.page_link("views/history/history.py", label=texts.LIVE_FAILED_IN_HISTORY, query_params=address)


# -- One person --------------------------------------------------------------------------------------------------------


def _person(state: PersonState, actor: Actor) -> None:
    if "kinds" not in st.session_state:  # the reader comes back from another page
        state.refresh()
    with st.skeleton(height=320):
        state.load(open_store())
    if state.failure is not None and not this_tab().away:
        st.warning(texts.unreadable(state.failure))
    facts = state.facts
    if facts is None:
        st.info(texts.PERSON_UNREAD)
        return
    with st.container(key="mirrored"):
        mirror_notice()
    _header(state.uid, facts, actor)
    if facts.block is not None:
        _blocked(facts, actor)
    remark_list(state, facts.remarks, actor)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.subheader(texts.PERSON_SESSIONS, anchor=False, width="content")
        _actions(state, facts, actor)
    with st.container(key="changes"):  # a fragment in a shared container may vanish during a rerun
        st.fragment(_changes, run_every=this_tab().tick)(state, actor)
    _announce(state, actor)
    if state.shown_cards():
        session_cards.session_cards(state, facts, actor)
    else:
        st.caption(texts.PERSON_NO_SESSION)
    timeline_list(state, actor)
    privacy_menu.privacy_menu(state, actor)


def _header(uid: str, facts: PersonFacts, actor: Actor) -> None:
    shows_name = "name" not in actor.masked
    with st.container(gap="xsmall", key="person-header"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            called = name(facts.name or uid) if shows_name else texts.PERSON_NAME_HIDDEN
            st.header(called, anchor=False, width="content")
            if count := sum(session.on_behalf_by is None for session in facts.sessions):
                st.markdown(texts.person_online(texts.number_of_sessions(count, number(count))), width="content")
            else:
                seen = session_facts.time_of_day(facts.last_seen) if facts.last_seen else None
                st.markdown(texts.person_offline(seen), width="content")
            st.code(literal(uid), language=None, width="content")
            watch_list.watch_button(uid, facts.name, actor)
            watch_list.alert_button(uid, facts.name, actor)
        also = [isolated(alias) for alias in facts.aliases if alias != uid]
        if also and shows_name:
            st.text(texts.labelled(texts.LABEL_ALIASES, ", ".join(also)))


def _blocked(facts: PersonFacts, actor: Actor) -> None:
    block = facts.block
    if block is None:
        return
    with st.container(border=True, gap="xsmall", key="blocked"):
        st.markdown(texts.person_blocked(notifications.block_summary(block)))
        session_facts.show_facts(
            {
                texts.LABEL_SINCE: block.at,
                texts.FACT_CHANGED: None if block.changed == block.at else block.changed,
                texts.LABEL_REASON: block.reason or None,
                texts.LABEL_MESSAGE: block.message,
            },
        )
        if actor.may("kick"):
            with st.container(horizontal=True, gap="small"):
                live_button(texts.UNBLOCK, "unblock", kick_dialog.open_for_unblock, block.uid, facts.name)
                live_button(texts.CHANGE_BLOCK_BUTTON, "block", kick_dialog.open_for_block, block.uid, facts.name)


def _actions(state: PersonState, facts: PersonFacts, actor: Actor) -> None:
    if not actor.may("kick"):
        return
    uid, count = state.uid, len(facts.sessions)
    to_ask = sum(map(kick_and_block.may_require_sign_in, facts.sessions))
    may_change = any(map(kick_and_block.may_change_timeouts, facts.sessions))
    has_sessions = bool(state.shown_cards())
    if has_sessions:  # also while all of them have ended, so that the button to block keeps its place
        label = texts.person_kick_all(count, number(count))
        live_button(label, "kick-all", kick_dialog.open_for_person, uid, shortcut="K", disabled=not count)
    if facts.block is None:
        live_button(texts.BLOCK, "block", kick_dialog.open_for_block, uid, facts.name)
    if has_sessions:
        ask, change = (partial(act, uid) for act in (kick_dialog.open_for_sign_in, kick_dialog.open_for_timeouts))
        acts = (
            (texts.require_sign_in(to_ask), "sign-in-all", ask if to_ask else None),
            (texts.CHANGE_TIMEOUTS, "timeouts-all", change if may_change else None),
        )
        more_actions("more-all", acts)


def _changes(state: PersonState, actor: Actor) -> None:
    """Follow, the refresh button, and who else has the person open. Each keeps its place, so that no card moves under
    the pointer."""
    tab = this_tab()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        never = tab.refresh == 0
        follows = st.toggle(
            texts.PERSON_FOLLOW,
            value=True,
            key="follow",
            disabled=never,
            help=texts.PERSON_FOLLOW_OFF if never else texts.PERSON_FOLLOW_HELP,
        )
        is_still = never or not follows or kick_dialog.is_open()
        if not is_still and state.follow(open_store()):
            st.rerun()
        changed = is_still and state.has_changed(open_store())
        if st.button(
            texts.PERSON_CHANGED if changed else texts.REFRESH,
            key="refresh-person",
            type="primary" if changed else "secondary",
            disabled=tab.away,
        ):
            state.refresh()
            st.rerun()
        if state.facts is not None:
            as_of = texts.person_as_of(local_time(state.facts.as_of), span(state.facts.age))
            st.caption(as_of, width="content")
            if theirs := _their_time(state.facts, actor):
                st.caption(theirs, width="content")
        if not tab.away:
            _also_open(state.uid, actor)


def _their_time(facts: PersonFacts, actor: Actor) -> str | None:
    """What a clock shows now where the person was last active, safe for Markdown."""
    own = [session for session in facts.sessions if session.on_behalf_by is None]
    latest = max(own, key=lambda session: session.last_seen, default=None)
    words = latest and session_facts.zone_words(session_facts.their_zone(latest, actor), with_time=True)
    return texts.labelled(texts.LABEL_TIME_ZONE, words) if words else None


def _also_open(uid: str, actor: Actor) -> None:
    """Who else has the person open; this tab is noted for them."""
    viewers = other_viewers(open_store(), uid, actor.name, before=st.session_state.get(_OPEN))
    st.session_state[_OPEN] = uid
    if viewers:
        named = [(name(cut(viewer.name, 40)), session_facts.time_of_day(viewer.since)) for viewer in viewers[:NAMED]]
        st.markdown(texts.also_open(named, len(viewers) - len(named)), width="content")


def _announce(state: PersonState, actor: Actor) -> None:
    """Say what colleagues have just done to this person."""
    news, state.news = state.news, []
    for entry in reversed(news[:NAMED]):
        if entry.by is not None and entry.by != actor.name:
            outcome = isolated(entry_outcome(entry, zone())) or None
            by, at = author(entry.by, entry.uid, short_name), session_facts.time_of_day(entry.at)
            st.toast(
                texts.colleague_acted(by, entry.action, outcome and code(outcome), at),
                icon=":material/group:",
                duration="long",
            )


page()
