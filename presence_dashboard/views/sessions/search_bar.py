"""The search box and the filters of the Sessions page. The box searches while the reader types.

The page's address keeps the whole query. A chosen filter is shown as a button that removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from presence_core import ListOrder, PresenceError, Session
from presence_core.schema.conditions import PLACE_FIELDS
from presence_core.text.typed_text import as_one_line
from presence_dashboard import texts
from presence_dashboard.components.buttons import button
from presence_dashboard.components.time_picker import time_choices, time_words
from presence_dashboard.data import session_query
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.person_state import meant_uid
from presence_dashboard.data.session_query import (
    ATTRIBUTE,
    CITY,
    IDLES,
    ORDER,
    SEEN,
    SessionQuery,
    facets_for,
    parameters,
)
from presence_dashboard.data.shared_reads import network_names
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.format import code, cut, name, number, span
from presence_dashboard.roles import Actor

PAUSE: Final = "100ms"
"""Time after the last key until the search runs."""

MAX_VALUES: Final = 20
MAX_METHODS: Final = 4  # shown on a button
_SECTION: Final = 172  # pixels
KEEP_FACETS: Final = 15.0
"""Seconds for which all tabs share the counts of a menu."""

_LONGEST: Final = 500
"""Characters that the box sends to the search, which refuses more than 256 with a sentence."""

_MENU: Final = "menu-filters"
_PERSON: Final = "sessions-person"
_SINGLE: Final = "sessions-single"
_SAVED_FILTERS: Final = "sessions-filters"
_APP: Final = "app"
_VERSION: Final = "app_version"
OTHER: Final = "(other)"  # rare values are counted together, and no filter finds them


def declared_attributes() -> Sequence[str]:
    """The site's own attributes with facets."""
    try:
        return open_store().presence.settings.facets
    except PresenceError:
        return ()


def search_bar(actor: Actor) -> SessionQuery:
    """Draw the search box and the filters, and return the query."""
    exact, attributes = bool(actor.masked), declared_attributes()
    text = _box(exact)
    with st.container(key="search-enter"):  # invisible, for page.js
        st.button(texts.OPEN_SINGLE, key="open-single", on_click=_wish_single)
    if exact and text:
        text = meant_uid(open_store(), text)
    query = session_query.query_of(st.query_params, text or "", attributes, exact=exact)
    chips = _chips(query)
    menu = st.popover(texts.filters_menu(len(chips)), key=_MENU, on_change="rerun")
    if menu.open:  # a closed menu reads nothing
        with menu, st.container(horizontal=True, gap="medium", key="filter-values"):
            _facets(attributes, exact)
            for field, draw in _SECTIONS.items():
                if not st.query_params.get(field):
                    draw()
        menu.caption(texts.FACET_SCOPE)
    for field, label in chips.items():
        _chip(label, field)
    if not query.is_everyone:
        st.button(texts.CLEAR_FILTERS, key="clear", type="tertiary", on_click=_clear, args=(attributes,))
    return query


def link_faults(query: SessionQuery) -> dict[str, str]:
    """What is wrong with the page's address: parameter → a sentence that is safe for Markdown."""
    address = {name: st.query_params.get_all(name) for name in st.query_params}
    try:
        attributes: Sequence[str] | None = open_store().presence.settings.facets
    except PresenceError:
        attributes = None
    wanted = address.pop("view", None)
    wrong = session_query.faults(address, query, attributes, datetime.now(UTC), zone())
    if wanted is not None:  # the page opens a view that it knows before this
        wrong["view"] = texts.view_unknown(code(cut(wanted[-1], 60)))
    return wrong


def refuse_link(faults: dict[str, str]) -> None:
    """Say what is wrong with the link, instead of showing a list for another query."""
    with st.container(border=True, key="refused-link"):
        st.subheader(texts.LINK_TITLE, anchor=False)
        st.markdown("\n".join(f"- {sentence}" for sentence in faults.values()))
        st.markdown(texts.LINK_REFUSED)
        with st.container(horizontal=True, gap="small"):
            if set(st.query_params) - set(faults):
                label = texts.link_remove(len(faults))
                st.button(label, key="link-remove", type="primary", on_click=_remove, args=tuple(faults))
            st.button(texts.LINK_SHOW_ALL, key="link-show-all", on_click=_show_all)


def _show_all() -> None:
    st.session_state["q"] = ""
    _remove(*st.query_params)


def _box(exact: bool, *, bound: bool = True) -> str | None:
    return st.text_input(
        texts.SEARCH,
        key="q",
        type="search",
        live=PAUSE,
        bind="query-params" if bound else None,
        placeholder=texts.EXACT_UID_HINT if exact else texts.SEARCH_HINT,
        label_visibility="collapsed",
        autocomplete="off",
        width=300,
        on_change=_typed,
    )


