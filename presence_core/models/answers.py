"""Pages, counts, events, and the results of calls."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Generic, TypeVar

from presence_core.errors import PresenceError
from presence_core.models.choices import WayName
from presence_core.models.places import MAX_BYTES, Move, Place, cut
from presence_core.models.sessions import Ended, Record, Session, moment, text
from presence_core.models.staff import Block, Job
from presence_core.schema.endings import EventKind
from presence_core.schema.record import AFTER_FAILURES, DISTANT, NEW_DEVICE

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None  #: opaque; None on the last page
    total: int  #: items in all, as of ``as_of``
    total_is_exact: bool
    scanned: int  #: entries read for this page
    as_of: datetime
    progress: float = 1.0  #: lower bound of the fraction read, 0…1
    complete_since: datetime | None = None  #: of ended sessions: older ones may be missing; None: all are listed

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Person:
    """A person who is online, or was recently."""

    uid: str
    name: str | None  #: of the newest session
    aliases: tuple[str, ...]  #: of all sessions, and other names in use
    online: bool
    last_seen: datetime
    sessions: int  #: live ones


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A login of a user, as the sign-in history keeps it. Names longer than 64 bytes are cut."""

    at: datetime
    place: Place | None = None  #: country and city of the address, where they were known
    device: str | None = None
    app: str | None = None
    app_version: str | None = None
    os: str | None = None
    browser: str | None = None
    new_device: bool = False  #: the user had other devices, and not this one
    distant: bool = False  #: farther from the place of the login before than a plane flies in the time between
    after_failures: bool = False  #: five or more sign-ins of the user had failed since the login before

    @classmethod
    def of_session(cls, record: Record) -> SignIn:
        """The login of a session that is still known."""
        place = Place(country=record.place.country, city=record.place.city) if record.place else None
        return cls(
            at=record.login_at, place=place if place != Place() else None,
            device=record.device, app=record.app, app_version=record.app_version, os=record.os, browser=record.browser,
            new_device=record.new_device, distant=record.distant, after_failures=record.after_failures,
        )  # fmt: skip


_SIGN_IN: Final = struct.Struct(">HIBBB")


def sign_in_text(place: Place | None, *client: str) -> bytes:
    """What the sign-in history keeps of a login, as ``include/login/sign_ins.lua`` has it. ``client``: device, app, app
    version, os, browser; empty for what is not known."""
    lines = (place and place.country) or "", (place and place.city) or "", *client
    return b"\n".join(cut(line.replace("\n", " ").encode(), MAX_BYTES) for line in lines)


def read_sign_ins(stored: bytes | None) -> list[SignIn]:
    """The sign-ins of a stored history, the newest first; none of what another program wrote."""
    try:
        return _read_sign_ins(stored) if stored else []
    except (struct.error, IndexError, ValueError):
        return []


