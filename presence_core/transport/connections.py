"""Clients by URL, and our own connections to the server of a client that the caller owns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import redis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelPool
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import parse_url
from redis.exceptions import RedisClusterException, RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from presence_core.errors import InvalidArgument
from presence_core.transport import tls
from presence_core.transport.errors import explained
from presence_core.transport.pools import NoPool, like_pool, options_for
from presence_core.transport.sentinel_watch import AsyncFinder, AsyncWatched, watch_of

_OWN_KINDS: Final = (redis.asyncio.ConnectionPool, redis.asyncio.BlockingConnectionPool)


def own_pool(client: Any, timeout: float) -> Any:
    """A pool of our own to the caller's server: same address and credentials, our time limits and no blind retries.

    By default redis-py may send a write ten times and hold the caller for a minute.
    """
    pool = client.connection_pool
    is_watched = type(pool) in (SentinelConnectionPool, AsyncSentinelPool) and pool.is_master
    is_watched = is_watched and type(pool.sentinel_manager) in (Sentinel, AsyncSentinel)
    if type(pool) in (redis.ConnectionPool, redis.BlockingConnectionPool):
        return like_pool(pool, timeout)
    if is_watched and type(pool) is SentinelConnectionPool:
        return like_pool(pool, timeout)
    if type(pool) not in _OWN_KINDS and not is_watched:
        return pool  # a class of the caller's, with rules of its own
    kwargs = {key: value for key, value in pool.connection_kwargs.items() if key != "connection_pool"}
    kwargs["max_connections"] = pool.max_connections
    kind = pool.connection_class
    if not is_watched:
        return redis.asyncio.ConnectionPool(connection_class=kind, **kwargs)
    finder = AsyncFinder(watch_of(pool.service_name, pool.sentinel_manager), pool.sentinel_manager)
    kwargs |= {"connection_class": type(kind.__name__, (AsyncWatched, kind), {})}
    return type(pool)(pool.service_name, finder, check_connection=pool.check_connection, **kwargs)


async def open_connection(kind: Any, options: dict[str, Any], timeout: float) -> Any:
    """An open asyncio connection of this class, with our time limits, no blind retries, and no notifications."""
    options = options_for(options) | {
        "socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": AsyncRetry(NoBackoff(), 0),
    }  # fmt: skip
    connection = kind(**options)
    try:
        await connection.connect()
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection


def check_client(client: object, *, use_asyncio: bool) -> None:
    """Raise InvalidArgument if this is not a client of this kind, without repeating it: a URL may hold a password."""
    plain, asynchronous = (redis.Redis, RedisCluster), (redis.asyncio.Redis, AsyncRedisCluster)
    if isinstance(client, asynchronous if use_asyncio else plain):
        return
    ours = "AsyncPresence" if use_asyncio else "Presence"
    wanted = "redis.asyncio.Redis or redis.asyncio.RedisCluster" if use_asyncio else "redis.Redis or redis.RedisCluster"
    rule = f"must be a {wanted}"
    if isinstance(client, str):
        rule += f", not text: for a URL call {ours}.from_url"
    elif isinstance(client, plain if use_asyncio else asynchronous):
        rule += f": this one is for {'Presence' if use_asyncio else 'AsyncPresence'}"
    elif isinstance(client, Sentinel | AsyncSentinel):
        rule += ", not a Sentinel: pass what its master_for(name) returns"
    raise InvalidArgument("client", rule)


def connect(url: str, timeout: float, *, use_asyncio: bool) -> Any:
    """A client for redis://, unix://, redis+sentinel:// or redis+cluster://; with TLS for rediss in place of redis."""
    if not isinstance(url, str):
        raise InvalidArgument("url", "must be text", "wrong_type")
    scheme, _, rest = url.partition("://")
    make = _MAKERS.get(scheme)
    if make is None:
        raise InvalidArgument("url", f"must begin with {', '.join(_KNOWN[:-1])} or {_KNOWN[-1]}")
    if _has_raw_sign(scheme, rest):
        raise InvalidArgument("url", f"cannot be read: {_ENCODE}", "malformed")
    retry = (AsyncRetry if use_asyncio else Retry)(NoBackoff(), 0)
    options: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": retry}
    try:
        return make(url, options, tls.in_url(url), use_asyncio)
    except InvalidArgument:
        raise
    except (ValueError, TypeError):
        hint = f"; {_ENCODE}" if "@" in rest else ""
        raise InvalidArgument("url", f"cannot be read: check host, port and options{hint}") from None
    except (RedisError, RedisClusterException, OSError) as error:
        raise explained(error, ", ".join(_split(rest)[1]), tls=tls.speaks_tls(url)) from error


