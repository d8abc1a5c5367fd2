"""The transport that awaits: it carries out the steps of ``exchange`` over redis.asyncio's Redis or RedisCluster."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import Any, TypeVar

from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.exceptions import RedisError, ResponseError

from presence_core.drive_generators import drive_async
from presence_core.errors import Unavailable
from presence_core.fork_safety import renew_in_child
from presence_core.scripts.calls import Call, Op
from presence_core.transport.base_transport import UNREACHABLE, BaseTransport, pack
from presence_core.transport.cluster_check import confirm_master_async, layout_options
from presence_core.transport.errors import LOST, NOT_RUN, code_of, explained
from presence_core.transport.exchange import Failed, Pause, Send, Step, run_operation
from presence_core.transport.pools import drop_connections, leave_behind, release_of_node

T = TypeVar("T")


def _cancel_requests() -> int:
    """How often this task has been cancelled so far."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _raise_if_cancelled(requests_before: int) -> None:
    """redis-py sends with wait_for. In CPython 3.11 that swallows a cancellation which comes after the last byte."""
    if _cancel_requests() > requests_before:
        raise asyncio.CancelledError


class AsyncTransport(BaseTransport):
    """Runs operations over a redis.asyncio.Redis or redis.asyncio.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, AsyncRedisCluster, use_asyncio=True)
        self._refreshing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        renew_in_child(self, AsyncTransport._renew)

    def _renew(self) -> None:
        """In a forked child, which needs an event loop of its own: that of the parent does not survive a fork."""
        self._refreshing = self._loop = None
        if self._cluster is not None:
            self._cluster.is_ready = False
        leave_behind(self._client, None if self.is_cluster else self._router.node(""))

    def _change_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tests give each request a loop of its own: what the last one left open is of no use, once it is closed."""
        if self._loop is not None and self._loop.is_closed() and not self.is_cluster:
            drop_connections(self._router.node(""))
        self._loop = loop

    async def run(self, operation: Op[T]) -> T:
        """Run an operation and return its result."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._change_loop(loop)
        return await drive_async(run_operation(self._router, operation, self._timeout), self._carry_out)

    async def _carry_out(self, step: Step) -> Any:
        if isinstance(step, Send):
            return await self._send(step)
        return await (self._pause(step) if isinstance(step, Pause) else self._connect())

    async def _connect(self) -> None:
        """Read the layout of the cluster for the first time."""
        assert self._cluster is not None
        requests = _cancel_requests()
        try:
            async with asyncio.timeout(self._timeout):
                await self._client.initialize()
                _raise_if_cancelled(requests)
        except UNREACHABLE as error:
            nodes = ", ".join(self._client.nodes_manager.startup_nodes)
            raise explained(error, nodes, tls=self._router.tls) from error
        self._cluster.is_ready = True

    async def _pause(self, step: Pause) -> None:
        await asyncio.sleep(step.seconds)
        if step.refresh and self.is_cluster:
            await self._refresh(step.until)
        elif step.refresh and self._is_sentinel:
            await self._router.node("").disconnect(inuse_connections=False)
            await self._await_master(step.until, since=time.monotonic())

    async def _await_master(self, until: float, *, since: float = -math.inf) -> None:
        if self._watch is not None:
            for seconds in self._watch.wait(self, until, since=since):
                await asyncio.sleep(seconds)

    async def await_sentinels(self) -> None:
        if self._watch is not None:
            for seconds in self._watch.wait_for_each(self, time.monotonic() + self._timeout):
                await asyncio.sleep(seconds)

    async def _check_master(self, until: float, connection: Any = None) -> None:
        if self._watch is not None:
            await self._await_master(until)
            self._watch.check(connection)

    async def _refresh(self, until: float) -> None:
        """Read the layout in a task, for which all callers wait as long as they may. It goes on when one of them is
        cancelled: the others still wait, and redis-py might ignore the cancellation and ask the next node."""
        task = self._refreshing
        if task is None or task.done():
            task = self._refreshing = asyncio.create_task(self._initialize())
        await asyncio.wait({task}, timeout=max(0.0, until - time.monotonic()))

    async def _initialize(self) -> None:
        with contextlib.suppress(*UNREACHABLE):  # the next attempt says what is wrong
            initialize = self._client.nodes_manager.initialize
            await initialize(**layout_options(self._cluster, initialize))

    async def _send(self, step: Send) -> list[Any]:
        if len(step.groups) == 1:
            return [await self._send_to(*step.groups[0], step.until)]
        tasks = (self._send_to(node, calls, step.until) for node, calls in step.groups)
        return list(await asyncio.gather(*tasks))

    async def _send_to(self, node: Any, calls: list[Call], until: float) -> list[Any] | Failed:
        connection = None
        replies: list[Any] = []
        requests = _cancel_requests()
        try:
            await self._check_master(until)
            if self._cluster is not None:
                await confirm_master_async(self._cluster, node, until)
            async with asyncio.timeout(max(0.05, until - time.monotonic())):
                connection = await self._borrow(node)
                await connection.send_packed_command(pack(calls))
                _raise_if_cancelled(requests)
                await _read(connection, len(calls), replies)
            await self._check_master(until, connection)  # replies of a master that was replaced do not count
        except BaseException as error:  # also cancellation: the next user must not read our replies
            if connection is not None:
                await connection.disconnect(nowait=True)
            if not isinstance(error, (*LOST, RedisError, Unavailable)):
                raise
            # redis-py raises LOADING as a ConnectionError. Calls before it may have run.
            may_have_run = connection is not None and (bool(replies) or code_of(error) not in NOT_RUN)
            return Failed(error, may_have_run=may_have_run)
        finally:
            if connection is not None:
                await self._give_back(node, connection)
        if self._cluster is not None:
            self._cluster.last_reply[node.name] = time.monotonic()
        return replies

    async def _borrow(self, node: Any) -> Any:
        """An open connection to this node."""
        connection = node.acquire_connection() if self.is_cluster else await node.get_connection()
        try:
            if self._watch is not None and self._watch.is_other(connection):
                await connection.disconnect(nowait=True)
            if not connection.is_connected:
                await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            await self._give_back(node, connection)
            raise
        return connection

    async def _give_back(self, node: Any, connection: Any) -> None:
        if self.is_cluster:
            release_of_node(node, connection)
        else:
            await node.release(connection)

    async def nodes(self, *, refresh: bool = False) -> list[str]:
        """See SyncTransport.nodes."""
        if not self._router.is_ready:
            await self._connect()
        elif refresh:
            await self._pause(Pause(0.0, True, time.monotonic() + self._timeout))
        return self._router.names()

    async def close(self) -> None:
        """Close our own connections."""
        if self._watch is not None:
            self._watch.leave(self)
        if not self.is_cluster:
            await self._router.node("").disconnect()
        elif self._refreshing is not None and not self._refreshing.done():
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing}, timeout=self._timeout)


async def _read(connection: Any, count: int, replies: list[Any]) -> None:
    """Add the replies and error replies to ``replies``."""
    # A timer for each reply costs more than the reply, and the caller has one around them all. The first reply needs
    # one: without it, redis-py takes the network's own timeout, of a connection that died while idle, for a None.
    limit = None
    for _ in range(count):
        try:
            replies.append(await connection.read_response(disable_decoding=True, timeout=limit))
            limit = math.inf
        except ResponseError as error:
            replies.append(error)
