"""The dialog that kicks, requires a new sign-in, blocks and unblocks: it shows the sessions, and asks for a reason.

It is opened from the session state, so that no rerun loses it, and acts on the refs with which it was opened, whatever
the page shows by then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal

import streamlit as st

from presence_core import Block, Ended, InvalidArgument, OutcomeUnknown, PresenceError, Session
from presence_dashboard import access, drafts, texts
from presence_dashboard.actions import kick_and_block
from presence_dashboard.actions.kick_and_block import ActionDetails, KickOutcome
from presence_dashboard.components import account, notifications, saved_phrases
from presence_dashboard.components.block_choice import BlockEnd, choose_block_end, is_block_chosen
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.session_facts import session_preview, time_of_day
from presence_dashboard.data import shared_reads
from presence_dashboard.data.browser_tab import local_time, this_tab
from presence_dashboard.data.store import open_store
from presence_dashboard.drafts import Draft
from presence_dashboard.error_sentences import plain
from presence_dashboard.format import cut, literal, name, since
from presence_dashboard.roles import Denied, SignedOut

NAMED: Final = 10
"""Sessions that the dialog lists before "and N more"."""

_REQUEST: Final = "kick-request"
_NUMBER: Final = "kick-number"
_UNANSWERED: Final = "kick-unanswered"
_FIELDS: Final = ("reason", "message", "ticket", "block")  # of which a draft is made


@dataclass(frozen=True, slots=True)
class DialogRequest:
    """The action that the dialog asks about."""

    number: int  #: new for every dialog, so that its fields start empty
    act: Literal["kick", "require_sign_in", "block", "unblock"]
    sessions: tuple[Session, ...] = ()  #: to kick, or of which a new sign-in is required
    uid: str | None = None  #: set for an action on a person: on all their sessions, or on their block
    name: str | None = None
    as_of: datetime | None = None  #: of ``sessions``, if they are all of the person
    selected: tuple[str, ...] = ()  #: ticked refs, which can be kept
    keep_selected: bool = False  #: initial value of the box that keeps them
    blocks: tuple[Block, ...] = ()  #: existing blocks of these people

    @property
    def only_uid(self) -> str | None:
        """The person, if there is only one. Several people cannot be blocked at once."""
        uids = {session.uid for session in self.sessions}
        return self.uid if self.uid is not None else uids.pop() if len(uids) == 1 else None

    @property
    def existing_block(self) -> Block | None:
        """The existing block, if there is only one person."""
        return self.blocks[0] if self.blocks and self.only_uid is not None else None


def open_for_sessions(sessions: tuple[Session, ...]) -> None:
    """Open the dialog for these sessions."""
    if sessions and not notifications.refused("kick", "kick", sessions[0].uid):
        blocks = _blocks_of(*(session.uid for session in sessions))
        st.session_state[_REQUEST] = DialogRequest(_next_number(), "kick", sessions, blocks=blocks)


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
        _next_number(), "kick", tuple(found), uid, found[0].name, datetime.now(UTC), kept, keep and bool(kept),
        _blocks_of(uid),
    )  # fmt: skip


def open_for_sign_in(uid: str, session: Session | None = None) -> None:
    """Open the dialog that requires a new sign-in, of a session or of all current sessions of a person."""
    if notifications.refused("kick", "require_sign_in", uid):
        return
    try:
        found = open_store().presence.sessions(uid) if session is None else [session]
    except PresenceError as error:
        notifications.notify(notifications.failed(plain(error)))
        return
    sessions = tuple(filter(kick_and_block.may_require_sign_in, found))
    if not sessions:
        notifications.notify(Notification("note", texts.SIGN_IN_NONE_LEFT))
        return
    request = DialogRequest(_next_number(), "require_sign_in", sessions, blocks=_blocks_of(uid))
    if session is None:
        request = replace(request, uid=uid, name=sessions[0].name, as_of=datetime.now(UTC))
    st.session_state[_REQUEST] = request


def open_for_block(uid: str, name: str | None) -> None:
    """Open the dialog that blocks a person, filled with the existing block."""
    if notifications.refused("kick", "block", uid):
        return
    request = DialogRequest(_next_number(), "block", uid=uid, name=name, blocks=_blocks_of(uid))
    st.session_state[_REQUEST] = request
    if block := request.existing_block:
        st.session_state[f"reason-{request.number}"] = block.reason
        st.session_state[f"message-{request.number}"] = block.message or ""
        st.session_state[f"ticket-{request.number}"] = block.tickets[-1] if block.tickets else ""


def open_for_unblock(uid: str, name: str | None) -> None:
    """Open the dialog that unblocks a person."""
    if not notifications.refused("kick", "unblock", uid):
        st.session_state[_REQUEST] = DialogRequest(
            _next_number(), "unblock", uid=uid, name=name, blocks=_blocks_of(uid)
        )


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
    """Draw the offer of a draft."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", border=True, key="draft"):
        st.markdown(texts.draft_kept(draft.title), width="stretch")
        st.button(texts.DRAFT_CONTINUE, key="draft-continue", on_click=continue_draft, args=(draft,))
        st.button(texts.DRAFT_DISCARD, key="draft-discard", on_click=drafts.drop)


