"""The two drivers: they carry an operation's calls to the servers and their replies back, blocking or awaited."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from hiredis import pack_command
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, RedisError, ResponseError

from presence_core.errors import PresenceError, Unavailable
from presence_core.forked import renew_in_child
from presence_core.models import SentinelHealth
from presence_core.scripts import Call, Op, as_text
from presence_core.transport.cluster_check import confirm, confirm_async, suspect
from presence_core.transport.exchange import (
    LOST,
    NOT_RUN,
    Failed,
    Flow,
    Many,
    One,
    Pause,
    Router,
    Send,
    exchange,
    server_of,
)
from presence_core.transport.links import Spare, check_client, own_pool
from presence_core.transport.meaning import code_of, meaning
from presence_core.transport.pools import Pool, connection_of, leave_behind, renew_client
from presence_core.transport.pools import own_pool as pool_like
from presence_core.transport.sentinel_watch import SentinelWatch

T = TypeVar("T")

_AWAY: Final = (RedisError, RedisClusterException, OSError)

PIECE: Final = 32_768
"""Bytes written to a socket at once."""


def _pack(calls: list[Call]) -> Iterator[bytes]:
    """Commands on the wire, in pieces: the server is at work on the first while the next are still being packed."""
    pieces: list[bytes] = []
    size = 0
    for call in calls:
        # Text only: hiredis 3.5 crashes the process where it packs a number while a signal handler raises.
        piece = pack_command(as_text(call.words))  # type: ignore[arg-type]  # the stub's tuple is of one element
        pieces.append(piece)
        size += len(piece)
        if size > PIECE:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


def _is_sentinels(pool: Any) -> bool:
    """Its connections ask for the master when they are made, and then stay where they are."""
    return hasattr(pool, "sentinel_manager")


def _watch_of(router: Router) -> SentinelWatch | None:
    """What follows the master, behind Sentinel."""
    manager = None if router.many else getattr(router.node(""), "sentinel_manager", None)
    return getattr(manager, "watch", None)


def _master_of(watch: SentinelWatch | None) -> object:
    return watch.master.address if watch is not None and watch.master is not None else None


class SyncTransport:
    """Runs operations over a redis.Redis or redis.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        check_client(client, use_asyncio=False)
        self.is_cluster = isinstance(client, RedisCluster)
        self._client = client
        self._timeout = timeout
        self._router: Router = Many(client) if self.is_cluster else One(own_pool(client, timeout))
        self._watch = _watch_of(self._router)
        self._many = self._router if isinstance(self._router, Many) else None
        self._pools: dict[str, tuple[Any, Pool]] = {}  # of a cluster: node → redis-py's pool, and ours in its place
        self._spare = Spare()
        self._refreshing: threading.Thread | None = None
        self._sockets_obey = self.is_cluster or self._router.node("").connection_kwargs.get("socket_timeout") == timeout
        renew_in_child(self, SyncTransport._renew)

    def _renew(self) -> None:
        """In a forked child. The pools that are our own renew themselves."""
        self._spare, self._refreshing, self._pools = Spare(), None, {}
        renew_client(self._client)

    @property
    def master(self) -> object:
        """Behind Sentinel the address of the master, as far as it has been named; without a round trip."""
        return _master_of(self._watch)

    @property
    def may_fail_over(self) -> bool:
        """Whether another server may take over: behind Sentinel, or on a cluster."""
        return self.is_cluster or _is_sentinels(self._router.node(""))

    def run(self, op: Op[T]) -> T:
        """Drive an operation to its answer."""
        try:
            calls = next(op)
            while True:
                try:
                    replies = self._drive(exchange(self._router, calls, self._timeout))
                except PresenceError as error:
                    calls = op.throw(error)
                else:
                    calls = op.send(replies)
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    def _drive(self, flow: Flow) -> list[Any]:
        try:
            step = next(flow)
            while True:
                step = flow.send(self._send(step) if isinstance(step, Send) else self._pause(step))
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    def _pause(self, step: Pause) -> Any:
        time.sleep(step.seconds)
        if step.refresh and self.is_cluster:
            self._spare.clear()
            self._refresh(step.until)
        elif step.refresh and _is_sentinels(self._router.node("")):
            self._router.node("").disconnect(inuse_connections=False)
            self._await_master(step.until, since=time.monotonic())

    def _await_master(self, until: float, *, since: float = -math.inf) -> None:
        """Behind Sentinel: until a majority has named it, or the time is over."""
        if self._watch is not None:
            for seconds in self._watch.wait(self, until, since=since):
                time.sleep(seconds)

    def _check_master(self, until: float, connection: Any = None) -> None:
        """Raise where it is not known, or where this connection is to another server."""
        if self._watch is not None:
            self._await_master(until)
            self._watch.check(connection)

    def _refresh(self, until: float) -> None:
        """redis-py asks node after node, each for a socket's time limit, and lets in one caller at a time: a thread
        asks, and all callers wait for it as long as they may. No lock, which a fork could leave locked: two threads do
        no harm."""
        asking = self._refreshing
        if asking is None or not asking.is_alive():
            asking = self._refreshing = threading.Thread(target=self._initialize, name="presence-layout", daemon=True)
            try:
                asking.start()
            except RuntimeError:  # the interpreter is going down
                return
        asking.join(max(0.0, until - time.monotonic()))

    def _initialize(self) -> None:
        with contextlib.suppress(*_AWAY):  # the next try says what is wrong
            initialize = self._client.nodes_manager.initialize
            initialize(**suspect(self._router, initialize))

    def _pool(self, node: Any) -> Any:
        if not self.is_cluster:
            return node
        theirs = self._client.get_redis_connection(node).connection_pool
        known = self._pools.get(node.name)
        if known is None or known[0] is not theirs:
            known = self._pools[node.name] = (theirs, pool_like(theirs, self._timeout))
        return known[1]

    def _take(self, pool: Any, until: float) -> Any:
        connection, was_idle = self._spare.take(pool)
        if connection is None:
            return self._new(pool, until)
        if was_idle:
            try:
                stale = connection.can_read()  # an answer that nobody waits for, or a closed socket
            except LOST:
                stale = True
            if stale:
                connection.disconnect()
                pool.release(connection)
                return self._new(pool, until)
        return connection

    def _new(self, pool: Any, until: float) -> Any:
        connection = connection_of(pool, until)
        if self._watch is not None and self._watch.is_other(connection):
            connection.disconnect()
            pool.release(connection)
            connection = connection_of(pool, until)
        return connection

    def _give_back(self, at: Any, *, broken: bool = False) -> None:
        pool, connection = at
        if broken:
            connection.disconnect()
        if broken or not self._spare.keep(pool, connection):
            pool.release(connection)

    def _send(self, step: Send) -> list[Any]:
        # Every node is written to before any is read: they work at the same time.
        open_: list[Any] = []
        answers: list[Any] = []
        try:
            for node, commands in step.groups:
                open_.append(self._write(node, commands, step.until))
            for at, (node, commands) in zip(open_, step.groups, strict=True):
                answers.append(self._read(at, len(commands), step))
                if self._many is not None and not isinstance(answers[-1], Failed):
                    self._many.heard[node.name] = time.monotonic()
            return answers
        finally:
            for place, at in enumerate(open_):
                if not isinstance(at, Failed):  # after an interrupt, answers that nobody has read must not be read
                    self._give_back(at, broken=place >= len(answers) or isinstance(answers[place], Failed))

    def _write(self, node: Any, commands: list[Any], until: float) -> Any:
        at = None
        try:
            self._check_master(until)
            if self._many is not None:
                confirm(self, self._many, node, until)
            pool = self._pool(node)
            at = pool, self._take(pool, until)
            at[1].send_packed_command(_pack(commands))
        except BaseException as error:
            if at is not None:
                self._give_back(at, broken=True)
            if not isinstance(error, (*LOST, RedisError, Unavailable)):
                raise
            return Failed(error, sent=at is not None)
        return at

    def _read(self, at: Any, count: int, step: Send) -> Any:
        if isinstance(at, Failed):
            return at
        connection = at[1]
        replies: list[Any] = []
        try:
            for _ in range(count):
                try:
                    if step.first and count == 1 and len(step.groups) == 1 and self._sockets_obey:
                        reply = connection.read_response(disable_decoding=True)
                    else:
                        left = max(0.05, step.until - time.monotonic())
                        reply = connection.read_response(disable_decoding=True, timeout=left)
                    replies.append(reply)
                except ResponseError as error:
                    replies.append(error)
            self._check_master(step.until, connection)  # what a master that was replaced has answered does not count
        except (*LOST, RedisError, Unavailable) as error:
            return Failed(error, sent=code_of(error) not in NOT_RUN)  # redis-py makes a ConnectionError of LOADING
        return replies

    def nodes(self, *, anew: bool = False) -> list[str]:
        """The addresses of every server that takes writes; ``anew``: also of those that joined since we last looked."""
        if anew:
            self._pause(Pause(0.0, True, time.monotonic() + self._timeout))
        return self._router.names()

    def server_of(self, key: str) -> str:
        """The address of the one that serves a key; "" for none."""
        return server_of(self._router, key)

    def sentinels(self) -> SentinelHealth | None:
        """Those that name the master, as they have answered; None without any."""
        return None if self._watch is None else self._watch.health()

    def close(self) -> None:
        """Close the connections that are our own."""
        self._spare.clear()
        if self._watch is not None:
            self._watch.leave(self)
        if not self.is_cluster:
            self._router.node("").disconnect()
        for _, pool in list(self._pools.values()):
            pool.disconnect()


