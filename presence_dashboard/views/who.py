"""Some sessions as a small table: who an action is about."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from presence_core import Session
from presence_dashboard import texts
from presence_dashboard.format import literal


def who(sessions: Sequence[Session], alt: str, *, of: int) -> None:
    """These, and how many more there are. of: how many there are in all."""
    st.dataframe(
        {
            texts.COLUMN_NAME: [literal(one.name or one.uid) for one in sessions],
            texts.COLUMN_UID: [literal(one.uid) for one in sessions],
            texts.COLUMN_DEVICE: [literal(one.device or "") for one in sessions],
            texts.COLUMN_IP: [one.ip or "" for one in sessions],
            texts.COLUMN_LOGIN_EXACT: [one.login_at for one in sessions],
        },
        column_config={texts.COLUMN_LOGIN_EXACT: st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss")},
        hide_index=True,
        height="content",
        alt=alt,
    )
    if of > len(sessions):
        st.caption(texts.and_more(of - len(sessions)))
