"""The rows of the table: each operation of all peers in turn, round by round, with their answers compared."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from benchmarks.data import SEED, Row, imported_logins, logins
from benchmarks.measure import Json
from benchmarks.peers.driver import Cost, Done, Peer, PeerDied, PeerServer
from benchmarks.peers.python.serve import PAGE
from benchmarks.stage import LOADED_SPAN

ROUNDS: Final = 5
TURN_US: Final = 150_000
"""A peer's turn in a round takes about this long, or one call."""

SLOW_US: Final = 1_500_000
"""A peer that takes longer per call has three turns instead of five; one that takes ten times longer, one."""

_NEW_USERS: Final = 50_000_000
DEEP: Final = 10_000
LOADED_AT_ONCE: Final = 2000


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table."""

    verb: str
    title: str
    most: int  #: calls per turn


@dataclass(slots=True)
class Cell:
    """Result of one peer in one row."""

    how: str | None  #: None: there are no figures, see ``why``
    why: str = "cannot"
    turns: list[float] = field(default_factory=list)  #: median of each turn, µs
    us: list[float] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    client_us: float = 0.0
    figures: Json = field(default_factory=dict)

    def add(self, done: Done, cost: Cost) -> None:
        self.turns.append(median(done.us))
        self.us += done.us
        self.costs.append(cost)
        self.client_us += done.client_us

    @property
    def p50(self) -> float:
        return median(self.us)

    def server_us(self) -> float:
        """Per call, from INFO commandstats."""
        return sum(cost.commands for cost in self.costs) / len(self.us)

    def server_cpu_us(self) -> float:
        """Per call, of the server's main thread."""
        return sum(cost.cpu for cost in self.costs) / len(self.us)

    def ratio(self, ours: Cell) -> float:
        """Compared with ours: the median over rounds, whose turns are neighbours."""
        return median(theirs / mine for theirs, mine in zip(self.turns, ours.turns, strict=False))


@dataclass(slots=True)
class Line:
    """A row with its cells, by the peer's key."""

    verb: str
    title: str
    cells: dict[str, Cell]


class WrongAnswer(Exception):
    """Two peers did not do the same work."""


class Rounds:
    """The same rows, tokens and people for all peers."""

    def __init__(self, server: PeerServer, peers: list[Peer], size: int, turn_us: float = TURN_US) -> None:
        self.server, self.peers, self.size, self.turn_us = server, peers, size, turn_us
        self.rows: list[Row] = []
        self.bytes: dict[str, float] = {}
        self._owned: Counter[str] = Counter()  # uid → sessions
        self.deep = max(1, min(DEEP, size // PAGE))

    def load(self) -> None:
        """Load the same sessions into every peer, and measure their memory."""
        self.rows = list(imported_logins(self.size, time.time(), LOADED_SPAN))
        for row in self.rows:
            del row["last_seen"]  # most stores have no such list
        self._owned.update(row["uid"] for row in self.rows)
        before = self.server.settled_memory()
        for peer in self.peers:
            _progress(f"{peer.kind.title}: loading {self.size:,}")
            for first in range(0, self.size, LOADED_AT_ONCE):
                peer.tokens += peer.do("load", [self.rows[first : first + LOADED_AT_ONCE]]).answers[0]
            after = self.server.settled_memory()
            self.bytes[peer.kind.key] = (after - before) / self.size
            before = after

    def operations(self) -> list[Operation]:
        """The order matters: operations that change nothing come first."""
        deep = f"page {self.deep:,}" + ("" if self.deep == DEEP else ", the deepest")
        return [
            Operation("count", "exact count of sessions", 100),
            Operation("users", "users seen within 10 minutes", 100),
            Operation("page", "page 1: the newest 50", 50),
            Operation("page", deep, 50),
            Operation("sessions", "one user's sessions", 200),
            Operation("read", "authenticated read with touch", 300),
            Operation("login", "login", 200),
            Operation("kick", "kick a user, all their sessions", 100),
        ]

    def run(self) -> list[Line]:
        return [self._line(operation) for operation in self.operations()]

    def _line(self, operation: Operation) -> Line:
        cells = {peer.kind.key: Cell(peer.how.get(operation.verb)) for peer in self.peers}
        turns = []
        for peer in self.peers:
            cell, given = cells[peer.kind.key], self._given(operation, peer)
            if peer.can(operation.verb):
                _progress(f"{operation.title}: {peer.kind.title}")
                with _or_died(cell):
                    took = self._first(operation, peer, given).us[0]
                    rounds = ROUNDS if took < SLOW_US else 3 if took < 10 * SLOW_US else 1
                    turns.append((peer, cell, given, rounds, max(1, min(operation.most, int(self.turn_us / took)))))
        for number in range(ROUNDS):
            for peer, cell, given, rounds, calls in turns:
                if number < rounds and cell.how:
                    each = list(itertools.islice(given, calls))
                    with _or_died(cell):
                        done, cost = self.server.measured(peer, operation.verb, each)
                        self._check(operation, peer, each, done)
                        cell.add(done, cost)
        return Line(operation.verb, operation.title, cells)

    def _given(self, operation: Operation, peer: Peer) -> Iterator[Any]:
        """Arguments of the calls: the same for all peers, in the same order."""
        pick = random.Random(SEED)
        if operation.verb == "page":
            return itertools.repeat(1 if operation.title.startswith("page 1:") else self.deep)
        if operation.verb == "sessions":
            return (pick.choice(self.rows)["uid"] for _ in itertools.count())
        if operation.verb == "read":
            return (pick.choice(peer.tokens) for _ in itertools.count())
        if operation.verb == "login":
            return logins(10_000, first_user=_NEW_USERS)
        if operation.verb == "kick":
            people = sorted({row["uid"] for row in self.rows})
            pick.shuffle(people)
            return iter(people)
        return itertools.repeat(None)

    # -- the same work ------------------------------------------------------------------------------------------------

    def _first(self, operation: Operation, peer: Peer, each: Iterator[Any]) -> Done:
        """Not timed: opens connections, loads scripts, fills caches."""
        given: list[Any] = []

        def give() -> Any:
            given.append(next(each))
            return given[-1]

        done = self.server.learn(peer, operation.verb, give)
        self._check(operation, peer, given[:1], done)
        return done

    def _check(self, operation: Operation, peer: Peer, each: list[Any], done: Done) -> None:
        for given, answer in zip(each, done.answers, strict=True):
            if (right := self._right(operation, peer, given)) is not None and answer != right:
                raise WrongAnswer(f"{peer.kind.title}, {operation.title}: {answer!r} is not {right!r}")

    def _right(self, operation: Operation, peer: Peer, given: Any) -> Any:
        """The expected answer; None if it is not known."""
        if operation.verb == "count":
            return self.size
        if operation.verb == "page" and peer.kind.key != "redis-sessions":  # this peer lists by last activity
            return [row["uid"] for row in self.rows[::-1][(given - 1) * PAGE : given * PAGE]]
        if operation.verb in ("sessions", "kick"):
            return self._owned[given]
        return None


@contextmanager
def _or_died(cell: Cell) -> Iterator[None]:
    """A program that died is a result too: of this row, and of those after it."""
    try:
        yield
    except PeerDied as death:
        _progress(str(death))
        cell.how, cell.why = None, "died"


def _progress(text: str) -> None:
    print(f"  {text} …", file=sys.stderr, flush=True)
