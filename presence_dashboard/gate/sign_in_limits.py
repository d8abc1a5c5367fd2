"""How often a password may be guessed, by address and by name. Counted in the memory of this process."""

from __future__ import annotations

import time
from ipaddress import IPv6Address, ip_address
from typing import Final

from limits import RateLimitItem, parse_many
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

BY_ADDRESS: Final = parse_many("5 per minute; 20 per hour; 100 per day")
BY_NAME: Final = parse_many("5 per minute")
"""No hourly limit: strangers who guess must not lock a colleague out for long."""


class SignInLimits:
    """Failed sign-ins of this process. Used on one event loop, so it needs no lock."""

    def __init__(self) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def begin(self, ip: str | None, name: str) -> float:
        """Count an attempt and return 0; or return the seconds to wait.

        The attempt counts as failed before the password is checked, so that parallel guesses count too.
        """
        counted = _counted(ip, name)
        full = [key for key in counted if not self._limiter.test(*key)]
        if full:
            return max(self._limiter.get_window_stats(*key).reset_time - time.time() for key in full)
        for key in counted:
            self._limiter.hit(*key)
        return 0.0

    def succeeded(self, ip: str | None, name: str) -> None:
        """Forget the failed attempts of this address and this name."""
        for key in _counted(ip, name):
            self._limiter.clear(*key)


def _counted(ip: str | None, name: str) -> list[tuple[RateLimitItem, str, str]]:
    by_address = [(limit, "address", _network(ip)) for limit in BY_ADDRESS]
    return by_address + [(limit, "name", name) for limit in BY_NAME]


def _network(ip: str | None) -> str:
    """The address; of IPv6 the /64 network, which one customer has."""
    try:
        address = ip_address(ip or "")
    except ValueError:
        return ""
    return str(int(address) >> 64) if isinstance(address, IPv6Address) else str(address)
