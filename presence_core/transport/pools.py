"""Pools of connections that survive interrupts and forks.

A signal handler may raise between any two steps. redis-py counts connections up and down, so a connection that is lost
between two steps counts forever. Our pools count the connections that something still refers to.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet, ref

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import HiredisRespSerializer
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from presence_core.fork_safety import renew_in_child
from presence_core.scripts.calls import as_text
from presence_core.transport.sentinel_watch import SyncFinder, Watched, watch_of

_PRIVATE: Final = ("maint_notifications", "oss_cluster_maint", "orig_", "himport", "retry", "connection_pool")
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_left_behind: Final[list[object]] = []
"""In a forked child: connections of the parent's event loop, kept so that nothing closes them for the parent."""


class _Packer(HiredisRespSerializer):
    """hiredis 3.5 crashes the process if a signal handler raises while it packs a number: pack text only."""

    def pack(self, *args: Any) -> Any:
        words: Any = as_text(args)
        return super().pack(*words)


class _ConnectInTime:
    """redis-py connects in up to five round trips, and each may take the whole time limit: a slow server would hold the
    caller five times as long. This limits them all together."""

    socket_connect_timeout: float | None

    def connect(self, *args: Any, **options: Any) -> Any:
        limit = self.socket_connect_timeout
        self.socket_connect_timeout = _left() or limit
        try:
            return super().connect(*args, **options)  # type: ignore[misc]  # a mixin of redis-py's connections
        finally:
            self.socket_connect_timeout = limit

    def read_response(self, *args: Any, **options: Any) -> Any:
        read = super().read_response  # type: ignore[misc]  # a mixin of redis-py's connections
        if "timeout" in options or (left := _left()) is None:
            return read(*args, **options)
        return read_within(left, self, read, *args, **options)


_TAKES_LIMIT: Final = "timeout" in inspect.signature(redis.Connection.read_response).parameters


