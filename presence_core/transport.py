"""The only module that imports redis: it carries an operation's calls to the servers and their replies back.

Sync and async share one flow: ``_exchange`` is a generator that decides what is sent where, what may be sent again, and
what each failure means; two small drivers do what it asks. What may be sent again: a call that was never written to a
socket; a call that Redis answered without running it (MOVED, TRYAGAIN, LOADING, …); a ``safe`` call. A write whose
reply was lost is none of these and ends as OutcomeUnknown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import redis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    RedisClusterException,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
)
from redis.retry import Retry
from redis.sentinel import Sentinel

from presence_core.errors import CorruptData, InvalidArgument, OutcomeUnknown, PresenceError, Unavailable
from presence_core.scripts import Call, Op

T = TypeVar("T")

_PAUSES: Final = (0.02, 0.05, 0.1, 0.2)  # seconds between tries; the call's own time limit ends them
_NOT_RUN: Final = ("TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY")
_LOST: Final = (redis.ConnectionError, redis.TimeoutError, OSError, asyncio.TimeoutError)


@dataclass(slots=True)
class _Failed:
    """A node did not answer. ``sent``: the calls were written, so they may have run."""

    error: BaseException
    sent: bool


@dataclass(slots=True)
class _Send:
    """Ask each node its commands; answers, in the same order, a list of replies or a _Failed."""

    groups: list[tuple[Any, list[Sequence[str | bytes | int]]]]
    until: float


@dataclass(slots=True)
class _Pause:
    """Wait, then learn the cluster's layout anew if ``refresh``."""

    seconds: float
    refresh: bool


_Flow = Generator[_Send | _Pause, Any, list[Any]]


class _Router(Protocol):
    """Where calls go. A node is whatever the driver takes connections from."""

    many: bool

    def node(self, key: str) -> Any: ...
    def node_at(self, host: str, port: int) -> Any: ...
    def name(self, node: Any) -> str: ...


def _address(kwargs: dict[str, Any]) -> str:
    if "path" in kwargs:
        return str(kwargs["path"])
    return f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}"


class _One:
    """A single Redis, or a Sentinel's master: one pool."""

    many = False

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def node(self, key: str) -> Any:
        return self._pool

    def node_at(self, host: str, port: int) -> Any:
        return self._pool

    def name(self, node: Any) -> str:
        manager = getattr(node, "sentinel_manager", None)
        if manager is not None:
            hosts = ", ".join(_address(s.connection_pool.connection_kwargs) for s in manager.sentinels)
            return f"{node.service_name} by Sentinel {hosts}"
        return _address(node.connection_kwargs)


class _Many:
    """A cluster: the node that serves the slot of the key's tag."""

    many = True

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._slots: dict[str, int] = {}

    def node(self, key: str) -> Any:
        tag = key[: key.index("}") + 1]
        slot = self._slots.get(tag)
        if slot is None:
            slot = self._slots[tag] = key_slot(tag.encode())
        return self._cluster.nodes_manager.get_node_from_slot(slot)

    def node_at(self, host: str, port: int) -> Any:
        return self._cluster.nodes_manager.get_node(host=host, port=port)

    def name(self, node: Any) -> str:
        return f"{node.host}:{node.port}"


# -- one flow for both worlds -----------------------------------------------------------------------------------------


def _exchange(router: _Router, calls: list[Call], timeout: float) -> _Flow:
    """Send a batch; answer its replies, in order; raise what the first failed call means."""
    until = time.monotonic() + timeout
    replies: list[Any] = [None] * len(calls)
    pending = list(range(len(calls)))
    tries = 0
    while True:
        error: BaseException | None = None
        where = ""
        again: list[int] = []
        refresh = False
        try:
            groups = _by_node(router, calls, pending)
        except (SlotNotCoveredError, RedisClusterException) as uncovered:
            groups, error, again, refresh = [], uncovered, pending, True
        answers = yield _Send([(node, [calls[i].wire for i in places]) for node, places in groups], until)
        for (node, places), answer in zip(groups, answers, strict=True):
            if isinstance(answer, _Failed):
                error, where, refresh = answer.error, router.name(node), True
                if answer.sent and not all(calls[i].safe for i in places):
                    raise OutcomeUnknown(
                        f"Redis at {where} did not answer a change in time; it may have happened: "
                        f"look, or call again ({_plain(answer.error)}).",
                        where,
                    ) from answer.error
                if isinstance(answer.error, AuthenticationError):
                    raise _meaning(answer.error, where) from answer.error
                again += places
                continue
            moved: list[int] = []
            for i, reply in zip(places, answer, strict=True):
                replies[i] = reply
                if isinstance(reply, Exception):
                    moved.append(i)
            if moved:
                settled = yield from _settle(router, node, calls, moved, replies, until)
                if settled is not None:
                    error, where, refresh = settled, router.name(node), True
                    again += [i for i in moved if isinstance(replies[i], Exception)]
        if not again:
            return replies
        assert error is not None
        if time.monotonic() >= until or (tries >= len(_PAUSES) and not router.many):
            raise _meaning(error, where) from error
        yield _Pause(min(_PAUSES[min(tries, len(_PAUSES) - 1)], max(0.0, until - time.monotonic())), refresh)
        pending, tries = again, tries + 1


