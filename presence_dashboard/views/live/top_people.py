"""The people with the most sessions, devices, networks or countries now, as the worker found them."""

from __future__ import annotations

from typing import Final

import streamlit as st

from presence_core import TopCount
from presence_dashboard import access, texts
from presence_dashboard.components.figures import show_placeholder
from presence_dashboard.components.session_facts import html_table, person_cell
from presence_dashboard.data.browser_tab import local_time
from presence_dashboard.data.shared_reads import names_of, shared
from presence_dashboard.format import number

SHOWN: Final = 10
KEEP: Final = 59.5


def top_people() -> None:
    """Draw the list. Call it alone in its container, for roles that see people."""
    st.fragment(_list)()


def _list() -> None:
    st.markdown(f"**{texts.LIVE_TOP}**")
    kinds: dict[TopCount, str] = {
        "sessions": texts.SESSIONS,
        "devices": texts.LIVE_TOP_DEVICES,
        "networks": texts.LIVE_TOP_NETWORKS,
        "countries": texts.LIVE_TOP_COUNTRIES,
    }
    kind: TopCount = st.segmented_control(
        texts.LIVE_TOP, list(kinds), default="sessions", format_func=kinds.__getitem__, required=True, key="top-kind",
        wrap=True, label_visibility="collapsed",
    )  # fmt: skip
    reading = shared(("top", kind), lambda presence: (presence.top_people(kind),), keep=KEEP)
    if reading.value is None:
        show_placeholder(reading)
        return
    [top] = reading.value
    if top is None:
        st.caption(texts.LIVE_TOP_UNREAD)
        return
    people = top.people[:SHOWN]
    if people:
        names = names_of([person.uid for person in people], access.current())
        html_table(
            {
                texts.LABEL_PERSON: [person_cell(person.uid, names.get(person.uid)) for person in people],
                kinds[kind]: [number(person.count) for person in people],
            },
            texts.LIVE_TOP,
        )
    else:
        st.caption(texts.LIVE_TOP_NONE)
    st.caption(texts.live_top_as_of(local_time(top.at)))
