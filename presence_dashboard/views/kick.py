"""The one dialog that acts on people: who exactly, why, and whether they may log in again.

Opened from state, so that no rerun can lose it. It acts on the refs that it was opened with, whatever a table shows by
now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import streamlit as st

from presence_core import Block, InvalidArgument, PresenceError, Session
from presence_dashboard import access, actions, texts
from presence_dashboard.actions import Outcome, Why
from presence_dashboard.format import clock, cut, exact, literal, name, since
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab
from presence_dashboard.views import notices, phrases
from presence_dashboard.views.notices import Notice
from presence_dashboard.views.who import who
from presence_dashboard.wording import plain

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
    blocks: tuple[Block, ...] = ()  #: of those who are hit: who is blocked already

    @property
    def only_uid(self) -> str | None:
        """The person, where it is about one: of several, nobody is blocked by the way."""
        uids = {session.uid for session in self.sessions}
        return self.uid if self.uid is not None else uids.pop() if len(uids) == 1 else None

    @property
    def held(self) -> Block | None:
        """The block that there is, where it is about one person."""
        return self.blocks[0] if self.blocks and self.only_uid is not None else None


def ask_sessions(sessions: tuple[Session, ...]) -> None:
    """Open the dialog about these very sessions."""
    if sessions and not notices.refused("kick", "kick", sessions[0].uid):
        blocks = _blocks_of(*(one.uid for one in sessions))
        st.session_state[_ASK] = Ask(_next_number(), "kick", sessions, blocks=blocks)


def ask_person(uid: str, selected: tuple[str, ...] = (), *, keep: bool = False) -> None:
    """Open the dialog about all sessions that a person has right now. keep: but the selected ones."""
    if notices.refused("kick", "kick", uid):
        return
    try:
        found = open_store().presence.sessions(uid)
    except PresenceError as error:
        notices.tell(Notice("bad", texts.could_not(plain(error))))
        return
    if not found:
        notices.tell(Notice("note", texts.NONE_LEFT))
        return
    live = {session.ref for session in found}
    kept = tuple(ref for ref in selected if ref in live)
    st.session_state[_ASK] = Ask(
        _next_number(), "kick", tuple(found), uid, found[0].name, datetime.now(UTC), kept, keep and bool(kept),
        _blocks_of(uid),
    )  # fmt: skip


def ask_block(uid: str, name: str | None) -> None:
    """Open the dialog about whether a person may log in; filled in with the block that there is."""
    if notices.refused("kick", "block", uid):
        return
    ask = Ask(_next_number(), "block", uid=uid, name=name, blocks=_blocks_of(uid))
    st.session_state[_ASK] = ask
    if ask.held is not None:
        phrases.suggest(f"reason-{ask.number}", ask.held.reason)
        phrases.suggest(f"message-{ask.number}", ask.held.message or "")
        st.session_state[f"ticket-{ask.number}"] = ask.held.tickets[-1] if ask.held.tickets else ""


def ask_unblock(uid: str, name: str | None) -> None:
    """Open the dialog that lets a person log in again."""
    if not notices.refused("kick", "unblock", uid):
        st.session_state[_ASK] = Ask(_next_number(), "unblock", uid=uid, name=name, blocks=_blocks_of(uid))


def _blocks_of(*uids: str) -> tuple[Block, ...]:
    return tuple(actions.blocks_of(open_store().presence, uids).values())


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
        return texts.BLOCK_PERSON if ask.held is None else texts.CHANGE_BLOCK
    if ask.act == "unblock":
        return texts.UNBLOCK_PERSON
    if ask.uid is not None:
        return texts.kick_person(count)
    return texts.KICK_ONE if count == 1 else texts.kick_many(count)


def _body(ask: Ask) -> None:
    number = ask.number
    _who(ask)
    _held_already(ask)
    keep: tuple[str, ...] = ()
    if ask.at is not None:
        st.caption(texts.read_just_now(clock(ask.at)))
    if ask.selected and len(ask.sessions) > 1:
        keep = ask.selected if st.checkbox(_keep_label(ask), value=ask.keeps, key=f"keep-{number}") else ()
    end = _end(ask) if ask.act != "unblock" and ask.only_uid is not None else End()
    if ask.act != "unblock":
        phrases.choice(f"phrase-{number}", _suggest, ask)
    why = _fields(ask, end)
    with st.form(f"kick-{number}", border=False, enter_to_submit=False):
        if ask.act != "unblock":
            help = texts.TICKET_CHANGE_HELP if ask.held is not None else None
            ticket = st.text_input(texts.TICKET, key=f"ticket-{number}", max_chars=64, help=help)
            why = replace(why, ticket=ticket.strip() or None)
        problem = st.container()
        with st.container(horizontal=True, gap="small"):
            confirmed = st.form_submit_button(
                _confirm(ask, keep, end),
                type="primary",
                shortcut="Ctrl+Enter",  # also while the reason is typed
                disabled=this_tab().away,
                on_click=_confirmed,
                args=(ask,),
            )
            cancelled = st.form_submit_button(texts.CANCEL)
    if cancelled:
        _close()
        st.rerun()
    kept = f"problem-{number}"  # leaving a field for the button is a run of its own, which may come after the button's
    if confirmed:
        missing = end.is_shorter and ask.act == "block" and not why.shorten
        st.session_state[kept] = texts.SHORTEN_MISSING if missing else _act(ask, keep, why)
    if kept in st.session_state:
        problem.error(st.session_state[kept])


def _confirmed(ask: Ask) -> None:
    """Runs before the page is drawn, which may be another by now."""
    if notices.refused("kick", ask.act, ask.only_uid):
        _close()


@dataclass(frozen=True, slots=True)
class End:
    """When a block is to end."""

    seconds: int | None = None  #: as in Why.block; None: nobody is blocked
    as_it_is: bool = False  #: of a block that is changed: its end is not
    is_shorter: bool = False  #: sooner than the block that there is
    shorten: bool = False  #: and that was asked for


def _end(ask: Ask) -> End:
    """For how long, outside the form: what else is asked and suggested goes by it."""
    held, number = ask.held, ask.number
    labels = {label: label for label in BLOCKS}
    if ask.act == "block":
        del labels[texts.BLOCK_NOT]
        if held is not None:
            labels = {texts.BLOCK_AS_IT_IS: texts.leave_end(notices.until(held))} | labels
    elif held is not None:
        labels[texts.BLOCK_NOT] = texts.BLOCK_AS_IT_IS
    chosen = st.selectbox(
        texts.BLOCK_FOR,
        list(labels),
        key=f"block-{number}",
        help=texts.BLOCK_HELP,
        format_func=labels.__getitem__,
        on_change=_suggest,
        args=(ask,),
    )
    if chosen == texts.BLOCK_AS_IT_IS:
        return End(as_it_is=True)
    end = End(BLOCKS[chosen], is_shorter=_is_shorter(held, BLOCKS[chosen]))
    if held is None or not end.is_shorter:
        return end
    if ask.act == "kick":
        st.caption(texts.longer_stays(notices.until(held)))
        return end
    return replace(end, shorten=st.checkbox(texts.shorten(notices.until(held)), key=f"shorten-{number}"))


def _is_shorter(held: Block | None, seconds: int | None) -> bool:
    if held is None or not seconds:
        return False
    return held.until is None or datetime.now(UTC) + timedelta(seconds=seconds) < held.until


def _fields(ask: Ask, end: End) -> Why:
    """Outside the form: what is typed is known when a phrase is chosen."""
    number = ask.number
    reason = st.text_area(texts.REASON, key=f"reason-{number}", max_chars=500, height=72, help=texts.REASON_HELP)
    if ask.act == "unblock":
        return Why(reason.strip())
    message = st.text_area(texts.MESSAGE, key=f"message-{number}", max_chars=500, height=72, help=texts.MESSAGE_HELP)
    until = ask.held.until if end.as_it_is and ask.held is not None else None
    return Why(reason.strip(), message.strip() or None, None, end.seconds, until, end.shorten)


def _confirm(ask: Ask, keep: tuple[str, ...], end: End) -> str:
    if ask.act == "kick":
        return texts.confirm(len(ask.sessions) - len(keep))
    if ask.act == "unblock":
        return texts.CONFIRM_UNBLOCK
    if ask.held is None:
        return texts.CONFIRM_BLOCK
    return texts.CONFIRM_SHORTEN if end.is_shorter else texts.CONFIRM_CHANGE


def _keep_label(ask: Ask) -> str:
    one, *others = (session for session in ask.sessions if session.ref in ask.selected)
    if others:
        return texts.keep_selected(len(ask.selected))
    return texts.keep_one(name(cut(one.device or texts.NO_VALUE, 24)), clock(one.login_at))


def _suggest(ask: Ask) -> None:
    """Fill in the words of the chosen phrase, as they fit the block that is chosen."""
    number = ask.number
    act: phrases.Act = "kick"
    if ask.act == "block":
        act = "block"
    elif ask.held is not None or BLOCKS.get(st.session_state.get(f"block-{number}", texts.BLOCK_NOT)) is not None:
        act = "kick and block"
    phrases.fill(f"phrase-{number}", f"reason-{number}", f"message-{number}", act)


# -- Acting ------------------------------------------------------------------------------------------------------------


def _act(ask: Ask, keep: tuple[str, ...], why: Why) -> str:
    """Answers why nothing was done; otherwise the dialog closes."""
    if not why.reason:
        return texts.REASON_MISSING
    if ask.act == "kick" and {session.ref for session in ask.sessions} <= set(keep):
        return texts.NOTHING_LEFT
    try:
        told = list(_kick(ask, keep, why)) if ask.act == "kick" else [_hold(ask, why)]
    except (InvalidArgument, access.Denied, access.SignedOut) as error:
        ended = isinstance(error, InvalidArgument) and error.field == "until"
        return texts.BLOCK_ENDED_MEANWHILE if ended else texts.could_not(plain(error))
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
        outcome = Outcome(untouched=tuple(refs), failure=plain(error))
    st.session_state[_PENDING] = (*st.session_state.get(_PENDING, ()), *outcome.unknown)
    return list(notices.of(outcome))


def _hold(ask: Ask, why: Why) -> Notice:
    """Block or unblock: both may be told again, so an unknown outcome is no more than that."""
    who = name(cut(ask.name or ask.uid or "", 40))
    try:
        presence = open_store().presence
        if ask.act == "block":
            block = actions.block(presence, ask.uid or "", why)
            said = notices.blocked(ask.name or block.uid, block)
            if actions.is_unasked(presence):
                return Notice("note", texts.unasked(said))
            return Notice("done" if block.confirmed is not False else "note", said)
        was = actions.unblock(presence, ask.uid or "", why.reason)
        return Notice("done", texts.unblocked(who)) if was else Notice("note", texts.was_not_blocked(who))
    except InvalidArgument:
        raise
    except PresenceError as error:
        return Notice("bad", texts.could_not(plain(error)))


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


def _held_already(ask: Ask) -> None:
    """Who of them is blocked already, until when, by whom and with which tickets."""
    several = ask.only_uid is None
    for block in ask.blocks[:NAMED]:
        st.markdown(texts.is_blocked(name(cut(block.uid, 40)) if several else None, notices.held(block)))
    if len(ask.blocks) > NAMED:
        st.caption(texts.and_more(len(ask.blocks) - NAMED))
    if ask.act == "block" and ask.held is not None:
        st.caption(texts.CHANGES_BLOCK)


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
