"""Whether the servers still take new connections. Those that are open stay in use after a change of the password, so
that only the next one shows that it is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster
from redis.exceptions import NoPermissionError, RedisError

from presence_core.transport.connections import server_name
from presence_core.transport.errors import explained, text_of


def refused_connections(client: Any, timeout: float) -> list[str]:
    """Open and close a connection to each server that takes writes: a sentence for each that refuses it."""
    return [reason for name, make in _makers(client, timeout) if (reason := _try(name, make))]


async def refused_connections_async(client: Any, timeout: float) -> list[str]:
    return [reason for name, make in _makers(client, timeout) if (reason := await _try_async(name, make))]


def _makers(client: Any, timeout: float) -> Iterator[tuple[str, Any]]:
    """A name for each server, and a function that makes a connection to it, with all that the client's own have."""
    limits = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    if isinstance(client, AsyncRedisCluster):
        for node in client.get_primaries():
            options: dict[str, Any] = {**node.connection_kwargs, **limits}
            yield node.name, lambda kind=node.connection_class, options=options: kind(**options)
        return
    pools: Iterable[tuple[str, Any]] = [("", getattr(client, "connection_pool", None))]
    if isinstance(client, RedisCluster):
        nodes = client.get_primaries()  # type: ignore[no-untyped-call]
        pools = [(node.name, client.get_redis_connection(node).connection_pool) for node in nodes]
    for name, pool in pools:
        options = {**pool.connection_kwargs, **limits}
        yield name or server_name(client), lambda pool=pool, options=options: pool.connection_class(**options)


def _try(name: str, make: Any) -> str:
    connection = None
    try:
        connection = _unnamed(make())
        connection.connect()
        connection.send_command("PING")
        connection.read_response()
    except (RedisError, OSError) as error:
        return _reason(name, error)
    finally:
        if connection is not None:
            connection.disconnect()
    return ""


async def _try_async(name: str, make: Any) -> str:
    connection = None
    try:
        connection = _unnamed(make())
        await connection.connect()
        await connection.send_command("PING")
        await connection.read_response()
    except (RedisError, OSError) as error:
        return _reason(name, error)
    finally:
        if connection is not None:
            await connection.disconnect()
    return ""


def _unnamed(connection: Any) -> Any:
    """Without CLIENT SETINFO: not every ACL user may run it, and each refusal is a line in the server's log."""
    for name in ("driver_info", "lib_name", "lib_version"):
        with contextlib.suppress(AttributeError):
            setattr(connection, name, None)
    return connection


def _reason(name: str, error: RedisError | OSError) -> str:
    """The failure as a sentence; "" for a user who may not run PING: they have been let in."""
    if isinstance(error, NoPermissionError):
        return ""
    if "max number of clients" in text_of(error):
        return f"{name} has as many connections as it allows (maxclients)."
    return str(explained(error, name.removeprefix("Redis at ")))
