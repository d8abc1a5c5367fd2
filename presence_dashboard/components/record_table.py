"""A table of records as HTML, with cards instead of rows on a phone. ``browser_files/record_table`` draws it.

Streamlit serves its script from our own origin, so the Content-Security-Policy stays as strict as it is. A browser gets
only the cells of the columns that are shown, and names rows by ref.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

import presence_dashboard
from presence_dashboard import texts
from presence_dashboard.data.browser_tab import this_tab, zone

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

_PACKAGE: Final = "presence_dashboard"
_NAME: Final = "record_table"
_COMPONENT: Final = f"{_PACKAGE}.{_NAME}"

_HTML: Final = '<div class="record-table" style="visibility: hidden"></div>'
"""Visible once its style sheet is there."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column and how its cells are shown: text, the name that opens the person, a text with a link, or a time."""

    name: str
    label: str
    kind: Literal["text", "name", "link", "time", "ago", "ahead"] = "text"
    help: str | None = None
    sorts_all: bool = False  #: its head sorts the whole list, by ``on_order``; others sort the rows that are shown


@dataclass(frozen=True, slots=True)
class Marks:
    """What a cell shows behind its text, in the same line: a quiet note, and badges as pairs of a word and its
    explanation."""

    note: str = ""
    badges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A text that opens a person in this tab, or an address in another."""

    text: str
    address: str | None


Cell = str | datetime | Link | None


@dataclass(frozen=True, slots=True)
class Row:
    """A row. The browser gets all of it: mask first, and pass texts through ``format.literal``."""

    ref: str  #: the browser sends it back with an action
    label: str  #: the row in a sentence
    cells: tuple[Cell, ...]  #: one per column
    ended: str = ""  #: why it has ended; such a row is struck through and cannot be ticked or kicked
    ticked: bool = False
    marks: Mapping[str, Marks] = field(default_factory=dict)  #: by column; of texts and names only


@dataclass(frozen=True, slots=True)
class Ticks:
    """The ticked rows of the page, as the browser sends them."""

    list: str  #: ``key`` of the table that it showed
    sequence: int  #: to be given back, so that the browser knows which of its ticks have arrived
    refs: frozenset[str]


def record_table(
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    key: str,
    shown: str,
    caption: str,
    back: str,
    now: datetime,
    order: tuple[str, bool] | None = None,
    picked: str | None = None,
    selected: int = 0,
    sequence: int = 0,
    can_act: bool = True,
    on_open: Callable[[], None] | None = None,
    on_pick: Callable[[], None] | None = None,
    on_tick: Callable[[], None] | None = None,
    on_kick: Callable[[], None] | None = None,
    on_order: Callable[[], None] | None = None,
) -> None:
    """Draw the table.

    key: of the widget, for ``ticks_of`` and ``ref_of`` in the callbacks. shown: names these rows; changes with each
    read. back: the words for a return to ``order``. now: by the clock of the data. order: column and whether
    descending, in which ``rows`` are. picked: the row whose details are shown. selected: ticked rows on all pages.
    on_open: a name opens the person. on_pick: a row shows its details. on_tick and on_kick: without them, the table has
    neither check boxes nor kick buttons, and the browser cannot send either. can_act: False disables the kick buttons.
    """
    tab = this_tab()
    data = {
        "list": shown,
        "now": _milliseconds(now),
        "zone": str(zone()),
        "every": 0 if tab.away else tab.tick or 0,
        "caption": caption,
        "columns": [
            {
                "name": column.name,
                "label": column.label,
                "kind": column.kind,
                "help": column.help,
                "sortsAll": column.sorts_all and on_order is not None,
            }
            for column in columns
        ],
        "rows": [
            {
                "ref": row.ref,
                "label": row.label,
                "cells": [_sent_cell(cell) for cell in row.cells],
                "links": {
                    column.name: cell.address
                    for column, cell in zip(columns, row.cells, strict=True)
                    if isinstance(cell, Link)
                },
                "ended": row.ended,
                "ticked": row.ticked,
                "marks": {name: {"note": marks.note, "badges": marks.badges} for name, marks in row.marks.items()},
            }
            for row in rows
        ],
        "order": None if order is None else {"name": order[0], "descending": order[1]},
        "selected": selected,
        "sequence": sequence,
        "picked": picked,
        "canOpen": on_open is not None,
        "canPick": on_pick is not None,
        "canTick": on_tick is not None,
        "canKick": on_kick is not None,
        "canAct": can_act,
        "words": texts.TABLE_WORDS
        | {"unsort": back, "keys": texts.table_keys(ticks=on_tick, kicks=on_kick, opens=on_open, shows=on_pick)},
    }
    _make_known()
    _renderer()(
        key=key,
        data=data,
        on_open_change=on_open,
        on_pick_change=on_pick,
        on_ticks_change=on_tick,
        on_kick_change=on_kick,
        on_order_change=on_order,
    )


def ticks_of(key: str) -> Ticks | None:
    """The ticks that the browser has just sent; None if they are malformed."""
    sent = _sent(key).get("ticks")
    if not isinstance(sent, Mapping):
        return None
    shown, sequence, refs = sent.get("list"), sent.get("sequence"), sent.get("refs")
    if not (isinstance(shown, str) and isinstance(sequence, int) and isinstance(refs, list)):
        return None
    return Ticks(shown, min(max(sequence, 0), 2**31), frozenset(ref for ref in refs if isinstance(ref, str)))


def ref_of(key: str, action: Literal["kick", "open", "pick"]) -> str | None:
    """The row whose button was pressed, as the browser says. None: no row; of a kick, all ticked rows; of
    a pick, that the details are closed."""
    ref = _sent(key).get(action)
    return ref if isinstance(ref, str) else None


def column_of(key: str) -> str | None:
    """The column by which the whole list is to be sorted, as the browser says."""
    name = _sent(key).get("order")
    return name if isinstance(name, str) else None


def _sent(key: str) -> Mapping[str, Any]:
    state = st.session_state.get(key)
    return state if isinstance(state, Mapping) else {}


def _sent_cell(cell: Cell) -> str | int | None:
    return _milliseconds(cell) if isinstance(cell, datetime) else cell.text if isinstance(cell, Link) else cell


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _make_known() -> None:
    """Tell Streamlit where the files are, as the manifest of an installed component would."""
    manager = get_bidi_component_manager()
    if manager.get_component_path(_COMPONENT) is None:
        files = ComponentConfig(_NAME, f"browser_files/{_NAME}")
        manager.register_from_manifest(
            ComponentManifest(_PACKAGE, "1", [files]),
            Path(presence_dashboard.__file__).parent,
        )


@cache
def _renderer() -> ComponentRenderer:
    return st.components.v2.component(_COMPONENT, html=_HTML, css=f"{_NAME}.css", js=f"{_NAME}.js")