def _continue(draft: Draft) -> None:
    before: DialogRequest = draft.request
    if notifications.refused("kick", before.act, before.only_uid):
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
    """Show the dialog, if one is open."""
    request: DialogRequest | None = st.session_state.get(_REQUEST)
    if request is not None and access.current().may("kick"):
        st.dialog(_title(request), width="medium", on_dismiss=_close)(_body)(request)
    elif request is not None:  # the role was lost
        _close()


def _title(request: DialogRequest) -> str:
    count = len(request.sessions)
    if request.act == "block":
        return texts.BLOCK_PERSON if request.existing_block is None else texts.CHANGE_BLOCK
    if request.act == "unblock":
        return texts.UNBLOCK_PERSON
    if request.act == "require_sign_in":
        return texts.sign_in_title(count, is_person=request.uid is not None)
    if request.uid is not None:
        return texts.kick_person(count)
    return texts.KICK_ONE if count == 1 else texts.kick_many(count)


def _body(request: DialogRequest) -> None:
    number = request.number
    account.idle_warning("dialog")
    again = st.container()
    _targets(request)
    meanwhile = st.container(key="ended-meanwhile")  # for one fragment: in a shared container it may vanish
    _existing_blocks(request)
    keep: tuple[str, ...] = ()
    if request.as_of is not None:
        st.caption(texts.read_just_now(local_time(request.as_of), is_kick=request.act == "kick"))
    if request.act == "require_sign_in":
        st.markdown(texts.SIGN_IN_EXPLAINED)
    if request.selected and len(request.sessions) > 1:
        keep = (
            request.selected
            if st.checkbox(_keep_label(request), value=request.keep_selected, key=f"keep-{number}")
            else ()
        )
    end = BlockEnd()
    if (request.act == "kick" or request.act == "block") and request.only_uid is not None:
        end = choose_block_end(number, request.act, request.existing_block, partial(_fit_message, request))
    with again:
        must_sign_in_again = _needs_fresh_sign_in(request, end) and account.must_sign_in_again("kick")
    if request.act != "unblock":
        saved_phrases.phrase_choice(f"phrase-{number}", _add_phrase, request)
    details = _fields(request, end)
    if request.act != "unblock":
        help_text = texts.TICKET_CHANGE_HELP if request.existing_block is not None else None
        ticket = st.text_input(texts.TICKET, key=f"ticket-{number}", max_chars=64, help=help_text)
        details = replace(details, ticket=ticket.strip() or None)
    _keep_draft(replace(request, keep_selected=bool(keep)))
    with st.form(f"kick-{number}", border=False, enter_to_submit=False):
        problem = st.container()
        if this_tab().away:  # the notice of the page may lie below the dialog
            st.info(texts.AWAY_HINT)
        with st.container(horizontal=True, gap="small"):
            is_pressed = st.form_submit_button(
                _button_label(request, keep, end),
                key=f"danger-{number}" if request.act in ("kick", "block") else f"confirm-{number}",
                type="primary",
                shortcut="Ctrl+Enter",  # also in a text field
                disabled=this_tab().away or must_sign_in_again,
                on_click=_check_right,
                args=(request,),
            )
            cancelled = st.form_submit_button(texts.CANCEL)
    if cancelled:
        _close()
        st.rerun()
    problem_key = f"problem-{number}"  # leaving a field for the button causes another run, after that of the button
    if is_pressed:
        lacks_shorten = end.is_shorter and request.act == "block" and not details.shorten
        st.session_state[problem_key] = texts.SHORTEN_MISSING if lacks_shorten else _act(request, keep, details)
    if problem_key in st.session_state:
        problem.warning(st.session_state[problem_key])
    if request.sessions:
        with meanwhile:  # after the action, so that none waits for it
            st.fragment(_ended_meanwhile, run_every=this_tab().tick)(request)


