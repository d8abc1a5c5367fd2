"""The one connection of this process, and the answers that all its open pages share.

Thirty open tabs ask Redis once a tick, not thirty times. Each shared answer has a key. The first tab that finds it too
old reads it again, while the others wait. A failure is kept together with the last good answer.
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
from presence_dashboard.error_sentences import plain

T = TypeVar("T")

KEEP: Final = 4.5
"""Seconds for which an answer is shared: just under a tick, so that all pages together ask once a tick."""

KEEP_FAILURE: Final = 1.0
"""The same for a failure: pages do not queue for a dead server, and still recover soon."""

_MAX_SHARED: Final = 256
"""Most shared answers. The least recently used is dropped."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """The last good answer of Redis, and the failure of the last try. Times are of the monotonic clock."""

    value: T | None = None  #: the last good answer, of any age
    read: float = 0.0  #: when it was read
    error: PresenceError | None = None  #: why the last try failed
    asked: float = float("-inf")

    @property
    def failure(self) -> str | None:
        """A sentence for staff if the last try failed, in the language of the page; safe for Markdown."""
        return None if self.error is None else plain(self.error)

    @property
    def age(self) -> float:
        """Seconds since the value was read."""
        return time.monotonic() - self.read

    def is_fresh(self, keep: float) -> bool:
        return time.monotonic() - self.asked < (keep if self.error is None else min(keep, KEEP_FAILURE))


@dataclass(slots=True)
class _Shared:
    reading: Reading[Any] = field(default_factory=Reading)
    asking: threading.Lock = field(default_factory=threading.Lock)


class Store:
    """The Presence of the process, opened at first use (so that pages also work without Redis), with shared answers."""

    def __init__(self, connect: Callable[[], Presence] = Presence.from_env) -> None:
        self._connect = connect
        self._presence: Presence | None = None
        self._opening = threading.Lock()
        self._shared: OrderedDict[Hashable, _Shared] = OrderedDict()
        self._finding = threading.Lock()

    @property
    def presence(self) -> Presence:
        """The Presence. Raises as ``Presence.from_env``: Unavailable, or InvalidArgument for a setting."""
        with self._opening:
            if self._presence is None:
                self._presence = self._connect()
            return self._presence

    def counts(self, *, fresh: bool = False) -> Reading[Counts]:
        """The current counts."""
        return self.shared("counts", lambda presence: presence.counts(), fresh=fresh)

    def shared(
        self, key: Hashable, read: Callable[[Presence], T], *, keep: float = KEEP, fresh: bool = False
    ) -> Reading[T]:
        """The answer of ``read``, shared under ``key`` for ``keep`` seconds.

        fresh: read in any case. Never raises a PresenceError: it is in ``failure``, next to the last good answer.
        """
        with self._finding:
            shared = self._shared.setdefault(key, _Shared())
            self._shared.move_to_end(key)
            if len(self._shared) > _MAX_SHARED:
                self._shared.popitem(last=False)
        with shared.asking:  # threads that wait here share the answer
            if fresh or not shared.reading.is_fresh(keep):
                shared.reading = self._read(shared.reading, read)
            reading: Reading[T] = shared.reading
            return reading

    def _read(self, last: Reading[T], read: Callable[[Presence], T]) -> Reading[T]:
        try:
            value = read(self.presence)
        except PresenceError as error:
            return replace(last, error=error, asked=time.monotonic())
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
