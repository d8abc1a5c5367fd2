"""What the text of the search box may mean besides what it found: a name with a mistake, a filter, a ticket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import streamlit as st

from presence_core import Presence, SessionFilter
from presence_core.text.search_text import fold
from presence_dashboard import texts
from presence_dashboard.components import people_list
from presence_dashboard.components.buttons import live_button
from presence_dashboard.data.session_list import SessionList
from presence_dashboard.data.session_query import ATTRIBUTE, CITY, SessionQuery, facets_for
from presence_dashboard.data.shared_reads import shared, ticket_used
from presence_dashboard.format import cut, name, number
from presence_dashboard.views.sessions.search_bar import (
    KEEP_FACETS,
    OTHER,
    declared_attributes,
    facet_label,
    filter_instead,
    read_values,
)

FEW: Final = 3
"""With so many sessions or fewer, the text may have been meant otherwise."""

MAX_FILTERS: Final = 3
_SHORTEST: Final = 3  # letters


class FilterHint(NamedTuple):
    """A filter that the text may be."""

    field: str
    value: str
    sessions: int | None  #: live ones; None: not known


def search_hints(listing: SessionList) -> None:
    """Draw the hints for the query that the rows answer, above the list. Nothing if there is none."""
    query, rows = listing.query, listing.rows
    if not query.text or query.exact or query.inside or listing.problem is not None or rows is None:
        return
    finds_few = listing.number == 1 and rows.next_cursor is None and len(rows.sessions) <= FEW
    meant = people_list.meant_texts(query.text) if finds_few and query.may_name_a_person else ()
    filters = [*filter_hints(query), *(_city_hints(query) if finds_few else ())]
    ticket = ticket_used(query.text)
    failures = None if rows.sessions else _failed_under(query.text)
    if not (meant or filters or ticket or failures):
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="search-hints"):
        people_list.did_you_mean(meant, "q")
        for hint in filters[:MAX_FILTERS]:
            label = texts.labelled(facet_label(hint.field), name(cut(hint.value, 40)))
            shown = label if hint.sessions is None else texts.facet_value(label, number(hint.sessions))
            live_button(
                shown, f"hint-{hint.field}-{hint.value}", filter_instead, hint.field, hint.value,
                icon=":material/filter_alt:", help=texts.HINT_FILTER_HELP,
            )  # fmt: skip
        if failures:
            label = texts.failed_sign_ins_under(name(cut(query.text, 40)), number(failures))
            address = {"view": "failed", "person": query.text}
            st.page_link("views/history/history.py", label=label, query_params=address)
        if ticket:
            label = texts.ticket_actions(name(cut(ticket, 40)))
            st.page_link("views/history/history.py", label=label, query_params={"view": "staff", "words": ticket})


def _failed_under(text: str) -> int | None:
    """How many sign-ins failed with this text as the name; None if that cannot be read."""

    def read(presence: Presence) -> int:
        return sum(failure.count for failure in presence.failed_logins(text, limit=100))

    return shared(("failed-under", text), read).value if text.strip() else None


def filter_hints(query: SessionQuery) -> list[FilterHint]:
    """Values that the text begins, or a word of them, those of most sessions first. Counts are shared by all tabs."""
    text, chosen = fold(query.text), {field for field, _ in query.facets}
    if not text or (len(text) < _SHORTEST and not text.isalpha()):
        return []
    fields = (*facets_for(exact=query.exact), *(ATTRIBUTE + attribute for attribute in declared_attributes()))
    found = [
        FilterHint(field, value, count)
        for field in fields
        if field not in chosen
        for value, count in (read_values(field).value or {}).items()
        if value != OTHER and _is_meant(text, fold(value))
    ]
    return sorted(found, key=lambda hint: -(hint.sessions or 0))


def _is_meant(text: str, value: str) -> bool:
    """A short text must be the whole value, such as a country."""
    if len(text) < _SHORTEST:
        return text == value
    return value.startswith(text) or f" {text}" in value


def _city_hints(query: SessionQuery) -> Iterator[FilterHint]:
    """The city, if one of the sessions that a call reads is in it: cities are not counted. Only with a place file."""
    chosen = {field for field, _ in query.facets}
    if CITY in chosen or any(char.isdigit() for char in query.text) or len(query.text) > 64:
        return
    if len(query.text) < _SHORTEST - (not query.text.isascii()) or not read_values("country").value:
        return
    found = shared(
        ("city", fold(query.text)),
        lambda presence: [session.place for session in presence.list_sessions(SessionFilter(city=query.text), limit=1)],
        keep=KEEP_FACETS,
    )
    yield from (FilterHint(CITY, place.city, None) for place in found.value or () if place and place.city)