def _needs_fresh_sign_in(request: DialogRequest, end: BlockEnd) -> bool:
    """Whether the action blocks, unblocks, or kicks several people. A kick of one person must be quick."""
    if request.act == "kick" and request.only_uid is None:
        return True
    return request.act == "block" or request.act == "unblock" or end.seconds is not None


def _keep_draft(request: DialogRequest) -> None:
    if _REQUEST in st.session_state:
        fields = {field: st.session_state.get(f"{field}-{request.number}") or "" for field in _FIELDS}
        with suppress(SignedOut):
            drafts.keep("kick", f"**{_title(request)}** {_people(request)}", request, fields)


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
    if notifications.refused("kick", request.act, request.only_uid):
        _close()


def _fields(request: DialogRequest, end: BlockEnd) -> ActionDetails:
    """Reason and message, outside the form, so that a phrase does not replace typed text."""
    number = request.number
    reason = st.text_area(texts.REASON, key=f"reason-{number}", max_chars=500, height=72, help=texts.REASON_HELP)
    if request.act == "unblock":
        return ActionDetails(reason.strip())
    message = st.text_area(texts.MESSAGE, key=f"message-{number}", max_chars=500, height=72, help=texts.MESSAGE_HELP)
    until = request.existing_block.until if end.is_unchanged and request.existing_block is not None else None
    return ActionDetails(reason.strip(), message.strip() or None, None, end.seconds, until, end.shorten)


def _button_label(request: DialogRequest, keep: tuple[str, ...], end: BlockEnd) -> str:
    if request.act == "kick":
        return texts.confirm(len(request.sessions) - len(keep))
    if request.act == "unblock":
        return texts.UNBLOCK
    if request.act == "require_sign_in":
        return texts.require_sign_in(len(request.sessions))
    if request.existing_block is None:
        return texts.BLOCK
    return texts.CONFIRM_SHORTEN if end.is_shorter else texts.CHANGE_BLOCK_BUTTON


def _keep_label(request: DialogRequest) -> str:
    kept, *others = (session for session in request.sessions if session.ref in request.selected)
    if others:
        return texts.keep_selected(len(request.selected))
    return texts.keep_one(name(cut(kept.device or texts.NO_VALUE, 24)), time_of_day(kept.login_at))


def _add_phrase(request: DialogRequest) -> None:
    """Add the chosen phrase to the texts, in the version that fits the chosen block."""
    number = request.number
    saved_phrases.fill(f"phrase-{number}", f"reason-{number}", f"message-{number}", _phrase_use(request))


def _fit_message(request: DialogRequest) -> None:
    """Another block was chosen: phrases in the message say what now holds."""
    saved_phrases.fit(f"message-{request.number}", _phrase_use(request))


def _phrase_use(request: DialogRequest) -> saved_phrases.PhraseUse:
    if request.act == "block" or request.act == "require_sign_in":
        return request.act
    return "kick and block" if request.existing_block is not None or is_block_chosen(request.number) else "kick"


# -- Acting ------------------------------------------------------------------------------------------------------------


def _act(request: DialogRequest, keep: tuple[str, ...], details: ActionDetails) -> str:
    """Run the action and close the dialog; or return why it was not run."""
    if not details.reason:
        return texts.REASON_MISSING
    if request.act == "kick" and {session.ref for session in request.sessions} <= set(keep):
        return texts.NOTHING_LEFT
    try:
        if request.act == "kick":
            outcome = _kick(request, keep, details)
            if outcome.did_nothing:
                return texts.not_kicked(len(outcome.not_kicked), outcome.failure or "")
            results = list(notifications.outcome_notifications(outcome))
        elif request.act == "require_sign_in":
            results = _require_sign_in(request, details)
        else:
            results = [_block_or_unblock(request, details)]
    except OutcomeUnknown as error:
        results = [notifications.failed(plain(error))]
    except (PresenceError, Denied, SignedOut) as error:
        block_has_ended = isinstance(error, InvalidArgument) and error.field == "until"
        return texts.BLOCK_HAS_ENDED if block_has_ended else texts.action_failed(plain(error))
    notifications.notify(*results)
    this_tab().acted += 1
    _close()
    st.rerun()


