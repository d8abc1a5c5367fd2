"""Routing: which node a call goes to, on a single server and on a cluster."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Final, NamedTuple, Protocol

import redis
from redis.exceptions import RedisClusterException, SlotNotCoveredError

from presence_core.keyspace import hashed, slot
from presence_core.logs import OutageLog
from presence_core.scripts.calls import Call

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 0.5
"""For so long after a reply, a cluster node is taken for the master that it was. Shorter than any node timeout."""


class Router(Protocol):
    """Where calls go. A node is any object of which the driver takes connections."""

    is_cluster: bool
    is_ready: bool  #: False: the layout of the cluster is not known yet
    tls: bool  #: whether connections use TLS
    outages: OutageLog  #: by the address of the server

    def node(self, key: str) -> Any: ...
    def node_at(self, host: str, port: int) -> Any: ...
    def name(self, node: Any) -> str: ...
    def names(self) -> list[str]: ...


def new_outage_log() -> OutageLog:
    return OutageLog(log, "redis", "%(error)s", "%(server)s answers again after %(seconds).1f s.")


def group_by_node(router: Router, calls: list[Call], places: list[int]) -> list[tuple[Any, list[int]]]:
    """Each node with the places of its calls. Raises SlotNotCoveredError or RedisClusterException."""
    if not router.is_cluster:
        return [(router.node(""), places)]
    groups: dict[str, tuple[Any, list[int]]] = {}
    for place in places:
        node = _node_of(router, calls[place])
        groups.setdefault(router.name(node), (node, []))[1].append(place)
    return list(groups.values())


def _node_of(router: Router, call: Call) -> Any:
    if not call.at:
        return router.node(call.key)
    host, _, port = call.at.rpartition(":")
    node = router.node_at(host, int(port))
    if node is None:
        raise RedisClusterException(f"{call.at} is no longer a node of this cluster")
    return node


def server_of(router: Router, key: str) -> str:
    """The address of the node that serves a key, as far as this client knows; "" if it does not."""
    try:
        return router.name(router.node(key))
    except (SlotNotCoveredError, RedisClusterException):
        return ""


def _address(kwargs: dict[str, Any]) -> str:
    if "path" in kwargs:
        return str(kwargs["path"])
    return f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}"


class SingleServer:
    """A single Redis, or the master behind Sentinel. Its node is its connection pool."""

    is_cluster = False
    is_ready = True

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.tls = "SSL" in pool.connection_class.__name__
        self.outages = new_outage_log()

    def node(self, key: str) -> Any:
        return self._pool

    def node_at(self, host: str, port: int) -> Any:
        return self._pool

    def names(self) -> list[str]:
        return [self.name(self._pool)]

    def name(self, node: Any) -> str:
        manager = getattr(node, "sentinel_manager", None)
        if manager is None:
            return _address(node.connection_kwargs)
        hosts = ", ".join(_address(sentinel.connection_pool.connection_kwargs) for sentinel in manager.sentinels)
        return f"{node.service_name} by Sentinel {hosts}"


class SlotRange(NamedTuple):
    """A row of CLUSTER SLOTS: the slots from ``first`` to ``last``, and the address of their master."""

    first: int
    last: int
    host: str
    port: int

    @classmethod
    def from_reply(cls, row: list[Any]) -> SlotRange:
        first, last, (host, port, *_), *_ = row
        return cls(first, last, host.decode(), int(port))


class Cluster:
    """A Redis Cluster: the node that serves the slot of the key's hash tag.

    A node that was paused and replaced meanwhile first serves the calls in its queue, before it learns of its
    successor. So a node that has not replied for a while is used only after another master has confirmed it. A failover
    takes longer than that while.
    """

    is_cluster = True

    def __init__(self, cluster: Any, *, is_ready: bool) -> None:
        self._cluster = cluster
        self._slots: dict[str, int] = {}
        self.is_ready = is_ready
        self.last_reply: dict[str, float] = {}  #: node name → monotonic time
        self.checks: dict[str, threading.Thread] = {}  #: node name → the thread that asks it about another node
        self.suspect: str | None = None  #: the node that is asked last for the layout
        self.outages = new_outage_log()
        kwargs = cluster.nodes_manager.connection_kwargs
        self.tls = bool(kwargs.get("ssl")) or "SSL" in getattr(kwargs.get("connection_class"), "__name__", "")

    def node(self, key: str) -> Any:
        tag = hashed(key)
        number = self._slots.get(tag)
        if number is None:
            number = self._slots[tag] = slot(tag)
        nodes = self._cluster.nodes_manager.slots_cache.get(number)  # get_node_from_slot takes four times as long
        if not nodes:
            raise SlotNotCoveredError(f"no known node serves slot {number}")
        return nodes[0]  # the master; its replicas follow

    def node_at(self, host: str, port: int) -> Any:
        return self._cluster.nodes_manager.get_node(host=host, port=port)

    def names(self) -> list[str]:
        return sorted(self.name(node) for node in self._cluster.get_primaries())

    def name(self, node: Any) -> str:
        return f"{node.host}:{node.port}"

    def is_fresh(self, node: Any) -> bool:
        """Whether the node has replied recently enough to be used without a check."""
        return time.monotonic() - self.last_reply.get(node.name, -FRESH_SECONDS) < FRESH_SECONDS

    def witnesses(self, node: Any) -> list[Any]:
        """At most two other masters to ask about this node, those that replied last first."""
        others = [other for other in self._cluster.get_primaries() if other.name != node.name]
        return sorted(others, key=lambda other: -self.last_reply.get(other.name, 0.0))[:2]

    def check_layout(self, node: Any, witness: Any, reply: list[Any], asked: float) -> None:
        """Raise ConnectionError if the witness's CLUSTER SLOTS gives slots of this node to another, or the reverse."""
        for slots in map(SlotRange.from_reply, reply):
            if not self._agrees(node, witness, slots):
                self.suspect = node.name
                self.last_reply.pop(node.name, None)
                raise redis.ConnectionError(f"{node.name} may have been replaced")
        self.last_reply[node.name] = asked

    def _agrees(self, node: Any, witness: Any, slots: SlotRange) -> bool:
        """Whether it is our view, too, that this node serves these slots, or that it does not."""
        manager = self._cluster.nodes_manager
        host, port = manager.remap_host_port(slots.host or witness.host, slots.port)
        serves = ("127.0.0.1" if host == "localhost" else host, port) == (node.host, node.port)
        for number in (slots.first, slots.last):
            known = manager.slots_cache.get(number)
            if not known or (known[0].name == node.name) != serves:
                return False
        return True
