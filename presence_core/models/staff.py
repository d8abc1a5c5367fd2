"""What staff did: blocks and bulk kicks; and staff members, API keys and the report of an erasure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, cast

from presence_core.filters import SessionFilter
from presence_core.models.choices import (
    JOB_ERROR_CODES,
    JOB_STATES,
    STAFF_ROLES,
    JobErrorCode,
    JobKind,
    JobState,
    SavedKind,
    StaffRole,
)
from presence_core.models.sessions import (
    PublicBlock,
    Session,
    as_ms,
    login_ms,
    moment,
    optional_text,
    stored_number,
    text,
)
from presence_core.schema.conditions import MatchedField
from presence_core.validation import is_mirrored

JOB_FIELDS: Final = (
    "state", "by", "reason", "message", "ticket", "filter", "total", "expected", "examined", "pace", "created",
    "updated", "finished", "not_before", "idle_timeout", "absolute_timeout", "error", "error_code", "kind",
    "only_shorten",
)  # fmt: skip

BLOCK_FIELDS: Final = ("by", "reason", "message", "ticket", "at", "until", "changed")


def _moment(raw: bytes | None) -> datetime | None:
    number = stored_number(raw)
    return None if number is None else moment(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A user who may not log in. Several blocks of a user are one: the one that ends last, with the tickets of all."""

    uid: str
    by: str  #: the staff member
    reason: str  #: for staff
    message: str | None  #: the public text
    ticket: str | None  #: all tickets, with ", " between them
    at: datetime
    until: datetime | None  #: None: until staff unblock the user
    tickets: list[str] = field(default_factory=list, hash=False)  #: at most 10, the newest last
    changed: datetime | None = None  #: when another block last changed it; else ``at``
    confirmed: bool | None = None  #: of a new block. False: too few replicas acknowledged it; None: not asked

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
            message=optional_text(message),
            ticket=", ".join(tickets) or None,
            at=_moment(at) or moment(0),
            until=_moment(until),
            tickets=tickets,
            changed=_moment(changed),
        )


@dataclass(frozen=True, slots=True)
class MatchedPerson:
    """A person whose sessions match a filter."""

    uid: str
    name: str | None  #: of their newest matching session
    matched_by: tuple[
        MatchedField, ...
    ]  #: by what of their sessions ``text``, ``uid``, ``ip`` or a name filter matched


@dataclass(frozen=True, slots=True)
class KickPreview:
    """What a bulk kick would end: give ``filter`` and ``total`` to ``kick_where``."""

    filter: SessionFilter  #: as given, limited to sessions that began before ``as_of``
    total: int  #: how many match, without the excluded
    as_of: datetime
    people: tuple[MatchedPerson, ...] = ()  #: whose sessions these are; at most 100, those with the newest logins


@dataclass(frozen=True, slots=True)
class TimeoutsPreview:
    """What a bulk change of timeouts would do: give ``filter`` and ``total`` to ``change_timeouts_where``."""

    filter: SessionFilter  #: as given, limited to sessions that began before ``as_of``
    total: int  #: how many match
    as_of: datetime
    read: int  #: the newest of them, at most 10,000, from which the numbers below are
    shortened: int  #: sessions of which a timeout would be shorter, and none longer
    lengthened: int  #: sessions of which a timeout would be longer
    ended: int  #: sessions that are older than their new timeout: they would end. Counted above, too


