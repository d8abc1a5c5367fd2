"""``python -m presence_dashboard.demo``: start everything. See launch.py.

The signal handlers come first, so that Ctrl-C ends this without a traceback even during imports.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

_received: list[int] = []


def _end(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) == 1:  # a second Ctrl-C must not interrupt the cleanup
        raise SystemExit(0)


_SIGNALS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
    _SIGNALS.append(signal.SIGHUP)  # but not under nohup

if __name__ == "__main__":
    for number in _SIGNALS:
        signal.signal(number, _end)

    from presence_dashboard.demo.launch import run

    sys.exit(run(lambda: bool(_received)))
