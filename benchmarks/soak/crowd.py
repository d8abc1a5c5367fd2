"""The load of a site: heartbeats, logins, kicks and dashboards, each at its own constant rate.

Each action has a time at which it is due, and its latency counts from then. So a call that starts late, because the
call before it was slow, has waited as long as a visitor would have. A slow reply does not lower a rate; if the load
cannot keep up, the report shows fewer actions than planned.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import repeat
from multiprocessing.connection import Connection
from operator import methodcaller
from typing import Any, Final

from benchmarks.data import SEED, Row
from benchmarks.measure import Json
from benchmarks.methods.ending import BY, MESSAGE, REASON
from presence_core import HeartbeatBuffer, Presence, PresenceError, SessionFilter, Settings
from presence_dashboard.data.session_query import FACETS
from presence_dashboard.data.store import Store

FLUSHES: Final = 10
"""App processes of the site. Each sends the content of its heartbeat buffer once a second."""

THREADS: Final = 4
"""Threads that log in and kick."""

TICK: Final = 5.0
"""Seconds between two refreshes of a dashboard."""

GRACE: Final = 5.0
"""Actions that are late by up to this many seconds after the end are still started."""

AFTER: Final = 1.0
"""Seconds after the end for which the dashboards stay, so that their memory is watched to the end."""

QUESTIONS: Final = {"counts": 1, "first page": 1, "history": 1, "facets": len(FACETS), "search": 3,
                    "one user's sessions": 1, "worker status": 1}  # fmt: skip
"""Reads of a dashboard, and how many of each it makes per refresh."""

MAX_ERRORS: Final = 20
"""Errors that the report shows with their text; the rest are only counted."""


@dataclass(slots=True)
class Act:
    """One kind of call, and the latencies of its calls in ms, counted from the time at which they were due.

    In a refresh of a dashboard the first read is due at the time of the refresh, each other one when the read before it
    has returned.
    """

    asked: float = 0.0  #: planned number of calls
    done: int = 0
    waits: array[float] = field(default_factory=lambda: array("d"))

    def as_json(self, seconds: float) -> Json:
        ordered = sorted(self.waits)
        at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99)] if ordered else []
        found: Json = {"asked_per_second": round(self.asked / seconds, 2),
                       "reached_per_second": round(self.done / seconds, 2), "calls": len(ordered)}  # fmt: skip
        return found | dict(zip(("p50_ms", "p99_ms"), (round(ms, 2) for ms in at), strict=False))


@dataclass(slots=True)
class Story:
    """What one process of the load did and found."""

    acts: dict[str, Act] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    failed: int = 0
    began: list[str] = field(default_factory=list)  #: refs that logged in
    kicked: list[str] = field(default_factory=list)
    offline: list[str] = field(default_factory=list)  #: refs that a heartbeat reported as not live

    def act(self, name: str, asked: float = 0.0) -> Act:
        act = self.acts.setdefault(name, Act())
        act.asked += asked
        return act

    def wrong(self, text: str) -> None:
        self.failed += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(text)

    def run(self, name: str, due: float, call: Callable[[], Any], units: int = 1) -> Any:
        """The result; None after an error, which is recorded."""
        try:
            answer = call()
        except PresenceError as error:
            self.wrong(f"{name}: {type(error).__name__}: {error}")
            return None
        act = self.act(name)
        act.waits.append((time.monotonic() - due) * 1000)
        act.done += units
        return answer


@dataclass(frozen=True, slots=True)
class Scene:
    """The input of each load process."""

    url: str
    settings: Settings
    begin: float  #: by time.monotonic(), which all processes share
    seconds: float
    refs: list[str]  #: loaded sessions that stay live unless they are kicked

    @property
    def end(self) -> float:
        return self.begin + self.seconds

    def connect(self) -> Presence:
        return Presence.from_url(self.url, self.settings)

    def number(self, rate: float) -> int:
        """The planned number of actions at this rate."""
        return round(rate * self.seconds)

    def due(self, rate: float) -> Iterator[float]:
        """Evenly spaced due times, as many as planned. Actions that cannot be started in time are left out."""
        for number in range(self.number(rate)):
            moment = self.begin + number / rate
            if time.monotonic() > self.end + GRACE:
                return
            yield moment


def _wait(moment: float) -> None:
    if (left := moment - time.monotonic()) > 0:
        time.sleep(left)


def heartbeats(scene: Scene, rate: float, began: Connection) -> Story:
    """Heartbeats for all online sessions in turn, through the buffer. A session that was reported offline gets none."""
    story, ring, offline_refs, place = Story(), list(scene.refs), set[str](), 0
    random.Random(SEED).shuffle(ring)
    batch = max(1, round(rate / FLUSHES))
    story.act("heartbeats", scene.number(rate / batch) * batch)
    with scene.connect() as presence, HeartbeatBuffer(presence, interval=3600) as buffer:
        for moment in scene.due(rate / batch):
            while began.poll():
                ring += began.recv()
            for _ in range(batch):
                while ring[place := (place + 1) % len(ring)] in offline_refs:
                    pass
                uid, _, session_id = ring[place].rpartition(":")
                buffer.beat(uid, session_id)
            _wait(moment)
            offline = story.run("heartbeats", moment, buffer.flush, batch)
            offline_refs.update(offline or ())
        if buffer.dropped:
            story.wrong(f"{buffer.dropped} heartbeats were dropped")
    story.offline = sorted(offline_refs)
    return story


def visitors(
    scene: Scene, logins: float, kicks: float, rows: Callable[[int], Iterator[Row]], began: Connection
) -> Story:
    """People log in, and staff kick some of them; a kicked session must not validate once the kick has returned.

    Each thread has people of its own, so a thread that waits for Redis does not delay the others.
    """
    telling, every = threading.Lock(), logins + kicks

    def some(number: int, story: Story) -> None:
        own = replace(scene, begin=scene.begin + number / every, refs=scene.refs[number::THREADS])
        _visitors(own, story, logins / THREADS, kicks / THREADS, rows(number), tell)

    def tell(fresh: list[str]) -> None:
        with telling:
            began.send(fresh)

    return _together(some, THREADS if every else 0)


def _visitors(
    scene: Scene, story: Story, logins: float, kicks: float, rows: Iterator[Row], tell: Callable[[list[str]], None]
) -> None:
    rng, online, fresh = random.Random(SEED), scene.refs, []
    for name, rate in (("login", logins), ("kick", kicks), ("validate after kick", kicks)):
        story.act(name, scene.number(rate))
    rates = (("kick", kicks), ("login", logins))
    plan = heapq.merge(*(zip(scene.due(rate), repeat(name)) for name, rate in rates))
    with scene.connect() as presence:
        for moment, name in plan:
            _wait(moment)
            if name == "login":
                if login := story.run("login", moment, partial(presence.login, **next(rows))):
                    fresh.append(login.session.ref)
                    online.append(login.session.ref)
                if len(fresh) >= logins:
                    story.began += fresh
                    tell(fresh)
                    fresh = []
                continue
            place = rng.randrange(len(online))
            online[place], online[-1] = online[-1], online[place]
            uid, _, session_id = online.pop().rpartition(":")
            _kick(story, presence, moment, uid, session_id)
    story.began += fresh


def _kick(story: Story, presence: Presence, moment: float, uid: str, session_id: str) -> None:
    result = story.run(
        "kick", moment, lambda: presence.kick(uid, session_id, by=BY, reason=REASON, message=MESSAGE, ticket="T-1")
    )
    if result is None:
        return
    story.kicked.append(f"{uid}:{session_id}")
    if len(result.kicked) != 1:
        story.wrong(f"kick of {uid}:{session_id} ended {len(result.kicked)}")
    seen = story.run("validate after kick", time.monotonic(), lambda: presence.validate_session(uid, session_id))
    if seen is not None and (seen or seen.ended is None or seen.ended.reason != "kicked"):
        story.wrong(f"{uid}:{session_id} was kicked, and validates")


def dashboards(scene: Scene, count: int) -> Story:
    """Dashboards, each with a store of its own. A refresh reads everything that an open page reads, and runs a
    search."""
    whole = _together(lambda number, story: _dashboard(scene, story, number / count), count)
    _wait(scene.end + AFTER)
    return whole


def _together(act: Callable[[int, Story], None], count: int) -> Story:
    """Run the threads, and send the story of each."""
    stories = [Story() for _ in range(count)]

    def play(number: int, story: Story) -> None:
        try:
            act(number, story)
        except Exception as error:  # a thread that ended with an error must not go unnoticed
            story.wrong(f"gave up: {error!r}")

    threads = [threading.Thread(target=play, args=(number, story)) for number, story in enumerate(stories)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = Story()
    for story in stories:
        whole.failed += story.failed
        for name in ("errors", "began", "kicked"):
            getattr(whole, name).extend(getattr(story, name))
        for name, act_of in story.acts.items():
            together = whole.act(name, act_of.asked)
            together.done += act_of.done
            together.waits.extend(act_of.waits)
    return whole


def _dashboard(scene: Scene, story: Story, offset: float) -> None:
    rng, store = random.Random(SEED + offset), Store(scene.connect)
    own = replace(scene, begin=scene.begin + offset * TICK, seconds=scene.seconds - TICK)
    for name, times in QUESTIONS.items():
        story.act(name, times * own.number(1 / TICK))  # also for refreshes that are too late to be started

    def ask(name: str, question: Callable[[Presence], Any], due: float | None = None) -> Any:
        """Read through the store, as pages do, but from Redis and not from the store's cache."""
        began = time.monotonic() if due is None else due
        reading = store.shared(name, question, fresh=True)
        if reading.failure is not None:
            story.wrong(f"{name}: {reading.failure}")
            return None
        story.act(name).done += 1
        story.act(name).waits.append((time.monotonic() - began) * 1000)
        return reading.value

    for moment in own.due(1 / TICK):
        _wait(moment)
        uid, _, _ = rng.choice(scene.refs).rpartition(":")
        counts = ask("counts", methodcaller("counts"), moment)
        page = ask("first page", methodcaller("list_sessions", limit=50))
        if page is not None and len(page.items) != min(50, page.total):
            story.wrong(f"the first page has {len(page.items)} rows of {page.total}")
        if counts is not None:
            ask("history", methodcaller("history", counts.as_of - timedelta(hours=1), step=60))
        for field_name in FACETS:
            ask("facets", methodcaller("facets", field_name))
        for text in (uid, uid[:5], "maria"):
            ask("search", methodcaller("list_sessions", SessionFilter(text=text), limit=50))
        ask("one user's sessions", methodcaller("sessions", uid))
        ask("worker status", methodcaller("worker_status"))
    store.close()