def _typed() -> None:
    """Put a pasted text into one line, and shorten one that is far too long for an address. A new text ends the search
    inside names, which was requested for the old text."""
    st.session_state["q"] = as_one_line(st.session_state["q"] or "")[:_LONGEST]
    if st.query_params.get("inside") != (st.session_state["q"] or "").strip():
        _remove("inside")


def _wish_single() -> None:
    st.session_state[_SINGLE] = True


def open_single(query: SessionQuery, found: Sequence[Session]) -> None:
    """After Enter in the search box: open the person of these sessions, if there is only one. Call it once in each
    run, with all sessions of the query, or with none: an Enter that opens no one is forgotten."""
    uids = {session.uid for session in found}
    if st.session_state.pop(_SINGLE, False) and query.text and len(uids) == 1:
        request_person(uids.pop())
        st.rerun()


def request_person(text: str) -> None:
    """Let the next run open this person. A callback cannot switch pages."""
    st.session_state[_PERSON] = text


def go_to_person() -> None:
    """Open a requested person, or restore the filters when the reader returns. Call it before anything is drawn."""
    text = st.session_state.pop(_PERSON, None)
    saved = st.session_state.pop(_SAVED_FILTERS, None)
    if text is not None:
        st.session_state[_SAVED_FILTERS] = address_of_query()
        _box(False, bound=False)  # unbinds ``q``, which the Person page uses too: a bound value cannot be set
        st.switch_page("views/person/person.py", query_params={"q": text})
    if saved and not address_of_query():
        st.query_params.update(saved)
        st.rerun()  # the box reads the address at the start of a run


def sort_by(order: ListOrder) -> None:
    """Read the whole list in this order. Call it in a callback."""
    if order == "login":
        _remove(ORDER)
    else:
        _choose(ORDER, order)


def set_address(query: Mapping[str, str]) -> None:
    """Search this instead of the current query. Call it in a callback."""
    _remove(*st.query_params)
    st.session_state["q"] = query.get("q", "")
    for field, value in query.items():
        if field != "q":
            _choose(field, value)


def address_of_query() -> dict[str, str]:
    names = ("q", *parameters(declared_attributes()), ORDER)
    return {name: st.query_params[name] for name in names if name in st.query_params}


def _chips(query: SessionQuery, length: int = 24) -> dict[str, str]:
    """The filters that are set, without the text of the search box: parameter of the address → label of its button.

    length: of a value, at most.
    """
    chips = {"inside": texts.CHIP_INSIDE} if query.inside else {}
    for field, value in query.facets:
        chips[field] = texts.labelled(facet_label(field), name(cut(_facet_words(field, value), length)))
    if query.login:
        chips["login"] = texts.labelled(texts.LABEL_LOGIN, time_words(query.login))
    if query.idle:
        chips["idle"] = texts.labelled(texts.IDLE_FILTER, _seconds_words("idle", query.idle))
    if query.seen:
        chips["seen"] = texts.labelled(texts.LABEL_LAST_ACTIVE, _seconds_words("seen", query.seen))
    if query.flag:
        chips["flag"] = _known_words(texts.FLAG_WORDS, query.flag)
    if query.method:
        names = [_known_words(texts.METHOD_WORDS, method) for method in session_query.methods_of(query.method)]
        chips["method"] = texts.labelled(texts.METHOD_FILTER, ", ".join(names[:MAX_METHODS]))
    if query.mfa:
        chips["mfa"] = _known_words(texts.MFA_WORDS, query.mfa)
    if query.below:
        chips["below"] = texts.labelled(texts.BELOW_FILTER, code(cut(query.below, length)))
    return chips


def _chip(label: str, field: str) -> None:
    look = {"icon": ":material/close:", "icon_position": "right", "help": texts.CHIP_HELP}
    button(label, f"chip-{field}", _remove, field, **look)


def _choose(field: str, value: str) -> None:
    st.query_params[field] = value
    st.session_state[_MENU] = False  # closed, so that it does not cover the list


def _remove(*fields: str) -> None:
    for field in fields:
        if field in st.query_params:
            del st.query_params[field]


def _clear(attributes: Sequence[str]) -> None:
    st.session_state["q"] = ""
    _remove(*parameters(attributes))


def filter_instead(field: str, value: str) -> None:
    """Filter by what the text means, instead of searching it. Call it in a callback."""
    st.session_state["q"] = ""
    _remove("inside")
    _choose(field, value)


def search_inside(text: str) -> None:
    """Search the text anywhere in names."""
    _choose("inside", text)


# -- Values with their counts ------------------------------------------------------------------------------------------


def _facets(attributes: Sequence[str], exact: bool) -> None:
    """The values of each facet that is not chosen yet. Those of the versions are below the apps. Facets of places are
    left out if there are none: most sites have no place file."""
    for field in (*facets_for(exact=exact), *(ATTRIBUTE + attribute for attribute in attributes)):
        if st.query_params.get(field) or (field == _VERSION and _is_under_app()):
            continue
        if field in PLACE_FIELDS and read_values(field).value == {}:
            continue
        with _section(facet_label(field)):
            _values(field)
            if field == _APP and _is_under_app():
                st.markdown(f"**{texts.FACET_LABELS[_VERSION]}**")
                _values(_VERSION)


