"""The clock of the outage tests: it must not count time in which the machine gave the process no time, and count all
other time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.fair_clock import FairClock

STOPPED = """
import os, signal
from tests.support.fair_clock import ends
with ends(within=0.5):
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def hang(clock: FairClock, seconds: float) -> None:
    """Wait, by this clock: on a busy machine it counts less than a wall clock."""
    end = clock() + seconds
    while clock() < end:
        time.sleep(0.01)


def test_a_hanging_call_is_caught() -> None:
    with FairClock() as clock:
        with clock.limit(within=0.3):
            hang(clock, 0.1)
        with pytest.raises(AssertionError), clock.limit(within=0.1):
            hang(clock, 0.2)


def test_a_suspended_machine_is_not_counted_against_the_call() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED]) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        time.sleep(1)
        process.send_signal(signal.SIGCONT)
    assert process.returncode == 0
