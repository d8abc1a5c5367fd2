"""Pools of connections that survive interrupts and forks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from weakref import proxy, ref

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import HiredisRespSerializer
from redis.exceptions import MaxConnectionsError, RedisError
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from presence_core.fork_safety import renew_in_child
from presence_core.scripts.calls import as_text
from presence_core.transport.sentinel_watch import SyncFinder, Watched, watch_of

_PRIVATE: Final = ("maint", "oss_cluster_maint", "orig_", "himport", "retry")
IDLE_SECONDS: Final = 5.0
"""After so long without a reply, a PING goes first."""

PING_SHARE: Final = 4
"""The PING gets this part of the time that its call has left."""

PING: Final = b"*1\r\n$4\r\nPING\r\n"

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


def _left() -> float | None:
    until = getattr(_call, "until", None)
    return None if until is None else max(0.05, until - time.monotonic())


class Spare(NamedTuple):
    """A connection that is not in use."""

    connection: Any
    since: float  #: monotonic
    poll: Any  #: of its socket; None: it is closed


class _Ticket:
    """The place of a thread that waits for a connection."""

    __slots__ = ("event", "spare")

    def __init__(self) -> None:
        self.event = threading.Event()
        self.spare: Spare | None = None


class Pool:
    """Connections of redis-py to one server. Threads wait in turn for one.

    A signal handler may raise between any two steps, so nothing is counted up and down: a connection counts as long as
    something refers to it.

    Args:
        connection_class: of redis-py.
        options: its arguments.
        limit: how many connections there may be.
    """

    is_master = True  # read by redis-py's connections to the master behind Sentinel, as are the next three
    check_connection = False

    def __init__(self, connection_class: Any, options: dict[str, Any], limit: int) -> None:
        self.connection_class = connection_class
        self.connection_kwargs = options
        self.max_connections = limit
        self.sentinel_manager: Any = None
        self.service_name = ""
        self._renew()
        renew_in_child(self, Pool._renew)

    def _renew(self) -> None:
        """Also in a forked child: it uses no connection of its parent."""
        self._free: list[Spare] = []
        self._tickets: deque[_Ticket] = deque()
        self._made: list[ref[Any]] = []
        self._making = threading.Lock()

    def get_master_address(self) -> Any:
        return self.sentinel_manager.discover_master(self.service_name)

    def take(self, until: float) -> Any:
        """An open connection with nothing to read.

        Raises MaxConnectionsError if all are in use until the time limit, and what redis-py raises if it cannot
        connect.
        """
        spare = self._next(until)
        connection = spare.connection
        if spare.poll is not None:
            if not spare.poll.poll(0) and (
                time.monotonic() - spare.since < IDLE_SECONDS or _replies(connection, until)
            ):
                return connection
            connection.disconnect()
        self.connect(connection, until)
        return connection

    def connect(self, connection: Any, until: float) -> None:
        """Open a connection within the time limit. After an error it is free again."""
        _call.until = until
        try:
            connection.connect()
        except (RedisError, OSError):
            connection.disconnect()
            self.give(connection)
            raise
        finally:
            _call.until = None

    def give(self, connection: Any) -> None:
        """Return a connection: to the thread that has waited longest, if any does."""
        sock = connection._sock
        poll = None
        if sock is not None:
            poll = select.poll()
            poll.register(sock.fileno(), select.POLLIN)
        self._free.append(Spare(connection, time.monotonic(), poll))
        while self._tickets and self._free:
            with contextlib.suppress(IndexError):
                spare = self._free.pop()
                try:
                    ticket = self._tickets.popleft()
                except IndexError:
                    self._free.append(spare)
                    break
                ticket.spare = spare
                ticket.event.set()

    def _next(self, until: float) -> Spare:
        if not self._tickets:
            spare = self._free_or_new()
            if spare is not None:
                return spare
        ticket = _Ticket()
        self._tickets.append(ticket)
        try:
            while ticket.spare is None:
                left = until - time.monotonic()
                if left <= 0:
                    raise MaxConnectionsError
                ticket.event.wait(min(left, 0.05))  # an interrupted thread has a place to give, and sets no event
                if ticket.spare is None and self._tickets and self._tickets[0] is ticket:
                    spare = self._free_or_new()
                    if spare is not None:
                        return spare
            return ticket.spare
        finally:
            with contextlib.suppress(ValueError):
                self._tickets.remove(ticket)

    def _free_or_new(self) -> Spare | None:
        with contextlib.suppress(IndexError):
            return self._free.pop()
        with self._making:
            self._made = [reference for reference in self._made if reference() is not None]
            if len(self._made) >= self.max_connections:
                return None
            connection = self.connection_class(**self.connection_kwargs)
            self._made.append(ref(connection))
        return Spare(connection, 0.0, None)

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Close the connections that are free, or all."""
        for reference in list(self._made) if inuse_connections else ():
            connection = reference()
            if connection is not None:
                connection.disconnect()
        for _ in range(len(self._free)):
            with contextlib.suppress(IndexError):
                spare = self._free.pop()
                spare.connection.disconnect()
                self.give(spare.connection)


def _replies(connection: Any, until: float) -> bool:
    """Whether a connection that was idle for long still answers: a proxy may have dropped it without a word."""
    try:
        connection.send_packed_command((PING,))
        left = max(0.0, until - time.monotonic())
        read_within(left / PING_SHARE, connection, connection.read_response, disable_decoding=True)
    except (RedisError, OSError):
        return False
    return True


class NoPool(redis.asyncio.ConnectionPool):
    """Opens a connection for each call and closes it then, so that its client belongs to no event loop. For tests."""

    async def get_connection(self, command_name: object = None, *keys: Any, **options: Any) -> Any:
        connection: Any = self.connection_class(**self.connection_kwargs)
        await connection.connect()
        return connection

    async def release(self, connection: Any) -> None:
        await connection.disconnect()


def like_pool(pool: Any, timeout: float) -> Pool:
    """Our own pool to the same server as this pool of redis-py, with our time limits and no blind retries."""
    kind = pool.connection_class
    options = options_for(pool.connection_kwargs) | {
        "command_packer": _Packer(), "socket_timeout": timeout, "socket_connect_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
    }  # fmt: skip
    options.pop("connection_pool", None)
    if not isinstance(pool, SentinelConnectionPool):
        return Pool(type(kind.__name__, (_ConnectInTime, kind), {}), options, pool.max_connections)
    ours = Pool(type(kind.__name__, (Watched, _ConnectInTime, kind), {}), options, pool.max_connections)
    ours.check_connection = pool.check_connection
    ours.service_name = pool.service_name
    ours.sentinel_manager = SyncFinder(watch_of(pool.service_name, pool.sentinel_manager), pool.sentinel_manager)
    options["connection_pool"] = proxy(ours)
    return ours


def options_for(options: dict[str, Any]) -> dict[str, Any]:
    """A connection's options without those that redis-py keeps for itself: retries, and notifications.

    Their handlers keep connections alive by a reference cycle, and hide that an idle one was closed.
    """
    return {name: value for name, value in options.items() if not name.startswith(_PRIVATE)}


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
