"""A choice that the page's address keeps: as a word that no language changes, not as the label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st


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
    """Draw the choice and return the chosen word. options: word → label. left_out: the word that the address omits."""
    if key not in st.session_state:
        value = st.query_params.get(field)
        st.session_state[key] = value if value in options else default
    look |= {"format_func": options.__getitem__, "on_change": _into_address, "args": (field, key, left_out)}
    if as_menu:
        chosen: str | None = st.selectbox(label, list(options), key=key, **look)
    else:
        chosen = st.segmented_control(label, list(options), key=key, required=True, **look)
    return chosen or default


def _into_address(field: str, key: str, left_out: str) -> None:
    if st.session_state[key] == left_out:
        st.query_params.pop(field, None)
    else:
        st.query_params[field] = st.session_state[key]
