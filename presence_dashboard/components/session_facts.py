"""Facts of a session as several pages show them: labels with values, times, device, client, address, a small table."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlsplit

import streamlit as st

from presence_core import Ended, Origin, Place, Session, SignIn
from presence_core.schema.endings import PROVIDER_CAUSES
from presence_core.schema.record import FLAGS
from presence_dashboard import texts, ticket_links
from presence_dashboard.components.record_table import Link
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.store import open_store
from presence_dashboard.format import clock, cut, exact, literal, name, number, span
from presence_dashboard.roles import HIDDEN, Actor

MAX_ATTRIBUTES: Final = 20
"""Attributes of a session that are shown."""


def time_of_day(moment: datetime) -> str:
    """``10:31:05``, or ``21 Nov, 10:31:05`` for another day, in the reader's time zone. Stays true without a redraw."""
    at, today = moment.astimezone(zone()), datetime.now(zone()).date()
    if at.date() == today:
        return clock(at, zone())
    year = None if at.year == today.year else at.year
    return texts.date_and_time(at.day, at.month, year, clock(at, zone()))


def time_tag(moment: datetime, shown: str) -> str:
    """A time as HTML with the exact time as its tooltip. Safe: made of numbers only."""
    return f'<time datetime="{moment.astimezone(UTC).isoformat()}" title="{exact(moment)}">{shown}</time>'


def their_zone(record: Session | Ended, actor: Actor) -> tzinfo | None:
    """The time zone of the latest address; None if it is not known, or if the actor may not see addresses."""
    ip = None if "ip" in actor.masked else record.last_ip or record.ip
    return open_store().time_zone_of(ip) if ip else None


def zone_words(theirs: tzinfo | None, *, with_time: bool = False) -> str | None:
    """The time zone of the visitor, ``Asia/Tokyo (UTC+9)``, and what a clock shows there now. None if it is not known.

    Safe for Markdown: a zone of this machine has a name of letters, digits and ``/+-``.
    """
    if theirs is None:
        return None
    now = datetime.now(theirs)
    hours, minutes = int(f"{now:%z}"[1:3]), f"{now:%z}"[3:5]
    words = f"{str(theirs).replace('_', ' ')} (UTC{f'{now:%z}'[0]}{hours}{'' if minutes == '00' else f':{minutes}'})"
    return texts.now_there(words, f"{now:%H:%M}") if with_time else words


def time_there(moment: datetime, theirs: tzinfo | None) -> str:
    """`` · 18:31 there``: a time as the clock of the visitor shows it, with the day where it is not the reader's. Empty
    if the two clocks agree, or if the visitor's time zone is not known."""
    if theirs is None:
        return ""
    ours, at = moment.astimezone(zone()), moment.astimezone(theirs)
    if ours.utcoffset() == at.utcoffset():
        return ""
    clock_there = f"{at:%H:%M}" if at.date() == ours.date() else texts.weekday_and_time(at, f"{at:%H:%M}")
    return f" · {texts.there(clock_there)}"


def show_facts(facts: Mapping[str, str | datetime | None], theirs: tzinfo | None = None) -> None:
    """Draw labels with values (plain text or times). A value of None is left out. theirs: the visitor's time zone, in
    which times are shown too."""
    with st.container(gap="xxsmall"):
        for label, value in facts.items():
            if value is None:
                continue
            with st.container(horizontal=True, wrap=False, gap="small", vertical_alignment="top"):
                st.caption(label, width=76)
                if isinstance(value, datetime):
                    there = time_there(value, theirs)
                    shown = time_tag(value, time_of_day(value))
                    st.html(f"<div>{shown}<small>{there}</small></div>" if there else shown, width="stretch")
                elif label == texts.LABEL_TICKET and ticket_links.address(value):
                    st.markdown(ticket_links.markdown(value), width="stretch")
                else:
                    st.text(lines(value), width="stretch")


def lines(text: str) -> str:
    """Literal text that keeps its line breaks, as in reasons and messages."""
    return "\n".join(literal(line) for line in text.splitlines())


def ended_by(ended: Ended) -> str:
    """Who ended a session: staff, the user, or the identity provider; empty if no one did."""
    if ended.cause not in PROVIDER_CAUSES:
        return ended.by or ""
    return ended.by or urlsplit((ended.idp or {}).get("iss", "")).hostname or texts.NO_VALUE


def device_name(record: Session | Ended | SignIn, actor: Actor) -> str | None:
    """The device, masked as names: many people call a device by their own."""
    return record.device if actor.sees_names or not record.device else HIDDEN


