"""The live sessions of a person: cards, or rows if there are many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.components import kick_dialog, session_facts
from presence_dashboard.components.kick_dialog.session_panel import session_panel
from presence_dashboard.components.pagination import FULL, with_details
from presence_dashboard.components.record_table import Column, Row, record_table, ref_of
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.person_state import Card, PersonFacts, PersonState
from presence_dashboard.data.shared_reads import now
from presence_dashboard.format import literal, number
from presence_dashboard.roles import Actor
from presence_dashboard.views.person.timeline_list import ended_words

CARDS: Final = 6
"""Sessions that are shown as cards; more are rows."""

ROWS: Final = 50
"""Rows that are shown at first, and that each press of the button adds."""

_WIDTH: Final = 300
_KEY: Final = "person-sessions"


def session_cards(person: PersonState, facts: PersonFacts, actor: Actor) -> None:
    """The live sessions, newest login first: a card for each, or rows if there are many."""
    cards = person.shown_cards()
    live = len(facts.sessions)
    newest = max(facts.sessions, key=lambda session: session.login_at).session_id if live > 1 else None

    def draw(card: Card) -> None:
        if card.has_ended:
            _ended_facts(card, actor)
        else:
            by = person.demanded_by(card.session)
            session_panel(card.session, live, actor, is_newest=card.session.session_id == newest, demanded_by=by)

    if len(cards) > CARDS:
        _rows(person, cards, actor, draw)
        return
    with st.container(horizontal=True, gap="small", key="cards"):
        for card in cards:
            with st.container(border=True, width=_WIDTH, gap="xsmall", key=f"card-{card.session.session_id}"):
                draw(card)


def _rows(person: PersonState, cards: list[Card], actor: Actor, draw: Callable[[Card], None]) -> None:
    """A row for each session, next to the facts and actions of the one that the reader picks."""
    shown = {card.session.ref: card for card in cards[: ROWS * (1 + person.cards)]}

    def kick() -> None:
        card = shown.get(ref_of(_KEY, "kick") or "")
        if card is not None and not card.has_ended and not this_tab().away:
            kick_dialog.open_for_sessions((card.session,))

    picked = shown.get(person.picked or "")
    table = partial(
        record_table,
        [Column(name, label, kind) for name, label, kind in _columns()],
        [_row(card, actor) for card in shown.values()],
        key=_KEY,
        shown=f"{person.uid}-{person.generation}",
        caption=texts.PERSON_SESSIONS,
        back=texts.BACK_TO_FIRST,
        now=now(),
        picked=person.picked,
        can_act=not this_tab().away,
        on_pick=lambda: person.pick(ref_of(_KEY, "pick")),
        on_kick=kick if actor.may("kick") else None,
    )
    box = "full-sessions" if len(shown) >= FULL else "few-sessions"
    with_details(_KEY, box, table, None if picked is None else partial(draw, picked), person.pick)
    left = len(cards) - len(shown)
    if left:
        label = texts.person_more_cards(max(left - ROWS, 0), number(min(left, ROWS)), number(len(cards)))
        if st.button(label, key="more-cards"):
            person.cards += 1
            st.rerun()


def _columns() -> list[tuple[str, str, Literal["text", "time", "ago", "ahead"]]]:
    return [
        ("device", texts.LABEL_DEVICE, "text"),
        ("browser", texts.LABEL_BROWSER, "text"),
        ("app", texts.LABEL_APP, "text"),
        ("ip", texts.LABEL_IP, "text"),
        ("place", texts.LABEL_PLACE, "text"),
        ("flags", texts.LABEL_FLAGS, "text"),
        ("login", texts.LABEL_LOGIN, "time"),
        ("seen", texts.LABEL_LAST_ACTIVE, "ago"),
        ("expires", texts.LABEL_EXPIRES, "ahead"),
    ]


def _row(card: Card, actor: Actor) -> Row:
    session = card.session
    device = literal(session_facts.device_name(session, actor) or texts.PERSON_NO_DEVICE)
    cells = (
        device,
        literal(session_facts.client(session) or ""),
        literal(session_facts.app(session) or ""),
        session_facts.address(session, actor) or "",
        literal(session_facts.place(session, actor) or ""),
        ", ".join(session_facts.flags(session)),
        session.login_at,
        session.last_seen,
        session.expires_at,
    )
    return Row(session.ref, device, cells, texts.PERSON_ENDED if card.has_ended else "")


def _ended_facts(card: Card, actor: Actor) -> None:
    """A session that ended while the page was open. It keeps its place, so that no button moves under the pointer."""
    session = card.session
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
