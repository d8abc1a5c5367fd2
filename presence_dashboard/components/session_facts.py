"""Facts of a session as several pages show them: labels with values, times, device, client, address."""

from __future__ import annotations

from collections.abc import Mapping
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
