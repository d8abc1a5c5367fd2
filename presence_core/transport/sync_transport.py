"""The transport that blocks: it carries out the steps of ``exchange`` over a redis.Redis or redis.RedisCluster."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import Any, NamedTuple, TypeVar

from redis.cluster import RedisCluster
from redis.exceptions import ResponseError

from presence_core.drive_generators import drive
from presence_core.fork_safety import renew_in_child
from presence_core.scripts.calls import Call, Op
from presence_core.transport.base_transport import UNREACHABLE, BaseTransport, pack
from presence_core.transport.cluster_check import confirm_master, layout_options
from presence_core.transport.errors import FAILURES, NOT_RUN, code_of
from presence_core.transport.exchange import Failed, Pause, Send, Step, run_operation
from presence_core.transport.pools import Pool, like_pool, read_within, renew_client

T = TypeVar("T")


class Borrowed(NamedTuple):
    """A connection in use, and the pool that it belongs to."""

    pool: Any
    connection: Any
    place: Any = None  #: of a pool that the caller made: what allows to take one of its connections


class _Place:
    """Stands in for a connection in a ``Pool``, in which threads wait in turn for a connection of another pool."""

    _sock = None

    def connect(self) -> None:
        """There is nothing to open."""


class SyncTransport(BaseTransport):
    """Runs operations over a redis.Redis or redis.RedisCluster."""

    def __init__(self, client: Any, timeout: float) -> None:
        super().__init__(client, timeout, RedisCluster, use_asyncio=False)
        self._pools: dict[str, tuple[Any, Pool]] = {}  # of a cluster: node → redis-py's pool, and ours in its place
        self._places: Pool | None = None  # of a pool that the caller made
        self._refreshing: threading.Thread | None = None
        self._socket_has_our_timeout = (
            self.is_cluster or self._router.node("").connection_kwargs.get("socket_timeout") == timeout
        )
        renew_in_child(self, SyncTransport._renew)

    def _renew(self) -> None:
        """In a forked child. Our own pools renew themselves."""
        self._refreshing, self._pools = None, {}
        renew_client(self._client)

    def run(self, operation: Op[T]) -> T:
        return drive(run_operation(self._router, operation, self._timeout), self._carry_out)

    def _carry_out(self, step: Step) -> Any:
        if isinstance(step, Send):
            return self._send(step)
        assert isinstance(step, Pause), "redis-py reads the layout when the client is made"
        return self._pause(step)

    def _pause(self, step: Pause) -> None:
        time.sleep(step.seconds)
        if step.refresh and self.is_cluster:
            self._refresh(step.until)
        elif step.refresh and self._is_sentinel:
            self._router.node("").disconnect(inuse_connections=False)
            self._await_master(step.until, since=time.monotonic())

    def _await_master(self, until: float, *, since: float = -math.inf) -> None:
        """Behind Sentinel, wait until a majority names the master, or the time is up."""
        if self._watch is not None:
            for seconds in self._watch.wait(self, until, since=since):
                time.sleep(seconds)

    def await_sentinels(self) -> None:
        """Behind Sentinel, wait until each has answered or failed, or the time is up."""
        if self._watch is not None:
            for seconds in self._watch.wait_for_each(self, time.monotonic() + self._timeout):
                time.sleep(seconds)

    def _check_master(self, until: float, connection: Any = None) -> None:
        """Raise if the master is not known, or if this connection is to another server."""
        if self._watch is not None:
            self._await_master(until)
            self._watch.check(connection)

    def _refresh(self, until: float) -> None:
        """Read the layout in a thread, for which all callers wait as long as they may. redis-py would ask node after
        node, each for the time limit of a socket, and let in one caller at a time. No lock guards the thread, because a
        fork could leave it locked; two threads at once do no harm."""
        thread = self._refreshing
        if thread is None or not thread.is_alive():
            thread = self._refreshing = threading.Thread(target=self._initialize, name="presence-layout", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down
                return
        thread.join(max(0.0, until - time.monotonic()))

    def _initialize(self) -> None:
        with contextlib.suppress(*UNREACHABLE):  # the next attempt says what is wrong
            initialize = self._client.nodes_manager.initialize
            initialize(**layout_options(self._cluster, initialize))

    # -- connections ---------------------------------------------------------------------------------------------------

    def borrow(self, node: Any, until: float) -> Borrowed:
        pool = self._pool(node)
        if not isinstance(pool, Pool):
            return self._borrow_of_caller(pool, until)
        connection = pool.take(until)
        if self._watch is not None and self._watch.is_other(connection):
            connection.disconnect()
            pool.connect(connection, until)
        return Borrowed(pool, connection)

    def _borrow_of_caller(self, pool: Any, until: float) -> Borrowed:
        """A connection of a pool that the caller made, of a class of its own. We leave it the last one."""
        places = self._places
        if places is None:
            places = self._places = Pool(_Place, {}, max(1, pool.max_connections - 1))
        place = places.take(until)
        try:
            return Borrowed(pool, pool.get_connection(), place)
        except BaseException:
            places.give(place)
            raise

    def give_back(self, borrowed: Borrowed, *, is_broken: bool = False) -> None:
        """Return a connection. A broken one, or one with unread replies, is closed."""
        pool, connection, place = borrowed
        if is_broken:
            connection.disconnect()
        if isinstance(pool, Pool):
            pool.give(connection)
            return
        pool.release(connection)
        assert self._places is not None
        self._places.give(place)

    def _pool(self, node: Any) -> Any:
        if not self.is_cluster:
            return node
        theirs = self._client.get_redis_connection(node).connection_pool
        known = self._pools.get(node.name)
        if known is None or known[0] is not theirs:
            known = self._pools[node.name] = (theirs, like_pool(theirs, self._timeout))
        return known[1]

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self, step: Send) -> list[Any]:
        """Write to every node before reading from any, so that they work at the same time."""
        written: list[Borrowed | Failed] = []
        answers: list[Any] = []
        try:
            for node, calls in step.groups:
                written.append(self._write(node, calls, step.until))
            for borrowed, (node, calls) in zip(written, step.groups, strict=True):
                answer = borrowed if isinstance(borrowed, Failed) else self._read(borrowed.connection, len(calls), step)
                answers.append(answer)
                if self._cluster is not None and not isinstance(answer, Failed):
                    self._cluster.last_reply[node.name] = time.monotonic()
            return answers
        finally:
            for place, borrowed in enumerate(written):
                if not isinstance(borrowed, Failed):  # after an interrupt, some replies are still unread
                    is_broken = place >= len(answers) or isinstance(answers[place], Failed)
                    self.give_back(borrowed, is_broken=is_broken)

    def _write(self, node: Any, calls: list[Call], until: float) -> Borrowed | Failed:
        borrowed = None
        try:
            self._check_master(until)
            if self._cluster is not None:
                confirm_master(self, self._cluster, node, until)
            borrowed = self.borrow(node, until)
            borrowed.connection.send_packed_command(pack(calls))
        except BaseException as error:
            if borrowed is not None:
                self.give_back(borrowed, is_broken=True)
            if not isinstance(error, FAILURES):
                raise
            return Failed(error, may_have_run=borrowed is not None)
        return borrowed

    def _read(self, connection: Any, count: int, step: Send) -> list[Any] | Failed:
        replies: list[Any] = []
        read = connection.read_response
        is_single = step.first and count == 1 and len(step.groups) == 1 and self._socket_has_our_timeout
        try:
            for _ in range(count):
                # Setting the time limit of a socket takes longer than reading a reply: a single call uses what it has.
                try:
                    if is_single:
                        reply = read(disable_decoding=True)
                    else:
                        left = max(0.05, step.until - time.monotonic())
                        reply = read_within(left, connection, read, disable_decoding=True)
                    replies.append(reply)
                except ResponseError as error:  # its traceback would keep the connection, which then counts as in use
                    replies.append(error.with_traceback(None))
            self._check_master(step.until, connection)  # replies of a master that was replaced do not count
        except FAILURES as error:
            # redis-py raises LOADING as a ConnectionError. Calls before it may have run.
            return Failed(error, may_have_run=bool(replies) or code_of(error) not in NOT_RUN)
        return replies

    def nodes(self, *, refresh: bool = False) -> list[str]:
        """The addresses of every server that takes writes. ``refresh``: also of those that joined recently."""
        if refresh:
            self._pause(Pause(0.0, True, time.monotonic() + self._timeout))
        return self._router.names()

    def close(self) -> None:
        if self._watch is not None:
            self._watch.leave(self)
        if not self.is_cluster:
            self._router.node("").disconnect()
        for _, pool in list(self._pools.values()):
            pool.disconnect()
