"""Follow the master that Sentinels name: one watch per process and group of Sentinels, for all clients, sync and async.

A master that was replaced does not fail: it answers until it is turned into a replica, and what staff have ended since
would live on there. So a watch asks every Sentinel each half second, and at once when one announces a failover.

Which master: each Sentinel's last answer counts, and of these the highest configuration epoch. A Sentinel that is cut
off or lags has a lower one. As soon as the address changes, connections to any other are cut, in use or not.

A lease: calls are served only while a majority of the Sentinels in the URL has answered within ``down-after``. That is
the time that Sentinels need at least to replace a master that they cannot reach, so a client that is cut off with the
old master stops before there is another one.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError

from presence_core.errors import Unavailable
from presence_core.forked import renew_in_child
from presence_core.models import SentinelHealth

EVERY: Final = 0.5
"""Seconds between two questions to a Sentinel."""

TIMEOUT: Final = 1.0
"""Seconds that a Sentinel has for an answer; each has a thread of its own, so that none waits for another."""

SHORTEST_LEASE: Final = 1.0
"""Seconds; a shorter ``down-after`` would leave no time for a second question."""

FORGET: Final = 60.0
"""Seconds after which a Sentinel that is silent no longer counts for which master it named."""

EVENTS: Final = ("+switch-master", "+promoted-slave")  # the second comes first, from the Sentinel that leads


@dataclass(frozen=True, slots=True)
class Master:
    """The master, as far as Sentinels have named it."""

    address: tuple[str, int]
    epoch: int
    is_down: bool  #: every Sentinel that names it says so


@dataclass(frozen=True, slots=True)
class Answer:
    """What one Sentinel said."""

    asked: float  #: monotonic, before the question
    address: tuple[str, int] | None = None  #: None where it knows no master of that name
    epoch: int = 0
    is_down: bool = False
    down_after: float = 30.0  #: seconds
    others: int = 0  #: further Sentinels that it knows


class SentinelWatch:
    """Follows one master. Get it by ``watch_of``; it runs while it has clients, from the first call on."""

    def __init__(self, name: str, manager: Any) -> None:
        self.name = name
        self.master: Master | None = None
        self._kwargs = dict(manager.sentinel_kwargs) | {
            "socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT, "retry": Retry(NoBackoff(), 0),
        }  # fmt: skip
        self._ip = manager._force_master_ip
        self.sentinels = _addresses(manager)
        self.majority = len(self.sentinels) // 2 + 1
        self._forget_all()
        renew_in_child(self, SentinelWatch._forget_all)

    def _forget_all(self) -> None:
        """Also in a forked child: its parent's threads are not there, and its connections are not to be touched."""
        self._lock = threading.RLock()
        self._clients: WeakSet[Any] = WeakSet()
        self._connections: WeakSet[Any] = WeakSet()
        self._answers: dict[int, Answer] = {}
        self._lease = -inf  #: monotonic
        self._over: threading.Event | None = None  #: of the threads that run
        self._events: dict[int, Any] = {}

    # -- what clients ask ----------------------------------------------------------------------------------------------

    @property
    def is_sure(self) -> bool:
        """A majority has confirmed the master recently enough."""
        return self.master is not None and time.monotonic() < self._lease

    def wait(self, client: Any, until: float, *, since: float = -inf) -> Iterator[float]:
        """Yields seconds to sleep until the master is sure, or the time is over. ``since``: by answers to questions
        that were asked after this."""
        self._run_for(client)
        pause = 0.002
        while not (self.is_sure and (since == -inf or self._asked(self.majority) >= since)):
            left = until - time.monotonic()
            if left <= 0:
                return
            yield min(pause, left)
            pause = min(pause * 1.5, 0.05)

    def check(self, connection: Any = None) -> None:
        """Raise unless the master is sure, and this connection is to it."""
        master = self.master
        if master is None:
            raise MasterNotFoundError
        if not self.is_sure:
            raise Unavailable(
                f"Only {len(self._recent())} of {len(self.sentinels)} Sentinels of {self.name} answer ({self.hosts}): "
                "without a majority, it is not known whether its master has been replaced.",
                self.hosts,
            )
        if connection is not None and self.is_other(connection):
            raise redis.ConnectionError(f"{connection.host}:{connection.port} is no longer the master")

    def is_other(self, connection: Any) -> bool:
        """Whether a connection is not, or has not been all the time, to the present master."""
        master = self.master
        return connection.was_cut or master is None or (connection.host, connection.port) != master.address

    @property
    def hosts(self) -> str:
        """The Sentinels, for a sentence."""
        return ", ".join(f"{host}:{port}" for host, port in self.sentinels)

    def health(self) -> SentinelHealth | None:
        """None before any has answered."""
        recent = self._recent()
        if not recent:
            return None
        known = 1 + max(one.others for one in recent)
        return SentinelHealth(len(self.sentinels), len(recent), known, min(one.down_after for one in recent))

    def _recent(self) -> list[Answer]:
        since = time.monotonic() - self._bound()
        return [one for one in list(self._answers.values()) if one.address is not None and one.asked > since]

    def joined(self, connection: Any) -> None:
        """A connection has been made, to be cut when it is not to the master any more."""
        with self._lock:
            connection.was_cut = False
            self._connections.add(connection)
        if self.is_other(connection):
            connection.cut()

    def leave(self, client: Any) -> None:
        """The last client that leaves ends the threads."""
        with self._lock:
            self._clients.discard(client)
            if not self._clients:
                self._stop()

    # -- the threads ---------------------------------------------------------------------------------------------------

    def _run_for(self, client: Any) -> None:
        if self._over is not None and client in self._clients:
            return
        with self._lock:
            self._clients.add(client)
            if self._over is None:
                self._over = threading.Event()
                for number, address in enumerate(self.sentinels):
                    asking = (number, address, self._over)
                    with contextlib.suppress(RuntimeError):  # the interpreter is going down
                        threading.Thread(
                            target=self._follow, args=asking, name="presence-sentinel", daemon=True
                        ).start()

    def _stop(self) -> None:
        if self._over is not None:
            self._over.set()
            self._over = None
            self._answers, self._lease = {}, -inf  # what is known now is old when somebody comes again
            for events in list(self._events.values()):
                _shut(events.connection)  # a thread waits there for up to half a second
            self._events = {}

    def _follow(self, number: int, address: tuple[str, int], over: threading.Event) -> None:
        while not over.is_set():
            with (
                contextlib.suppress(RedisError, OSError, ValueError),
                redis.Redis(*address, **self._kwargs) as sentinel,
            ):
                self._converse(number, sentinel, over)
            self._forget(number)
            over.wait(EVERY)

    def _converse(self, number: int, sentinel: Any, over: threading.Event) -> None:
        with sentinel.pubsub() as events:
            events.subscribe(*EVENTS)
            with self._lock:
                if over.is_set():
                    return
                self._events[number] = events
            may_listen = True
            while not over.is_set():
                asked = time.monotonic()
                answer = self._ask(sentinel, asked)
                with self._lock:
                    if over.is_set():
                        return
                    if not self._clients:  # all were dropped without a close
                        self._stop()
                        return
                    self._heard(number, answer)
                try:
                    while may_listen and (left := asked + EVERY - time.monotonic()) > 0 and not over.is_set():
                        said = events.get_message(timeout=left)
                        if said is not None and said["type"] == "message":
                            break
                except redis.ResponseError:  # its user may not subscribe: it is only asked
                    may_listen = False
                if not may_listen:
                    over.wait(EVERY)

    def _ask(self, sentinel: Any, asked: float) -> Answer:
        """Both in one go: the first names the next master as soon as there is one, the second knows since when."""
        with sentinel.pipeline(transaction=False) as both:
            both.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", self.name)
            both.execute_command("SENTINEL MASTER", self.name)
            address, state = both.execute(raise_on_error=False)
        if isinstance(state, redis.ResponseError) and "No such master" in str(state):
            return Answer(asked)
        for reply in (address, state):
            if isinstance(reply, Exception):
                raise reply
        if address is None:
            return Answer(asked)
        host, port = (_text(address[0]), int(address[1]))
        is_old = (host, port) == (_text(state["ip"]), int(state["port"]))  # "down" is said of the old one until the end
        return Answer(
            asked,
            (self._ip or host, port),
            int(state["config-epoch"]),
            is_old and bool(state["is_sdown"] or state["is_odown"]),
            int(state["down-after-milliseconds"]) / 1000,
            int(state["num-other-sentinels"]),
        )

    # -- the judgement, under the lock ---------------------------------------------------------------------------------

    def _heard(self, number: int, answer: Answer) -> None:
        self._answers[number] = answer
        self._judge()

    def _forget(self, number: int) -> None:
        """A Sentinel that is away: its last answer counts on for a while."""
        with self._lock:
            last = self._answers.get(number)
            if last is not None and time.monotonic() - last.asked > FORGET:
                del self._answers[number]
                self._judge()

    def _judge(self) -> None:
        named = [one for one in self._answers.values() if one.address is not None]
        if named:
            epoch = max(one.epoch for one in named)
            best = [one for one in named if one.epoch == epoch]
            votes = Counter(one.address for one in best)
            before = self.master and self.master.address
            address = max(votes, key=lambda one: (votes[one], one == before))
            assert address is not None
            is_down = all(one.is_down for one in best if one.address == address)
            self.master = Master(address, epoch, is_down)
            if address != before:
                for connection in [one for one in self._connections if self.is_other(one)]:
                    connection.cut()
        self._lease = self._asked(self.majority) + self._bound()

    def _asked(self, count: int) -> float:
        """When the last question was asked to which so many Sentinels have answered since."""
        times = sorted((one.asked for one in list(self._answers.values()) if one.address is not None), reverse=True)
        return times[count - 1] if len(times) >= count else -inf

    def _bound(self) -> float:
        """How long a majority's word holds."""
        return max(min((one.down_after for one in self._answers.values()), default=0.0), SHORTEST_LEASE)


