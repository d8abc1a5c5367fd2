"""The one connection of this process, and the answers that all its open pages share.

Thirty open tabs ask Redis once a tick, and for the counts every two seconds, not thirty times. Each shared answer has a
key. The first tab that finds it too old reads it again, while the others wait. A failure is kept together with the last
good answer.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any, Final, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from presence_core import Counts, Presence, PresenceError
from presence_core.files.place_files import open_time_zones
from presence_dashboard import texts
from presence_dashboard.error_sentences import plain

T = TypeVar("T")

KEEP: Final = 4.5
"""Seconds for which an answer is shared: just under a tick, so that all pages together ask once a tick."""

KEEP_FAILURE: Final = 1.0
"""The same for a failure, so that pages recover soon."""

AWAY: Final = 4.5
"""Seconds for which Redis counts as away after the counts could not be read. No page waits for it meanwhile: other
answers are not read. page.js asks for the counts more often, so that pages recover within 5 s: see dashboard.py."""

COUNTS: Final = "counts"

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
    def cause(self) -> str | None:
        """The same without advice, where the page itself tries again."""
        return None if self.error is None else plain(self.error, advise=False)

    @property
    def age(self) -> float:
        """Seconds since the value was read."""
        return time.monotonic() - self.read

    def is_fresh(self, keep: float, keep_failure: float) -> bool:
        return time.monotonic() - self.asked < (keep if self.error is None else min(keep, keep_failure))


@dataclass(slots=True)
class _Shared:
    reading: Reading[Any] = field(default_factory=Reading)
    asking: threading.Lock = field(default_factory=threading.Lock)


class Store:
    """The Presence of the process, opened at first use (so that pages also work without Redis), with shared answers."""

    def __init__(self, connect: Callable[[], Presence] = Presence.from_env) -> None:
        self._connect = connect
        self._presence: Presence | None = None
        self._time_zones: Callable[[str], str | None] | None = None
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

    def time_zone_of(self, ip: str) -> ZoneInfo | None:
        """The time zone of an address, as ``Settings.place_file`` says; None where it does not. Reads no Redis."""
        if self._time_zones is None:
            self._time_zones = open_time_zones(self.presence.settings.place_file)
        try:
            return ZoneInfo(self._time_zones(ip) or "")
        except (ZoneInfoNotFoundError, ValueError, OSError):  # a name that this machine does not know
            return None

    def counts(self, *, keep: float = KEEP, fresh: bool = False) -> Reading[Counts]:
        return self.shared(COUNTS, lambda presence: presence.counts(), keep=keep, fresh=fresh)

    def shared(
        self, key: Hashable, read: Callable[[Presence], T], *, keep: float = KEEP, fresh: bool = False
    ) -> Reading[T]:
        """The answer of ``read``, shared under ``key`` for ``keep`` seconds.

        fresh: read in any case. Never raises a PresenceError: it is in ``failure``, next to the last good answer. After
        a failure, one thread asks again; the others get the failure meanwhile, so that no page is slow in an outage.
        """
        with self._finding:
            shared = self._shared.setdefault(key, _Shared())
            self._shared.move_to_end(key)
            if len(self._shared) > _MAX_SHARED:
                self._shared.popitem(last=False)
        reading: Reading[T] = shared.reading
        if not shared.asking.acquire(blocking=reading.error is None):  # threads that wait here share the answer
            return reading
        try:
            if fresh or not shared.reading.is_fresh(keep, AWAY if key == COUNTS else KEEP_FAILURE):
                shared.reading = self._read(shared.reading, read, None if fresh or key == COUNTS else self._away())
            reading = shared.reading
            return reading
        finally:
            shared.asking.release()

    def _away(self) -> PresenceError | None:
        """Why the counts could not be read a moment ago."""
        with self._finding:
            counts = self._shared.get(COUNTS)
        if counts is None:
            return None
        reading = counts.reading
        return reading.error if time.monotonic() - reading.asked < AWAY else None

    def _read(self, last: Reading[T], read: Callable[[Presence], T], away: PresenceError | None) -> Reading[T]:
        try:
            if away is not None:
                raise copy(away)
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


def outage_words(counts: Reading[Counts], zone: tzinfo) -> str:
    """The notice of an outage, in Markdown. Its times are in the zone."""
    shown = f"{counts.value.as_of.astimezone(zone):%H:%M:%S}" if counts.value else None
    return texts.away(counts.cause or "", shown)


@st.cache_resource(show_spinner=False, on_release=Store.close)
def open_store() -> Store:
    return Store()
