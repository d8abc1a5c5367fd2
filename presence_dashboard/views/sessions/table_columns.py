"""The columns of the table of sessions: which ones, and the cells of a session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import streamlit as st

from presence_core import Block, Ended, ListOrder, Session
from presence_dashboard import texts
from presence_dashboard.components import notifications, session_facts
from presence_dashboard.components.record_table import Column, Marks, Row
from presence_dashboard.components.session_facts import time_of_day
from presence_dashboard.data.session_list import Rows, SessionList
from presence_dashboard.data.session_query import ATTRIBUTE
from presence_dashboard.format import author, cut, literal
from presence_dashboard.language import gettext
from presence_dashboard.roles import HIDDEN, Actor
from presence_dashboard.texts import english
from presence_dashboard.views.sessions.search_bar import declared_attributes

Cell = str | datetime | None


def _provider(session: Session) -> Cell:
    return texts.provider(session.place.network, session.place.network_id) if session.place else ""


def _email(session: Session) -> str:
    return next((alias for alias in session.aliases if "@" in alias), "")


COLUMNS: Final[dict[str, tuple[Column, Callable[[Session], Cell]]]] = {
    column.name: (column, cell)
    for column, cell in (
        (Column("uid", english.LABEL_UID), lambda session: session.uid),
        (Column("email", english.LABEL_EMAIL), _email),
        (Column("device", english.LABEL_DEVICE), lambda session: session.device),
        (Column("app", english.LABEL_APP), lambda session: " ".join(filter(None, (session.app, session.app_version)))),
        (Column("browser", english.LABEL_BROWSER), lambda session: texts.browser_on(session.browser, session.os)),
        (Column("ip", english.LABEL_IP, help=english.IP_HELP), lambda session: session.ip),
        (Column("login", english.LABEL_LOGIN, "time", sorts_all=True), lambda session: session.login_at),
        (Column("seen", english.LABEL_LAST_ACTIVE, "ago", sorts_all=True), lambda session: session.last_seen),
        (Column("expires", english.LABEL_EXPIRES, "ahead", english.EXPIRES_HELP), lambda session: session.expires_at),
        (Column("flags", english.LABEL_FLAGS), lambda session: ", ".join(session_facts.flags(session))),
        (Column("last_ip", english.LABEL_LAST_IP), lambda session: session.last_ip),
        (Column("place", english.LABEL_PLACE), lambda session: session.place.words if session.place else ""),
        (Column("network", english.LABEL_NETWORK), _provider),
        (Column("aliases", english.LABEL_ALIASES), lambda session: ", ".join(session.aliases)),
    )
}
"""Columns that can be chosen, with English labels, and their cells. The name is always shown."""

ORDERS: Final[dict[str, ListOrder]] = {"login": "login", "seen": "last_seen"}
"""The columns that sort the whole list."""

AT_FIRST: Final = ("uid", "email", "device", "app", "browser", "ip", "login", "seen", "expires")

_MASKED_BY: Final = {
    "name": "name",
    "email": "name",
    "aliases": "name",
    "device": "name",
    "ip": "ip",
    "last_ip": "ip",
    "place": "ip",
    "network": "ip",
}


def column_choice() -> None:
    """The menu of columns. The choice is kept while the tab is open."""
    st.session_state.setdefault("columns", list(AT_FIRST))  # a saved view sets it, too
    with st.popover(texts.COLUMNS_MENU, key="menu-columns"):
        st.multiselect(
            texts.COLUMNS_LABEL,
            [*COLUMNS, *(ATTRIBUTE + attribute for attribute in declared_attributes())],
            key="columns",
            persist_state="session",
            format_func=lambda name: _column(name).label if name in COLUMNS else literal(_attribute_of(name)),
        )


def table_columns(listing: SessionList, rows: Rows) -> list[Column]:
    """The name; the status, the block and the remarks where there is one to show; the columns that the reader chose."""
    return [
        Column("name", texts.LABEL_NAME, "name", texts.NAME_HELP),
        *([Column("status", texts.COLUMN_STATUS)] if _has_status(listing, rows) else []),
        *([Column("blocked", texts.LABEL_BLOCKED)] if rows.blocks else []),
        *([Column("remarks", texts.REMARKS)] if rows.remarks else []),
        *(_column(name) for name in st.session_state.get("columns") or AT_FIRST),
    ]


def _column(name: str) -> Column:
    if name not in COLUMNS:
        return Column(name, cut(literal(_attribute_of(name)), 24))
    column = COLUMNS[name][0]
    return replace(column, label=gettext(column.label), help=gettext(column.help or "") or None)


def table_rows(listing: SessionList, rows: Rows, columns: Sequence[Column], actor: Actor) -> Iterator[Row]:
    """The rows with the cells of these columns, masked for the actor."""
    shown = {column.name for column in columns}
    for session in rows.sessions:
        has_ended = session.ref in listing.ended
        why = _why(listing.ended[session.ref]) if has_ended else ""
        notes = (
            texts.EXACT_MATCH if session.ref in rows.exact else "",
            texts.FLAG_SIGN_IN if _must_sign_in(session) else "",
        )
        status = why or " · ".join(filter(None, notes))
        cells = {
            "name": session.name or session.uid,
            "status": status,
            "blocked": _blocked(rows.blocks.get(session.uid)),
            "remarks": str(rows.remarks.get(session.uid, "")),
        }
        for column in columns:
            if _MASKED_BY.get(column.name) in actor.masked:
                cells[column.name] = HIDDEN
        yield Row(
            session.ref,
            literal(cells["name"]),
            tuple(_cell(session, column.name, cells) for column in columns),
            why,
            session.ref in listing.selected,
            _marks(session, shown, actor),
        )


def _marks(session: Session, shown: Collection[str], actor: Actor) -> dict[str, Marks]:
    """Flags as badges behind the name, the place behind the address. Not where a column of their own is shown."""
    marks = {}
    if "flags" not in shown and (badges := session_facts.badges(session)):
        marks["name"] = Marks(badges=badges)
    if "place" not in shown and (place := session_facts.place(session, actor)) and place != HIDDEN:
        marks["ip"] = Marks(literal(place))
    return marks


def _cell(session: Session, name: str, known: dict[str, str]) -> Cell:
    if name in known:
        value: Cell = known[name]
    else:
        value = COLUMNS[name][1](session) if name in COLUMNS else _attribute(session, _attribute_of(name))
    return literal(value or "") if value is None or isinstance(value, str) else value


def _has_status(listing: SessionList, rows: Rows) -> bool:
    return bool(listing.ended or rows.exact or any(map(_must_sign_in, rows.sessions)))


def _must_sign_in(session: Session) -> bool:
    return session.sign_in_required_at is not None


def _why(ended: Ended | None) -> str:
    """Why a session has ended, and when, in the reader's time zone."""
    if ended is None:
        return texts.ENDED_ROW
    return texts.ended_row(
        ended.reason, ended.cause, literal(cut(session_facts.ended_by(ended), 40)), time_of_day(ended.at)
    )


def _blocked(block: Block | None) -> str:
    if block is None:
        return ""
    by = author(block.by, block.uid)
    return texts.block_summary(notifications.block_end(block), by, map(literal, block.tickets))


def _attribute_of(name: str) -> str:
    return name.removeprefix(ATTRIBUTE)


def _attribute(session: Session, attribute: str) -> str:
    value = session.attributes.get(attribute)
    return "" if value is None else session_facts.as_text(value)
