"""Who came and who went, newest first. Rows are text: nothing in them acts, and a link leads to one person, by uid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import streamlit as st

from presence_core import Ended, Presence, Session
from presence_dashboard import access, texts
from presence_dashboard.format import clock, code, cut, exact, literal, name, since
from presence_dashboard.readings import shared
from presence_dashboard.store import Reading
from presence_dashboard.tab import zone
from presence_dashboard.views.pending import not_yet

LENGTH: Final = 12

_ICONS: Final = {
    "login": ":material/login:",
    "logout": ":material/logout:",
    "expired": ":material/schedule:",
    "kicked": ":material/block:",
    "replaced": ":material/swap_horiz:",
}


@dataclass(frozen=True, slots=True)
class Item:
    """Something began or ended."""

    kind: str  #: "login", or the reason of an end
    at: datetime
    record: Session | Ended


@dataclass(frozen=True, slots=True)
class News:
    items: tuple[Item, ...]
    as_of: datetime  #: by the clock of Redis


def news(presence: Presence) -> News:
    """The newest of both lists. Who has left since has logged in, too."""
    live = presence.list_sessions(limit=LENGTH)
    ended = presence.ended(limit=LENGTH)
    return News(merged(live.items, ended.items), live.as_of)


def merged(live: Sequence[Session], ended: Sequence[Ended]) -> tuple[Item, ...]:
    both: tuple[Session | Ended, ...] = (*live, *ended)
    items = [Item("login", one.login_at, one) for one in both]
    items += [Item(one.reason, one.at, one) for one in ended]
    # Of the same millisecond the end is the newer: nobody leaves before they came.
    items.sort(key=lambda one: (one.at, one.kind != "login"), reverse=True)
    return tuple(items[:LENGTH])


def reading() -> Reading[News]:
    return shared("live-news", news)


def feed() -> None:
    """Draw it. Only for who may see people."""
    st.markdown(f"**{texts.LIVE_FEED}**")
    found = reading()
    if found.value is None:
        not_yet(found)
        return
    if not found.value.items:
        st.caption(texts.LIVE_FEED_EMPTY)
        return
    try:
        actor = access.current(touch=False)
    except access.SignedOut:
        return  # the pulse says so
    if not actor.may("people"):
        return
    with st.container(gap="xxsmall", key="feed"):
        for item in found.value.items:
            _row(item, found.value.as_of, "name" in actor.masked)
    st.caption(texts.live_feed_as_of(clock(found.value.as_of)))


def _row(item: Item, now: datetime, masked: bool) -> None:
    record = item.record
    who = record.uid if masked else record.name or record.uid
    here = item.at.astimezone(zone()).strftime("%H:%M:%S")
    with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall"):
        st.page_link(
            "views/person.py",
            label=name(cut(who, 40)),
            icon=_ICONS.get(item.kind),
            help=texts.live_when(exact(item.at), here),
            query_params={"q": record.uid},
        )
        st.caption(texts.live_row(since(item.at, now), _what(item)), width="content")


def _what(item: Item) -> str:
    """In words, safe for Markdown."""
    record = item.record
    if item.kind == "login":
        on = filter(None, (record.device, texts.browser_on(record.browser, record.os)))
        return " · ".join([texts.LIVE_SIGNED_IN, *(_inert(one) for one in on)])
    assert isinstance(record, Ended)
    if item.kind == "kicked" and record.by:
        return texts.live_kicked(name(cut(record.by, 40)), _inert(record.note) if record.note else None)
    said = {"logout": texts.LIVE_SIGNED_OUT, "expired": texts.LIVE_EXPIRED, "replaced": texts.LIVE_REPLACED}
    cause = texts.LIVE_CAUSES.get(record.cause)
    words = said.get(item.kind, texts.LIVE_KICKED)
    return f"{words}: {cause}" if cause else words


def _inert(text: str) -> str:
    """Plain where nothing in it can mean anything."""
    short = cut(text, 48)
    marked = name(short)
    return literal(short) if marked.startswith("**") and marked.endswith("**") else code(short)
