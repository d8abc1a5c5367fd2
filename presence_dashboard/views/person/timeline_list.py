"""The timeline of a person: logins, ends and staff actions by day."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import streamlit as st

from presence_core import AuditEntry, AuditFact, Ended, Session, SignIn
from presence_dashboard import failure_facts, texts, ticket_links
from presence_dashboard.components import session_facts
from presence_dashboard.data.browser_tab import this_tab, zone
from presence_dashboard.data.person_state import PersonState
from presence_dashboard.data.person_timeline import TimelineEvent, by_day
from presence_dashboard.data.store import open_store
from presence_dashboard.format import author, clock, cut, isolated, minute, name, number, outcome, short_name, span
from presence_dashboard.roles import Actor

ROWS: Final = 25
"""Events that are shown at first, and that each press of the button adds."""

NAMED: Final = 4
"""Devices that are named for a kick of several."""


def history_link(uid: str) -> None:
    """A link to the staff actions of this person on the History page."""
    st.page_link("views/history/history.py", label=texts.PERSON_HISTORY, query_params={"view": "staff", "person": uid})


def timeline_list(person: PersonState, actor: Actor) -> None:
    """The timeline with its filter, by day, and the buttons for older events."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.subheader(texts.PERSON_TIMELINE, anchor=False, width="content")
        kind = st.pills(
            texts.PERSON_FILTER,
            list(texts.PERSON_KINDS),
            default="all",
            required=True,
            format_func=lambda kind: texts.PERSON_KINDS[kind],
            key="kinds",
            label_visibility="collapsed",
        )
        history_link(person.uid)
    everything = person.events()
    events = [event for event in everything if kind in ("all", *event.kinds)]
    if not events:
        st.caption(texts.PERSON_NOTHING_OF_KIND if everything else texts.PERSON_NOTHING)
    shown = events[: ROWS * (1 + person.rows)]
    known = {record.session_id: record for event in everything for record in event.records}
    today = datetime.now(zone()).date()
    with st.container(gap="small", key="timeline"):
        for day, events_of_day in by_day(shown, zone()):
            st.markdown(f"**{texts.day_heading(day, today)}**")
            for event in events_of_day:
                _event(event, known, actor)
    if person.facts is not None and person.facts.complete_since is not None:
        st.caption(texts.ended_since(minute(person.facts.complete_since, zone())))
    if len(shown) < len(events):
        if st.button(texts.OLDER, key="older-events", shortcut="O"):
            person.rows += 1
            st.rerun()
    elif person.cursor is not None and st.button(texts.PERSON_LOOK_BACK, key="look-back", disabled=this_tab().away):
        person.look_back(open_store())
        st.rerun()


def _event(event: TimelineEvent, known: dict[str, Session | Ended], actor: Actor) -> None:
    with st.container(horizontal=True, wrap=False, gap="small"):
        st.html(session_facts.time_tag(event.at, clock(event.at, zone())), width=64)
        with st.container(gap="xxsmall", width="stretch"):
            st.markdown(_headline(event, known, actor))
            if details := _details(event, actor):
                st.text("\n".join(details))
            ticket = _ticket(event)
            if ticket and ticket_links.address(ticket):
                st.markdown(texts.labelled(texts.LABEL_TICKET, ticket_links.markdown(ticket)))


def _headline(event: TimelineEvent, known: dict[str, Session | Ended], actor: Actor) -> str:
    if event.failure is not None:
        return texts.failed(event.failure.why, event.failure.count, number(event.failure.count))
    first = next(iter(event.records), None)
    if event.kind == "moved" and first is not None:
        return texts.happened_move(session_facts.device(first, actor))
    if event.kind == "login" and first is not None:
        live = f" {texts.PERSON_LIVE}" if isinstance(first, Session) else ""
        return texts.happened_login(session_facts.device(first, actor)) + live
    if event.sign_in is not None:
        return texts.happened_login(session_facts.device(event.sign_in, actor))
    if isinstance(first, Ended):
        return _end(event, first, known, actor)
    entry = event.entry
    by = author((entry.by if entry else None) or texts.NO_VALUE, entry.uid if entry else None, short_name)
    action = entry.action if entry else texts.NO_VALUE
    happened = texts.happened_staff(action if action in texts.HISTORY_ACTS else name(cut(action, 60)), by)
    about = known.get(entry.session_id or "") if entry and action == "confirm_login" else None
    return texts.labelled(happened, session_facts.device(about, actor)) if about else happened


