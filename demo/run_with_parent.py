"""``python -m demo.tied MODULE ARGS…``: ``python -m MODULE ARGS…``, tied to the life of the process that started it.

The parent holds the other end of standard input. When that closes, however the parent ended, this process ends too. A
parent-death signal would do the same on Linux alone, and watches a thread, not a process.
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
"""How long the module may take to end by itself."""


def _end_with_parent(lifeline: int) -> None:
    while os.read(lifeline, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def main() -> None:
    lifeline = os.dup(0)
    # The module finds an empty standard input, and cannot read away what is ours.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_end_with_parent, args=(lifeline,), name="lifeline", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
