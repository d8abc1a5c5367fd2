"""What the list is asked for: one box that searches while somebody types, and filters beside it.

The page's address holds it all. A filter that is chosen stands there as a button that takes it away again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import streamlit as st

from presence_core import InvalidArgument, PresenceError
from presence_dashboard import questions, texts
from presence_dashboard.access import Actor
from presence_dashboard.format import code, cut, name, number, span
from presence_dashboard.questions import ATTRIBUTE, FACETS, IDLES, Question
from presence_dashboard.store import open_store
from presence_dashboard.tab import zone

PAUSE: Final = "100ms"
"""So long after the last key the list answers."""

MOST_VALUES: Final = 20
KEEP_FACETS: Final = 15.0
"""Seconds for which all tabs share the counts of a menu."""

_PERSON: Final = "sessions-person"
_LEFT: Final = "sessions-left"
_OTHER: Final = "(other)"  # values beyond those that are counted: no filter finds them


def declared() -> Sequence[str]:
    """The site's own attributes that are counted."""
    try:
        return open_store().presence.settings.facets
    except PresenceError:
        return ()


def search(actor: Actor) -> Question:
    """Draw it into the row that is open, and say what is asked for."""
    exact, own = bool(actor.masked), declared()
    text = _box(exact)
    question = questions.read(st.query_params, text or "", own, exact=exact)
    if question.inside:
        _chip(texts.CHIP_INSIDE, "inside")
    for field in FACETS:
        _facet(field, texts.FACET_LABELS[field])
    for attribute in own:
        _facet(ATTRIBUTE + attribute, name(cut(attribute, 24)))
    _login(question.login)
    _idle(question.idle)
    if not question.is_everybody:
        st.button(texts.CLEAR_FILTERS, key="clear", type="tertiary", on_click=_clear, args=(own,))
    return question


def link_faults(question: Question) -> dict[str, str]:
    """What is wrong with the page's address: parameter → a sentence that is safe for Markdown."""
    address = {name: st.query_params.get_all(name) for name in st.query_params}
    try:
        own: Sequence[str] | None = open_store().presence.settings.facets
    except PresenceError:
        own = None
    return questions.faults(address, question, own, datetime.now(UTC), zone())


def refuse_link(faults: dict[str, str]) -> None:
    """Say what is wrong, in place of a list that the link did not ask for."""
    with st.container(border=True, key="refused-link"):
        st.subheader(texts.LINK_TITLE, anchor=False)
        st.markdown("\n".join(f"- {sentence}" for sentence in faults.values()))
        st.markdown(texts.LINK_REFUSED)
        with st.container(horizontal=True, gap="small"):
            if set(st.query_params) - set(faults):
                label = texts.link_remove(len(faults))
                st.button(label, key="link-remove", type="primary", on_click=_remove, args=tuple(faults))
            st.button(texts.LINK_SHOW_ALL, key="link-show-all", on_click=_show_all)


def _show_all() -> None:
    st.session_state["q"] = ""
    _remove(*st.query_params)


def _box(exact: bool, *, bound: bool = True) -> str | None:
    return st.text_input(
        texts.SEARCH,
        key="q",
        type="search",
        live=PAUSE,
        bind="query-params" if bound else None,
        max_chars=256,
        placeholder=texts.SEARCH_HINT_MASKED if exact else texts.SEARCH_HINT,
        label_visibility="collapsed",
        autocomplete="off",
        width=330,
        on_change=_typed,
    )


def _typed() -> None:
    """Other text is looked for where text is looked for: inside names only where that was asked for it."""
    if st.query_params.get("inside") != (st.session_state["q"] or "").strip():
        _remove("inside")


def ask_for_person(text: str) -> None:
    """Have the next run go to the page of whoever this is: a callback cannot."""
    st.session_state[_PERSON] = text


def go_to_person() -> None:
    """Go there, if it was asked for; come back to the list as it was left. Call it before anything is drawn."""
    text = st.session_state.pop(_PERSON, None)
    left = st.session_state.pop(_LEFT, None)
    if text is not None:
        st.session_state[_LEFT] = _address()
        _box(False, bound=False)  # lets go of ``q``, which is the person's there: a bound one cannot be set
        st.switch_page("views/person.py", query_params={"q": text})
    if left and not _address():
        st.query_params.update(left)
        st.rerun()  # the box takes its text from the address that a run begins with


def _address() -> dict[str, str]:
    names = ("q", "inside", *FACETS, *(ATTRIBUTE + attribute for attribute in declared()), "login", "idle")
    return {name: st.query_params[name] for name in names if name in st.query_params}


def _chip(label: str, field: str) -> None:
    st.button(
        label, key=f"chip-{field}", icon=":material/close:", icon_position="right", help=texts.CHIP_HELP,
        on_click=_remove, args=(field,),
    )  # fmt: skip


def _choose(field: str, value: str) -> None:
    st.query_params[field] = value


def _remove(*fields: str) -> None:
    for field in fields:
        if field in st.query_params:
            del st.query_params[field]


