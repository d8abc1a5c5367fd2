"""What is kept of people, and for how long, in one table: docs/privacy.md with the settings in force."""

from __future__ import annotations

import streamlit as st

from presence_core import Settings
from presence_dashboard import texts
from presence_dashboard.format import number


def kept(settings: Settings) -> list[tuple[str, str, str]]:
    """What, how long, and the setting that says so."""

    def long(name: str) -> str:
        seconds: int = getattr(settings, name)
        return texts.kept_for(seconds) if seconds else texts.KEPT_NOT

    days = settings.truncate_addresses_after
    told = {
        "idle_timeout": texts.kept_live(long("idle_timeout"), long("absolute_timeout")),
        "truncate_addresses_after": texts.KEPT_WHOLE if days is None else texts.kept_truncated(days),
        "max_events": texts.kept_latest(number(settings.max_events)),
        "keep_audit": texts.kept_both(long("keep_audit"), number(settings.max_audit)),
        "": texts.KEPT_UNTIL_LIFTED,
    }
    return [(what, told.get(name) or long(name), name) for name, what in texts.KEPT_KINDS.items()]


def draw(settings: Settings) -> None:
    with st.expander(texts.KEPT, key="kept"):
        st.caption(texts.KEPT_NOTE)
        columns = zip(*kept(settings), strict=True)
        headings = (texts.KEPT_WHAT, texts.KEPT_LONG, texts.KEPT_SETTING)
        table = {heading: list(column) for heading, column in zip(headings, columns, strict=True)}
        st.dataframe(table, hide_index=True, height="content", row_height=31, alt=texts.KEPT)
