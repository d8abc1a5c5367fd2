"""What all loads share: the server with sessions, and the figures of a round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.measure import Json
from benchmarks.stage import binaries
from presence_core import Login, Presence
from tests.support.servers import Cluster, Sentinels, Server

TOPOLOGIES: Final = ("one", "unix", "sentinel", "cluster")
SESSIONS: Final = 1000
CALLS: Final = 500_000
"""No round makes more calls than this, however fast they are."""

Say = Callable[[str, str, Json], None]
"""Takes the work, the case and the figures of a round."""


@dataclass(slots=True)
class Tally:
    """The calls of one round. Callers fill it; so ``made`` is a little more than CALLS at most."""

    seconds: list[float] = field(default_factory=list)  #: of calls that were answered
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def made(self) -> int:
        return len(self.seconds) + self.errors.total()

    def figures(self, elapsed: float, processor: float) -> Json:
        """Rates and times are of answered calls, None without any; failed calls count in the processor time too."""
        every = sorted(self.seconds)
        return {
            "rate": round(len(self.seconds) / elapsed, 1),
            "client_us": round(processor / max(1, self.made) * 1e6, 1),
            "p50_ms": round(every[len(every) // 2] * 1000, 2) if every else None,
            "p99_ms": round(every[int(len(every) * 0.99)] * 1000, 2) if every else None,
            "errors": self.errors.total(),
            "messages": dict(self.errors.most_common(3)),
        }


@dataclass(frozen=True, slots=True)
class Redis:
    """A running server, or the group of servers of one topology."""

    topology: str
    url: str
    nodes: list[Server]

    def case(self, name: object) -> str:
        """The name of a case; with the topology, unless it is one server on a port."""
        return f"{name}" if self.topology == "one" else f"{name}, {self.topology}"

    def log_in(self, count: int, prefix: str = "user") -> list[Login]:
        """New sessions of different users."""
        rows = [{"uid": f"{prefix}-{number}", "device": "phone", "app": "shop"} for number in range(count)]
        with Presence.from_url(self.url) as presence:
            return list(logins_of(presence.login_many(rows)))

    @property
    def version(self) -> str:
        info = dict(line.split(":", 1) for line in self.nodes[0].command("INFO", "server").splitlines() if ":" in line)
        return f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"


def logins_of(answers: Iterable[object]) -> Iterator[Login]:
    for answer in answers:
        assert isinstance(answer, Login), answer
        yield answer


@contextmanager
def redis_of(topology: str, *options: str) -> Iterator[Redis]:
    """Start the servers, and stop them at the end. The options are for ``redis-server``."""
    binary = next(iter(binaries().values()), None)
    if binary is None:
        raise SystemExit("No Redis server binary was found.")
    with TemporaryDirectory(prefix="busy-") as name:
        directory = Path(name)
        if topology == "sentinel":
            with Sentinels.start(binary, directory, extra_args=options) as group:
                yield Redis(topology, group.url, group.servers)
        elif topology == "cluster":
            with Cluster.start(binary, directory, extra_args=options) as cluster:
                yield Redis(topology, cluster.url, cluster.nodes)
        else:
            with Server.start(binary, directory, *options, port=topology == "one") as server:
                yield Redis(topology, server.url, [server])