@dataclass(frozen=True, slots=True)
class TimeoutsChange:
    """A bulk change of timeouts: how far this process has come with it, and what it has done."""

    filter: SessionFilter  #: limited to sessions that had begun before it
    total: int  #: sessions that matched at its begin
    matched: int = 0  #: sessions that this process has come to
    shortened: int = 0  #: sessions of which it made a timeout shorter, and none longer
    lengthened: int = 0  #: sessions of which it made a timeout longer
    ended: int = 0  #: sessions that were older than their new timeout. Counted above, too
    skipped: int = 0  #: sessions of which a timeout would be longer, left alone because of ``only_shorten``
    job: Job | None = None  #: its state: another process may have paused or cancelled it, and may have done a part

    @property
    def changed(self) -> int:
        """Sessions with a new timeout. The others had these timeouts, had ended, or were left alone."""
        return self.shortened + self.lengthened


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A bulk kick, or a bulk change of timeouts. It is kept for 30 days after its end."""

    id: str
    state: JobState
    by: str  #: the staff member that started it
    reason: str  #: for staff
    message: str | None  #: the public text
    ticket: str | None
    filter: SessionFilter  #: stored at the start; it matches only sessions that began before the job
    total: int  #: sessions that matched at its start, without the excluded ones
    expected: int  #: maximum number of sessions that it may end or change
    kicked: int  #: sessions that it has ended, or whose timeouts it has changed, each counted once
    examined: int  #: entries of the list, or of an index, that it has read
    pace: int | None  #: maximum sessions per second
    created: datetime
    updated: datetime  #: when a process last worked on it or changed its state
    finished: datetime | None  #: None: it is running or paused
    error: str | None  #: why it failed, a sentence; of one that is done, what is not confirmed after a failover
    not_before: datetime | None = None  #: no session is ended or changed before this time; None: it began at once
    error_code: JobErrorCode | None = None  #: the error, for programs; None also for one that an older version wrote
    kind: JobKind = "kick"  #: "timeouts": it changes timeouts, and ends only sessions that are older than the new ones
    idle_timeout: int | None = None  #: the new one, seconds; None: each session keeps its own, or it is a kick
    absolute_timeout: int | None = None  #: the same
    only_shorten: bool = False  #: it leaves each session alone of which a timeout would be longer

    @property
    def left(self) -> int:
        """Sessions that matched at its start and that it has not ended or changed. Of a job that is done, they had
        already ended, no longer matched, or had these timeouts."""
        return max(0, self.total - self.kicked)

    @property
    def done(self) -> bool:
        """Whether it has ended, in any state."""
        return self.state not in ("running", "paused")

    @classmethod
    def from_reply(cls, job_id: str, row: Sequence[bytes | None], asked: SessionFilter, kicked: int) -> Job:
        """Decode the values of JOB_FIELDS. Raises ValueError or OverflowError for what was never written so."""
        state, by, reason, message, ticket, _, *numbers, error, raw_code, kind, only_shorten = row
        total, expected, examined, pace, created, updated, finished, not_before, idle, absolute = (
            int(raw) if raw else None for raw in numbers
        )
        if text(state or b"") not in JOB_STATES or total is None or expected is None or created is None:
            raise ValueError("not a job")
        return cls(
            id=job_id,
            state=cast("JobState", text(state or b"")),
            by=text(by or b""),
            reason=text(reason or b""),
            message=optional_text(message),
            ticket=optional_text(ticket),
            filter=asked,
            total=total,
            expected=expected,
            kicked=kicked,
            examined=examined or 0,
            pace=pace,
            created=moment(created),
            updated=moment(created if updated is None else updated),
            finished=None if finished is None else moment(finished),
            error=optional_text(error),
            not_before=None if not_before is None else moment(not_before),
            error_code=next((code for code in JOB_ERROR_CODES if code.encode() == raw_code), None),
            kind="timeouts" if kind == b"timeouts" else "kick",
            idle_timeout=idle,
            absolute_timeout=absolute,
            only_shorten=only_shorten == b"1",
        )


@dataclass(frozen=True, slots=True)
class EraseReport:
    """What ``erase`` did."""

    pseudonym: str  #: the name of this person in the audit from now on: "forgotten:" and twelve hex digits
    kicked: int  #: live sessions that were ended
    sessions: int  #: ended sessions that were erased, including those
    unblocked: bool  #: whether the user was blocked and is unblocked now
    rewritten: int  #: audit entries, denied attempts, bulk kicks and texts of staff that were changed
    live: int  #: sessions that began meanwhile: call ``erase`` again
    unfinished: tuple[str, ...]  #: bulk kicks that name the person and have not ended: end them, then call again

    @property
    def complete(self) -> bool:
        """Whether nothing is left."""
        return not self.live and not self.unfinished


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key for the HTTP service, and its scopes. Only a digest of the key is stored."""

    name: str
    scopes: tuple[str, ...]  #: some of "record", "read", "failures", "kick", "admin"
    created: datetime
    digest: str = field(repr=False)  #: the SHA-256 of the key, hex

    @classmethod
    def from_reply(cls, name: bytes, raw: bytes) -> ApiKey | None:
        """Decode a field of the hash; None if it is not as we write it: such a key is not valid."""
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
    """A person who may use the dashboard, or whose role was removed."""

    name: str  #: in lower case
    role: StaffRole | None  #: None: removed
    since: datetime  #: when the role was given or removed
    by: str  #: the person who gave or removed the role

    @classmethod
    def from_reply(cls, name: bytes, raw: bytes) -> StaffMember | None:
        """Decode a field of the hash; None if it is not as we write it: it gives no role."""
        role, _, rest = text(raw).partition("\n")
        since, _, by = rest.partition("\n")
        if role not in (*STAFF_ROLES, "removed") or not (since.isascii() and since.isdecimal() and len(since) <= 14):
            return None
        return cls(text(name), None if role == "removed" else cast("StaffRole", role), moment(int(since)), by)


