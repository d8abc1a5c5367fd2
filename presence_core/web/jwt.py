"""For sites whose requests carry a JWT: its ``jti`` is the session id, and what has ended is known in memory.

A JWT is valid until it expires, whoever was kicked. Begin a session with each, and ask a RevocationCache at each
request: no round trip, and a kick or ``revoke_before`` arrives within a fifth of a second::

    session = presence.login(uid).session
    claims = {"sub": uid, "jti": session.session_id, "auth_time": session.login_at.timestamp(), "exp": …}
    cache = RevocationCache(presence, keep=3600)  # at least as long as a JWT lives
    if cache.is_revoked(claims["jti"], claims["sub"], login_at=claims["auth_time"]): …  # refuse

The cache reads the events from where it left off. Where events were lost to their cap it reads the ends of the last
``keep`` seconds again. A request that passes is noted as a heartbeat. It needs no JWT library.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from presence_core import settings as check
from presence_core.buffer import HeartbeatBuffer
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.forked import renew_in_child
from presence_core.keyspace import Shard
from presence_core.models import Counts, Event
from presence_core.operations import reading
from presence_core.web.flow import Call, Flow, drive, drive_async
from presence_core.web.rules import number

ENDS: Final = frozenset({"logout", "expired", "kicked", "replaced"})
INTERVAL: Final = 0.1
"""Seconds between two looks at the events."""

log = logging.getLogger("presence_core")


def _ends(since: float, cursor: str | None = None) -> Call:
    return lambda p: p.ended(since=since, limit=1000, cursor=cursor)


class RevocationCache:
    """Which sessions have ended in the last ``keep`` seconds, in memory, kept in step with Redis.

    keep: seconds, at least the longest life of a JWT, 60…86,400; tombstones must be kept as long
    (``Settings.keep_kicked``, ``keep_replaced``, ``keep_logout``), or a lost event could not be made good. max_stale:
    for so many seconds the cache answers by what it knows while Redis is away, 1…3600; then everything is revoked
    (``on_stale="closed"``, the default) or only what is known (``"open"``). heartbeat: a session is noted as seen at
    most once in so many seconds, 1…3600, and three times in the idle timeout of ``Settings``; give less where logins
    have a shorter one of their own.

    With a Presence a daemon thread keeps it (``with RevocationCache(…)``, or ``start`` and ``close``); with an
    AsyncPresence a task of the running loop (``async with``, or ``astart`` and ``aclose``). A forked child starts its
    own thread at its first question, and until it has read anew everything is revoked. Memory: 150 bytes or so a
    session that has ended.

    An expiry by time is an event once a sweep has found it, some seconds late: give JWTs a life no longer than the
    timeouts. ``revoke_before`` is heard as soon as a kick, and decided in memory where ``login_at`` is given. Where it
    is not, the cache cannot know who is out until sweeps have ended those sessions: until then it asks Redis about
    sessions that are not known to have ended, if a Presence and the ``uid`` are at hand, and else calls them revoked.
    It does the same for ``keep`` seconds where the ends to be read are as many as ``Settings.max_ended`` lets be
    listed: there may have been more.
    """

    def __init__(
        self,
        presence: Presence | AsyncPresence,
        *,
        keep: int = 3600,
        max_stale: float = 30.0,
        on_stale: str = "closed",
        heartbeat: float = 30.0,
    ) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence")
        check.whole("keep", keep, 60, 86_400)
        kept = min(getattr(presence.settings, f"keep_{reason}") for reason in ("kicked", "replaced", "logout"))
        if keep > kept:
            raise InvalidArgument("keep", f"must be at most {kept}, for which Settings keep tombstones")
        if not presence.settings.max_ended:
            raise InvalidArgument("max_ended", "must be more than 0: a lost event could not be made good")
        if on_stale not in ("closed", "open"):
            raise InvalidArgument("on_stale", 'must be "closed" or "open"')
        self._presence = presence
        self._keep = keep
        self._max_stale = number("max_stale", max_stale, 1, 3600)
        self._on_stale = on_stale
        self._beat_every = min(number("heartbeat", heartbeat, 1, 3600), presence.settings.idle_timeout / 3)
        self._clock: Callable[[], float] = time.monotonic
        self._start_anew()
        renew_in_child(self, RevocationCache._start_anew)

    def _start_anew(self) -> None:
        self._ended: dict[str, float] = {}  # session id → until when it is kept; in the order of reading
        self._cursor: str | None = None  # None: to be read anew
        self._fresh_at = float("-inf")
        self._watermark, self._revoked_at = -1, 0
        self._draining = False
        self._drained = True  # as it was last counted, which holds once all events up to then are read
        self._unsure_until = float("-inf")
        self._closed = False
        self._counted_at = float("-inf")
        self._started = False
        self._buffer: HeartbeatBuffer | None = None
        self._beaten: set[str] = set()  # session ids that were noted as seen in this period …
        self._beats_until = float("-inf")  # … which ends then
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def stale_for(self) -> float:
        """Seconds since the cache last agreed with Redis; infinite before it first did."""
        return self._clock() - self._fresh_at

    @property
    def is_stale(self) -> bool:
        """Whether it is too old to be believed."""
        return self.stale_for > self._max_stale

    def __len__(self) -> int:
        return len(self._ended)

    def is_revoked(
        self, jti: str, uid: str | None = None, *, login_at: datetime | float | None = None, touch: bool = True
    ) -> bool:
        """Whether the session of this JWT has ended. If it has not, and the uid is given, it is noted as seen.

        login_at: when the session began (``session.login_at``), as a datetime or Unix seconds with their fraction: it
        decides about ``revoke_before`` in memory. touch: False for a look that is no request of the visitor.
        Never raises; cost: a look into a dict. Heartbeats are sent together, by a thread or task.
        """
        if not self._started and isinstance(self._presence, Presence) and not self._closed:
            self.start(wait=0)  # in a forked child
        revoked = self._is_revoked(jti, uid, login_at)
        if touch and uid is not None and not revoked:
            self._beat(uid, jti)
        return revoked

    def _beat(self, uid: str, jti: str) -> None:
        now = self._clock()
        if now >= self._beats_until:
            self._beaten, self._beats_until = set(), now + self._beat_every
        if self._buffer is None or jti in self._beaten:
            return
        self._beaten.add(jti)
        with contextlib.suppress(InvalidArgument, RuntimeError):  # no session of ours; closed
            self._buffer.beat(uid, jti)

    def _is_revoked(self, jti: str, uid: str | None, login_at: datetime | float | None) -> bool:
        if jti in self._ended:
            return True
        began = None
        if login_at is not None:
            with contextlib.suppress(InvalidArgument):
                began = check.past("login_at", login_at)
                if began <= self._watermark:
                    return True
        if self.is_stale:
            return self._on_stale == "closed"
        if (not self._draining or began is not None) and self._clock() >= self._unsure_until:
            return False
        if uid is None or not isinstance(self._presence, Presence):
            return True
        try:
            return not self._presence.validate_session(uid, jti, touch=False)
        except PresenceError:
            return True

    # -- what both drivers share ---------------------------------------------------------------------------------------

    def _note(self, session_ids: Iterable[str]) -> None:
        until = self._clock() + self._keep
        for session_id in session_ids:
            self._ended.pop(session_id, None)
            self._ended[session_id] = until

    def _take(self, events: list[Event]) -> bool:
        """Note a batch; whether it goes on from what was read before, with nothing lost between."""
        if any(event.kind == "gap" for event in events):
            log.warning("events were lost to their cap: the ends of the last %s s are read anew", self._keep)
            return False
        self._note(event.session_id for event in events if event.kind in ENDS)
        if events:
            self._cursor = events[-1].cursor
        return True

    def _mark(self, watermark: tuple[int, int]) -> None:
        """Until it is known better, some of those who are signed out are not among the ends."""
        if watermark[0] > self._watermark:
            self._watermark, self._revoked_at = watermark
            self._draining, self._drained = True, False

    def _count(self, counts: Counts) -> None:
        """Draining is believed at once, that it is over only when the events of all that was drained are read; and not
        while ``revoke_before`` may still be on its way to the other shards."""
        settings, shards = self._presence.settings, len(self._presence._ctx.keys.shards)
        on_its_way = shards > 1 and abs(counts.as_of.timestamp() - self._revoked_at / 1000) < 2 * settings.timeout
        self._drained = not (counts.draining or on_its_way)
        self._draining = self._draining or not self._drained

    def _agree(self) -> None:
        self._fresh_at = now = self._clock()
        self._draining = not self._drained
        for session_id, until in list(self._ended.items())[:1000]:
            if until > now:
                break
            self._ended.pop(session_id, None)
        self._ready.set()

    def _step(self) -> Flow[bool]:
        """Read what is new, or, where there is nothing to go on from, all that is kept; whether there is more."""
        self._mark((yield lambda p: p._run(reading.watermark(p._ctx))))
        if self._cursor is None:
            end = yield lambda p: p.events_end()  # before the ends are read: what comes meanwhile is read again
            counts = yield lambda p: p.counts()
            self._count(counts)
            # By the earlier clock: JWTs expire by the site's, and that of Redis may have leapt.
            since, ends = min(counts.as_of.timestamp(), time.time()) - self._keep, Counter[Shard]()
            page = yield _ends(since)
            while True:
                self._note(one.session_id for one in page)
                ends.update(self._presence._ctx.keys.shard(one.uid) for one in page)
                if not page.next_cursor:
                    break
                page = yield _ends(since, page.next_cursor)
            shards = len(self._presence._ctx.keys.shards)
            # A shard's list that is (nearly: some are hidden) as long as it may be has lost older ones.
            if 10 * max(ends.values(), default=0) >= 9 * (self._presence.settings.max_ended // shards):
                log.warning("more may have ended than are listed: for %s s Redis is asked", self._keep)
                self._unsure_until = self._clock() + self._keep
            self._cursor = end
        elif not self._drained and self._clock() - self._counted_at >= 1.0:
            self._counted_at = self._clock()
            self._count((yield lambda p: p.counts()))
        events = yield lambda p: p.events(after=self._cursor, limit=1000)
        if not self._take(events):
            self._cursor = None  # and meanwhile the cache grows stale, which is_revoked minds
            return True
        if len(events) == 1000:
            return True
        self._agree()
        return False

    # -- with a Presence -----------------------------------------------------------------------------------------------

    def start(self, *, wait: float = 5.0) -> None:
        """Begin to read, and wait (seconds) until all ends are known; if Redis is away, go on without."""
        if not isinstance(self._presence, Presence):
            raise RuntimeError("an AsyncPresence's cache is started by astart()")
        with self._lock:
            if not self._started:
                self._started, self._closed = True, False
                self._buffer = HeartbeatBuffer(self._presence)
                self._wake.clear()
                self._thread = threading.Thread(target=self._run, name="presence-revocations", daemon=True)
                self._thread.start()
        if wait:
            self._ready.wait(wait)

    def _run(self) -> None:
        presence = self._presence
        assert isinstance(presence, Presence)
        while not self._closed:
            try:
                if not drive(self._step(), presence):
                    self._wake.wait(INTERVAL)
            except PresenceError as error:
                self._failed(error)
                self._wake.wait(0.5)

    def _failed(self, error: PresenceError) -> None:
        log.warning("revocations wait: %s", error)
        if isinstance(error, InvalidArgument):
            self._cursor = None  # the namespace was laid out anew: the cursor is of another one

    def close(self) -> None:
        """Stop reading, and send the heartbeats that wait. What is known is answered until it is stale."""
        self._closed = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._started = False
        if self._buffer is not None:
            with contextlib.suppress(PresenceError):  # heartbeats that cannot be sent are not worth an error
                self._buffer.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- with an AsyncPresence -----------------------------------------------------------------------------------------

    async def astart(self) -> None:
        """See start. Waits until the ends were read once, or could not be."""
        if not isinstance(self._presence, AsyncPresence):
            raise RuntimeError("a Presence's cache is started by start()")
        if self._task is None or self._task.done():
            self._started, self._closed = True, False
            self._buffer = HeartbeatBuffer(self._presence)
            await self._buffer.astart()
            await self._once(self._presence)
            self._task = asyncio.get_running_loop().create_task(self._run_async(self._presence))

    async def _once(self, presence: AsyncPresence) -> float:
        try:
            return 0.0 if await drive_async(self._step(), presence) else INTERVAL
        except PresenceError as error:
            self._failed(error)
            return 0.5

    async def _run_async(self, presence: AsyncPresence) -> None:
        while not self._closed:
            await asyncio.sleep(await self._once(presence))

    async def aclose(self) -> None:
        """See close."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._started = False
        if self._buffer is not None:
            with contextlib.suppress(PresenceError):
                await self._buffer.aclose()

    async def __aenter__(self) -> Self:
        await self.astart()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()