def _by_node(router: _Router, calls: list[Call], places: list[int]) -> list[tuple[Any, list[int]]]:
    if not router.many:
        return [(router.node(""), places)]
    groups: dict[Any, list[int]] = {}
    for i in places:
        groups.setdefault(router.node(calls[i].key), []).append(i)
    return list(groups.items())


def _settle(
    router: _Router, node: Any, calls: list[Call], failed: list[int], replies: list[Any], until: float
) -> Generator[_Send | _Pause, Any, BaseException | None]:
    """Deal with error replies. Answers the error for which it is worth trying again, or None when all are settled."""
    unknown = [i for i in failed if isinstance(replies[i], NoScriptError)]
    if unknown:
        scripts = {call.script.sha: call.script for i in unknown if (call := calls[i]).script is not None}
        loads: list[Sequence[str | bytes | int]] = [("SCRIPT", "LOAD", script.text) for script in scripts.values()]
        [answer] = yield _Send([(node, loads + [calls[i].wire for i in unknown])], until)
        if isinstance(answer, _Failed):
            if answer.sent and not all(calls[i].safe for i in unknown):
                raise OutcomeUnknown(f"Redis at {router.name(node)} did not answer a change in time; look again.")
            return answer.error
        for i, reply in zip(unknown, answer[len(loads) :], strict=True):
            replies[i] = reply
        for reply in answer[: len(loads)]:
            if isinstance(reply, Exception):
                raise _meaning(reply, router.name(node)) from reply
    for i in failed:
        if isinstance(reply := replies[i], AskError):
            target = router.node_at(reply.host, reply.port)
            [answer] = yield _Send([(target, [("ASKING",), calls[i].wire])], until)
            replies[i] = answer.error if isinstance(answer, _Failed) else answer[1]
    for i in failed:
        reply = replies[i]
        if not isinstance(reply, Exception):
            continue
        if isinstance(reply, MovedError) or _code(reply) in _NOT_RUN:
            return reply
        if isinstance(reply, _LOST) and calls[i].safe:
            return reply
        raise _meaning(reply, router.name(node)) from reply
    return None


def _code(error: BaseException) -> str:
    """The error's first word: redis-py strips some codes and turns them into classes."""
    name = type(error).__name__
    by_class = {"BusyLoadingError": "LOADING", "ReadOnlyError": "READONLY", "TryAgainError": "TRYAGAIN",
                "ClusterDownError": "CLUSTERDOWN", "MasterDownError": "MASTERDOWN"}  # fmt: skip
    return by_class.get(name) or str(error).partition(" ")[0]