def facet_label(field: str) -> str:
    if field == CITY:
        return texts.LABEL_CITY
    return texts.FACET_LABELS.get(field) or name(cut(field.removeprefix(ATTRIBUTE), 24))


def _facet_words(field: str, value: str) -> str:
    """A value of a facet: of a network its name, if it is known, and its number."""
    return texts.provider(network_names().get(value), value) if field == "network" else value


def _section(label: str) -> DeltaGenerator:
    """A part of the menu, under a heading that is safe for Markdown."""
    part = st.container(width=_SECTION, gap="xsmall")
    part.markdown(label if label.startswith(("**", "`")) else f"**{label}**")
    return part


def _is_under_app() -> bool:
    """Whether the versions are in the section of the app: neither is chosen yet."""
    return not (st.query_params.get(_APP) or st.query_params.get(_VERSION))


def read_values(field: str) -> Reading[dict[str, int]]:
    known = field.removeprefix(ATTRIBUTE)
    return open_store().shared(("facets", known), lambda presence: presence.facets(known), keep=KEEP_FACETS)


def _values(field: str) -> None:
    reading = read_values(field)
    if reading.value is None:
        st.markdown(reading.failure or "")
        return
    found = [(value, count) for value, count in reading.value.items() if value != OTHER]
    if not found:
        st.caption(texts.FACET_NONE)
        return
    shown = found[:MAX_VALUES]
    with st.container(gap=None, height=360 if len(shown) > 10 else "content", border=False, key=f"values-{field}"):
        for value, count in shown:
            label = texts.facet_value(name(cut(_facet_words(field, value), 40)), number(count))
            button(label, f"choose-{field}-{value}", _choose, field, value, type="tertiary")
    if len(shown) < len(found):
        st.caption(texts.facet_most(len(shown), number(len(found))))


# -- Other conditions, each in a section of its own --------------------------------------------------------------------


def _login() -> None:
    with _section(texts.LABEL_LOGIN):
        time_choices("login", _choose)


def _seconds(field: str, label: str, choices: Sequence[int]) -> None:
    _words(field, label, {str(seconds): _seconds_words(field, str(seconds)) for seconds in choices})


def _seconds_words(field: str, seconds: str) -> str:
    """An idle time, or a time since a session was seen, in words, safe for Markdown."""
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 10):
        return code(cut(seconds, 24))
    length = span(int(seconds))
    return texts.idle_for(length) if field == "idle" else texts.seen_within(length)


def _methods() -> None:
    with _words("method", texts.METHOD_FILTER, texts.METHOD_WORDS):
        _typed_value("method", texts.METHOD_TYPED, texts.METHOD_TYPED, texts.METHOD_MALFORMED)


def _version_below() -> None:
    with _section(texts.BELOW_FILTER):
        _typed_value("below", texts.BELOW_FILTER, texts.VERSION_CODE, texts.VERSION_MALFORMED)


_SECTIONS: Final[Mapping[str, Callable[[], object]]] = {
    "login": _login,
    "idle": lambda: _seconds("idle", texts.IDLE_FILTER, IDLES),
    "seen": lambda: _seconds("seen", texts.LABEL_LAST_ACTIVE, SEEN),
    "flag": lambda: _words("flag", texts.LABEL_FLAGS, texts.FLAG_WORDS),
    "method": _methods,
    "mfa": lambda: _words("mfa", texts.MFA_FILTER, texts.MFA_WORDS),
    "below": _version_below,
}
"""Parameter of the address → draws the section in which it is chosen."""


def _words(field: str, label: str, words: Mapping[str, str]) -> DeltaGenerator:
    """Draw a section with a button for each value."""
    section = _section(label)
    with section, st.container(gap=None):
        for value, shown in words.items():
            button(shown, f"{field}-{value}", _choose, field, value, type="tertiary")
    return section


def _typed_value(field: str, label: str, hint: str, rule: str) -> None:
    """A box for a value that is chosen when it is valid; else the rule that it breaks."""
    key = f"typed-{field}"
    st.text_input(
        label, key=key, label_visibility="collapsed", placeholder=hint, on_change=_choose_typed, args=(field,)
    )
    if st.session_state[key]:
        st.caption(rule)


def _choose_typed(field: str) -> None:
    value = st.session_state[f"typed-{field}"].strip()
    if value and session_query.is_valid(field, value):
        _choose(field, value)
        st.session_state[f"typed-{field}"] = ""


def _known_words(words: Mapping[str, str], value: str) -> str:
    return words.get(value) or code(cut(value, 24))


def in_words(query: SessionQuery) -> str:
    """The whole query in words, safe for Markdown."""
    parts = [code(cut(query.text, 60))] if query.text else []
    return " · ".join([*parts, *_chips(query, 40).values()]) or texts.BULK_EVERYONE