@dataclass(frozen=True, slots=True)
class SavedItem:
    """A view, a phrase or a watched person that staff saved for themselves or for everyone."""

    kind: SavedKind
    name: str  #: of a watched person the uid
    text: str
    owner: str | None  #: the staff member, in lower case; None: shared, all staff see it
    by: str  #: the person who saved it last
    at: datetime  #: when

    @property
    def shared(self) -> bool:
        """Whether all staff see it."""
        return self.owner is None

    @classmethod
    def new(cls, kind: SavedKind, owner: str, name: str, text: str, by: str, at_ms: int) -> SavedItem:
        """An item; ``owner``: "" for a shared one."""
        return cls(kind, name, text, owner or None, by, moment(at_ms))

    @classmethod
    def from_list(cls, kind: SavedKind, owner: str, raw: bytes | None) -> list[SavedItem]:
        """Decode a list of items, by name. What is not as we write it is left out."""
        try:
            stored = json.loads(raw or b"{}")
        except (ValueError, RecursionError):
            return []
        if not isinstance(stored, dict):
            return []
        found = (cls._from_row(kind, owner, name, row) for name, row in stored.items())
        return sorted((item for item in found if item), key=lambda item: item.name)

    @classmethod
    def _from_row(cls, kind: SavedKind, owner: str, name: str, row: object) -> SavedItem | None:
        try:
            text, by, at = row["text"], row["by"], int(row["at"])  # type: ignore[index]
            if not isinstance(text, str) or not isinstance(by, str):
                return None
            return cls.new(kind, owner, name, text, by, at)
        except (ValueError, TypeError, LookupError, OverflowError):
            return None


@dataclass(frozen=True, slots=True)
class Remark:
    """A short text that a staff member left on a person for colleagues."""

    uid: str
    id: str
    text: str
    by: str  #: the staff member
    at: datetime
    until: datetime  #: when it lapses

    @classmethod
    def new(cls, uid: str, remark_id: str, content: str, by: str, at_ms: int, until_ms: int) -> Remark:
        """A remark of these times."""
        return cls(uid, remark_id, content, by, moment(at_ms), moment(until_ms))

    @classmethod
    def from_row(cls, uid: str, remark_id: str, raw: bytes) -> Remark | None:
        """Decode a stored remark; None if it is not as we write it."""
        try:
            row = json.loads(raw)
            content, by, at, until = row["text"], row["by"], int(row["at"]), int(row["until"])
            if not isinstance(content, str) or not isinstance(by, str):
                return None
            return cls.new(uid, remark_id, content, by, at, until)
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Viewer:
    """A staff member who has a person open."""

    name: str
    since: datetime


# -- what a change of timeouts makes of a session, for previews --------------------------------------------------------


def predict(session: Session, idle: int | None, absolute: int | None, most_on_behalf: int) -> Session:
    """The session after a change of its timeouts (s; None: it keeps its own), if it is not seen meanwhile. An expiry in
    the past means that the change ends it. ``change_timeouts.lua`` decides the same. A mirrored one keeps its own."""
    if is_mirrored(session.session_id):
        return session
    new_absolute = session.absolute_timeout if absolute is None else absolute
    if absolute is not None and session.on_behalf_by is not None:
        new_absolute = min(new_absolute, most_on_behalf)
    if session.idp_expires_at is not None:
        new_absolute = min(new_absolute, (as_ms(session.idp_expires_at) - login_ms(session)) // 1000)
    new_idle = min(session.idle_timeout if idle is None else idle, new_absolute)
    seen = round(session.last_seen.timestamp() * 1000)
    expires_at = moment(min(seen + new_idle * 1000, login_ms(session) + new_absolute * 1000))
    return replace(session, idle_timeout=new_idle, absolute_timeout=new_absolute, expires_at=expires_at)


def is_longer(before: Session, after: Session) -> bool:
    """Whether a timeout is longer than before."""
    return after.idle_timeout > before.idle_timeout or after.absolute_timeout > before.absolute_timeout


def is_changed(before: Session, after: Session) -> bool:
    """Whether a timeout is another one than before."""
    return (after.idle_timeout, after.absolute_timeout) != (before.idle_timeout, before.absolute_timeout)
