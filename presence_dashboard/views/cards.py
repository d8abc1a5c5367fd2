"""A person's live sessions as cards, and what several pages show of a session: facts, and moments in time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import streamlit as st

from presence_core import Ended, Session
from presence_dashboard import texts
from presence_dashboard.access import Actor
from presence_dashboard.dossier import Dossier, Facts
from presence_dashboard.format import cut, exact, literal, name, number
from presence_dashboard.roles import HIDDEN
from presence_dashboard.tab import this_tab, zone
from presence_dashboard.views import kick

FIRST: Final = 12
"""Cards that are shown at first."""

MORE: Final = 48
"""Cards that are added by one press of a button."""

_WIDTH: Final = 300


# -- Parts -------------------------------------------------------------------------------------------------------------


def time_of_day(moment: datetime) -> str:
    """``10:31:05``, of another day ``21 Nov, 10:31``, in the reader's zone: true on a page that is left open, too."""
    at, today = moment.astimezone(zone()), datetime.now(zone()).date()
    if at.date() == today:
        return f"{at:%H:%M:%S}"
    year = "" if at.year == today.year else f" {at.year}"
    return f"{at.day} {at:%b}{year}, {at:%H:%M}"


def time_tag(moment: datetime, shown: str) -> str:
    """A moment as HTML that says exactly when under the pointer. Made of numbers alone: nobody else's text is in it."""
    return f'<time datetime="{moment.astimezone(UTC).isoformat()}" title="{exact(moment)}">{shown}</time>'


def facts(known: Mapping[str, str | datetime | None]) -> None:
    """Labels and values, the latter as plain text or as moments; what is None is left out."""
    for label, value in known.items():
        if value is None:
            continue
        with st.container(horizontal=True, wrap=False, gap="small", vertical_alignment="top"):
            st.caption(label, width=76)
            if isinstance(value, datetime):
                st.html(time_tag(value, time_of_day(value)), width="stretch")
            else:
                st.text(lines(value), width="stretch")


def lines(text: str) -> str:
    """Literal text that keeps its own lines: reasons and messages may have some."""
    return "\n".join(literal(line) for line in text.splitlines())


def device(record: Session | Ended) -> str:
    """What it is called, short and safe for Markdown."""
    return name(cut(record.device or texts.PERSON_NO_DEVICE, 40))


def client(record: Session | Ended) -> str | None:
    """Browser and system."""
    return texts.browser_on(record.browser, record.os) or None


def app(record: Session | Ended) -> str | None:
    return " ".join(filter(None, (record.app, record.app_version))) or None


def address(record: Session | Ended, actor: Actor) -> str | None:
    """The address at login, as far as this member of staff may see it."""
    return HIDDEN if record.ip and "ip" in actor.masked else record.ip


# -- The cards ---------------------------------------------------------------------------------------------------------


def cards(dossier: Dossier, known: Facts, actor: Actor) -> None:
    """Live sessions, newest login first: a handful, and more on demand."""
    total = len(known.sessions)
    shown = known.sessions[: FIRST + MORE * dossier.cards]
    with st.container(horizontal=True, gap="small", key="cards"):
        for place, session in enumerate(shown):
            _card(session, place, total, actor)
    if total > len(shown):
        left = total - len(shown)
        label = texts.person_more_cards(max(left - MORE, 0), number(min(left, MORE)), number(total))
        if st.button(label, key="more-cards"):
            dossier.cards += 1
            st.rerun()


def _card(session: Session, place: int, total: int, actor: Actor) -> None:
    moved = session.last_ip if session.last_ip != session.ip else None
    with st.container(border=True, width=_WIDTH, gap="xsmall", key=f"card-{session.session_id}"):
        newest = f" :gray-badge[{texts.PERSON_NEWEST}]" if place == 0 and total > 1 else ""
        st.markdown(f"{device(session)}{newest}")
        with st.container(gap="xxsmall"):
            facts(
                {
                    texts.FACT_CLIENT: client(session),
                    texts.FACT_APP: app(session),
                    texts.FACT_IP: address(session, actor),
                    texts.FACT_LAST_IP: HIDDEN if moved and "ip" in actor.masked else moved,
                    texts.FACT_LOGIN: session.login_at,
                    texts.FACT_SEEN: session.last_seen,
                    texts.FACT_EXPIRES: session.expires_at,
                },
            )
        if actor.may("kick"):
            _buttons(session, total)


def _buttons(session: Session, total: int) -> None:
    away = this_tab().away
    with st.container(horizontal=True, gap="small"):
        st.button(
            texts.PERSON_KICK_THIS,
            key=f"kick-{session.session_id}",
            disabled=away,
            on_click=kick.ask_sessions,
            args=((session,),),
        )
        if total > 1:
            st.button(
                texts.PERSON_KEEP_THIS,
                key=f"keep-{session.session_id}",
                type="tertiary",
                disabled=away,
                on_click=kick.ask_person,
                args=(session.uid, (session.ref,)),
                kwargs={"keep": True},
            )
