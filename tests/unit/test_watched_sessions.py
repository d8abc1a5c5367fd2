"""Which sessions are checked when, without a server: each step's operations get replies by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from presence_core import Settings
from presence_core.end_watch.watched_sessions import BATCH, CHECK_INTERVAL, EVENTS, WatchedSessions
from presence_core.models import Event, ValidationFailed
from presence_core.operations.context import Context
from presence_core.operations.sessions.events import make_cursor
from presence_core.operations.sessions.settle import Pair
from presence_core.operations.sessions.tombstones import SessionCheck

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Redis:
    """What the steps read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[Event] = []
        self.watermark = -1
        self.ended: set[str] = set()  #: uids
        self.seconds_left = 1800.0
        self.is_away = False
        self.checked: list[list[str]] = []  #: uids, by call
        self.reported: list[str] = []  #: uids whose end was reported
        ids = {"new_id": str, "new_secret": bytes, "random": int}
        context = Context(Settings(), False, **ids, clock=float, server_of=str)  # type: ignore[arg-type]
        self.watched = WatchedSessions(context, lambda: self.now)

    def watch(self, *uids: str) -> list[Any]:
        return [self.watched.add((uid, "s"), partial(self._report, uid)) for uid in uids]

    def _report(self, uid: str, failed: object) -> None:
        self.reported.append(uid)

    def tell(self, kind: Any, uid: str = "") -> None:
        self.events.append(Event(kind, uid, "s", NOON, make_cursor(["1-0"])))

    def step(self) -> list[str]:
        """One step; returns the uids that were checked, in order."""
        before = len(self.checked)
        steps, reply = self.watched.step(), None
        try:
            while True:
                operation = steps.send(reply)
                if self.is_away:
                    operation.close()
                    steps.close()
                    self.watched.restart()
                    return []
                reply = self._reply(operation)
        except StopIteration:
            pass
        return sorted(uid for batch in self.checked[before:] for uid in batch)

    def _reply(self, operation: Any) -> Any:
        name, known = operation.__qualname__.lstrip("_"), operation.gi_frame.f_locals
        operation.close()
        if name == "latest":
            self.events.clear()
            return make_cursor(["0-0"])
        if name == "watermark":
            return self.watermark, 0
        if name.startswith("check_sessions"):
            pairs: list[Pair] = known["pairs"]
            self.checked.append([uid for uid, _ in pairs])
            return [SessionCheck(0, ValidationFailed()) if uid in self.ended else SessionCheck(self.seconds_left, None)
                    for uid, _ in pairs]  # fmt: skip
        found, self.events = self.events[:EVENTS], self.events[EVENTS:]
        return found


@pytest.fixture
def redis() -> Redis:
    made = Redis()
    made.watch("ada", "eve")
    assert made.step() == ["ada", "eve"], "each is checked when it is first watched: it may have ended just before"
    assert made.step() == []
    return made


def test_a_session_that_is_watched_later_is_checked_too(redis: Redis) -> None:
    redis.ended.add("zoe")
    redis.watch("zoe")
    assert redis.step() == ["zoe"]
    assert redis.reported == ["zoe"]


def test_an_event_that_names_a_session_has_it_checked_and_no_other(redis: Redis) -> None:
    for kind in ("login", "reauthenticated", "new_device", "distant", "moved"):
        redis.tell(kind, "ada")
    redis.tell("kicked", "someone else")
    assert redis.step() == []
    for kind in ("kicked", "logout", "expired", "replaced", "sign_in_required"):
        redis.tell(kind, "ada")
        assert redis.step() == ["ada"]
    assert redis.reported == [], "the record decides, not the event"
    redis.ended.add("ada")
    redis.tell("kicked", "ada")
    assert redis.step() == ["ada"]
    assert redis.reported == ["ada"]


def test_all_are_checked_after_a_gap_a_revocation_and_an_outage(redis: Redis) -> None:
    redis.tell("gap")
    assert redis.step() == ["ada", "eve"]
    redis.watermark = 1000
    assert redis.step() == ["ada", "eve"]
    assert redis.step() == []
    redis.is_away = True
    assert redis.step() == []
    redis.ended.add("eve")
    redis.is_away = False
    assert redis.step() == ["ada", "eve"]
    assert redis.reported == ["eve"]


def test_a_session_is_checked_at_its_deadline_and_once_a_minute(redis: Redis) -> None:
    redis.now = CHECK_INTERVAL - 1
    assert redis.step() == []
    redis.now = CHECK_INTERVAL
    redis.seconds_left = 5
    assert redis.step() == ["ada", "eve"]
    redis.now += 4.9
    assert redis.step() == []
    redis.now += 0.1
    redis.seconds_left = 1800
    assert redis.step() == ["ada", "eve"], "at the deadline that it had"


def test_thousands_are_checked_in_batches_each_once(redis: Redis) -> None:
    redis.watch(*(f"u{number}" for number in range(1000)))
    redis.tell("gap")
    for _ in range(20):
        redis.step()
    sizes = [len(batch) for batch in redis.checked[1:]]
    assert (max(sizes), sum(sizes)) == (BATCH, 1002)


def test_an_end_is_reported_to_all_that_wait_once(redis: Redis) -> None:
    redis.watch("ada", "ada")
    redis.ended.add("ada")
    redis.tell("kicked", "ada")
    redis.tell("kicked", "ada")
    redis.step()
    redis.step()
    assert redis.reported == ["ada"] * 3
    assert len(redis.watched) == 1


def test_an_end_is_not_reported_to_those_that_wait_no_longer(redis: Redis) -> None:
    [first, second] = redis.watch("ada", "zoe")
    redis.watched.remove(first)
    redis.watched.remove(first)
    redis.watched.remove(second)
    redis.ended |= {"ada", "zoe"}
    redis.tell("kicked", "ada")
    redis.tell("kicked", "zoe")
    assert redis.step() == ["ada"]
    assert redis.reported == ["ada"], "the first that waited for it"