def _end(event: TimelineEvent, first: Ended, known: dict[str, Session | Ended], actor: Actor) -> str:
    named = ", ".join(session_facts.device(record, actor) for record in event.records[:NAMED])
    return texts.happened_end(
        first.cause,
        device=session_facts.device(first, actor),
        devices=texts.devices_and_more(named, len(event.records[NAMED:])),
        by=name(cut(session_facts.ended_by(first) or texts.NO_VALUE, 60)),
        newer=_newer(first, known, actor),
        idle=span(first.idle_timeout),
        absolute=span(first.absolute_timeout),
    )


def ended_words(ended: Ended, actor: Actor) -> str:
    """How a session ended, with its device. Safe for Markdown."""
    return _end(TimelineEvent(ended.at, "end", (ended,)), ended, {}, actor)


def _newer(ended: Ended, known: dict[str, Session | Ended], actor: Actor) -> str:
    newer = known.get(ended.replaced_by or "")
    if newer is not None:
        at = newer.login_at.astimezone(zone()).strftime("%H:%M")
        return texts.newer_login_at(session_facts.device(newer, actor), at)
    return texts.NEWER_LOGIN_ON_DEVICE if ended.cause == "device_limit" else texts.NEWER_LOGIN


def _details(event: TimelineEvent, actor: Actor) -> list[str]:
    """Details of an event as lines of plain text."""
    if event.failure is not None:
        return [line] if (line := failure_facts.details(event.failure, actor)) else []
    first, entry = next(iter(event.records), None), event.entry
    if event.kind == "moved" and first is not None:
        return [words for words in (session_facts.move(first, actor),) if words]
    if event.sign_in is not None:
        return _sign_in(event.sign_in, actor)
    if event.kind == "login" and first is not None:
        return _one_line(
            session_facts.client(first),
            session_facts.app(first),
            session_facts.origin(first.ip, first.place, actor),
            *session_facts.login_flags(first),
        )
    ended = first if isinstance(first, Ended) else None
    ticket = _ticket(event)
    facts = {
        texts.LABEL_REASON: entry.reason if entry else ended.note if ended else None,
        texts.LABEL_MESSAGE: entry.message if entry else ended.message if ended else None,
        texts.LABEL_TICKET: None if ticket_links.address(ticket) else ticket,  # a link is drawn below
        texts.LABEL_OUTCOME: outcome(entry, zone()) if entry and not _is_in_headline(event, entry) else None,
        texts.LABEL_LOGGED_IN: _origin(ended) if ended is not None and len(event.records) == 1 else None,
    }
    return [texts.labelled(label, session_facts.lines(value)) for label, value in facts.items() if value]


def _sign_in(sign_in: SignIn, actor: Actor) -> list[str]:
    return _one_line(
        session_facts.client(sign_in),
        session_facts.app(sign_in),
        session_facts.place(sign_in, actor),
        *session_facts.login_flags(sign_in),
    )


def _one_line(*parts: str | None) -> list[str]:
    known = [isolated(part) for part in parts if part]
    return [" · ".join(known)] if known else []


def _ticket(event: TimelineEvent) -> str | None:
    if event.entry is not None:
        return event.entry.ticket
    first = next(iter(event.records), None)
    return first.ticket if isinstance(first, Ended) else None


def _origin(ended: Ended) -> str:
    """Login and browser of an ended session: which of several equal devices it was."""
    return " · ".join(filter(None, (session_facts.time_of_day(ended.login_at), session_facts.client(ended))))


def _is_in_headline(event: TimelineEvent, entry: AuditEntry) -> bool:
    """Whether the headline says the outcome already: a kick that ended these sessions and did nothing else."""
    return bool(event.records) and entry.facts == (AuditFact("ended", {"count": len(event.records)}),)
