"""The facts and the actions of one live session, on a card or next to a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from presence_core import Session
from presence_dashboard import texts
from presence_dashboard.actions import kick_and_block
from presence_dashboard.components import kick_dialog, session_facts
from presence_dashboard.components.buttons import live_button, more_actions
from presence_dashboard.data.store import open_store
from presence_dashboard.format import author, short_name
from presence_dashboard.roles import HIDDEN, Actor


def session_panel(
    session: Session, total: int, actor: Actor, *, is_newest: bool = False, demanded_by: str | None = None
) -> None:
    """What is known of a live session, and its actions. total: live sessions of the user, as far as known. demanded_by:
    the staff member who required a new sign-in."""
    moved = session.last_ip if session.last_ip != session.ip else None
    newest = f" :gray-badge[{texts.PERSON_NEWEST}]" if is_newest else ""
    flags = "".join(f" :orange-badge[{flag}]" for flag in session_facts.flags(session))
    st.markdown(f"{session_facts.device(session, actor)}{newest}{flags}")
    if session.sign_in_required_at is not None:
        by = demanded_by and author(demanded_by, session.uid, short_name)
        st.markdown(texts.must_sign_in(by, session_facts.time_of_day(session.sign_in_required_at)))
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
            texts.LABEL_MOVED: session_facts.move(session, actor),
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
    """The kick, and a menu with the rest."""
    with st.container(horizontal=True, gap="small"):
        live_button(
            texts.PERSON_KICK_THIS, f"kick-{session.session_id}", kick_dialog.open_for_sessions, (session,)
        )  # fmt: skip
        acts: list[tuple[str, str, Callable[[], None]]] = []
        if total > 1:
            keep_this = partial(kick_dialog.open_for_person, session.uid, (session.ref,), keep=True)
            acts.append((texts.PERSON_KEEP_THIS, f"keep-{session.session_id}", keep_this))
        if kick_and_block.may_require_sign_in(session):
            ask = partial(kick_dialog.open_for_sign_in, session.uid, session)
            acts.append((texts.require_sign_in(1), f"sign-in-{session.session_id}", ask))
        if kick_and_block.may_change_timeouts(session):
            change = partial(kick_dialog.open_for_timeouts, session.uid, session)
            acts.append((texts.CHANGE_TIMEOUTS, f"timeouts-{session.session_id}", change))
        if acts:
            more_actions(f"more-{session.session_id}", acts)
