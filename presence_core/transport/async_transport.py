"""The transport that awaits: it carries out the steps of ``exchange`` over redis.asyncio's Redis or RedisCluster."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import time
import weakref
from typing import Any, TypeVar

from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.exceptions import MaxConnectionsError

from presence_core.drive_generators import drive_async
from presence_core.fork_safety import renew_in_child
from presence_core.scripts.calls import Call, Op, command
from presence_core.transport.base_transport import UNREACHABLE, BaseTransport, pack
from presence_core.transport.channel import Channel, NodeChannels
from presence_core.transport.cluster_check import confirm_master_async, layout_options
from presence_core.transport.connections import open_connection
from presence_core.transport.errors import FAILURES, explained
from presence_core.transport.exchange import Failed, Pause, Send, Step, run_operation
from presence_core.transport.pools import leave_behind

T = TypeVar("T")


def _cancel_requests() -> int:
    """How often this task has been cancelled so far."""
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


async def _connected(connection: Any) -> Any:
    await connection.connect()
    return connection


def _raise_if_cancelled(requests_before: int) -> None:
    """redis-py connects with wait_for. In CPython 3.11 that swallows a cancellation which comes after the last byte."""
    if _cancel_requests() > requests_before:
        raise asyncio.CancelledError


class _LoopState:
    def __init__(self) -> None:
        self.nodes: dict[str, NodeChannels] = {}  #: by name; "" for a single server
        self.borrowed: asyncio.Semaphore | None = None  #: for the connections of the caller's own pool
        self.refreshing: asyncio.Task[None] | None = None
        self.confirming: dict[str, asyncio.Task[None]] = {}  #: by name of the node

    def channels(self) -> list[Channel]:
        return [channel for node in self.nodes.values() for channel in node.channels()]


_States = dict[asyncio.AbstractEventLoop, _LoopState]
_left_behind: list[_States] = []
"""In a forked child: what belongs to the parent's event loops, kept so that nothing closes it for the parent."""


def _close_states(states: _States) -> None:
    """Close what a transport, which no one uses any more, has opened: in each loop, from any thread."""
    for loop, state in states.items():
        for channel in state.channels():
            try:
                loop.call_soon_threadsafe(channel.close)
            except RuntimeError:  # the loop is closed
                channel.abandon()


