"""Hundreds of simulated visitors, who sign in at the demo site over HTTP, click, leave and return."""

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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlencode

from presence_dashboard.demo.devices import Device
from presence_dashboard.demo.http_client import HttpClient, HttpResponse, Unreachable
from presence_dashboard.demo.people import VISITORS, Member, find

COUNT: Final = 300
COOKIE: Final = "paperboat"

BURST: Final = 20.0  # arrivals a second until the site is full for the first time …
ARRIVALS: Final = 1.5  # … and after that: so a large kick is visible in the list for a while
SWING: Final = 0.13  # share of the visitors by which their number rises and falls …
TIDE: Final = 600.0  # … and seconds of such a cycle
PRIVATE: Final = 0.05  # share of the visits in a private window: the device is new to the site
STAY: Final = 480.0  # average seconds of a visit
CLICKS: Final = (5.0, 30.0)  # seconds between two clicks
BREAK: Final = (130.0, 260.0)  # seconds of a break, after which most sessions have expired
KICKED_BREAK: Final = (60.0, 300.0)  # seconds that a kicked visitor stays away

FRESH: Final = 90.0
"""Seconds after which saved cookies are useless: their sessions have expired."""

TICK: Final = 0.2
REPORT: Final = 60.0


@dataclass(eq=False, slots=True)
class Visit:
    """A visit of one person on one device. The token is the browser's cookie."""

    member: Member
    device: Device
    address: str
    token: str = ""
    private_id: str = ""  #: of the device, in a private window


class Crowd:
    """Keeps about ``count`` visits active. ``speed`` shortens all waits, for tests."""

    def __init__(self, client: HttpClient, count: int, *, speed: float = 1.0, random: Random | None = None) -> None:
        self._client = client
        self._count = count
        self._speed = speed
        self._random = random or Random()
        self._visits: set[Visit] = set()
        self._away: dict[str, float] = {}  # uid of a kicked visitor → when they may return
        self._seen: Counter[str] = Counter()

    async def run(self, resumed: list[Visit]) -> None:
        """Run until cancelled. ``resumed`` visits have their cookies and continue."""
        async with asyncio.TaskGroup() as visits:
            for visit in resumed:
                visits.create_task(self._attend(visit))
            started = reported = self._now()
            due, rate = 0.0, BURST
            while True:
                tide = math.sin(2 * math.pi * (self._now() - started) / TIDE)
                missing = self._count * (1 + SWING * tide) - len(self._visits)
                if missing < 1:
                    rate = ARRIVALS
                due = max(0.0, min(due + rate * TICK, missing))
                while due >= 1:
                    visits.create_task(self._attend(self._newcomer()))
                    due -= 1
                    await asyncio.sleep(0)  # so that the visit begins and is counted
                if self._now() - reported >= REPORT:
                    reported = self._now()
                    print(f"{len(self._visits)} visitors; so far {dict(self._seen)}", flush=True)
                await self._sleep(TICK)

    @property
    def visits(self) -> Iterable[Visit]:
        """The visits that are active now."""
        return self._visits

    # -- time, which tests shorten

    def _now(self) -> float:
        return time.monotonic() * self._speed

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)

    # -- arrivals

    def _newcomer(self) -> Visit:
        active = Counter(visit.member.uid for visit in self._visits)
        if active and self._random.random() < 0.22:
            # A visitor who is already here, on another device or in another window. At a fourth session the site ends
            # the first one.
            member = self._random.choice(list(self._visits)).member
            used = [visit.device for visit in self._visits if visit.member is member]
            spare = [device for device in member.devices if device not in used] or member.devices
            if self._away.get(member.uid, 0.0) < self._now():
                return self._visit(member, self._random.choice(spare))
        for _ in range(50):
            member = self._random.choice(VISITORS)
            if not active[member.uid] and self._away.get(member.uid, 0.0) < self._now():
                break
        return self._visit(member, self._random.choice(member.devices))

    def _visit(self, member: Member, device: Device) -> Visit:
        home, road = member.addresses
        address = road if device.mobile and self._random.random() < 0.6 else home
        private_id = f"private-{self._random.getrandbits(64):x}" if self._random.random() < PRIVATE else ""
        return Visit(member, device, address, private_id=private_id)

    # -- a visit

    async def _attend(self, visit: Visit) -> None:
        self._visits.add(visit)
        try:
            if visit.token or await self._sign_in(visit):
                await self._look_around(visit)
        finally:
            # Not at shutdown: then the browsers' cookies are still to be saved.
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                self._visits.discard(visit)

    async def _look_around(self, visit: Visit) -> None:
        leaves = self._now() + max(40.0, self._random.expovariate(1 / STAY))
        while self._now() < leaves:
            await self._sleep(self._random.uniform(*(BREAK if self._random.random() < 0.01 else CLICKS)))
            match await self._request(visit, "GET", "/"):
                case 403:
                    self._away[visit.member.uid] = self._now() + self._random.uniform(*KICKED_BREAK)
                    return
                case 401 if self._random.random() < 0.4 or not await self._sign_in(visit):
                    return
                case 200 if self._random.random() < 0.004:
                    # Now and then the address of a session changes, as between two networks.
                    visit.address = self._random.choice(visit.member.addresses)
        if self._random.random() < 0.65:
            await self._request(visit, "POST", "/sign-out")

    async def _sign_in(self, visit: Visit) -> bool:
        for _ in range(5):
            status = await self._request(visit, "POST", "/sign-in", {"who": visit.member.email, "password": "demo"})
            if status == 303:
                return await self._request(visit, "GET", "/") == 200
            if status < 500:
                return False
            await self._sleep(self._random.uniform(*CLICKS))
        return False

    async def _request(self, visit: Visit, method: str, path: str, form: dict[str, str] | None = None) -> int:
        """Send a request as this visit's browser would. Returns the status, or 599 without a response."""
        headers = {
            "User-Agent": visit.device.user_agent,
            "X-Forwarded-For": visit.address,
            "X-Demo-Device": visit.device.name,
            "X-Demo-App": visit.device.app,
            "X-Demo-App-Version": visit.device.app_version,
            "X-Demo-Device-Id": visit.private_id or visit.member.device_id(visit.device),
        }
        if visit.token:
            headers["Cookie"] = f"{COOKIE}={visit.token}"
        if method == "POST":
            headers |= {"Origin": self._client.origin, "Content-Type": "application/x-www-form-urlencoded"}
        try:
            response = await self._client.request(method, path, headers, urlencode(form or {}).encode())
        except Unreachable:
            self._seen["no response"] += 1
            return 599
        self._take_cookie(visit, response)
        self._seen[f"{method} {path} {response.status}"] += 1
        return response.status

    def _take_cookie(self, visit: Visit, response: HttpResponse) -> None:
        token = response.cookie(COOKIE)
        if token is not None:
            visit.token = token


