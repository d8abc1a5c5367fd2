"""The dialog of a bulk kick: it counts the sessions, shows a sample and asks for a confirmation.

The bulk kick uses the filter with which the dialog was opened, and ends no more sessions than the dialog showed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import streamlit as st

from presence_core import InvalidArgument, KickPreview, MatchedPerson, Session, SessionFilter
from presence_dashboard import access, drafts, texts
from presence_dashboard.actions import bulk_kick
from presence_dashboard.actions.bulk_kick import PeopleCount
from presence_dashboard.actions.kick_and_block import ActionDetails, may_be_undone
from presence_dashboard.components import account, kick_dialog, notifications, saved_phrases
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.session_facts import session_preview
from presence_dashboard.components.tickets import ticket_box
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.session_query import SessionQuery
from presence_dashboard.data.store import open_store
from presence_dashboard.drafts import Draft
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import literal, number, span
from presence_dashboard.roles import SignedOut
from presence_dashboard.views.sessions.bulk_kick_progress import jobs_of_tab
from presence_dashboard.views.sessions.search_bar import in_words

SAMPLE: Final = 5

MAX_PEOPLE: Final = 100
"""A preview that names so many people may not name all."""

WAIT: Final = 0.8
"""Seconds for which the click waits for a small job, to show its result instead of its start."""

_REQUEST: Final = "bulk-request"
_NUMBER: Final = "bulk-number"


@dataclass(slots=True)
class BulkKickRequest:
    """The bulk kick that the dialog asks about."""

    number: int  #: new for every dialog, so that its fields start empty
    filter: SessionFilter
    query: SessionQuery  #: the same in the reader's words
    ticked: tuple[str, ...]  #: refs that can be kept
    keeps: bool = False  #: whether the box that keeps them is ticked
    preview: KickPreview | None = None
    people: PeopleCount | None = None  #: counted with the preview
    failure: str | None = None  #: why it could not be counted
    grown: bool = False  #: more sessions matched at the confirmation, so they were counted again
    problem: str | None = None  #: why the last confirmation was refused; also shown by later runs


def open_dialog(matching: SessionFilter, query: SessionQuery, ticked: tuple[str, ...]) -> None:
    if notifications.refused("bulk", "kick_where"):
        return
    number: int = st.session_state.get(_NUMBER, 0) + 1
    st.session_state[_NUMBER] = number
    st.session_state[_REQUEST] = BulkKickRequest(number, matching, query, ticked)


def _close() -> None:
    if st.session_state.pop(_REQUEST, None) is not None:
        with suppress(SignedOut):  # then the draft stays
            drafts.drop()


def draft_offer() -> None:
    """An unfinished bulk kick from an earlier sign-in, with buttons that continue or discard it."""
    draft = None if _REQUEST in st.session_state else drafts.offered("bulk")
    if draft is not None:
        kick_dialog.draft_box(draft, _continue)


def _continue(draft: Draft) -> None:
    """Open the dialog again. Its sessions are counted again."""
    before: BulkKickRequest = draft.request
    drafts.drop()
    open_dialog(before.filter, before.query, before.ticked)
    request: BulkKickRequest | None = st.session_state.get(_REQUEST)
    if request is not None:
        st.session_state[_keep_key(request)] = before.keeps
        for field, value in draft.fields.items():
            st.session_state[f"bulk-{field}-{request.number}"] = value


def dialog() -> bool:
    request: BulkKickRequest | None = st.session_state.get(_REQUEST)
    if request is not None and not access.current().may("bulk"):  # the role was lost
        _close()
        return False
    if request is not None:
        st.dialog(_title(request), width="medium", on_dismiss=_close)(_body)(request)
    return request is not None


def _title(request: BulkKickRequest) -> str:
    return texts.BULK_TITLE_EVERYONE if request.query.is_everyone else texts.BULK_TITLE


def _title_and_sessions(request: BulkKickRequest) -> str:
    return f"**{_title(request)}** {in_words(request.query)}"


def _body(request: BulkKickRequest) -> None:
    account.idle_warning("dialog")
    must_sign_in_again = account.must_sign_in_again("bulk")
    if request.preview is None and request.failure is None:
        with st.spinner(texts.BULK_COUNTING):
            _count(request)
    if request.preview is None:
        st.warning(texts.action_failed(request.failure or ""))
        st.button(texts.BULK_AGAIN, key="bulk-again", on_click=_count_again, args=(request,))
        return
    total, limit = request.preview.total, access.current().bulk_limit
    if request.grown:
        st.warning(texts.BULK_GROWN)
    if not total or request.people is None:
        st.info(texts.BULK_NONE)
    else:
        people = texts.number_of_people(request.people.count, number(request.people.count), request.people.is_exact)
        st.markdown(
            texts.bulk_found(total, number(total), people, local_time(request.preview.as_of), in_words(request.query))
        )
        sample, matched = request.people.sample, request.preview.people
        session_preview(sample, texts.BULK_SAMPLE, total=total, found_by=_found_by(matched))
        _people(matched, sample)
    if request.ticked:
        request.keeps = st.checkbox(
            texts.bulk_spare(len(request.ticked)), key=_keep_key(request), on_change=_count_again, args=(request,)
        )
    if limit is not None and total > limit:
        st.warning(texts.bulk_over(number(limit)))
    elif total:
        _form(request, request.preview, disabled=this_tab().away or must_sign_in_again)


def _found_by(people: Sequence[MatchedPerson]) -> dict[str, str]:
    """User id → the fields by which the search found the person; empty where there was no search."""
    fields = {person.uid: ", ".join(texts.FOUND_BY[field] for field in person.matched_by) for person in people}
    return {uid: words for uid, words in fields.items() if words}


def _people(people: Sequence[MatchedPerson], sample: Sequence[Session]) -> None:
    """All people of the preview, where the sample has not named them."""
    found = _found_by(people)
    if not found or {person.uid for person in people} <= {session.uid for session in sample}:
        return
    with st.expander(texts.bulk_people(len(people), are_all=len(people) < MAX_PEOPLE)):
        st.dataframe(
            {
                texts.LABEL_NAME: [literal(person.name or person.uid) for person in people],
                texts.LABEL_UID: [literal(person.uid) for person in people],
                texts.COLUMN_FOUND_BY: [found.get(person.uid, "") for person in people],
            },
            hide_index=True,
            height=220 if len(people) > 5 else "content",
            alt=texts.BULK_PEOPLE_ALT,
        )


def _confirmed() -> None:
    """Callback of the button: audits a denied click even if the next page no longer has the button."""
    if notifications.refused("bulk", "kick_where"):
        _close()


def _keep_key(request: BulkKickRequest) -> str:
    return f"bulk-keep-{request.number}"


def _kept(request: BulkKickRequest) -> tuple[str, ...]:
    return request.ticked if st.session_state.get(_keep_key(request)) else ()


def _count_again(request: BulkKickRequest) -> None:
    request.preview = request.failure = None
    request.grown = False


def _count(request: BulkKickRequest) -> None:
    try:
        presence, kept = open_store().presence, _kept(request)
        preview = bulk_kick.preview(presence, request.filter, kept)
        request.people = bulk_kick.count_people(presence, preview, frozenset(kept), SAMPLE)
        request.preview, request.failure = preview, None
    except REFUSALS as error:
        request.failure = plain(error)


def _form(request: BulkKickRequest, preview: KickPreview, *, disabled: bool) -> None:
    key, total = request.number, number(preview.total)
    fields = (f"bulk-phrase-{key}", f"bulk-reason-{key}", f"bulk-message-{key}")
    saved_phrases.phrase_choice(fields[0], saved_phrases.fill, *fields)
    # Outside the form, so that a phrase does not replace typed text.
    reason = st.text_area(texts.REASON, key=f"bulk-reason-{key}", max_chars=500, height=72, help=texts.REASON_HELP)
    message = st.text_area(texts.MESSAGE, key=f"bulk-message-{key}", max_chars=500, height=72, help=texts.MESSAGE_HELP)
    ticket = ticket_box(f"bulk-ticket-{key}")
    texts_typed = {"reason": reason, "message": message, "ticket": ticket or ""}
    has_text = any(text.strip() for text in texts_typed.values())
    with suppress(SignedOut):
        drafts.keep("bulk", partial(_title_and_sessions, request), request, texts_typed, has_text=has_text)
    with st.form(f"bulk-{key}", border=False, enter_to_submit=False):
        typed = st.text_input(texts.bulk_type(total), key=f"bulk-typed-{key}", autocomplete="off")
        pace = bulk_kick.pace_of(preview.total)
        if pace is not None:
            duration = span(max(10, preview.total / pace))
            st.caption(texts.bulk_pace(bulk_kick.DELAY, number(pace), duration))
        with st.container(key="dialog-foot"):
            problem = st.container()
            with st.container(horizontal=True, gap="small"):
                confirmed = st.form_submit_button(
                    texts.confirm(preview.total),
                    key=f"bulk-confirm-{key}",
                    type="primary",
                    disabled=disabled,
                    on_click=_confirmed,
                )
                cancelled = st.form_submit_button(texts.CANCEL, key=f"bulk-cancel-{key}")
    if cancelled:
        _close()
        st.rerun()
    if confirmed:
        details = ActionDetails(reason.strip(), message.strip() or None, ticket)
        if not details.reason:
            request.problem = texts.REASON_MISSING
        elif not is_number(typed, preview.total):
            request.problem = texts.bulk_mistyped(total)
        else:
            request.problem = _start(request, preview, details)
    if request.problem is not None:
        problem.warning(request.problem)


def is_number(typed: str, total: int) -> bool:
    """Whether this text is the number, with or without the separators of any language."""
    return re.sub(r"[\s.,’']", "", typed) == str(total)


def _start(request: BulkKickRequest, preview: KickPreview, details: ActionDetails) -> str:
    """Start the job and close the dialog; or return why it could not be started."""
    store = open_store()
    try:
        job = bulk_kick.start(store, preview, _kept(request), details)
    except InvalidArgument as error:
        if error.field != "expected":
            return texts.action_failed(plain(error))
        _count_again(request)
        request.grown = True
        st.rerun()
    except REFUSALS as error:
        return texts.action_failed(plain(error))
    jobs_of_tab()[job.id] = job.not_before is None and bulk_kick.wait_for(job.id, WAIT)
    if not jobs_of_tab()[job.id] and job.not_before is None:
        notifications.notify(Notification("note", texts.BULK_STARTED))
    if may_be_undone(store.presence):
        notifications.notify(Notification("note", texts.NO_REPLICA_ASKED))
    bulk_kick.jobs(store, fresh=True)
    this_tab().acted += 1
    _close()
    st.rerun()