def device(record: Session | Ended | SignIn, actor: Actor) -> str:
    """The same, short and safe for Markdown."""
    return name(cut(device_name(record, actor) or texts.PERSON_NO_DEVICE, 40))


def client(record: Session | Ended | SignIn) -> str | None:
    return texts.browser_on(record.browser, record.os) or None


def app(record: Session | Ended | SignIn) -> str | None:
    return " ".join(filter(None, (record.app, record.app_version))) or None


def address(record: Session | Ended, actor: Actor) -> str | None:
    """The address at login, masked if the actor may not see it."""
    return HIDDEN if record.ip and "ip" in actor.masked else record.ip


def place(record: Session | Ended | SignIn, actor: Actor) -> str | None:
    """City and country of the address at login, masked as the address."""
    return _masked(record.place.words if record.place else "", actor)


def origin(ip: str | None, place: Place | None, actor: Actor) -> str | None:
    """Address and place in one: ``192.0.2.7 (Lyon, FR)``, masked as the address."""
    where = place.words if place else ""
    if (ip or where) and "ip" in actor.masked:
        return HIDDEN
    return f"{ip} ({where})" if ip and where else ip or where or None


def provider(record: Session | Ended, actor: Actor) -> str | None:
    """The network of the address at login: its name and number."""
    found = record.place
    shown = texts.provider(found.network, found.network_id) if found else ""
    return _masked(shown, actor)


def authentication(record: Session | Ended) -> str | None:
    """How the visitor signed in, and whether with a second factor; None: the site did not say."""
    if not record.methods and not record.mfa:
        return None
    methods = ", ".join(texts.METHOD_WORDS.get(method, method) for method in record.methods)
    return " · ".join(filter(None, (methods, texts.MFA_WORDS["yes" if record.mfa else "no"])))


def attributes(record: Session | Ended, actor: Actor, facets: Sequence[str]) -> dict[str, str]:
    """The site's own fields: names, safe for Markdown → values. A masked actor sees those with facets, as in the list
    of sessions: others may have names or addresses in them."""
    known = {key: value for key, value in record.attributes.items() if not actor.masked or key in facets}
    shown = {name(cut(key, 40)): cut(as_text(value), 200) for key, value in [*known.items()][:MAX_ATTRIBUTES]}
    return shown | ({texts.and_more(number(len(known) - len(shown))): "…"} if len(known) > len(shown) else {})