def _kick(request: DialogRequest, keep: tuple[str, ...], details: ActionDetails) -> KickOutcome:
    refs = [session.ref for session in request.sessions]
    try:
        presence = open_store().presence
        if request.uid is None:
            outcome = kick_and_block.kick_refs(presence, refs, details)
        else:
            outcome = kick_and_block.kick_person(presence, request.uid, refs, details, keep)
    except InvalidArgument:
        raise
    except PresenceError as error:
        outcome = KickOutcome(not_kicked=tuple(refs), failure=plain(error))
    st.session_state[_UNANSWERED] = (*st.session_state.get(_UNANSWERED, ()), *outcome.unanswered)
    return outcome


def _require_sign_in(request: DialogRequest, details: ActionDetails) -> list[Notification]:
    """Require a new sign-in. It can be repeated, so an unknown outcome needs no check."""
    presence, first = open_store().presence, request.sessions[0]
    session_id = None if request.uid is not None else first.session_id
    result = kick_and_block.require_sign_in(presence, first.uid, session_id, details)
    if not result and request.uid is None:  # it has just ended
        return list(notifications.outcome_notifications(kick_and_block.check_again(presence, [first.ref])))
    return list(notifications.sign_in_notifications(result, may_be_undone=kick_and_block.may_be_undone(presence)))


def _block_or_unblock(request: DialogRequest, details: ActionDetails) -> Notification:
    """Block or unblock. Both can be repeated, so an unknown outcome needs no check."""
    person = name(cut(request.name or request.uid or "", 40))
    presence = open_store().presence
    if request.act == "block":
        block = kick_and_block.block(presence, request.uid or "", details)
        result = notifications.block_result(request.name or block.uid, block)
        if kick_and_block.may_be_undone(presence):
            return Notification("note", texts.no_replica_asked(result))
        return Notification("done" if block.confirmed is not False else "note", result)
    if kick_and_block.unblock(presence, request.uid or "", details.reason):
        return Notification("done", texts.unblocked(person))
    return Notification("note", texts.was_not_blocked(person))


def check_again() -> None:
    """Check the outcome of kicks that had no reply. Shows a warning until it is known."""
    unanswered: tuple[str, ...] = st.session_state.get(_UNANSWERED, ())
    if not unanswered:
        return
    if not this_tab().away:
        outcome = kick_and_block.check_again(open_store().presence, unanswered)
        st.session_state[_UNANSWERED] = unanswered = outcome.unanswered
        if outcome.already or outcome.ended_unknown or outcome.still_live:
            notifications.notify(*notifications.outcome_notifications(outcome))
    if unanswered:
        st.warning(texts.unresolved(len(unanswered)))


# -- Sessions and people -----------------------------------------------------------------------------------------------


def _existing_blocks(request: DialogRequest) -> None:
    """The existing blocks of these people."""
    has_several = request.only_uid is None
    for block in request.blocks[:NAMED]:
        st.markdown(
            texts.is_blocked(name(cut(block.uid, 40)) if has_several else None, notifications.block_summary(block))
        )
    if len(request.blocks) > NAMED:
        st.caption(texts.and_more(len(request.blocks) - NAMED))
    if request.act == "block" and request.existing_block is not None:
        st.caption(texts.CHANGES_BLOCK)


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
    if not sessions:
        _facts({texts.LABEL_NAME: request.name, texts.LABEL_UID: request.uid})
        return
    if len(sessions) == 1:
        _person(sessions[0])
        return
    label = texts.SIGN_IN_TARGETS if request.act == "require_sign_in" else texts.KICK_TARGETS
    session_preview(sessions[:NAMED], label, total=len(sessions))


def _person(session: Session) -> None:
    _facts(
        {
            texts.LABEL_NAME: session.name,
            texts.LABEL_UID: session.uid,
            texts.LABEL_DEVICE: session.device,
            texts.LABEL_BROWSER: texts.browser_on(session.browser, session.os),
            texts.LABEL_IP: session.ip,
            texts.LABEL_LOGIN: texts.login_at(
                time_of_day(session.login_at), since(session.login_at, datetime.now(UTC))
            ),
        }
    )


def _facts(facts: dict[str, str | None]) -> None:
    with st.container(border=True, gap="xxsmall", key="targets"):
        for label, value in facts.items():
            with st.container(horizontal=True, wrap=False, gap="small"):
                st.caption(label, width=84)
                st.text(literal(value or texts.NO_VALUE), width="stretch")
