"""For the tests of a site: a clock that stops and moves, and an AsyncPresence for any event loop.

The fixtures of the pytest plugin (``pytest_presence.py``) are made of these. Tests with another runner may use them as
they are.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from presence_core import validation as check
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import InvalidArgument
from presence_core.operations.context import Context
from presence_core.settings import Settings
from presence_core.transport import connect_without_pool

__all__ = ["Clock", "connect_async", "new_namespace"]

_numbers: Final[Iterator[int]] = itertools.count(1)


class Clock:
    """The time that the clients of a test see. It runs like the clock of this machine until ``freeze`` or ``advance``.

    It moves login times, deadlines and ages: all that Redis decides by the time of a call. It does not move the clock
    of Python, nor when Redis deletes a key that has expired. Clients that it does not ``follow`` keep the real time.
    """

    def __init__(self, *clients: Presence | AsyncPresence) -> None:
        self._contexts: list[Context] = []
        self._frozen: int | None = None
        for client in clients:
            self.follow(client)

    def follow(self, client: Presence | AsyncPresence) -> None:
        """Give this client the time of the clock, also one that the site has made itself."""
        self._contexts.append(client.internal.context)
        self._tell()

    @property
    def now(self) -> datetime:
        """The time, to the millisecond."""
        return datetime.fromtimestamp(self._ms() / 1000, UTC)

    def freeze(self, at: datetime | float | None = None) -> datetime:
        """Stop the clock, now or at a later time: an aware datetime or Unix seconds. Returns the time.

        A time before the one that the clock shows is an InvalidArgument: Redis would delete at once what was written
        then, by its own clock.
        """
        now = self._ms()  # read once: a running clock goes on
        ms = now if at is None else check.time_ms("at", at)
        if ms < now:
            raise InvalidArgument("at", "must not be before the time that the clock shows")
        self._frozen = ms
        self._tell()
        return self.now

    def advance(self, seconds: float) -> datetime:
        """Stop the clock and move it forward. Returns the time."""
        check.duration("seconds", seconds, 0, check.TEN_YEARS)
        self.freeze()
        return self.freeze((self._ms() + round(seconds * 1000)) / 1000)

    def _ms(self) -> int:
        return self._frozen if self._frozen is not None else time.time_ns() // 1_000_000

    def _tell(self) -> None:
        for context in self._contexts:
            context.now = "" if self._frozen is None else str(self._frozen)


def new_namespace() -> str:
    """A namespace that no other test has, in no process of this machine."""
    return f"test-{os.getpid()}-{next(_numbers)}"


def connect_async(url: str, settings: Settings | None = None) -> AsyncPresence:
    """An AsyncPresence that opens a connection for each call, so that a test may use it from several event loops, and
    need not close it. On a cluster, or behind Sentinel, it is an ordinary one."""
    settings = settings or Settings()
    return AsyncPresence(connect_without_pool(url, settings.timeout), settings)