def _clear(own: Sequence[str]) -> None:
    st.session_state["q"] = ""
    _remove(*FACETS, *(ATTRIBUTE + attribute for attribute in own), "login", "idle", "inside")


def look_inside(text: str) -> None:
    """Look for the text anywhere in names."""
    _choose("inside", text)


# -- Values with their counts ------------------------------------------------------------------------------------------


def _facet(field: str, label: str) -> None:
    chosen = st.query_params.get(field)
    if chosen:
        _chip(texts.chip(label, name(cut(chosen, 24))), field)
        return
    menu = st.popover(label, key=f"menu-{field}", on_change="rerun")
    if menu.open:  # what nobody looks at is not asked for
        with menu:
            _values(field)


def _values(field: str) -> None:
    known = field.removeprefix(ATTRIBUTE)
    reading = open_store().shared(("facets", known), lambda presence: presence.facets(known), keep=KEEP_FACETS)
    if reading.value is None:
        st.markdown(reading.failure or "")
        return
    found = [(value, count) for value, count in reading.value.items() if value != _OTHER]
    if not found:
        st.caption(texts.FACET_NONE)
        return
    shown = found[:MOST_VALUES]
    with st.container(gap=None, height=360 if len(shown) > 10 else "content"):
        for value, count in shown:
            st.button(
                texts.facet_value(name(cut(value, 40)), number(count)),
                key=f"choose-{field}-{value}",
                type="tertiary",
                on_click=_choose,
                args=(field, value),
            )
    more = f"{texts.facet_most(len(shown), number(len(found)))} " if len(shown) < len(found) else ""
    st.caption(more + texts.FACET_SCOPE)


# -- Times -------------------------------------------------------------------------------------------------------------


def _login(login: str) -> None:
    if login:
        _chip(texts.chip(texts.LOGIN_FILTER, login_words(login)), "login")
        return
    menu = st.popover(texts.LOGIN_FILTER, key="menu-login", on_change="rerun")
    if menu.open:
        with menu:
            with st.container(gap=None):
                for known, label in texts.LOGIN_PRESETS.items():
                    st.button(label, key=f"login-{known}", type="tertiary", on_click=_choose, args=("login", known))
            _range()


def _range() -> None:
    with st.form("login-range", border=False):
        st.datetime_input(texts.LOGIN_FROM, value=None, key="login-from")
        st.datetime_input(texts.LOGIN_TO, value=None, key="login-to")
        st.caption(texts.login_zone(code(str(zone()))))
        st.form_submit_button(texts.LOGIN_APPLY, on_click=_between)
    problem: str | None = st.session_state.pop("login-problem", None)
    if problem is not None:
        st.error(problem)


def _between() -> None:
    after: datetime | None = st.session_state["login-from"]
    before: datetime | None = st.session_state["login-to"]
    if after is None and before is None:
        st.session_state["login-problem"] = texts.LOGIN_RANGE_MISSING
        return
    if after is not None and before is not None and after >= before:
        st.session_state["login-problem"] = texts.LOGIN_BACKWARDS
        return
    here = zone()
    _choose("login", questions.between(*(at and at.replace(tzinfo=here) for at in (after, before))))


def login_words(login: str) -> str:
    """A range of login times for a reader, safe for Markdown."""
    if login in texts.LOGIN_PRESETS:
        return texts.LOGIN_PRESETS[login]
    try:
        after, before = questions.moments(login)
    except InvalidArgument:
        return code(cut(login, 40))
    return texts.login_between(_minute(after), _minute(before))


def _minute(at: datetime | None) -> str | None:
    return None if at is None else f"{at.astimezone(zone()):%Y-%m-%d %H:%M}"


def _idle(idle: str) -> None:
    if idle:
        _chip(texts.chip(texts.IDLE_FILTER, idle_words(idle)), "idle")
        return
    menu = st.popover(texts.IDLE_FILTER, key="menu-idle", on_change="rerun")
    if menu.open:
        with menu, st.container(gap=None):
            for seconds in IDLES:
                label = texts.idle_for(span(seconds))
                st.button(label, key=f"idle-{seconds}", type="tertiary", on_click=_choose, args=("idle", str(seconds)))


def idle_words(idle: str) -> str:
    """An idle time for a reader, safe for Markdown."""
    known = idle.isascii() and idle.isdecimal() and len(idle) < 10
    return texts.idle_for(span(int(idle))) if known else code(cut(idle, 24))


def in_words(question: Question) -> str:
    """The whole question for a reader, safe for Markdown."""
    parts = [code(cut(question.text, 60))] if question.text else []
    if question.inside:
        parts.append(texts.CHIP_INSIDE)
    for field, value in question.facets:
        label = texts.FACET_LABELS.get(field) or name(cut(field.removeprefix(ATTRIBUTE), 24))
        parts.append(texts.chip(label, name(cut(value, 40))))
    if question.login:
        parts.append(texts.chip(texts.LOGIN_FILTER, login_words(question.login)))
    if question.idle:
        parts.append(texts.chip(texts.IDLE_FILTER, idle_words(question.idle)))
    return " · ".join(parts) or texts.BULK_EVERYBODY
