"""A server with sessions in it, and its own figures about its work."""

from __future__ import annotations

import itertools
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import redis

from benchmarks.data import SEED, Row, imported_logins, logins
from benchmarks.measure import Json, Shares
from presence_core import Login, LoginRefused, Presence, Settings
from presence_core.keyspace import Shard
from presence_core.scripts import EVERY
from tests.support.servers import Server, redis_binary, valkey_binary

SETTINGS: Final = Settings(idle_timeout=21_600, timeout=30)
"""No session may expire during a benchmark, and a busy machine may be slow."""

LOADED_SPAN: Final = 3 * 3600.0
"""The sessions on the stage began within this many seconds."""

CHUNK: Final = 10_000
SAMPLE: Final = 100_000
"""This many tokens are kept for the benchmarks to draw from."""

SLOW_US: Final = 500
"""Script calls that take longer are logged one by one."""

SCRIPT_CALLS: Final = ("evalsha", "evalsha_ro")

# A new uid for every login that a benchmark adds, above the numbers of any loaded stage.
_NEW_USERS: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Ticket:
    """A live session for the benchmarks."""

    uid: str
    session_id: str
    token: str

    @property
    def ref(self) -> str:
        return f"{self.uid}:{self.session_id}"


@dataclass(frozen=True, slots=True)
class Meter:
    """What the server has spent so far."""

    script_calls: int
    us: Counter[str]  #: by command; a command inside a script is counted under its own name and in the script's time
    cpu_us: float

    def __sub__(self, other: Meter) -> Meter:
        us = Counter({name: us - other.us[name] for name, us in self.us.items()})
        return Meter(self.script_calls - other.script_calls, us, self.cpu_us - other.cpu_us)

    @property
    def script_us(self) -> int:
        return sum(self.us[name] for name in SCRIPT_CALLS)

    def called_us(self, shares: Shares) -> float:
        """Of commands that scripts called."""
        return sum(us * shares.get(name, 0.0) for name, us in self.us.items())

    def once_us(self, shares: Shares) -> float:
        """Of all scripts and plain commands, each counted once."""
        return sum(self.us.values()) - self.called_us(shares)


def binaries() -> dict[str, str]:
    """The installed servers."""
    found = {"valkey": valkey_binary(), "redis": redis_binary()}
    return {name: path for name, path in found.items() if path}


