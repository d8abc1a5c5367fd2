"""Clients and connections: by URL, or to the server of a client that a caller owns."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import redis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelPool
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import parse_url
from redis.exceptions import RedisClusterException, RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from presence_core.errors import InvalidArgument
from presence_core.transport import tls
from presence_core.transport.meaning import meaning
from presence_core.transport.sentinel_watch import AsyncFinder, AsyncWatched, SyncFinder, Watched, watch_of

_PLAIN_POOLS: Final = (redis.ConnectionPool, redis.asyncio.ConnectionPool)
_POOL_PRIVATE: Final = ("maint_notifications", "orig_", "himport", "retry", "connection_pool")


def own_pool(client: Any, timeout: float, retry: Any) -> Any:
    """Connections of our own to the caller's server: its address and credentials, our time limits and no blind retries.

    redis-py's defaults try a write ten times and may hold a caller for a minute.
    """
    pool = client.connection_pool
    is_sentinels = type(pool) in (SentinelConnectionPool, AsyncSentinelPool) and pool.is_master
    if is_sentinels:
        is_sentinels = type(pool.sentinel_manager) in (Sentinel, AsyncSentinel)
    if type(pool) not in _PLAIN_POOLS and not is_sentinels:
        return pool  # one with rules of the caller's own
    kwargs = {key: value for key, value in pool.connection_kwargs.items() if not key.startswith(_POOL_PRIVATE)}
    kwargs |= {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": retry(NoBackoff(), 0)}
    kind = pool.connection_class
    if is_sentinels:
        return _watched_pool(pool, kind, kwargs)
    if type(pool) is redis.ConnectionPool:
        kind = type(kind.__name__, (_Hurried, kind), {})
    return type(pool)(connection_class=kind, max_connections=pool.max_connections, **kwargs)


def _watched_pool(pool: Any, kind: type[Any], kwargs: dict[str, Any]) -> Any:
    """The same, where the process's watch over these Sentinels says which server is the master."""
    watch = watch_of(pool.service_name, pool.sentinel_manager)
    is_sync = type(pool) is SentinelConnectionPool
    kind = type(kind.__name__, (Watched, _Hurried, kind) if is_sync else (AsyncWatched, kind), {})
    finder = (SyncFinder if is_sync else AsyncFinder)(watch, pool.sentinel_manager)
    kwargs |= {"max_connections": pool.max_connections, "check_connection": pool.check_connection}
    return type(pool)(pool.service_name, finder, connection_class=kind, **kwargs)


_call = threading.local()


@contextlib.contextmanager
def hurried(until: float) -> Iterator[None]:
    """A connection that is made meanwhile, by this thread, is made by then, or not at all."""
    _call.until = until
    try:
        yield
    finally:
        _call.until = None


def _left() -> float | None:
    until = getattr(_call, "until", None)
    return None if until is None else max(0.05, until - time.monotonic())


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


def connect(url: str, timeout: float, *, use_asyncio: bool) -> Any:
    """A client for redis://, unix://, redis+sentinel:// or redis+cluster://; by TLS for rediss in place of redis."""
    if not isinstance(url, str):
        raise InvalidArgument("url", "must be text")
    scheme, _, rest = url.partition("://")
    retry = (AsyncRetry if use_asyncio else Retry)(NoBackoff(), 0)
    options: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": retry}
    try:
        secure = tls.in_url(url)
        if scheme in ("redis", "rediss", "unix"):
            _said(url)
            client: Any = (redis.asyncio.Redis if use_asyncio else redis.Redis).from_url(url, **options)
            return _with_options_that_exist(client)
        if scheme in ("redis+cluster", "rediss+cluster"):
            url = f"{scheme.partition('+')[0]}://{rest}"
            said = _said(url)
            names = {name for name in said if not name.startswith("ssl_")}  # tls.py has looked at those
            if "host" not in said or said["db"] or names - inspect.signature(AsyncRedisCluster).parameters.keys():
                raise ValueError("host, database, options: redis-py would take what is left")
            cluster = AsyncRedisCluster if use_asyncio else RedisCluster
            return cluster.from_url(url, **options)
        if scheme in ("redis+sentinel", "rediss+sentinel"):
            return _sentinel(url, options, secure, use_asyncio)
    except InvalidArgument:
        raise
    except (ValueError, TypeError):
        raise InvalidArgument("url", "cannot be read: check host, port and options") from None
    except (RedisError, RedisClusterException, OSError) as error:
        raise meaning(error, _without_secrets(url), tls=tls.speaks_tls(url)) from error
    raise InvalidArgument("url", "must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")


