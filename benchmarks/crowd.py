"""Who comes to a site under load: heartbeats, logins, kicks and dashboards, each at its own rate, come what may.

Every act has a moment at which it is due, and is timed from that moment on: a call that comes late because the one
before it took long has waited as long as a visitor would have. No answer lowers a rate; a crowd that cannot keep up
says so by what it has done of what was asked.
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
from benchmarks.ending import BY, MESSAGE, REASON
from benchmarks.measure import Json
from presence_core import HeartbeatBuffer, Presence, PresenceError, SessionFilter, Settings
from presence_dashboard.questions import FACETS
from presence_dashboard.store import Store

FLUSHES: Final = 10
"""A second: as many app processes, each of which sends once a second what its buffer has gathered."""

THREADS: Final = 4
"""Of those who log in and are kicked."""

TICK: Final = 5.0
"""Seconds of a dashboard."""

GRACE: Final = 5.0
"""Seconds after the end in which what is overdue is still begun."""

QUESTIONS: Final = {"counts": 1, "first page": 1, "history": 1, "facets": len(FACETS), "search": 3,
                    "one user's sessions": 1, "worker status": 1}  # fmt: skip
"""How often a dashboard asks what at a tick."""

TOLD: Final = 20
"""Errors told in words; the others are counted."""


@dataclass(slots=True)
class Act:
    """One kind of call: how long who asked for it waited, ms, from the moment when it was due. In a dashboard's tick
    the first question is due at a moment; each of the others is when the one before has been answered."""

    asked: float = 0.0  #: how many there ought to have been
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
    """What one process of the crowd did and found."""

    acts: dict[str, Act] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    failed: int = 0
    began: list[str] = field(default_factory=list)  #: refs that logged in
    kicked: list[str] = field(default_factory=list)
    offline: list[str] = field(default_factory=list)  #: refs that heartbeats were told are not live

    def act(self, name: str, asked: float = 0.0) -> Act:
        act = self.acts.setdefault(name, Act())
        act.asked += asked
        return act

    def wrong(self, what: str) -> None:
        self.failed += 1
        if len(self.errors) < TOLD:
            self.errors.append(what)

    def run(self, name: str, due: float, call: Callable[[], Any], units: int = 1) -> Any:
        """The answer; None after an error, which is written down."""
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
    """What each of them is given."""

    url: str
    settings: Settings
    begin: float  #: by time.monotonic(), which all processes share
    seconds: float
    refs: list[str]  #: loaded sessions that stay unless somebody kicks them

    @property
    def end(self) -> float:
        return self.begin + self.seconds

    def connect(self) -> Presence:
        return Presence.from_url(self.url, self.settings)

    def number(self, rate: float) -> int:
        """How many there are at so many a second."""
        return round(rate * self.seconds)

    def due(self, rate: float) -> Iterator[float]:
        """Evenly spaced moments, as many as are asked for; those that cannot be begun in time are left out."""
        for number in range(self.number(rate)):
            moment = self.begin + number / rate
            if time.monotonic() > self.end + GRACE:
                return
            yield moment


def _wait(moment: float) -> None:
    if (left := moment - time.monotonic()) > 0:
        time.sleep(left)


def heartbeats(scene: Scene, rate: float, began: Connection) -> Story:
    """All that are online are seen in turn, through the buffer; who is told to be offline is not asked for again."""
    story, ring, gone, place = Story(), list(scene.refs), set[str](), 0
    random.Random(SEED).shuffle(ring)
    batch = max(1, round(rate / FLUSHES))
    story.act("heartbeats", scene.number(rate / batch) * batch)
    with scene.connect() as presence, HeartbeatBuffer(presence, interval=3600) as buffer:
        for moment in scene.due(rate / batch):
            while began.poll():
                ring += began.recv()
            for _ in range(batch):
                while ring[place := (place + 1) % len(ring)] in gone:
                    pass
                uid, _, session_id = ring[place].rpartition(":")
                buffer.beat(uid, session_id)
            _wait(moment)
            offline = story.run("heartbeats", moment, buffer.flush, batch)
            gone.update(offline or ())
        if buffer.dropped:
            story.wrong(f"{buffer.dropped} heartbeats were dropped")
    story.offline = sorted(gone)
    return story


def visitors(
    scene: Scene, logins: float, kicks: float, rows: Callable[[int], Iterator[Row]], began: Connection
) -> Story:
    """People log in, and staff kick somebody; whoever was kicked must not validate when the kick has returned. So many
    threads, each with people of its own: one who waits for Redis keeps nobody else waiting."""
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
    """So many dashboards, each with a store of its own: at each tick all that an open page reads, and a search."""
    whole = _together(lambda number, story: _dashboard(scene, story, number / count), count)
    _wait(scene.end + 1)  # its memory is watched to the end
    return whole


def _together(act: Callable[[int, Story], None], count: int) -> Story:
    """What so many threads have to tell."""
    stories = [Story() for _ in range(count)]

    def play(number: int, story: Story) -> None:
        try:
            act(number, story)
        except Exception as error:  # else nobody would miss a thread that is over
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
        story.act(name, times * own.number(1 / TICK))  # also of ticks that come too late to be begun

    def ask(name: str, question: Callable[[Presence], Any], due: float | None = None) -> Any:
        """Through the store, as pages do, and from Redis, not from what it keeps."""
        began = time.monotonic() if due is None else due
        reading = store.shared(name, question, anew=True)
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