def _plain(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


def _meaning(error: BaseException, where: str) -> PresenceError:
    """What a failure says to our caller. Redis's own sentence is passed on: it names no secret."""
    if isinstance(error, PresenceError):
        return error
    code, at = _code(error), f"Redis at {where}" if where else "Redis"
    said = _plain(error)
    if code == "WRONGTYPE" or "WRONGTYPE" in said:
        return CorruptData(f"{at}: {said.replace('WRONGTYPE ', '')}. Another program shares this namespace.")
    if isinstance(error, AuthenticationError) or code in ("NOAUTH", "WRONGPASS"):
        return Unavailable(f"{at} refused the user name or password.", where)
    if isinstance(error, NoPermissionError) or code == "NOPERM":
        return Unavailable(
            f"{at} does not permit this: {said}. Give the ACL user what docs/architecture.md lists.", where
        )
    if isinstance(error, redis.OutOfMemoryError) or code == "OOM":
        return Unavailable(f"{at} is out of memory: logins wait until maxmemory is raised or sessions end.", where)
    explained = {
        "LOADING": "is still loading its data",
        "READONLY": "is a replica and takes no writes",
        "BUSY": "is busy with another program's script",
        "CLUSTERDOWN": "is part of a cluster that is down",
        "MASTERDOWN": "has lost its master",
        "TRYAGAIN": "is moving this slot to another node",
    }.get(code)
    if explained:
        return Unavailable(f"{at} {explained}; try again.", where)
    if isinstance(error, ResponseError):
        return CorruptData(f"{at} could not run a script: {said}.")
    return Unavailable(f"{at} cannot be reached ({said}).", where)


# -- drivers ----------------------------------------------------------------------------------------------------------


class SyncTransport:
    """Runs operations over a redis.Redis or redis.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        self.is_cluster = isinstance(client, RedisCluster)
        self._client = client
        self._timeout = timeout
        self._router: _Router = _Many(client) if self.is_cluster else _One(_own_pool(client, timeout, Retry))

    def run(self, op: Op[T]) -> T:
        """Drive an operation to its answer."""
        try:
            calls = next(op)
            while True:
                try:
                    replies = self._drive(_exchange(self._router, calls, self._timeout))
                except PresenceError as error:
                    calls = op.throw(error)
                else:
                    calls = op.send(replies)
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    def _drive(self, flow: _Flow) -> list[Any]:
        try:
            step = next(flow)
            while True:
                step = flow.send(self._send(step) if isinstance(step, _Send) else self._pause(step))
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    def _pause(self, step: _Pause) -> Any:
        time.sleep(step.seconds)
        if step.refresh and self.is_cluster:
            try:
                self._client.nodes_manager.initialize()
            except (RedisError, OSError):
                pass  # the next try says what is wrong

    def _pool(self, node: Any) -> Any:
        return self._client.get_redis_connection(node).connection_pool if self.is_cluster else node

    def _send(self, step: _Send) -> list[Any]:
        # Every node is written to before any is read: they work at the same time.
        open_: list[Any] = []
        try:
            for node, commands in step.groups:
                open_.append(self._write(node, commands))
            return [
                self._read(at, len(commands), step.until) for at, (_, commands) in zip(open_, step.groups, strict=True)
            ]
        except BaseException:
            for at in open_:  # an interrupt: what has not been read must not be read by the next user
                if not isinstance(at, _Failed):
                    at[1].disconnect()
            raise
        finally:
            for at in open_:
                if not isinstance(at, _Failed):
                    at[0].release(at[1])

    def _write(self, node: Any, commands: list[Any]) -> Any:
        sent = False
        pool = connection = None
        try:
            pool = self._pool(node)
            connection = pool.get_connection()
            packed = connection.pack_command(*commands[0]) if len(commands) == 1 else connection.pack_commands(commands)
            sent = True
            connection.send_packed_command(packed)
        except (*_LOST, RedisError) as error:
            if pool is not None and connection is not None:
                connection.disconnect()
                pool.release(connection)
            return _Failed(error, sent)
        return pool, connection

    def _read(self, at: Any, count: int, until: float) -> Any:
        if isinstance(at, _Failed):
            return at
        connection = at[1]
        replies: list[Any] = []
        try:
            for _ in range(count):
                try:
                    left = max(0.05, until - time.monotonic())
                    replies.append(connection.read_response(disable_decoding=True, timeout=left))
                except ResponseError as error:
                    replies.append(error)
        except _LOST as error:
            connection.disconnect()
            return _Failed(error, sent=_code(error) not in _NOT_RUN)  # redis-py makes a ConnectionError of LOADING
        return replies

    def close(self) -> None:
        """Close the connections that are our own."""
        if not self.is_cluster:
            self._router.node("").disconnect()


class AsyncTransport:
    """Runs operations over a redis.asyncio.Redis or redis.asyncio.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        self.is_cluster = isinstance(client, AsyncRedisCluster)
        self._client = client
        self._timeout = timeout
        self._ready = not self.is_cluster
        self._router: _Router = _Many(client) if self.is_cluster else _One(_own_pool(client, timeout, AsyncRetry))

    async def run(self, op: Op[T]) -> T:
        """Drive an operation to its answer."""
        try:
            calls = next(op)
            while True:
                try:
                    replies = await self._drive(_exchange(self._router, calls, self._timeout))
                except PresenceError as error:
                    calls = op.throw(error)
                else:
                    calls = op.send(replies)
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    async def _drive(self, flow: _Flow) -> list[Any]:
        if not self._ready:
            try:
                await asyncio.wait_for(self._client.initialize(), self._timeout)
            except (TimeoutError, RedisError, OSError) as error:
                raise _meaning(error, "the cluster") from error
            self._ready = True
        try:
            step = next(flow)
            while True:
                step = flow.send(await (self._send(step) if isinstance(step, _Send) else self._pause(step)))
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    async def _pause(self, step: _Pause) -> Any:
        await asyncio.sleep(step.seconds)
        if step.refresh and self.is_cluster:
            try:
                await self._client.nodes_manager.initialize()
            except (RedisError, OSError):
                pass  # the next try says what is wrong

    async def _send(self, step: _Send) -> list[Any]:
        if len(step.groups) == 1:
            return [await self._ask(*step.groups[0], step.until)]
        return await asyncio.gather(*(self._ask(node, commands, step.until) for node, commands in step.groups))

    async def _ask(self, node: Any, commands: list[Any], until: float) -> Any:
        sent = False
        connection = None
        replies: list[Any] = []
        try:
            async with asyncio.timeout(max(0.05, until - time.monotonic())):
                if self.is_cluster:
                    connection = node.acquire_connection()
                    await connection.connect()
                else:
                    connection = await node.get_connection()
                sent = True
                await connection.send_packed_command(connection.pack_commands(commands))
                for _ in commands:
                    try:
                        replies.append(await connection.read_response(disable_decoding=True))
                    except ResponseError as error:
                        replies.append(error)
            return replies
        except (*_LOST, RedisError) as error:
            if connection is not None:
                await connection.disconnect(nowait=True)
            return _Failed(error, sent=sent and _code(error) not in _NOT_RUN)
        except BaseException:  # cancelled: what has not been read must not be read by the next user
            if connection is not None:
                await connection.disconnect(nowait=True)
            raise
        finally:
            if connection is not None:
                if self.is_cluster:
                    node.release(connection)
                else:
                    await node.release(connection)

    async def close(self) -> None:
        """Close the connections that are our own."""
        if not self.is_cluster:
            await self._router.node("").disconnect()


# -- clients ----------------------------------------------------------------------------------------------------------

_POOL_PRIVATE: Final = ("maint_notifications", "orig_", "himport", "retry")


def _own_pool(client: Any, timeout: float, retry: Any) -> Any:
    """Connections of our own to the caller's server: its address and credentials, our time limits and no blind retries.

    redis-py's defaults try a write ten times and may hold a caller for a minute.
    """
    pool = client.connection_pool
    if type(pool) not in (redis.ConnectionPool, redis.asyncio.ConnectionPool):
        return pool  # a Sentinel's, or one with rules of the caller's own
    kwargs = {key: value for key, value in pool.connection_kwargs.items() if not key.startswith(_POOL_PRIVATE)}
    kwargs |= {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": retry(NoBackoff(), 0)}
    return type(pool)(connection_class=pool.connection_class, max_connections=pool.max_connections, **kwargs)


def connect(url: str, timeout: float, *, use_asyncio: bool) -> Any:
    """A client for redis://, rediss://, unix://, redis+sentinel:// (also rediss+sentinel) or redis+cluster://."""
    if not isinstance(url, str):
        raise InvalidArgument("url", "must be text")
    scheme, _, rest = url.partition("://")
    retry = (AsyncRetry if use_asyncio else Retry)(NoBackoff(), 0)
    options: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "retry": retry}
    try:
        if scheme in ("redis", "rediss", "unix"):
            return (redis.asyncio.Redis if use_asyncio else redis.Redis).from_url(url, **options)
        if scheme in ("redis+cluster", "rediss+cluster"):
            plain = f"{scheme.partition('+')[0]}://{rest}"
            cluster = AsyncRedisCluster if use_asyncio else RedisCluster
            return cluster.from_url(plain, **options)
        if scheme in ("redis+sentinel", "rediss+sentinel"):
            return _sentinel(url, options, use_asyncio)
    except (ValueError, TypeError):
        raise InvalidArgument("url", "cannot be read: check host, port and options") from None
    except (RedisError, OSError) as error:
        raise Unavailable(f"Redis at {_without_secrets(url)} cannot be reached ({_plain(error)}).") from error
    raise InvalidArgument("url", "must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")


def _sentinel(url: str, options: dict[str, Any], use_asyncio: bool) -> Any:
    """redis+sentinel://user:password@h1:26379,h2:26379/name/db"""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    credentials, _, hosts = authority.rpartition("@")
    name, _, db = path.partition("?")[0].partition("/")
    if not hosts or not name:
        raise ValueError("hosts and name")
    pairs = (host.rpartition(":") if ":" in host else (host, "", "") for host in hosts.split(","))
    addresses = [(host or "localhost", int(port or 26379)) for host, _, port in pairs]
    user, _, password = credentials.partition(":")
    options = dict(options)
    if password:
        options["password"] = unquote(password)
    if user:
        options["username"] = unquote(user)
    if scheme.startswith("rediss"):
        options["ssl"] = True
    query = parse_qs(urlsplit(url.replace("+sentinel", "", 1)).query)
    sentinel_options = {"socket_timeout": options["socket_timeout"], "retry": options["retry"]}
    if "sentinel_password" in query:
        sentinel_options["password"] = query["sentinel_password"][0]
    made = (AsyncSentinel if use_asyncio else Sentinel)(addresses, sentinel_kwargs=sentinel_options)
    return made.master_for(name, db=int(db or 0), **options)


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
