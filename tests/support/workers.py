"""What the tests of the worker share: a machine's own clocks, and turns that a test takes by itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from presence_core import Worker, worker
from tests.facade import P


class Own:
    """The clocks of the machine that a worker runs on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = round(time.time() * 1000)
        monkeypatch.setattr(worker, "_own_seconds", lambda: self.ms / 1000)
        monkeypatch.setattr(worker, "_wall_ms", lambda: self.ms)

    def elapse(self, p: P, seconds: float) -> None:
        """Time passes, for Redis and for the machine alike."""
        p.advance(seconds)
        self.ms += round(seconds * 1000)


def work(*workers: Worker) -> None:
    """One turn of each, with everything due."""
    for one in workers:
        for duty in one._duties:
            duty.due = 0.0
        one._turn()


def look_at_clocks(*workers: Worker) -> None:
    """One turn of each, in which it compares clocks and does nothing else."""
    for one in workers:
        for duty in one._duties[1:]:
            duty.due = math.inf
        one._turn()


def until(check: Callable[[], object]) -> None:
    """Wait for what a thread or a process will do."""
    end = time.monotonic() + 30
    while not check():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
