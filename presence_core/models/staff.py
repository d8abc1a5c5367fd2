"""What staff did, and what holds because of it: blocks, and the record of who did what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from presence_core.models.sessions import moment, text

BLOCK_FIELDS: Final = ("by", "reason", "message", "ticket", "at", "until")


def _moment(raw: bytes | None) -> datetime | None:
    return moment(int(raw)) if raw and raw.isdigit() else None


def _seconds(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class PublicBlock:
    """What a blocked user may read: never who blocked them, nor why in staff's words."""

    message: str | None  #: what staff wrote for them
    until: datetime | None  #: None: until staff lift it


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A user who may not log in."""

    uid: str
    by: str  #: the member of staff
    reason: str  #: for staff
    message: str | None  #: the public text
    ticket: str | None
    at: datetime
    until: datetime | None  #: None: until staff lift it

    @property
    def public(self) -> PublicBlock:
        """The part that is safe to show to the user."""
        return PublicBlock(self.message, self.until)

    @classmethod
    def from_reply(cls, uid: str, row: Sequence[bytes | None]) -> Block:
        """Decode the values of BLOCK_FIELDS."""
        by, reason, message, ticket, at, until = row
        return cls(
            uid=uid,
            by=text(by or b""),
            reason=text(reason or b""),
            message=text(message) if message else None,
            ticket=text(ticket) if ticket else None,
            at=_moment(at) or moment(0),
            until=_moment(until),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One thing that a member of staff did, or was not allowed to do."""

    at: datetime  #: of denied attempts: the first of them
    by: str | None  #: who; "(others)" where a flood of denied attempts came under too many names
    action: str  #: "kick", "block", "unblock", "revoke_before", "kick_where", "denied", …
    uid: str | None = None  #: whom; of denied attempts the latest; None where it was nobody in particular
    session_id: str | None = None
    reason: str | None = None  #: for staff; of denied attempts the latest
    message: str | None = None  #: the public text
    ticket: str | None = None
    outcome: str = ""  #: "3 sessions ended", "blocked until …", "was not blocked", "kick refused 3 times, last at …"
    count: int = 1  #: attempts that this stands for; 1 but for denied ones

    @classmethod
    def from_reply(cls, written_ms: int, fields: Mapping[bytes, bytes]) -> AuditEntry:
        """Decode an entry of the stream; ``written_ms`` is of its id."""

        def optional(name: bytes) -> str | None:
            raw = fields.get(name)
            return text(raw) if raw else None

        return cls(
            at=_moment(fields.get(b"at")) or moment(written_ms),
            by=optional(b"by"),
            action=optional(b"what") or "unknown",
            uid=optional(b"uid"),
            session_id=optional(b"session"),
            reason=optional(b"reason"),
            message=optional(b"message"),
            ticket=optional(b"ticket"),
            outcome=_outcome(fields),
        )

    @classmethod
    def from_denied(
        cls, by: str, what: str, count: int, first: int, last: int, uid: str | None, reason: str | None
    ) -> AuditEntry:
        """Denied attempts of one hour; times in ms."""
        times = "once" if count == 1 else f"{count} times, last at {_seconds(moment(last))}"
        return cls(
            at=moment(first),
            by=by,
            action="denied",
            uid=uid,
            reason=reason,
            outcome=f"{what} refused {times}",
            count=count,
        )


def _outcome(fields: Mapping[bytes, bytes]) -> str:
    """What came of it, in words: those that were stored, else made of the numbers."""
    if said := fields.get(b"outcome"):
        return text(said)
    parts = []
    if (ended := fields.get(b"ended", b"")).isdigit():
        number = int(ended)
        parts.append(f"{number} session{'' if number == 1 else 's'} ended" if number else "no session to end")
    if until := fields.get(b"until"):
        end = _moment(until)
        if fields.get(b"what") == b"revoke_before":
            parts.append(f"all that began before {_seconds(end)} signed out" if end else "all signed out")
        else:
            parts.append(f"blocked until {_seconds(end)}" if end else "blocked until lifted")
    if was := fields.get(b"was"):
        parts.append("unblocked" if was == b"1" else "was not blocked")
    return ", ".join(parts)
