"""The table of sessions, what can be done with its rows, and the way through its pages."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from presence_core import Session
from presence_dashboard import texts
from presence_dashboard.format import cut, literal, name, number
from presence_dashboard.listing import PAGE_SIZES, Listing, Rows
from presence_dashboard.views import kick, notices
from presence_dashboard.views.notices import Notice

ROW_HEIGHT: Final = 31
"""Pixels at the theme's font size."""

MOST_ROWS: Final = 20
"""So many are on the screen at once: the buttons above and below the table stay in sight."""


def table(listing: Listing, rows: Rows) -> None:
    """The page of rows, and above it what to do with those that are ticked."""
    key = f"table-{listing.key}"
    bar = st.container(horizontal=True, vertical_alignment="center", gap="small")
    event = st.dataframe(
        _frame(rows.sessions, listing.away),
        key=key,
        on_select="rerun",
        selection_mode="multi-row",
        column_config=_columns(listing, rows),
        hide_index=True,
        height=ROW_HEIGHT * (min(len(rows.sessions), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="",
        alt=texts.TABLE_LABEL,
    )
    ticked = tuple(rows.sessions[row] for row in event.selection.rows if row < len(rows.sessions))
    with bar:
        _actions(ticked, listing.away)


def _actions(ticked: tuple[Session, ...], away: bool) -> None:
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
    if away:
        st.caption(texts.AWAY_HINT, width="content")
    else:
        st.caption(texts.selected_hint(len(ticked), len(users)) if ticked else texts.SELECT_HINT, width="content")


def _clicked(listing: Listing, rows: Rows, key: str) -> None:
    """The rows are those that were drawn with the button, whatever has happened since."""
    click = st.session_state[key]
    if listing.away:
        notices.tell(Notice("bad", texts.AWAY_HINT))
    elif click is not None and click["row"] < len(rows.sessions):
        kick.ask_sessions((rows.sessions[click["row"]],))


# -- Rows and columns --------------------------------------------------------------------------------------------------


def _frame(sessions: tuple[Session, ...], away: bool) -> pd.DataFrame:
    columns: dict[str, list[Any]] = {
        "kick": [None if away else texts.KICK for _ in sessions],
        "name": [literal(one.name or one.uid) for one in sessions],
        "uid": [literal(one.uid) for one in sessions],
        "device": [literal(one.device or "") for one in sessions],
        "app": [literal(" ".join(filter(None, (one.app, one.app_version)))) for one in sessions],
        "browser": [literal(texts.browser_on(one.browser, one.os)) for one in sessions],
        "ip": [one.ip or "" for one in sessions],
        "login": [one.login_at for one in sessions],
        "login_exact": [one.login_at for one in sessions],
        "seen": [one.last_seen for one in sessions],
        "expires": [one.expires_at for one in sessions],
    }
    return pd.DataFrame(columns)


def _columns(listing: Listing, rows: Rows) -> dict[str, Any]:
    column, click = st.column_config, f"click-{listing.key}"
    return {
        "kick": column.ButtonColumn(
            "", width=54, pinned=True, key=click, on_click=_clicked, args=(listing, rows, click)
        ),
        "name": column.TextColumn(texts.COLUMN_NAME, width=145),
        "uid": column.TextColumn(texts.COLUMN_UID, width=90),
        "device": column.TextColumn(texts.COLUMN_DEVICE, width=105),
        "app": column.TextColumn(texts.COLUMN_APP, width=105),
        "browser": column.TextColumn(texts.COLUMN_BROWSER, width=150),
        "ip": column.TextColumn(texts.COLUMN_IP, width=112, help=texts.IP_HELP),
        "login": column.DatetimeColumn(texts.COLUMN_LOGIN, width=112, format="distance"),
        "login_exact": column.DatetimeColumn(texts.COLUMN_LOGIN_EXACT, width=138, format="YYYY-MM-DD HH:mm:ss"),
        "seen": column.DatetimeColumn(texts.COLUMN_SEEN, width=112, format="distance"),
        "expires": column.DatetimeColumn(texts.COLUMN_EXPIRES, width=100, format="distance", help=texts.EXPIRES_HELP),
    }


# -- Pages -------------------------------------------------------------------------------------------------------------


def pager(listing: Listing, rows: Rows) -> None:
    """The way through the list: by cursor, so that no page skips or repeats anybody while others come and go."""
    first_page, last_page = listing.page == 1, rows.next_cursor is None
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="pager"):
        st.button(texts.NEWEST, key="newest", disabled=listing.away or first_page, on_click=listing.newest)
        st.button(texts.NEWER, key="newer", shortcut="N", disabled=listing.away or first_page, on_click=listing.newer)
        st.button(texts.OLDER, key="older", shortcut="O", disabled=listing.away or last_page, on_click=listing.older)
        first = (listing.page - 1) * listing.limit + 1
        last = first + len(rows.sessions) - 1
        # Others come and go while somebody turns pages: this one may reach beyond what there was in all.
        total = number(max(rows.total, last))
        st.markdown(texts.place(number(first), number(last), total, listing.page), width="content")
        st.selectbox(
            texts.PER_PAGE,
            PAGE_SIZES,
            index=PAGE_SIZES.index(listing.limit),
            key="page-size",
            width=150,
            disabled=listing.away,
            label_visibility="collapsed",
            format_func=texts.rows_per_page,
            on_change=_resize,
            args=(listing,),
        )


def _resize(listing: Listing) -> None:
    listing.resize(st.session_state["page-size"])
