"""Runs the peers' programs on one server, and measures the time of an operation and its cost on the server."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import redis

from benchmarks.measure import Json, shares_of_scripts
from benchmarks.peers.install import PLACE, ROOT, Kind, command
from benchmarks.stage import SETTINGS, binaries
from tests.support.servers import Server

_NOT_WORK: Final = (
    "info",
    "monitor",
    "echo",
    "slowlog|",
    "config|",
    "client|",
    "latency|",
    "dbsize",
    "hello",
    "select",
)
"""Commands of this benchmark, and commands that open a connection."""


class PeerDied(Exception):
    """The peer's program ended before it answered: most likely out of memory."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an order."""

    us: list[float]
    answers: list[Any]
    client_us: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What the server spent on some calls, in all, µs."""

    commands: float  #: running commands; commands inside scripts and transactions are counted once
    cpu: float  #: the main thread, including sockets
    waited: float  #: waiting for a free core


class Peer:
    """One peer's program, with a database of its own."""

    def __init__(self, kind: Kind, server: PeerServer, database: int) -> None:
        self.kind = kind
        self.redis = server.client(database)
        environ = os.environ | {
            "PEER_MODULES": str(PLACE / "node"), "PEER_TTL": str(SETTINGS.idle_timeout), "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        words = command(kind, f"{server.url}?db={database}")
        self._process = subprocess.Popen(
            words, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the driver; without it the programs read the end of stdin, and end
        )  # fmt: skip
        self.about = ""
        self.alive = True
        self.how: dict[str, str | None] = {}
        self.tokens: list[str] = []
        self.lua: dict[str, dict[str, float]] = {}  # verb → command → share of its calls that came from scripts

    def greet(self) -> None:
        """Wait for the program's first line, which names it and its verbs."""
        hello = self._answer()
        self.about, self.how = hello["about"], hello["how"]

    def close(self) -> None:
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):  # the order that it was to read when it died
            self._process.communicate()
        self.redis.close()

    def can(self, verb: str) -> bool:
        return verb in self.how

    def do(self, verb: str, each: Iterable[Any]) -> Done:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"do": verb, "each": list(each)}, ensure_ascii=False) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the next read finds that the program has ended
        answer = self._answer()
        return Done(answer["us"], answer["answers"], answer["cpu_us"])

    def _answer(self) -> Json:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self.alive = False
            raise PeerDied(f"The program of {self.kind.title} ended before it answered.")
        answer: Json = json.loads(line)
        return answer


class PeerServer:
    """The one server, on a unix socket, without persistence; each peer has a database on it."""

    def __init__(self, name: str, directory: Path) -> None:
        self._process = Server.start(binaries()[name], directory)
        self.url = self._process.url
        self.redis = self.client(0)
        self.redis.config_set("slowlog-max-len", 20_000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.redis.close()
        self._process.kill()

    def client(self, database: int) -> Any:
        return redis.Redis.from_url(self.url, db=database)

    def version(self) -> str:
        info = self.redis.info("server")
        return f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"

    def settled_memory(self) -> int:
        """Bytes in use without clients' buffers, once the hash tables have stopped growing."""
        last, calm = -1, 0
        for _ in range(200):
            info = self.redis.info("memory")
            now = int(info["used_memory"]) - int(info["mem_clients_normal"])
            # Newer servers report what is growing; on older ones, wait until half a second changes nothing.
            growing = info.get("mem_overhead_db_hashtable_rehashing")
            calm = calm + 1 if abs(now - last) < 4096 and not growing else 0
            if calm == (5 if growing is None else 1):
                break
            last = now
            time.sleep(0.1)
        return now

    # -- what it spends -----------------------------------------------------------------------------------------------

    def measured(self, peer: Peer, verb: str, each: list[Any]) -> tuple[Done, Cost]:
        before = self._spent()
        done = peer.do(verb, each)
        after = self._spent()
        commands = after[0] - before[0]
        share = peer.lua.get(verb, {})
        # EXEC includes the time of its commands, which are also listed under their own names; so are those of scripts.
        once = sum(us * (1 - share.get(name, 0.0)) for name, us in commands.items() if name != "exec")
        return done, Cost(once, after[1] - before[1], after[2] - before[2])

    def _spent(self) -> tuple[Counter[str], float, float]:
        stats, cpu = self.redis.info("commandstats"), self.redis.info("cpu")
        used = Counter({
            name: stat["usec"]
            for full, stat in stats.items()
            if not (name := full.removeprefix("cmdstat_")).startswith(_NOT_WORK)
        })  # fmt: skip
        main_thread = (cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]) * 1e6
        return used, main_thread, self.waited_us()

    def waited_us(self) -> float:
        """Only Linux reports it; 0.0 elsewhere."""
        try:
            return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[1]) / 1000
        except (OSError, IndexError, ValueError):
            return 0.0

    def learn(self, peer: Peer, verb: str, give: Callable[[], Any]) -> Done:
        """Run one call. If it runs scripts, run another under MONITOR for the share of each command's calls that is
        theirs."""
        scripts = self._script_calls()
        done = peer.do(verb, [give()])
        if self._script_calls() == scripts:
            return done
        peer.lua[verb] = dict(shares_of_scripts(self.redis, lambda: peer.do(verb, [give()])))
        return done

    def _script_calls(self) -> int:
        stats = self.redis.info("commandstats")
        return sum(stat["calls"] for name, stat in stats.items() if name in ("cmdstat_evalsha", "cmdstat_evalsha_ro"))


@contextmanager
def programs(kinds: Iterable[Kind], server: PeerServer) -> Iterator[list[Peer]]:
    """Start all programs, each with the next database; all are stopped at the end."""
    peers: list[Peer] = []
    try:
        for database, kind in enumerate(kinds):
            peers.append(Peer(kind, server, database))
        for peer in peers:
            peer.greet()
        yield peers
    finally:
        for peer in peers:
            peer.close()