def read_within(seconds: float, connection: Any, read: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Read a reply within this time. Not every ``read_response`` that blocks takes a time limit, so older ones get that
    of the socket."""
    if _TAKES_LIMIT:
        return read(*args, timeout=seconds, **options)
    sock = connection._sock
    if sock is not None:
        sock.settimeout(seconds)
    try:
        return read(*args, **options)
    finally:
        if sock is not None and connection._sock is sock:  # else it was closed
            sock.settimeout(connection.socket_timeout)


_call = threading.local()


def connection_of(pool: Any, until: float) -> Any:
    """A connection of this pool; a new one is made within the time limit, or not at all."""
    _call.until = until
    try:
        return pool.get_connection()
    finally:
        _call.until = None


def _left() -> float | None:
    until = getattr(_call, "until", None)
    return None if until is None else max(0.05, until - time.monotonic())


class Pool(redis.ConnectionPool):
    """Counts the connections that exist, and drops those whose state is unknown."""

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
        self._made = [reference for reference in self._made if reference() is not None]
        self._created_connections = len(self._made)
        connection = super().make_connection()
        self._made.append(ref(connection))
        return connection

    def get_connection(self, command_name: str | None = None, *keys: Any, **options: Any) -> Any:
        """An open connection with nothing to read. After an error that is not the network's, it is dropped: it may be
        in the middle of connecting."""
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
    """A pool for the master that the SentinelWatch names."""


class NoPool(redis.asyncio.ConnectionPool):
    """Opens a connection for each call and closes it then, so that its client belongs to no event loop. For tests."""

    async def get_connection(self, command_name: object = None, *keys: Any, **options: Any) -> Any:
        connection: Any = self.connection_class(**self.connection_kwargs)
        await connection.connect()
        return connection

    async def release(self, connection: Any) -> None:
        await connection.disconnect()


def release_of_node(node: Any, connection: Any) -> None:
    """Return a connection to its asyncio ClusterNode, which has a method for it since redis-py 6.2."""
    if hasattr(node, "release"):
        node.release(connection)
    else:
        node._free.append(connection)


def like_pool(pool: Any, timeout: float) -> Pool:
    """Our own pool to the same server as this pool of redis-py, with our time limits and no blind retries."""
    options = _options_of(pool)
    options |= {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": Retry(NoBackoff(), 0)}
    kind = pool.connection_class
    if not isinstance(pool, SentinelConnectionPool):
        return Pool(connection_class=type(kind.__name__, (_ConnectInTime, kind), {}), **options)
    finder = SyncFinder(watch_of(pool.service_name, pool.sentinel_manager), pool.sentinel_manager)
    options |= {"connection_class": type(kind.__name__, (Watched, _ConnectInTime, kind), {})}
    options |= {"service_name": pool.service_name, "sentinel_manager": finder}
    return SentinelPool(check_connection=pool.check_connection, **options)


def _options_of(pool: Any) -> dict[str, Any]:
    kept = {name: value for name, value in pool.connection_kwargs.items() if not name.startswith(_PRIVATE)}
    return kept | {"command_packer": _Packer(), "max_connections": pool.max_connections} | _no_notifications()


def _no_notifications() -> dict[str, Any]:
    """The option that turns off maintenance notifications: their handlers keep connections alive by a reference cycle.
    They, and the option, came with redis-py 7."""
    try:
        from redis.maint_notifications import MaintNotificationsConfig
    except ImportError:
        return {}
    return {"maint_notifications_config": MaintNotificationsConfig(enabled=False)}


_PLAIN_POOLS: Final = (Pool, redis.ConnectionPool, redis.asyncio.ConnectionPool)


class SpareConnections:
    """Keeps connections between two calls, because the bookkeeping of redis-py's pool takes as long as a script."""

    __slots__ = ("_free", "_pid")

    def __init__(self) -> None:
        self._free: dict[Any, list[tuple[Any, float]]] = {}
        self._pid = os.getpid()

    def take(self, pool: Any) -> tuple[Any, bool]:
        """A connection or None, and whether it was idle for so long that it may have been closed."""
        if self._pid != os.getpid():  # a forked child must not use its parent's sockets
            self._free, self._pid = {}, os.getpid()
        try:
            connection, used = self._free[pool].pop()
        except (KeyError, IndexError):
            return None, False
        return connection, time.monotonic() - used > 0.5

    def keep(self, pool: Any, connection: Any) -> bool:
        """Keep a connection of a plain pool, else return False: a Sentinel's pool must check the master again."""
        if type(pool) not in _PLAIN_POOLS or self._pid != os.getpid():
            return False
        self._free.setdefault(pool, []).append((connection, time.monotonic()))
        return True

    def clear(self) -> None:
        """Return all to their pools: the nodes may have changed."""
        free, self._free = self._free, {}  # first, so that no connection ever has two owners
        for pool, connections in list(free.items()):
            with contextlib.suppress(IndexError):
                while True:
                    pool.release(connections.pop()[0])


def _renew_locks(*owners: Any) -> None:
    """Replace the locks of these objects of redis-py, and of their attributes."""
    for owner in owners:
        for part in (owner, *vars(owner).values()):
            for name, lock in list(getattr(part, "__dict__", {}).items()):
                if isinstance(lock, _LOCKS):
                    setattr(part, name, threading.Lock() if isinstance(lock, _LOCKS[0]) else threading.RLock())


def renew_client(client: Any) -> None:
    """In a forked child, replace the locks of a redis-py client: threads of the parent may have held them."""
    if not isinstance(client, RedisCluster):
        manager = getattr(client.connection_pool, "sentinel_manager", None)
        _renew_locks(*(owner.connection_pool for owner in (client, *(manager.sentinels if manager else ()))))
        return
    nodes = client.nodes_manager
    _renew_locks(client, nodes)
    for node in (*nodes.nodes_cache.values(), *nodes.startup_nodes.values()):
        node.redis_connection = None  # redis-py makes it again when needed


def leave_behind(client: Any, pool: Any) -> None:
    """The same for asyncio: ``pool`` is None if ``client`` is a RedisCluster."""
    if pool is None:
        client._lock, client._initialize = asyncio.Lock(), True
        nodes = client.nodes_manager
        if hasattr(nodes, "_initialize_lock"):  # redis-py 7 and older have none
            nodes._initialize_lock = asyncio.Lock()
        for node in (*nodes.nodes_cache.values(), *nodes.startup_nodes.values()):
            _left_behind.append((node._connections, node._free))
            node._connections, node._free = [], deque()
        return
    manager = getattr(pool, "sentinel_manager", None)
    for each in (pool, *(sentinel.connection_pool for sentinel in (manager.sentinels if manager else ()))):
        _left_behind.append((list(each._available_connections), list(each._in_use_connections)))
        each._lock, each._event_dispatcher._async_lock = asyncio.Lock(), None
        each.reset()


def drop_connections(pool: Any) -> None:
    """Replace the connections of an event loop that was closed before them: it can close none of them any more."""
    for connection in (*pool._available_connections, *pool._in_use_connections):
        transport: Any = getattr(connection._writer, "transport", None)
        if getattr(transport, "_sock", None) is not None:  # asyncio's; uvloop closes its own
            transport._sock.close()
            transport._sock, transport._closing = None, True  # without this it warns that it was never closed
        connection._reader = connection._writer = None
    pool._lock, pool._event_dispatcher._async_lock = asyncio.Lock(), None
    pool.reset()
