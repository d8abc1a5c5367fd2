"""Facts of a session as several pages show them: labels with values, times, device, client, address, a small table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import streamlit as st

from presence_core import Ended, Session
from presence_dashboard import texts, ticket_links
from presence_dashboard.access import Actor
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.format import cut, exact, literal, name
from presence_dashboard.roles import HIDDEN


def time_of_day(moment: datetime) -> str:
    """``10:31:05``, or ``21 Nov, 10:31:05`` for another day, in the reader's time zone. Stays true without a redraw."""
    at, today = moment.astimezone(zone()), datetime.now(zone()).date()
    if at.date() == today:
        return f"{at:%H:%M:%S}"
    year = "" if at.year == today.year else f" {at.year}"
    return f"{at.day} {at:%b}{year}, {at:%H:%M:%S}"


def time_tag(moment: datetime, shown: str) -> str:
    """A time as HTML with the exact time as its tooltip. Safe: made of numbers only."""
    return f'<time datetime="{moment.astimezone(UTC).isoformat()}" title="{exact(moment)}">{shown}</time>'


def show_facts(facts: Mapping[str, str | datetime | None]) -> None:
    """Draw labels with values (plain text or times). A value of None is left out."""
    for label, value in facts.items():
        if value is None:
            continue
        with st.container(horizontal=True, wrap=False, gap="small", vertical_alignment="top"):
            st.caption(label, width=76)
            if isinstance(value, datetime):
                st.html(time_tag(value, time_of_day(value)), width="stretch")
            elif label == texts.LABEL_TICKET and ticket_links.address(value):
                st.markdown(ticket_links.markdown(value), width="stretch")
            else:
                st.text(lines(value), width="stretch")


def lines(text: str) -> str:
    """Literal text that keeps its line breaks, as in reasons and messages."""
    return "\n".join(literal(line) for line in text.splitlines())


def device(record: Session | Ended) -> str:
    """The device name, short and safe for Markdown."""
    return name(cut(record.device or texts.PERSON_NO_DEVICE, 40))


def client(record: Session | Ended) -> str | None:
    """Browser and system."""
    return texts.browser_on(record.browser, record.os) or None


def app(record: Session | Ended) -> str | None:
    return " ".join(filter(None, (record.app, record.app_version))) or None


def address(record: Session | Ended, actor: Actor) -> str | None:
    """The address at login, masked if the actor may not see it."""
    return HIDDEN if record.ip and "ip" in actor.masked else record.ip


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
            texts.LABEL_LOGIN: [session.login_at for session in sessions],
        },
        column_config={
            texts.LABEL_LOGIN: st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", timezone=str(zone()))
        },
        hide_index=True,
        height="content",
        alt=alt,
    )
    if total > len(sessions):
        st.caption(texts.and_more(total - len(sessions)))