class Stage:
    """A server of its own on a unix socket, without persistence; with ``size`` sessions after ``load``."""

    def __init__(
        self, server: str, size: int, directory: Path, *, quiet: bool = False, settings: Settings = SETTINGS
    ) -> None:
        self.server, self.size, self.quiet = server, size, quiet
        # One thread for everything, as by default; with one client it makes no difference.
        self._process = Server.start(binaries()[server], directory)
        self.redis: Any = redis.Redis.from_url(self._process.url)  # Any: redis-py types replies as sync or async
        self.presence = Presence.from_url(self._process.url, settings)
        self.random = random.Random(SEED)
        self.tickets: list[Ticket] = []
        self.load_seconds = 0.0
        self.memory = (0, 0)
        self._new_users = itertools.count(_NEW_USERS)
        self._names = {script.sha: script.name for script in EVERY}
        self._warm_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.presence.close()
        self.redis.close()
        self._process.kill()

    def progress(self, text: str) -> None:
        if not self.quiet:
            print(f"  {self.server} {self.size:,}: {text} …", file=sys.stderr, flush=True)

    def _warm_up(self) -> None:
        """Memory in use before the first session, which is not counted as a session's."""
        self.presence.counts()
        for script in EVERY:
            self.redis.script_load(script.text)

    def load(self) -> None:
        """Log the sessions in, oldest first; measure the memory that they took."""
        self.progress("loading")
        before = self.settled_memory()
        every = max(1, self.size // SAMPLE)
        rows = imported_logins(self.size, time.time(), LOADED_SPAN)
        for first in range(0, self.size, CHUNK):
            chunk = list(itertools.islice(rows, CHUNK))
            begin = time.perf_counter()
            done = self.presence.login_many(chunk, imported=True)
            self.load_seconds += time.perf_counter() - begin
            self.tickets += _tickets(done[(-first) % every :: every])
        self.memory = before, self.settled_memory()
        self.redis.config_set("slowlog-log-slower-than", SLOW_US)
        self.redis.config_set("slowlog-max-len", 20_000)

    @property
    def url(self) -> str:
        """The server's clock."""
        return self._process.url

    def commands(self) -> int:
        """Number of commands that the server has run."""
        return int(self.redis.info("stats")["total_commands_processed"])

    # -- material -----------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> Shard:
        """The one shard of a single server."""
        return self.presence.internal.context.keys.shards[0]

    def ticket(self) -> Ticket:
        return self.random.choice(self.tickets)

    def refs(self, count: int) -> list[str]:
        """Distinct sessions at random."""
        return [ticket.ref for ticket in self.random.sample(self.tickets, count)]

    def new_rows(self, count: int) -> list[Row]:
        """Logins of people who are not online."""
        first = next(self._new_users)
        self._new_users = itertools.count(first + count)
        return list(logins(count, first_user=first))

    def new_tickets(self, rows: Iterable[Row]) -> list[Ticket]:
        return list(_tickets(self.presence.login_many(rows)))

    def set_clock(self, ms: int | None) -> None:
        """The time that scripts use as now, by the hook for tests; None: the server's own clock."""
        self.presence.internal.context.now = "" if ms is None else str(ms)

    # -- what the server says -----------------------------------------------------------------------------------------

    def about(self) -> Json:
        info = self.redis.info("server")
        return {
            "server": f"Valkey {info['valkey_version']}"
            if "valkey_version" in info
            else f"Redis {info['redis_version']}",
            "python": platform.python_version(),
            "redis_py": redis.__version__,
            "machine": platform.machine(),
            "sessions": self.size,
            "seed": SEED,
        }

    def meter(self) -> Meter:
        stats, us = self.redis.info("commandstats"), Counter[str]()
        for full, stat in stats.items():
            name = full.removeprefix("cmdstat_")
            if not name.startswith(_NOT_WORK):
                us[name.partition("|")[0]] += stat["usec"]
        calls = sum(stats[f"cmdstat_{name}"]["calls"] for name in SCRIPT_CALLS if f"cmdstat_{name}" in stats)
        cpu = self.redis.info("cpu")
        return Meter(calls, us, (cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]) * 1e6)

    def waited_ns(self, *, server_only: bool = False) -> int | None:
        """How long server and client together have waited for a free core. Only Linux reports it."""
        processes = (self._process.pid,) if server_only else (self._process.pid, "self")
        try:
            files = (Path(f"/proc/{process}/schedstat") for process in processes)
            return sum(int(file.read_text().split()[1]) for file in files)
        except (OSError, IndexError, ValueError):
            return None

    def slow_log_clear(self) -> None:
        self.redis.slowlog_reset()

    def slow_log(self) -> dict[str, list[float]]:
        """Script → ms of its calls that took longer than SLOW_US, since the log was last cleared or read."""
        calls: dict[str, list[float]] = {}
        for entry in self.redis.slowlog_get(20_000):
            words = entry["command"].split(b" ", 2)
            if words[0].upper().startswith(b"EVALSHA") and (name := self._names.get(words[1].decode())):
                calls.setdefault(name, []).append(entry["duration"] / 1000)
        self.redis.slowlog_reset()
        return calls

    def settled_memory(self) -> int:
        """Bytes in use without clients' buffers, once the hash tables have stopped growing."""
        last = -1
        for _ in range(40):
            info = self.redis.info("memory")
            now = int(info["used_memory"]) - int(info["mem_clients_normal"])
            if abs(now - last) < 4096:
                return now
            last = now
            time.sleep(0.5)
        return last


_NOT_WORK: Final = ("info", "monitor", "echo", "slowlog|", "config|", "client|", "hello", "select", "auth", "exec")
"""Our own commands, those that open a connection, and those that contain commands counted elsewhere."""


def _tickets(answers: Iterable[Login | LoginRefused]) -> Iterator[Ticket]:
    for answer in answers:
        assert isinstance(answer, Login), answer
        yield Ticket(answer.session.uid, answer.session.session_id, answer.token)
