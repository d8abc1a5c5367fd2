"""The demo's visitors: hundreds of people who sign in at the demo site by real HTTP, click, leave and return."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlencode

from demo.agents import Device
from demo.http_client import Answer, HttpClient, Unreachable
from demo.people import VISITORS, Member, find

COUNT: Final = 300
COOKIE: Final = "paperboat"

BURST: Final = 20.0  # arrivals a second until the site is full for the first time …
ARRIVALS: Final = 1.5  # … and from then on: when staff kick many, the list shows it for a while
SWING: Final = 0.13  # by how much of their number they become more and fewer …
TIDE: Final = 600.0  # … in so many seconds
STAY: Final = 480.0  # seconds that a visit lasts, on average
CLICKS: Final = (5.0, 30.0)  # seconds between two clicks
COFFEE: Final = (130.0, 260.0)  # seconds that somebody forgets the open tab: most find their session expired
BANISHMENT: Final = (60.0, 300.0)  # seconds that a kicked visitor stays away

FRESH: Final = 90.0
"""Seconds after which kept cookies are no use: the site will have signed their owners out."""

TICK: Final = 0.2
REPORT: Final = 60.0


@dataclass(eq=False, slots=True)
class Visit:
    """One person's visit on one device. Its token is the cookie of that device's browser."""

    member: Member
    device: Device
    address: str
    token: str = ""


class Crowd:
    """Keeps about ``count`` visits going. ``speed`` shortens all waiting, for tests."""

    def __init__(self, client: HttpClient, count: int, *, speed: float = 1.0, random: Random | None = None) -> None:
        self._client = client
        self._count = count
        self._speed = speed
        self._random = random or Random()
        self._visits: set[Visit] = set()
        self._away: dict[str, float] = {}  # uid → until when, of those who were kicked
        self._seen: Counter[str] = Counter()

    async def run(self, resumed: list[Visit]) -> None:
        """Without end. ``resumed`` visits hold their cookies and go on clicking."""
        async with asyncio.TaskGroup() as visits:
            for visit in resumed:
                visits.create_task(self._attend(visit))
            started = reported = self._now()
            owed, rate = 0.0, BURST
            while True:
                tide = math.sin(2 * math.pi * (self._now() - started) / TIDE)
                missing = self._count * (1 + SWING * tide) - len(self._visits)
                if missing < 1:
                    rate = ARRIVALS
                owed = max(0.0, min(owed + rate * TICK, missing))
                while owed >= 1:
                    visits.create_task(self._attend(self._newcomer()))
                    owed -= 1
                    await asyncio.sleep(0)  # lets the visit begin, and count
                if self._now() - reported >= REPORT:
                    reported = self._now()
                    print(f"{len(self._visits)} visitors; so far {dict(self._seen)}", flush=True)
                await self._sleep(TICK)

    def cookies(self) -> list[dict[str, str]]:
        """What the browsers keep, as JSON."""
        return [
            {
                "uid": visit.member.uid,
                "device": str(visit.member.devices.index(visit.device)),
                "address": visit.address,
                "token": visit.token,
            }
            for visit in self._visits
            if visit.token
        ]

    # -- time, which tests shorten

    def _now(self) -> float:
        return time.monotonic() * self._speed

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)

    # -- who comes

    def _newcomer(self) -> Visit:
        here = Counter(visit.member.uid for visit in self._visits)
        if here and self._random.random() < 0.22:
            # Somebody who is here already, on another device or in another window: who is on three already, the site
            # signs out on the first.
            member = self._random.choice(list(self._visits)).member
            used = [visit.device for visit in self._visits if visit.member is member]
            spare = [device for device in member.devices if device not in used] or member.devices
            if self._away.get(member.uid, 0.0) < self._now():
                return self._visit(member, self._random.choice(spare))
        for _ in range(50):
            member = self._random.choice(VISITORS)
            if not here[member.uid] and self._away.get(member.uid, 0.0) < self._now():
                break
        return self._visit(member, self._random.choice(member.devices))

    def _visit(self, member: Member, device: Device) -> Visit:
        home, road = member.addresses
        return Visit(member, device, road if device.mobile and self._random.random() < 0.6 else home)

    # -- what they do

    async def _attend(self, visit: Visit) -> None:
        self._visits.add(visit)
        try:
            if visit.token or await self._sign_in(visit):
                await self._look_around(visit)
        finally:
            # Not when everything ends: the browsers' cookies are then still asked for.
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                self._visits.discard(visit)

    async def _look_around(self, visit: Visit) -> None:
        leaves = self._now() + max(40.0, self._random.expovariate(1 / STAY))
        while self._now() < leaves:
            await self._sleep(self._random.uniform(*(COFFEE if self._random.random() < 0.01 else CLICKS)))
            match await self._ask(visit, "GET", "/"):
                case 403:
                    self._away[visit.member.uid] = self._now() + self._random.uniform(*BANISHMENT)
                    return
                case 401 if self._random.random() < 0.4 or not await self._sign_in(visit):
                    return
                case 200 if self._random.random() < 0.004:
                    # On the way from one network to another; now and then the address changes under a session.
                    visit.address = self._random.choice(visit.member.addresses)
        if self._random.random() < 0.65:
            await self._ask(visit, "POST", "/sign-out")

    async def _sign_in(self, visit: Visit) -> bool:
        for _ in range(5):
            status = await self._ask(visit, "POST", "/sign-in", {"who": visit.member.email, "password": "demo"})
            if status == 303:
                return await self._ask(visit, "GET", "/") == 200
            if status < 500:
                return False
            await self._sleep(self._random.uniform(*CLICKS))
        return False

    async def _ask(self, visit: Visit, method: str, path: str, form: dict[str, str] | None = None) -> int:
        """One request as this visit's browser would send it; its status, or 599 where no answer came."""
        headers = {
            "User-Agent": visit.device.user_agent,
            "X-Forwarded-For": visit.address,
            "X-Demo-Device": visit.device.name,
            "X-Demo-App": visit.device.app,
            "X-Demo-App-Version": visit.device.app_version,
        }
        if visit.token:
            headers["Cookie"] = f"{COOKIE}={visit.token}"
        if method == "POST":
            headers |= {"Origin": self._client.origin, "Content-Type": "application/x-www-form-urlencoded"}
        try:
            answer = await self._client.request(method, path, headers, urlencode(form or {}).encode())
        except Unreachable:
            self._seen["no answer"] += 1
            return 599
        self._take_cookie(visit, answer)
        self._seen[f"{method} {path} {answer.status}"] += 1
        return answer.status

    def _take_cookie(self, visit: Visit, answer: Answer) -> None:
        token = answer.cookie(COOKIE)
        if token is not None:
            visit.token = token


