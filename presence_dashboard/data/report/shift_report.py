"""The shift report: what each staff member did in a period, with final figures, from the audit and the bulk kicks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from presence_core import AuditEntry, Ended, Job, Presence

MAX_ENTRIES: Final = 5_000
"""Audit entries that a report reads; more make it slow, and no one reads them."""

PAGE: Final = 1_000
MAX_NAMED: Final = 1_000
"""Users of one call of ``names_of``."""

MAX_JOB_PAGES: Final = 10
"""Pages of 100 bulk kicks: all that are listed."""

MAX_END_PAGES: Final = 10
"""Pages of 1,000 ended sessions that are read to count the people of a bulk kick."""

_BULK_STEP: Final = "kick_where"

_OF_USERS: Final = ("confirm_login", "deny_login", "require_sign_in")
"""Actions that are the user's own where the user is their author: answers to notices."""


@dataclass(frozen=True, slots=True)
class BulkKick:
    """A bulk kick that began in the period."""

    job: Job
    uids: frozenset[str]  #: of the people whose sessions it ended, as far as known
    is_whole: bool  #: whether these are all


@dataclass(frozen=True, slots=True)
class ReportRow:
    """An action of a staff member."""

    entry: AuditEntry
    sessions: int | None  #: that it ended; None: it ends none
    bulk: BulkKick | None = None


@dataclass(frozen=True, slots=True)
class MemberReport:
    """What one staff member did."""

    name: str
    rows: tuple[ReportRow, ...]  #: oldest first

    @property
    def sessions(self) -> int:
        """Sessions that they ended."""
        return sum(row.sessions or 0 for row in self.rows)

    @property
    def uids(self) -> frozenset[str]:
        """People whose sessions they ended."""
        single = {row.entry.uid for row in self.rows if row.sessions and row.entry.uid}
        return frozenset(single).union(*(row.bulk.uids for row in self.rows if row.bulk))

    @property
    def is_whole(self) -> bool:
        """Whether ``uids`` are all of them."""
        return all(row.bulk.is_whole for row in self.rows if row.bulk)

    def count(self, *actions: str) -> int:
        return sum(row.entry.count for row in self.rows if row.entry.action in actions)

    @property
    def kicks(self) -> int:
        return self.count("kick")

    @property
    def bulk_kicks(self) -> int:
        return sum(row.bulk is not None for row in self.rows)

    @property
    def blocks(self) -> int:
        """People whom they blocked, with or without a kick."""
        return len({row.entry.uid for row in self.rows
                    if row.entry.action == "block" or (row.entry.action == "kick" and _blocks(row.entry))})  # fmt: skip

    @property
    def tickets(self) -> tuple[str, ...]:
        """Each ticket once, in order."""
        return tuple(dict.fromkeys(row.entry.ticket for row in self.rows if row.entry.ticket))


@dataclass(frozen=True, slots=True)
class ShiftReport:
    """What staff did from ``since`` to ``until``."""

    members: tuple[MemberReport, ...]  #: those who did most come first
    as_of: datetime
    complete_since: datetime | None  #: older actions were not read; None: all were
    names: Mapping[str, str] = field(default_factory=dict)  #: of the people in the rows, as far as known

    @property
    def sessions(self) -> int:
        return sum(member.sessions for member in self.members)

    @property
    def uids(self) -> frozenset[str]:
        return frozenset[str]().union(*(member.uids for member in self.members))

    @property
    def is_whole(self) -> bool:
        return all(member.is_whole for member in self.members)

    def with_first(self, name: str) -> ShiftReport:
        return replace(self, members=tuple(sorted(self.members, key=lambda member: member.name != name)))


def read_report(presence: Presence, since: datetime, until: datetime | None) -> ShiftReport:
    """The report of a period; without ``until``, up to now. Raises PresenceError."""
    entries, as_of, complete_since = _read_entries(presence, since, until)
    jobs = [job for job in _read_jobs(presence, since) if job.created >= since and (not until or job.created < until)]
    bulk = {job.id: _bulk_kick(presence, job) for job in jobs if job.kind == "kick"}
    return ShiftReport(_members(_rows(entries, bulk)), as_of, complete_since, _names(presence, entries))


