"""Helpers of the worker tests: a machine's own clocks, and single turns of a worker."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from presence_core import Worker
from presence_core.worker import clock_check, loop
from tests.support.facade import P


class Own:
    """The clocks of the machine that a worker runs on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = round(time.time() * 1000)
        for module in (clock_check, loop):
            monkeypatch.setattr(module, "own_seconds", lambda: self.ms / 1000)
        monkeypatch.setattr(clock_check, "wall_ms", lambda: self.ms)

    def elapse(self, p: P, seconds: float) -> None:
        """Let time pass, for Redis and for the machine alike."""
        p.advance(seconds)
        self.ms += round(seconds * 1000)


def work(*workers: Worker) -> None:
    """One turn of each, with everything due."""
    for worker in workers:
        for duty in worker._duties:
            duty.due = 0.0
        worker._turn()


def look_at_clocks(*workers: Worker) -> None:
    """One turn of each, in which it compares clocks and does nothing else."""
    for worker in workers:
        for duty in worker._duties[1:]:
            duty.due = math.inf
        worker._turn()


def until(check: Callable[[], object]) -> None:
    """Wait for an effect of a thread or process."""
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
