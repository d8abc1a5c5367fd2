"""The dialog that kicks, requires a new sign-in, changes timeouts, blocks and unblocks: it shows the sessions, and asks
for a reason.

It is opened from the session state, so that no rerun loses it, and acts on the refs with which it was opened, even
if the page shows others by then. ``acts`` has what differs between the acts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Final

import streamlit as st

from presence_core import Block, Ended, InvalidArgument, OutcomeUnknown, PresenceError, Session
from presence_dashboard import access, drafts, texts
from presence_dashboard.actions import kick_and_block
from presence_dashboard.actions.kick_and_block import ActionDetails, KickOutcome
from presence_dashboard.components import account, notifications, saved_phrases, session_facts
from presence_dashboard.components.block_choice import BlockEnd, choose_block_end
from presence_dashboard.components.kick_dialog.acts import (
    BLOCK,
    CHANGE_TIMEOUTS,
    KICK,
    REQUIRE_SIGN_IN,
    UNANSWERED,
    UNBLOCK,
    Act,
    Answers,
    DialogRequest,
)
from presence_dashboard.components.kick_dialog.timeout_choice import NewTimeouts, choose_timeouts
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.session_facts import flags, session_preview, time_of_day
from presence_dashboard.components.tickets import ticket_box
from presence_dashboard.data import shared_reads
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.store import open_store
from presence_dashboard.drafts import Draft
from presence_dashboard.error_sentences import plain
from presence_dashboard.format import cut, literal, name, number, since
from presence_dashboard.roles import Denied, SignedOut

NAMED: Final = 10
"""Sessions that the dialog lists before "and N more"."""

_REQUEST: Final = "kick-request"
_NUMBER: Final = "kick-number"
_TEXTS: Final = ("reason", "message", "ticket")
_FIELDS: Final = (*_TEXTS, "block", "idle", "absolute")  # of which a draft is made


def open_for_sessions(sessions: tuple[Session, ...]) -> None:
    if sessions and not notifications.refused("kick", "kick", sessions[0].uid):
        blocks = _blocks_of(*(session.uid for session in sessions))
        st.session_state[_REQUEST] = DialogRequest(_next_number(), KICK, sessions, blocks=blocks)


def open_for_person(uid: str, selected: tuple[str, ...] = (), *, keep: bool = False) -> None:
    """Open the dialog for all current sessions of a person. keep: except the selected ones."""
    if notifications.refused("kick", "kick", uid):
        return
    try:
        found = open_store().presence.sessions(uid)
    except PresenceError as error:
        notifications.notify(notifications.failed(plain(error)))
        return
    if not found:
        notifications.notify(Notification("note", texts.NONE_LEFT))
        return
    live = {session.ref for session in found}
    kept = tuple(ref for ref in selected if ref in live)
    if keep and live == set(kept):  # the others have ended meanwhile
        notifications.notify(Notification("note", texts.NOTHING_LEFT))
        return
    st.session_state[_REQUEST] = DialogRequest(
        _next_number(), KICK, tuple(found), uid, found[0].name, datetime.now(UTC), kept, keep and bool(kept),
        _blocks_of(uid),
    )  # fmt: skip


def open_for_sign_in(uid: str, session: Session | None = None) -> None:
    """Open the dialog that requires a new sign-in, of a session or of all current sessions of a person."""
    _open_for_some(REQUIRE_SIGN_IN, uid, session, kick_and_block.may_require_sign_in, texts.SIGN_IN_NONE_LEFT)


def open_for_timeouts(uid: str, session: Session | None = None) -> None:
    """Open the dialog that changes the timeouts of a session, or of all current sessions of a person."""
    _open_for_some(CHANGE_TIMEOUTS, uid, session, kick_and_block.may_change_timeouts, texts.NONE_LEFT)


def _open_for_some(act: Act, uid: str, session: Session | None, may_act: Callable[[Session], bool], none: str) -> None:
    """none: said if the person has no session on which it may act."""
    if notifications.refused("kick", act.audit_name, uid):
        return
    try:
        found = open_store().presence.sessions(uid) if session is None else [session]
    except PresenceError as error:
        notifications.notify(notifications.failed(plain(error)))
        return
    sessions = tuple(filter(may_act, found))
    if not sessions:
        notifications.notify(Notification("note", none))
        return
    request = DialogRequest(_next_number(), act, sessions, blocks=_blocks_of(uid))
    if session is None:
        request = replace(request, uid=uid, name=sessions[0].name, as_of=datetime.now(UTC))
    st.session_state[_REQUEST] = request


def open_for_block(uid: str, name: str | None) -> None:
    """Open the dialog that blocks a person, filled with the existing block."""
    if notifications.refused("kick", "block", uid):
        return
    request = DialogRequest(_next_number(), BLOCK, uid=uid, name=name, blocks=_blocks_of(uid))
    st.session_state[_REQUEST] = request
    if block := request.existing_block:
        for field, text in _texts_of(block).items():
            st.session_state[f"{field}-{request.number}"] = text


def _texts_of(block: Block) -> dict[str, str]:
    """The texts of a block, by the field that they fill."""
    return {
        "reason": block.reason,
        "message": block.message or "",
        "ticket": block.tickets[-1] if block.tickets else "",
    }


def open_for_unblock(uid: str, name: str | None) -> None:
    if not notifications.refused("kick", "unblock", uid):
        st.session_state[_REQUEST] = DialogRequest(_next_number(), UNBLOCK, uid=uid, name=name, blocks=_blocks_of(uid))


def _blocks_of(*uids: str) -> tuple[Block, ...]:
    return tuple(shared_reads.blocks_of(open_store().presence, uids).values())


def _next_number() -> int:
    number: int = st.session_state.get(_NUMBER, 0) + 1
    st.session_state[_NUMBER] = number
    return number


def _close() -> None:
    if st.session_state.pop(_REQUEST, None) is not None:
        with suppress(SignedOut):  # then the draft stays
            drafts.drop()


def draft_offer() -> None:
    """An unfinished action from an earlier sign-in, with buttons that continue or discard it."""
    draft = None if is_open() else drafts.offered("kick")
    if draft is not None:
        draft_box(draft, _continue)


def draft_box(draft: Draft, continue_draft: Callable[[Draft], None]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", border=True, key="draft"):
        st.markdown(texts.draft_kept(draft.title()), width="stretch")
        st.button(texts.DRAFT_CONTINUE, key="draft-continue", on_click=continue_draft, args=(draft,))
        st.button(texts.DRAFT_DISCARD, key="draft-discard", on_click=drafts.drop)


def _continue(draft: Draft) -> None:
    before: DialogRequest = draft.request
    if notifications.refused("kick", before.act.audit_name, before.only_uid):
        return
    uids = dict.fromkeys([session.uid for session in before.sessions] + ([before.uid] if before.uid else []))
    request = replace(before, number=_next_number(), blocks=_blocks_of(*uids))
    drafts.drop()
    st.session_state[_REQUEST] = request
    for field, value in draft.fields.items():
        if field != "block" or (value and request.blocks == before.blocks):  # else its options may be others
            st.session_state[f"{field}-{request.number}"] = value


def is_open() -> bool:
    """Whether the dialog is open. Streamlit allows one dialog at a time."""
    return _REQUEST in st.session_state


def dialog() -> None:
    request: DialogRequest | None = st.session_state.get(_REQUEST)
    if request is not None and access.current().may("kick"):
        st.dialog(request.act.title(request), width="medium", on_dismiss=_close)(_body)(request)
    elif request is not None:  # the role was lost
        _close()


def _body(request: DialogRequest) -> None:
    account.idle_warning("dialog")
    again = st.container()
    _targets(request)
    meanwhile = st.container(key="ended-meanwhile")  # for one fragment: in a shared container it may vanish
    _existing_blocks(request)
    answers = _ask(request)
    with again:
        must_sign_in_again = request.act.needs_fresh_sign_in(request, answers) and account.must_sign_in_again("kick")
    _keep_draft(replace(request, keep_selected=bool(answers.keep)))
    _foot(request, answers, may_act=not (this_tab().away or must_sign_in_again))
    if request.sessions:
        with meanwhile:  # after the action, so that none waits for it
            st.fragment(_ended_meanwhile, run_every=this_tab().tick)(request)


def _ask(request: DialogRequest) -> Answers:
    """The fields of the act."""
    number, act = request.number, request.act
    keep: tuple[str, ...] = ()
    if request.as_of is not None:
        st.caption(act.read_at(local_time(request.as_of)))
    if explanation := act.explanation():
        st.markdown(explanation)
    if request.selected and len(request.sessions) > 1:
        keep = (
            request.selected
            if st.checkbox(_keep_label(request), value=request.keep_selected, key=f"keep-{number}")
            else ()
        )
    end = BlockEnd()
    if act.block_choice is not None and request.only_uid is not None:
        end = choose_block_end(number, act.block_choice, request.existing_block, partial(_fit_message, request))
    timeouts = choose_timeouts(number, request.sessions) if act.has_timeouts else NewTimeouts()
    if act.has_message:
        saved_phrases.phrase_choice(f"phrase-{number}", _add_phrase, request)
    details = _fields(request, end)
    if act.has_message:
        help_text = texts.TICKET_CHANGE_HELP if request.existing_block is not None else None
        details = replace(details, ticket=ticket_box(f"ticket-{number}", help=help_text))
    return Answers(details, end, keep, timeouts)


def _foot(request: DialogRequest, answers: Answers, *, may_act: bool) -> None:
    """The buttons, and what they do."""
    number, act = request.number, request.act
    with st.form(f"kick-{number}", border=False, enter_to_submit=False), st.container(key="dialog-foot"):
        problem = st.container()
        if this_tab().away:  # the notice of the page may lie below the dialog
            st.info(texts.AWAY_HINT)
        with st.container(horizontal=True, gap="small"):
            is_pressed = st.form_submit_button(
                act.button(request, answers),
                key=f"danger-{number}" if act.is_dangerous else f"confirm-{number}",
                type="primary",
                shortcut="Ctrl+Enter",  # also in a text field
                disabled=not may_act,
                on_click=_check_right,
                args=(request,),
            )
            cancelled = st.form_submit_button(texts.CANCEL)
    if cancelled:
        _close()
        st.rerun()
    problem_key = f"problem-{number}"  # leaving a field for the button causes another run, after that of the button
    if is_pressed:
        st.session_state[problem_key] = _act(request, answers)
    if problem_key in st.session_state:
        problem.warning(st.session_state[problem_key])


def _keep_draft(request: DialogRequest) -> None:
    if _REQUEST in st.session_state:
        fields = {field: st.session_state.get(f"{field}-{request.number}") or "" for field in _FIELDS}
        existing = request.existing_block
        offered = _texts_of(existing) if existing is not None and request.act is BLOCK else {}
        has_text = any(fields[field].strip() not in ("", offered.get(field)) for field in _TEXTS)
        with suppress(SignedOut):
            drafts.keep("kick", partial(_title, request), request, fields, has_text=has_text)


def _title(request: DialogRequest) -> str:
    """The question and the people, safe for Markdown."""
    return f"**{request.act.title(request)}** {_people(request)}"


def _people(request: DialogRequest) -> str:
    """The names of the people, safe for Markdown."""
    names = {session.uid: session.name or session.uid for session in request.sessions}
    if request.uid is not None:
        names = {request.uid: request.name or request.uid}
    first, *others = names.values()
    label = name(cut(first, 40))
    return texts.several(label, len(others)) if others else label


def _check_right(request: DialogRequest) -> None:
    """Callback of the button: audits a denied click even if the next page no longer has the button."""
    if notifications.refused("kick", request.act.audit_name, request.only_uid):
        _close()


def _fields(request: DialogRequest, end: BlockEnd) -> ActionDetails:
    """Reason and message, outside the form, so that a phrase does not replace typed text."""
    number = request.number
    reason = st.text_area(texts.REASON, key=f"reason-{number}", max_chars=500, height=72, help=texts.REASON_HELP)
    if not request.act.has_message:
        return ActionDetails(reason.strip())
    message = st.text_area(texts.MESSAGE, key=f"message-{number}", max_chars=500, height=72, help=texts.MESSAGE_HELP)
    until = request.existing_block.until if end.is_unchanged and request.existing_block is not None else None
    return ActionDetails(reason.strip(), message.strip() or None, None, end.seconds, until, end.shorten)


def _keep_label(request: DialogRequest) -> str:
    kept, *others = (session for session in request.sessions if session.ref in request.selected)
    if others:
        return texts.keep_selected(len(request.selected))
    return texts.keep_one(name(cut(kept.device or texts.NO_VALUE, 24)), time_of_day(kept.login_at))


def _add_phrase(request: DialogRequest) -> None:
    """Add the chosen phrase to the texts, in the version that fits the chosen block."""
    number = request.number
    saved_phrases.fill(f"phrase-{number}", f"reason-{number}", f"message-{number}", request.act.phrase_use(request))


def _fit_message(request: DialogRequest) -> None:
    """Another block was chosen: phrases in the message say what now holds."""
    saved_phrases.fit(f"message-{request.number}", request.act.phrase_use(request))


# -- Acting ------------------------------------------------------------------------------------------------------------


def _act(request: DialogRequest, answers: Answers) -> str:
    """Run the action and close the dialog; or return why it was not run."""
    if missing := request.act.missing(request, answers):
        return missing
    try:
        results = request.act.run(request, answers)
    except OutcomeUnknown as error:
        results = [notifications.failed(plain(error))]
    except (PresenceError, Denied, SignedOut) as error:
        block_has_ended = isinstance(error, InvalidArgument) and (error.field, error.code) == ("until", "in_the_past")
        return texts.BLOCK_HAS_ENDED if block_has_ended else texts.action_failed(plain(error))
    if isinstance(results, str):
        return results
    notifications.notify(*results)
    this_tab().acted += 1
    _close()
    st.rerun()


def check_again() -> None:
    """Check the outcome of kicks that had no reply. Shows a warning until it is known."""
    unanswered: tuple[str, ...] = st.session_state.get(UNANSWERED, ())
    if not unanswered:
        return
    if not this_tab().away:
        outcome = kick_and_block.check_again(open_store().presence, unanswered)
        st.session_state[UNANSWERED] = unanswered = outcome.unanswered
        if outcome.already or outcome.ended_unknown or outcome.still_live:
            notifications.notify(*notifications.outcome_notifications(outcome))
    if unanswered:
        st.warning(texts.unresolved(len(unanswered)))


# -- Sessions and people -----------------------------------------------------------------------------------------------


def _existing_blocks(request: DialogRequest) -> None:
    has_several = request.only_uid is None
    for block in request.blocks[:NAMED]:
        st.markdown(
            texts.is_blocked(name(cut(block.uid, 40)) if has_several else None, notifications.block_summary(block))
        )
    if len(request.blocks) > NAMED:
        st.caption(texts.and_more(number(len(request.blocks) - NAMED)))
    if hint := request.act.block_hint(request):
        st.caption(hint)


def _ended_meanwhile(request: DialogRequest) -> None:
    """Which of the sessions have ended since the dialog was opened. Acting is still allowed: it may also block."""
    refs = tuple(session.ref for session in request.sessions)
    found = shared_reads.shared(("among", refs), lambda presence: presence.sessions_among(refs), keep=0).value
    if found is not None:
        already = tuple(record for ref in refs if isinstance(record := found.get(ref), Ended))
        outcome = KickOutcome(already=already, ended_unknown=tuple(ref for ref in refs if ref not in found))
        for notification in notifications.outcome_notifications(outcome):
            st.info(notification.text)


def _targets(request: DialogRequest) -> None:
    sessions = request.sessions
    if not sessions or (request.act.has_timeouts and len(sessions) > 1):  # the choice of timeouts lists them
        _facts({texts.LABEL_NAME: request.name, texts.LABEL_UID: request.uid})
        return
    if len(sessions) == 1:
        _person(sessions[0])
        return
    session_preview(sessions[:NAMED], request.act.targets(), total=len(sessions))


def _person(session: Session) -> None:
    theirs = session_facts.their_zone(session, access.current(touch=False))
    _facts(
        {
            texts.LABEL_NAME: session.name,
            texts.LABEL_UID: session.uid,
            texts.LABEL_DEVICE: session.device,
            texts.LABEL_BROWSER: texts.browser_on(session.browser, session.os),
            texts.LABEL_IP: session.ip,
            **_if_known(texts.LABEL_PLACE, session.place.words if session.place else None),
            **_if_known(texts.LABEL_TIME_ZONE, session_facts.zone_words(theirs, with_time=True)),
            texts.LABEL_LOGIN: _with_age(session.login_at, theirs),
            texts.LABEL_LAST_ACTIVE: _with_age(session.last_seen, theirs),
            **_if_known(texts.LABEL_FLAGS, ", ".join(flags(session))),
        }
    )


def _with_age(at: datetime, theirs: tzinfo | None) -> str:
    shown = texts.login_at(time_of_day(at), since(at, datetime.now(UTC)))
    return f"{shown}{session_facts.time_there(at, theirs)}"


def _if_known(label: str, value: str | None) -> dict[str, str | None]:
    return {label: value} if value else {}


def _facts(facts: dict[str, str | None]) -> None:
    with st.container(border=True, gap="xxsmall", key="targets"):
        for label, value in facts.items():
            with st.container(horizontal=True, wrap=False, gap="small"):
                st.caption(label, width=84)
                st.text(literal(value or texts.NO_VALUE), width="stretch")
