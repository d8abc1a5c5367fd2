"""How often a password may be guessed, by address and by name. Counted in the memory of this process."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from ipaddress import ip_address
from typing import Final, NamedTuple

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

BY_ADDRESS: Final = ((5, _MINUTE), (20, _HOUR), (100, _DAY))
BY_NAME: Final = ((5, _MINUTE),)
"""Attempts and seconds. A name has no hourly limit: strangers who guess must not lock a colleague out for long."""

_MOST: Final = 20_000
"""Addresses, and names, that are remembered. Those that have not tried for the longest time are forgotten first."""

_LONGEST_NAME: Final = 128


class _Attempt(NamedTuple):
    at: float
    name: str


class SignInLimits:
    """Failed sign-ins of this process. Used on one event loop, so it needs no lock."""

    def __init__(self) -> None:
        self._of_addresses: OrderedDict[str, deque[_Attempt]] = OrderedDict()
        self._of_names: OrderedDict[str, deque[_Attempt]] = OrderedDict()

    def begin(self, ip: str | None, name: str) -> float:
        """Count an attempt and return 0; or return the seconds to wait.

        The attempt counts as failed before the password is checked, so that parallel guesses count too.
        """
        now, address, name = time.time(), network_of(ip), name[:_LONGEST_NAME]
        wait = max(
            _wait(self._of_addresses.get(address), BY_ADDRESS, now), _wait(self._of_names.get(name), BY_NAME, now)
        )
        if wait > 0:
            return wait
        _count(self._of_addresses, address, _Attempt(now, name), BY_ADDRESS)
        _count(self._of_names, name, _Attempt(now, name), BY_NAME)
        return 0.0

    def attempts(self, ip: str | None) -> int:
        """How often this address has tried in the last hour, without the attempts that a right password cleared."""
        began = time.time() - _HOUR
        return sum(attempt.at > began for attempt in self._of_addresses.get(network_of(ip), ()))

    def succeeded(self, ip: str | None, name: str) -> None:
        """Forget the failed attempts at this name. Those at other names still count for the address: a member who signs
        in as themselves gets no more guesses at the passwords of others."""
        address, name = network_of(ip), name[:_LONGEST_NAME]
        self._of_names.pop(name, None)
        attempts = self._of_addresses.get(address, deque())
        others = [attempt for attempt in attempts if attempt.name != name]
        attempts.clear()
        attempts.extend(others)


def _wait(attempts: deque[_Attempt] | None, limits: tuple[tuple[int, int], ...], now: float) -> float:
    """Seconds until one more attempt is within all limits."""
    if not attempts:
        return 0.0
    return max(attempts[-most].at + span - now if len(attempts) >= most else 0.0 for most, span in limits)


def _count(
    counted: OrderedDict[str, deque[_Attempt]], key: str, attempt: _Attempt, limits: tuple[tuple[int, int], ...]
) -> None:
    """Add an attempt. No more are kept than the largest limit needs."""
    attempts = counted.setdefault(key, deque(maxlen=max(most for most, _ in limits)))
    attempts.append(attempt)
    counted.move_to_end(key)
    if len(counted) > _MOST:
        counted.popitem(last=False)


def network_of(ip: str | None) -> str:
    """The address; of IPv6 the /64 network, which one customer has."""
    return _network(ip, 32, 64)


def wide_network_of(ip: str | None) -> str:
    """The /24 network; of IPv6 the /48. Who controls one address of it often controls more."""
    return _network(ip, 24, 48)


def _network(ip: str | None, bits: int, bits_of_v6: int) -> str:
    try:
        address = ip_address(ip or "")
    except ValueError:
        return ""
    kept = bits_of_v6 if address.version == 6 else bits
    return f"{address.version}:{int(address) >> (address.max_prefixlen - kept)}"