# -- one for each group ------------------------------------------------------------------------------------------------

_watches: WeakValueDictionary[Any, SentinelWatch] = WeakValueDictionary()


def watch_of(name: str, manager: Any) -> SentinelWatch:
    """The watch over this master by these Sentinels: made for the first client, shared by the next."""
    kwargs = {one: value for one, value in manager.sentinel_kwargs.items() if not one.startswith(("socket_", "retry"))}
    key = (name, frozenset(_addresses(manager)), manager._force_master_ip, repr(sorted(kwargs.items())))
    watch = _watches.get(key)
    if watch is None:  # made twice at once: two do no harm
        watch = _watches[key] = SentinelWatch(name, manager)
    return watch


def _addresses(manager: Any) -> list[tuple[str, int]]:
    kwargs = [one.connection_pool.connection_kwargs for one in manager.sentinels]
    return [(str(one["host"]), int(one["port"])) for one in kwargs]


# -- what redis-py is given --------------------------------------------------------------------------------------------


class Finder:
    """Stands for redis-py's Sentinel in a pool of connections: the watch knows the master."""

    def __init__(self, watch: SentinelWatch, manager: Any) -> None:
        self.watch = watch
        self.sentinels = manager.sentinels

    def discover(self) -> tuple[str, int]:
        self.watch.check()
        master = self.watch.master
        if master is None or master.is_down:
            raise MasterNotFoundError
        return master.address


