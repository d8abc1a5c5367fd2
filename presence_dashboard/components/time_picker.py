"""Choices that the page's address keeps: one of some words, and a range of time, the same on every page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import streamlit as st

from presence_core import InvalidArgument
from presence_dashboard import texts
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.format import code, cut
from presence_dashboard.time_range import PRESETS, format_range, parse_range, time_of_since

Choose = Callable[[str, str], None]
"""Called in a callback with the parameter of the address and its new value."""


def time_menu(field: str, *, default: str = "") -> str:
    """A menu on its own. Returns the range, ``default`` without a choice. An empty default offers "Any time"."""
    chosen = st.query_params.get(field) or default
    label = texts.time_menu(time_words(chosen)) if chosen else texts.TIME_ANY
    menu = st.popover(label, key=_menu(field), on_change="rerun", icon=":material/schedule:")
    if menu.open:
        with menu:
            if chosen and not default:
                st.button(texts.TIME_ANY, key=f"{field}-any", type="tertiary", on_click=_into_address, args=(field, ""))
            time_choices(field, _into_address)
    return chosen


def time_choices(field: str, choose: Choose) -> None:
    """The choices without a menu."""
    with st.container(gap=None):
        for preset in PRESETS:
            label = time_words(preset)
            st.button(label, key=f"{field}-{preset}", type="tertiary", on_click=choose, args=(field, preset))
    with st.form(f"{field}-range", border=False):
        st.datetime_input(texts.TIME_FROM, value=None, key=f"{field}-from", format="YYYY-MM-DD")
        st.datetime_input(texts.TIME_TO, value=None, key=f"{field}-to", format="YYYY-MM-DD")
        st.form_submit_button(texts.TIME_APPLY, on_click=_between, args=(field, choose))
    problem: str | None = st.session_state.pop(f"{field}-problem", None)
    if problem is not None:
        st.warning(problem)


def time_words(chosen: str) -> str:
    """A range in words, in the reader's time zone, safe for Markdown."""
    if chosen in texts.TIME_PRESETS:
        return texts.TIME_PRESETS[chosen]
    since = time_of_since(chosen)
    if since is not None:
        return texts.time_since(since)
    try:
        after, before = parse_range(chosen)
    except InvalidArgument:
        return code(cut(chosen, 40))
    return texts.time_between(_time(after), _time(before))


def _between(field: str, choose: Choose) -> None:
    after: datetime | None = st.session_state[f"{field}-from"]
    before: datetime | None = st.session_state[f"{field}-to"]
    if after is None and before is None:
        st.session_state[f"{field}-problem"] = texts.TIME_MISSING
    elif after is not None and before is not None and after >= before:
        st.session_state[f"{field}-problem"] = texts.TIME_BACKWARDS
    else:
        choose(field, format_range(*(at and at.replace(tzinfo=zone()) for at in (after, before))))


def _into_address(field: str, chosen: str) -> None:
    if chosen:
        st.query_params[field] = chosen
    else:
        st.query_params.pop(field, None)
    st.session_state[_menu(field)] = False


def _menu(field: str) -> str:
    return f"menu-{field}"


def _time(at: datetime | None) -> str | None:
    """With the second where it is not a whole minute."""
    return None if at is None else f"{at.astimezone(zone()):{'%Y-%m-%d %H:%M:%S' if at.second else '%Y-%m-%d %H:%M'}}"


# -- One of some words -------------------------------------------------------------------------------------------------


def address_choice(
    field: str,
    key: str,
    label: str,
    options: Mapping[str, str],
    *,
    default: str = "",
    left_out: str = "",
    as_menu: bool = False,
    **look: Any,
) -> str:
    """Draw the choice and return the chosen word, which no language changes. options: word → label.

    left_out: the word that the address omits.
    """
    if key not in st.session_state:
        value = st.query_params.get(field)
        st.session_state[key] = value if value in options else default
    look |= {"format_func": options.__getitem__, "on_change": _word_into_address, "args": (field, key, left_out)}
    if as_menu:
        chosen: str | None = st.selectbox(label, list(options), key=key, **look)
    else:
        chosen = st.segmented_control(label, list(options), key=key, required=True, **look)
    return chosen or default


def _word_into_address(field: str, key: str, left_out: str) -> None:
    if st.session_state[key] == left_out:
        st.query_params.pop(field, None)
    else:
        st.query_params[field] = st.session_state[key]
