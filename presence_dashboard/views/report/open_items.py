"""What is open for the next shift, above the report: tables that a browser can print."""

from __future__ import annotations

import streamlit as st

from presence_core import ApprovalRequest
from presence_dashboard import texts
from presence_dashboard.actions import approvals
from presence_dashboard.components.session_facts import html_table, person_cell, text_cell, time_cell
from presence_dashboard.components.tickets import ticket_cell
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.history_query import filter_in_words
from presence_dashboard.data.report.open_items import NEXT_SHIFT, OpenItems, read_open_items
from presence_dashboard.data.shared_reads import now, shared, shown_names
from presence_dashboard.data.store import open_store
from presence_dashboard.format import author
from presence_dashboard.roles import Actor

KEEP = 14.5


def read() -> OpenItems | None:
    """The open items, shared by all tabs."""
    return shared("open-items", lambda presence: read_open_items(presence, now()), keep=KEEP).value


def open_items(actor: Actor) -> None:
    """Each kind has a table of its own; a kind without an item has none. Further kinds follow here."""
    found = read()
    if found is None:
        return
    names = shown_names(found.names, actor)
    with st.container(gap="xsmall", key="open-items"):
        st.header(texts.OPEN_ITEMS, anchor=False)
        requests = _open_requests(actor)
        if not (found.blocks or found.jobs or requests or (found.remarks and not actor.masked)):
            st.caption(texts.OPEN_ITEMS_NONE)
        _blocks(found, names)
        _jobs(found, actor)
        _requests(requests, actor)
        if not actor.masked:  # a remark may have a name or an address in it
            _remarks(found, names)


def _blocks(found: OpenItems, names: dict[str, str]) -> None:
    if not found.blocks:
        return
    hours = int(NEXT_SHIFT.total_seconds() // 3600)
    st.markdown(f"**{texts.blocks_that_end(len(found.blocks), hours, found.blocks_are_all)}**")
    html_table(
        {
            texts.FACT_UNTIL: [time_cell(block.until) for block in found.blocks if block.until],
            texts.LABEL_PERSON: [person_cell(block.uid, names.get(block.uid)) for block in found.blocks],
            texts.LABEL_BY: [author(block.by, block.uid, text_cell) for block in found.blocks],
            texts.LABEL_REASON: [text_cell(block.reason) for block in found.blocks],
            texts.LABEL_TICKET: [ticket_cell(block.ticket) for block in found.blocks],
        },
        texts.blocks_that_end(len(found.blocks), hours, found.blocks_are_all),
        wide=(texts.LABEL_REASON,),
    )


def _jobs(found: OpenItems, actor: Actor) -> None:
    if not found.jobs:
        return
    st.markdown(f"**{texts.jobs_under_way(len(found.jobs))}**")
    html_table(
        {
            texts.LABEL_WHEN: [time_cell(job.created) for job in found.jobs],
            texts.LABEL_ACTION: [text_cell(texts.JOB_KINDS[job.kind]) for job in found.jobs],
            texts.LABEL_BY: [text_cell(job.by) for job in found.jobs],
            texts.HISTORY_STATE: [text_cell(texts.JOB_STATES.get(job.state, job.state)) for job in found.jobs],
            texts.LABEL_REASON: [text_cell(job.reason) for job in found.jobs],
            texts.FACT_FILTER: [
                text_cell(filter_in_words(job.filter, job.created, actor, zone())) for job in found.jobs
            ],
        },
        texts.jobs_under_way(len(found.jobs)),
        wide=(texts.LABEL_REASON, texts.FACT_FILTER),
    )


def _open_requests(actor: Actor) -> list[ApprovalRequest]:
    """Those that wait for this reader, and their own."""
    known = approvals.requests(open_store()).value or []
    return [request for request in approvals.shown_to(actor, known) if request.state == "open"]


def _requests(requests: list[ApprovalRequest], actor: Actor) -> None:
    if not requests:
        return
    st.markdown(f"**{texts.requests_that_wait(len(requests))}**")
    html_table(
        {
            texts.FACT_UNTIL: [time_cell(request.until) for request in requests],
            texts.LABEL_BY: [text_cell(request.by) for request in requests],
            texts.LABEL_ACTION: [text_cell(approvals.acts_in_words(request, actor)) for request in requests],
            texts.LABEL_REASON: [text_cell(request.reason) for request in requests],
            texts.LABEL_TICKET: [ticket_cell(request.ticket) for request in requests],
        },
        texts.requests_that_wait(len(requests)),
        wide=(texts.LABEL_ACTION, texts.LABEL_REASON),
    )


def _remarks(found: OpenItems, names: dict[str, str]) -> None:
    if not found.remarks:
        return
    st.markdown(f"**{texts.number_of_remarks(len(found.remarks))}**")
    html_table(
        {
            texts.LABEL_WHEN: [time_cell(remark.at) for remark in found.remarks],
            texts.LABEL_PERSON: [person_cell(remark.uid, names.get(remark.uid)) for remark in found.remarks],
            texts.LABEL_BY: [text_cell(remark.by) for remark in found.remarks],
            texts.REMARK: [text_cell(remark.text) for remark in found.remarks],
        },
        texts.number_of_remarks(len(found.remarks)),
        wide=(texts.REMARK,),
    )
