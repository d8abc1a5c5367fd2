"""The rows of a shift report in words, with values that the actor may not see replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from presence_core import Job
from presence_dashboard import texts
from presence_dashboard.data import history_query
from presence_dashboard.data.shared_reads import shown_names
from presence_dashboard.data.shift_report import ReportRow, ShiftReport
from presence_dashboard.format import in_zone, number
from presence_dashboard.roles import Actor

_NOW: Final = timedelta(seconds=2)
"""How long a bulk kick may take to begin."""


@dataclass(frozen=True, slots=True)
class WordedRow:
    """A row as the page and the CSV show it."""

    at: datetime
    by: str
    action: str
    uid: str | None  #: None: a bulk kick, or no single person
    name: str | None  #: of the person
    people: str | None  #: of a bulk kick: how many
    sessions: int | None
    reason: str | None
    ticket: str | None
    outcome: str
    filter: str | None  #: of a bulk kick


def worded(row: ReportRow, names: Mapping[str, str], actor: Actor, zone: tzinfo) -> WordedRow:
    """names: user id → name, as the actor may see it."""
    entry, bulk = row.entry, row.bulk
    if bulk is None:
        return WordedRow(
            entry.at, entry.by or "", texts.act(entry.action), entry.uid, names.get(entry.uid or ""), None,
            row.sessions,
            history_query.reason(entry, actor), entry.ticket, in_zone(history_query.outcome(entry, actor), zone), None,
        )  # fmt: skip
    job = bulk.job
    state = texts.JOB_STATES.get(job.state, job.state)
    return WordedRow(
        entry.at, entry.by or "", texts.act("kick_where"), None, None,
        texts.report_bulk_people(len(bulk.uids), bulk.is_whole), job.kicked, job.reason, job.ticket,
        texts.report_bulk_outcome(number(job.kicked), number(job.total), None if job.state == "done" else state),
        _filter_words(job, actor, zone),
    )  # fmt: skip


def _filter_words(job: Job, actor: Actor, zone: tzinfo) -> str:
    """The filter, without the limit that each bulk kick gets: sessions that began before it."""
    values = history_query.filter_values(job.filter, actor)
    if "logged_in_before" in values and job.created - _moment(job.filter.logged_in_before) < _NOW:
        del values["logged_in_before"]
    for field in ("logged_in_after", "logged_in_before"):
        if field in values:
            values[field] = f"{_moment(getattr(job.filter, field)).astimezone(zone):%Y-%m-%d %H:%M:%S}"
    return texts.filter_words(values)


def _moment(given: datetime | float) -> datetime:
    return given if isinstance(given, datetime) else datetime.fromtimestamp(given, UTC)


def worded_rows(report: ShiftReport, actor: Actor, zone: tzinfo) -> list[WordedRow]:
    """All rows, one member after another."""
    names = shown_names(report.names, actor)
    return [worded(row, names, actor, zone) for member in report.members for row in member.rows]