# -- Between two runs --------------------------------------------------------------------------------------------------


def load_cookies(jar: Path, limit: int) -> list[Visit]:
    """The visits that were active when the jar was saved. Deletes the jar."""
    visits = []
    try:
        rows = json.loads(jar.read_text()) if time.time() - jar.stat().st_mtime < FRESH else []
        jar.unlink()
        for row in rows[:limit]:
            member = find(row["uid"])
            if member is not None:
                visits.append(Visit(member, member.devices[int(row["device"])], row["address"], row["token"]))
    except (OSError, ValueError, LookupError, TypeError):
        # No jar, or one of another version: begin without cookies.
        pass
    return visits


def save_cookies(jar: Path, visits: Iterable[Visit]) -> None:
    """Save the browsers' cookies, readable only by this user: each gives access to a session."""
    rows = [
        {
            "uid": visit.member.uid,
            "device": str(visit.member.devices.index(visit.device)),
            "address": visit.address,
            "token": visit.token,
        }
        for visit in visits
        if visit.token
    ]
    descriptor = os.open(jar, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(rows, file)


async def visit(site: str, count: int, speed: float, jar: Path | None) -> None:
    """Visit until SIGINT or SIGTERM."""
    client = HttpClient(site)
    crowd = Crowd(client, count, speed=speed)
    crowd_task = asyncio.ensure_future(crowd.run(load_cookies(jar, 2 * count) if jar else []))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, crowd_task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await crowd_task
    client.close()
    if jar is not None:
        save_cookies(jar, crowd.visits)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m presence_dashboard.demo.visitors", description="Visitors for the demo site."
    )
    parser.add_argument("--site", default="http://127.0.0.1:8502")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--speed", type=float, default=1.0, help="speed factor")
    parser.add_argument("--jar", type=Path, help="a file for cookies, so that the next run continues these visits")
    args = parser.parse_args()
    asyncio.run(visit(args.site, args.count, args.speed, args.jar))
