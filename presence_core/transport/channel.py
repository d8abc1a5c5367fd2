"""One connection to Redis that many callers of an event loop share: asyncio only.

``Channel`` queues requests and writes them in groups, so that the server works while the loop serves other callers.
``Wire`` is one open connection: it reads the replies, in order, and gives each request its own. redis-py connects (TLS,
AUTH, RESP 2 or 3, Sentinel, Cluster); then the wire takes its place as the protocol of the transport.

- What is in the queue has not been written: it survives the loss of a connection, and goes to the next one.
- What is written is bounded in calls and bytes. Beyond that, requests wait in the queue, in their order.
- A caller that leaves is not waited for: its reply is read and dropped.
- A connection whose oldest request is overdue is closed; so is one that breaks. Each request on it has then failed, and
  ``exchange`` decides about it.
- Before a connection that was idle is used, it is looked at: one that the server has closed is replaced, and after a
  longer time a PING goes first, because a proxy may have dropped it without a word.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from math import inf
from typing import Any, Final

import hiredis
import redis
from hiredis import pack_command
from redis.exceptions import InvalidResponse, RedisError

from presence_core.errors import Unavailable
from presence_core.scripts.calls import Call, as_text
from presence_core.transport.base_transport import pack
from presence_core.transport.errors import FAILURES, NOT_RUN, code_of
from presence_core.transport.exchange import Failed
from presence_core.transport.pools import IDLE_SECONDS, PING, PING_SHARE

MAX_CALLS: Final = 1_000
"""Calls that are written to a shared connection and not answered yet."""

MAX_BYTES: Final = 1_000_000
"""Bytes of these calls."""

MAX_SHARED_CALLS: Final = 8
"""Calls of a batch that shares a connection."""

MAX_SHARED_BYTES: Final = 16_384
"""Bytes of such a batch."""

MAX_SHARED_WORDS: Final = 100
"""Words of such a batch, arguments included: the reply to a command grows with what it names."""

_SHORT: Final = (
    "EXISTS", "EXPIRE", "GET", "HDEL", "HEXISTS", "HGET", "HLEN", "HMGET", "HSET", "HSETNX", "SCARD", "SREM", "TIME",
    "ZADD", "ZCARD", "ZCOUNT", "ZMSCORE", "ZREM", "ZSCORE",
)  # fmt: skip
"""Plain commands whose reply is no longer than what they name. Of a script, ``Script.shares`` says it."""

_PINGS: Final = (PING,)
_INCOMPLETE: Final = object()
_PUSH: Final = getattr(hiredis, "PushNotification", ())  # hiredis before 3.2 has no type for them
_UNUSUAL: Final = (redis.ConnectionError, _PUSH) if _PUSH else redis.ConnectionError
_TICK: Final = 0.01  # seconds: thousands of requests may be overdue one by one, and each time all are looked at
_GROUP: Final = 8  # requests that are not held back until the next turn of the loop
_TURNS: Final = 3  # of the loop, for a socket with something to read before the first request


class Request:
    """The calls of one caller to one node, and the future of their replies: a list, or a Failed."""

    __slots__ = ("bytes", "calls", "connection", "future", "pieces", "replies", "until")

    def __init__(
        self, pieces: Iterable[bytes], calls: int, size: int, until: float, future: asyncio.Future[Any]
    ) -> None:
        self.pieces = pieces
        self.calls = calls
        self.bytes = size
        self.until = until  # monotonic
        self.future = future
        self.replies: list[Any] = []
        self.connection: Any = None  # of redis-py: the one that it was written to

    def fail(self, error: BaseException, *, may_have_run: bool) -> None:
        """Redis or the network has failed; any other exception is raised to the caller."""
        if self.future.done():
            return
        if isinstance(error, (*FAILURES, asyncio.CancelledError)):
            self.future.set_result(Failed(error, may_have_run))
        else:
            self.future.set_exception(error)


class Wire(asyncio.Protocol):
    """An open connection of redis-py, whose transport now reports to us."""

    def __init__(self, connection: Any, channel: Channel) -> None:
        self.connection = connection
        self.sent: deque[Request] = deque()  #: written and not answered, oldest first
        self.calls = self.bytes = 0  #: of these
        self.last_reply = time.monotonic()
        self._channel: Channel | None = channel
        self._transport: Any = connection._writer.transport
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=connection._parser.parse_error,
            notEnoughData=_INCOMPLETE,
        )
        self._redis_py = self._transport.get_protocol()
        self._transport.set_protocol(self)
        self._poll = select.poll()
        self._poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)

    @property
    def is_open(self) -> bool:
        return self._channel is not None and not self._transport.is_closing()

    @property
    def is_readable(self) -> bool:
        """Whether there is something to read, such as the end of the connection."""
        return bool(self._poll.poll(0))

    def write(self, requests: list[Request]) -> None:
        """Write them at once. If one cannot be packed, its caller gets the error, and the connection is closed."""
        pieces: list[bytes] = []
        for request in requests:
            self.sent.append(request)
            self.calls += request.calls
            self.bytes += request.bytes
            request.connection = self.connection
            if type(request.pieces) is tuple:
                pieces += request.pieces
                continue
            try:
                for piece in request.pieces:  # the server works on one while the next is packed
                    self._transport.write(piece)
            except Exception as error:
                if not request.future.done():
                    request.future.set_exception(error)
                self.lose(redis.ConnectionError("closed in the middle of a request"))
                return
        if pieces:
            self._transport.write(b"".join(pieces))

    def lose(self, error: BaseException) -> None:
        """Close the connection. What was written may have run."""
        channel, self._channel = self._channel, None
        if channel is None:
            return
        self._transport.abort()
        self.connection._reader = self.connection._writer = None
        for request in self.sent:
            request.fail(error, may_have_run=True)
        self.sent.clear()
        channel.lost(self)

    def release(self) -> Any:
        """Give the connection back to redis-py, in order: nothing is unanswered."""
        self._channel = None
        self._transport.set_protocol(self._redis_py)
        return self.connection

    def abandon(self) -> None:
        """Drop the connection of an event loop that was closed before it, and can close nothing any more."""
        self._channel = None
        if getattr(self._transport, "_sock", None) is not None:  # asyncio's; uvloop closes its own
            self._transport._sock.close()
            self._transport._sock, self._transport._closing = None, True  # else it warns that it was never closed
        self.connection._reader = self.connection._writer = None

    # -- what the transport calls --------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        gets, sent = self._reader.gets, self.sent
        try:
            while (reply := gets(False)) is not _INCOMPLETE:
                if isinstance(reply, _UNUSUAL) and self._is_no_reply(reply):
                    continue
                request = sent[0]
                replies = request.replies
                replies.append(reply)
                if len(replies) == request.calls:
                    sent.popleft()
                    self.calls -= request.calls
                    self.bytes -= request.bytes
                    if not request.future.done():
                        request.future.set_result(replies)
        except (RedisError, IndexError) as error:  # no RESP, or a reply to nothing
            self.lose(redis.ConnectionError(f"not a reply of Redis: {error}"))
        if self._channel is not None:
            self.last_reply = time.monotonic()
            self._channel.go_on()

    def _is_no_reply(self, reply: Any) -> bool:
        """A push message is none. An error that is a ConnectionError to redis-py, such as LOADING, is one."""
        if isinstance(reply, _PUSH):
            return True
        replies = self.sent[0].replies  # the calls before it may have run
        self.sent[0].fail(reply, may_have_run=bool(replies) or code_of(reply) not in NOT_RUN)
        return False

    def eof_received(self) -> bool:
        self.lose(redis.ConnectionError("Connection closed by server."))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose(redis.ConnectionError(str(exc) if exc else "Connection closed by server."))


class Channel:
    """Sends the requests of one event loop to one node, over one connection at a time.

    Args:
        connect: opens a connection of redis-py.
        is_other: whether a connection leads to another server than the node is now.
        seconds: the time limit to connect.
        name: the address of the node, for errors.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], is_other: Callable[[Any], bool] | None, seconds: float, name: str
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connect = connect
        self._is_other = is_other
        self._seconds = seconds
        self._name = name
        self._queue: deque[Request] = deque()
        self._wire: Wire | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_due = False
        self._turns = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._full_at = -inf  # when requests last waited because of MAX_CALLS or MAX_BYTES
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        return self._wire is not None and self._wire.is_open

    @property
    def is_idle(self) -> bool:
        return not self._queue and not (self._wire and self._wire.sent)

    def send(self, pieces: Iterable[bytes], calls: int, size: int, until: float) -> Request:
        """Queue a request. Its future raises only if its calls cannot be packed, or if the channel is closed.

        pieces: packed calls. A tuple may be written together with other requests.
        """
        request = Request(pieces, calls, size, until, self._loop.create_future())
        if self._is_closed:
            request.future.set_exception(Unavailable(f"The client of Redis at {self._name} was closed.", self._name))
            return request
        self._queue.append(request)
        if until < self._timer_at:
            self._set_timer(until)
        if len(self._queue) == _GROUP:
            self._write()
        else:
            self.go_on()
        return request

    def go_on(self) -> None:
        if self._queue and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._is_due = False
        queue, wire = self._queue, self._wire
        while queue and queue[0].future.done():  # its caller has left
            queue.popleft()
        if wire is None and queue and self._connecting is None:
            self._connecting = self._loop.create_task(self._open())
        if wire is None or not queue or not self._is_usable(wire):
            return
        requests: list[Request] = []
        calls, size = wire.calls, wire.bytes
        while queue:
            request = queue[0]
            if not request.future.done():
                if (wire.sent or requests) and (calls + request.calls > MAX_CALLS or size + request.bytes > MAX_BYTES):
                    self._full_at = time.monotonic()
                    break
                calls += request.calls
                size += request.bytes
                requests.append(request)
            queue.popleft()
        if requests:
            wire.write(requests)

    def _is_usable(self, wire: Wire) -> bool:
        """Whether to write now. A connection that has replies to come is; one that was idle may have died."""
        if self._is_other is not None and self._is_other(wire.connection):
            wire.lose(redis.ConnectionError(f"{self._name} is no longer the master"))
            return False
        if not wire.is_open:
            wire.lose(redis.ConnectionError("Connection closed by server."))
            return False
        if wire.sent:
            return wire.sent[0].pieces is not _PINGS
        if wire.is_readable:
            if self._turns == _TURNS:
                wire.lose(redis.ConnectionError("sent what no one asked for"))
            else:  # let the loop read it
                self._turns += 1
                self.go_on()
            return False
        self._turns = 0
        now = time.monotonic()
        if now - wire.last_reply > IDLE_SECONDS:
            until = now + max(0.0, self._queue[0].until - now) / PING_SHARE
            wire.write([Request(_PINGS, 1, len(PING), until, self._loop.create_future())])
            self._set_timer(min(until, self._timer_at))
            return False
        return True

    async def _open(self) -> None:
        """Open a connection, as long as anyone waits for it. If that fails, so have all that wait."""
        try:
            async with asyncio.timeout(self._seconds):
                connection = await self._connect()
        except BaseException as error:
            timeout = redis.TimeoutError("Timeout connecting to server")
            self._fail_queue(timeout if type(error) is TimeoutError else error)
            if not isinstance(error, Exception):
                raise
        else:
            self._wire = Wire(connection, self)
            if self._is_closed:  # CPython 3.11 may swallow a cancellation, see transport/async_transport
                self._wire.lose(redis.ConnectionError("closed by its owner"))
        finally:
            self._connecting = None
        self.go_on()

    def _fail_queue(self, error: BaseException) -> None:
        waiting, self._queue = self._queue, deque()
        for request in waiting:
            request.fail(error, may_have_run=False)

    # -- time limits ---------------------------------------------------------------------------------------------------

    def _set_timer(self, at: float) -> None:
        """One timer for all requests: at the earliest time limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(max(0.0, at - time.monotonic()), self._end_overdue)

    def _end_overdue(self) -> None:
        self._timer, self._timer_at = None, inf
        now = time.monotonic() + 0.001  # a timer may come early by the resolution of the clock
        wire = self._wire
        if wire is not None and wire.sent and wire.sent[0].until <= now:
            wire.lose(redis.TimeoutError(f"Timeout reading from {self._name}"))
        written = list(self._wire.sent) if self._wire is not None else []
        for request in written:
            if request.until <= now:  # an earlier one may wait for longer
                request.fail(redis.TimeoutError(f"Timeout reading from {self._name}"), may_have_run=True)
        for request in self._queue:
            if request.until <= now:
                request.fail(self._why_waiting(request), may_have_run=False)
        self._queue = deque(request for request in self._queue if not request.future.done())
        limits = [request.until for request in (*written, *self._queue) if request.until > now]
        if limits:
            self._set_timer(max(min(limits), now + _TICK))

    def _why_waiting(self, request: Request) -> Exception:
        if self._full_at < request.until - self._seconds:  # not since its call began
            return redis.TimeoutError("Timeout connecting to server")
        return Unavailable(
            f"Redis at {self._name} replies too slowly: this call waited until its time limit behind {MAX_CALLS:,} "
            f"calls or {MAX_BYTES:,} bytes without a reply, which is the limit of a connection.",
            self._name,
        )

    # -- the end -------------------------------------------------------------------------------------------------------

    def lost(self, wire: Wire) -> None:
        if self._wire is wire:
            self._wire = None
            self.go_on()

    def release(self) -> Any:
        """Return the connection to redis-py, if nothing is unanswered. Else close it, and return None."""
        wire = self._wire
        if wire is not None and wire.is_open and not wire.sent:
            self._wire = None
            self._stop_timer()
            return wire.release()
        self.close()
        return None

    def hang_up(self) -> None:
        """Close the connection if replies are still to come."""
        if self._wire is not None and self._wire.sent:
            self._wire.lose(redis.ConnectionError("its caller has left"))

    def close(self) -> None:
        """Close the connection for good. What waits fails."""
        self._is_closed = True
        self._stop_timer()
        closed = redis.ConnectionError("closed by its owner")
        self._fail_queue(closed)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._wire is not None:
            self._wire.lose(closed)

    def abandon(self) -> None:
        """The same after the event loop was closed."""
        if self._wire is not None:
            self._wire.abandon()
        self._wire = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, inf


class NodeChannels:
    """The channels of one event loop to one node: one that callers share, and those that a caller has alone.

    A caller has a channel alone if its batch waits (WAIT), is long, or has long replies: else the others would wait
    behind them. With one connection allowed, all share it.

    Args:
        make: makes a channel.
        limit: how many connections there may be.
    """

    def __init__(self, make: Callable[[], Channel], limit: int, name: str) -> None:
        self._make = make
        self._limit = limit
        self._name = name
        self._shared = make()
        self._alone: list[Channel] = []  #: not in use
        self._in_use: set[Channel] = set()
        self._places = asyncio.Semaphore(limit - 1)

    def share(self, calls: list[Call], until: float) -> Request | None:
        """Send a batch that may share the connection; None: it may not."""
        if len(calls) == 1 and _may_share(calls[0]):  # nearly every batch
            words = as_text(calls[0].words)
            data: bytes = pack_command(words)  # type: ignore[arg-type]  # see pack
            if len(words) > MAX_SHARED_WORDS or len(data) > MAX_SHARED_BYTES:
                return None
            return self._shared.send((data,), 1, len(data), until)
        if len(calls) > MAX_SHARED_CALLS or not all(map(_may_share, calls)):
            return None
        commands = [as_text(call.words) for call in calls]
        if sum(map(len, commands)) > MAX_SHARED_WORDS:
            return None
        pieces = tuple(map(pack_command, commands))  # type: ignore[arg-type]  # see pack
        size = sum(map(len, pieces))
        return self._shared.send(pieces, len(calls), size, until) if size <= MAX_SHARED_BYTES else None

    async def send_alone(self, calls: list[Call], until: float) -> tuple[list[Any] | Failed, Any]:
        """Send a batch over a connection that it has alone. Returns the replies, and redis-py's connection."""
        if self._limit == 1:
            pieces = tuple(pack(calls))
            request = self._shared.send(pieces, len(calls), sum(map(len, pieces)), until)
            return await request.future, request.connection
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await self._places.acquire()
        except TimeoutError:
            limit = f"All {self._limit} connections to Redis at {self._name} that its pool allows are in use."
            return Failed(Unavailable(limit, self._name), may_have_run=False), None
        channel = self._alone.pop() if self._alone else self._make()
        self._in_use.add(channel)
        try:
            request = channel.send(pack(calls), len(calls), 0, until)
            try:
                return await request.future, request.connection
            except BaseException:
                channel.hang_up()
                raise
        finally:
            self._in_use.discard(channel)
            self._alone.append(channel)
            self._places.release()

    @property
    def is_idle(self) -> bool:
        return self._shared.is_idle and not self._in_use

    def channels(self) -> list[Channel]:
        return [self._shared, *self._alone, *self._in_use]


def _may_share(call: Call) -> bool:
    if call.script is None:
        return not call.waits and call.words[0] in _SHORT
    return call.script.shares or call.is_short
