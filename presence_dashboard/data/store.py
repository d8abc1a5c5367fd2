"""The one connection of this process, and what all its open pages read from Redis together.

Thirty open tabs ask once a tick, not thirty times: what is shared has a name, and whoever finds it too old asks anew
while the others wait for the answer. A failure keeps the last good answer beside it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

import streamlit as st

from presence_core import Counts, Presence, PresenceError
from presence_dashboard.wording import plain

T = TypeVar("T")

KEEP: Final = 4.5
"""Seconds for which an answer is shared. Just under a page's tick, so that all pages together ask once a tick."""

KEEP_FAILURE: Final = 1.0
"""The same for a failure: long enough that pages do not queue up to wait for a dead server, short enough to recover."""

_MOST: Final = 256
"""So many answers are kept: ranges of charts and filters of many people. The one not asked for longest goes."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What was last heard from Redis, and whether it answers just now. Moments are of this process's own clock."""

    value: T | None = None  #: the last good answer, however old
    read: float = 0.0  #: when it was read
    failure: str | None = None  #: why Redis could not be asked, if the last try failed; safe for Markdown
    error: PresenceError | None = None  #: the same as the library says it, for engineers
    asked: float = float("-inf")

    @property
    def age(self) -> float:
        """Seconds since the value was read."""
        return time.monotonic() - self.read

    def is_fresh(self, keep: float) -> bool:
        return time.monotonic() - self.asked < (keep if self.failure is None else min(keep, KEEP_FAILURE))


@dataclass(slots=True)
class _Shared:
    reading: Reading[Any] = field(default_factory=Reading)
    asking: threading.Lock = field(default_factory=threading.Lock)


class Store:
    """A Presence that is opened when it is first needed, so that the page also works while there is none."""

    def __init__(self, connect: Callable[[], Presence] = Presence.from_env) -> None:
        self._connect = connect
        self._presence: Presence | None = None
        self._opening = threading.Lock()
        self._shared: OrderedDict[Hashable, _Shared] = OrderedDict()
        self._finding = threading.Lock()

    @property
    def presence(self) -> Presence:
        """Raises what Presence.from_env raises: Unavailable, or InvalidArgument for a setting."""
        with self._opening:
            if self._presence is None:
                self._presence = self._connect()
            return self._presence

    def counts(self, *, anew: bool = False) -> Reading[Counts]:
        """How many are online."""
        return self.shared("counts", lambda presence: presence.counts(), anew=anew)

    def shared(
        self, key: Hashable, ask: Callable[[Presence], T], *, keep: float = KEEP, anew: bool = False
    ) -> Reading[T]:
        """What ``ask`` answers, from Redis if what this process has under ``key`` is older than ``keep`` seconds.

        Never raises a PresenceError: it is in ``failure``, beside the last good answer.
        """
        with self._finding:
            shared = self._shared.setdefault(key, _Shared())
            self._shared.move_to_end(key)
            if len(self._shared) > _MOST:
                self._shared.popitem(last=False)
        with shared.asking:  # those who wait here share the answer of the one who asks
            if anew or not shared.reading.is_fresh(keep):
                shared.reading = self._ask(shared.reading, ask)
            reading: Reading[T] = shared.reading
            return reading

    def _ask(self, last: Reading[T], ask: Callable[[Presence], T]) -> Reading[T]:
        try:
            value = ask(self.presence)
        except PresenceError as error:
            return replace(last, failure=plain(error), error=error, asked=time.monotonic())
        now = time.monotonic()
        return Reading(value, read=now, asked=now)

    def close(self) -> None:
        with self._opening:
            if self._presence is not None:
                self._presence.close()
                self._presence = None


@st.cache_resource(show_spinner=False, on_release=Store.close)
def open_store() -> Store:
    """The store of this process."""
    return Store()
