"""The dialog of a bulk change of timeouts: it says of how many sessions a time would be shorter or longer, and asks.

The change uses the filter with which the dialog was opened, and changes no more sessions than the dialog showed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import streamlit as st

from presence_core import InvalidArgument, SessionFilter, TimeoutsPreview
from presence_dashboard import access, texts
from presence_dashboard.actions import approvals, bulk_kick
from presence_dashboard.actions.approvals import TimesPart
from presence_dashboard.components import account, notifications
from presence_dashboard.components.kick_dialog.timeout_choice import TIMEOUTS
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.tickets import ticket_box
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.session_query import SessionQuery
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import number, span
from presence_dashboard.roles import Actor
from presence_dashboard.views.sessions import bulk_kick_progress
from presence_dashboard.views.sessions.search_bar import in_words

_REQUEST: Final = "bulk-timeouts-request"
_NUMBER: Final = "bulk-timeouts-number"
_ACTION: Final = "change_timeouts_where"


@dataclass(slots=True)
class _Request:
    """The change that the dialog asks about."""

    number: int  #: new for every dialog, so that its fields start empty
    filter: SessionFilter
    query: SessionQuery  #: the same in the reader's words
    chosen: tuple[int | None, int | None] = (None, None)  #: idle and absolute, s, of the preview
    preview: TimeoutsPreview | None = None
    failure: str | None = None  #: why it could not be counted
    grown: bool = False  #: more sessions matched at the confirmation, so they were counted again
    problem: str | None = None  #: why the last confirmation was refused


def open_dialog(matching: SessionFilter, query: SessionQuery) -> None:
    if notifications.refused("bulk", _ACTION):
        return
    number: int = st.session_state.get(_NUMBER, 0) + 1
    st.session_state[_NUMBER] = number
    st.session_state[_REQUEST] = _Request(number, matching, query)


def _close() -> None:
    st.session_state.pop(_REQUEST, None)


def dialog() -> bool:
    request: _Request | None = st.session_state.get(_REQUEST)
    if request is not None and not access.current().may("bulk"):  # the role was lost
        _close()
        return False
    if request is not None:
        title = texts.TIMEOUTS_ALL_TITLE_EVERYONE if request.query.is_everyone else texts.TIMEOUTS_ALL_TITLE
        st.dialog(title, width="medium", on_dismiss=_close)(_body)(request)
    return request is not None


def _body(request: _Request) -> None:
    account.idle_warning("dialog")
    actor = access.current()
    st.caption(texts.TIMEOUTS_EXPLAINED)
    if not actor.may("lengthen"):
        st.caption(texts.TIMEOUTS_ONLY_SHORTER)
    with st.container(horizontal=True, gap="small"):
        idle = _choose(texts.TIMEOUT_IDLE, f"bulk-idle-{request.number}")
        absolute = _choose(texts.TIMEOUT_ABSOLUTE, f"bulk-absolute-{request.number}")
    if request.chosen != (idle, absolute):
        request.chosen, request.preview, request.failure, request.problem = (idle, absolute), None, None, None
    if (idle, absolute) == (None, None):
        st.info(texts.TIMEOUTS_MISSING)
        return
    if request.preview is None and request.failure is None:
        with st.spinner(texts.BULK_COUNTING):
            _count(request)
    preview = request.preview
    if preview is None:
        st.warning(texts.action_failed(request.failure or ""))
        st.button(texts.BULK_AGAIN, key="bulk-timeouts-again", on_click=_count_again, args=(request,))
        return
    if request.grown:
        st.warning(texts.BULK_GROWN)
    show_figures(preview, in_words(request.query), actor)
    limit = actor.alone_limit
    is_above_limit = limit is not None and preview.total > limit
    asks = actor.can_ask and (is_above_limit or actor.four_eyes is not None)
    if preview.read == preview.total and not preview.shortened + preview.lengthened * (actor.may("lengthen") or asks):
        st.info(texts.TIMEOUTS_NOTHING)
    elif is_above_limit and not asks:
        st.warning(texts.timeouts_over(number(limit or 0)))
    else:
        if asks:
            st.info(texts.timeouts_ask_needed(number(limit or 0)) if is_above_limit else texts.ASK_TIMEOUTS)
        _form(request, preview, asks=asks)


def _choose(label: str, key: str) -> int | None:
    """The options are texts; "" leaves each session its own."""
    labels = {"": texts.TIMEOUT_SAME} | {str(seconds): span(seconds) for seconds in TIMEOUTS}
    chosen = st.selectbox(label, list(labels), key=key, format_func=labels.__getitem__)
    return int(chosen) if chosen else None


def _count(request: _Request) -> None:
    try:
        request.preview = bulk_kick.preview_timeouts(open_store().presence, request.filter, *request.chosen)
    except REFUSALS as error:
        request.failure = plain(error)


def _count_again(request: _Request) -> None:
    request.preview = request.failure = None
    request.grown = False


def show_figures(preview: TimeoutsPreview, which: str, actor: Actor) -> None:
    """What the change would do, if this actor starts it. which: the filter in words, safe for Markdown."""
    longer = preview.lengthened if actor.may("lengthen") else 0
    skipped = preview.lengthened - longer
    st.markdown(texts.timeouts_found(preview.total, number(preview.total), local_time(preview.as_of), which))
    parts = [texts.timeouts_figures(number(preview.shortened), number(longer), number(preview.ended))]
    parts += [texts.timeouts_skipped(skipped, number(skipped))] if skipped else []
    parts += [texts.timeouts_of_newest(number(preview.read))] if preview.read < preview.total else []
    st.markdown(" ".join(parts))


def _form(request: _Request, preview: TimeoutsPreview, *, asks: bool) -> None:
    """asks: an admin must approve the change."""
    key = request.number
    must_sign_in_again = not asks and account.must_sign_in_again("bulk-timeouts")
    reason = st.text_area(
        texts.REASON, key=f"bulk-timeouts-reason-{key}", max_chars=500, height=72, help=texts.REASON_HELP
    )
    ticket = ticket_box(f"bulk-timeouts-ticket-{key}")
    with st.form(f"bulk-timeouts-{key}", border=False, enter_to_submit=False), st.container(key="dialog-foot"):
        problem = st.container()
        with st.container(horizontal=True, gap="small"):
            confirmed = st.form_submit_button(
                texts.ASK_ADMIN if asks else texts.timeouts_confirm(preview.total, number(preview.total)),
                key=f"bulk-timeouts-{'ask' if asks else 'confirm'}-{key}",
                type="primary",
                disabled=this_tab().away or must_sign_in_again,
                on_click=_confirmed,
            )
            cancelled = st.form_submit_button(texts.CANCEL, key=f"bulk-timeouts-cancel-{key}")
    if cancelled:
        _close()
        st.rerun()
    if confirmed:
        if not reason.strip():
            request.problem = texts.REASON_MISSING
        else:
            request.problem = (_ask if asks else _start)(request, preview, reason.strip(), ticket)
    if request.problem is not None:
        problem.warning(request.problem)


def _confirmed() -> None:
    """Callback of the button: audits a denied click even if the next page no longer has the button."""
    if notifications.refused("bulk", _ACTION):
        _close()


def _ask(request: _Request, preview: TimeoutsPreview, reason: str, ticket: str | None) -> str:
    """Ask an admin and close the dialog; or return why no one could be asked."""
    store = open_store()
    try:
        asked = approvals.ask_timeouts(store.presence, TimesPart(preview, *request.chosen), reason, ticket)
    except REFUSALS as error:
        return texts.action_failed(plain(error))
    notifications.notify(Notification("done", texts.asked(local_time(asked.until))))
    approvals.requests(store, fresh=True)
    _close()
    st.rerun()


def _start(request: _Request, preview: TimeoutsPreview, reason: str, ticket: str | None) -> str:
    """Start the job and close the dialog; or return why it could not be started."""
    try:
        job = bulk_kick.start_timeouts(open_store(), preview, *request.chosen, reason, ticket)
    except InvalidArgument as error:
        if error.field != "expected":
            return texts.action_failed(plain(error))
        _count_again(request)
        request.grown = True
        st.rerun()
    except REFUSALS as error:
        return texts.action_failed(plain(error))
    bulk_kick_progress.follow(job)
    this_tab().acted += 1  # the list shows when sessions expire
    _close()
    st.rerun()
