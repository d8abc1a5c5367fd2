"""The table of sessions, what can be done with its rows, and the way through its pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from presence_core import Block, Session
from presence_dashboard import bulk as bulk_kicks
from presence_dashboard import exports, texts
from presence_dashboard.access import Actor
from presence_dashboard.format import cut, literal, name, number
from presence_dashboard.listing import PAGE_SIZES, Listing, Rows
from presence_dashboard.questions import ATTRIBUTE
from presence_dashboard.roles import HIDDEN
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab, zone
from presence_dashboard.views import bulk, export, kick, notices
from presence_dashboard.views.notices import Notice
from presence_dashboard.views.search import ask_for_person, declared, in_words

ROW_HEIGHT: Final = 31
"""Pixels at the theme's font size."""

MOST_ROWS: Final = 20
"""So many are on the screen at once: the buttons above and below the table stay in sight."""


def table(listing: Listing, rows: Rows, actor: Actor) -> None:
    """The page of rows, and above it what to do with those that are ticked."""
    bar = st.container(horizontal=True, vertical_alignment="center", gap="small", key="actions")
    may_kick = actor.may("kick")
    shown = ["name", *(["status"] if listing.ended else []), *(["blocked"] if rows.blocks else []), *_chosen()]
    event: Any = st.dataframe(
        _frame(listing, rows, actor, this_tab().away, may_kick=may_kick),
        key=_key(listing),
        on_select="rerun" if may_kick else "ignore",
        selection_mode="multi-row",
        column_config=_columns(listing, rows, may_kick=may_kick),
        column_order=["kick", *shown] if may_kick else shown,
        hide_index=True,
        height=ROW_HEIGHT * (min(len(rows.sessions), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="",
        alt=texts.TABLE_LABEL,
    )
    places = event.selection.rows if may_kick else []
    chosen = tuple(rows.sessions[row] for row in places if row < len(rows.sessions))
    ticked = tuple(session for session in chosen if session.ref not in listing.ended)
    with bar:
        if may_kick:
            _select_button(listing, rows, len(ticked))
            _kick_actions(ticked, this_tab().away)
        _list_actions(listing, rows, actor, ticked)
        if may_kick:
            _hint(ticked, len(chosen) - len(ticked), this_tab().away)


def _key(listing: Listing) -> str:
    return f"table-{listing.key}"


def has_ticks(listing: Listing) -> bool:
    """Whether rows of the list that is shown are ticked."""
    state = st.session_state.get(_key(listing))
    return bool(state and state["selection"]["rows"])


def _select_button(listing: Listing, rows: Rows, ticked: int) -> None:
    """Ticks all rows that are shown. The table has a box for that too, but it is drawn on a canvas: no key reaches it
    and no screen reader names it."""
    live = tuple(place for place, session in enumerate(rows.sessions) if session.ref not in listing.ended)
    is_all = bool(live) and ticked == len(live)
    st.button(
        texts.SELECT_NONE if is_all else texts.select_rows(len(live), len(listing.ended)),
        key="select-rows",
        disabled=not live,
        on_click=_select,
        args=(_key(listing), () if is_all else live),
    )


def _select(key: str, places: tuple[int, ...]) -> None:
    st.session_state[key] = {"selection": {"rows": list(places), "columns": [], "cells": []}}


def _kick_actions(ticked: tuple[Session, ...], away: bool) -> None:
    users = {session.uid: session for session in ticked}
    st.button(
        texts.kick_selected(len(ticked)),
        key="kick-selected",
        type="primary" if ticked else "secondary",
        shortcut="K",
        disabled=away or not ticked,
        on_click=kick.ask_sessions,
        args=(ticked,),
    )
    one = next(iter(users.values())) if len(users) == 1 else None
    st.button(
        texts.kick_all_of(name(cut(one.name or one.uid, 32)) if one else None),
        key="kick-person",
        help=None if one else texts.SELECT_ONE_PERSON,
        disabled=away or one is None,
        on_click=kick.ask_person,
        args=(one.uid, tuple(session.ref for session in ticked)) if one else (),
    )


def _list_actions(listing: Listing, rows: Rows, actor: Actor, ticked: tuple[Session, ...]) -> None:
    """What can be done with all that match. The question is that of the rows, whatever is being typed."""
    words = in_words(listing.question)
    off = this_tab().away or listing.problem is not None  # what the box says and what the rows are differ then
    if actor.may("bulk"):
        st.button(
            texts.kick_all(
                number(max(rows.total, len(rows.sessions))),
                matching=not listing.question.is_everybody,
                exact=rows.total_is_exact,
            ),
            key="kick-all",
            help=texts.KICK_ALL_HELP,
            disabled=off,
            on_click=bulk.ask,
            args=(
                listing.filter or bulk_kicks.everybody(rows.as_of), words, tuple(session.ref for session in ticked)
            ),
        )  # fmt: skip
    if actor.may("export"):
        st.button(
            texts.EXPORT_LIST,
            key="export",
            disabled=off,
            on_click=export.ask,
            args=(exports.of_sessions(open_store().presence, listing.filter, words),),
        )


def _hint(ticked: tuple[Session, ...], ended: int, away: bool) -> None:
    users = len({session.uid for session in ticked})
    if away:
        words = texts.AWAY_HINT
    else:
        words = texts.selected_hint(len(ticked), users, ended) if ticked or ended else texts.SELECT_HINT
    st.caption(words, width="content")


def _kick_clicked(listing: Listing, rows: Rows, key: str) -> None:
    """The rows are those that were drawn with the button, whatever has happened since."""
    click = st.session_state[key]
    if this_tab().away:
        notices.tell(Notice("bad", texts.AWAY_HINT))
    elif click is not None and click["row"] < len(rows.sessions):
        kick.ask_sessions((rows.sessions[click["row"]],))


def _name_clicked(rows: Rows, key: str) -> None:
    click = st.session_state[key]
    if click is not None and click["row"] < len(rows.sessions):
        ask_for_person(rows.sessions[click["row"]].uid)


# -- Rows and columns --------------------------------------------------------------------------------------------------

COLUMNS: Final[dict[str, str]] = {
    "uid": texts.COLUMN_UID,
    "device": texts.COLUMN_DEVICE,
    "app": texts.COLUMN_APP,
    "browser": texts.COLUMN_BROWSER,
    "ip": texts.COLUMN_IP,
    "login": texts.COLUMN_LOGIN,
    "login_exact": texts.COLUMN_LOGIN_EXACT,
    "seen": texts.COLUMN_SEEN,
    "expires": texts.COLUMN_EXPIRES,
    "last_ip": texts.COLUMN_LAST_IP,
    "aliases": texts.COLUMN_ALIASES,
}
"""Those that can be chosen; the name is always there."""

AT_FIRST: Final = ("uid", "device", "app", "browser", "ip", "login", "seen", "expires")

_MASKED_BY: Final = {"name": "name", "aliases": "name", "ip": "ip", "last_ip": "ip"}


def column_choice() -> None:
    """Which columns the table shows: kept for as long as the tab is open."""
    with st.popover(texts.COLUMNS_MENU, key="menu-columns"):
        st.multiselect(
            texts.COLUMNS_LABEL,
            [*COLUMNS, *(ATTRIBUTE + attribute for attribute in declared())],
            default=list(AT_FIRST),
            key="columns",
            persist_state="session",
            format_func=lambda column: COLUMNS.get(column) or literal(column.removeprefix(ATTRIBUTE)),
        )


def _chosen() -> Sequence[str]:
    return st.session_state.get("columns") or AT_FIRST


def _frame(listing: Listing, rows: Rows, actor: Actor, away: bool, *, may_kick: bool) -> pd.DataFrame:
    sessions = rows.sessions
    has_ended = [one.ref in listing.ended for one in sessions]
    columns: dict[str, list[Any]] = {
        **({"kick": [None if away or over else texts.KICK for over in has_ended]} if may_kick else {}),
        "name": [_label(one.name or one.uid) for one in sessions],
        "status": [texts.ENDED_ROW if over else "" for over in has_ended],
        "blocked": [_blocked(rows.blocks.get(one.uid)) for one in sessions],
        "uid": [literal(one.uid) for one in sessions],
        "device": [literal(one.device or "") for one in sessions],
        "app": [literal(" ".join(filter(None, (one.app, one.app_version)))) for one in sessions],
        "browser": [literal(texts.browser_on(one.browser, one.os)) for one in sessions],
        "ip": [one.ip or "" for one in sessions],
        "login": [one.login_at for one in sessions],
        "login_exact": [one.login_at for one in sessions],
        "seen": [one.last_seen for one in sessions],
        "expires": [one.expires_at for one in sessions],
        "last_ip": [one.last_ip or "" for one in sessions],
        "aliases": [literal(", ".join(one.aliases)) for one in sessions],
    }
    for attribute in declared():
        columns[ATTRIBUTE + attribute] = [_attribute(one, attribute) for one in sessions]
    for column, by in _MASKED_BY.items():
        if by in actor.masked:
            columns[column] = [HIDDEN] * len(sessions)
    return pd.DataFrame(columns)


def _blocked(block: Block | None) -> str:
    return "" if block is None else texts.held(notices.until(block), literal(block.by), map(literal, block.tickets))


def _label(text: str) -> str:
    """A name as the label of a button in a cell: never its icon, nor a list of labels."""
    shown, bare = literal(text), text.strip()
    is_more = bare.startswith(":material/") or (bare.startswith("[") and bare.endswith("]"))
    return f"\u2060{shown}" if is_more else shown


def _attribute(session: Session, attribute: str) -> str:
    value = session.attributes.get(attribute)
    if value is None:
        return ""
    return literal(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _columns(listing: Listing, rows: Rows, *, may_kick: bool) -> dict[str, Any]:
    # A button that is described can be pressed, whether or not its column is shown: who may not kick has none.
    column, kicked, opened = st.column_config, f"click-{listing.key}", f"open-{listing.key}"

    def button(label: str, width: int, key: str, clicked: Callable[..., None], *args: object, **more: Any) -> Any:
        return column.ButtonColumn(label, width=width, key=key, on_click=clicked, args=(*args, key), **more)

    def time(label: str, **more: Any) -> Any:
        # A time of day, not how long ago: that would be drawn once, and be wrong on a page that is left open.
        return column.DatetimeColumn(label, width=122, format="MMM D, HH:mm:ss", timezone=str(zone()), **more)

    return {
        **({"kick": button("", 54, kicked, _kick_clicked, listing, rows, pinned=True)} if may_kick else {}),
        "name": button(
            texts.COLUMN_NAME, 145, opened, _name_clicked, rows, type="tertiary", alignment="left", help=texts.NAME_HELP
        ),
        "status": column.TextColumn(texts.COLUMN_STATUS, width=64),
        "blocked": column.TextColumn(texts.COLUMN_BLOCKED, width=285),
        "uid": column.TextColumn(texts.COLUMN_UID, width=90),
        "device": column.TextColumn(texts.COLUMN_DEVICE, width=105),
        "app": column.TextColumn(texts.COLUMN_APP, width=105),
        "browser": column.TextColumn(texts.COLUMN_BROWSER, width=150),
        "ip": column.TextColumn(texts.COLUMN_IP, width=112, help=texts.IP_HELP),
        "login": time(texts.COLUMN_LOGIN),
        "login_exact": column.DatetimeColumn(texts.COLUMN_LOGIN_EXACT, width=138, format="YYYY-MM-DD HH:mm:ss"),
        "seen": time(texts.COLUMN_SEEN, help=texts.SEEN_HELP),
        "expires": time(texts.COLUMN_EXPIRES, help=texts.EXPIRES_HELP),
        "last_ip": column.TextColumn(texts.COLUMN_LAST_IP, width=112),
        "aliases": column.TextColumn(texts.COLUMN_ALIASES, width=170),
        **{
            ATTRIBUTE + attribute: column.TextColumn(name(cut(attribute, 24)), width=100) for attribute in declared()
        },
    }  # fmt: skip


# -- Pages -------------------------------------------------------------------------------------------------------------


def pager(listing: Listing, rows: Rows) -> None:
    """The way through the list: by cursor, so that no page skips or repeats anybody while others come and go."""
    first_page, last_page = listing.page == 1, rows.next_cursor is None
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="pager"):
        st.button(texts.NEWEST, key="newest", disabled=this_tab().away or first_page, on_click=listing.newest)
        st.button(
            texts.NEWER, key="newer", shortcut="N", disabled=this_tab().away or first_page, on_click=listing.newer
        )
        st.button(texts.OLDER, key="older", shortcut="O", disabled=this_tab().away or last_page, on_click=listing.older)
        st.markdown(_place(listing, rows), width="content")
        if not (first_page and last_page):
            st.caption(texts.SORT_NOTE, width="content")
        st.selectbox(
            texts.PER_PAGE,
            PAGE_SIZES,
            index=PAGE_SIZES.index(listing.limit),
            key="page-size",
            width=150,
            disabled=this_tab().away,
            label_visibility="collapsed",
            format_func=texts.rows_per_page,
            on_change=_resize,
            args=(listing,),
        )


def rare(listing: Listing, rows: Rows) -> None:
    """How far was looked where matches are rare, and the way on."""
    share = int(rows.progress * 100)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="rare"):
        part = f"{share} %" if share else texts.LESS_THAN_A_PERCENT
        st.markdown(texts.rare(number(rows.scanned), part), width="content")
        st.button(texts.GO_ON_LABEL, key="go-on", disabled=this_tab().away, on_click=listing.go_on)


def _place(listing: Listing, rows: Rows) -> str:
    first = (listing.page - 1) * listing.limit + 1
    last = first + len(rows.sessions) - 1
    # Others come and go while somebody turns pages: this one may reach beyond what there was in all.
    total = number(max(rows.total, last))
    return texts.place(number(first), number(last), total if rows.total_is_exact else texts.about(total), listing.page)


def _resize(listing: Listing) -> None:
    listing.resize(st.session_state["page-size"])
