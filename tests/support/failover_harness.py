"""A real trio behind Sentinel, the faults that befall it, and a log of kicks and validations to check afterwards.

The promise: a validation that *started* after a confirmed kick *returned* is not live, on any client.
``live_after_kick`` lists those that were. ``Trio`` is one master, two replicas, three Sentinels (down-after 1,500 ms).
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
from tests.facade import EventLoop
from tests.proxy import Proxy
from tests.servers import HOST, Sentinels, Server, missing, redis_binary, valkey_binary, wait_for

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
    unavailable: int = 0  #: about so many validations that raised
    wrong: list[str] = field(default_factory=list)  #: validators that heard anything else

    @property
    def confirmed(self) -> list[str]:
        """The refs whose kick returned confirmed."""
        return [kick.ref for kick in self.kicks if kick.confirmed]


def live_after_kick(log: Log, *, confirmed: bool = True) -> list[Check]:
    """Validations that started after the kick of their session returned, and were live. ``confirmed=False`` counts from
    kicks that were not confirmed too."""
    returned: dict[str, float] = {}
    for kick in log.kicks:
        if kick.confirmed or not confirmed:
            returned[kick.ref] = min(kick.returned, returned.get(kick.ref, kick.returned))
    return [check for check in log.checks if check.live and check.started > returned.get(check.ref, float("inf"))]


def summary(log: Log) -> str:
    """One line for a table: how many kicks, sessions that were accepted after theirs, how often, and until when."""
    late = live_after_kick(log)
    returned = {kick.ref: kick.returned for kick in reversed(log.kicks) if kick.confirmed}
    last = max((check.started - returned[check.ref] for check in late), default=0.0)
    return (
        f"{len(log.kicks)} kicks, {len(log.confirmed)} confirmed; {len({check.ref for check in late})} sessions "
        f"accepted {len(late)} times after their kick, the last {last:.1f} s after it; {len(log.checks)} validations "
        f"answered, {log.unavailable} refused"
    )


class Validators:
    """Long-lived clients that ask after each session in turn, and keep their connections.

    ``with Validators(url, logins, log):`` starts threads with a sync client each, and tasks with an async client each.
    Connections that are in use when a master stops end by their time limit; see ``resting`` for those that are not.
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
        """Let them ask for so long more."""
        self._over.wait(seconds)

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """They ask nothing meanwhile and keep their connections, which so meet no fault that could end them."""
        self._rest = True
        wait_for("validators at rest", lambda: not self._busy)
        yield
        self._rest = False

    def _order(self, number: int) -> Iterator[Login]:
        """Each client begins elsewhere."""
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
        """Note what is answered within."""
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
    """Kick each with a client of its own, as the command does. One that could not be made is tried until ``seconds``
    are over; a kick that ended as OutcomeUnknown is made again, as the docs say."""
    until = time.monotonic() + seconds
    for login in logins:
        session = login.session
        while time.monotonic() < until:
            try:
                presence = Presence.from_url(url, settings)
                try:
                    result = presence.kick(session.uid, session.session_id, by="staff", reason="test")
                finally:
                    presence.close(wait=0)  # as if it were killed: it does not wait until nothing is held
                log.kicks.append(Kick(session.ref, time.monotonic(), bool(result.confirmed)))
                break
            except (OutcomeUnknown, Unavailable):
                time.sleep(0.02)
            except PresenceError as error:
                log.wrong.append(f"kick: {error!r}")
                break


# -- The trio and its faults -------------------------------------------------------------------------------------------


class Trio:
    """``with Trio.start(directory) as trio``. ``first`` is the master that it had at first; see ``again``.

    With ``proxies`` all of them meet through proxies, and so does the worker at ``worker_url``: see ``partition``.
    """

    def __init__(self, sentinels: Sentinels, running: ExitStack, fronts: dict[int, Proxy], own: list[Proxy]) -> None:
        self.sentinels = sentinels
        self.servers = sentinels.servers
        self.url = sentinels.url
        self._running = running
        self._fronts = fronts  #: by the port behind
        self._own = own  #: the worker's ways to the Sentinels
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
            own = [running.enter_context(Proxy(one, loop)) for one in sentinels.sentinels] if proxies else []
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
        """For clients on the side of the rest: names only the Sentinels that are there."""
        hosts = ",".join(f"{HOST}:{sentinel.announced}" for sentinel in self._majority())
        return f"redis+sentinel://{hosts}/{self.sentinels.master_name}/0"

    @property
    def master(self) -> Server:
        """The one that the first Sentinel that answers names."""
        return self.sentinels.master()

    def logins(self, count: int) -> list[Login]:
        """Sessions that every server has."""
        with Presence.from_url(self.url, SETTINGS) as presence:
            logins = presence.login_many({"uid": f"u{n}", "device": "phone"} for n in range(count))
        wait_for("replicas to have them", lambda: len({server.command("DBSIZE") for server in self.servers}) == 1)
        return [login for login in logins if isinstance(login, Login)]

    def wait_switched(self, seconds: float = 30) -> None:
        """Until every Sentinel that can be asked from here names another master than ``first``."""

        def is_named(sentinel: Server) -> bool:
            return self.sentinels._master_by(sentinel) is not self.first

        wait_for("another master", lambda: all(map(is_named, self._majority())), seconds)

    def fail_over(self) -> None:
        """``SENTINEL FAILOVER``: by hand; the old master is well."""
        self.sentinels.sentinels[-1].command("SENTINEL", "FAILOVER", self.sentinels.master_name)

    def partition(self, *, sentinels: int = 0, replicas: int = 0) -> None:
        """Cut ``first``, the worker and so many Sentinels and replicas off from all others, in silence."""
        self._beyond = set(range(sentinels))
        with_it = [self.first, *[one for one in self.servers if one is not self.first][:replicas]]
        there = {Sentinels.source(self.servers.index(one)) for one in with_it}
        there |= {Sentinels.source(3 + n) for n in self._beyond}
        behind = {one.port for one in with_it} | {self.sentinels.sentinels[n].port for n in self._beyond}
        for port, proxy in self._fronts.items():
            side = port in behind
            # Clients call from HOST. On the side of the rest they do not know of anything beyond; the worker has a way
            # of its own to the Sentinels, and to the master that it was told.
            proxy.holds = lambda source, side=side: source != HOST and (source in there) != side  # type: ignore[misc]
        for number, proxy in enumerate(self._own):
            proxy.holds = lambda source, number=number: number not in self._beyond  # type: ignore[misc]

    @contextlib.contextmanager
    def silenced(self, sentinels: int) -> Iterator[None]:
        """So many Sentinels do not answer the worker meanwhile. To stop them would change what they do for 30 s."""
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
        """Make it whole for the next fault: what was stopped goes on, what was killed starts again, all agree."""
        if self._fronts:
            self.heal()
        for server in [*self.servers, *self.sentinels.sentinels]:
            server.resume()
            if not server.running:
                server.restart()
        self.sentinels.wait_ok(60)
        self.first = self.sentinels.master()

    def _majority(self) -> list[Server]:
        """The Sentinels that are not beyond a partition."""
        return [one for n, one in enumerate(self.sentinels.sentinels) if n not in self._beyond and one.running]


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    """SIGSTOP it meanwhile, and SIGCONT it afterwards."""
    server.pause()
    try:
        yield
    finally:
        server.resume()
