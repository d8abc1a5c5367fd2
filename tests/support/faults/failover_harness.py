"""A real trio behind Sentinel, faults for it, and a log of kicks and validations to check afterwards.

The promise: a validation that *started* after a confirmed kick *returned* is not live, on any client.
``live_after_kick`` lists the exceptions. ``Trio`` is one master, two replicas, three Sentinels (down-after 1,500 ms).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from presence_core import AsyncPresence, Login, OutcomeUnknown, Presence, PresenceError, Settings, Unavailable
from tests.support.facade import EventLoop
from tests.support.faults.proxy import Proxy
from tests.support.servers import HOST, Sentinels, Server, missing, redis_binary, valkey_binary, wait_for

NAMESPACE = "failover"
SETTINGS = Settings(namespace=NAMESPACE, timeout=2)


# -- The log -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kick:
    ref: str
    returned: float  #: monotonic
    confirmed: bool


@dataclass(frozen=True)
class Check:
    ref: str
    started: float  #: monotonic
    live: bool
    client: str


@dataclass
class Log:
    """Appended to by many threads: list.append needs no lock."""

    kicks: list[Kick] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    unavailable: int = 0  #: approximate number of validations that raised
    wrong: list[str] = field(default_factory=list)  #: validators with any other error

    @property
    def confirmed(self) -> list[str]:
        """Refs of confirmed kicks."""
        return [kick.ref for kick in self.kicks if kick.confirmed]


def live_after_kick(log: Log, *, confirmed: bool = True) -> list[Check]:
    """Validations that started after the kick of their session returned, and were live. ``confirmed=False`` also counts
    from kicks that were not confirmed."""
    returned: dict[str, float] = {}
    for kick in log.kicks:
        if kick.confirmed or not confirmed:
            returned[kick.ref] = min(kick.returned, returned.get(kick.ref, kick.returned))
    return [check for check in log.checks if check.live and check.started > returned.get(check.ref, float("inf"))]


def summary(log: Log) -> str:
    """One line for a table: the number of kicks, of sessions accepted after their kick, how often, and until when."""
    late = live_after_kick(log)
    returned = {kick.ref: kick.returned for kick in reversed(log.kicks) if kick.confirmed}
    last = max((check.started - returned[check.ref] for check in late), default=0.0)
    return (
        f"{len(log.kicks)} kicks, {len(log.confirmed)} confirmed; {len({check.ref for check in late})} sessions "
        f"accepted {len(late)} times after their kick, the last {last:.1f} s after it; {len(log.checks)} validations "
        f"answered, {log.unavailable} refused"
    )


class Validators:
    """Long-lived clients that validate each session in turn, and keep their connections.

    ``with Validators(url, logins, log):`` starts threads with a sync client each, and tasks with an async client each.
    Connections in use when a master stops end by their time limit; see ``resting`` for the others.
    """

    def __init__(
        self,
        url: str,
        logins: Iterable[Login],
        log: Log,
        *,
        threads: int = 1,
        tasks: int = 1,
        touch: bool = True,
        pause: float = 0.001,
        settings: Settings = SETTINGS,
    ) -> None:
        self._url, self._log, self._settings = url, log, settings
        self._logins = list(logins)
        self._touch, self._pause = touch, pause
        self._threads = [threading.Thread(target=self._sync, args=(n,), daemon=True) for n in range(threads)]
        self._tasks = tasks
        self._over = threading.Event()
        self._rest = False
        self._busy: set[str] = set()
        self._answers: dict[str, bool] = {}
        self._served: set[str] = set()

    def __enter__(self) -> Self:
        self._loop = EventLoop()
        for thread in self._threads:
            thread.start()
        self._running = [asyncio.run_coroutine_threadsafe(self._async(n), self._loop.loop) for n in range(self._tasks)]
        clients = len(self._threads) + self._tasks
        wait_for("an answer to each client", lambda: len(self._served) == clients or self._log.wrong)
        return self

    def __exit__(self, *failed: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)
        for running in self._running:
            running.result(30)
        self._loop.close()

    def seconds(self, seconds: float) -> None:
        """Let them validate for this many more seconds."""
        self._over.wait(seconds)

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Meanwhile they validate nothing and keep their connections, so these meet no fault that could close them."""
        self._rest = True
        wait_for("validators at rest", lambda: not self._busy)
        yield
        self._rest = False

    def _order(self, number: int) -> Iterator[Login]:
        """Each client begins with another session."""
        first = number * 7 % len(self._logins)
        return itertools.cycle(self._logins[first:] + self._logins[:first])

    def _sync(self, number: int) -> None:
        name = f"sync {number}"
        with Presence.from_url(self._url, self._settings) as presence:
            for login in self._order(number):
                if self._over.wait(self._pause):
                    return
                with self._asking(name, login) as may_ask:
                    if may_ask:
                        self._answers[name] = bool(presence.validate(login.token, touch=self._touch))

    async def _async(self, number: int) -> None:
        name = f"async {number}"
        async with AsyncPresence.from_url(self._url, self._settings) as presence:
            for login in self._order(number):
                await asyncio.sleep(self._pause)
                if self._over.is_set():
                    return
                with self._asking(name, login) as may_ask:
                    if may_ask:
                        self._answers[name] = bool(await presence.validate(login.token, touch=self._touch))

    @contextlib.contextmanager
    def _asking(self, name: str, login: Login) -> Iterator[bool]:
        """Log the replies of the calls within."""
        self._busy.add(name)
        started = time.monotonic()
        try:
            yield not self._rest
        except Unavailable:
            self._log.unavailable += 1
        except Exception as error:
            self._log.wrong.append(repr(error))
        else:
            if (live := self._answers.pop(name, None)) is not None:
                self._log.checks.append(Check(login.session.ref, started, live, name))
                self._served.add(name)
        finally:
            self._busy.discard(name)