def _names(presence: Presence, entries: Iterable[AuditEntry]) -> dict[str, str]:
    uids = list(dict.fromkeys(entry.uid for entry in entries if entry.uid))
    names: dict[str, str] = {}
    for first in range(0, len(uids), MAX_NAMED):
        names |= presence.names_of(uids[first : first + MAX_NAMED])
    return names


def _read_entries(
    presence: Presence, since: datetime, until: datetime | None
) -> tuple[list[AuditEntry], datetime, datetime | None]:
    """Entries oldest first, when they were read, and from when on they are complete."""
    entries: list[AuditEntry] = []
    cursor, as_of = None, datetime.now(UTC)
    while len(entries) < MAX_ENTRIES:
        page = presence.audit(since=since, until=until, limit=PAGE, cursor=cursor)
        entries += page.items
        cursor, as_of = page.next_cursor, page.as_of
        if cursor is None:
            return entries[::-1], as_of, None
    return entries[::-1], as_of, entries[-1].at


def _read_jobs(presence: Presence, since: datetime) -> Iterator[Job]:
    cursor = None
    for _ in range(MAX_JOB_PAGES):
        page = presence.jobs(limit=100, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None or (page.items and page.items[-1].created < since):
            return


def _bulk_kick(presence: Presence, job: Job) -> BulkKick:
    """The people of a bulk kick, by its ended sessions as long as these are stored."""
    uids: set[str] = set()
    number, cursor = 0, None
    until = None if job.finished is None else job.finished + timedelta(seconds=1)
    for _ in range(MAX_END_PAGES):
        page = presence.ended(
            reason="kicked", by=job.by, since=job.created, until=until, limit=PAGE, cursor=cursor
        )  # fmt: skip
        own = [ended for ended in page if _is_of(job, ended)]
        uids |= {ended.uid for ended in own}
        number, cursor = number + len(own), page.next_cursor
        if cursor is None:
            break
    return BulkKick(job, frozenset(uids), number >= job.kicked)


def _is_of(job: Job, ended: Ended) -> bool:
    return (ended.note, ended.ticket, ended.message) == (job.reason, job.ticket, job.message)


def _rows(entries: Iterable[AuditEntry], bulk: Mapping[str, BulkKick]) -> Iterator[ReportRow]:
    """A row for each entry; the steps of a bulk kick by the staff member who started it are one row."""
    for entry in entries:
        if entry.by == entry.uid and entry.action in _OF_USERS:
            continue
        kick = bulk.get(job_id(entry) or "")
        if kick is None or entry.by != kick.job.by:
            yield ReportRow(entry, _sessions(entry))
        elif entry.action == f"{_BULK_STEP}_start":
            yield ReportRow(entry, kick.job.kicked, kick)


def job_id(entry: AuditEntry) -> str | None:
    """The bulk kick that an entry is about."""
    jobs = (fact.values["job"] for fact in entry.facts if "job" in fact.values)
    return next((str(job) for job in jobs), None)


def _sessions(entry: AuditEntry) -> int | None:
    """The sessions that an action ended. A bulk kick counts where it began, with its final figure."""
    if entry.action != "kick":
        return None
    return sum(int(fact.values["count"] or 0) for fact in entry.facts if fact.code == "ended")


def _blocks(entry: AuditEntry) -> bool:
    return any("until" in fact.values for fact in entry.facts)


def _members(rows: Iterable[ReportRow]) -> tuple[MemberReport, ...]:
    by_name: dict[str, list[ReportRow]] = {}
    for row in rows:
        by_name.setdefault(row.entry.by or "", []).append(row)
    members = [MemberReport(name, tuple(own)) for name, own in by_name.items()]
    return tuple(sorted(members, key=lambda member: (-member.sessions, -len(member.rows), member.name)))
