"""A limit on how long something takes, for tests on a busy machine. Benchmarks measure speed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

PATIENT = 20.0
"""The time limit of calls that must succeed, or fail at once: the machine may be slow."""


class FairClock:
    """Seconds, without those for which the machine gave this process no time.

    A thread sleeps for short times, and adds up by how much it overslept.
    """

    NAP = 0.005

    def __init__(self) -> None:
        self._seen = (0.0, math.inf)  #: total time overslept; when the thread is due to wake
        self._over = threading.Event()
        self._sleeper = threading.Thread(target=self._sleep, daemon=True)

    def __enter__(self) -> Self:
        self._sleeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._sleeper.join()

    def __call__(self) -> float:
        overslept, due = self._seen
        now = time.monotonic()
        return now - overslept - max(0.0, now - due)

    @contextmanager
    def limit(self, within: float, after: float = 0) -> Iterator[None]:
        """See ``ends``."""
        began, fairly = time.monotonic(), self()
        yield
        seconds, wall = self() - fairly, time.monotonic() - began
        assert seconds < within, f"{wall:.2f} s by the clock on the wall"
        assert wall > after

    def _sleep(self) -> None:
        overslept = 0.0
        while not self._over.is_set():
            due = time.monotonic() + self.NAP
            self._seen = overslept, due
            time.sleep(self.NAP)
            overslept += max(0.0, time.monotonic() - due)
        self._seen = overslept, math.inf


@contextmanager
def ends(*, within: float) -> Iterator[None]:
    """Check that this block does not hang.

    ``within``: seconds, halfway between right and wrong: a call with a time limit of 1 s takes 1 s, and one that
    respects it only in part takes 2 s or forever.
    """
    with FairClock() as clock, clock.limit(within):
        yield
