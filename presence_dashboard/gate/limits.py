"""How often somebody may guess a password: five times at once, then after a wait that doubles."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

FREE: Final = 5
_FORGET: Final = 900.0  # seconds without an attempt
_MOST: Final = 10_000
_LONGEST: Final = {"ip": 900.0, "name": 30.0}  # by name it is short: nobody may lock somebody else out


class Limits:
    """Of this process. Used on one event loop, so it needs no lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def begin(self, ip: str | None, name: str) -> float:
        """Seconds to wait; 0: go on. That counts as a failure from here, so that guesses at one time count too."""
        now, keys = self._clock(), _keys(ip, name)
        wait = max(self._wait(key, now) for key in keys)
        if wait <= 0:
            for key in keys:
                self._failures[key] = (self._count(key, now) + 1, now)
                self._failures.move_to_end(key)
            while len(self._failures) > _MOST:
                self._failures.popitem(last=False)
        return max(0.0, wait)

    def succeeded(self, ip: str | None, name: str) -> None:
        """It was no failure."""
        for key in _keys(ip, name):
            self._failures.pop(key, None)

    def _count(self, key: tuple[str, str], now: float) -> int:
        count, last = self._failures.get(key, (0, now))
        return count if now - last < _FORGET else 0

    def _wait(self, key: tuple[str, str], now: float) -> float:
        count = self._count(key, now)
        if count < FREE:
            return 0.0
        return self._failures[key][1] + min(_LONGEST[key[0]], 2.0 ** min(count - FREE + 1, 20)) - now


def _keys(ip: str | None, name: str) -> list[tuple[str, str]]:
    return [("ip", _block(ip)), ("name", name)]


def _block(ip: str | None) -> str:
    """An address; of IPv6 what one customer has."""
    try:
        address = ip_address(ip or "")
    except ValueError:
        return ""
    return str(int(address) >> 64) if isinstance(address, IPv6Address) else str(address)
