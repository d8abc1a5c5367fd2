"""Pools of connections that survive interrupts and forks.

An exception from a signal handler may come between any two steps. redis-py counts connections up and down, so that one
lost between two steps counts for ever; a pool of ours counts the connections that something still refers to.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from typing import Any, Final
from weakref import WeakSet, ref

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import HiredisRespSerializer
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from presence_core.forked import renew_in_child
from presence_core.scripts import as_text
from presence_core.transport.sentinel_watch import SyncFinder, Watched, watch_of

_PRIVATE: Final = ("maint_notifications", "oss_cluster_maint", "orig_", "himport", "retry", "connection_pool")
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_left_behind: Final[list[object]] = []
"""In a forked child, connections of its parent's event loop: closing one would take it from the parent's loop."""


class _Packer(HiredisRespSerializer):
    """hiredis 3.5 crashes the process where it packs a number while a signal handler raises."""

    def pack(self, *args: Any) -> Any:
        words: Any = as_text(args)
        return super().pack(*words)


class _Hurried:
    """redis-py greets a server in up to five round trips, and each may take the whole time limit: a server that is
    merely slow would hold a caller for five times as long as was asked for."""

    socket_connect_timeout: float | None

    def connect(self, *args: Any, **options: Any) -> Any:
        usual = self.socket_connect_timeout
        self.socket_connect_timeout = _left() or usual
        try:
            return super().connect(*args, **options)  # type: ignore[misc]  # a mixin of redis-py's connections
        finally:
            self.socket_connect_timeout = usual

    def read_response(self, *args: Any, **options: Any) -> Any:
        left = _left()
        if left is not None:
            options.setdefault("timeout", left)
        return super().read_response(*args, **options)  # type: ignore[misc]


_call = threading.local()


def connection_of(pool: Any, until: float) -> Any:
    """A connection of this pool. One that has to be made is made by then, or not at all."""
    _call.until = until
    try:
        return pool.get_connection()
    finally:
        _call.until = None


def _left() -> float | None:
    until = getattr(_call, "until", None)
    return None if until is None else max(0.05, until - time.monotonic())


class Pool(redis.ConnectionPool):
    """Counts the connections that exist, and takes none back whose state is not known."""

    _made: list[ref[Any]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        renew_in_child(self, Pool._renew)

    def reset(self) -> None:
        super().reset()
        self._made = []
        self._in_use_connections = WeakSet()  # type: ignore[assignment]

    def _renew(self) -> None:
        _renew_locks(self)
        self.reset()

    def make_connection(self) -> Any:
        self._made = [one for one in self._made if one() is not None]
        self._created_connections = len(self._made)
        connection = super().make_connection()
        self._made.append(ref(connection))
        return connection

    def get_connection(self, command_name: str | None = None, *keys: Any, **options: Any) -> Any:
        """A connection that is open and has nothing to read. After any other error than the network's it is dropped:
        it may be in the middle of its greeting."""
        self._checkpid()
        with self._lock:
            connection = self._available_connections.pop() if self._available_connections else self.make_connection()
            self._in_use_connections.add(connection)
        try:
            connection.connect()
            try:
                stale = connection.can_read()
            except (RedisError, OSError):
                stale = True
            if stale:
                connection.disconnect()
                connection.connect()
        except (RedisError, OSError):
            connection.disconnect()
            self.release(connection)
            raise
        return connection


class SentinelPool(Pool, SentinelConnectionPool):
    """The same for the master that the watch over its Sentinels names."""


def own_pool(pool: Any, timeout: float) -> Pool:
    """Connections of our own to where this pool of redis-py leads, with our time limits and no blind retries."""
    options = _options_of(pool)
    options |= {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": Retry(NoBackoff(), 0)}
    kind = pool.connection_class
    if not isinstance(pool, SentinelConnectionPool):
        return Pool(connection_class=type(kind.__name__, (_Hurried, kind), {}), **options)
    finder = SyncFinder(watch_of(pool.service_name, pool.sentinel_manager), pool.sentinel_manager)
    options |= {"connection_class": type(kind.__name__, (Watched, _Hurried, kind), {})}
    options |= {"service_name": pool.service_name, "sentinel_manager": finder}
    return SentinelPool(check_connection=pool.check_connection, **options)


def _options_of(pool: Any) -> dict[str, Any]:
    """Without redis-py's maintenance notifications: their handlers hold a connection for as long as it holds them."""
    kept = {name: value for name, value in pool.connection_kwargs.items() if not name.startswith(_PRIVATE)}
    off = MaintNotificationsConfig(enabled=False)
    return kept | {
        "command_packer": _Packer(),
        "maint_notifications_config": off,
        "max_connections": pool.max_connections,
    }


def _renew_locks(*owners: Any) -> None:
    """The locks of these objects of redis-py's, and of what they are made of."""
    for owner in owners:
        for one in (owner, *vars(owner).values()):
            for name, lock in list(getattr(one, "__dict__", {}).items()):
                if isinstance(lock, _LOCKS):
                    setattr(one, name, threading.Lock() if isinstance(lock, _LOCKS[0]) else threading.RLock())


def renew_client(client: Any) -> None:
    """In a forked child: the locks of redis-py's client that its parent's threads may have held."""
    if not isinstance(client, RedisCluster):
        manager = getattr(client.connection_pool, "sentinel_manager", None)
        _renew_locks(*(one.connection_pool for one in (client, *(manager.sentinels if manager else ()))))
        return
    nodes = client.nodes_manager
    _renew_locks(client, nodes)
    for node in (*nodes.nodes_cache.values(), *nodes.startup_nodes.values()):
        node.redis_connection = None  # made when it is next asked for


def leave_behind(client: Any, pool: Any) -> None:
    """The same for asyncio: ``client`` is a RedisCluster, or ``pool`` another client's."""
    if pool is None:
        client._lock, client._initialize = asyncio.Lock(), True
        nodes = client.nodes_manager
        nodes._initialize_lock = asyncio.Lock()
        for node in (*nodes.nodes_cache.values(), *nodes.startup_nodes.values()):
            _left_behind.append((node._connections, node._free))
            node._connections, node._free = [], deque()
        return
    manager = getattr(pool, "sentinel_manager", None)
    for one in (pool, *(sentinel.connection_pool for sentinel in (manager.sentinels if manager else ()))):
        _left_behind.append((list(one._available_connections), list(one._in_use_connections)))
        one._lock, one._event_dispatcher._async_lock = asyncio.Lock(), None
        one.reset()