def as_text(value: Any) -> str:
    """A value of an attribute."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def login_before(record: Session | Ended, actor: Actor) -> str | None:
    """Place and time of the login before a distant one."""
    if record.previous_login_at is None:
        return None
    before = record.previous_place.words if record.previous_place else ""
    return texts.place_at(_masked(before, actor) or "", time_of_day(record.previous_login_at))


def move(record: Session | Ended, actor: Actor) -> str | None:
    """What was before and after the last move: the places, or else networks and browsers, and when that was."""
    if record.move is None:
        return None
    before, after = record.move.before, record.move.after
    is_same_place = _where(before) == _where(after)
    sides = [_network(side) if is_same_place else _where(side) for side in (before, after)]
    sides = [_masked(words, actor) or texts.NO_VALUE for words in sides]
    if (before.os, before.browser) != (after.os, after.browser):
        browsers = [texts.browser_on(side.browser, side.os) or texts.NO_VALUE for side in (before, after)]
        sides = [f"{words}, {browser}" for words, browser in zip(sides, browsers, strict=True)]
    between = (record.move.at - record.move.last_seen).total_seconds()
    return f"{texts.moved(sides[0], sides[1], span(between))} · {time_of_day(record.move.at)}"


def _where(origin: Origin) -> str:
    return (origin.place.words if origin.place else "") or _network(origin)


def _network(origin: Origin) -> str:
    place = origin.place
    return (place.network if place and place.network else origin.network) or ""


def _masked(place_words: str, actor: Actor) -> str | None:
    return HIDDEN if place_words and "ip" in actor.masked else place_words or None


def html_table(columns: Mapping[str, Sequence[str]], alt: str, *, wide: Collection[str] = ()) -> None:
    """Draw a small table as HTML, so that times have UTC as their tooltip and a browser can print it.

    columns: label → cells of safe HTML, as ``time_cell``, ``text_cell`` and ``person_cell`` make them. wide: columns of
    long texts, which may have several lines.
    """
    labels = list(columns)
    head = "".join(f'<th scope="col">{escape(label)}</th>' for label in labels)
    opening = [  # a phone shows a row as a card with labels
        f'<td{" class=wide" if label in wide else ""} data-label="{escape(label)}">' for label in labels
    ]
    rows = zip(*columns.values(), strict=True)
    body = ("".join(f"{td}{cell}</td>" for td, cell in zip(opening, row, strict=True)) for row in rows)
    st.html(
        f'<div class="html-table" role="region" tabindex="0" aria-label="{escape(literal(alt))}"><table><thead>'
        f"<tr>{head}</tr></thead><tbody>{''.join(f'<tr>{cells}</tr>' for cells in body)}</tbody></table></div>"
    )


def time_cell(moment: datetime) -> str:
    return time_tag(moment, time_of_day(moment))


def text_cell(text: str | None) -> str:
    return "<br>".join(escape(literal(line)) for line in (text or "").splitlines())


def person_cell(uid: str, called: str | None) -> str:
    """The name, if known, and the user id, as a link to the person."""
    label = escape(literal(uid)) if called is None else f"<bdi>{escape(literal(called))}</bdi> ({escape(literal(uid))})"
    return f'<a href="person?q={quote(uid, safe="")}">{label}</a>'


def flag_names(record: Session | Ended | SignIn) -> tuple[str, ...]:
    """What is odd about a session or a login, named as in FLAG_WORDS."""
    odd = [flag for flag in FLAGS if getattr(record, flag, False)]
    is_on_behalf = getattr(record, "on_behalf_by", None) is not None
    return (*odd, "on_behalf") if is_on_behalf else tuple(odd)


def person_link(uid: str, called: str | None) -> Link:
    """The same as the cell of a ``record_table``."""
    label = literal(uid) if called is None else f"{literal(called)} ({literal(uid)})"
    return Link(label, f"person?q={quote(uid, safe='')}")


def flags(record: Session | Ended) -> list[str]:
    """The same in words."""
    return [texts.FLAG_WORDS[flag] for flag in flag_names(record)]


def login_flags(record: Session | Ended | SignIn) -> list[str]:
    """What was odd about the login of a session, in words: not what happened later."""
    later = {"moved", "old_token"}
    if not isinstance(record, SignIn) and record.previous_login_at is None:
        later.add("distant")  # since a move
    return [texts.FLAG_WORDS[flag] for flag in flag_names(record) if flag not in later]


def badges(record: Session | Ended) -> tuple[tuple[str, str], ...]:
    """The same for the narrow cells of a table: words of a badge, and its tooltip."""
    return tuple((texts.FLAG_BADGES[flag], texts.FLAG_WORDS[flag]) for flag in flag_names(record))


def device_cell(session: Session, *, with_address: bool = False) -> str:
    """Device and flags as a cell of ``html_table``; with address and place, if the table has no column for them."""
    marks = " ".join(f'<mark title="{escape(title)}">{escape(words)}</mark>' for words, title in badges(session))
    address = _address_lines(session) if with_address else ()
    return _lines(text_cell(session.device or texts.PERSON_NO_DEVICE), marks, *address)


def address_cell(session: Session) -> str:
    """Address at login and place as a cell of ``html_table``."""
    return _lines(*_address_lines(session))


def _address_lines(session: Session) -> tuple[str, str]:
    where = session.place.words if session.place else ""
    return text_cell(session.ip), f"<small>{text_cell(where)}</small>" if where else ""


def _lines(*lines: str) -> str:
    """Lines of a cell, of safe HTML. One element, because a card has the cell and its label in a row."""
    found = "<br>".join(filter(None, lines))
    return f"<div>{found}</div>" if found else ""


def session_preview(
    sessions: Sequence[Session], alt: str, *, total: int, found_by: Mapping[str, str] | None = None
) -> None:
    """These sessions, and how many more there are. ``found_by``: for each user id, how a search found the person."""
    found = {texts.COLUMN_FOUND_BY: [text_cell(found_by.get(session.uid)) for session in sessions]} if found_by else {}
    html_table(
        {
            texts.LABEL_NAME: [text_cell(session.name or session.uid) for session in sessions],
            texts.LABEL_UID: [text_cell(session.uid) for session in sessions],
            **found,
            texts.LABEL_DEVICE: [device_cell(session) for session in sessions],
            texts.LABEL_IP: [address_cell(session) for session in sessions],
            texts.LABEL_LOGIN: [time_cell(session.login_at) for session in sessions],
            texts.LABEL_LAST_ACTIVE: [time_cell(session.last_seen) for session in sessions],
        },
        alt,
    )
    if total > len(sessions):
        st.caption(texts.and_more(number(total - len(sessions))))