_ENCODE: Final = "in user name, password and path, write / as %2F, # as %23, ? as %3F, @ as %40 and % as %25"


def _has_raw_sign(scheme: str, rest: str) -> bool:
    """Whether a "/", "?" or "#" of a password seems to end the host: redis-py would go to another host, or leave out a
    part of the password."""
    before_query, _, query = rest.partition("?")
    authority, _, path = before_query.partition("/")
    if "#" in rest or any("@" in option.partition("=")[0] for option in query.split("&")):
        return True
    return "@" in path and (scheme != "unix" or (authority != "" and "@" not in authority))


def _split(rest: str) -> tuple[str, list[str], str]:
    """A URL behind "://": user name, password and "@", if it has any; the hosts; what follows them."""
    size = min(len(rest.partition(sign)[0]) for sign in "/?")
    credentials, at, hosts = rest[:size].rpartition("@")
    return credentials + at, hosts.split(","), rest[size:]


def connect_without_pool(url: str, timeout: float) -> Any:
    """An asyncio client that keeps no connection between two calls, where the URL names a single server."""
    client = connect(url, timeout, use_asyncio=True)
    if not isinstance(client, redis.asyncio.Redis):
        return client
    pool = client.connection_pool
    options = options_for(pool.connection_kwargs) | {"retry": AsyncRetry(NoBackoff(), 0)}
    return redis.asyncio.Redis(connection_pool=NoPool(connection_class=pool.connection_class, **options))


def _options_in(url: str) -> dict[str, Any]:
    """The options in a URL. Raises ValueError where redis-py would not: for a database that is no number, and for an
    unknown protocol, which would look like an outage."""
    given: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]
    given.pop("connection_class", None)
    if not url.startswith("unix"):
        given.setdefault("db", 0)
        if min(given["db"], int(unquote(urlsplit(url).path).strip("/") or 0)) < 0:
            raise ValueError("db")
    if str(given.get("protocol", 3)) not in ("2", "3"):
        raise ValueError("protocol")
    return given


def _with_known_options(client: Any) -> Any:
    """Raise TypeError for an unknown option here, not at the first call."""
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)
    return client


def _server(url: str, options: dict[str, Any], secure: dict[str, Any], use_asyncio: bool) -> Any:
    """redis://user:password@host:6379/db, or unix://user:password@/path?db=."""
    scheme, _, rest = url.partition("://")
    if scheme != "unix" and len(_split(rest)[1]) > 1:
        several = " or ".join(f"{scheme}+{kind}://" for kind in ("cluster", "sentinel"))
        raise InvalidArgument("url", f"must begin with {several} to name several hosts", "malformed")
    _options_in(url)
    client = (redis.asyncio.Redis if use_asyncio else redis.Redis).from_url(url, **options, **_host_check(secure))
    return _with_known_options(client)


