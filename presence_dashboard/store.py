"""The one connection of this process, and the counts that all its open pages share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import streamlit as st

from presence_core import Counts, Presence, PresenceError

KEEP: Final = 4.5
"""Seconds for which counts are shared. Just under a page's tick, so that all pages together ask once a tick."""

KEEP_FAILURE: Final = 1.0
"""The same for a failure: long enough that pages do not queue up to wait for a dead server, short enough to recover."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was last heard from Redis, and whether it answers just now. Moments are of this process's own clock."""

    counts: Counts | None = None  #: the last good ones, however old
    counted: float = 0.0  #: when they were read
    failure: str | None = None  #: why Redis could not be asked, if the last try failed
    asked: float = -KEEP

    @property
    def age(self) -> float:
        """Seconds since the counts were read."""
        return time.monotonic() - self.counted

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.asked < (KEEP if self.failure is None else KEEP_FAILURE)


class Store:
    """A Presence that is opened when it is first needed, so that the page also works while there is none."""

    def __init__(self, connect: Callable[[], Presence] = Presence.from_env) -> None:
        self._connect = connect
        self._presence: Presence | None = None
        self._opening = threading.Lock()
        self._asking = threading.Lock()
        self._reading = Reading()

    @property
    def presence(self) -> Presence:
        """Raises what Presence.from_env raises: Unavailable, or InvalidArgument for a setting."""
        with self._opening:
            if self._presence is None:
                self._presence = self._connect()
            return self._presence

    def read(self, *, anew: bool = False) -> Reading:
        """The counts, from Redis if they are due. Never raises: a failure keeps the last good counts beside it."""
        with self._asking:  # those who wait here share the answer of the one who asks
            if anew or not self._reading.is_fresh:
                self._reading = self._ask()
            return self._reading

    def _ask(self) -> Reading:
        try:
            counts = self.presence.counts()
        except PresenceError as error:
            return replace(self._reading, failure=str(error), asked=time.monotonic())
        now = time.monotonic()
        return Reading(counts, counted=now, asked=now)

    def close(self) -> None:
        with self._opening:
            if self._presence is not None:
                self._presence.close()
                self._presence = None


@st.cache_resource(show_spinner=False, on_release=Store.close)
def open_store() -> Store:
    """The store of this process."""
    return Store()
