"""Requests of staff that a second person approves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from presence_core.filters import SessionFilter
from presence_core.models.choices import APPROVAL_STATES, ApprovalState
from presence_core.models.sessions import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedAct:
    """What is approved, where it is not what was asked: fewer sessions, another reason, another duration."""

    sessions: int  #: that match, as the person who approves saw it
    reason: str  #: for staff
    filter: SessionFilter | None = None  #: has each condition of the request, and may have more
    exclude: tuple[str, ...] = ()  #: refs: those of the request, and more
    duration: int | None = None  #: seconds that the rule lasts; None: until it is removed, or there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A bulk kick, a block rule or both, or a bulk change of timeouts, that a staff member has prepared, and that
    another must approve."""

    id: str
    state: ApprovalState
    by: str  #: the staff member who asks
    reason: str  #: for staff
    message: str | None  #: the public text
    ticket: str | None
    filter: SessionFilter | None  #: of the bulk kick, or of the change of timeouts; None: only a block rule
    exclude: tuple[str, ...]  #: refs that the bulk kick leaves out
    sessions: int  #: that matched when it was asked
    network: str | None = None  #: of the block rule
    app: str | None = None
    app_version: str | None = None
    country: str | None = None
    duration: int | None = None  #: seconds that the rule lasts; None: until it is removed
    at: datetime
    until: datetime  #: when it lapses, unless it is answered
    answered_by: str | None = None
    answered_at: datetime | None = None  #: also when it lapsed
    word: str | None = None  #: why it was refused
    outcome: str | None = None  #: of what was approved: what was started, or why it failed
    approved: ApprovedAct | None = None  #: what was approved; None: what was asked, or nothing
    idle_timeout: int | None = None  #: of a change of timeouts, seconds; None: each session keeps its own
    absolute_timeout: int | None = None  #: the same

    @property
    def changes_timeouts(self) -> bool:
        """Whether it asks for a change of timeouts, and not for a kick."""
        return self.idle_timeout is not None or self.absolute_timeout is not None

    @property
    def blocks(self) -> str | None:
        """What the block rule refuses: "203.0.113.0/24", "FR", "ios 4.2.0"; None: there is no rule."""
        return self.network or self.country or (f"{self.app} {self.app_version}" if self.app else None)

    @classmethod
    def from_stored(cls, request_id: str, raw: bytes) -> ApprovalRequest | None:
        """Decode a field of the HASH; None if it is not as we write it."""
        try:
            return cls._decode(request_id, json.loads(raw))
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError, AttributeError):
            return None

    def as_of(self, now: datetime) -> ApprovalRequest:
        """The same request; it has lapsed, if it is open and past its end."""
        if self.state != "open" or now < self.until:
            return self
        return replace(self, state="lapsed", answered_at=self.until)

    @classmethod
    def _decode(cls, request_id: str, stored: Mapping[str, Any]) -> ApprovalRequest:
        def words(name: str) -> str | None:
            value = stored.get(name) or None
            if value is not None and not isinstance(value, str):
                raise ValueError(name)
            return value

        def number(name: str) -> int | None:
            value = words(name)
            return None if value is None else int(value)

        def wanted(name: str) -> SessionFilter | None:
            value = words(name)
            return SessionFilter.from_json(value) if value else None

        def refs(name: str) -> tuple[str, ...]:
            found = json.loads(words(name) or "[]")
            if not all(isinstance(ref, str) for ref in found):
                raise ValueError(name)
            return tuple(found)

        state, answered_at, sessions = stored["state"], number("answered_at"), number("approved_sessions")
        if state not in APPROVAL_STATES:
            raise ValueError("not a request")
        return cls(
            id=request_id,
            state=cast("ApprovalState", state),
            by=str(stored["by"]),
            reason=str(stored["reason"]),
            message=words("message"),
            ticket=words("ticket"),
            filter=wanted("filter") or wanted("timeouts_filter"),
            exclude=refs("exclude"),
            sessions=int(stored["sessions"]),
            network=words("network"),
            app=words("app"),
            app_version=words("app_version"),
            country=words("country"),
            duration=number("duration"),
            at=moment(int(stored["at"])),
            until=moment(int(stored["until"])),
            answered_by=words("answered_by"),
            answered_at=None if answered_at is None else moment(answered_at),
            word=words("word"),
            outcome=words("outcome"),
            idle_timeout=number("idle_timeout"),
            absolute_timeout=number("absolute_timeout"),
            approved=None
            if sessions is None
            else ApprovedAct(
                sessions=sessions,
                reason=words("approved_reason") or "",
                filter=wanted("approved_filter"),
                exclude=refs("approved_exclude"),
                duration=number("approved_duration"),
            ),
        )
