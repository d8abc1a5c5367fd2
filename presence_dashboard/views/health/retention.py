"""The table of stored personal data on the Health page: docs/run/privacy.md with the settings in force."""

from __future__ import annotations

import streamlit as st

from presence_core import Settings
from presence_core.settings import DAY
from presence_dashboard import texts
from presence_dashboard.format import number


def retention_rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Data, retention and setting of each row."""

    def duration(name: str) -> str:
        seconds: int = getattr(settings, name)
        return texts.retention_for(seconds) if seconds else texts.RETENTION_NONE

    days, sign_ins = settings.truncate_addresses_after, settings.keep_sign_ins
    special = {
        "idle_timeout": texts.retention_live(duration("idle_timeout"), duration("absolute_timeout")),
        "truncate_addresses_after": texts.RETENTION_NOT_TRUNCATED if days is None else texts.retention_truncated(days),
        "keep_people": texts.retention_for(settings.people_kept) if settings.people_kept else texts.RETENTION_NONE,
        "keep_sign_ins": texts.retention_for(sign_ins * DAY) if sign_ins else texts.RETENTION_NONE,
        "max_events": texts.retention_latest(number(settings.max_events)),
        "keep_audit": texts.retention_both(duration("keep_audit"), number(settings.max_audit)),
        "": texts.RETENTION_UNTIL_REMOVED,
    }
    return [(data, special.get(name) or duration(name), name) for name, data in texts.RETENTION_KINDS.items()]


def retention_table(settings: Settings) -> None:
    with st.expander(texts.RETENTION, key="retention"):
        st.caption(texts.RETENTION_NOTE)
        columns = zip(*retention_rows(settings), strict=True)
        headings = (texts.HEALTH_DATA, texts.RETENTION_TIME, texts.RETENTION_SETTING)
        table = {heading: list(column) for heading, column in zip(headings, columns, strict=True)}
        st.dataframe(table, hide_index=True, height="content", row_height=31, alt=texts.RETENTION)
