"""A master under Sentinel."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import redis
from redis.sentinel import Sentinel

from tests.support.servers.binaries import HOST
from tests.support.servers.server import SYNC_AT_ONCE, Running, Server, in_sync, kill_all, launch_all
from tests.support.servers.waiting import free_port, wait_for


class Sentinels(Running):
    """A master and two replicas (`servers`, in this order at first), watched by three sentinels (`sentinels`)."""

    master_name = "mymaster"

    def __init__(self, servers: list[Server], sentinels: list[Server]) -> None:
        """Takes servers that are not started: use `start`."""
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

        ``front`` puts a proxy before a port and returns the proxy's: all of them then talk through these. Each also
        gets a source address of its own (``source``), so that a proxy can tell them apart.
        """
        directory = Path(directory).absolute()
        real = [free_port() for _ in range(3)]
        ports = [front(port) if front else port for port in real]
        servers = []
        for number, port in enumerate(ports):
            arguments = [*SYNC_AT_ONCE, *extra_args]
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
                # Above a second: a new master is first asked after one second, and would be marked as down without an
                # answer.
                f"sentinel down-after-milliseconds {cls.master_name} 1500",
                # A vote without a winner is repeated after twice this time, by default six minutes.
                f"sentinel failover-timeout {cls.master_name} 3000",
                # The sentinels would find all these automatically, but only after seconds.
                *(f"sentinel known-replica {cls.master_name} {HOST} {replica}" for replica in ports[1:]),
                *(
                    f"sentinel known-sentinel {cls.master_name} {HOST} {other} {name}"
                    for other, name in identities
                    if other != port
                ),
            ]
            file.write_text("\n".join(lines) + "\n")
            sentinels.append(SentinelProcess(binary, own, [str(file)], listening[number]))
            sentinels[-1].announced = port

        group = cls(servers, sentinels)
        try:
            # In this order: a replica that does not find its master retries only after a second, and a sentinel that
            # sees no replica in sync asks again only after ten.
            launch_all(servers[:1])
            launch_all(servers[1:])
            wait_for("replicas in sync", lambda: all(map(in_sync, servers[1:])))
            launch_all(sentinels)
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
        """The master according to the first sentinel that answers; it may be down."""
        for sentinel in self.sentinels:
            with contextlib.suppress(redis.RedisError, OSError):
                if sentinel.running:
                    return self._master_by(sentinel)
        raise LookupError("no sentinel answers")

    def wait_ok(self, timeout: float = 40.0) -> None:
        """Wait until all running servers agree: one master, replicas in sync, sentinels that see each other.

        This takes a second or two after a failover; but a killed master that came back needs twenty to become a
        replica.
        """
        wait_for("sentinels that agree", self._is_ok, timeout)

    def stop(self) -> None:
        """End all at once, with SIGKILL, the sentinels first."""
        kill_all([*self.sentinels, *self.servers])

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
            and all(in_sync(server) for server in servers if server.announced in replicas)
            and all(self._up(sentinel, "REPLICAS") == replicas for sentinel in sentinels)
            and all(self._up(sentinel, "SENTINELS") == others - {sentinel.announced} for sentinel in sentinels)
        )

    def _up(self, sentinel: Server, what: str) -> set[int]:
        """The ports of the sentinels and replicas that this sentinel sees as healthy."""
        ports = set()
        for row in sentinel.command("SENTINEL", what, self.master_name):
            fields = dict(zip(row[::2], row[1::2], strict=True))
            down = {"s_down", "o_down", "disconnected"} & set(fields["flags"].split(","))
            # The link is "ok" only once the sentinel has read the replica's INFO, without which it cannot promote it.
            if not down and fields.get("master-link-status", "ok") == "ok":
                ports.add(int(fields["port"]))
        return ports


class SentinelProcess(Server):
    """A sentinel: its whole configuration is a file, which it also writes."""

    def _argv(self) -> list[str]:
        (file,) = self._arguments
        listen = ["--port", str(self.port), "--bind", HOST, "--dir", str(self.directory)]
        return [self.binary, file, "--sentinel", *listen]
