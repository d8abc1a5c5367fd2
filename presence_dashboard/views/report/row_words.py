"""The rows of a shift report in words, with values that the actor may not see replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo

from presence_dashboard import texts
from presence_dashboard.data import history_query
from presence_dashboard.data.report.shift_report import ReportRow, ShiftReport
from presence_dashboard.data.shared_reads import shown_names
from presence_dashboard.format import number, outcome
from presence_dashboard.roles import Actor


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
            history_query.reason(entry, actor), entry.ticket, outcome(history_query.masked(entry, actor), zone), None,
        )  # fmt: skip
    job = bulk.job
    state = texts.JOB_STATES.get(job.state, job.state)
    return WordedRow(
        entry.at, entry.by or "", texts.act("kick_where"), None, None,
        texts.report_bulk_people(len(bulk.uids), bulk.is_whole), job.kicked, job.reason, job.ticket,
        texts.report_bulk_outcome(number(job.kicked), number(job.total), None if job.state == "done" else state),
        history_query.filter_in_words(job.filter, job.created, actor, zone),
    )  # fmt: skip


def worded_rows(report: ShiftReport, actor: Actor, zone: tzinfo) -> list[WordedRow]:
    """All rows, one member after another."""
    names = shown_names(report.names, actor)
    return [worded(row, names, actor, zone) for member in report.members for row in member.rows]