class SyncFinder(Finder):
    def discover_master(self, name: str) -> tuple[str, int]:
        return self.discover()


class AsyncFinder(Finder):
    async def discover_master(self, name: str) -> tuple[str, int]:
        return self.discover()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _shut(connection: Any) -> None:
    """Wake up a thread that reads there. Closing is left to it: a number of a closed socket may be another's soon."""
    sock = getattr(connection, "_sock", None)
    if sock is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of an SSLSocket, which forgets its TLS


class Watched:
    """A connection to the master that can be cut from another thread."""

    was_cut = False
    connection_pool: Any

    def connect_to(self, address: tuple[str, int]) -> None:
        super().connect_to(address)  # type: ignore[misc]  # a mixin of redis-py's connections
        self.connection_pool.sentinel_manager.watch.joined(self)

    def cut(self) -> None:
        self.was_cut = True
        _shut(self)


class AsyncWatched:
    """The same for asyncio, whose transports belong to a loop."""

    was_cut = False
    connection_pool: Any
    _writer: Any

    async def connect_to(self, address: tuple[str, int]) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        await super().connect_to(address)  # type: ignore[misc]
        self.connection_pool.sentinel_manager.watch.joined(self)

    def cut(self) -> None:
        self.was_cut = True
        writer = self._writer
        if writer is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(writer.transport.abort)
