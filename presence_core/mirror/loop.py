"""The loop of ``presence mirror``: our events, the site's changes, and a scan of the site's keys in slices."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Any, Final

from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.logs import OutageLog, fields
from presence_core.mirror.digests import Digests
from presence_core.mirror.reconcile import Reconciler
from presence_core.mirror.stores import Store
from presence_core.operations.mirror import copies, reports
from presence_core.operations.sessions.read import latest
from presence_core.schema.endings import END_REASONS
from presence_core.transport.site_store import SiteStore

log = logging.getLogger(__name__)

SLICE: Final = 50
"""Keys in one SCAN, which the site's server does before it serves others."""

MOST_SLICES: Final = 40
"""In one turn, so that it does not wait long for the changes that are heard meanwhile."""

PAUSE: Final = 0.05
"""Seconds between two looks at what changed."""

TOUCH_SECONDS: Final = 2.0
"""A new time to live is read so much later: every request of a visitor sets it."""

EVERY_LISTENING, EVERY_SCANNING = 300.0, 5.0
"""Seconds from the end of one scan to the next, with and without notifications."""

CHECK_SECONDS: Final = 5.0
"""Between two looks at whether the site's server still sends notifications: someone may turn them off, or a replica
without them may take over."""

MASS: Final = 100
LOSS_SECONDS: Final = 60.0
"""If so many sessions, and most of all, are gone at once, their copies end only after so long: the site's server may
have come back empty for a moment, or the mirror reads a wrong one."""

NEEDED_FLAGS: Final = "Kg$hxe"
"""Of notify-keyspace-events: by key; DEL and EXPIRE, texts, hashes, expired and evicted keys. A means all kinds."""

_TOUCHES: Final = frozenset(("expire", "persist"))


def hears_enough(flags: str) -> bool:
    """Whether a server with these notify-keyspace-events tells of every change of a session."""
    return "K" in flags and ("A" in flags or set("g$hxe") <= set(flags))


