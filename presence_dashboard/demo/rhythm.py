"""How busy the demo site was in the last two weeks: counts of each minute, invented, with days, nights and weekends."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
DAYS: Final = 14

STAY: Final = 8.0  # minutes of an average session, as of the simulated visitors
PEAK: Final = 15.0  # the busiest hour, UTC
NIGHT: Final = 0.42  # sessions at night, as a share of those at the peak
WEEKEND: Final = 0.78  # the same for a weekend
GROWTH: Final = 0.08  # of the two weeks
USERS: Final = 0.82  # users for each session
DEVICES: Final = {"Windows PC": 26, "iPhone": 23, "Mac": 18, "Android phone": 17, "Linux PC": 8, "iPad": 8}
APPS: Final = {"web": 68, "android": 12, "ios": 12, "desktop": 8}

INCIDENT_DAYS: Final = 4
"""A release of the Android app signed its users out again and again, so many days ago …"""
INCIDENT_HOURS: Final = (13.5, 14.25)  # … from and to these hours, UTC; then staff ended its sessions
SURGE: Final = 2.4


@dataclass(frozen=True, slots=True)
class BusyMinute:
    """The counts of one minute."""

    at: int  #: its start, Unix seconds
    users: int
    sessions: int
    logins: int
    logouts: int
    expired: int
    replaced: int


def incident_end(now: float) -> float:
    """When staff ended the incident, Unix seconds."""
    return (now // DAY - INCIDENT_DAYS) * DAY + INCIDENT_HOURS[1] * HOUR


def minutes(now: float, visitors: int, random: Random) -> Iterator[BusyMinute]:
    """The minutes of the two weeks before ``now``. The last ones have about as many sessions as there are visitors."""
    scale = visitors / _level(now, now)
    until = int(now // MINUTE) * MINUTE
    drift, before = 0.0, None
    for at in range(until - DAYS * DAY, until, MINUTE):
        # A random walk that returns to zero; it ends at zero, where the simulated visitors continue.
        drift = 0.99 * drift + random.gauss(0, 0.006)
        calm = min(1.0, (until - at) / HOUR)
        sessions = round(scale * _level(at, now) * (1 + drift * calm))
        grown = 0 if before is None else sessions - before
        before = sessions
        logins = max(0, grown, round(random.gauss(sessions / STAY, math.sqrt(sessions / STAY)) * _surge(at, now)))
        yield _minute(at, sessions, logins, logins - grown, random)


def _minute(at: int, sessions: int, logins: int, ends: int, random: Random) -> BusyMinute:
    replaced = int(ends * 0.04 + random.random())
    expired = min(ends - replaced, int(ends * random.uniform(0.24, 0.4) + random.random()))
    users = min(sessions, round(sessions * USERS))
    return BusyMinute(at, users, sessions, logins, ends - replaced - expired, expired, replaced)


def _level(at: float, now: float) -> float:
    """Sessions at a time, as a share of those of the busiest hour."""
    by_hour = NIGHT + (1 - NIGHT) * (1 + math.cos(2 * math.pi * (at / HOUR - PEAK) / 24)) / 2
    # Between two days the level changes slowly.
    by_day = sum(_is_weekend(at + shift * HOUR) for shift in (-2, -1, 0, 1, 2)) / 5
    return by_hour * (1 - (1 - WEEKEND) * by_day) * (1 + GROWTH * (at - now) / (DAYS * DAY))


def _is_weekend(at: float) -> bool:
    return (at // DAY + 3) % 7 >= 5  # 1 January 1970 was a Thursday


def _surge(at: float, now: float) -> float:
    begin = incident_end(now) - (INCIDENT_HOURS[1] - INCIDENT_HOURS[0]) * HOUR
    return SURGE if begin <= at < incident_end(now) else 1.0


def split(shares: dict[str, int], sessions: int, random: Random) -> dict[str, int]:
    """The sessions by app or by device."""
    weights = {name: share * random.uniform(0.92, 1.08) for name, share in shares.items()}
    whole = sum(weights.values())
    return {name: round(sessions * weight / whole) for name, weight in weights.items()}
