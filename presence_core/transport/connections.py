"""Clients and connections: by URL, or to the server of a client that a caller owns."""

from __future__ import annotations

import contextlib
import inspect
import os
import time
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
from presence_core.transport import pools, tls
from presence_core.transport.meaning import meaning
from presence_core.transport.pools import Pool
from presence_core.transport.sentinel_watch import AsyncFinder, AsyncWatched, watch_of

_PLAIN_POOLS: Final = (Pool, redis.ConnectionPool, redis.asyncio.ConnectionPool)
_POOL_PRIVATE: Final = ("maint_notifications", "orig_", "himport", "retry", "connection_pool")


def own_pool(client: Any, timeout: float) -> Any:
    """Connections of our own to the caller's server: its address and credentials, our time limits and no blind retries.

    redis-py's defaults try a write ten times and may hold a caller for a minute.
    """
    pool = client.connection_pool
    is_watched = type(pool) in (SentinelConnectionPool, AsyncSentinelPool) and pool.is_master
    is_watched = is_watched and type(pool.sentinel_manager) in (Sentinel, AsyncSentinel)
    if type(pool) is redis.ConnectionPool or (is_watched and type(pool) is SentinelConnectionPool):
        return pools.own_pool(pool, timeout)
    if type(pool) is not redis.asyncio.ConnectionPool and not is_watched:
        return pool  # one with rules of the caller's own
    kwargs = {key: value for key, value in pool.connection_kwargs.items() if not key.startswith(_POOL_PRIVATE)}
    kwargs |= {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": AsyncRetry(NoBackoff(), 0)}
    kind, kwargs["max_connections"] = pool.connection_class, pool.max_connections
    if not is_watched:
        return type(pool)(connection_class=kind, **kwargs)
    finder = AsyncFinder(watch_of(pool.service_name, pool.sentinel_manager), pool.sentinel_manager)
    kwargs |= {"connection_class": type(kind.__name__, (AsyncWatched, kind), {})}
    return type(pool)(pool.service_name, finder, check_connection=pool.check_connection, **kwargs)


def check_client(client: object, *, use_asyncio: bool) -> None:
    """Refuse what is no client of this kind. Not repeated: a URL may hold a password."""
    plain, asynchronous = (redis.Redis, RedisCluster), (redis.asyncio.Redis, AsyncRedisCluster)
    if isinstance(client, asynchronous if use_asyncio else plain):
        return
    ours = "AsyncPresence" if use_asyncio else "Presence"
    wanted = "redis.asyncio.Redis or redis.asyncio.RedisCluster" if use_asyncio else "redis.Redis or redis.RedisCluster"
    why = f"must be a {wanted}"
    if isinstance(client, str):
        why += f", not text: for a URL call {ours}.from_url"
    elif isinstance(client, plain if use_asyncio else asynchronous):
        why += f": this one is for {'Presence' if use_asyncio else 'AsyncPresence'}"
    elif isinstance(client, Sentinel | AsyncSentinel):
        why += ", not a Sentinel: pass what its master_for(name) returns"
    raise InvalidArgument("client", why)


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
