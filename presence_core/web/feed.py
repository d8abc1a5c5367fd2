"""What webhooks tell, in order, and how far a receiver was told: a position that outlives the process."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from presence_core.client import Presence
from presence_core.models import AuditEntry, Event

BATCH: Final = 100
SLACK: Final = 60.0
"""Seconds by which audit entries may come out of order: shards have clocks of their own. What was told within them is
remembered by id."""
LONG_AGO: Final = 3600.0
"""Seconds since the last look, where that was another process's."""

SAVE_EVERY: Final = 5.0

log = logging.getLogger("presence_core")

_ACTIONS: Final = {"block": "blocked", "unblock": "unblocked", "revoke_before": "revoked"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One thing to tell, and where one is when it is told. No body: nothing to tell, only a place to move to."""

    body: dict[str, Any] | None
    cursor: str | None = None  #: of the events
    audited: float | None = None  #: of the audit: Unix seconds of the entry
    audit_id: str | None = None


class Place:
    """How far one URL was told: a file, written anew at each step, and locked while it is used."""

    def __init__(self, directory: Path, url: str) -> None:
        self._path = directory / f"{sha256(url.encode()).hexdigest()[:24]}.json"
        self._lock: int | None = None
        self.cursor: str | None = None
        self.audited = 0.0
        self.told: dict[str, float] = {}  #: ids of audit entries told within the slack
        self.is_new = True
        self._saved_at = float("-inf")

    def take(self) -> bool:
        """Lock and read it. False: another process has it. The lock ends with the process, however that ends."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle)
        except BlockingIOError:
            os.close(handle)
            return False
        except BaseException:
            os.close(handle)
            raise
        self._lock = handle
        try:
            saved = json.loads(self._path.read_text("utf-8"))
            self.cursor, self.audited = str(saved["cursor"]), float(saved["audited"])
            self.told = {str(one): float(at) for one, at in saved["told"].items()}
            self.is_new = False
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError, AttributeError):
            self.release()
            raise RuntimeError(f"{self._path.name} is not a position of webhooks: delete it to begin now") from None
        return True

    @property
    def is_ours(self) -> bool:
        """Whether this process tells."""
        return self._lock is not None

    def release(self) -> None:
        """Let another process go on from here. In a forked child only the child's hold ends."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def move(self, delivery: Delivery) -> None:
        """This was told."""
        if delivery.cursor is not None:
            self.cursor = delivery.cursor
        if delivery.audited is not None and delivery.audit_id is not None:
            self.audited = max(self.audited, delivery.audited)
            self.told[delivery.audit_id] = delivery.audited
            self.told = {one: at for one, at in self.told.items() if at >= self.audited - 2 * SLACK}
        # A position that only passed what is not told may be lost: the disk is spared a write for every login.
        if delivery.body is not None or time.monotonic() - self._saved_at > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """All of it or nothing: a crash leaves the old file or the new one."""
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.stem)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"cursor": self.cursor, "audited": self.audited, "told": self.told}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path)
        except BaseException:
            os.unlink(name)
            raise
        self.is_new = False
        self._saved_at = time.monotonic()


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: nobody else is looked for there
        return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Feed:
    """What is behind a place, oldest first."""

    def __init__(self, presence: Presence, place: Place, kinds: Collection[str]) -> None:
        self._presence = presence
        self._place = place
        self._kinds = kinds
        self._looked_at = time.monotonic() - LONG_AGO

    @staticmethod
    def begin(presence: Presence, place: Place) -> None:
        """A place of which nothing is known begins now."""
        place.cursor = presence.events_end()
        now = presence.counts().as_of.timestamp()
        entries, place.audited = _audit(presence, now - SLACK)
        place.told = {_audit_id(entry): entry.at.timestamp() for entry in entries}
        place.save()

    def read(self) -> list[Delivery]:
        """The next batch; empty when there is nothing new."""
        events = self._presence.events(after=self._place.cursor, limit=BATCH)
        told = [self._of_event(event) for event in events]
        deliveries = self._audited()  # moves the place, so nothing may fail behind it
        for one, after in zip(told, [*told[1:], None], strict=False):
            # Logins are most of all events: only the last of a row of them moves the place.
            if one.body is not None or after is None or after.body is not None:
                deliveries.append(one)
        return deliveries

    def _audited(self) -> list[Delivery]:
        place = self._place
        wanted = {what for what, kind in _ACTIONS.items() if kind in self._kinds}
        if not wanted:
            return []
        found, until, begin = [], place.audited, time.monotonic()
        entries, as_of = _audit(self._presence, until - SLACK)
        set_back = as_of < until - SLACK / 2
        if set_back:  # what was done since the last look may bear times from before it
            log.warning("Redis's clock was set back by %.0f s: webhooks go on from there", until - as_of)
            entries, as_of = _audit(self._presence, as_of - SLACK - (begin - self._looked_at))
            place.audited = as_of
        self._looked_at = begin
        for entry in entries:
            one, at = _audit_id(entry), entry.at.timestamp()
            # What lies in the future is from before a clock was set back, and was told then.
            is_old = at > as_of + SLACK and not (set_back and at >= until - SLACK)
            if entry.action in wanted and one not in place.told and not is_old:
                found.append(Delivery(_of_audit(one, entry), audited=min(at, as_of), audit_id=one))
        if not found:  # so that the next look need not go back to the last block, be it years ago
            place.audited = max(place.audited, as_of)
        return sorted(found, key=lambda delivery: delivery.audited or 0.0)[:BATCH]

    def _of_event(self, event: Event) -> Delivery:
        if event.kind not in self._kinds or event.kind not in ("kicked", "gap"):
            return Delivery(None, event.cursor)
        name = f"{event.kind}:{event.uid}:{event.session_id}:{event.at.timestamp():.3f}"
        body: dict[str, Any] = {"id": _id(name), "type": event.kind, "at": _iso(event.at)}
        if event.kind == "kicked":
            end = self._presence.validate_session(event.uid, event.session_id, touch=False).ended
            body |= {"uid": event.uid, "session_id": event.session_id}
            body |= {
                "by": end.by if end else None,
                "reason": end.note if end else None,
                "ticket": end.ticket if end else None,
                "message": end.message if end else None,
            }
        return Delivery(body, event.cursor)


def _audit(presence: Presence, since: float) -> tuple[list[AuditEntry], float]:
    """What staff did since then, and when that was asked: Unix seconds of Redis's clock."""
    page = presence.audit(since=max(since, 1.0), limit=1000)
    entries, as_of = list(page), page.as_of.timestamp()
    while page.next_cursor is not None:
        page = presence.audit(since=max(since, 1.0), limit=1000, cursor=page.next_cursor)
        entries += page
    return entries, as_of


def _audit_id(entry: AuditEntry) -> str:
    """An entry has no id of its own: two that are alike in all this, to the millisecond, say the same."""
    parts = [entry.action, entry.uid, entry.by, entry.reason, entry.message, entry.ticket, entry.outcome]
    return _id(json.dumps([f"{entry.at.timestamp():.3f}", *parts]))


def _of_audit(delivery_id: str, entry: AuditEntry) -> dict[str, Any]:
    body = {"id": delivery_id, "type": _ACTIONS[entry.action], "at": _iso(entry.at), "by": entry.by}
    body |= {"reason": entry.reason, "ticket": entry.ticket, "message": entry.message, "outcome": entry.outcome}
    return body | ({"uid": entry.uid} if entry.uid else {})


def _id(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
