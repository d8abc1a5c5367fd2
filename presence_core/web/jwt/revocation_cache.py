"""RevocationCache: ask in memory whether the session of a JWT has ended, or must sign in again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal, Self

from presence_core import validation as check
from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import drive, drive_async
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.fork_safety import renew_in_child
from presence_core.heartbeat_buffer import HeartbeatBuffer
from presence_core.logs import OutageLog
from presence_core.schema.endings import kept
from presence_core.web.jwt.ended_sessions import NEVER, EndedSessions

OnStale = Literal["closed", "open"]

INTERVAL: Final = 0.1
"""Seconds between two reads of the events."""

RETRY_INTERVAL: Final = 0.5
"""Seconds between two tries while Redis is away."""

log = logging.getLogger(__name__)


class RevocationCache:
    """The sessions that ended in the last ``keep`` seconds, in memory.

    keep: seconds, at least the longest life of a JWT, 60…86,400. Settings must keep tombstones as long
    (``keep_kicked``, ``keep_replaced``, ``keep_logout``), so that the cache can recover lost events. max_stale: seconds
    for which the cache answers from memory while Redis is away, 1…3600. After that every session counts as revoked
    (``on_stale="closed"``, the default), or only those known to have ended (``"open"``). heartbeat: seconds between two
    heartbeats of a session, 1…3600, and at most a third of ``Settings.idle_timeout``. Choose less if logins have a
    shorter timeout of their own.

    With a Presence a daemon thread reads the ends (``with RevocationCache(…)``, or ``start`` and ``close``). With an
    AsyncPresence a task of the running loop does (``async with``, or ``astart`` and ``aclose``). A forked child starts
    a thread of its own at its first question; until it has read the ends, every session counts as revoked. Memory:
    about 150 bytes for each ended session.

    A timeout becomes an event when a sweep finds it, some seconds late, so JWTs should not live longer than the
    timeouts. ``revoke_before`` arrives as fast as a kick. With ``login_at`` it is decided in memory. Without it the
    cache cannot tell which sessions are revoked until sweeps have ended them. Until then it asks Redis about sessions
    that are not known to have ended; that needs a Presence and the ``uid``, otherwise they count as revoked. The same
    holds for ``keep`` seconds if Redis lists as many ends as ``Settings.max_ended`` allows: older ones may be missing.

    A session that must sign in again (``require_sign_in``) counts as revoked until its visitor has. Then all of its
    JWTs that have not expired are accepted again, so keep their life short.
    """

    def __init__(
        self,
        presence: Presence | AsyncPresence,
        *,
        keep: int = 3600,
        max_stale: float = 30.0,
        on_stale: OnStale = "closed",
        heartbeat: float = 30.0,
    ) -> None:
        if not isinstance(presence, Presence | AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence or an AsyncPresence", "wrong_type")
        check.whole("keep", keep, 60, 86_400)
        settings = presence.settings
        shortest = min(seconds for reason, seconds in kept(settings).items() if reason != "expired")
        if keep > shortest:
            raise InvalidArgument("keep", f"must be at most {shortest}: Settings keep tombstones no longer")
        if not settings.max_ended:
            raise InvalidArgument("max_ended", "must be more than 0: the cache recovers lost events from that list")
        check.choice("on_stale", on_stale, OnStale)
        self._presence = presence
        self._keep = keep
        self._max_stale = check.duration("max_stale", max_stale, 1, 3600)
        self._on_stale = on_stale
        self._beat_interval = min(check.duration("heartbeat", heartbeat, 1, 3600), settings.idle_timeout / 3)
        self.clock: Callable[[], float] = time.monotonic
        self._outages = OutageLog(log, "revocations", "revocations cannot be read, trying again: %(error)s",
                                  "revocations are read again after %(seconds).1f s")  # fmt: skip
        self._reset()
        renew_in_child(self, RevocationCache._reset)

    def _reset(self) -> None:
        """Begin with an empty cache. A forked child does so too: it has none of the parent's threads."""
        self._ended = EndedSessions(self._presence.internal.context, self._keep, lambda: self.clock())
        self._started = self._closed = False
        self._buffer: HeartbeatBuffer | None = None
        self._beaten: set[str] = set()  # ids of the sessions with a heartbeat in this interval …
        self._beats_until = NEVER  # … which ends then
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def stale_for(self) -> float:
        """Seconds since the cache last agreed with Redis. Infinite until it first did."""
        return self.clock() - self._ended.fresh_at

    @property
    def is_stale(self) -> bool:
        """Whether the cache is older than ``max_stale``."""
        return self.stale_for > self._max_stale

    def __len__(self) -> int:
        return len(self._ended)

    def is_revoked(
        self, jti: str, uid: str | None = None, *, login_at: datetime | float | None = None, touch: bool = True
    ) -> bool:
        """Whether the session of this JWT has ended or must sign in again. If not, and with uid, this is a heartbeat.

        login_at: ``session.login_at``, as a datetime or Unix seconds with their fraction. With it ``revoke_before`` is
        decided in memory. touch: False if the question is not a request of the visitor. Never raises. Cost: a lookup
        in a dict. A thread or task sends many heartbeats in one call.
        """
        if not self._started and isinstance(self._presence, Presence) and not self._closed:
            self.start(wait=0)  # in a forked child
        revoked = self._is_revoked(jti, uid, login_at)
        if touch and uid is not None and not revoked:
            self._beat(uid, jti)
        return revoked

    def _is_revoked(self, jti: str, uid: str | None, login_at: datetime | float | None) -> bool:
        if jti in self._ended:
            return True
        login_ms = None
        if login_at is not None:
            with contextlib.suppress(InvalidArgument):
                login_ms = check.time_ms("login_at", login_at)
                if login_ms <= self._ended.watermark:
                    return True
        if self.is_stale:
            return self._on_stale == "closed"
        if (not self._ended.draining or login_ms is not None) and not self._ended.may_miss_ends:
            return False
        if uid is None or not isinstance(self._presence, Presence):
            return True
        try:
            return not self._presence.validate_session(uid, jti, touch=False)
        except PresenceError:
            return True

    def _beat(self, uid: str, jti: str) -> None:
        now = self.clock()
        if now >= self._beats_until:
            self._beaten, self._beats_until = set(), now + self._beat_interval
        if self._buffer is None or jti in self._beaten:
            return
        self._beaten.add(jti)
        with contextlib.suppress(InvalidArgument, RuntimeError):  # not a session id of ours; the buffer is closed
            self._buffer.beat(uid, jti)

    # -- with a Presence -----------------------------------------------------------------------------------------------

    def start(self, *, wait: float = 5.0) -> None:
        """Start to read, and wait until all ends are known, at most ``wait`` seconds: Redis may be away."""
        if not isinstance(self._presence, Presence):
            raise RuntimeError("start() needs a Presence: with an AsyncPresence use astart()")
        with self._lock:
            if not self._started:
                self._started, self._closed = True, False
                self._buffer = HeartbeatBuffer(self._presence)
                self._wake.clear()
                self._ready.clear()
                self._thread = threading.Thread(
                    target=self._run, args=(self._presence,), name="presence-revocations", daemon=True
                )
                self._thread.start()
        if wait:
            self._ready.wait(wait)

    def _run(self, presence: Presence) -> None:
        while not self._closed:
            try:
                has_more = drive(self._ended.step(), lambda call: call(presence))
            except PresenceError as error:
                self._step_failed(error)
                self._wake.wait(RETRY_INTERVAL)
                continue
            self._outages.worked()
            if not has_more:
                self._ready.set()
                self._wake.wait(INTERVAL)

    def _step_failed(self, error: PresenceError) -> None:
        self._outages.failed(error)
        if isinstance(error, InvalidArgument):  # the namespace was resharded
            self._ended.restart()

    def close(self) -> None:
        """Stop reading, and send the waiting heartbeats. The cache answers from memory until it is stale."""
        self._closed = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._started = False
        if self._buffer is not None:
            with contextlib.suppress(PresenceError):  # lost heartbeats are not worth an error
                self._buffer.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- with an AsyncPresence -----------------------------------------------------------------------------------------

    async def astart(self) -> None:
        """See start. Returns after the first read, or its failure."""
        if not isinstance(self._presence, AsyncPresence):
            raise RuntimeError("astart() needs an AsyncPresence: with a Presence use start()")
        if self._task is None or self._task.done():
            self._started, self._closed = True, False
            self._buffer = HeartbeatBuffer(self._presence)
            await self._buffer.astart()
            await self._step_async(self._presence)
            self._task = asyncio.get_running_loop().create_task(self._run_async(self._presence))

    async def _run_async(self, presence: AsyncPresence) -> None:
        while not self._closed:
            await asyncio.sleep(await self._step_async(presence))

    async def _step_async(self, presence: AsyncPresence) -> float:
        """Take one step. Returns the seconds to wait before the next."""
        try:
            has_more = await drive_async(self._ended.step(), lambda call: call(presence))
        except PresenceError as error:
            self._step_failed(error)
            return RETRY_INTERVAL
        self._outages.worked()
        return 0.0 if has_more else INTERVAL

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

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()