class AsyncTransport(BaseTransport):
    """Runs operations over a redis.asyncio.Redis or redis.asyncio.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, AsyncRedisCluster, use_asyncio=True)
        self._borrows = not self.is_cluster and self._router.node("") is client.connection_pool
        self._states: _States = {}
        self._latest: tuple[asyncio.AbstractEventLoop | None, _LoopState] = (None, _LoopState())
        """In one tuple, because loops in other threads set it too."""
        self._close_states = weakref.finalize(self, _close_states, self._states)
        renew_in_child(self, AsyncTransport._renew)

    def _renew(self) -> None:
        """In a forked child, which needs an event loop of its own: that of the parent does not survive a fork."""
        _left_behind.append(dict(self._states))
        self._states.clear()
        self._latest = (None, _LoopState())
        if self._cluster is not None:
            self._cluster.is_ready = False
        leave_behind(self._client, None if self.is_cluster else self._router.node(""))

    def _state(self) -> _LoopState:
        """The state of this event loop: each has connections of its own."""
        loop = asyncio.get_running_loop()
        latest, state = self._latest
        if loop is not latest:
            # Tests give each request a loop, so what closed ones have left is dropped.
            for known in [known for known in list(self._states) if known.is_closed()]:
                left = self._states.pop(known, None)
                for channel in left.channels() if left is not None else ():
                    channel.abandon()
            state = self._states.setdefault(loop, _LoopState())
            self._latest = (loop, state)
        return state

    async def run(self, operation: Op[T]) -> T:
        carry_out = functools.partial(self._carry_out, self._state())
        return await drive_async(run_operation(self._router, operation, self._timeout), carry_out)

    async def _carry_out(self, state: _LoopState, step: Step) -> Any:
        if isinstance(step, Send):
            if len(step.groups) == 1:
                return [await self._send_to(state, *step.groups[0], step.until)]
            tasks = (self._send_to(state, node, calls, step.until) for node, calls in step.groups)
            return list(await asyncio.gather(*tasks))
        return await (self._pause(state, step) if isinstance(step, Pause) else self._connect())

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

    async def _pause(self, state: _LoopState, step: Pause) -> None:
        await asyncio.sleep(step.seconds)
        if step.refresh and self.is_cluster:
            await self._refresh(state, step.until)
        elif step.refresh and self._is_sentinel:
            await self._await_master(step.until, since=time.monotonic())

    async def _await_master(self, until: float, *, since: float = -math.inf) -> None:
        if self._watch is not None:
            for seconds in self._watch.wait(self, until, since=since):
                await asyncio.sleep(seconds)

    async def await_sentinels(self) -> None:
        if self._watch is not None:
            for seconds in self._watch.wait_for_each(self, time.monotonic() + self._timeout):
                await asyncio.sleep(seconds)

    async def _refresh(self, state: _LoopState, until: float) -> None:
        """Read the layout in a task, for which all callers wait as long as they may. It goes on when one of them is
        cancelled: the others still wait, and redis-py might ignore the cancellation and ask the next node."""
        task = state.refreshing
        if task is None or task.done():
            task = state.refreshing = asyncio.create_task(self._initialize(state))
        await asyncio.wait({task}, timeout=max(0.0, until - time.monotonic()))

    async def _initialize(self, state: _LoopState) -> None:
        with contextlib.suppress(*UNREACHABLE):  # the next attempt says what is wrong
            initialize = self._client.nodes_manager.initialize
            await initialize(**layout_options(self._cluster, initialize))
            for name in state.nodes.keys() - self._client.nodes_manager.nodes_cache.keys():  # nodes that have left
                if state.nodes[name].is_idle:
                    for channel in state.nodes.pop(name).channels():
                        channel.close()

    # -- sending -------------------------------------------------------------------------------------------------------

    async def _send_to(self, state: _LoopState, node: Any, calls: list[Call], until: float) -> list[Any] | Failed:
        try:
            if self._watch is not None:
                await self._await_master(until)
                self._watch.check()
            if self._cluster is not None and not self._cluster.is_fresh(node):
                await self._confirm_master(state, node, until)
        except FAILURES as error:
            return Failed(error, may_have_run=False)
        if self._borrows:
            answer, connection = await self._send_borrowed(state, node, calls, until)
        else:
            channels = self._channels_to(state, node)
            request = channels.share(calls, until)
            if request is not None:
                answer, connection = await request.future, request.connection
            else:
                answer, connection = await channels.send_alone(calls, until)
        if isinstance(answer, Failed):
            return answer
        if self._cluster is not None:
            self._cluster.last_reply[node.name] = time.monotonic()
        if self._watch is not None:
            try:
                await self._await_master(until)
                self._watch.check(connection)  # replies of a master that was replaced do not count
            except FAILURES as error:
                return Failed(error, may_have_run=True)
        return answer

    def _channels_to(self, state: _LoopState, node: Any) -> NodeChannels:
        name = node.name if self.is_cluster else ""
        try:
            return state.nodes[name]
        except KeyError:
            address, timeout = self._router.name(node), self._timeout
            is_other = None if self._watch is None else self._watch.is_other
            open_one = functools.partial(open_connection, node.connection_class, node.connection_kwargs, timeout)
            make = functools.partial(Channel, open_one, is_other, timeout, address)
            channels = state.nodes[name] = NodeChannels(make, node.max_connections, address)
            return channels

    async def _send_borrowed(
        self, state: _LoopState, pool: Any, calls: list[Call], until: float
    ) -> tuple[list[Any] | Failed, Any]:
        """Send over a connection of the caller's own pool, which gets it back at once. We leave it the last one."""
        places = state.borrowed
        if places is None:
            limit = pool.max_connections
            places = state.borrowed = asyncio.Semaphore(max(1, limit - 1))
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await places.acquire()
        except TimeoutError:
            return Failed(MaxConnectionsError(), may_have_run=False), None
        connection = None
        try:
            async with asyncio.timeout(self._timeout):
                connection = await pool.get_connection()
            connect = functools.partial(_connected, connection)  # again, if it has died while it was idle
            channel = Channel(connect, None, self._timeout, self._router.name(pool))
            try:
                return await channel.send(pack(calls), len(calls), 0, until).future, connection
            finally:
                channel.release()
        except FAILURES as error:
            return Failed(error, may_have_run=False), None
        finally:
            places.release()
            if connection is not None:
                await pool.release(connection)

    async def _confirm_master(self, state: _LoopState, node: Any, until: float) -> None:
        """See ``cluster_check``. Callers at the same time share one check."""
        assert self._cluster is not None
        known = state.confirming
        task = known.get(node.name)
        if task is None or task.done():
            coroutine = confirm_master_async(functools.partial(self._slots, state), self._cluster, node, until)
            task = known[node.name] = asyncio.create_task(coroutine)
        await asyncio.wait({task}, timeout=max(0.0, until - time.monotonic()))
        if task.done() and (error := task.exception()) is not None:
            raise error

    async def _slots(self, state: _LoopState, node: Any, until: float) -> list[Any] | None:
        """The reply of a node to CLUSTER SLOTS; None if there is none in time."""
        answer, _ = await self._channels_to(state, node).send_alone([command("", "CLUSTER", "SLOTS")], until)
        return None if isinstance(answer, Failed) or isinstance(answer[0], Exception) else answer[0]

    async def nodes(self, *, refresh: bool = False) -> list[str]:
        state = self._state()
        if not self._router.is_ready:
            await self._connect()
        elif refresh:
            await self._pause(state, Pause(0.0, True, time.monotonic() + self._timeout))
        return self._router.names()

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.leave(self)
        state = self._states.pop(asyncio.get_running_loop(), None)
        if state is not None:
            for channel in state.channels():
                channel.close()
            if state.refreshing is not None and not state.refreshing.done():
                state.refreshing.cancel()
                await asyncio.wait({state.refreshing}, timeout=self._timeout)
        _close_states(self._states)
        self._states.clear()
        self._latest = (None, _LoopState())
        await asyncio.sleep(0)  # until the sockets are closed
