"""``python -m presence_dashboard.demo``: start everything. See launch.py.

The signal handlers come first, so that Ctrl-C ends this without a traceback even during imports. The server of the
dashboard has handlers of its own while it runs; it raises the signal once more when it has stopped.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType


def _end(number: int, frame: FrameType | None) -> None:
    for other in _SIGNALS:  # a second Ctrl-C must not interrupt the cleanup
        signal.signal(other, signal.SIG_IGN)
    raise SystemExit(0)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)

if __name__ == "__main__":
    for number in _SIGNALS:
        signal.signal(number, _end)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # but not under nohup
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))

    from presence_dashboard.demo.launch import run

    sys.exit(run())