def _cluster(url: str, options: dict[str, Any], secure: dict[str, Any], use_asyncio: bool) -> Any:
    """redis+cluster://user:password@h1:6379,h2,[::1]:7001. The layout comes from a node that answers: each may take its
    part of the time limit."""
    scheme, _, rest = url.partition("://")
    credentials, hosts, tail = _split(rest)
    urls = [f"{scheme.partition('+')[0]}://{credentials}{host}{tail}" for host in hosts]
    nodes = []
    for each in urls:
        given = _options_in(each)
        names = {name for name in given if not name.startswith("ssl_")}  # tls.py has checked those
        if "host" not in given or given["db"] or names - inspect.signature(AsyncRedisCluster).parameters.keys():
            raise ValueError("host, database or options: redis-py would ignore them")
        nodes.append(ClusterNode(given["host"], given.get("port", 6379)))  # type: ignore[no-untyped-call]
    options |= {name: options[name] / len(hosts) for name in ("socket_timeout", "socket_connect_timeout")}
    kind = AsyncRedisCluster if use_asyncio else RedisCluster
    return kind.from_url(urls[0], startup_nodes=nodes[1:], **options, **_host_check(secure))


def _host_check(secure: dict[str, Any]) -> dict[str, Any]:
    """Of the ssl options, the one that redis-py does not read from a URL as we do."""
    return {name: value for name, value in secure.items() if name == "ssl_check_hostname"}


def _sentinel(url: str, options: dict[str, Any], secure: dict[str, Any], use_asyncio: bool) -> Any:
    """redis+sentinel://user:password@h1:26379,h2:26379/name/db. With rediss all use TLS, the Sentinels too."""
    scheme, _, rest = url.partition("://")
    credentials, hosts, tail = _split(rest)
    path, _, query = tail.removeprefix("/").partition("?")
    name, _, db = path.partition("/")
    if not name or not all(hosts):
        raise ValueError("hosts and name")
    parts = [urlsplit(f"//{host}") for host in hosts]
    addresses = [(part.hostname or "localhost", part.port or 26379) for part in parts]
    user, _, password = credentials.removesuffix("@").partition(":")
    given = _options_in(f"redis:///{db}?{query}")
    sentinel_options = dict(options)
    if "sentinel_password" in given:
        sentinel_options["password"] = given.pop("sentinel_password")
    options |= {option: value for option, value in given.items() if option not in secure}
    if "ssl" in options:
        raise ValueError("TLS is chosen by rediss")
    if password:
        options["password"] = unquote(password)
    if user:
        options["username"] = unquote(user)
    if scheme.startswith("rediss"):
        secure = {"ssl": True, **secure}
    made: Any = (AsyncSentinel if use_asyncio else Sentinel)(addresses, sentinel_kwargs=sentinel_options | secure)
    return _with_known_options(made.master_for(name, **options, **secure))


_MAKERS: Final[dict[str, Callable[[str, dict[str, Any], dict[str, Any], bool], Any]]] = {
    "redis": _server, "rediss": _server, "unix": _server, "redis+sentinel": _sentinel, "rediss+sentinel": _sentinel,
    "redis+cluster": _cluster, "rediss+cluster": _cluster,
}  # fmt: skip
"""What makes the client, by the scheme of the URL."""

_KNOWN: Final = tuple(f"{scheme}://" for scheme in _MAKERS if not scheme.startswith("rediss+"))


def closers(client: Any) -> list[Any]:
    """Functions that close the connections of a client that ``connect`` made, also those to Sentinels."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    clients = [client, *(manager.sentinels if manager is not None else ())]
    return [getattr(each, "aclose", None) or each.close for each in clients]


def server_name(client: Any) -> str:
    """The server that a client connects to, without credentials, as part of a sentence."""
    if isinstance(client, RedisCluster | AsyncRedisCluster):
        return f"the Redis Cluster of {min(client.nodes_manager.startup_nodes)}"
    pool = client.connection_pool
    options = pool.connection_kwargs
    database = f", database {options['db']}" if options.get("db") else ""
    if isinstance(pool, SentinelConnectionPool | AsyncSentinelPool):
        sentinels = (sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels)
        addresses = ", ".join(f"{each['host']}:{each['port']}" for each in sentinels)
        return f"Redis master {pool.service_name} of the Sentinels {addresses}{database}"
    return f"Redis at {options.get('path') or _address(options)}{database}"


def _address(options: dict[str, Any]) -> str:
    host = options.get("host", "localhost")
    return f"{f'[{host}]' if ':' in host else host}:{options.get('port', 6379)}"
