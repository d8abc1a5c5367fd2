"""A small table of the sessions that an action affects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from presence_core import Session
from presence_dashboard import texts
from presence_dashboard.format import literal


def session_preview(
    sessions: Sequence[Session], alt: str, *, total: int, found_by: Mapping[str, str] | None = None
) -> None:
    """These sessions, and how many more there are. ``found_by``: for each user id, how a search found the person."""
    found = {texts.COLUMN_FOUND_BY: [found_by.get(session.uid, "") for session in sessions]} if found_by else {}
    st.dataframe(
        {
            texts.LABEL_NAME: [literal(session.name or session.uid) for session in sessions],
            texts.LABEL_UID: [literal(session.uid) for session in sessions],
            **found,
            texts.LABEL_DEVICE: [literal(session.device or "") for session in sessions],
            texts.LABEL_IP: [session.ip or "" for session in sessions],
            texts.COLUMN_LOGIN_EXACT: [session.login_at for session in sessions],
        },
        column_config={texts.COLUMN_LOGIN_EXACT: st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss")},
        hide_index=True,
        height="content",
        alt=alt,
    )
    if total > len(sessions):
        st.caption(texts.and_more(total - len(sessions)))
