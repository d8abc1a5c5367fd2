"""Reads that several parts of a page share, so that no part waits for a server that is known to be unavailable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import copy
from datetime import UTC, datetime, timedelta
from operator import methodcaller
from typing import Final, TypeVar

import streamlit as st

from presence_core import Block, Health, MirrorStatus, Presence, PresenceError, Unavailable
from presence_dashboard.data.store import KEEP, Reading, open_store
from presence_dashboard.roles import HIDDEN, Actor
from presence_dashboard.ticket_links import ticket_of

T = TypeVar("T")

MAX_ENTRIES: Final = 1_000
"""Staff actions whose tickets are known."""


def shared(key: Hashable, read: Callable[[Presence], T], *, keep: float = KEEP) -> Reading[T]:
    """As ``Store.shared``, but Redis is not asked while the counts cannot be read."""
    store = open_store()
    counts = store.counts()
    became_unavailable = False

    def read_if_available(presence: Presence) -> T:
        nonlocal became_unavailable
        if counts.error is not None:
            raise copy(counts.error)
        try:
            return read(presence)
        except Unavailable:
            became_unavailable = True
            raise

    reading = store.shared(key, read_if_available, keep=keep)
    if became_unavailable:
        store.counts(fresh=True)  # the next part of the page then does not ask
    return reading


def mirrors() -> list[MirrorStatus]:
    """The mirrors of the site's own sessions; empty if that cannot be read."""
    return shared("mirrors", methodcaller("mirrors")).value or []


def now() -> datetime:
    """The time of the Redis clock if known, because all data carries its times."""
    reading = open_store().counts()
    if reading.value is None:
        return datetime.now(UTC)
    return reading.value.as_of + timedelta(seconds=reading.age)


def health_now() -> Reading[Health]:
    """The health of servers, data and worker."""
    before = health_before()

    def read(presence: Presence) -> Health:
        before.append(presence.health())
        return before[-1]

    return shared("health", read)


@st.cache_resource(show_spinner=False)
def health_before() -> deque[Health]:
    """The last readings of the health by this process, newest last."""
    return deque(maxlen=60)


def blocks_of(presence: Presence, uids: Iterable[str]) -> dict[str, Block]:
    """The blocks of these users. Empty if they cannot be read, so that the page can still show the rest."""
    try:
        return presence.blocked_among(uids)
    except PresenceError:
        return {}


def remarks_of(presence: Presence, uids: Iterable[str]) -> dict[str, int]:
    """How many remarks staff have left on those of these users who have some. Empty if they cannot be read."""
    try:
        return {uid: len(found) for uid, found in presence.remarks_among(uids).items()}
    except PresenceError:
        return {}


def names_of(uids: Iterable[str], actor: Actor) -> dict[str, str]:
    """The names of these users, at most 1,000, as far as they are known; hidden if the actor may not see names."""
    wanted = frozenset(uids)
    if not wanted:
        return {}
    reading: Reading[dict[str, str]] = shared(("names", wanted), lambda presence: presence.names_of(wanted), keep=14.5)
    return shown_names(reading.value or {}, actor)


def network_names() -> dict[str, str]:
    """Number of a network → its name in the place file, of the networks of the newest sessions."""

    def read(presence: Presence) -> dict[str, str]:
        places = [session.place for session in presence.list_sessions(limit=500).items]
        return {place.network_id: place.network for place in places if place and place.network_id and place.network}

    return shared("network-names", read, keep=600).value or {}


def ticket_used(text: str) -> str | None:
    """The ticket that a text is, if one of the latest staff actions has it."""

    def read(presence: Presence) -> dict[str, str]:
        tickets = (ticket_of(entry.ticket) for entry in presence.audit(limit=MAX_ENTRIES) if entry.ticket)
        return {ticket.casefold(): ticket for ticket in tickets}

    return (shared("tickets", read, keep=14.5).value or {}).get(ticket_of(text).casefold())


def shown_names(names: Mapping[str, str], actor: Actor) -> dict[str, str]:
    """User id → name, hidden if the actor may not see names."""
    return dict.fromkeys(names, HIDDEN) if "name" in actor.masked else dict(names)
