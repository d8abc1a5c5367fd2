"""The sessions whose end this process waits for, and the generator that finds those of which no request passes any
more.

Events say which session to look at; what is true of it is always read from its record. So a session is checked when it
is first watched, when an event names it, at its deadline, and at least once a minute. All are checked when
``revoke_before`` has run, when events were lost, and after an outage.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final

from presence_core.fork_safety import renew_in_child
from presence_core.logs import fields
from presence_core.models import Event, ValidationFailed
from presence_core.operations.context import Context
from presence_core.operations.sessions import events, read
from presence_core.operations.sessions.settle import Pair
from presence_core.operations.sessions.tombstones import SessionCheck, check_sessions
from presence_core.schema.endings import END_REASONS
from presence_core.scripts.calls import Op

EVENTS: Final = 1000
"""Events read in one call."""

BATCH: Final = 200
"""Sessions checked in one call: about 5 ms of this process, 15 ms if all have ended."""

CHECK_INTERVAL: Final = 60.0
"""Seconds after which a session is checked again, even without an event."""

NOW: Final = -inf

log = logging.getLogger(__name__)

_REFUSING: Final = frozenset({*END_REASONS, "sign_in_required"})
"""The events after which no request of the session passes."""

OnEnd = Callable[[ValidationFailed | None], object]
"""Called once, when no request of the session passes any more: with the reason. With None if the client closes."""


class Watch:
    """One that waits for the end of a session."""

    __slots__ = ("on_end", "pair")

    def __init__(self, pair: Pair, on_end: OnEnd) -> None:
        self.pair = pair
        self.on_end = on_end


class _Watched:
    """A watched session."""

    __slots__ = ("due", "watches")

    def __init__(self) -> None:
        self.due = NOW  #: when to check it, by the clock
        self.watches: list[Watch] = []


class WatchedSessions:
    """Safe to share between threads, but only one may take steps. Memory: about 500 bytes for a session."""

    def __init__(self, context: Context, clock: Callable[[], float]) -> None:
        self._context = context
        self._clock = clock
        self._reset()
        renew_in_child(self, WatchedSessions._reset)

    def _reset(self) -> None:
        """A forked child has none of the parent's connections."""
        self._lock = threading.Lock()
        self._watched: dict[Pair, _Watched] = {}
        self._due: list[tuple[float, Pair]] = []  # a heap; an entry that is not the session's ``due`` is ignored
        self._cursor: str | None = None  # position in the events; None: begin at their end
        self._checked_for = (-1, "")
        """The watermark of revoke_before, and the time if a test has stopped the clock: others end other sessions."""

    def __len__(self) -> int:
        return len(self._watched)

    def add(self, pair: Pair, on_end: OnEnd) -> Watch:
        """Watch a session: uid, session id."""
        watch = Watch(pair, on_end)
        with self._lock:
            watched = self._watched.get(pair)
            if watched is None:
                watched = self._watched[pair] = _Watched()
                heappush(self._due, (NOW, pair))
            watched.watches.append(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """Wait no longer. Nothing happens if the session has ended."""
        with self._lock:
            watched = self._watched.get(watch.pair)
            if watched is not None and watch in watched.watches:
                watched.watches.remove(watch)
                if not watched.watches:
                    del self._watched[watch.pair]

    def close(self) -> None:
        """Watch nothing any more; all that wait get None."""
        with self._lock:
            watches = [watch for watched in self._watched.values() for watch in watched.watches]
            self._watched.clear()
        self.restart()
        for watch in watches:
            watch.on_end(None)

    def restart(self) -> None:
        """A step has failed: the next one checks all sessions."""
        self._cursor = None

    def step(self) -> Generator[Op[Any], Any, bool]:
        """Read what is new, and check what is due: yields operations and receives their results. Returns True if there
        is more to do at once."""
        ctx = self._context
        if self._cursor is None:
            cursor: str = yield events.latest(ctx)
            self._check_all()
            self._cursor = cursor
        watermark, _ = yield read.watermark(ctx)
        if (watermark, ctx.now) != self._checked_for:
            self._checked_for = watermark, ctx.now
            self._check_all()
        found: list[Event] = yield events.events(ctx, self._cursor, EVENTS)
        self._note_events(found)
        pairs = self._take_due()
        if pairs:
            checks = yield check_sessions(ctx, pairs)
            self._note_checks(pairs, checks)
        return len(found) == EVENTS or len(pairs) == BATCH

    def _check_all(self) -> None:
        with self._lock:
            for watched in self._watched.values():
                watched.due = NOW
            self._due = [(NOW, pair) for pair in self._watched]
            heapify(self._due)

    def _note_events(self, found: list[Event]) -> None:
        if not found:
            return
        if any(event.kind == "gap" for event in found):
            self._check_all()
        else:
            self._check_now((event.uid, event.session_id) for event in found if event.kind in _REFUSING)
        self._cursor = found[-1].cursor

    def _check_now(self, pairs: Iterable[Pair]) -> None:
        with self._lock:
            for pair in pairs:
                watched = self._watched.get(pair)
                if watched is not None and watched.due != NOW:
                    watched.due = NOW
                    heappush(self._due, (NOW, pair))

    def _take_due(self) -> list[Pair]:
        """The sessions to check now, at most a batch. If the check fails, ``restart`` makes all due again."""
        now, pairs = self._clock(), list[Pair]()
        with self._lock:
            while self._due and self._due[0][0] <= now and len(pairs) < BATCH:
                due, pair = heappop(self._due)
                watched = self._watched.get(pair)
                if watched is not None and watched.due == due:
                    watched.due = inf
                    pairs.append(pair)
        return pairs

    def _note_checks(self, pairs: list[Pair], checks: list[SessionCheck]) -> None:
        ended: list[tuple[Watch, ValidationFailed]] = []
        now = self._clock()
        with self._lock:
            for pair, (seconds_left, failed) in zip(pairs, checks, strict=True):
                watched = self._watched.get(pair)
                if watched is None:
                    continue
                if failed is not None:
                    del self._watched[pair]
                    ended += [(watch, failed) for watch in watched.watches]
                else:
                    watched.due = now + min(CHECK_INTERVAL, seconds_left)
                    heappush(self._due, (watched.due, pair))
        for watch, failed in ended:
            try:
                watch.on_end(failed)
            except Exception:  # the others are to know of their ends too
                log.exception("on_end failed", extra=fields(event="callback_failed"))