def _said(url: str) -> dict[str, Any]:
    """What a URL says, but for TLS. redis-py passes over a database that is no number, and takes a protocol that there
    is not for an outage."""
    said: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    said.pop("connection_class", None)
    if not url.startswith("unix"):
        said.setdefault("db", 0)
        if min(said["db"], int(unquote(urlsplit(url).path).strip("/") or 0)) < 0:
            raise ValueError("db")
    if str(said.get("protocol", 3)) not in ("2", "3"):
        raise ValueError("protocol")
    return said


def _with_options_that_exist(client: Any) -> Any:
    """Said here, not at first use."""
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)
    return client


def _sentinel(url: str, options: dict[str, Any], secure: dict[str, Any], use_asyncio: bool) -> Any:
    """redis+sentinel://user:password@h1:26379,h2:26379/name/db. With rediss all speak TLS, the sentinels too."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    credentials, _, hosts = authority.rpartition("@")
    path, _, query = path.partition("?")
    name, _, db = path.partition("/")
    if not name or not all(hosts.split(",")):
        raise ValueError("hosts and name")
    parts = [urlsplit(f"//{host}") for host in hosts.split(",")]
    addresses = [(part.hostname or "localhost", part.port or 26379) for part in parts]
    user, _, password = credentials.partition(":")
    said = _said(f"redis:///{db}?{query}")
    sentinel_options = dict(options)
    if "sentinel_password" in said:
        sentinel_options["password"] = said.pop("sentinel_password")
    options |= {option: value for option, value in said.items() if option not in secure}
    if "ssl" in options:
        raise ValueError("rediss says it")
    if password:
        options["password"] = unquote(password)
    if user:
        options["username"] = unquote(user)
    if scheme.startswith("rediss"):
        secure = {"ssl": True, **secure}
    made: Any = (AsyncSentinel if use_asyncio else Sentinel)(addresses, sentinel_kwargs=sentinel_options | secure)
    return _with_options_that_exist(made.master_for(name, **options, **secure))


def closers(client: Any) -> list[Any]:
    """What closes the connections of a client that ``connect`` made; a Sentinel's finder has connections of its own."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    clients = [client, *(manager.sentinels if manager is not None else ())]
    return [getattr(one, "aclose", None) or one.close for one in clients]


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Spare:
    """Connections between two calls. redis-py's pool is asked only for more: its bookkeeping costs a script's time."""

    __slots__ = ("_free", "_pid")

    def __init__(self) -> None:
        self._free: dict[Any, list[tuple[Any, float]]] = {}
        self._pid = os.getpid()

    def take(self, pool: Any) -> tuple[Any, bool]:
        """A connection or None, and whether it has been idle for so long that it may have been closed."""
        if self._pid != os.getpid():  # a forked child must not speak on its parent's sockets
            self._free, self._pid = {}, os.getpid()
        try:
            connection, used = self._free[pool].pop()
        except (KeyError, IndexError):
            return None, False
        return connection, time.monotonic() - used > 0.5

    def keep(self, pool: Any, connection: Any) -> bool:
        """Only a plain pool's: a Sentinel's must look for the master again."""
        if type(pool) not in _PLAIN_POOLS or self._pid != os.getpid():
            return False
        self._free.setdefault(pool, []).append((connection, time.monotonic()))
        return True

    def clear(self) -> None:
        """Give all back: the nodes may not be the same any more."""
        free, self._free = self._free, {}  # first out of reach: a connection must never have two owners
        for pool, connections in list(free.items()):
            with contextlib.suppress(IndexError):
                while True:
                    pool.release(connections.pop()[0])
