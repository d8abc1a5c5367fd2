"""The kick dialog: who exactly, and why. Opened from state, so that no rerun can lose it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import streamlit as st

from presence_core import InvalidArgument, PresenceError, Session
from presence_dashboard import actions, texts
from presence_dashboard.actions import Outcome, Why
from presence_dashboard.format import clock, code, cut, exact, literal, name, since
from presence_dashboard.listing import this_tab
from presence_dashboard.store import open_store
from presence_dashboard.views import notices
from presence_dashboard.views.notices import Notice

NAMED: Final = 10
"""So many are named in the dialog, then "and N more"."""

_ASK: Final = "kick-ask"
_NUMBER: Final = "kick-number"
_PENDING: Final = "kick-pending"


@dataclass(frozen=True, slots=True)
class Ask:
    """What the dialog asks about."""

    number: int  #: new for every dialog: no text of the last one is left in its fields
    sessions: tuple[Session, ...]  #: who is hit
    uid: str | None = None  #: all sessions of this user, as read at ``at``
    at: datetime | None = None
    selected: tuple[str, ...] = ()  #: refs of theirs that were ticked, and may be kept


def ask_sessions(sessions: tuple[Session, ...]) -> None:
    """Open the dialog about these very sessions."""
    if sessions:
        st.session_state[_ASK] = Ask(_next_number(), sessions)


def ask_person(uid: str, selected: tuple[str, ...]) -> None:
    """Open the dialog about all sessions that a user has right now."""
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
    st.session_state[_ASK] = Ask(_next_number(), tuple(found), uid, datetime.now(UTC), kept)


def _next_number() -> int:
    number: int = st.session_state.get(_NUMBER, 0) + 1
    st.session_state[_NUMBER] = number
    return number


def _close() -> None:
    st.session_state.pop(_ASK, None)


def dialog() -> None:
    """Show the dialog, if one is open."""
    ask: Ask | None = st.session_state.get(_ASK)
    if ask is None:
        return
    count = len(ask.sessions)
    if ask.uid is not None:
        title = texts.kick_person(count)
    else:
        title = texts.KICK_ONE if count == 1 else texts.kick_many(count)
    st.dialog(title, width="medium", on_dismiss=_close)(_body)(ask)


def _body(ask: Ask) -> None:
    _who(ask.sessions)
    keep: tuple[str, ...] = ()
    if ask.at is not None:
        st.caption(texts.read_just_now(clock(ask.at)))
    if ask.selected and len(ask.sessions) > 1:
        keep = ask.selected if st.checkbox(_keep_label(ask), key=f"keep-{ask.number}") else ()
    st.pills(
        texts.PHRASES_LABEL, list(texts.PHRASES), key=f"phrase-{ask.number}", on_change=_use_phrase, args=(ask.number,)
    )
    with st.form(f"kick-{ask.number}", border=False):
        reason = st.text_area(
            texts.REASON, key=f"reason-{ask.number}", max_chars=500, height=72, help=texts.REASON_HELP
        )
        message = st.text_area(
            texts.MESSAGE, key=f"message-{ask.number}", max_chars=500, height=72, help=texts.MESSAGE_HELP
        )
        ticket = st.text_input(texts.TICKET, key=f"ticket-{ask.number}", max_chars=64)
        problem = st.container()
        with st.container(horizontal=True, gap="small"):
            confirmed = st.form_submit_button(texts.confirm(len(ask.sessions) - len(keep)), type="primary")
            cancelled = st.form_submit_button(texts.CANCEL)
    if cancelled:
        _close()
        st.rerun()
    if confirmed:
        with problem:
            _act(ask, keep, Why(reason.strip(), message.strip() or None, ticket.strip() or None))


def _keep_label(ask: Ask) -> str:
    one, *others = (session for session in ask.sessions if session.ref in ask.selected)
    if others:
        return texts.keep_selected(len(ask.selected))
    return texts.keep_one(name(cut(one.device or texts.NO_VALUE, 24)), clock(one.login_at))


def _use_phrase(number: int) -> None:
    chosen = st.session_state[f"phrase-{number}"]
    if chosen is not None:
        st.session_state[f"reason-{number}"], st.session_state[f"message-{number}"] = texts.PHRASES[chosen]


def _act(ask: Ask, keep: tuple[str, ...], why: Why) -> None:
    if not why.reason:
        st.error(texts.REASON_MISSING)
        return
    refs = [session.ref for session in ask.sessions]
    if set(refs) <= set(keep):
        st.error(texts.NOTHING_LEFT)
        return
    try:
        presence = open_store().presence
        if ask.uid is None:
            outcome = actions.kick_sessions(presence, refs, why)
        else:
            outcome = actions.kick_person(presence, ask.uid, refs, why, keep)
    except InvalidArgument as error:
        st.error(texts.could_not(code(str(error))))
        return
    except PresenceError as error:
        outcome = Outcome(untouched=tuple(refs), failure=str(error))
    _report(outcome)
    _close()
    this_tab().refresh()
    st.rerun()


def _report(outcome: Outcome) -> None:
    notices.tell(*notices.of(outcome))
    st.session_state[_PENDING] = (*st.session_state.get(_PENDING, ()), *outcome.unknown)


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


def _who(sessions: tuple[Session, ...]) -> None:
    if len(sessions) == 1:
        _person(sessions[0])
        return
    shown = sessions[:NAMED]
    st.dataframe(
        {
            texts.COLUMN_NAME: [literal(one.name or one.uid) for one in shown],
            texts.COLUMN_UID: [literal(one.uid) for one in shown],
            texts.COLUMN_DEVICE: [literal(one.device or "") for one in shown],
            texts.COLUMN_IP: [one.ip or "" for one in shown],
            texts.COLUMN_LOGIN_EXACT: [one.login_at for one in shown],
        },
        column_config={texts.COLUMN_LOGIN_EXACT: st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss")},
        hide_index=True,
        height="content",
        alt=texts.WHO,
    )
    if len(sessions) > NAMED:
        st.caption(texts.and_more(len(sessions) - NAMED))


def _person(session: Session) -> None:
    now = datetime.now(UTC)
    facts = {
        texts.COLUMN_NAME: session.name,
        texts.COLUMN_UID: session.uid,
        texts.COLUMN_DEVICE: session.device,
        texts.COLUMN_BROWSER: texts.browser_on(session.browser, session.os),
        texts.COLUMN_IP: session.ip,
        texts.COLUMN_LOGIN: texts.login_at(exact(session.login_at), since(session.login_at, now)),
    }
    with st.container(border=True, gap="xxsmall", key="who"):
        for label, value in facts.items():
            with st.container(horizontal=True, wrap=False, gap="small"):
                st.caption(label, width=84)
                st.text(literal(value or texts.NO_VALUE), width="stretch")
