"""What staff did, and what holds because of it: blocks, and the record of who did what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from presence_core.models.sessions import PublicBlock, moment, text

if TYPE_CHECKING:
    from presence_core.filters import SessionFilter

JOB_STATES: Final = ("running", "paused", "cancelled", "done", "failed")

JOB_FIELDS: Final = (
    "state", "by", "reason", "message", "ticket", "filter", "total", "expected", "examined", "pace", "created",
    "updated", "finished", "error",
)  # fmt: skip

STAFF_ROLES: Final = ("stats", "viewer", "support", "admin")
"""From the least to the most."""

BLOCK_FIELDS: Final = ("by", "reason", "message", "ticket", "at", "until", "changed")


def _moment(raw: bytes | None) -> datetime | None:
    return moment(int(raw)) if raw and raw.isdigit() else None


def _seconds(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A user who may not log in. Of several blocks of one user: the one that ends last, with the tickets of all."""

    uid: str
    by: str  #: the member of staff
    reason: str  #: for staff
    message: str | None  #: the public text
    ticket: str | None  #: all tickets, with ", " between them
    at: datetime
    until: datetime | None  #: None: until staff lift it
    tickets: list[str] = field(default_factory=list, hash=False)  #: at most 10, the newest last
    changed: datetime | None = None  #: when it last was, by another block; else ``at``
    confirmed: bool | None = None  #: of one just set: False: not confirmed on a replica; None: not asked

    def __post_init__(self) -> None:
        if self.ticket and not self.tickets:
            object.__setattr__(self, "tickets", [self.ticket])
        if self.changed is None:
            object.__setattr__(self, "changed", self.at)

    @property
    def public(self) -> PublicBlock:
        """The part that is safe to show to the user."""
        return PublicBlock(self.message, self.until)

    @classmethod
    def from_reply(cls, uid: str, row: Sequence[bytes | None]) -> Block:
        """Decode the values of BLOCK_FIELDS."""
        by, reason, message, ticket, at, until, changed = row
        tickets = text(ticket).split("\n") if ticket else []
        return cls(
            uid=uid,
            by=text(by or b""),
            reason=text(reason or b""),
            message=text(message) if message else None,
            ticket=", ".join(tickets) or None,
            at=_moment(at) or moment(0),
            until=_moment(until),
            tickets=tickets,
            changed=_moment(changed),
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


@dataclass(frozen=True, slots=True)
class KickPreview:
    """What a bulk kick would hit, asked at one moment: give ``filter`` and ``total`` to ``kick_where``."""

    filter: SessionFilter  #: as it was asked, but only for sessions that began before ``as_of``
    total: int  #: how many match, without those to be spared
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A bulk kick. It is kept for 30 days after its end."""

    id: str
    state: str  #: "running", "paused", "cancelled", "done" or "failed"
    by: str  #: who began it
    reason: str  #: for staff
    message: str | None  #: the public text
    ticket: str | None
    filter: SessionFilter  #: frozen: only sessions that began before the job
    total: int  #: how many matched when it began, without those to be spared
    expected: int  #: how many it may end at most
    kicked: int  #: sessions that it has ended, each counted once
    examined: int  #: entries of the list, or of an index, that it has looked at
    pace: int | None  #: sessions a second, at most
    created: datetime
    updated: datetime  #: when somebody was last at work on it, or changed its state
    finished: datetime | None  #: None: it is running or paused
    error: str | None  #: why it failed, a sentence

    @property
    def done(self) -> bool:
        """Whether it is over, however it ended."""
        return self.state not in ("running", "paused")

    @classmethod
    def from_reply(cls, job_id: str, row: Sequence[bytes | None], asked: SessionFilter, kicked: int) -> Job:
        """Decode the values of JOB_FIELDS. Raises ValueError or OverflowError for what was never written so."""
        state, by, reason, message, ticket, _, *numbers, error = row
        total, expected, examined, pace, created, updated, finished = (int(raw) if raw else None for raw in numbers)
        if text(state or b"") not in JOB_STATES or total is None or expected is None or created is None:
            raise ValueError("not a job")
        return cls(
            id=job_id,
            state=text(state or b""),
            by=text(by or b""),
            reason=text(reason or b""),
            message=text(message) if message else None,
            ticket=text(ticket) if ticket else None,
            filter=asked,
            total=total,
            expected=expected,
            kicked=kicked,
            examined=examined or 0,
            pace=pace,
            created=moment(created),
            updated=moment(created if updated is None else updated),
            finished=None if finished is None else moment(finished),
            error=text(error) if error else None,
        )


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What came of ``forget``."""

    pseudonym: str  #: what stands for this person in the audit from now on, "forgotten:" and twelve hex digits
    kicked: int  #: live sessions that were ended
    sessions: int  #: ended sessions that were forgotten, those among them
    unblocked: bool  #: whether a block went
    rewritten: int  #: audit entries, denied attempts, bulk kicks and texts of staff that read otherwise now
    live: int  #: sessions that have begun meanwhile: call again
    unfinished: tuple[str, ...]  #: bulk kicks that name the person and are not over: end them, then call again

    @property
    def complete(self) -> bool:
        """Whether nothing is left."""
        return not self.live and not self.unfinished


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Who may call the HTTP service, and what for. The key itself is not kept, only its digest."""

    name: str
    scopes: tuple[str, ...]  #: some of "record", "read", "kick"
    created: datetime
    digest: str = field(repr=False)  #: the SHA-256 of the key, hex

    @classmethod
    def from_reply(cls, name: bytes, raw: bytes) -> ApiKey | None:
        """Decode a field of the hash; None for what was never written so, which opens nothing."""
        try:
            known = json.loads(raw)
            scopes, digest = known["scopes"], known["digest"]
            if not isinstance(digest, str) or not all(isinstance(scope, str) for scope in scopes):
                return None
            return cls(text(name), tuple(scopes), moment(int(known["created"])), digest)
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError):
            return None


@dataclass(frozen=True, slots=True)
class StaffMember:
    """Somebody who may work with the dashboard, or might once."""

    name: str  #: without capitals
    role: str | None  #: "stats", "viewer", "support" or "admin"; None: removed
    since: datetime  #: when that was written
    by: str  #: who wrote it

    @classmethod
    def from_reply(cls, name: bytes, raw: bytes) -> StaffMember | None:
        """Decode a field of the hash; None for what was never written so, which gives nobody a role."""
        role, _, rest = text(raw).partition("\n")
        since, _, by = rest.partition("\n")
        if role not in (*STAFF_ROLES, "removed") or not (since.isascii() and since.isdecimal() and len(since) <= 14):
            return None
        return cls(text(name), None if role == "removed" else role, moment(int(since)), by)


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
            parts.append(_hold(fields, until))
    if was := fields.get(b"was"):
        parts.append("unblocked" if was == b"1" else "was not blocked")
    return ", ".join(parts)


def _hold(fields: Mapping[bytes, bytes], until: bytes) -> str:
    """What a block was, and what it is now."""

    def end(raw: bytes) -> str:
        at = _moment(raw)
        return f"until {_seconds(at)}" if at else "until unblocked"

    def tickets(raw: bytes | None) -> str:
        return f" ({text(raw).replace(chr(10), ', ')})" if raw else ""

    was, asked = fields.get(b"was_until"), fields.get(b"asked")
    now = end(until) + tickets(fields.get(b"tickets"))
    again = "set again: " if fields.get(b"again") else ""
    if was is None:
        return f"{again}blocked {now}"
    by = text(fields.get(b"was_by", b""))
    if asked:
        return f"{again}still blocked {now} by {by}, asked for: {end(asked)}"
    before, after = _moment(was), _moment(until)
    is_shorter = after is not None and (before is None or after < before)
    verb = "block made shorter:" if is_shorter else "blocked"
    return f"{again}{verb} {now}, before: {end(was)} by {by}{tickets(fields.get(b'was_ticket'))}"
