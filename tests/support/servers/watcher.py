"""Stops every server when the process that started it ends, however it ends.

A watcher process, one per test process, reads the pids from a pipe and kills what is left when the pipe closes. Unlike
a parent-death signal this does not depend on the thread that started the server, and it also works on macOS.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading

_WATCHER = """
import os, signal, sys
pids = set()
for line in sys.stdin:
    (pids.add if line[0] == "+" else pids.discard)(int(line[1:]))
for pid in pids:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""

# The pid is reported before the server exists, by the process that becomes it: were it reported after the start, a
# kill -9 in between would leave an orphan. The exec gives up the pipe.
START = 'echo "+$$" && exec "$@" >>"$0" 2>&1'

_watcher: subprocess.Popen[bytes] | None = None
_watcher_lock = threading.Lock()


def watcher_pipe() -> int:
    global _watcher
    with _watcher_lock:
        if _watcher is None:
            _watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WATCHER],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # a signal to the whole process group must not kill the watcher first
            )
        assert _watcher.stdin is not None
        return _watcher.stdin.fileno()


def _close_watcher() -> None:
    if _watcher is not None:
        assert _watcher.stdin is not None
        _watcher.stdin.close()
        _watcher.wait()


def _after_fork_in_child() -> None:
    global _watcher, _watcher_lock
    _watcher_lock = threading.Lock()
    if _watcher is not None:
        # A forked worker that stays alive would keep the pipe open, and the servers alive.
        assert _watcher.stdin is not None
        _watcher.stdin.close()
        _watcher = None


atexit.register(_close_watcher)
os.register_at_fork(after_in_child=_after_fork_in_child)
