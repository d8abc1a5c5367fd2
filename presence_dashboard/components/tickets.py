"""Tickets on a page: the box in which staff type one, and cells of tables that link to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any, Final

import streamlit as st

from presence_dashboard import texts, ticket_links
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


def ticket_column(tickets: Sequence[str | None], width: int | None = None) -> tuple[list[str], Any]:
    """The cells and the config of a column of a ``row_table``: links, if all tickets have one."""
    links = [ticket_links.address(ticket) or "" for ticket in tickets]
    label = texts.LABEL_TICKET
    if not any(links) or any(ticket and not link for ticket, link in zip(tickets, links, strict=True)):
        return [literal(ticket or "") for ticket in tickets], st.column_config.TextColumn(label, width=width)
    before, behind = map(re.escape, ticket_links.around_ticket())
    return links, st.column_config.LinkColumn(label, width=width, display_text=f"^{before}(.*?){behind}$")
