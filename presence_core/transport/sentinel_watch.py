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
from presence_core.fork_safety import renew_in_child
from presence_core.models import SentinelHealth

ASK_EVERY: Final = 0.5
"""Seconds between two questions to a Sentinel."""

TIMEOUT: Final = 1.0
"""Seconds that a Sentinel has to answer. Each has its own thread, so that none waits for another."""

SHORTEST_LEASE: Final = 1.0
"""Seconds. A shorter ``down-after`` would leave no time for a second question."""

ANSWER_COUNTS: Final = 60.0
"""Seconds for which the last answer of a silent Sentinel counts in the choice of the master."""

EVENTS: Final = ("+switch-master", "+promoted-slave")  # of the two, the Sentinel that leads sends the second first


@dataclass(frozen=True, slots=True)
class Master:
    """The master, as far as Sentinels have named it."""

    address: tuple[str, int]
    epoch: int
    is_down: bool  #: every Sentinel that names it says that it is down


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one Sentinel."""

    asked: float  #: when the question was sent, monotonic
    address: tuple[str, int] | None = None  #: None: it knows no master of that name
    epoch: int = 0
    is_down: bool = False
    down_after: float = 30.0  #: seconds
    others: int = 0  #: other Sentinels that it knows


class SentinelWatch:
    """Follows one master. Get it by ``watch_of``; it runs while it has clients, from the first call on."""

    def __init__(self, name: str, manager: Any) -> None:
        self.name = name
        self.master: Master | None = None
        self._kwargs = dict(manager.sentinel_kwargs) | {
            "socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT, "retry": Retry(NoBackoff(), 0),
        }  # fmt: skip
        self._ip = _forced_ip(manager)
        self.sentinels = _addresses(manager)
        self.majority = len(self.sentinels) // 2 + 1
        self._reset()
        renew_in_child(self, SentinelWatch._reset)

    def _reset(self) -> None:
        """Also in a forked child: the parent's threads are not there, and its connections must stay untouched."""
        self._lock = threading.RLock()
        self._clients: WeakSet[Any] = WeakSet()
        self._connections: WeakSet[Any] = WeakSet()
        self._answers: dict[int, Answer] = {}
        self._failed: set[int] = set()  #: the Sentinels whose latest connection has failed
        self._lease = -inf  #: monotonic
        self._stopping: threading.Event | None = None  #: of the threads that run now
        self._events: dict[int, Any] = {}

    # -- for clients ---------------------------------------------------------------------------------------------------

    @property
    def is_sure(self) -> bool:
        """Whether a majority has named the master recently enough."""
        return self.master is not None and time.monotonic() < self._lease

    def wait(self, client: Any, until: float, *, since: float = -inf) -> Iterator[float]:
        """Yield seconds to sleep, until the master is sure or the time is up. ``since``: only answers to questions that
        were sent after this time count."""
        self._run_for(client)
        pause = 0.002
        while not (self.is_sure and (since == -inf or self._asked(self.majority) >= since)):
            left = until - time.monotonic()
            if left <= 0:
                return
            yield min(pause, left)
            pause = min(pause * 1.5, 0.05)

    def wait_for_each(self, client: Any, until: float) -> Iterator[float]:
        """Yield seconds to sleep, until each Sentinel has answered or failed, or the time is up."""
        self._run_for(client)
        while len(self._answers.keys() | self._failed) < len(self.sentinels) and time.monotonic() < until:
            yield 0.01

    def check(self, connection: Any = None) -> None:
        """Raise unless the master is sure, and this connection leads to it."""
        master = self.master
        if master is None:
            raise MasterNotFoundError
        if not self.is_sure:
            raise Unavailable(
                f"Only {len(self._recent())} of {len(self.sentinels)} Sentinels of {self.name} answer ({self.hosts}): "
                "without a majority, the master may have been replaced.",
                self.hosts,
            )
        if connection is not None and self.is_other(connection):
            raise redis.ConnectionError(f"{connection.host}:{connection.port} is no longer the master")

    def is_other(self, connection: Any) -> bool:
        """Whether a connection leads, or has led, to another server than the present master."""
        master = self.master
        return connection.was_cut or master is None or (connection.host, connection.port) != master.address

    @property
    def hosts(self) -> str:
        """The addresses of the Sentinels, as text."""
        return ", ".join(f"{host}:{port}" for host, port in self.sentinels)

    def health(self) -> SentinelHealth | None:
        """The state of the Sentinels; None before the first answer."""
        recent = self._recent()
        if not recent:
            return None
        known = 1 + max(answer.others for answer in recent)
        return SentinelHealth(len(self.sentinels), len(recent), known, min(answer.down_after for answer in recent))

    def _recent(self) -> list[Answer]:
        since = time.monotonic() - self._bound()
        return [
            answer for answer in list(self._answers.values()) if answer.address is not None and answer.asked > since
        ]

    def joined(self, connection: Any) -> None:
        """Add a connection, to be cut as soon as it does not lead to the master."""
        with self._lock:
            connection.was_cut = False
            self._connections.add(connection)
        if self.is_other(connection):
            connection.cut()

    def leave(self, client: Any) -> None:
        """Remove a client. The last one ends the threads."""
        with self._lock:
            self._clients.discard(client)
            if not self._clients:
                self._stop()

    # -- the threads ---------------------------------------------------------------------------------------------------

    def _run_for(self, client: Any) -> None:
        if self._stopping is not None and client in self._clients:
            return
        with self._lock:
            self._clients.add(client)
            if self._stopping is None:
                self._stopping = threading.Event()
                for number, address in enumerate(self.sentinels):
                    args = (number, address, self._stopping)
                    with contextlib.suppress(RuntimeError):  # the interpreter is shutting down
                        threading.Thread(target=self._follow, args=args, name="presence-sentinel", daemon=True).start()

    def _stop(self) -> None:
        if self._stopping is not None:
            self._stopping.set()
            self._stopping = None
            self._answers, self._failed, self._lease = {}, set(), -inf  # outdated for the next client
            for events in list(self._events.values()):
                _shut(events.connection)  # wakes the thread that reads there
            self._events = {}

    def _follow(self, number: int, address: tuple[str, int], stopping: threading.Event) -> None:
        while not stopping.is_set():
            with (
                contextlib.suppress(RedisError, OSError, ValueError),
                redis.Redis(*address, **self._kwargs) as sentinel,
            ):
                self._converse(number, sentinel, stopping)
            self._expire(number, stopping)
            stopping.wait(ASK_EVERY)

    def _converse(self, number: int, sentinel: Any, stopping: threading.Event) -> None:
        with sentinel.pubsub() as events:
            events.subscribe(*EVENTS)
            with self._lock:
                if stopping.is_set():
                    return
                self._events[number] = events
            may_listen = True
            while not stopping.is_set():
                asked = time.monotonic()
                answer = self._ask(sentinel, asked)
                with self._lock:
                    if stopping.is_set():
                        return
                    if not self._clients:  # all were dropped without a close
                        self._stop()
                        return
                    self._take(number, answer)
                try:
                    while may_listen and (left := asked + ASK_EVERY - time.monotonic()) > 0 and not stopping.is_set():
                        event = events.get_message(timeout=left)
                        if event is not None and event["type"] == "message":
                            break
                except redis.ResponseError:  # its ACL user may not subscribe: ask it at intervals only
                    may_listen = False
                if not may_listen:
                    stopping.wait(ASK_EVERY)

    def _ask(self, sentinel: Any, asked: float) -> Answer:
        """Ask both in one round trip: the first command names a new master at once, the second has its epoch."""
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
        is_old = (host, port) == (
            _text(state["ip"]),
            int(state["port"]),
        )  # "down" is about the old master until the failover ends
        return Answer(
            asked,
            (self._ip or host, port),
            int(state["config-epoch"]),
            is_old and bool(state["is_sdown"] or state["is_odown"]),
            int(state["down-after-milliseconds"]) / 1000,
            int(state["num-other-sentinels"]),
        )

    # -- the choice, under the lock -----------------------------------------------------------------------------------

    def _take(self, number: int, answer: Answer) -> None:
        self._answers[number] = answer
        self._failed.discard(number)
        self._choose_master()

    def _expire(self, number: int, stopping: threading.Event) -> None:
        """Note that a Sentinel is silent. Drop its last answer, when it is old enough."""
        with self._lock:
            if stopping.is_set():
                return
            self._failed.add(number)
            last = self._answers.get(number)
            if last is not None and time.monotonic() - last.asked > ANSWER_COUNTS:
                del self._answers[number]
                self._choose_master()

    def _choose_master(self) -> None:
        answers = [answer for answer in self._answers.values() if answer.address is not None]
        if answers:
            epoch = max(answer.epoch for answer in answers)
            latest = [answer for answer in answers if answer.epoch == epoch]
            votes = Counter(answer.address for answer in latest)
            before = self.master and self.master.address
            address = max(votes, key=lambda named: (votes[named], named == before))
            assert address is not None
            is_down = all(answer.is_down for answer in latest if answer.address == address)
            self.master = Master(address, epoch, is_down)
            if address != before:
                for connection in filter(self.is_other, list(self._connections)):
                    connection.cut()
        self._lease = self._asked(self.majority) + self._bound()

    def _asked(self, count: int) -> float:
        """The time of the latest question that so many Sentinels have answered."""
        answers = list(self._answers.values())
        times = sorted((answer.asked for answer in answers if answer.address is not None), reverse=True)
        return times[count - 1] if len(times) >= count else -inf

    def _bound(self) -> float:
        """For how many seconds the answers of a majority hold."""
        return max(min((answer.down_after for answer in self._answers.values()), default=0.0), SHORTEST_LEASE)


