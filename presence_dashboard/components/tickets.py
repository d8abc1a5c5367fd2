"""Tickets on a page: the box in which staff type one, and cells of tables that link to it."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import streamlit as st

from presence_dashboard import texts, ticket_links
from presence_dashboard.components.record_table import Link
from presence_dashboard.format import literal

_MAX_TYPED: Final = 500
"""Characters of the box: a pasted address is longer than a ticket."""


def ticket_box(key: str, *, help: str | None = None, in_form: bool = False) -> str | None:
    """A box for a ticket. Of a pasted address it takes the ticket."""
    tidy: dict[str, Any] = {} if in_form else {"on_change": _tidy, "args": (key,)}
    return ticket_links.ticket_of(st.text_input(texts.TICKET, key=key, max_chars=_MAX_TYPED, help=help, **tidy)) or None


def _tidy(key: str) -> None:
    st.session_state[key] = ticket_links.ticket_of(st.session_state[key])


def ticket_cell(ticket: str | None) -> str:
    """A ticket as safe HTML. page.js opens its link in another tab."""
    link, label = ticket_links.address(ticket), escape(literal(ticket_links.ticket_of(ticket)))
    return f'<a href="{escape(link)}">{label}</a>' if link else label


def ticket_link(ticket: str | None) -> Link:
    """The cell of a ``record_table``."""
    return Link(literal(ticket_links.ticket_of(ticket)), ticket_links.address(ticket))
