"""A box that asks for a person, and the people whom its text may mean."""

from __future__ import annotations

from typing import Final

import streamlit as st

from presence_core import Person, Presence
from presence_core.text.typed_text import as_one_line
from presence_dashboard import texts
from presence_dashboard.components.buttons import live_button
from presence_dashboard.components.session_facts import time_of_day
from presence_dashboard.data.person_state import MAX_FOUND, PersonMatches
from presence_dashboard.data.shared_reads import shared
from presence_dashboard.format import cut, isolated, name, number

_MAX_TYPED: Final = 500
"""Characters that a box sends to the search, which refuses more than 256 bytes with a sentence."""

_KEEP: Final = 14.5


def tidy(key: str) -> None:
    """Callback of a box: put a pasted text into one line, and shorten one that is far too long for an address."""
    st.session_state[key] = as_one_line(st.session_state[key] or "")[:_MAX_TYPED]


def offer(people: tuple[Person, ...], key: str) -> None:
    """People to choose from. A button puts the user ID into the box with this key."""
    st.caption(texts.person_hits(len(people), len(people) < MAX_FOUND))
    _list(people, key)


def offer_others(found: PersonMatches, key: str) -> None:
    """A menu of the people whom the text may mean besides the one that is shown."""
    if found.others:
        with st.popover(texts.person_others(len(found.others))):
            _list(found.others, key)


def meant_texts(wanted: str) -> tuple[str, ...]:
    """Names and so on that a text which found little may have been meant to be. Shared by all tabs."""

    def read(presence: Presence) -> tuple[str, ...]:
        return tuple(presence.did_you_mean(wanted))

    return shared(("meant", wanted), read, keep=_KEEP).value or ()


def did_you_mean(meant: tuple[str, ...], key: str) -> None:
    """Draw a button for each, which puts it into the box with this key. Nothing without any."""
    if not meant:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", width="content", key="did-you-mean"):
        st.markdown(texts.DID_YOU_MEAN, width="content")
        for place, text in enumerate(meant):
            live_button(name(cut(text, 60)), f"meant-{place}", _choose, key, text)


def _list(people: tuple[Person, ...], key: str) -> None:
    with st.container(gap="xsmall", key="hits"):
        for position, person in enumerate(people):
            with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
                with st.container(gap="xxsmall", width="stretch"):
                    st.markdown(f"{name(cut(person.name or person.uid, 60))} {_presence(person)}")
                    also = [] if person.name is None else [person.uid]
                    st.text(" · ".join(isolated(cut(label, 60)) for label in (*also, *person.aliases[:4])))
                st.button(texts.PERSON_OPEN, key=f"open-{position}", on_click=_choose, args=(key, person.uid))


def _presence(person: Person) -> str:
    if person.online:
        return texts.person_online(texts.number_of_sessions(person.sessions, number(person.sessions)))
    return texts.person_offline(time_of_day(person.last_seen))


def _choose(key: str, uid: str) -> None:
    st.session_state[key] = uid
