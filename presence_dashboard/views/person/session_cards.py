"""The live sessions of a person as cards."""

from __future__ import annotations

from functools import partial
from typing import Final

import streamlit as st

from presence_core import Session
from presence_dashboard import texts
from presence_dashboard.actions import kick_and_block
from presence_dashboard.components import kick_dialog, session_facts
from presence_dashboard.components.buttons import live_button
from presence_dashboard.data.person_state import Card, PersonFacts, PersonState
from presence_dashboard.data.store import open_store
from presence_dashboard.format import cut, name, number
from presence_dashboard.roles import HIDDEN, Actor
from presence_dashboard.views.person.timeline_list import ended_words

FIRST: Final = 12
"""Cards that are shown at first."""

MORE: Final = 48
"""Cards that each press of the button adds."""

_WIDTH: Final = 300


def session_cards(person: PersonState, facts: PersonFacts, actor: Actor) -> None:
    """A card for each live session, newest login first; more cards on demand."""
    cards = person.shown_cards()
    total, live = len(cards), len(facts.sessions)
    shown = cards[: FIRST + MORE * person.cards]
    newest = max(facts.sessions, key=lambda session: session.login_at).session_id if live > 1 else None
    with st.container(horizontal=True, gap="small", key="cards"):
        for card in shown:
            if card.is_over:
                _ended_card(card, actor)
            else:
                by = person.demanded_by(card.session)
                _card(card.session, live, actor, is_newest=card.session.session_id == newest, demanded_by=by)
    if total > len(shown):
        left = total - len(shown)
        label = texts.person_more_cards(max(left - MORE, 0), number(min(left, MORE)), number(total))
        if st.button(label, key="more-cards"):
            person.cards += 1
            st.rerun()


def _ended_card(card: Card, actor: Actor) -> None:
    """A session that ended while the page was open. It keeps its place, so that no button moves under the pointer."""
    session = card.session
    with st.container(border=True, width=_WIDTH, gap="xsmall", key=f"card-{session.session_id}"):
        st.markdown(f":gray[~~{session_facts.device(session, actor)}~~] :gray-badge[{texts.PERSON_ENDED}]")
        if card.ended is not None:
            st.markdown(ended_words(card.ended, actor))
        session_facts.show_facts(
            {
                texts.LABEL_BROWSER: session_facts.client(session),
                texts.LABEL_LOGIN: session.login_at,
                texts.LABEL_ENDED: None if card.ended is None else card.ended.at,
            },
        )


def _card(session: Session, total: int, actor: Actor, *, is_newest: bool, demanded_by: str | None) -> None:
    moved = session.last_ip if session.last_ip != session.ip else None
    with st.container(border=True, width=_WIDTH, gap="xsmall", key=f"card-{session.session_id}"):
        newest = f" :gray-badge[{texts.PERSON_NEWEST}]" if is_newest else ""
        flags = "".join(f" :orange-badge[{flag}]" for flag in session_facts.flags(session))
        st.markdown(f"{session_facts.device(session, actor)}{newest}{flags}")
        if session.sign_in_required_at is not None:
            at, by = session_facts.time_of_day(session.sign_in_required_at), demanded_by and name(cut(demanded_by, 40))
            st.markdown(texts.must_sign_in(by, at))
        theirs = session_facts.their_zone(session, actor)
        session_facts.show_facts(
            {
                texts.LABEL_ON_BEHALF_BY: session.on_behalf_by,
                texts.LABEL_BROWSER: session_facts.client(session),
                texts.LABEL_APP: session_facts.app(session),
                texts.LABEL_IP: session_facts.address(session, actor),
                texts.LABEL_LAST_IP: HIDDEN if moved and "ip" in actor.masked else moved,
                texts.LABEL_PLACE: session_facts.place(session, actor),
                texts.LABEL_NETWORK: session_facts.provider(session, actor),
                texts.LABEL_TIME_ZONE: session_facts.zone_words(theirs),
                texts.LABEL_LOGIN_BEFORE: session_facts.login_before(session, actor),
                texts.LABEL_LOGIN: session.login_at,
                texts.LABEL_LAST_ACTIVE: session.last_seen,
                texts.LABEL_EXPIRES: session.expires_at,
                texts.METHOD_FILTER: session_facts.authentication(session),
                texts.LABEL_SIGNED_IN_AT: (session.idp or {}).get("iss"),
                **session_facts.attributes(session, actor, open_store().presence.settings.facets),
            },
            theirs,
        )
        if actor.may("kick"):
            _buttons(session, total)


def _buttons(session: Session, total: int) -> None:
    with st.container(horizontal=True, gap="small"):
        live_button(
            texts.PERSON_KICK_THIS, f"kick-{session.session_id}", kick_dialog.open_for_sessions, (session,)
        )  # fmt: skip
        if total > 1:
            keep_this = partial(kick_dialog.open_for_person, keep=True)
            key, refs = f"keep-{session.session_id}", (session.ref,)
            live_button(texts.PERSON_KEEP_THIS, key, keep_this, session.uid, refs, type="tertiary")
    with st.container(horizontal=True, gap="small"):  # in a row of its own: a card keeps its height
        if kick_and_block.may_require_sign_in(session):
            key = f"sign-in-{session.session_id}"
            live_button(texts.require_sign_in(1), key, kick_dialog.open_for_sign_in, session.uid, session)
        key = f"timeouts-{session.session_id}"
        change = kick_dialog.open_for_timeouts
        live_button(texts.CHANGE_TIMEOUTS, key, change, session.uid, session, type="tertiary")