# -- one watch a group -------------------------------------------------------------------------------------------------

_watches: WeakValueDictionary[Any, SentinelWatch] = WeakValueDictionary()


def watch_of(name: str, manager: Any) -> SentinelWatch:
    """The watch over this master by these Sentinels. All clients share one."""
    kwargs = {
        name_: value for name_, value in manager.sentinel_kwargs.items() if not name_.startswith(("socket_", "retry"))
    }
    key = (name, frozenset(_addresses(manager)), _forced_ip(manager), repr(sorted(kwargs.items())))
    watch = _watches.get(key)
    if watch is None:  # two at once do no harm
        watch = _watches[key] = SentinelWatch(name, manager)
    return watch


def _forced_ip(manager: Any) -> str | None:
    """The caller's ``force_master_ip``. The asyncio Sentinel of redis-py 5 has none."""
    return getattr(manager, "_force_master_ip", None)


def _addresses(manager: Any) -> list[tuple[str, int]]:
    kwargs = [sentinel.connection_pool.connection_kwargs for sentinel in manager.sentinels]
    return [(str(options["host"]), int(options["port"])) for options in kwargs]


# -- what redis-py calls ----------------------------------------------------------------------------------------------


class Finder:
    """Takes the place of redis-py's Sentinel in a pool of connections: the watch knows the master."""

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
    """Wake up a thread that reads there. That thread closes the socket: another may soon have its number."""
    sock = getattr(connection, "_sock", None)
    if sock is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # an SSLSocket's own shutdown would drop its TLS state


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
