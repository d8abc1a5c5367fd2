"""What several parts of a page read, so that none of them waits for a server that another has just found away."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import streamlit as st

from presence_core import Health, Presence, Unavailable
from presence_dashboard.store import KEEP, Reading, open_store

T = TypeVar("T")


def shared(key: Hashable, ask: Callable[[Presence], T], *, keep: float = KEEP) -> Reading[T]:
    """As Store.shared; but while the counts cannot be read, Redis is not asked for this either."""
    store = open_store()
    away = store.counts()
    found_away = False

    def ask_if_there(presence: Presence) -> T:
        nonlocal found_away
        if away.error is not None:
            raise copy(away.error)
        try:
            return ask(presence)
        except Unavailable:
            found_away = True
            raise

    reading = store.shared(key, ask_if_there, keep=keep)
    if found_away:
        store.counts(anew=True)  # so that the next part of the page knows
    return reading


def now() -> datetime:
    """By the clock of Redis, where that is known: what is read carries its times."""
    reading = open_store().counts()
    if reading.value is None:
        return datetime.now(UTC)
    return reading.value.as_of + timedelta(seconds=reading.age)


def health_now() -> Reading[Health]:
    """How Redis, the data and the worker are."""
    before = health_before()

    def ask(presence: Presence) -> Health:
        before.append(presence.health())
        return before[-1]

    return shared("health", ask)


@st.cache_resource(show_spinner=False)
def health_before() -> deque[Health]:
    """What this process has read of it, the latest last."""
    return deque(maxlen=60)
