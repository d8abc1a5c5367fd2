"""Toasts about what happened, and the outcome of kicks and blocks in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import streamlit as st

from presence_core import Block, Ended, PresenceError, Session, SignInResult
from presence_core.models.mirror import ends_soon
from presence_dashboard import access, texts, ticket_links
from presence_dashboard.actions.kick_and_block import KickOutcome, split_ref
from presence_dashboard.components.session_facts import ended_by, time_of_day
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.shared_reads import mirrors
from presence_dashboard.error_sentences import REFUSALS, plain
from presence_dashboard.format import author, cut, minute, name, short_name, since
from presence_dashboard.roles import Denied, Right, SignedOut

_KEY: Final = "notifications"
_ICONS: Final = {"done": ":material/check_circle:", "note": ":material/info:", "bad": ":material/warning:"}


@dataclass(frozen=True, slots=True)
class Notification:
    kind: Literal["done", "note", "bad"]
    text: str  #: safe Markdown


def notify(*notifications: Notification) -> None:
    """Show these at the start of the next run. A toast made just before a rerun would be lost."""
    st.session_state[_KEY] = (*st.session_state.get(_KEY, ()), *notifications)


def failed(reason: str) -> Notification:
    """An action was refused or not done. reason: a sentence, safe for Markdown."""
    return Notification("bad", texts.action_failed(reason))


def attempt(act: Callable[[], object]) -> bool:
    """Whether the action was done. If not, a toast says why."""
    try:
        act()
    except REFUSALS as error:
        notify(failed(plain(error)))
        return False
    return True


def show() -> None:
    for notification in st.session_state.pop(_KEY, ()):
        st.toast(
            notification.text,
            icon=_ICONS[notification.kind],
            duration="short" if notification.kind == "done" else "long",
        )


def refused(right: Right, action: str, uid: str | None = None) -> bool:
    """Whether the actor lacks the right. If so, they are notified and the attempt is audited.

    False if Redis does not answer: then the action itself fails and says why.
    """
    try:
        access.require(right, action=action, uid=uid)
    except (Denied, SignedOut) as error:
        notify(failed(plain(error)))
        return True
    except PresenceError:
        pass
    return False


def check(right: Right, action: str, uid: str | None = None) -> None:
    """The first callback of a button: audits a denied click even if the next page no longer has the button."""
    refused(right, action, uid)


def checked_button(
    label: str, key: str, right: Right, action: str, uid: str | None = None, *, disabled: bool = False, **look: Any
) -> bool:
    """A button for an action that needs a right: whether it was pressed. Off while Redis is unavailable."""
    off = disabled or this_tab().away
    return st.button(label, key=key, disabled=off, on_click=check, args=(right, action, uid), **look)


def session_label(record: Session | Ended) -> str:
    """Name and device, short and safe for Markdown."""
    person = name(cut(record.name or record.uid, 40))
    return f"{person} ({name(cut(record.device, 24))})" if record.device else person


def outcome_notifications(outcome: KickOutcome) -> Iterator[Notification]:
    if outcome.kicked:
        yield Notification("done", texts.kicked(len(outcome.kicked), _label(outcome.kicked)))
        yield from _at_the_site(outcome.kicked)
    if outcome.blocked is not None:
        yield Notification("done", block_result(outcome.blocked.uid, outcome.blocked))
    if outcome.unconfirmed:
        yield Notification("note", texts.UNCONFIRMED)
    if outcome.no_replica_asked:
        yield Notification("note", texts.NO_REPLICA_ASKED)
    if outcome.already:
        first = outcome.already[0]
        yield Notification("note", texts.already_ended(session_label(first), _how(first), len(outcome.already) - 1))
    if outcome.ended_unknown:
        yield Notification("note", texts.ended_unknown(len(outcome.ended_unknown)))
    for ref in outcome.still_live:
        yield Notification("bad", texts.still_live(name(cut(split_ref(ref)[0], 40))))
    if outcome.unanswered:
        yield Notification("bad", texts.outcome_unknown(len(outcome.unanswered)))
    if outcome.not_kicked:
        yield Notification("bad", texts.not_kicked(len(outcome.not_kicked), outcome.failure or ""))


def _at_the_site(kicked: Sequence[Session]) -> Iterator[Notification]:
    """What is left to do for mirrored sessions: their mirror deletes them in the site's own store."""
    mirrored = [session.session_id for session in kicked if session.is_mirrored]
    if mirrored:
        is_soon = ends_soon(mirrored, mirrors())
        yield Notification("note", texts.SITE_ENDS_SOON if is_soon else texts.SITE_ENDS_LATER)


def sign_in_notifications(result: SignInResult, *, may_be_undone: bool) -> Iterator[Notification]:
    if not result:
        yield Notification("note", texts.SIGN_IN_NONE_LEFT)
        return
    yield Notification("done", texts.sign_in_required(len(result.sessions), _label(result.sessions)))
    if result.confirmed is False:
        yield Notification("note", texts.UNCONFIRMED)
    if may_be_undone:
        yield Notification("note", texts.NO_REPLICA_ASKED)


def timeout_notifications(changed: Sequence[Session], *, may_be_undone: bool) -> Iterator[Notification]:
    """changed: the sessions with their new timeouts. Replicas are not asked."""
    if not changed:
        yield Notification("note", texts.NONE_LEFT)
        return
    yield Notification("done", texts.timeouts_changed(len(changed), _label(changed)))
    if may_be_undone:
        yield Notification("note", texts.TIMEOUTS_MAY_BE_UNDONE)


def block_result(person: str, block: Block) -> str:
    """The result of a block in words. An existing block that ends later stays in force."""
    sentence = texts.blocked if block.changed == block.at else texts.still_blocked
    result = sentence(name(cut(person, 40)), block_summary(block))
    return texts.unconfirmed(result) if block.confirmed is False else result


def block_summary(block: Block) -> str:
    """End, author and tickets of a block, safe for Markdown."""
    by = author(block.by, block.uid, short_name)
    return texts.block_summary(block_end(block), by, map(ticket_links.markdown, block.tickets))


def block_end(block: Block) -> str:
    return texts.until(minute(block.until, zone()) if block.until else None)


def _label(sessions: Sequence[Session]) -> str:
    """The only session, or the people of several. Safe for Markdown."""
    if len(sessions) == 1:
        return session_label(sessions[0])
    users = {session.uid: name(cut(session.name or session.uid, 40)) for session in sessions}
    first, *others = users.values()
    return texts.several(first, len(others)) if others else first


def _how(ended: Ended) -> str:
    at, ago = time_of_day(ended.at), since(ended.at, datetime.now(UTC))
    return texts.ended_before(ended.reason, ended.cause, name(cut(ended_by(ended), 40)), at, ago)
