"""The Person page: one person, online or not. Streamlit runs this file as a script of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import streamlit as st

from presence_core import Ended, Person, Session
from presence_core.settings import DAY
from presence_dashboard import access, texts
from presence_dashboard.access import Actor
from presence_dashboard.dossier import MOST_FOUND, Dossier, Facts, Found, find, this_dossier
from presence_dashboard.format import clock, cut, isolated, literal, minute, name, number, span
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab, zone
from presence_dashboard.timeline import Happening, by_day
from presence_dashboard.views import cards, kick, notices, privacy

access.stop_without_gate()

ROWS: Final = 25
"""So much of the timeline is shown at first, and added by one press of a button."""

NAMED: Final = 4
"""So many devices are named of a kick of several."""


def page() -> None:
    actor = access.current()
    by_name = not actor.masked  # who must not see names may not find them out by trying, either
    wanted = st.text_input(
        texts.PERSON_SEARCH,
        key="q",
        type="search",
        live="300ms",
        bind="query-params",
        max_chars=256,
        placeholder=texts.PERSON_SEARCH_HINT if by_name else texts.PERSON_SEARCH_HINT_MASKED,
        label_visibility="collapsed",
        width=520,
    )
    wanted = (wanted or "").strip()
    if not wanted:
        _note("start", texts.PERSON_START_TITLE, texts.PERSON_START if by_name else texts.PERSON_START_MASKED)
        return
    reading = find(open_store(), wanted, by_name=by_name)
    if reading.failure is not None and not this_tab().away:
        st.error(texts.unreadable(reading.failure))
        st.button(texts.PERSON_RETRY, key="retry")  # any run asks again, once the failure is a second old
    found = reading.value
    if found is None:
        if this_tab().away:
            st.info(texts.PERSON_UNREAD)
    elif found.uid is not None:
        _others(found)
        _person(this_dossier(found.uid), actor)
    elif found.others:
        _hits(found.others)
    else:
        settings = open_store().presence.settings
        longest = max(settings.keep_kicked, settings.keep_replaced, settings.keep_expired, settings.keep_logout)
        none = texts.person_none(name(cut(wanted, 60)), settings.keep_people // DAY, longest // DAY)
        _note("no-match", texts.PERSON_NONE_TITLE, none, wanted)


def _note(key: str, title: str, text: str, wanted: str | None = None) -> None:
    with st.container(border=True, key=key):
        st.subheader(title, anchor=False)
        st.markdown(text)
        if wanted is not None:
            _to_history(wanted)


def _to_history(uid: str) -> None:
    st.page_link("views/history.py", label=texts.PERSON_HISTORY, query_params={"view": "staff", "person": uid})


# -- Several -----------------------------------------------------------------------------------------------------------


def _hits(people: tuple[Person, ...]) -> None:
    st.caption(texts.person_hits(len(people), len(people) < MOST_FOUND))
    _list(people)


def _others(found: Found) -> None:
    if found.others:
        with st.popover(texts.person_others(len(found.others))):
            _list(found.others)


def _list(people: tuple[Person, ...]) -> None:
    with st.container(gap="xsmall", key="hits"):
        for place, person in enumerate(people):
            with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
                with st.container(gap="xxsmall", width="stretch"):
                    st.markdown(f"{name(cut(person.name or person.uid, 60))} {_presence(person)}")
                    also = [] if person.name is None else [person.uid]
                    st.text(" · ".join(isolated(cut(one, 60)) for one in (*also, *person.aliases[:4])))
                st.button(texts.PERSON_OPEN, key=f"open-{place}", on_click=_open, args=(person.uid,))


def _presence(person: Person) -> str:
    if person.online:
        return texts.person_online(texts.person_sessions(person.sessions, number(person.sessions)))
    return texts.person_offline(cards.time_of_day(person.last_seen))


def _open(uid: str) -> None:
    st.session_state["q"] = uid


# -- One ---------------------------------------------------------------------------------------------------------------


def _person(dossier: Dossier, actor: Actor) -> None:
    if "kinds" not in st.session_state:  # gone with the page: somebody comes back to it
        dossier.refresh()
    with st.skeleton(height=320):
        dossier.load(open_store())
    if dossier.failure is not None and not this_tab().away:
        st.error(texts.unreadable(dossier.failure))
    known = dossier.facts
    if known is None:
        st.info(texts.PERSON_UNREAD)
        return
    _header(dossier.uid, known, actor)
    if known.block is not None:
        _blocked(known, actor)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.subheader(texts.PERSON_SESSIONS, anchor=False, width="content")
        _actions(dossier.uid, known, actor)
    with st.container(key="changes"):  # its own: a fragment that shares one may vanish when it meets a rerun
        st.fragment(_changes, run_every=this_tab().tick)(dossier)
    if known.sessions:
        cards.cards(dossier, known, actor)
    else:
        st.caption(texts.PERSON_NO_SESSION)
    _timeline(dossier, actor)
    privacy.rights(dossier, actor)


def _header(uid: str, known: Facts, actor: Actor) -> None:
    shows_name = "name" not in actor.masked
    with st.container(gap="xsmall", key="who-is-it"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            called = name(cut(known.name or uid, 80)) if shows_name else texts.PERSON_NAME_HIDDEN
            st.header(called, anchor=False, width="content")
            if known.sessions:
                count = len(known.sessions)
                st.markdown(texts.person_online(texts.person_sessions(count, number(count))), width="content")
            else:
                seen = cards.time_of_day(known.last_seen) if known.last_seen else None
                st.markdown(texts.person_offline(seen), width="content")
            st.code(literal(uid), language=None, width="content")
        also = [isolated(one) for one in known.aliases if one != uid]
        if also and shows_name:
            st.text(texts.fact_line(texts.PERSON_ALIASES, ", ".join(also)))


def _blocked(known: Facts, actor: Actor) -> None:
    block = known.block
    if block is None:
        return
    with st.container(border=True, gap="xsmall", key="blocked"):
        st.markdown(texts.person_blocked(notices.held(block)))
        with st.container(gap="xxsmall"):
            cards.facts(
                {
                    texts.FACT_BLOCKED_AT: block.at,
                    texts.FACT_CHANGED: None if block.changed == block.at else block.changed,
                    texts.FACT_REASON: block.reason,
                    texts.FACT_MESSAGE: block.message,
                },
            )
        if actor.may("kick"):
            with st.container(horizontal=True, gap="small"):
                _ask("unblock", texts.PERSON_UNBLOCK, kick.ask_unblock, block.uid, known.name)
                _ask("block", texts.PERSON_BLOCK_AGAIN, kick.ask_block, block.uid, known.name)


def _ask(key: str, label: str, ask: Callable[..., None], *args: str | None) -> None:
    st.button(label, key=key, disabled=this_tab().away, on_click=ask, args=args)


def _actions(uid: str, known: Facts, actor: Actor) -> None:
    if not actor.may("kick"):
        return
    count = len(known.sessions)
    if count:
        st.button(
            texts.person_kick_all(count, number(count)),
            key="kick-all",
            shortcut="K",
            disabled=this_tab().away,
            on_click=kick.ask_person,
            args=(uid,),
        )
    if known.block is None:
        _ask("block", texts.PERSON_BLOCK, kick.ask_block, uid, known.name)


def _changes(dossier: Dossier) -> None:
    """One button in one place, whatever it says: no card moves under somebody's pointer."""
    changed = dossier.has_changed(open_store())
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button(
            texts.PERSON_CHANGED if changed else texts.REFRESH,
            key="refresh-person",
            type="primary" if changed else "secondary",
            disabled=this_tab().away,
        ):
            dossier.refresh()
            st.rerun()
        if dossier.facts is not None:
            as_of = texts.person_as_of(clock(dossier.facts.as_of), span(dossier.facts.age))
            st.caption(as_of, width="content")


