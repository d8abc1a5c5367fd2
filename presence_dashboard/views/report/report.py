"""The Report page: what each colleague did in a period, for the next shift. A Streamlit script."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import streamlit as st

from presence_core import InvalidArgument
from presence_dashboard import access, texts
from presence_dashboard.actions.report_export import report_export
from presence_dashboard.components import export_dialog
from presence_dashboard.components.buttons import live_button
from presence_dashboard.components.figures import show_placeholder
from presence_dashboard.components.session_facts import html_table, text_cell
from presence_dashboard.components.tickets import ticket_cell
from presence_dashboard.components.time_picker import time_menu
from presence_dashboard.data.browser_tab import local_time, this_tab, zone
from presence_dashboard.data.report.shift_report import ShiftReport, read_report
from presence_dashboard.data.shared_reads import now, shared, shown_names
from presence_dashboard.format import name, number
from presence_dashboard.roles import Actor
from presence_dashboard.time_range import resolve
from presence_dashboard.views.report import open_items
from presence_dashboard.views.report.member_table import member_table
from presence_dashboard.views.report.row_words import worded_rows

access.stop_without_gate()

KEEP: Final = 14.5
"""Seconds for which a report is shared; the page says how old it is."""

Period = tuple[datetime, datetime | None]
"""Start, and end; without an end, up to now."""


def page() -> None:
    actor = access.current()
    controls = st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="report-controls")
    with controls:
        period = _period()
    if period is None:
        st.warning(texts.REPORT_WRONG_RANGE)
        return
    since, until = period
    with st.skeleton(height=320):
        reading = shared(("report", since, until), lambda presence: read_report(presence, since, until), keep=KEEP)
        open_items.read()  # before anything is drawn, so that nothing moves
    if reading.value is None:
        show_placeholder(reading)
        return
    report = reading.value.with_first(actor.name)
    with controls:
        _buttons(report, actor, period)
    open_items.open_items(actor)
    _report(report, actor, period)
    export_dialog.dialog()


# -- Period ------------------------------------------------------------------------------------------------------------


def _period() -> Period | None:
    """The chosen period; None if there is none, or if its end is not after its start."""
    try:
        since, until = resolve(time_menu("time", default="today"), now().replace(second=0, microsecond=0), zone())
    except InvalidArgument:
        return None
    return None if since is None or (until is not None and since >= until) else (since, until)


def _period_words(period: Period, as_of: datetime) -> str:
    since, until = (moment.astimezone(zone()) for moment in (period[0], period[1] or as_of))
    is_one_day = since.date() == until.date()
    end = f"{until:%H:%M}" if is_one_day else texts.weekday_and_time(until, f"{until:%H:%M}")
    return texts.report_period(texts.weekday_and_time(since, f"{since:%H:%M}", since.year), end, str(zone()))


# -- Report ------------------------------------------------------------------------------------------------------------


def _buttons(report: ShiftReport, actor: Actor, period: Period) -> None:
    st.button(texts.REFRESH, key="refresh-report", disabled=this_tab().away)
    if actor.may("export") and report.members:
        words = _period_words(period, report.as_of)
        export = report_export(
            worded_rows(report, actor, UTC), report.as_of, f"**{texts.REPORT_TITLE}**, {words}", words
        )
        live_button(texts.EXPORT_CSV, "export-report", export_dialog.open_dialog, export)
    st.button(texts.REPORT_PRINT, key="print-page")  # page.js prints


def _report(report: ShiftReport, actor: Actor, period: Period) -> None:
    st.header(f"{texts.REPORT_TITLE}: {_period_words(period, report.as_of)}", anchor=False)
    figures = texts.report_figures(report.sessions, len(report.uids), report.is_whole)
    st.caption(texts.report_summary(figures, len(report.members), local_time(report.as_of)))
    if report.complete_since is not None:
        st.warning(texts.report_incomplete(f"{report.complete_since.astimezone(zone()):%Y-%m-%d %H:%M}"))
    if not report.members:
        with st.container(border=True, key="nothing"):
            st.subheader(texts.REPORT_EMPTY_TITLE, anchor=False)
            st.markdown(texts.REPORT_EMPTY)
    names = shown_names(report.names, actor)
    _ranking(report)
    for member in report.members:
        with st.container(gap="xxsmall", key=f"member-{report.members.index(member)}"):
            you = f" ({texts.REPORT_YOU})" if member.name == actor.name else ""
            st.markdown(f"### {name(member.name or texts.REPORT_NO_NAME)}{you}")
            figures = texts.report_figures(member.sessions, len(member.uids), member.is_whole)
            st.markdown(texts.report_member(figures, member.kicks, member.bulk_kicks, member.blocks))
            if member.tickets:
                st.html(f"<p class=report-tickets>{texts.report_tickets(map(ticket_cell, member.tickets))}</p>")
            member_table(member, names, actor)


def _ranking(report: ShiftReport) -> None:
    """Colleagues by the number of their actions."""
    members = sorted(report.members, key=lambda member: (-len(member.rows), member.name))
    if len(members) < 2:
        return
    html_table(
        {
            texts.REPORT_COLLEAGUE: [text_cell(member.name or texts.REPORT_NO_NAME) for member in members],
            texts.REPORT_ACTIONS: [number(len(member.rows)) for member in members],
            texts.SESSIONS: [number(member.sessions) for member in members],
            texts.REPORT_TICKETS: [number(len(member.tickets)) for member in members],
        },
        texts.REPORT_RANKING,
    )


page()
