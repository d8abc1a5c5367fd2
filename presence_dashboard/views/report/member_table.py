"""The table of what one colleague did: plain HTML, so that a browser can print it."""

from __future__ import annotations

from collections.abc import Mapping

from presence_dashboard import texts
from presence_dashboard.components.session_facts import html_table, person_cell, text_cell, time_cell
from presence_dashboard.components.tickets import ticket_cell
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.report.shift_report import MemberReport
from presence_dashboard.format import number
from presence_dashboard.roles import Actor
from presence_dashboard.views.report.row_words import WordedRow, worded


def member_table(member: MemberReport, names: Mapping[str, str], actor: Actor) -> None:
    """Draw the rows of a member, oldest first. names: user id → name, as the actor may see it."""
    rows = [worded(row, names, actor, zone()) for row in member.rows]
    html_table(
        {
            texts.LABEL_WHEN: [time_cell(row.at) for row in rows],
            texts.LABEL_ACTION: [text_cell(row.action) for row in rows],
            texts.LABEL_PERSON: [_person(row) for row in rows],
            texts.SESSIONS: ["" if row.sessions is None else number(row.sessions) for row in rows],
            texts.LABEL_REASON: [text_cell(row.reason) for row in rows],
            texts.LABEL_TICKET: [ticket_cell(row.ticket) for row in rows],
            texts.LABEL_OUTCOME: [text_cell("\n".join(filter(None, (row.outcome, row.filter)))) for row in rows],
        },
        member.name,
        wide=(texts.LABEL_REASON, texts.LABEL_OUTCOME),
    )


def _person(row: WordedRow) -> str:
    return text_cell(row.people) if row.uid is None else person_cell(row.uid, row.name)
