"""The sessions that this process has seen recently: when to send a heartbeat, and which sessions ``grace`` may pass."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from presence_core.fork_safety import renew_in_child
from presence_core.models import Session

NEVER: Final = float("-inf")

MOST_NETWORKS: Final = 4
"""Networks from which a session is noted within an interval. Others wait until one of these has not been noted for an
interval, so an address that changes at every request does not write at every request."""


class Turn(NamedTuple):
    """How to note that a session was seen; neither, if a request from the same network did a short time ago."""

    by_call: bool  #: the call that validates the session notes it
    by_buffer: bool  #: a heartbeat goes to the HeartbeatBuffer


NO_TURN: Final = Turn(by_call=False, by_buffer=False)


class LastLive(NamedTuple):
    """A session that was live, and how many seconds ago that was known."""

    session: Session
    age: float


@dataclass(slots=True)
class _Known:
    ip: str | None = None  #: the address from which the session was last noted as seen …
    noted_at: float = NEVER  #: … and when
    noted: dict[bytes, float] = field(default_factory=dict)  #: the same by network, at most MOST_NETWORKS
    interval: float = 0.0  #: seconds between two notes from a network
    live_at: float = NEVER  #: when it was last found live …
    session: Session | None = None  #: … and its record then


class KnownSessions:
    """At most ``max_known`` sessions, by a digest of what names them. Safe to share between threads.

    ``network_of`` returns what the rule of moves compares of an address.
    """

    def __init__(self, heartbeat: float, max_known: int, network_of: Callable[[str | None], bytes]) -> None:
        self.clock: Callable[[], float] = time.monotonic
        self._heartbeat = heartbeat
        self._max_known = max_known
        self._network_of = network_of
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._reset_lock()
        renew_in_child(self, KnownSessions._reset_lock)

    def _reset_lock(self) -> None:
        """In a forked child the parent's lock may be held by a thread that the child does not have."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def take_turn(self, key: bytes, ip: str | None) -> Turn:
        """Whether this request notes the session as seen: in each interval the first request from each network.

        The validating call notes a session that is new in this process or has a new address, and compares that address;
        the buffer notes others.
        """
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._add(key)
            else:
                self._known.move_to_end(key)
            now = self.clock()
            if ip == known.ip and now - known.noted_at < known.interval:
                return NO_TURN  # nearly every request
            network = self._network_of(ip)
            if now - known.noted.get(network, NEVER) < known.interval:
                return NO_TURN
            if network not in known.noted and len(known.noted) >= MOST_NETWORKS:
                known.noted = {other: at for other, at in known.noted.items() if now - at < known.interval}
                if len(known.noted) >= MOST_NETWORKS:
                    return NO_TURN
            by_call = known.live_at == NEVER or known.ip != ip
            known.noted[network] = known.noted_at = now
            known.ip = ip
            known.interval = known.interval or min(self._heartbeat, 1.0)  # until its idle timeout is known
            return Turn(by_call, not by_call)

    def add(self, key: bytes) -> None:
        """Know a session whose request does not note it as seen."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            else:
                self._add(key)

    def _add(self, key: bytes) -> _Known:
        known = self._known[key] = _Known()
        if len(self._known) > self._max_known:
            self._known.popitem(last=False)
        return known

    def give_turn_back(self, key: bytes) -> None:
        """Let the next request note the session: this one could not. Nor was its address compared."""
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                known.ip, known.noted_at = None, NEVER
                known.noted.clear()

    def note_live(self, key: bytes, session: Session) -> None:
        """Remember that the session was found live now."""
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                known.interval = min(self._heartbeat, session.idle_timeout / 3)
                known.live_at, known.session = self.clock(), session

    def last_live(self, key: bytes) -> LastLive | None:
        """The session as it was when last found live. A key that never was is forgotten: a flood of invalid tokens
        must not push out valid ones."""
        with self._lock:
            known = self._known.get(key)
            if known is None or known.session is None:
                self._known.pop(key, None)
                return None
            return LastLive(known.session, self.clock() - known.live_at)

    def forget(self, key: bytes) -> None:
        """Remove a session that is not live."""
        with self._lock:
            self._known.pop(key, None)
