"""Read the deliveries after a position: kicks, required sign-ins and gaps from the events, other staff actions from the
audit."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple, get_args

from presence_core import validation as check
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.logs import fields
from presence_core.models import AuditEntry, Ended, Event, Session, SessionMoved, plain
from presence_core.schema.endings import END_REASONS, EventKind, WebhookKind
from presence_core.schema.record import FLAGS
from presence_core.web.notices.kinds import KINDS
from presence_core.web.notices.link import NoticeLink
from presence_core.web.webhooks.position import SLACK, Delivery, Position

BATCH: Final = 100

LONG_AGO: Final = 3600.0
"""Assumed seconds since the last read of the audit, if another process did it."""

log = logging.getLogger(__name__)

_FROM_EVENTS: Final = frozenset(get_args(EventKind)) & frozenset(get_args(WebhookKind))

_WITH_RECORD: Final = (*END_REASONS, *FLAGS)
"""Events whose deliveries tell more of the session."""

_KIND_OF_ACTION: Final[dict[str, WebhookKind]] = {
    "block": "blocked",
    "unblock": "unblocked",
    "revoke_before": "revoked",
}


class _AuditRead(NamedTuple):
    """Audit entries, and the time of Redis when they were read, Unix seconds."""

    entries: list[AuditEntry]
    as_of: float
    set_back_from: float | None = None  #: Redis's clock was set back: the position in the audit before that


def begin_now(presence: Presence, position: Position) -> None:
    """Set a new position to the current end of events and audit, and save it."""
    position.cursor = presence.events_end()
    now = presence.counts().as_of.timestamp()
    read = _read_audit(presence, now - SLACK)
    position.audited = read.as_of
    position.sent = {_audit_id(entry): entry.at.timestamp() for entry in read.entries}
    position.save()


class DeliveryReader:
    """Reads what comes after a position, oldest first."""

    def __init__(
        self, presence: Presence, position: Position, kinds: Collection[str], notice_link: NoticeLink | None = None
    ) -> None:
        self._notice_link = notice_link
        self._presence = presence
        self._position = position
        self._kinds = kinds
        self._actions = {action for action, kind in _KIND_OF_ACTION.items() if kind in kinds}
        self._audit_read_at = time.monotonic() - LONG_AGO

    def read(self) -> list[Delivery]:
        """The next batch. Empty if nothing is new."""
        events = self._presence.events(after=self._position.cursor, limit=BATCH)
        records = self._records_of(events)
        from_events = [self._from_event(event, records) for event in events]
        from_audit = self._from_audit()  # it moves the position, so nothing may fail after it
        return [self._unless_ahead(delivery) for delivery in from_audit + _without_runs(from_events)]

    def _unless_ahead(self, delivery: Delivery) -> Delivery:
        """Without the body of one that has arrived before others that were stopped."""
        is_ahead = delivery.body is not None and delivery.body["id"] in self._position.ahead
        return replace(delivery, body=None) if is_ahead else delivery

    def _records_of(self, events: list[Event]) -> dict[str, Session | Ended]:
        """What is known of the sessions that deliveries tell of, by ref. One or two round trips."""
        wanted = [event for event in events if event.kind in self._kinds and event.kind in _WITH_RECORD]
        refs = {f"{event.uid}:{event.session_id}" for event in wanted if _is_ref(event)}
        return self._presence.sessions_among(refs) if refs else {}

    def _from_event(self, event: Event, records: Mapping[str, Session | Ended]) -> Delivery:
        if event.kind not in self._kinds or event.kind not in _FROM_EVENTS:
            return Delivery(None, event.cursor)
        name = f"{event.kind}:{event.uid}:{event.session_id}:{event.at.timestamp():.3f}"
        body: dict[str, Any] = {"id": _digest(name), "type": event.kind, "at": _iso(event.at)}
        record = records.get(f"{event.uid}:{event.session_id}")
        if event.kind in END_REASONS:
            end = record if isinstance(record, Ended) else None
            body |= {"uid": event.uid, "session_id": event.session_id}
            body |= {
                "by": end.by if end else None,
                "reason": end.note if end else None,
                "ticket": end.ticket if end else None,
                "message": end.message if end else None,
            }
        elif event.kind == "sign_in_required":
            message = None
            if _is_ref(event):
                message = self._presence.validate_session(event.uid, event.session_id, touch=False).message
            body |= {"uid": event.uid, "session_id": event.session_id, "message": message}
        elif event.kind in FLAGS:
            body |= {"uid": event.uid, "session_id": event.session_id} | _login_of(event, record)
            if self._notice_link is not None and event.kind in KINDS:
                is_users = _is_ref(event) and not check.is_on_behalf(event.session_id)
                link = self._notice_link.make(event.uid, event.session_id, event.at) if is_users else None
                body["link"] = link
        return Delivery(body, event.cursor)

    def _from_audit(self) -> list[Delivery]:
        if not self._actions:
            return []
        read = self._read_audit()
        deliveries = [
            Delivery(_audit_body(audit_id, entry), audited=min(entry.at.timestamp(), read.as_of), audit_id=audit_id)
            for entry in read.entries
            if entry.action in self._actions
            and (audit_id := _audit_id(entry)) not in self._position.sent
            and not _was_sent_before_set_back(entry, read)
        ]
        if not deliveries:  # so that the next read need not go back to the last block, which may be years ago
            self._position.audited = max(self._position.audited, read.as_of)
        return sorted(deliveries, key=lambda delivery: delivery.audited or 0.0)[:BATCH]

    def _read_audit(self) -> _AuditRead:
        position, begin = self._position, time.monotonic()
        audited = position.audited
        read = _read_audit(self._presence, audited - SLACK)
        if read.as_of < audited - SLACK / 2:
            seconds = audited - read.as_of
            extra = fields(event="clock_set_back", seconds=round(seconds, 3))
            log.warning("Redis's clock was set back by %.0f s: webhooks continue from there", seconds, extra=extra)
            # Entries since the last read may have times from before that read.
            since = read.as_of - SLACK - (begin - self._audit_read_at)
            read = _read_audit(self._presence, since)._replace(set_back_from=audited)
            position.audited = read.as_of
        self._audit_read_at = begin
        return read


def _is_ref(event: Event) -> bool:
    """Whether the event names a session as we write it; another program may have added it."""
    with contextlib.suppress(InvalidArgument):
        check.ref(f"{event.uid}:{event.session_id}")
        return True
    return False


def _login_of(event: Event, record: Session | Ended | None) -> dict[str, Any]:
    """What a mail to the user needs; None for each where the session is no longer kept."""
    names = ["name", "aliases", "device", "app", "os", "browser", "ip", "place"]
    if event.kind == "distant":
        names += ["previous_place", "previous_login_at"]
    body = {name: plain(getattr(record, name)) if record else None for name in names}
    if event.kind == "moved":
        body["move"] = plain(event.move) if isinstance(event, SessionMoved) else None
    return body


def _without_runs(deliveries: list[Delivery]) -> list[Delivery]:
    """Of deliveries in a row without a body, keep the last, which moves the position: most events are logins."""
    following = [*deliveries[1:], None]
    return [
        delivery
        for delivery, after in zip(deliveries, following, strict=False)
        if delivery.body is not None or after is None or after.body is not None
    ]


def _was_sent_before_set_back(entry: AuditEntry, read: _AuditRead) -> bool:
    """Whether the entry lies in the future: it was written, and sent, before Redis's clock was set back."""
    at = entry.at.timestamp()
    is_new = read.set_back_from is not None and at >= read.set_back_from - SLACK
    return at > read.as_of + SLACK and not is_new


def _read_audit(presence: Presence, since: float) -> _AuditRead:
    page = presence.audit(since=max(since, 1.0), limit=1000)
    entries, as_of = list(page), page.as_of.timestamp()
    while page.next_cursor is not None:
        page = presence.audit(since=max(since, 1.0), limit=1000, cursor=page.next_cursor)
        entries += page
    return _AuditRead(entries, as_of)


def _audit_id(entry: AuditEntry) -> str:
    """A digest of the entry, which has no id of its own. Two equal entries of the same millisecond count as one."""
    parts = [entry.action, entry.uid, entry.by, entry.reason, entry.message, entry.ticket, entry.outcome]
    return _digest(json.dumps([f"{entry.at.timestamp():.3f}", *parts]))


def _audit_body(delivery_id: str, entry: AuditEntry) -> dict[str, Any]:
    body = {"id": delivery_id, "type": _KIND_OF_ACTION[entry.action], "at": _iso(entry.at), "by": entry.by}
    body |= {"reason": entry.reason, "ticket": entry.ticket, "message": entry.message, "outcome": entry.outcome}
    return body | ({"uid": entry.uid} if entry.uid else {})


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
