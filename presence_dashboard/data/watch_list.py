"""The people that a staff member watches, and which of them have come online since the last look of a tab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import streamlit as st

from presence_core import Presence, SavedItem
from presence_dashboard.data.store import Reading, Store

KEEP_LIST: Final = 15.0
"""Seconds for which the list is shared; a change in this process is seen at once."""

_KEY: Final = "watched-online"


@dataclass(frozen=True, slots=True)
class Watched:
    """The watch list at one time."""

    people: tuple[SavedItem, ...]  #: name: the uid; text: what the person was called
    online: frozenset[str]


def watched(store: Store, owner: str, *, fresh: bool = False) -> Reading[Watched]:
    """The watch list, read once a tick for all tabs of this staff member: one call for all people in it."""
    people = store.shared(
        ("watched", owner),
        lambda presence: tuple(item for item in presence.saved_items("watch", owner=owner) if not item.shared),
        keep=KEEP_LIST,
        fresh=fresh,
    )

    def read(presence: Presence) -> Watched:
        known = people.value or ()
        return Watched(known, frozenset(presence.online_among([item.name for item in known]) if known else ()))

    return store.shared(("watched-online", owner), read, fresh=fresh)


def alerted(store: Store, *, fresh: bool = False) -> Reading[tuple[SavedItem, ...]]:
    """The people on the shared watch list, whose logins a worker sends as alerts."""
    return store.shared("alerted", lambda presence: tuple(presence.saved_items("watch")), keep=KEEP_LIST, fresh=fresh)


def arrivals(reading: Reading[Watched]) -> list[SavedItem]:
    """People on the list who were offline at the last look of this tab, and are online now."""
    if reading.value is None:
        return []
    known = {item.name for item in reading.value.people}
    before: tuple[set[str], frozenset[str]] | None = st.session_state.get(_KEY)
    st.session_state[_KEY] = (known, reading.value.online)
    if before is None:
        return []
    seen, online = before  # a person who has just been pinned does not arrive
    return [item for item in reading.value.people if item.name in (reading.value.online - online) & seen]