# -- Between two runs --------------------------------------------------------------------------------------------------


def load_cookies(jar: Path, most: int) -> list[Visit]:
    """The visits that were going on when the jar was saved. They are taken out of it."""
    visits = []
    try:
        rows = json.loads(jar.read_text()) if time.time() - jar.stat().st_mtime < FRESH else []
        jar.unlink()
        for row in rows[:most]:
            member = find(row["uid"])
            if member is not None:
                visits.append(Visit(member, member.devices[int(row["device"])], row["address"], row["token"]))
    except (OSError, ValueError, LookupError, TypeError):
        # Nothing kept, or by another version: browsers forget too.
        pass
    return visits


def save_cookies(jar: Path, crowd: Crowd) -> None:
    """Keep the cookies for this user alone: each of them opens a session."""
    descriptor = os.open(jar, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(crowd.cookies(), file)


async def visit(site: str, count: int, speed: float, jar: Path | None) -> None:
    """Visit until SIGINT or SIGTERM."""
    client = HttpClient(site)
    crowd = Crowd(client, count, speed=speed)
    crowding = asyncio.ensure_future(crowd.run(load_cookies(jar, 2 * count) if jar else []))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, crowding.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await crowding
    client.close()
    if jar is not None:
        save_cookies(jar, crowd)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m demo.visitors", description="Visitors for the demo site.")
    parser.add_argument("--site", default="http://127.0.0.1:8502")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--speed", type=float, default=1.0, help="how many times faster than life")
    parser.add_argument("--jar", type=Path, help="a file for the cookies of visits that a next run goes on with")
    given = parser.parse_args()
    asyncio.run(visit(given.site, given.count, given.speed, given.jar))
