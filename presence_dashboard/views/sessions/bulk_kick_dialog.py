"""The dialog of a bulk kick: it counts the sessions, shows a sample and asks for a confirmation.

The bulk kick uses the filter with which the dialog was opened, and ends no more sessions than the dialog showed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import streamlit as st

from presence_core import InvalidArgument, KickPreview, MatchedPerson, Session, SessionFilter
from presence_dashboard import access, drafts, texts
from presence_dashboard.actions import approvals, bulk_kick
from presence_dashboard.actions.approvals import KickPart, RulePart, Started
from presence_dashboard.actions.bulk_kick import PeopleCount
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.components import account, kick_dialog, notifications, saved_phrases
from presence_dashboard.components.block_choice import fill_rule
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.session_facts import session_preview
from presence_dashboard.components.tickets import ticket_box
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.session_query import SessionQuery
from presence_dashboard.data.store import open_store
from presence_dashboard.drafts import Draft
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import literal, number, span
from presence_dashboard.roles import Actor, SignedOut
from presence_dashboard.views.sessions.block_form import BlockForm, block_form, follow_started, not_kicked
from presence_dashboard.views.sessions.search_bar import in_words

SAMPLE: Final = 5

MAX_PEOPLE: Final = 100
"""A preview that names so many people may not name all."""

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
    block: BlockForm = field(default_factory=BlockForm)


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
    if request.preview is None and request.failure is None:
        with st.spinner(texts.BULK_COUNTING):
            _count(request)
    if request.preview is None:
        st.warning(texts.action_failed(request.failure or ""))
        st.button(texts.BULK_AGAIN, key="bulk-again", on_click=_count_again, args=(request,))
        return
    actor = access.current()
    total, limit = request.preview.total, actor.alone_limit
    is_above_limit = limit is not None and total > limit
    must_sign_in_again = not is_above_limit and account.must_sign_in_again("bulk")
    if request.grown:
        st.warning(texts.BULK_GROWN)
    if not total or request.people is None:
        st.info(texts.BULK_NONE)
    else:
        show_matches(request.preview, request.people, in_words(request.query))
    if request.ticked:
        request.keeps = st.checkbox(
            texts.bulk_spare(len(request.ticked)), key=_keep_key(request), on_change=_count_again, args=(request,)
        )
    if is_above_limit and not actor.can_ask:
        st.warning(texts.bulk_over(number(limit or 0)))
    elif total:
        if is_above_limit:
            st.info(texts.ask_needed(number(limit or 0)))
        _form(request, request.preview, actor, is_above_limit=is_above_limit, must_sign_in_again=must_sign_in_again)


def show_matches(preview: KickPreview, people: PeopleCount, which: str) -> None:
    """What a bulk kick would end. which: its filter in words, safe for Markdown."""
    total = preview.total
    counted = texts.number_of_people(people.count, number(people.count), people.is_exact)
    st.markdown(texts.bulk_found(total, number(total), counted, local_time(preview.as_of), which))
    session_preview(people.sample, texts.BULK_SAMPLE, total=total, found_by=_found_by(preview.people))
    _people(preview.people, people.sample)


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
    request.preview = request.failure = request.block.preview = None
    request.grown = False


def _count(request: BulkKickRequest) -> None:
    try:
        presence, kept = open_store().presence, _kept(request)
        preview = bulk_kick.preview(presence, request.filter, kept)
        request.people = bulk_kick.count_people(presence, preview, frozenset(kept), SAMPLE)
        request.preview, request.failure = preview, None
    except REFUSALS as error:
        request.failure = plain(error)


def _form(
    request: BulkKickRequest, preview: KickPreview, actor: Actor, *, is_above_limit: bool, must_sign_in_again: bool
) -> None:
    """is_above_limit: more sessions than the actor may kick alone."""
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
    rule: RulePart | str | None = None
    if actor.may("block_rules"):
        fill_rule(f"bulk-{key}", request.filter)
        rule = block_form(f"bulk-{key}", request.block, confirms_wide=not is_above_limit and actor.four_eyes is None)
    asks = is_above_limit or (isinstance(rule, RulePart) and rule.wide is not None and actor.four_eyes is not None)
    if asks and not is_above_limit:
        st.info(texts.ASK_WIDE)
    with st.form(f"bulk-{key}", border=False, enter_to_submit=False):
        typed = "" if asks else st.text_input(texts.bulk_type(total), key=f"bulk-typed-{key}", autocomplete="off")
        pace = bulk_kick.pace_of(preview.total)
        if pace is not None and not asks:
            duration = span(max(10, preview.total / pace))
            st.caption(texts.bulk_pace(bulk_kick.DELAY, number(pace), duration))
        with st.container(key="dialog-foot"):
            problem = st.container()
            with st.container(horizontal=True, gap="small"):
                acts = texts.confirm(preview.total) if rule is None else texts.block_and_kick(preview.total, total)
                confirmed = st.form_submit_button(
                    texts.ASK_ADMIN if asks else acts,
                    key=f"bulk-{'ask' if asks else 'confirm'}-{key}",
                    type="primary",
                    disabled=this_tab().away or (must_sign_in_again and not asks),
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
        elif isinstance(rule, str):
            request.problem = rule
        elif asks:
            request.problem = _ask(request, preview, rule, details)
        elif not is_number(typed, preview.total):
            request.problem = texts.bulk_mistyped(total)
        else:
            request.problem = _start(request, preview, rule, details)
    if request.problem is not None:
        problem.warning(request.problem)


def is_number(typed: str, total: int) -> bool:
    """Whether this text is the number, with or without the separators of any language."""
    return re.sub(r"[\s.,’']", "", typed) == str(total)


def _ask(request: BulkKickRequest, preview: KickPreview, rule: RulePart | None, details: ActionDetails) -> str:
    """Ask an admin and close the dialog; or return why no one could be asked."""
    store = open_store()
    try:
        asked = approvals.ask(store.presence, KickPart(preview, _kept(request)), rule, details)
    except REFUSALS as error:
        return texts.action_failed(plain(error))
    notifications.notify(Notification("done", texts.asked(local_time(asked.until))))
    approvals.requests(store, fresh=True)
    _close()
    st.rerun()


def _start(request: BulkKickRequest, preview: KickPreview, rule: RulePart | None, details: ActionDetails) -> str:
    """Start the job and close the dialog; or return why it could not be started."""
    store = open_store()
    try:
        if rule is None:
            started = Started(job=bulk_kick.start(store, preview, _kept(request), details))
        else:
            started = approvals.start(store, KickPart(preview, _kept(request)), rule, details)
    except InvalidArgument as error:
        if error.field != "expected":
            return texts.action_failed(plain(error))
        _count_again(request)
        request.grown = True
        st.rerun()
    except REFUSALS as error:
        return texts.action_failed(plain(error))
    if started.failure is not None:
        _count_again(request)  # it may be that more match
        request.problem = not_kicked(started)
        st.rerun()
    follow_started(started)
    _close()
    st.rerun()
