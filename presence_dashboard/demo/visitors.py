"""Simulated visitors of the demo site: they sign in, click, are kicked, and leave, with or without signing out."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from presence_core import AsyncPresence, Login, PresenceError
from presence_core.schema.failures import SiteFailure
from presence_dashboard.demo.people import BY_UID, VISITORS, Member

COUNT: Final = 300
TIDE: Final = 600.0
"""Seconds from one high to the next of the number of visitors, which swings by SWING."""

SWING: Final = 0.12
STAY: Final = 480.0
"""Seconds of an average visit."""

CLICKS: Final = (5.0, 40.0)
"""Seconds between two clicks. A session of the demo expires after 120."""

KICKED_BREAK: Final = (60.0, 180.0)
"""Seconds that a kicked visitor stays away."""

USERS: Final = 0.82
"""Users for each session."""

TICK: Final = 0.5
ARRIVALS: Final = 3
"""Visitors who may arrive in a tick."""

SECOND_DEVICE: Final = 0.22
PRIVATE: Final = 0.05
"""Share of logins in a private window: they come from a device that is not known."""

FAILURES: Final[tuple[tuple[SiteFailure, float], ...]] = (("wrong_password", 0.05), ("second_factor", 0.01))
"""Share of logins before which the visitor fails, by reason."""

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Visit:
    ref: str
    uid: str
    leaves: float  #: on the monotonic clock, as ``clicks``
    clicks: float


def first_visits(random: Random, count: int, now: float) -> list[dict[str, Any]]:
    """The logins of visitors who came in the last minutes, some on two devices: rows for ``login_many``."""
    people = random.sample(VISITORS, min(round(count * USERS), len(VISITORS)))
    members = people + random.sample(people, min(count - len(people), len(people)))
    ages = [min(1500.0, random.expovariate(1 / STAY)) + 30 for _ in members]
    times = [{"login_at": now - age, "last_seen": now - age % 30} for age in ages]
    return [row | at for row, at in zip(_logins(random, members), times, strict=True)]


def _logins(random: Random, members: list[Member]) -> list[dict[str, Any]]:
    rows = [member.login(random.choice(member.devices)) for member in members]
    for row in rows:
        if random.random() < PRIVATE:
            row["device_id"] = f"private-{random.getrandbits(64):x}"
    return rows


class Crowd:
    """Keeps about ``count`` visits going."""

    def __init__(self, presence: AsyncPresence, count: int = COUNT) -> None:
        self._presence = presence
        self._count = count
        self._random = Random()
        self._visits: dict[str, Visit] = {}
        self._began = time.monotonic()
        self._away: dict[str, float] = {}  # uid of a kicked visitor → when they may return

    async def run(self) -> None:
        """Run until cancelled. An outage of Redis only interrupts the visits."""
        is_new = True
        while True:
            try:
                if is_new:
                    await self._begin()
                    is_new = False
                await self._step(time.monotonic())
            except PresenceError as error:
                _log.warning("visitors wait: %s", error)
                await asyncio.sleep(1.0)
            await asyncio.sleep(TICK)

    async def _begin(self) -> None:
        """Continue the visits of the run before, or of ``history``. Without any, some began in the last minutes."""
        visitors = {member.uid for member in VISITORS}
        async for session in self._presence.iter_sessions():
            if session.uid in visitors:  # not a guest, who tries the demo
                self._add(session.ref, session.uid)
        if not self._visits:
            await self._sign_in(first_visits(self._random, self._count, time.time()), imported=True)

    async def _step(self, now: float) -> None:
        due = [visit for visit in self._visits.values() if visit.clicks <= now]
        ended = set(await self._presence.heartbeats([visit.ref for visit in due])) if due else set()
        for visit in due:
            visit.clicks = now + self._random.uniform(*CLICKS)
            if visit.ref in ended:
                del self._visits[visit.ref]
                self._away[visit.uid] = now + self._random.uniform(*KICKED_BREAK)
            elif visit.leaves <= now:
                del self._visits[visit.ref]
                if self._random.random() < 0.65:
                    await self._presence.logout(*visit.ref.rsplit(":", 1))
        tide = 1 + SWING * math.sin(2 * math.pi * (now - self._began) / TIDE)
        missing = min(ARRIVALS, round(self._count * tide) - len(self._visits))
        if missing > 0:
            await self._sign_in(_logins(self._random, [self._newcomer(now) for _ in range(missing)]))

    def _newcomer(self, now: float) -> Member:
        """A visitor who is not here; at times one who is, on a second device or in another window."""
        active = Counter(visit.uid for visit in self._visits.values())
        for _ in range(50):
            member = self._random.choice(VISITORS)
            if active and self._random.random() < SECOND_DEVICE:
                member = BY_UID[self._random.choice(list(active))]
            elif active[member.uid]:
                continue
            if self._away.get(member.uid, 0.0) < now:
                break
        return member

    async def _sign_in(self, rows: list[dict[str, Any]], *, imported: bool = False) -> None:
        for row in rows if not imported else ():
            for why, share in FAILURES:
                if self._random.random() < share:
                    origin = {name: row.get(name) for name in ("ip", "user_agent", "app")}
                    await self._presence.login_failed(row["uid"], why=why, is_uid=True, **origin)
        for login in await self._presence.login_many(rows, imported=imported):
            if isinstance(login, Login):  # the others are blocked
                self._add(login.session.ref, login.session.uid)

    def _add(self, ref: str, uid: str) -> None:
        now = time.monotonic()
        stay = max(40.0, self._random.expovariate(1 / STAY))
        self._visits[ref] = Visit(ref, uid, now + stay, now + self._random.uniform(*CLICKS))