# -- The timeline ------------------------------------------------------------------------------------------------------


def _timeline(dossier: Dossier, actor: Actor) -> None:
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
        _to_history(dossier.uid)
    everything = dossier.happenings()
    happenings = [one for one in everything if kind in ("all", *one.kinds)]
    if not happenings:
        st.caption(texts.PERSON_NOTHING_OF_KIND if everything else texts.PERSON_NOTHING)
    shown = happenings[: ROWS * (1 + dossier.rows)]
    known = {one.session_id: one for happening in everything for one in happening.records}
    today = datetime.now(zone()).date()
    with st.container(gap="small", key="timeline"):
        for day, some in by_day(shown, zone()):
            st.markdown(f"**{texts.day_heading(day, today)}**")
            for happening in some:
                _happening(happening, known, actor)
    if dossier.facts is not None and dossier.facts.complete_since is not None:
        st.caption(texts.ended_since(minute(dossier.facts.complete_since)))
    if len(shown) < len(happenings):
        if st.button(texts.PERSON_OLDER, key="older-happenings", shortcut="O"):
            dossier.rows += 1
            st.rerun()
    elif dossier.cursor is not None and st.button(texts.PERSON_LOOK_BACK, key="look-back", disabled=this_tab().away):
        dossier.look_back(open_store())
        st.rerun()


