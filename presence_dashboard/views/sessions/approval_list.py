"""The requests on the Sessions page: those that wait for this admin, and one's own with their state."""

from __future__ import annotations

from datetime import datetime, timedelta
from html import escape
from typing import Final

import streamlit as st

from presence_core import ApprovalRequest
from presence_dashboard import texts
from presence_dashboard.actions import approvals
from presence_dashboard.components import notifications
from presence_dashboard.components.buttons import live_button
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.shared_reads import now
from presence_dashboard.data.store import open_store
from presence_dashboard.format import cut, literal
from presence_dashboard.roles import Actor
from presence_dashboard.views.sessions import approval_dialog
from presence_dashboard.views.sessions.approval_dialog import asked_in_words

MOST: Final = 10
"""Requests that the page shows, those that wait for the reader first."""

STARTS_IN: Final = timedelta(seconds=60)
"""After that an approved request without a result has none: the process that approved it died."""

_HIDDEN: Final = "hidden-requests"


def request_list(actor: Actor) -> None:
    """The header looks at each tick whether the list has changed, and draws the page again: see ``page_header``."""
    shown = approvals.shown_to(actor, approvals.requests(open_store()).value or [])
    this_tab().requests = approvals.states_of(shown)
    hidden = st.session_state.get(_HIDDEN, ())
    for request in [request for request in shown if request.id not in hidden][:MOST]:
        _card(request, actor)


def _card(request: ApprovalRequest, actor: Actor) -> None:
    is_own = request.by.lower() == actor.name.lower()
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", border=True, key=f"request-{request.id}"
    ):
        changes = approvals.changes_in_words(request, actor)
        details = " · ".join(filter(None, (asked_in_words(request), _state(request), changes)))
        acts = approvals.acts_in_words(request, actor)
        st.html(f'<div class="presence-request"><p>{escape(acts)}</p><p>{escape(details)}</p></div>')
        if request.state == "open" and not is_own:
            live_button(texts.REQUEST_REVIEW, f"review-{request.id}", _review, request)
        elif request.state == "open":
            live_button(texts.REQUEST_WITHDRAW, f"withdraw-{request.id}", _withdraw, request)
        else:
            st.button(
                texts.BULK_JOB_HIDE, key=f"hide-request-{request.id}", on_click=_hide, args=(request,), type="tertiary"
            )


def _state(request: ApprovalRequest) -> str:
    by = literal(cut(request.answered_by or "", 40))
    at = request.answered_at
    clock = local_time(at or request.until)
    match request.state:
        case "open":
            return texts.request_open(clock)
        case "refused":
            return texts.request_refused(by, clock, literal(request.word or ""))
        case "withdrawn":
            return texts.REQUEST_WITHDRAWN
        case "lapsed":
            return texts.request_lapsed(clock)
        case "done":
            return texts.request_done(by, clock)
        case "failed":
            return texts.request_failed(by, clock, literal(request.outcome or ""))
        case "approved":
            return texts.request_started(by, clock) if _may_be_starting(at) else texts.request_unknown(by, clock)


def _may_be_starting(approved_at: datetime | None) -> bool:
    return approved_at is not None and now() - approved_at < STARTS_IN


def _review(request: ApprovalRequest) -> None:
    if not notifications.refused("approve", approvals.APPROVE):
        approval_dialog.open_dialog(request)


def _withdraw(request: ApprovalRequest) -> None:
    if notifications.attempt(lambda: approvals.withdraw(open_store().presence, request)):
        notifications.notify(Notification("done", texts.REQUEST_IS_WITHDRAWN))
    approvals.requests(open_store(), fresh=True)


def _hide(request: ApprovalRequest) -> None:
    st.session_state[_HIDDEN] = (*st.session_state.get(_HIDDEN, ()), request.id)
