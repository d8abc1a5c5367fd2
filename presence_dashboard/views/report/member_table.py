"""The table of what one colleague did: plain HTML, so that a browser can print it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final
from urllib.parse import quote

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.access import Actor
from presence_dashboard.components.session_facts import time_of_day, time_tag
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.shift_report import MemberReport
from presence_dashboard.format import literal, number
from presence_dashboard.views.report.row_words import WordedRow, worded

HEADINGS: Final = (
    texts.REPORT_WHEN, texts.LABEL_ACTION, texts.REPORT_PEOPLE, texts.REPORT_SESSIONS, texts.LABEL_REASON,
    texts.LABEL_TICKET, texts.LABEL_OUTCOME,
)  # fmt: skip


def member_table(member: MemberReport, actor: Actor) -> None:
    """Draw the rows of a member, oldest first."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in HEADINGS)
    rows = "".join(f"<tr>{''.join(_cells(worded(row, actor, zone())))}</tr>" for row in member.rows)
    st.html(
        f'<div class="report-rows" role="region" tabindex="0" aria-label="{escape(literal(member.name))}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cells(row: WordedRow) -> Iterator[str]:
    values = (
        time_tag(row.at, time_of_day(row.at)),
        _text(row.action),
        _person(row),
        "" if row.sessions is None else number(row.sessions),
        _text(row.reason),
        _text(row.ticket),
        _text("\n".join(filter(None, (row.outcome, row.filter)))),
    )
    for heading, value in zip(HEADINGS, values, strict=True):
        yield f'<td data-label="{escape(heading)}">{value}</td>'  # a phone shows a row as a card with labels


def _text(text: str | None) -> str:
    return "<br>".join(escape(literal(line)) for line in (text or "").splitlines())


def _person(row: WordedRow) -> str:
    if row.uid is None:
        return escape(row.people or "")
    return f'<a href="person?q={quote(row.uid, safe="")}">{escape(literal(row.uid))}</a>'
