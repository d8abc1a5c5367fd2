"""``python -m demo``: everything at once. See launch.py.

The signals come first: Ctrl-C must end this without a traceback from the first moment, imports included.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

_received: list[int] = []


def _end(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) == 1:  # a second Ctrl-C must not break off the tidying up
        raise SystemExit(0)


_SIGNALS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
    _SIGNALS.append(signal.SIGHUP)  # unless told to outlive the terminal, by nohup

if __name__ == "__main__":
    for one in _SIGNALS:
        signal.signal(one, _end)

    from demo.launch import run

    sys.exit(run(lambda: bool(_received)))
