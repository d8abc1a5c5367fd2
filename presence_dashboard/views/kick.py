"""The one dialog that acts on people: who exactly, why, and whether they may log in again.

Opened from state, so that no rerun can lose it. It acts on the refs that it was opened with, whatever a table shows by
now.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import streamlit as st

from presence_core import InvalidArgument, PresenceError, Session
from presence_dashboard import access, actions, texts
from presence_dashboard.actions import Outcome, Why
from presence_dashboard.format import clock, code, cut, exact, literal, name, since
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab
from presence_dashboard.views import notices
from presence_dashboard.views.notices import Notice
from presence_dashboard.views.who import who

NAMED: Final = 10
"""So many are named in the dialog, then "and N more"."""

BLOCKS: Final[dict[str, int | None]] = {
    texts.BLOCK_NOT: None,
    texts.BLOCK_HOUR: 3_600,
    texts.BLOCK_DAY: 86_400,
    texts.BLOCK_WEEK: 604_800,
    texts.BLOCK_MONTH: 2_592_000,
    texts.BLOCK_UNTIL_UNBLOCKED: 0,
}
"""Label → seconds; 0 is until somebody unblocks them."""

_ASK: Final = "kick-ask"
_NUMBER: Final = "kick-number"
_PENDING: Final = "kick-pending"


@dataclass(frozen=True, slots=True)
class Ask:
    """What the dialog asks about."""

    number: int  #: new for every dialog: no text of the last one is left in its fields
    act: Literal["kick", "block", "unblock"]
    sessions: tuple[Session, ...] = ()  #: who is hit
    uid: str | None = None  #: this person: of a kick, all of their sessions, as read at ``at``
    name: str | None = None
    at: datetime | None = None
    selected: tuple[str, ...] = ()  #: refs of theirs that were ticked, and may be kept
    keeps: bool = False  #: whether keeping those is what was asked for

    @property
    def only_uid(self) -> str | None:
        """The person, where it is about one: of several, nobody is blocked by the way."""
        uids = {session.uid for session in self.sessions}
        return self.uid if self.uid is not None else uids.pop() if len(uids) == 1 else None


def ask_sessions(sessions: tuple[Session, ...]) -> None:
    """Open the dialog about these very sessions."""
    if sessions and not notices.refused("kick", "kick", sessions[0].uid):
        st.session_state[_ASK] = Ask(_next_number(), "kick", sessions)


def ask_person(uid: str, selected: tuple[str, ...] = (), *, keep: bool = False) -> None:
    """Open the dialog about all sessions that a person has right now. keep: but the selected ones."""
    if notices.refused("kick", "kick", uid):
        return
    try:
        found = open_store().presence.sessions(uid)
    except PresenceError as error:
        notices.tell(Notice("bad", texts.could_not(code(str(error)))))
        return
    if not found:
        notices.tell(Notice("note", texts.NONE_LEFT))
        return
    live = {session.ref for session in found}
    kept = tuple(ref for ref in selected if ref in live)
    st.session_state[_ASK] = Ask(
        _next_number(), "kick", tuple(found), uid, found[0].name, datetime.now(UTC), kept, keep and bool(kept)
    )


def ask_block(uid: str, name: str | None) -> None:
    """Open the dialog about whether a person may log in."""
    if not notices.refused("kick", "block", uid):
        st.session_state[_ASK] = Ask(_next_number(), "block", uid=uid, name=name)


def ask_unblock(uid: str, name: str | None) -> None:
    """Open the dialog that lets a person log in again."""
    if not notices.refused("kick", "unblock", uid):
        st.session_state[_ASK] = Ask(_next_number(), "unblock", uid=uid, name=name)


def _next_number() -> int:
    number: int = st.session_state.get(_NUMBER, 0) + 1
    st.session_state[_NUMBER] = number
    return number


def _close() -> None:
    st.session_state.pop(_ASK, None)


def is_open() -> bool:
    """Whether somebody is being asked: there may be one dialog at a time."""
    return _ASK in st.session_state


def dialog() -> None:
    """Show the dialog, if one is open."""
    ask: Ask | None = st.session_state.get(_ASK)
    if ask is not None and access.current().may("kick"):
        st.dialog(_title(ask), width="medium", on_dismiss=_close)(_body)(ask)
    elif ask is not None:  # who has lost the role meanwhile sees no more of whom it is about
        _close()


def _title(ask: Ask) -> str:
    count = len(ask.sessions)
    if ask.act == "block":
        return texts.BLOCK_PERSON
    if ask.act == "unblock":
        return texts.UNBLOCK_PERSON
    if ask.uid is not None:
        return texts.kick_person(count)
    return texts.KICK_ONE if count == 1 else texts.kick_many(count)


def _body(ask: Ask) -> None:
    number = ask.number
    _who(ask)
    keep: tuple[str, ...] = ()
    if ask.at is not None:
        st.caption(texts.read_just_now(clock(ask.at)))
    if ask.selected and len(ask.sessions) > 1:
        keep = ask.selected if st.checkbox(_keep_label(ask), value=ask.keeps, key=f"keep-{number}") else ()
    if ask.act != "unblock":
        st.pills(
            texts.PHRASES_LABEL, list(texts.PHRASES), key=f"phrase-{number}", on_change=_use_phrase, args=(number,)
        )
    with st.form(f"kick-{number}", border=False):
        why = _fields(ask)
        problem = st.container()
        with st.container(horizontal=True, gap="small"):
            confirmed = st.form_submit_button(
                _confirm(ask, keep), type="primary", disabled=this_tab().away, on_click=_confirmed, args=(ask,)
            )
            cancelled = st.form_submit_button(texts.CANCEL)
    if cancelled:
        _close()
        st.rerun()
    if confirmed:
        with problem:
            _act(ask, keep, why)


def _confirmed(ask: Ask) -> None:
    """Runs before the page is drawn, which may be another by now."""
    if notices.refused("kick", ask.act, ask.only_uid):
        _close()


def _fields(ask: Ask) -> Why:
    number = ask.number
    reason = st.text_area(texts.REASON, key=f"reason-{number}", max_chars=500, height=72, help=texts.REASON_HELP)
    if ask.act == "unblock":
        return Why(reason.strip())
    message = st.text_area(texts.MESSAGE, key=f"message-{number}", max_chars=500, height=72, help=texts.MESSAGE_HELP)
    block: str | None = None
    with st.container(horizontal=True, gap="small"):
        ticket = st.text_input(texts.TICKET, key=f"ticket-{number}", max_chars=64)
        if ask.only_uid is not None:
            labels = list(BLOCKS) if ask.act == "kick" else list(BLOCKS)[1:]
            block = st.selectbox(texts.BLOCK_FOR, labels, key=f"block-{number}", help=texts.BLOCK_HELP)
    return Why(reason.strip(), message.strip() or None, ticket.strip() or None, BLOCKS[block] if block else None)


def _confirm(ask: Ask, keep: tuple[str, ...]) -> str:
    if ask.act == "kick":
        return texts.confirm(len(ask.sessions) - len(keep))
    return texts.CONFIRM_BLOCK if ask.act == "block" else texts.CONFIRM_UNBLOCK


def _keep_label(ask: Ask) -> str:
    one, *others = (session for session in ask.sessions if session.ref in ask.selected)
    if others:
        return texts.keep_selected(len(ask.selected))
    return texts.keep_one(name(cut(one.device or texts.NO_VALUE, 24)), clock(one.login_at))


def _use_phrase(number: int) -> None:
    chosen = st.session_state[f"phrase-{number}"]
    if chosen is not None:
        st.session_state[f"reason-{number}"], st.session_state[f"message-{number}"] = texts.PHRASES[chosen]


# -- Acting ------------------------------------------------------------------------------------------------------------


def _act(ask: Ask, keep: tuple[str, ...], why: Why) -> None:
    if not why.reason:
        st.error(texts.REASON_MISSING)
        return
    if ask.act == "kick" and {session.ref for session in ask.sessions} <= set(keep):
        st.error(texts.NOTHING_LEFT)
        return
    try:
        told = list(_kick(ask, keep, why)) if ask.act == "kick" else [_hold(ask, why)]
    except (InvalidArgument, access.Denied, access.SignedOut) as error:
        st.error(texts.could_not(code(str(error))))
        return
    notices.tell(*told)
    this_tab().acted += 1
    _close()
    st.rerun()


def _kick(ask: Ask, keep: tuple[str, ...], why: Why) -> list[Notice]:
    refs = [session.ref for session in ask.sessions]
    try:
        presence = open_store().presence
        if ask.uid is None:
            outcome = actions.kick_sessions(presence, refs, why)
        else:
            outcome = actions.kick_person(presence, ask.uid, refs, why, keep)
    except InvalidArgument:
        raise
    except PresenceError as error:
        outcome = Outcome(untouched=tuple(refs), failure=str(error))
    st.session_state[_PENDING] = (*st.session_state.get(_PENDING, ()), *outcome.unknown)
    return list(notices.of(outcome))


def _hold(ask: Ask, why: Why) -> Notice:
    """Block or unblock: both may be told again, so an unknown outcome is no more than that."""
    who = name(cut(ask.name or ask.uid or "", 40))
    try:
        presence = open_store().presence
        if ask.act == "block":
            if actions.block(presence, ask.uid or "", why).confirmed is False:
                return Notice("note", texts.blocked_but(who, texts.UNCONFIRMED))
            if actions.is_unasked(presence):
                return Notice("note", texts.blocked_but(who, texts.UNASKED))
            return Notice("done", texts.blocked(who))
        was = actions.unblock(presence, ask.uid or "", why.reason)
        return Notice("done", texts.unblocked(who)) if was else Notice("note", texts.was_not_blocked(who))
    except InvalidArgument:
        raise
    except PresenceError as error:
        return Notice("bad", texts.could_not(code(str(error))))


def look_again() -> None:
    """Find out what became of kicks that had no answer; until Redis says so, show that they are open."""
    pending: tuple[str, ...] = st.session_state.get(_PENDING, ())
    if not pending:
        return
    if not this_tab().away:
        outcome = actions.look_again(open_store().presence, pending)
        st.session_state[_PENDING] = pending = outcome.unknown
        if outcome.already or outcome.forgotten or outcome.alive:
            notices.tell(*notices.of(outcome))
    if pending:
        st.warning(texts.unresolved(len(pending)))


# -- Who ---------------------------------------------------------------------------------------------------------------


def _who(ask: Ask) -> None:
    sessions = ask.sessions
    if not sessions:
        _facts({texts.COLUMN_NAME: ask.name, texts.COLUMN_UID: ask.uid})
        return
    if len(sessions) == 1:
        _person(sessions[0])
        return
    who(sessions[:NAMED], texts.WHO, of=len(sessions))


def _person(session: Session) -> None:
    _facts(
        {
            texts.COLUMN_NAME: session.name,
            texts.COLUMN_UID: session.uid,
            texts.COLUMN_DEVICE: session.device,
            texts.COLUMN_BROWSER: texts.browser_on(session.browser, session.os),
            texts.COLUMN_IP: session.ip,
            texts.COLUMN_LOGIN: texts.login_at(exact(session.login_at), since(session.login_at, datetime.now(UTC))),
        }
    )


def _facts(facts: dict[str, str | None]) -> None:
    with st.container(border=True, gap="xxsmall", key="who"):
        for label, value in facts.items():
            with st.container(horizontal=True, wrap=False, gap="small"):
                st.caption(label, width=84)
                st.text(literal(value or texts.NO_VALUE), width="stretch")
