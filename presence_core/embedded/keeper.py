"""The keeper of an embedded server: starts it, and stops it after its last user, however that one ended.

``server.py`` runs this file as a script. It uses the standard library only, so that it starts in about 20 ms.

The protocol is four ``flock``s in the data directory. The kernel releases them with the processes that hold them, so
kill -9 of any process leaves nothing to clean up:

- ``users.lock``: shared, by every open ``EmbeddedServer``, taken before it looks for a server. The keeper waits for it
  exclusively; when it has it, there are no users. It keeps it until the server is dead and it ends itself, so a new
  user waits and never gets a server that is stopping. If the server does not die, the keeper releases the lock, lets
  new users in, and tries again later. No child inherits this descriptor: a lock that outlived the keeper would block
  all users.
- ``start.lock``: exclusive, by a user that looks for the server, until the server replies. So one of many concurrent
  users starts it.
- ``keeper.lock``: exclusive, by the keeper, which writes its signature, pid first, once it has its server. A stand-in
  waits for this lock, and takes over the running server of a keeper that was killed.
- ``server.lock``: exclusive, taken by a keeper and passed on to the server, which alone holds it from then on. If it is
  free, no server runs on these files. Only the holder of ``keeper.lock`` touches it.

A keeper has one server in its life. When that dies, for any reason, the keeper and the stand-in end, too; the next
user starts new ones. If keeper and stand-in are killed together, Linux stops the server when their end of a pipe, the
lifeline, closes; elsewhere the next keeper stops it before it starts its own.

A killed process loses no data, and a power cut loses about a second of it. ``appendfsync everysec`` would promise only
the second: while its fsync runs, the server replies to commands that it has not written to the file yet, for up to two
seconds. So the setting is ``no``, which writes before every reply, and the keeper calls fsync.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

try:
    import fcntl
except ImportError:  # Windows: server.py imports this module, and then refuses to start anything
    pass

USERS_LOCK = "users.lock"
START_LOCK = "start.lock"
KEEPER_LOCK = "keeper.lock"
SERVER_LOCK = "server.lock"
SERVER_LOG = "server.log"
SERVER_PID = "server.pid"
SERVER_SOCKET = "server.sock"

SYNC_SECONDS = 1.0
"""How often the append-only file is synced to disk."""

STOP_SECONDS = 3.0
"""How long the server may take to stop before it is killed, and then again before new users are let in."""


def open_lock(data_dir: str, name: str) -> int:
    """Open a lock file, or create it. Returns its descriptor, which no child inherits. Raises OSError."""
    return os.open(os.path.join(data_dir, name), os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock if that is possible without waiting; whether it was."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def keep(data_dir: str, socket_path: str, binary: str, lifeline: int | None = None) -> None:
    """Keep one server until it is dead. Given a ``lifeline``, its writing end, be the stand-in of another keeper."""
    keeper_lock = _wait_for_lock(data_dir, KEEPER_LOCK)
    os.ftruncate(keeper_lock, 0)
    server_lock = open_lock(data_dir, SERVER_LOCK)
    server: subprocess.Popen[bytes] | None = None
    if lifeline is None:
        _stop_unkept_server(data_dir, server_lock)
        server_end, lifeline = os.pipe()
        # Before the server, so that at every moment two processes would stop it.
        stand_in = _start_stand_in(data_dir, socket_path, binary, lifeline)
        server = _start_server(data_dir, socket_path, binary, (server_lock, server_end))
        _stop_with_pipe(server_end, server.pid)
        os.close(server_end)
    elif try_lock(server_lock):
        return
    else:
        stand_in = _start_stand_in(data_dir, socket_path, binary, lifeline)
    os.close(server_lock)
    # Not the pid alone: after a restart of a container, the next keeper often has the same pid.
    os.write(keeper_lock, b"%d %s\n" % (os.getpid(), os.urandom(8).hex().encode()))

    pid = server.pid if server else None
    threading.Thread(target=_stop_without_users, args=(data_dir, pid), daemon=True).start()
    threading.Thread(target=_sync_regularly, args=(data_dir,), daemon=True).start()
    if server is not None:
        server.wait()
        # A killed server leaves the child that was rewriting its file, which also holds the lock.
        _kill_group(server.pid)
    # With this lock we know that the server is dead. Release it before keeper.lock, or the stand-in would take us for a
    # server.
    os.close(_wait_for_lock(data_dir, SERVER_LOCK))
    if stand_in is not None:  # the init of a container may not collect zombies
        stand_in.kill()
        stand_in.wait()


def _wait_for_lock(data_dir: str, name: str) -> int:
    descriptor = open_lock(data_dir, name)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _stop_unkept_server(data_dir: str, server_lock: int) -> None:
    """Take the lock; a server that has lost its keepers is stopped for it."""
    for stop in (_terminate, _kill_group):
        if try_lock(server_lock):
            return
        if pid := _written_pid(data_dir):
            stop(pid)
        deadline = time.monotonic() + STOP_SECONDS
        while not try_lock(server_lock) and time.monotonic() < deadline:
            time.sleep(0.01)
    if not try_lock(server_lock):
        sys.exit("A server that has lost its keeper cannot be stopped: kill it.")


def _start_stand_in(data_dir: str, socket_path: str, binary: str, lifeline: int) -> subprocess.Popen[bytes] | None:
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__), data_dir, socket_path, binary, str(lifeline)]
    try:
        # A session of its own, so that to kill the keeper's process group does not kill both.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(lifeline,), start_new_session=True)
    except OSError:  # a keeper alone is better than none; its interpreter may have been removed meanwhile
        return None


def _start_server(
    data_dir: str, socket_path: str, binary: str, descriptors: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    # The pid of a killed server may belong to another process now.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(data_dir, SERVER_PID))
    options = {
        "port": "0",
        "unixsocket": socket_path,
        "unixsocketperm": "700",
        "dir": data_dir,
        "logfile": os.path.join(data_dir, SERVER_LOG),
        "pidfile": os.path.join(data_dir, SERVER_PID),
        "daemonize": "no",
        "databases": "1",
        "appendonly": "yes",
        "appendfsync": "no",  # the keeper calls fsync: see the module's docstring
        "aof-use-rdb-preamble": "no",  # Redis and Valkey cannot read each other's preamble
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    command = [binary]
    for name, value in options.items():
        command += [f"--{name}", value]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=descriptors, process_group=0)


def _stop_with_pipe(server_end: int, pid: int) -> None:
    """Let the kernel stop the server when no process holds the other end of this pipe any more."""
    if sys.platform == "linux":  # elsewhere the signal cannot be chosen, and the server ignores the default
        fcntl.fcntl(server_end, fcntl.F_SETSIG, signal.SIGTERM)
        fcntl.fcntl(server_end, fcntl.F_SETOWN, pid)
        fcntl.fcntl(server_end, fcntl.F_SETFL, fcntl.fcntl(server_end, fcntl.F_GETFL) | os.O_ASYNC)


def _stop_without_users(data_dir: str, pid: int | None) -> None:
    while True:
        users_lock = _wait_for_lock(data_dir, USERS_LOCK)
        # The main thread ends this process as soon as the server is dead.
        for stop in (_terminate, _kill_group):
            if server := pid or _written_pid(data_dir):
                stop(server)
            time.sleep(STOP_SECONDS)
        os.close(users_lock)
        time.sleep(STOP_SECONDS)


def _sync_regularly(data_dir: str) -> None:
    synced: dict[str, int] = {}
    while True:
        time.sleep(SYNC_SECONDS)
        with contextlib.suppress(OSError):  # a rewrite may remove the file meanwhile; the next round sees the new one
            with os.scandir(os.path.join(data_dir, "appendonlydir")) as files:
                sizes = {file.path: file.stat().st_size for file in files if file.name.endswith(".incr.aof")}
            for path in (path for path, size in sizes.items() if synced.get(path) != size):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            synced = sizes


def _written_pid(data_dir: str) -> int | None:
    """The pid of a server that was taken over, from the file that it wrote."""
    try:
        with open(os.path.join(data_dir, SERVER_PID), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _terminate(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGTERM)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(OSError):  # the group is empty; for a zombie, macOS says EPERM
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    keep(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else None)
    os._exit(1)  # not sys.exit: other threads may be in system calls
