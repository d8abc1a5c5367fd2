"""The choice of timeouts in the dialog, and what it means for the sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import streamlit as st

from presence_core import Session
from presence_core.models.staff import is_longer, predict
from presence_dashboard import access, texts
from presence_dashboard.components.session_facts import device_cell, html_table, text_cell, time_cell
from presence_dashboard.data.store import open_store
from presence_dashboard.format import DAY, HOUR, MINUTE, number, span

TIMEOUTS: Final = (5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 8 * HOUR, DAY, 7 * DAY, 30 * DAY, 90 * DAY)
"""Seconds that the dialog offers."""

LISTED: Final = 10
"""Sessions whose new expiry is shown, before "and N more"."""


@dataclass(frozen=True, slots=True)
class NewTimeouts:
    """The chosen timeouts, s. None: each session keeps its own."""

    idle: int | None = None
    absolute: int | None = None
    is_longer: bool = False  #: of one of the sessions


def choose_timeouts(number: int, sessions: Sequence[Session]) -> NewTimeouts:
    """Draw both choices, outside the form, because the table of the new expiry depends on them. number: of the dialog.

    An actor who may only shorten is offered what is longer for none of the sessions.
    """
    may_lengthen = access.current(touch=False).may("lengthen")
    if not may_lengthen:
        st.caption(texts.TIMEOUTS_ONLY_SHORTER)
    with st.container(horizontal=True, gap="small"):
        own = [session.idle_timeout for session in sessions]
        idle = _choose(f"idle-{number}", texts.TIMEOUT_IDLE, own, may_lengthen)
        own = [session.absolute_timeout for session in sessions]
        absolute = _choose(f"absolute-{number}", texts.TIMEOUT_ABSOLUTE, own, may_lengthen)
    most_on_behalf = open_store().presence.settings.on_behalf_timeout
    changed = [predict(session, idle, absolute, most_on_behalf) for session in sessions]
    _expiry_table(sessions, changed)
    return NewTimeouts(idle, absolute, any(map(is_longer, sessions, changed)))


def _choose(key: str, label: str, current: Sequence[int], may_lengthen: bool) -> int | None:
    """The options are texts, as a draft keeps them; "" leaves each session its own."""
    shortest, longest = min(current), max(current)
    now = span(shortest) if shortest == longest else texts.timeout_range(span(shortest), span(longest))
    labels = {"": texts.timeout_unchanged(now)} | {
        str(seconds): span(seconds)
        for seconds in TIMEOUTS
        if (may_lengthen or seconds <= shortest) and not seconds == shortest == longest
    }
    if st.session_state.get(key, "") not in labels:  # of a draft, and the role is another now
        del st.session_state[key]
    chosen = st.selectbox(label, list(labels), key=key, format_func=labels.__getitem__)
    return int(chosen) if chosen else None


def _expiry_table(sessions: Sequence[Session], changed: Sequence[Session]) -> None:
    now = datetime.now(UTC)
    ends = [
        text_cell(texts.TIMEOUTS_END_NOW) if session.expires_at <= now else time_cell(session.expires_at)
        for session in changed[:LISTED]
    ]  # fmt: skip
    listed = sessions[:LISTED]
    html_table(
        {
            texts.LABEL_DEVICE: [device_cell(session, with_address=True) for session in listed],
            texts.LABEL_LOGIN: [time_cell(session.login_at) for session in listed],
            texts.LABEL_LAST_ACTIVE: [time_cell(session.last_seen) for session in listed],
            texts.LABEL_EXPIRES: [time_cell(session.expires_at) for session in listed],
            texts.TIMEOUTS_NEW_END: ends,
        },
        texts.TIMEOUTS_TABLE,
    )
    if len(sessions) > LISTED:
        st.caption(texts.and_more(number(len(sessions) - LISTED)))
    st.caption(texts.TIMEOUTS_IF_USED)