def kick_each(url: str, logins: Iterable[Login], log: Log, settings: Settings, *, seconds: float = 30) -> None:
    """Kick each with a client of its own, as the command does.

    A failing kick is retried for up to ``seconds``; a kick that ended as OutcomeUnknown is repeated, as the docs say.
    """
    until = time.monotonic() + seconds
    for login in logins:
        session = login.session
        while time.monotonic() < until:
            try:
                presence = Presence.from_url(url, settings)
                try:
                    result = presence.kick(session.uid, session.session_id, by="staff", reason="test")
                finally:
                    presence.close(wait=0)  # as if it were killed: it does not wait for its held changes
                log.kicks.append(Kick(session.ref, time.monotonic(), bool(result.confirmed)))
                break
            except (OutcomeUnknown, Unavailable):
                time.sleep(0.02)
            except PresenceError as error:
                log.wrong.append(f"kick: {error!r}")
                break


# -- The trio and its faults -------------------------------------------------------------------------------------------


class Trio:
    """``with Trio.start(directory) as trio``. ``first`` is its first master; see ``again``.

    With ``proxies`` all of them talk through proxies, and so does the worker at ``worker_url``: see ``partition``.
    """

    def __init__(self, sentinels: Sentinels, running: ExitStack, fronts: dict[int, Proxy], own: list[Proxy]) -> None:
        self.sentinels = sentinels
        self.servers = sentinels.servers
        self.url = sentinels.url
        self._running = running
        self._fronts = fronts  #: by the port behind it
        self._own = own  #: the worker's proxies to the Sentinels
        self.first = sentinels.master()
        self._beyond: set[int] = set()  #: the Sentinels on the other side of a partition

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        min_replicas: int = 0,
        max_lag: int = 1,
        proxies: bool = False,
        binary: str | None = None,
    ) -> Self:
        """``min_replicas``, ``max_lag`` (s): the servers' min-replicas-to-write and min-replicas-max-lag."""
        binary = binary or valkey_binary() or redis_binary() or missing("any Redis server")
        fence = ["--min-replicas-to-write", str(min_replicas), "--min-replicas-max-lag", str(max_lag)]
        fronts: dict[int, Proxy] = {}
        with ExitStack() as running:

            def front(port: int) -> int:
                fronts[port] = running.enter_context(Proxy(port, loop))
                return fronts[port].port

            if proxies:
                loop = EventLoop()
                running.callback(loop.close)
            sentinels = Sentinels.start(binary, directory, extra_args=fence, front=front if proxies else None)
            running.callback(sentinels.stop)
            own = [running.enter_context(Proxy(sentinel, loop)) for sentinel in sentinels.sentinels] if proxies else []
            return cls(sentinels, running.pop_all(), fronts, own)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failed: object) -> None:
        self._running.close()

    @property
    def worker_url(self) -> str:
        """For the client that a partition leaves on the old master's side."""
        hosts = ",".join(proxy.address for proxy in self._own)
        return f"redis+sentinel://{hosts}/{self.sentinels.master_name}/0"

    @property
    def majority_url(self) -> str:
        """For clients on the majority's side: names only the Sentinels there."""
        hosts = ",".join(f"{HOST}:{sentinel.announced}" for sentinel in self._majority())
        return f"redis+sentinel://{hosts}/{self.sentinels.master_name}/0"

    @property
    def master(self) -> Server:
        """The master according to the first Sentinel that answers."""
        return self.sentinels.master()

    def logins(self, count: int) -> list[Login]:
        """Log in sessions that every server has."""
        with Presence.from_url(self.url, SETTINGS) as presence:
            logins = presence.login_many({"uid": f"u{n}", "device": "phone"} for n in range(count))
        wait_for("replicas to have them", lambda: len({server.command("DBSIZE") for server in self.servers}) == 1)
        return [login for login in logins if isinstance(login, Login)]

    def wait_switched(self, seconds: float = 30) -> None:
        """Wait until every reachable Sentinel names another master than ``first``."""

        def is_named(sentinel: Server) -> bool:
            return self.sentinels._master_by(sentinel) is not self.first

        wait_for("another master", lambda: all(map(is_named, self._majority())), seconds)

    def fail_over(self) -> None:
        """``SENTINEL FAILOVER``: a manual failover; the old master is well."""
        self.sentinels.sentinels[-1].command("SENTINEL", "FAILOVER", self.sentinels.master_name)

    def partition(self, *, sentinels: int = 0, replicas: int = 0) -> None:
        """Cut ``first``, the worker and this many Sentinels and replicas off from all others, without closing
        connections."""
        self._beyond = set(range(sentinels))
        with_it = [self.first, *[server for server in self.servers if server is not self.first][:replicas]]
        there = {Sentinels.source(self.servers.index(server)) for server in with_it}
        there |= {Sentinels.source(3 + n) for n in self._beyond}
        behind = {server.port for server in with_it} | {self.sentinels.sentinels[n].port for n in self._beyond}
        for port, proxy in self._fronts.items():
            side = port in behind
            # Clients call from HOST. On the majority's side they do not know the other side. The worker has proxies of
            # its own to the Sentinels, and to the master that they name.
            proxy.holds = lambda source, side=side: source != HOST and (source in there) != side  # type: ignore[misc]
        for number, proxy in enumerate(self._own):
            proxy.holds = lambda source, number=number: number not in self._beyond  # type: ignore[misc]

    @contextlib.contextmanager
    def silenced(self, sentinels: int) -> Iterator[None]:
        """This many Sentinels do not answer the worker meanwhile. To stop them would change their behaviour for 30
        s."""
        for proxy in self._own[:sentinels]:
            proxy.holds = lambda source: True
        try:
            yield
        finally:
            self.heal()

    def heal(self) -> None:
        """End the partition."""
        for proxy in [*self._fronts.values(), *self._own]:
            proxy.holds = lambda source: False
        self._beyond = set()

    def again(self) -> None:
        """Make it complete for the next fault: stopped processes continue, killed ones start again, all agree."""
        if self._fronts:
            self.heal()
        for server in [*self.servers, *self.sentinels.sentinels]:
            server.resume()
            if not server.running:
                server.restart()
        self.sentinels.wait_ok(60)
        self.first = self.sentinels.master()

    def _majority(self) -> list[Server]:
        """The Sentinels on this side of a partition."""
        return [
            sentinel
            for n, sentinel in enumerate(self.sentinels.sentinels)
            if n not in self._beyond and sentinel.running
        ]


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    """SIGSTOP the server within the block, and SIGCONT it afterwards."""
    server.pause()
    try:
        yield
    finally:
        server.resume()