def _read_sign_ins(stored: bytes) -> list[SignIn]:
    texts, begin = [], 1
    for _ in range(stored[0]):
        length = int.from_bytes(stored[begin : begin + 2], "big")
        texts.append([line or None for line in text(stored[begin + 2 : begin + 2 + length]).split("\n")])
        begin += 2 + length
    found = []
    for high, low, flags, place, client in _SIGN_IN.iter_unpack(stored[begin:]):
        if not (place and client):
            raise ValueError("texts are numbered from 1")
        country, city = texts[place - 1]
        device, app, app_version, os, browser = texts[client - 1]
        where = Place(country=country, city=city) if country or city else None
        found.append(
            SignIn(
                at=moment(high << 32 | low),
                place=where,
                device=device,
                app=app,
                app_version=app_version,
                os=os,
                browser=browser,
                new_device=bool(flags & NEW_DEVICE),
                distant=bool(flags & DISTANT),
                after_failures=bool(flags & AFTER_FAILURES),
            )
        )
    return found[::-1]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a filter is answered."""

    index: WayName  #: how sessions are found: see WayName
    rows: int  #: entries of it that are read for a page of 50, estimated
    matches: int  #: sessions that match, estimated
    tests: tuple[str, ...]  #: fields of the filter that are tested on the records
    incomplete: tuple[str, ...] = ()  #: indexes that would help, but ``reindex`` has to complete them first


@dataclass(frozen=True, slots=True)
class Counts:
    """How many are online, exactly, at ``as_of``; while ``draining``, there may be fewer users."""

    users: int
    sessions: int
    totals: Mapping[str, int]  #: since the namespace began: "login", and ends by reason, when they are written
    as_of: datetime
    swept_at: datetime | None  #: when a sweep last ran to its end; None before the first
    odd_logins: Mapping[str, int]
    """Since the namespace began: "new_device"; "distant", far from the last login; "after_failures", after five or more
    sign-ins that failed; "moved", sessions that have moved."""
    failed_logins: int = 0  #: since the namespace began
    draining: bool = False  #: sweeps are still ending the sessions that ``revoke_before`` revoked
    waiting: Mapping[str, int] = field(default_factory=dict)  #: sessions that have ended, by the reason that a sweep
    #: will write: ``totals`` do not have them yet


@dataclass(frozen=True, slots=True)
class Event:
    """A session began or ended, must sign in again or has, or its login was odd; or events before this were lost."""

    kind: EventKind
    uid: str
    session_id: str
    at: datetime
    cursor: str  #: opaque: give it as ``after`` to continue after this event


@dataclass(frozen=True, slots=True)
class DistantLogin(Event):
    """The event ``distant``, with both places and times. They are None once the session is no longer kept."""

    place: Place | None  #: of this login
    previous_place: Place | None  #: of the login before
    previous_login_at: datetime | None  #: when that was


@dataclass(frozen=True, slots=True)
class SessionMoved(Event):
    """The event ``moved``, with both sides. None once the session is no longer kept, or has moved again."""

    move: Move | None


@dataclass(frozen=True, slots=True)
class KickResult:
    """The outcome of a kick."""

    kicked: list[Session]  #: the sessions that this call ended; of a bulk kick at most 10,000
    already_ended: list[Ended]  #: named by id, but had ended before; with the reason, as long as it is kept
    count: int = -1  #: how many were ended; of a bulk kick in all, by any process
    job: Job | None = None  #: of a bulk kick: see its ``state``
    confirmed: bool | None = None
    """False: too few replicas of this Redis have it; None: not asked (``Settings.confirm_replicas``). It says nothing
    of the site's own store: a mirrored session ends there when its mirror has deleted it (``MirrorStatus.waiting``)."""
    block: Block | None = None  #: with ``block_for``: the block that is in force; an earlier one may be longer
    not_found: list[str] = field(default_factory=list)
    """Of ``kick_refs``: refs without a session or a record of its end."""
    failed: Mapping[str, PresenceError] = field(default_factory=dict)
    """Of ``kick_refs``: refs of which it is not known whether they ended, and why."""

    def __post_init__(self) -> None:
        if self.count < 0:
            object.__setattr__(self, "count", len(self.kicked))

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass(frozen=True, slots=True)
class SignInResult:
    """The outcome of ``require_sign_in``."""

    sessions: list[Session]  #: the live sessions that are refused until their visitor signs in again
    confirmed: bool | None = None  #: False: too few replicas have it; None: not asked (``Settings.confirm_replicas``)
    skipped: int = 0  #: live sessions on behalf of the user: their holder, a member of staff, cannot sign in again

    def __bool__(self) -> bool:
        return bool(self.sessions)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The outcome of a sweep, a repair or a rebuild."""

    expired: int  #: sessions ended because they were past their deadline or their record was lost
    repaired: int  #: entries repaired, tombstones finished
    has_more: bool  #: the limit was reached, and there is more to do

    def __add__(self, other: SweepReport) -> SweepReport:
        return SweepReport(
            self.expired + other.expired, self.repaired + other.repaired, self.has_more or other.has_more
        )


@dataclass(frozen=True, slots=True)
class ReshardReport:
    """The outcome of ``reshard``."""

    before: int  #: shards before
    shards: int  #: shards now
    sessions: int = 0  #: live sessions that were copied; 0 if an earlier call had copied them
    keys: int = 0  #: keys that were copied unchanged
    removed: int = 0  #: keys of the old shards that were deleted