def _happening(one: Happening, known: dict[str, Session | Ended], actor: Actor) -> None:
    with st.container(horizontal=True, wrap=False, gap="small"):
        st.html(cards.time_tag(one.at, one.at.astimezone(zone()).strftime("%H:%M")), width=44)
        with st.container(gap="xxsmall", width="stretch"):
            st.markdown(_headline(one, known))
            if details := _details(one, actor):
                st.text("\n".join(details))


def _headline(one: Happening, known: dict[str, Session | Ended]) -> str:
    first = next(iter(one.records), None)
    if one.kind == "login" and first is not None:
        live = f" {texts.PERSON_LIVE}" if isinstance(first, Session) else ""
        return texts.happened_login(cards.device(first)) + live
    if isinstance(first, Ended):
        return _end(one, first, known)
    entry = one.entry
    by = name(cut((entry.by if entry else None) or texts.NO_VALUE, 60))
    action = entry.action if entry else texts.NO_VALUE
    return texts.happened_staff(action if action in texts.HISTORY_ACTS else name(cut(action, 60)), by)


def _end(one: Happening, first: Ended, known: dict[str, Session | Ended]) -> str:
    device, by = cards.device(first), name(cut(first.by or texts.NO_VALUE, 60))
    if first.cause == "revoked":
        return texts.happened_revoked(device, by)
    if first.reason == "kicked":
        named = ", ".join(cards.device(record) for record in one.records[:NAMED])
        return texts.happened_kicked(texts.devices_and_more(named, len(one.records[NAMED:])), by)
    if first.reason == "replaced":
        return texts.happened_replaced(device, _newer(first, known))
    if first.reason == "logout":
        return texts.happened_logout(device)
    if first.cause == "lost":
        return texts.happened_lost(device)
    if first.cause == "absolute":
        return texts.happened_absolute(device, span(first.absolute_timeout))
    return texts.happened_idle(device, span(first.idle_timeout))


def _newer(ended: Ended, known: dict[str, Session | Ended]) -> str:
    newer = known.get(ended.replaced_by or "")
    if newer is not None:
        at = newer.login_at.astimezone(zone()).strftime("%H:%M")
        return texts.newer_login_at(cards.device(newer), at)
    return texts.NEWER_LOGIN_ON_DEVICE if ended.cause == "device_limit" else texts.NEWER_LOGIN


def _details(one: Happening, actor: Actor) -> list[str]:
    """Lines of plain text."""
    first, entry = next(iter(one.records), None), one.entry
    if one.kind == "login" and first is not None:
        about = [cards.client(first), cards.app(first), cards.address(first, actor)]
        parts = [isolated(part) for part in about if part]
        return [" · ".join(parts)] if parts else []
    ended = first if isinstance(first, Ended) else None
    said = {
        texts.FACT_REASON: entry.reason if entry else ended.note if ended else None,
        texts.FACT_MESSAGE: entry.message if entry else ended.message if ended else None,
        texts.FACT_TICKET: entry.ticket if entry else ended.ticket if ended else None,
        texts.FACT_OUTCOME: entry.outcome if entry and not _is_told(one, entry.outcome) else None,
    }
    return [texts.fact_line(label, cards.lines(value)) for label, value in said.items() if value]


def _is_told(one: Happening, outcome: str) -> bool:
    """Whether the headline says all of it: of a kick how many it ended, and it did nothing else."""
    return bool(one.records) and outcome.startswith(f"{len(one.records)} session") and "," not in outcome


page()
