"""The ids in memory of sessions that have ended or must sign in again, and the generator that keeps them in step with
Redis."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from presence_core.drive_generators import ClientCall, ClientCalls
from presence_core.keyspace import Shard
from presence_core.logs import fields
from presence_core.models import Counts, Event
from presence_core.operations.context import Context
from presence_core.operations.sessions import events as event_reads
from presence_core.operations.sessions import read
from presence_core.schema.endings import END_REASONS

BATCH: Final = 1000
"""Events or ended sessions read in one call."""

COUNT_INTERVAL: Final = 1.0
"""Seconds between two calls of ``counts()`` while sweeps end the sessions that ``revoke_before`` revoked."""

ALL_SHARDS_INTERVAL: Final = 5.0
"""Seconds between two reads of every shard's watermark. In between the first shard's is read: ``revoke_before`` sets it
together with the others, but may fail after some."""

NEVER: Final = float("-inf")

log = logging.getLogger(__name__)


def _ended_page(since: float, cursor: str | None = None) -> ClientCall:
    return lambda p: p.ended(since=since, limit=BATCH, cursor=cursor)


def _events_page(cursor: str) -> ClientCall:
    return lambda p: p.events(after=cursor, limit=BATCH)


class EndedSessions:
    """The sessions that ended in the last ``keep`` seconds, and those of which staff then required a new sign-in.

    ``step`` reads the events from where the last step stopped. If events were lost to their cap, it reads the ends of
    the last ``keep`` seconds again.
    """

    def __init__(self, context: Context, keep: int, clock: Callable[[], float]) -> None:
        self._context = context
        self._keep = keep
        self._clock = clock
        self._forget_at: dict[str, float] = {}  # by session id, in the order of reading
        self._demanded: dict[str, float] = {}  # the same, of sessions that must sign in again
        self._cursor: str | None = None  # position in the events; None: read all ends first
        self.fresh_at = NEVER  #: when this last agreed with Redis
        self.watermark = -1  #: login time, ms, up to which revoke_before has revoked all sessions
        self._watermark_set_at = 0
        self._all_shards_read_at = NEVER
        self.draining = False  #: sessions up to the watermark may be missing here
        self._drained = True  # the last count; it holds once all events up to that count are read
        self._counted_at = NEVER
        self._incomplete_until = NEVER

    def __len__(self) -> int:
        return len(self._forget_at)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._forget_at or session_id in self._demanded

    @property
    def may_miss_ends(self) -> bool:
        """Whether more sessions may have ended than Redis lists."""
        return self._clock() < self._incomplete_until

    def step(self) -> ClientCalls[bool]:
        """Read what is new. Returns True if there is more to read at once, False if this agrees with Redis."""
        yield from self._read_watermark()
        if self._cursor is None:
            yield from self._read_all_ends()
        elif not self._drained and self._clock() - self._counted_at >= COUNT_INTERVAL:
            self._counted_at = self._clock()
            self._note_counts((yield lambda p: p.counts()))
        events = yield lambda p: p.events(after=self._cursor, limit=BATCH)
        if not self._note_events(events):
            self._cursor = None  # until all is read again this gets stale, and the cache checks for that
            return True
        if len(events) == BATCH:
            return True
        self.agree()
        return False

    def restart(self) -> None:
        """Read all ends again: the layout has changed, and the cursor belongs to the old one."""
        self._cursor = None

    def agree(self) -> None:
        """All events up to now are read: forget what is older than ``keep``."""
        self.fresh_at = now = self._clock()
        self.draining = not self._drained
        for kept in (self._forget_at, self._demanded):
            for session_id, forget_at in list(islice(kept.items(), BATCH)):
                if forget_at > now:
                    break
                kept.pop(session_id, None)

    def _read_watermark(self) -> ClientCalls[None]:
        watermark, set_at = yield lambda p: p.internal.run(read.watermark(p.internal.context))
        if self._clock() - self._all_shards_read_at >= ALL_SHARDS_INTERVAL:
            edges = yield lambda p: p.internal.run(read.latest(p.internal.context))
            self._all_shards_read_at = self._clock()
            highest = max(edges, key=lambda edge: edge.revoked)
            if highest.revoked > watermark:
                watermark, set_at = highest.revoked, highest.now
        if watermark > self.watermark:
            self.watermark, self._watermark_set_at = watermark, set_at
            self.draining, self._drained = True, False

    def _read_all_ends(self) -> ClientCalls[None]:
        cursor = yield lambda p: p.events_end()  # first, so that what ends meanwhile is read again from the events
        counts = yield lambda p: p.counts()
        self._note_counts(counts)
        # The earlier of two clocks: JWTs expire by the site's clock, and Redis's clock may have jumped ahead.
        since, ends = min(counts.as_of.timestamp(), time.time()) - self._keep, Counter[Shard]()
        page = yield _ended_page(since)
        while True:
            self._note_ends(end.session_id for end in page)
            ends.update(self._context.keys.shard(end.uid) for end in page)
            if not page.next_cursor:
                break
            page = yield _ended_page(since, page.next_cursor)
        self._note_full_lists(ends)
        yield from self._read_demands(since, cursor)
        self._cursor = cursor

    def _read_demands(self, since: float, upto: str) -> ClientCalls[None]:
        """The sessions that must sign in again are in no list: read the events of the last ``keep`` seconds, if staff
        required it of any session in that time."""
        edges = yield lambda p: p.internal.run(read.latest(p.internal.context))
        if max(edge.demanded for edge in edges) < since * 1000:
            return
        end = event_reads.positions(upto)
        begin = event_reads.time_position(round(since * 1000) - 1)
        cursor = event_reads.cursor_of([min(begin, place) for place in end])
        while event_reads.positions(cursor) != end:
            events = yield _events_page(cursor)
            if "gap" in {event.kind for event in events}:
                log.warning("a required sign-in may be missed: asking Redis for %s s", self._keep)
                self._incomplete_until = self._clock() + self._keep
            self._note_demands(events)
            if len(events) < BATCH:
                return
            cursor = events[-1].cursor

    def _note_full_lists(self, ends: Counter[Shard]) -> None:
        """A list of ends that is at its cap, or nearly (some entries are hidden), may have lost older entries."""
        cap = self._context.settings.max_ended // len(self._context.keys.shards)
        if 10 * max(ends.values(), default=0) >= 9 * cap:
            log.warning("more sessions may have ended than Redis lists: asking Redis for %s s", self._keep,
                        extra=fields(event="ends_incomplete"))  # fmt: skip
            self._incomplete_until = self._clock() + self._keep

    def _note_events(self, events: list[Event]) -> bool:
        """False if events were lost before these."""
        if any(event.kind == "gap" for event in events):
            log.warning("events were lost to their cap: reading the ends of the last %s s again", self._keep,
                        extra=fields(event="events_lost"))  # fmt: skip
            return False
        self._note_ends(event.session_id for event in events if event.kind in END_REASONS)
        self._note_demands(events)
        if events:
            self._cursor = events[-1].cursor
        return True

    def _note_demands(self, events: list[Event]) -> None:
        forget_at = self._clock() + self._keep
        for event in events:
            if event.kind in ("sign_in_required", "reauthenticated"):
                self._demanded.pop(event.session_id, None)
            if event.kind == "sign_in_required":
                self._demanded[event.session_id] = forget_at

    def _note_ends(self, session_ids: Iterable[str]) -> None:
        forget_at = self._clock() + self._keep
        for session_id in session_ids:
            self._forget_at.pop(session_id, None)  # so that the order stays that of ``forget_at``
            self._forget_at[session_id] = forget_at

    def _note_counts(self, counts: Counts) -> None:
        """Draining counts from now on. Its end counts once all events up to now are read, and not while
        ``revoke_before`` may still be writing to other shards."""
        shards, timeout = len(self._context.keys.shards), self._context.settings.timeout
        being_set = shards > 1 and abs(counts.as_of.timestamp() - self._watermark_set_at / 1000) < 2 * timeout
        self._drained = not (counts.draining or being_set)
        self.draining = self.draining or not self._drained
