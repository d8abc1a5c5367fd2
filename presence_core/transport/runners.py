"""The two drivers: they carry an operation's calls to the servers and their replies back, blocking or awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from hiredis import pack_command
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from redis.retry import Retry

from presence_core.errors import PresenceError
from presence_core.scripts import Call, Op
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
    code_of,
    exchange,
    meaning,
)
from presence_core.transport.links import Spare, own_pool

T = TypeVar("T")

_AWAY: Final = (RedisError, RedisClusterException, OSError)

PIECE: Final = 32_768
"""Bytes written to a socket at once."""


def _pack(calls: list[Call]) -> Iterator[bytes]:
    """Commands on the wire, in pieces: the server is at work on the first while the next are still being packed."""
    pieces: list[bytes] = []
    size = 0
    for call in calls:
        piece = pack_command(tuple(call.words))  # type: ignore[arg-type]  # the stub's tuple is of one element
        pieces.append(piece)
        size += len(piece)
        if size > PIECE:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


class SyncTransport:
    """Runs operations over a redis.Redis or redis.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        self.is_cluster = isinstance(client, RedisCluster)
        self._client = client
        self._timeout = timeout
        self._router: Router = Many(client) if self.is_cluster else One(own_pool(client, timeout, Retry))
        self._spare = Spare()
        pool = client.nodes_manager if self.is_cluster else self._router.node("")
        self._sockets_obey = pool.connection_kwargs.get("socket_timeout") == timeout

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
            try:
                self._client.nodes_manager.initialize()
            except _AWAY:
                pass  # the next try says what is wrong

    def _pool(self, node: Any) -> Any:
        return self._client.get_redis_connection(node).connection_pool if self.is_cluster else node

    def _take(self, pool: Any) -> Any:
        connection, was_idle = self._spare.take(pool)
        if connection is None:
            return pool.get_connection()
        if was_idle:
            try:
                stale = connection.can_read()  # an answer that nobody waits for, or a closed socket
            except LOST:
                stale = True
            if stale:
                connection.disconnect()
                pool.release(connection)
                return pool.get_connection()
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
                open_.append(self._write(node, commands))
            for at, (_, commands) in zip(open_, step.groups, strict=True):
                answers.append(self._read(at, len(commands), step))
            return answers
        finally:
            for place, at in enumerate(open_):
                if not isinstance(at, Failed):  # after an interrupt, answers that nobody has read must not be read
                    self._give_back(at, broken=place >= len(answers) or isinstance(answers[place], Failed))

    def _write(self, node: Any, commands: list[Any]) -> Any:
        at = None
        try:
            pool = self._pool(node)
            at = pool, self._take(pool)
            at[1].send_packed_command(_pack(commands))
        except (*LOST, RedisError) as error:
            if at is not None:
                self._give_back(at, broken=True)
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
        except (*LOST, RedisError) as error:
            return Failed(error, sent=code_of(error) not in NOT_RUN)  # redis-py makes a ConnectionError of LOADING
        return replies

    def close(self) -> None:
        """Close the connections that are our own."""
        self._spare.clear()
        if not self.is_cluster:
            self._router.node("").disconnect()


class AsyncTransport:
    """Runs operations over a redis.asyncio.Redis or redis.asyncio.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        self.is_cluster = isinstance(client, AsyncRedisCluster)
        self._client = client
        self._timeout = timeout
        self._ready = not self.is_cluster
        self._router: Router = Many(client) if self.is_cluster else One(own_pool(client, timeout, AsyncRetry))

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
            try:
                await asyncio.wait_for(self._client.initialize(), self._timeout)
            except _AWAY as error:
                raise meaning(error, ", ".join(self._client.nodes_manager.startup_nodes)) from error
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
            try:
                await self._client.nodes_manager.initialize()
            except _AWAY:
                pass  # the next try says what is wrong

    async def _send(self, step: Send) -> list[Any]:
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
                await connection.send_packed_command(_pack(commands))
                for _ in commands:
                    try:
                        replies.append(await connection.read_response(disable_decoding=True))
                    except ResponseError as error:
                        replies.append(error)
            return replies
        except (*LOST, RedisError) as error:
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

    async def close(self) -> None:
        """Close the connections that are our own."""
        if not self.is_cluster:
            await self._router.node("").disconnect()
