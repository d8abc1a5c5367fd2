"""Checks of passwords, a few at once. The others wait: those of an address with few attempts, and of a network with few
that wait, come first."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")

AT_ONCE: Final = 2
"""Each check takes 64 MB and a core."""

LONGEST: Final = 256
"""Checks that wait. One more refuses the last in the order."""


class TooBusy(Exception):
    """Too many checks of passwords are waiting."""


@dataclass(order=True)
class _Waiting:
    order: int
    number: int
    network: str = field(compare=False)
    turn: anyio.Event = field(compare=False, default_factory=anyio.Event)
    is_refused: bool = field(compare=False, default=False)


class PasswordQueue:
    """The queue of this process. Used on one event loop, so it needs no lock."""

    def __init__(self) -> None:
        self._running = 0
        self._waiting: list[_Waiting] = []
        self._number = count()

    async def run(self, work: Callable[[], T], attempts: int, network: str) -> T:
        """Run a check when its turn has come. Raises TooBusy.

        attempts: how often the address has tried recently. network: its wide network. The check with the smallest sum
        of the attempts and of those that waited of the network before it comes first; of the same sum, the earliest.
        So the last in the order, which a full queue refuses, is of a network that has many.
        """
        if self._running < AT_ONCE:
            self._running += 1
        else:
            await self._turn(attempts, network)
        try:
            return await to_thread.run_sync(work)
        finally:
            self._pass_on()

    async def _turn(self, attempts: int, network: str) -> None:
        before = sum(waiting.network == network for waiting in self._waiting)
        mine = _Waiting(attempts + before, next(self._number), network)
        insort(self._waiting, mine)
        if len(self._waiting) > LONGEST:
            last = self._waiting.pop()
            last.is_refused = True
            last.turn.set()
        try:
            await mine.turn.wait()
        except BaseException:  # the request was cancelled
            if mine in self._waiting:
                self._waiting.remove(mine)
            elif not mine.is_refused:
                self._pass_on()
            raise
        if mine.is_refused:
            raise TooBusy

    def _pass_on(self) -> None:
        """Give the place of a check that has ended to the next one."""
        if self._waiting:
            self._waiting.pop(0).turn.set()
        else:
            self._running -= 1
