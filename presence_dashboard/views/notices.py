"""What happened, told once: in words, as a toast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

import streamlit as st

from presence_core import Block, Ended, PresenceError, Session
from presence_dashboard import access, texts
from presence_dashboard.access import Right
from presence_dashboard.actions import Outcome, split
from presence_dashboard.format import clock, cut, minute, name, since
from presence_dashboard.wording import plain

_KEY: Final = "notices"
_ICONS: Final = {"done": ":material/check_circle:", "note": ":material/info:", "bad": ":material/warning:"}


@dataclass(frozen=True, slots=True)
class Notice:
    kind: Literal["done", "note", "bad"]
    text: str  #: Markdown; what strangers have typed is made safe in it


def tell(*notices: Notice) -> None:
    """Show these at the start of the next run: a toast made just before a rerun would be lost."""
    st.session_state[_KEY] = (*st.session_state.get(_KEY, ()), *notices)


def show() -> None:
    """Show what was told, once."""
    for notice in st.session_state.pop(_KEY, ()):
        st.toast(notice.text, icon=_ICONS[notice.kind], duration="short" if notice.kind == "done" else "long")


def refused(right: Right, what: str, uid: str | None = None) -> bool:
    """Whether the one who acts may not do this, or not any more: they are told, and it is written down.

    Where Redis cannot say so, the act itself will fail, and tell why.
    """
    try:
        access.require(right, what=what, uid=uid)
    except (access.Denied, access.SignedOut) as error:
        tell(Notice("bad", texts.could_not(plain(error))))
        return True
    except PresenceError:
        pass
    return False


def check(right: Right, what: str, uid: str | None = None) -> None:
    """What a button does first: the page that is drawn next may no longer have it, and would not hear of the click."""
    refused(right, what, uid)


def person(record: Session | Ended) -> str:
    """Name and device, short and safe for Markdown."""
    who = name(cut(record.name or record.uid, 40))
    return f"{who} ({name(cut(record.device, 24))})" if record.device else who


def of(outcome: Outcome) -> Iterator[Notice]:
    """An outcome in words."""
    if outcome.kicked:
        yield Notice("done", _kicked(outcome.kicked))
    if outcome.blocked is not None:
        yield Notice("done", blocked(outcome.blocked.uid, outcome.blocked))
    if outcome.unconfirmed:
        yield Notice("note", texts.UNCONFIRMED)
    if outcome.unasked:
        yield Notice("note", texts.UNASKED)
    if outcome.already:
        first = outcome.already[0]
        yield Notice("note", texts.already(person(first), _how(first), len(outcome.already) - 1))
    if outcome.forgotten:
        yield Notice("note", texts.forgotten_ends(len(outcome.forgotten)))
    for ref in outcome.alive:
        yield Notice("bad", texts.still_alive(name(cut(split(ref)[0], 40))))
    if outcome.unknown:
        yield Notice("bad", texts.unknown(len(outcome.unknown)))
    if outcome.untouched:
        yield Notice("bad", texts.untouched(len(outcome.untouched), outcome.failure or ""))


def blocked(who: str, block: Block) -> str:
    """What a block has come to, where one may have been there before that ends later."""
    say = texts.blocked if block.changed == block.at else texts.still_blocked
    said = say(name(cut(who, 40)), held(block))
    return texts.unconfirmed(said) if block.confirmed is False else said


def held(block: Block) -> str:
    """Until when, by whom and with which tickets, safe for Markdown."""
    return texts.held(until(block), name(cut(block.by, 40)), [name(cut(one, 64)) for one in block.tickets])


def until(block: Block) -> str:
    return texts.until(minute(block.until) if block.until else None)


def _kicked(sessions: tuple[Session, ...]) -> str:
    if len(sessions) == 1:
        return texts.kicked(1, person(sessions[0]))
    users = {one.uid: name(cut(one.name or one.uid, 40)) for one in sessions}
    first, *others = users.values()
    return texts.kicked(len(sessions), texts.several(first, len(others)) if others else first)


def _how(ended: Ended) -> str:
    at, ago = clock(ended.at), since(ended.at, datetime.now(UTC))
    if ended.reason == "kicked":
        return texts.end_kicked(name(cut(ended.by or "", 40)), at, ago)
    words = {"logout": texts.end_logout, "replaced": texts.end_replaced}
    return words.get(ended.reason, texts.end_expired)(at, ago)
