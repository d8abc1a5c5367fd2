"""The clock that the tests of outages go by: it must not count a machine that stands still, and count all else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.fair_clock import ends

STOPPED = """
import os, signal
from tests.fair_clock import ends
with ends(within=0.5):
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_what_hangs_is_caught() -> None:
    with pytest.raises(AssertionError), ends(within=0.3):
        time.sleep(0.6)


def test_a_machine_that_stands_still_is_not_the_calls_fault() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED]) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        time.sleep(1)
        process.send_signal(signal.SIGCONT)
    assert process.returncode == 0
