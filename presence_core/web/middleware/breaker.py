"""A circuit breaker: while Redis is away, the threads of a busy site must not all wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from presence_core.fork_safety import renew_in_child

MIN_PROBE_SECONDS = 10.0
"""A probe that reports no outcome (its thread was killed) is replaced after this time."""


class Breaker:
    """After ``failures`` failed calls in a row, lets no call through for ``seconds``, then one call as a probe.

    Safe to share between threads. ``enter`` says whether a call may be made. The caller then reports the outcome:
    ``succeeded``, ``failed``, or ``abandoned`` if the call was given up for another reason.
    """

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_failures = failures
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until: float | None = None
        self._probe_until: float | None = None
        renew_in_child(self, Breaker._reset_in_child)

    @property
    def is_open(self) -> bool:
        """Whether calls are being held back."""
        return self._open_until is not None

    def enter(self) -> bool:
        """Whether a call may be made now."""
        if not self.is_open:
            return True  # the usual case, without the lock
        with self._lock:
            now = self._clock()
            if self._open_until is None:
                return True
            if now < self._open_until or (self._probe_until is not None and now < self._probe_until):
                return False
            self._probe_until = now + max(self._seconds, MIN_PROBE_SECONDS)
            return True

    def succeeded(self) -> None:
        """Redis has replied."""
        if self._failures == 0 and self._open_until is None:
            return
        with self._lock:
            self._failures = 0
            self._open_until = self._probe_until = None

    def failed(self) -> None:
        """Redis did not reply."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._max_failures:
                self._open_until = self._clock() + self._seconds
                self._probe_until = None

    def abandoned(self) -> None:
        """The call ended without an answer about Redis. The next call may be the probe."""
        with self._lock:
            self._probe_until = None

    def _reset_in_child(self) -> None:
        """A forked child has none of the parent's threads, so no probe is under way in it."""
        self._lock = threading.Lock()
        self._probe_until = None