class Mirror:
    """Keeps copies of a site's sessions in step. ``run`` until ``stop``, or ``turn`` by turn."""

    def __init__(
        self,
        presence: Presence,
        site: SiteStore,
        store: Store,
        key: bytes,
        *,
        name: str = "",
        rate: int = 5_000,
        every: float | None = None,
        lists_visitors: bool = False,
    ) -> None:
        """site: for this mirror alone. rate: keys of the site that are read in a second at most. every: seconds from
        the end of one scan to the next."""
        if store.refused:
            raise InvalidArgument("store", f"must be another one. {store.refused}")
        settings = replace(
            presence.settings, max_sessions=1000, max_sessions_per_device=None, on_limit="reject", no_address="pass",
            unfit="cut",
        )  # fmt: skip
        self._presence = Presence(presence.internal.redis_client, settings)
        self._site, self._store, self._rate = site, store, rate
        self.name = name or f"{store.name} {store.prefix}".strip()
        self._digests = Digests(key, self.name)
        self.reconciler = Reconciler(self._presence, site, store, self._digests, lists_visitors=lists_visitors)
        self._stop = threading.Event()
        self._every = every
        self._cursor = ""  # of our events
        self._revoked = -1
        self._is_draining = False
        self._dirty: dict[bytes, None] = {}
        self._expired: set[bytes] = set()
        self._touched: dict[bytes, None] = {}
        self._touched_at = self._reported_at = self._watermark_at = self._checked_at = 0.0
        self.hears = "scans"
        self._listens = False
        self._heard_at = time.monotonic()
        self._scan_cursor: int | None = None
        self._scan_began = self._scan_at = self._slices = 0.0
        self._next_scan = 0.0
        self._scan_again = False  # something was not heard while a scan went on
        self._loss_since: float | None = None
        self._missing: dict[str, str] = {}  # copies that no key was found for: session id → uid
        self.looked_at: float | None = None  #: monotonic: when the last whole scan began
        self._looked_ms: int | None = None
        self.without_user = 0
        self.problem = ""
        restored = "the mirror works again after %(seconds).1f s"
        self._outage = OutageLog(log, "mirror", "the mirror waits: %(error)s", restored)

    # -- running ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Check the digest key, and listen. Raises PresenceError."""
        internal = self._presence.internal
        known = internal.run(reports.key_ids(internal.context)).get(self.name, self._digests.key_id)
        if known != self._digests.key_id:
            raise InvalidArgument(
                "PRESENCE_MIRROR_KEY",
                f"must be the key with which the mirror {self.name!r} began: else every session would begin again. "
                "Use that key, or another --name",
                "conflicts",
            )
        self._report()
        self._check_hearing()
        self._cursor = self._presence.events_end()
        self._revoked = max(edge.revoked for edge in internal.run(latest(internal.context)))

    def run(self) -> None:
        """Mirror until ``stop``."""
        while not self._stop.wait(self.turn()):
            pass
        try:
            self._report(stopped=True)
        except PresenceError:
            pass  # its last report grows old
        self._presence.close(0)

    def stop(self) -> None:
        self._stop.set()

    def turn(self) -> float:
        """Do what is due. Returns how many seconds to wait for the next turn."""
        try:
            self._hear_ours()
            self._hear_site()
            self._scan_some()
        except Exception as error:  # also a mistake: the values are anyone's, and the other sessions are to go on
            if not isinstance(error, PresenceError) and not self.problem:
                log.exception("the mirror failed", extra=fields(event="mirror_failed"))
            self.problem = str(error) if isinstance(error, PresenceError) else "The mirror failed: its log says why."
            self._outage.failed(error)
            self._site.stop_listening()
            self._scan_soon()
            wait = 1.0
        else:
            self.problem = ""
            if self._outage:
                self._outage.worked()
            wait = PAUSE
        if time.monotonic() - self._reported_at >= 1:
            try:
                self._report()
            except PresenceError as error:
                self.problem = str(error)
        return wait

    def _report(self, *, stopped: bool = False) -> None:
        internal, reconciler = self._presence.internal, self.reconciler
        values: dict[str, Any] = {
            "key": self._digests.key_id, "store": self._store.title, "hears": self.hears,
            "behind": round(self.behind, 3), "sessions": len(reconciler.copies), "without_user": self.without_user,
            "skipped": sum(reconciler.skipped.values()), "waiting": len(reconciler.pending),
            "looked_at": self._looked_ms, "problem": self.problem, "stopped": stopped,
        }  # fmt: skip
        reconciler.set_clock(internal.run(reports.report(internal.context, self.name, values)))
        self._reported_at = time.monotonic()

    @property
    def behind(self) -> float:
        """How old what we show may be, seconds."""
        now = time.monotonic()
        if self.looked_at is None:
            return now - self._scan_began if self._scan_began else 0.0
        return now - (self._heard_at if self.hears == "notifications" else self.looked_at)

    # -- ours ---------------------------------------------------------------------------------------------------------

    def _hear_ours(self) -> None:
        """Follow our events: what ended here must end at the site."""
        if time.monotonic() - self._watermark_at >= 1 or self._is_draining:
            self._follow_watermark()
        while True:
            events = self._presence.events(after=self._cursor, limit=1000)
            self.reconciler.ended_here(
                (event.uid, event.session_id, event.kind) for event in events if event.kind in END_REASONS
            )
            if any(event.kind == "gap" for event in events):
                self._scan_soon()
            if events:
                self._cursor = events[-1].cursor
            if len(events) < 1000:
                return

    def _follow_watermark(self) -> None:
        """After a ``revoke_before`` sweep at once: the sweep writes the ends of the sessions that it revokes."""
        internal = self._presence.internal
        revoked = max(edge.revoked for edge in internal.run(latest(internal.context)))
        self._watermark_at = time.monotonic()
        if revoked > self._revoked:
            self._revoked, self._is_draining = revoked, True
        if self._is_draining:
            self._is_draining = self._presence.sweep(limit=5_000).has_more

    # -- the site -----------------------------------------------------------------------------------------------------

    def _check_hearing(self) -> None:
        """Whether the site's server sends notifications. If that has changed, a scan finds what was not heard."""
        flags = self._site.notification_flags()
        before, self._checked_at = self.hears, time.monotonic()
        self.hears = "notifications" if flags is not None and hears_enough(flags) else "scans"
        self._listens = flags is None or self.hears == "notifications"
        if self.hears != before:
            self._scan_soon()

    def _hear_site(self) -> None:
        self.reconciler.delete_pending()
        if time.monotonic() - self._checked_at >= CHECK_SECONDS or (self._listens and not self._site.is_listening):
            self._check_hearing()
        if self._listens and not self._site.is_listening:
            self._site.listen(self._store.prefix)
            self._scan_soon()  # what changed before was not heard
        heard_at = time.monotonic()
        for key, event in self._site.changes(5_000):
            if not self._store.is_session_key(key):
                continue
            if event in _TOUCHES:
                self._touched[key] = None
            else:
                self._dirty[key] = None
            if event == "expired":
                self._expired.add(key)
        if heard_at - self._touched_at >= TOUCH_SECONDS:
            self._dirty |= self._touched
            self._touched.clear()
            self._touched_at = heard_at
        for key in self.reconciler.look_again:
            self._dirty[key] = None
        self.reconciler.look_again.clear()
        if self._dirty:
            self.reconciler.take(list(self._dirty), self._expired)
            self._dirty.clear()
            self._expired.clear()
            self.reconciler.delete_pending()
        self._heard_at = heard_at

    def _scan_soon(self) -> None:
        """Scan at once, and once more if a scan goes on: it may have read already what has changed since."""
        self._next_scan, self._scan_again = 0.0, True

    def _scan_some(self) -> None:
        """The next slices of a scan, as many as the rate allows."""
        now = time.monotonic()
        if self._scan_cursor is None:
            if now < self._next_scan:
                return
            self._scan_cursor, self._scan_began, self._scan_at, self._slices = 0, now, now - PAUSE, 0.5
            self._scan_again = False
            self.reconciler.pass_number += 1
            self.reconciler.without_user = 0
            self.reconciler.skipped.clear()
        self._slices = min(MOST_SLICES, self._slices + (now - self._scan_at) * self._rate / SLICE)
        self._scan_at = now
        if self._slices < 1:
            return
        found: dict[bytes, None] = {}
        cursor = self._scan_cursor
        for _ in range(int(self._slices)):
            self._slices -= 1
            cursor, keys = self._site.scan(cursor, self._store.prefix, SLICE)
            found |= dict.fromkeys(key for key in keys if self._store.is_session_key(key))
            if cursor == 0:
                break
        self.reconciler.take(list(found), counts=True)
        self._scan_cursor = cursor  # behind what was taken: after an outage the slices are read again
        if cursor == 0:
            self._finish_scan()
        self.reconciler.delete_pending()

    def _finish_scan(self) -> None:
        """What had a copy and was not found is looked at again."""
        reconciler = self.reconciler
        unseen = [key for key, copy in reconciler.copies.items() if copy.looked < reconciler.pass_number]
        every = self._every if self._every is not None else (
            EVERY_LISTENING if self.hears == "notifications" else EVERY_SCANNING
        )  # fmt: skip
        self._scan_cursor = None
        if self._is_loss(len(unseen) + len(self._gone()), len(reconciler.copies) - len(unseen)):
            self._next_scan = time.monotonic() + min(every, EVERY_SCANNING)
            return
        reconciler.take(unseen)
        self._end_missing()
        self.looked_at, self._looked_ms = self._scan_began, reconciler.now
        self.without_user = reconciler.without_user
        self._next_scan = 0.0 if self._missing or self._scan_again else time.monotonic() + every

    def _is_loss(self, lost: int, left: int) -> bool:
        """Whether most sessions are gone, and too recently to believe it."""
        now = time.monotonic()
        if lost < MASS or lost <= left:
            self._loss_since = None
            return False
        if self._loss_since is None:
            self._loss_since = now
            log.warning(
                "%d of %d sessions of the site are gone at once: they end here if that lasts %.0f s",
                lost, lost + left, LOSS_SECONDS, extra=fields(event="mirror_loss"),
            )  # fmt: skip
        return now - self._loss_since < LOSS_SECONDS

    def _gone(self) -> list[copies.SiteEnd]:
        known = self.reconciler.key_of
        return [copies.SiteEnd(uid, sid, False) for sid, uid in self._missing.items() if sid not in known]

    def _end_missing(self) -> None:
        """End copies of an earlier run whose session is gone: those without a key after two whole scans."""
        known = self.reconciler.key_of
        self.reconciler.end_copies(self._gone())
        if self.reconciler.pass_number == 1:
            self._missing = {
                session.session_id: session.uid
                for session in self._presence.iter_sessions()
                if session.session_id.startswith(self._digests.prefix) and session.session_id not in known
            }
        else:
            self._missing = {}