def _cancels() -> int:
    """How often this task has been cancelled."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _heed(before: int) -> None:
    """Be cancelled where somebody has asked for it since. redis-py sends by wait_for, and that of CPython 3.11 answers
    as if nothing were when the cancel comes after the last byte has gone."""
    if _cancels() > before:
        raise asyncio.CancelledError


class AsyncTransport:
    """Runs operations over a redis.asyncio.Redis or redis.asyncio.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        check_client(client, use_asyncio=True)
        self.is_cluster = isinstance(client, AsyncRedisCluster)
        self._client = client
        self._timeout = timeout
        self._ready = not self.is_cluster
        self._refreshing: asyncio.Task[None] | None = None
        self._router: Router = Many(client) if self.is_cluster else One(own_pool(client, timeout))
        self._many = self._router if isinstance(self._router, Many) else None
        self._watch = _watch_of(self._router)
        renew_in_child(self, AsyncTransport._renew)

    def _renew(self) -> None:
        """In a forked child, which needs an event loop of its own: its parent's does not survive a fork."""
        self._ready, self._refreshing = not self.is_cluster, None
        leave_behind(self._client, None if self.is_cluster else self._router.node(""))

    @property
    def master(self) -> object:
        """Behind Sentinel the address of the master, as far as it has been named; without a round trip."""
        return _master_of(self._watch)

    @property
    def may_fail_over(self) -> bool:
        """Whether another server may take over: behind Sentinel, or on a cluster."""
        return self.is_cluster or _is_sentinels(self._router.node(""))

    async def run(self, op: Op[T]) -> T:
        """Drive an operation to its answer."""
        try:
            calls = next(op)
            while True:
                try:
                    replies = await self._drive(exchange(self._router, calls, self._timeout))
                except PresenceError as error:
                    calls = op.throw(error)
                else:
                    calls = op.send(replies)
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    async def _drive(self, flow: Flow) -> list[Any]:
        if not self._ready:
            cancels = _cancels()
            try:
                async with asyncio.timeout(self._timeout):
                    await self._client.initialize()
                    _heed(cancels)
            except _AWAY as error:
                raise meaning(
                    error, ", ".join(self._client.nodes_manager.startup_nodes), tls=self._router.tls
                ) from error
            self._ready = True
        try:
            step = next(flow)
            while True:
                step = flow.send(await (self._send(step) if isinstance(step, Send) else self._pause(step)))
        except StopIteration as stop:
            replies: list[Any] = stop.value
            return replies

    async def _pause(self, step: Pause) -> Any:
        await asyncio.sleep(step.seconds)
        if step.refresh and self.is_cluster:
            await self._refresh(step.until)
        elif step.refresh and _is_sentinels(self._router.node("")):
            await self._router.node("").disconnect(inuse_connections=False)
            await self._await_master(step.until, since=time.monotonic())

    async def _await_master(self, until: float, *, since: float = -math.inf) -> None:
        """See SyncTransport._await_master."""
        if self._watch is not None:
            for seconds in self._watch.wait(self, until, since=since):
                await asyncio.sleep(seconds)

    async def _check_master(self, until: float, connection: Any = None) -> None:
        """See SyncTransport._check_master."""
        if self._watch is not None:
            await self._await_master(until)
            self._watch.check(connection)

    async def _refresh(self, until: float) -> None:
        """One task asks, and all callers wait for it as long as they may. It is not cancelled when one of them gives
        up: the others wait on, and redis-py might not heed it, but ask the next node."""
        asking = self._refreshing
        if asking is None or asking.done():
            asking = self._refreshing = asyncio.create_task(self._initialize())
        await asyncio.wait({asking}, timeout=max(0.0, until - time.monotonic()))

    async def _initialize(self) -> None:
        with contextlib.suppress(*_AWAY):  # the next try says what is wrong
            initialize = self._client.nodes_manager.initialize
            await initialize(**suspect(self._router, initialize))

    async def _send(self, step: Send) -> list[Any]:
        if len(step.groups) == 1:
            return [await self._ask(*step.groups[0], step.until)]
        return await asyncio.gather(*(self._ask(node, commands, step.until) for node, commands in step.groups))

    async def _ask(self, node: Any, commands: list[Any], until: float) -> Any:
        sent = False
        connection = None
        replies: list[Any] = []
        cancels = _cancels()
        try:
            await self._check_master(until)
            if self._many is not None:
                await confirm_async(self._many, node, until)
            async with asyncio.timeout(max(0.05, until - time.monotonic())):
                if self.is_cluster:
                    connection = node.acquire_connection()
                    await connection.connect()
                else:
                    connection = await node.get_connection()
                    if self._watch is not None and self._watch.is_other(connection):
                        await connection.disconnect(nowait=True)
                        await connection.connect()
                sent = True
                await connection.send_packed_command(_pack(commands))
                _heed(cancels)
                # A timer of its own costs more than a reply, and the one around all of this holds. Only the first has
                # one: without, redis-py takes the network's own timeout, of a connection that died while it was idle,
                # for an answer of None.
                limit = None
                for _ in commands:
                    try:
                        replies.append(await connection.read_response(disable_decoding=True, timeout=limit))
                        limit = math.inf
                    except ResponseError as error:
                        replies.append(error)
            await self._check_master(until, connection)  # see _read
            if self._many is not None:
                self._many.heard[node.name] = time.monotonic()
            return replies
        except (*LOST, RedisError, Unavailable) as error:
            if connection is not None:
                await connection.disconnect(nowait=True)
            return Failed(error, sent=sent and code_of(error) not in NOT_RUN)
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

    async def nodes(self, *, anew: bool = False) -> list[str]:
        """See SyncTransport.nodes."""
        if not self._ready:
            await self._drive(exchange(self._router, [], self._timeout))
        elif anew:
            await self._pause(Pause(0.0, True, time.monotonic() + self._timeout))
        return self._router.names()

    def server_of(self, key: str) -> str:
        """The address of the one that serves a key; "" for none."""
        return server_of(self._router, key)

    def sentinels(self) -> SentinelHealth | None:
        """See SyncTransport.sentinels."""
        return None if self._watch is None else self._watch.health()

    async def close(self) -> None:
        """Close the connections that are our own."""
        if self._watch is not None:
            self._watch.leave(self)
        if not self.is_cluster:
            await self._router.node("").disconnect()
        elif self._refreshing is not None and not self._refreshing.done():
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing}, timeout=self._timeout)
