"""What calls answer with, beside sessions: pages, counts, events, results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from presence_core.models.sessions import Ended, Session
from presence_core.models.staff import Block, Job

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None  #: opaque; None on the last page
    total: int  #: how many there are in all, as of ``as_of``
    total_is_exact: bool
    scanned: int  #: entries looked at for this page
    as_of: datetime
    progress: float = 1.0  #: how much of the list this and the pages before have looked through, 0…1, at least
    complete_since: datetime | None = None  #: of ends: older ones may have gone before their time; None: all are there

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is online, or was not long ago."""

    uid: str
    name: str | None  #: of the newest session
    aliases: tuple[str, ...]  #: of all sessions, and other names in use
    online: bool
    last_seen: datetime
    sessions: int  #: live ones


@dataclass(frozen=True, slots=True)
class Plan:
    """How a filter will be answered."""

    index: str  #: what drives: "uid", "text", "name", "ip", "login", "list", or "none": facets know that there is none
    rows: int  #: entries of it that will be looked at for a page of 50, estimated
    matches: int  #: sessions that match, estimated
    tests: tuple[str, ...]  #: fields of the filter that are tested on the records


@dataclass(frozen=True, slots=True)
class Counts:
    """How many are online. Sessions are exact at ``as_of``; users are exact as of the last sweep."""

    users: int
    sessions: int
    totals: Mapping[str, int]  #: since the namespace began: "login", and ends by reason
    as_of: datetime
    swept_at: datetime | None  #: when a sweep last ran to its end; None before the first
    draining: bool = False  #: sessions that revoke_before signed out are still being taken off the lists


@dataclass(frozen=True, slots=True)
class Event:
    """Something began or ended."""

    kind: str  #: "login", "logout", "expired", "kicked", "replaced"; "gap" where events were lost to the cap
    uid: str
    session_id: str
    at: datetime
    cursor: str  #: opaque: give it as ``after`` to go on behind this event


@dataclass(frozen=True, slots=True)
class KickResult:
    """What a kick did."""

    kicked: list[Session]  #: the sessions that this call ended; of a bulk kick at most 10,000 of them
    already_ended: list[Ended]  #: asked for by id, but over before; with why and by whom where that is still known
    count: int = -1  #: how many were ended; of a bulk kick in all, whoever ran it
    job: Job | None = None  #: of a bulk kick: look at its ``state``
    confirmed: bool | None = None  #: False: not confirmed on a replica; None: not asked (``Settings.confirm_replicas``)
    block: Block | None = None  #: with ``block_for``: the block as it is now, which another may have made longer

    def __post_init__(self) -> None:
        if self.count < 0:
            object.__setattr__(self, "count", len(self.kicked))

    def __bool__(self) -> bool:
        return self.count > 0


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What an upkeep pass did."""

    expired: int  #: sessions ended because their time was over or their record gone
    repaired: int  #: entries put right, tombstones finished
    has_more: bool  #: the limit was reached with work left

    def __add__(self, other: SweepReport) -> SweepReport:
        return SweepReport(
            self.expired + other.expired, self.repaired + other.repaired, self.has_more or other.has_more
        )


@dataclass(frozen=True, slots=True)
class Migration:
    """What a move to another number of shards has done."""

    before: int  #: shards that there were
    shards: int  #: shards that there are
    sessions: int = 0  #: live sessions that were copied; 0 where an earlier call had copied them
    keys: int = 0  #: keys that were copied as they are
    removed: int = 0  #: keys of the old shards that went
