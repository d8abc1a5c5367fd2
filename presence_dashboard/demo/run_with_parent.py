"""``python -m presence_dashboard.demo.run_with_parent MODULE ARGS…``: run MODULE until it or the parent process ends.

The parent holds the other end of standard input. When that closes, even by a kill of the parent, this process ends
too. A parent-death signal works only on Linux, and watches a thread, not a process.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from typing import Final

GRACE: Final = 3.0
"""How long the module may take to end after SIGTERM."""


def _end_with_parent(lifeline: int) -> None:
    while os.read(lifeline, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def main() -> None:
    lifeline = os.dup(0)
    # The module gets an empty standard input, so that it does not read from ours.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_end_with_parent, args=(lifeline,), name="lifeline", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
