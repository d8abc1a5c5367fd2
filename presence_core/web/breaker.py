"""When Redis is away, a busy site must not send every thread to wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from presence_core.forked import renew_in_child


class Breaker:
    """After ``failures`` calls in a row that failed, none is made for ``seconds``; then one goes ahead to look.

    Safe to share between threads. ``enter`` says whether a call may be made; who was let in says how it went:
    ``succeeded``, ``failed``, or ``left`` when the call was given up for a reason of its own.
    """

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = failures
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._closed_until: float | None = None
        self._probing_until: float | None = None
        renew_in_child(self, Breaker._start_anew)

    @property
    def is_open(self) -> bool:
        """Whether calls are being held back."""
        return self._closed_until is not None

    def enter(self) -> bool:
        if not self.is_open:
            return True  # nearly always, and without the lock
        with self._lock:
            now = self._clock()
            if self._closed_until is None:
                return True
            if now < self._closed_until or (self._probing_until is not None and now < self._probing_until):
                return False
            # A probe that is never heard of again (its thread was killed) gives way to another.
            self._probing_until = now + max(self._seconds, 10.0)
            return True

    def succeeded(self) -> None:
        if self._failures == 0 and self._closed_until is None:
            return
        with self._lock:
            self._failures = 0
            self._closed_until = self._probing_until = None

    def failed(self) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= self._most:
                self._closed_until = self._clock() + self._seconds
                self._probing_until = None

    def left(self) -> None:
        with self._lock:
            self._probing_until = None

    def _start_anew(self) -> None:
        """In a forked child, in which the thread that looks is not there either."""
        self._lock = threading.Lock()
        self._probing_until = None
