"""A Redis Cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import redis
from redis.cluster import ClusterNode, RedisCluster

from tests.support.servers.binaries import HOST
from tests.support.servers.server import SYNC_AT_ONCE, Running, Server, in_sync, kill_all, launch_all, port_of
from tests.support.servers.waiting import free_port, wait_for

SLOTS = 16384


class Cluster(Running):
    """Masters and replicas on loopback ports. `nodes` has the first masters first, then their replicas in turn."""

    def __init__(self, nodes: list[Server], masters: int) -> None:
        """Takes nodes that are not started: use `start`."""
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
                # Otherwise a node reports no address until another one has called it.
                *("--cluster-announce-ip", HOST),
                *SYNC_AT_ONCE,
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
        return [(node.host, port_of(node)) for node in self.nodes]

    @property
    def url(self) -> str:
        return f"redis+cluster://{HOST}:{self.nodes[0].port}"

    def client(self, **options: Any) -> RedisCluster:
        nodes = [ClusterNode(*address) for address in self.startup]  # type: ignore[no-untyped-call]
        return RedisCluster(startup_nodes=nodes, **options)

    def masters(self) -> list[Server]:
        """The nodes that answer and call themselves masters."""
        found = []
        for node in self.nodes:
            with contextlib.suppress(redis.RedisError, OSError):
                if node.running and node.command("ROLE")[0] == "master":
                    found.append(node)
        return found

    def master_of(self, key: str) -> Server:
        """The master that serves this key, by its own answer."""
        for node in self.masters():
            slot = node.command("CLUSTER", "KEYSLOT", key)
            for first, last, (_, port, *_), *_ in node.command("CLUSTER", "SLOTS"):
                if port == node.port and first <= slot <= last:
                    return node
        raise LookupError(f"no master that answers serves {key!r}")

    def wait_ok(self) -> None:
        """Wait until all slots are served, the running nodes agree on all roles, and replicas are in sync.

        After the kill of a master: until its replica took over.
        """
        wait_for("a cluster that is whole", self._is_ok)

    def stop(self) -> None:
        """Kill all nodes at once, with SIGKILL: a temporary cluster has nothing to save."""
        kill_all(self.nodes)

    def _form(self) -> None:
        launch_all(self.nodes)
        for number, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        masters, replicas = self.nodes[: self._masters], self.nodes[self._masters :]
        for number, node in enumerate(masters):
            first, end = (SLOTS * place // len(masters) for place in (number, number + 1))
            node.command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        wait_for("nodes that know each other", self._have_met)
        for number, node in enumerate(replicas):
            master = masters[number % len(masters)].command("CLUSTER", "MYID")

            def replicates(node: Server = node, master: str = master) -> bool:
                return bool(node.command("CLUSTER", "REPLICATE", master))

            wait_for("a replica that knows its master", replicates)
        self.wait_ok()

    def _have_met(self) -> bool:
        """Introduce each pair of nodes, again where a busy machine took longer than the two seconds of a handshake."""
        have_met = True
        for number, node in enumerate(self.nodes):
            known = [line for line in node.command("CLUSTER", "NODES").splitlines() if "handshake" not in line]
            for other in self.nodes[number + 1 :]:
                if not any(f":{other.port}@" in line for line in known):
                    node.command("CLUSTER", "MEET", HOST, port_of(other), other._arguments[3])
                    have_met = False
        return have_met

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
                    # A node in handshake has neither role, so this view differs from the others.
                    port = int(address.partition("@")[0].rpartition(":")[2])
                    view[port] = ",".join(flags & {"master", "slave"})
                    if "myself" in flags:
                        roles[port] = view[port]
            if view.get(port_of(node)) == "slave" and not in_sync(node):
                return False
            views.append(view)
        return list(roles.values()).count("master") == self._masters and all(view == roles for view in views)
