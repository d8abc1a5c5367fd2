"""One server process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.servers.binaries import HOST
from tests.support.servers.waiting import free_port, wait_for
from tests.support.servers.watcher import START, watcher_pipe

# sun_path holds 108 bytes on Linux and 104 on macOS, the final zero included.
SOCKET_PATH_LIMIT = 100


class Running:
    """`with` for any object that has a stop()."""

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Server(Running):
    """One server process. Its directory has its log, its socket, and its data if it stores any."""

    def __init__(self, binary: str, directory: str | Path, arguments: Sequence[str], port: int | None) -> None:
        """Does not start anything: use `start`."""
        self.binary = binary
        self.directory = Path(directory).absolute()
        self.log = self.directory / "server.log"
        self.host = HOST
        self.port = port
        self.announced = port or 0  #: the port that other servers know: that of a proxy in front of it, if there is one
        self.socket: Path | None = None
        self._socket_directory: Path | None = None
        self._arguments = list(arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        if port is not None:
            self.url = f"redis://{HOST}:{port}/0"
        else:
            self.socket = self.directory / "redis.sock"
            if len(os.fsencode(self.socket)) > SOCKET_PATH_LIMIT:
                self._socket_directory = _short_directory()
                self.socket = self._socket_directory / "redis.sock"
            self.url = f"unix://{quote(str(self.socket))}"

    @classmethod
    def start(cls, binary: str, directory: str | Path, *extra_args: str, port: bool = False) -> Self:
        """Start a server on a unix socket, or on a free TCP port. Extra arguments win over the defaults."""
        server = cls(binary, directory, extra_args, free_port() if port else None)
        server._launch()
        return server

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process runs and is not paused."""
        return self._process is not None and self._process.poll() is None and not self._paused

    def client(self, **options: Any) -> redis.Redis:
        """A client with redis-py's own defaults, which retry: pass what the test needs."""
        return redis.Redis.from_url(self.url, **options)

    def command(self, *words: str | int) -> Any:
        """One command on a connection of its own: without retries; returns the RESP2 reply as unparsed text."""
        with self.client(retry=Retry(NoBackoff(), 0), socket_timeout=2, protocol=2, decode_responses=True) as client:
            connection = client.connection_pool.get_connection()
            try:
                connection.send_command(*words)
                return connection.read_response()
            finally:
                client.connection_pool.release(connection)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        self._reap()

    def stop(self) -> None:
        """Stop it with SIGTERM and wait. Does nothing if it has already ended."""
        self.resume()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                # A master gives lagging replicas 10 s before it leaves.
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reap()
        self._remove_short_directory()

    def restart(self) -> None:
        """Start it again with the same arguments, ports and directory; stop it first if it runs."""
        self.stop()
        self._launch()

    def pause(self) -> None:
        """Freeze it with SIGSTOP: it holds its connections and answers nothing."""
        if self.running:
            os.kill(self.pid, signal.SIGSTOP)
            os.waitpid(self.pid, os.WUNTRACED)  # it can take some time until the signal has stopped every thread
            self._paused = True

    def resume(self) -> None:
        """Undo `pause`."""
        if self._paused:
            os.kill(self.pid, signal.SIGCONT)
            self._paused = False

    def _argv(self) -> list[str]:
        if self.socket is None:
            listen = ["--port", str(self.port)]
        else:
            listen = ["--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"]
        # The last one is about replicas, which would keep the file of their first sync and load it when restarted.
        keep_nothing = ["--save", "", "--appendonly", "no", "--rdb-del-sync-files", "yes"]
        return [self.binary, *listen, "--bind", HOST, "--dir", str(self.directory), *keep_nothing, *self._arguments]

    def _launch(self) -> None:
        try:
            self._spawn()
            self._wait_until_ready()
        except BaseException:
            self.kill()
            self._remove_short_directory()
            raise

    def _spawn(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._socket_directory is not None:
            self._socket_directory.mkdir(mode=0o700, exist_ok=True)
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", START, str(self.log), *self._argv()],
            stdin=subprocess.DEVNULL,
            stdout=watcher_pipe(),
            start_new_session=True,  # Ctrl-C is for the test run, which then stops its servers in order
        )
        self._paused = False

    def _wait_until_ready(self) -> None:
        try:
            wait_for(f"a server that answers at {self.url}", self._ready)
        except TimeoutError as error:
            error.add_note(self._log_end())
            raise

    def _ready(self) -> bool:
        if not self.running:
            raise RuntimeError(f"the server ended at once\n{self._log_end()}")
        try:
            self.command("PING")
            # On a port, the reply may come from another server that took it first.
            return f"process_id:{self.pid}\r\n" in self.command("INFO", "server")
        except redis.AuthenticationError:
            return True

    def _log_end(self) -> str:
        with contextlib.suppress(OSError):
            return self.log.read_text(errors="replace")[-1500:]
        return ""

    def _remove_short_directory(self) -> None:
        if self._socket_directory is not None:
            shutil.rmtree(self._socket_directory, ignore_errors=True)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            # From now on the pid may be reused: the watcher must not kill it.
            os.write(watcher_pipe(), f"-{self._process.pid}\n".encode())
        self._paused = False


def _short_directory() -> Path:
    """A private directory with a path short enough for a socket."""
    temporary = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="redis-", dir=temporary if len(temporary) < 60 else "/tmp"))


SYNC_AT_ONCE = (
    *("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"),
    # A Valkey that writes the first copy to disk notices only after a second that the copy is complete.
    *("--repl-diskless-load", "on-empty-db"),
)
"""Options with which a new replica has its master's data at once."""


def launch_all(servers: Sequence[Server]) -> None:
    for server in servers:
        server._spawn()
    for server in servers:
        server._wait_until_ready()


def kill_all(servers: Iterable[Server]) -> None:
    for server in servers:
        server.kill()


def port_of(server: Server) -> int:
    assert server.port is not None
    return server.port


def in_sync(replica: Server) -> bool:
    return "master_link_status:up" in replica.command("INFO", "replication")
