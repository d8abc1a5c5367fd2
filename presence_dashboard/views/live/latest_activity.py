"""The latest logins and ends, newest first; or those of the part of the chart that the reader has chosen.

Each row links to the person and has no other actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import streamlit as st

from presence_core import Ended, Presence, Session
from presence_dashboard import access, texts
from presence_dashboard.components import session_facts
from presence_dashboard.components.figures import show_placeholder
from presence_dashboard.data.browser_tab import local_time, zone
from presence_dashboard.data.shared_reads import shared
from presence_dashboard.data.store import Reading
from presence_dashboard.format import clock, code, cut, exact, literal, name, since
from presence_dashboard.roles import Actor
from presence_dashboard.views.live.span_logins import SpanState, matches, shown_span

LENGTH: Final = 12


@dataclass(frozen=True, slots=True)
class Item:
    """A login or an end."""

    kind: str  #: "login" or an end reason
    at: datetime
    record: Session | Ended


@dataclass(frozen=True, slots=True)
class Activity:
    items: tuple[Item, ...]
    as_of: datetime  #: by the Redis clock


def news(presence: Presence) -> Activity:
    """The newest of live and ended sessions. An ended session has a login too."""
    live = presence.list_sessions(limit=LENGTH)
    ended = presence.ended(limit=LENGTH)
    return Activity(merged(live.items, ended.items), live.as_of)


def merged(live: Sequence[Session], ended: Sequence[Ended]) -> tuple[Item, ...]:
    return latest((*live, *ended), ended)


def latest(logins: Sequence[Session | Ended], ends: Sequence[Ended]) -> tuple[Item, ...]:
    """The latest of these logins and ends, newest first."""
    items = [Item("login", record.login_at, record) for record in logins]
    items += [Item(record.reason, record.at, record) for record in ends]
    # In the same millisecond, the end comes after the login.
    items.sort(key=lambda item: (item.at, item.kind != "login"), reverse=True)
    return tuple(items[:LENGTH])


def reading() -> Reading[Activity]:
    return shared("live-news", news)


def latest_activity() -> None:
    """Draw the list, for roles that may see people."""
    st.markdown(f"**{texts.LIVE_FEED}**")
    state = shown_span()
    if state is not None:
        _of_span(state)
        return
    found = reading()
    if found.value is None:
        show_placeholder(found)
        return
    if not found.value.items:
        st.caption(texts.LIVE_FEED_EMPTY)
        return
    actor = access.with_right("people")
    if actor is None:
        return
    with st.container(gap="xxsmall", key="feed"):
        for item in found.value.items:
            _row(item, found.value.as_of, actor)
    st.caption(texts.live_feed_as_of(local_time(found.value.as_of)))


def _of_span(state: SpanState) -> None:
    """The newest logins and ends of the chosen part, which ``login_spike`` has narrowed."""
    actor = access.with_right("people")
    span, activity = state.span, state.reading.value
    if activity is None or actor is None:
        return
    logins = [record for record in activity.logins if matches(record, state.narrowed)]
    ends = [end for end in activity.ends if matches(end, state.narrowed)]
    st.caption(texts.live_feed_between(session_facts.time_of_day(span.since), session_facts.time_of_day(span.until)))
    items = latest(logins, ends)
    with st.container(gap="xxsmall", key="feed"):
        for item in items:
            words = texts.live_kick_row(session_facts.time_of_day(item.at), event_words(item, actor))
            person_row(item.record, not actor.sees_names, item.kind, exact(item.at), words)
    if not items:
        st.caption(texts.LIVE_SPAN_EMPTY)
    elif len(logins) + len(ends) > LENGTH:
        st.caption(texts.live_kicks_shown(LENGTH))


def _row(item: Item, now: datetime, actor: Actor) -> None:
    local = clock(item.at, zone())
    words = texts.live_row(since(item.at, now), event_words(item, actor))
    person_row(item.record, not actor.sees_names, item.kind, texts.live_when(exact(item.at), local), words)


def person_row(record: Session | Ended, masked: bool, kind: str, when: str, words: str) -> None:
    """A row that links to the person, of a login with badges for its flags. kind: "login" or an end reason; when: the
    tooltip; words: safe for Markdown."""
    shown_name = record.uid if masked else record.name or record.uid
    with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall"):
        st.page_link(
            "views/person/person.py",
            label=name(cut(shown_name, 40)),
            icon=texts.LIVE_ICONS_CODE.get(kind),
            help=when,
            query_params={"q": record.uid},
        )
        st.caption(words, width="content")
        if kind == "login" and (badges := session_facts.badges(record)):
            st.markdown(" ".join(f":orange-badge[{badge}]" for badge, _ in badges), width="content")


def event_words(item: Item, actor: Actor) -> str:
    """The event in words, safe for Markdown."""
    record = item.record
    if item.kind == "login":
        device = record.device if actor.sees_names else None
        place = record.place.words if record.place and "ip" not in actor.masked else None
        parts = filter(None, (device, texts.browser_on(record.browser, record.os), place))
        return " · ".join([texts.LIVE_LOGGED_IN, *(_inert(part) for part in parts)])
    assert isinstance(record, Ended)
    if item.kind == "kicked":
        return kick_words(record)
    return _reason_and_cause(record)


def kick_words(record: Ended) -> str:
    """Who kicked and why, safe for Markdown."""
    if record.by and record.cause != "denied":
        return texts.live_kicked(name(cut(record.by, 40)), _inert(record.note) if record.note else None)
    return _reason_and_cause(record)


def _reason_and_cause(record: Ended) -> str:
    reason, cause = texts.LIVE_ENDED.get(record.reason, record.reason), texts.LIVE_CAUSES.get(record.cause)
    return f"{reason}: {cause}" if cause else reason


def _inert(text: str) -> str:
    """Text without formatting, or as code if it has Markdown characters."""
    short = cut(text, 48)
    marked = name(short)
    return literal(short) if marked.startswith("**") and marked.endswith("**") else code(short)
