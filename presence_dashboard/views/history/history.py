"""The History page: ended sessions, blocks in force, bulk kicks and staff actions. A Streamlit script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, cast

import streamlit as st

from presence_core import AuditEntry, Block, Ended, FailedLogin, InvalidArgument, Job
from presence_core.text.addresses import parse_network
from presence_dashboard import access, failure_facts, texts, ticket_links
from presence_dashboard.actions.history_export import history_export
from presence_dashboard.components import export_dialog, people_list
from presence_dashboard.components.buttons import live_button
from presence_dashboard.components.pagination import load_rows, pager, record_list, refresh_bar
from presence_dashboard.components.record_table import Cell, Column
from presence_dashboard.components.tickets import ticket_link
from presence_dashboard.components.time_picker import address_choice, time_menu
from presence_dashboard.data import history_query
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.history_query import (
    EXPORT,
    FIELDS,
    VIEWS,
    HistoryQuery,
    HistoryView,
    count_entries,
    page_reader,
)
from presence_dashboard.data.paged_list import PagedList, this_paged_list
from presence_dashboard.data.person_state import PersonMatches, find
from presence_dashboard.data.shared_reads import names_of, now, shared
from presence_dashboard.data.store import Reading, open_store
from presence_dashboard.error_sentences import plain
from presence_dashboard.format import author, literal, minute, number, outcome
from presence_dashboard.language import gettext
from presence_dashboard.roles import HIDDEN, Actor
from presence_dashboard.texts import english
from presence_dashboard.time_range import Period, resolve
from presence_dashboard.views.history import row_details

access.stop_without_gate()


def page() -> None:
    actor = access.current()
    has_returned = "history-view" not in st.session_state  # Streamlit dropped it with the page
    view = _view()
    paged: PagedList[Any] = this_paged_list(view)
    if has_returned or st.session_state.get("history-shown") != view:
        paged.refresh()
    st.session_state["history-shown"] = view
    try:
        query, reading = _filters(view, paged, actor)
    except InvalidArgument:
        st.warning(texts.TIME_MALFORMED)
        st.button(texts.HISTORY_CLEAR, key="clear", on_click=_clear)
        return
    if isinstance(reading.error, InvalidArgument):
        st.warning(plain(reading.error))
        return
    if query.ip is not None and parse_network(query.ip) is None:
        st.warning(texts.FAILED_IP_MALFORMED)
        return
    found = reading.value
    if found is not None and found.uid is None and found.others:
        people_list.offer(found.others, "person")
        return
    if found is not None:
        people_list.offer_others(found, "person")
        if found.uid is None and not actor.masked:
            people_list.did_you_mean(people_list.meant_texts(query.person or ""), "person")
    read_page, count = page_reader(view, open_store(), query, actor), partial(count_entries, view, open_store(), query)
    rows = load_rows(paged, query, read_page, height=320, may_retry=True, count=partial(count, actor))
    if rows:
        _table(view, query, paged, rows, actor)
    elif rows is not None:
        _empty(view, query, paged)
    export_dialog.dialog()


def _view() -> HistoryView:
    labels: dict[str, str] = {view: texts.HISTORY_VIEWS[view] for view in VIEWS}
    view = address_choice(
        "view", "history-view", texts.HISTORY_VIEW, labels, default=VIEWS[0], label_visibility="collapsed", wrap=True
    )
    return cast(HistoryView, view)


# -- Filters -----------------------------------------------------------------------------------------------------------


def _filters(view: HistoryView, paged: PagedList[Any], actor: Actor) -> tuple[HistoryQuery, Reading[PersonMatches]]:
    """The query, and the people whom the text in the box may mean."""
    values: dict[str, Any] = {}
    found: Reading[PersonMatches] = Reading()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="filters"):
        for field in FIELDS[view]:
            values[field] = _FIELDS[field]()
        if values.get("person"):
            found = find(open_store(), values["person"], by_name=not actor.masked)
            values["person"] = _uid(values["person"], found)
        if "words" in values:
            values["words"] = ticket_links.ticket_of(values["words"]) or None
        if values.get("by") and not _is_staff(values["by"]):
            values["by"], values["by_contains"] = None, values["by"]
        values["since"], values["until"] = _period(time_menu("time"), paged)
        query = HistoryQuery(**values)
        if not query.is_everything:
            st.button(texts.HISTORY_CLEAR, key="clear", type="tertiary", on_click=_clear)
    return query, found


def _person() -> str | None:
    """The box that asks for a person. It takes what the boxes of Sessions and Person take."""
    text = st.text_input(
        texts.LABEL_PERSON,
        key="person",
        type="search",  # the key "/" focuses it
        bind="query-params",
        placeholder=texts.EXACT_UID_HINT if access.current().masked else texts.HISTORY_PERSON_HINT,
        width=270,
        on_change=people_list.tidy,
        args=("person",),
    )
    return text if text and text.strip() else None  # a user id may have spaces around it


def _uid(text: str, found: Reading[PersonMatches]) -> str:
    """The user id that the text means. While Redis is away, the one that it meant before; of no one, the text."""
    if found.failure is None:
        st.session_state["history-uid"] = text, (found.value.uid if found.value else None) or text.strip()
    before, uid = st.session_state.get("history-uid", (None, ""))
    return uid if before == text else text.strip()


def _is_staff(text: str) -> bool:
    """Whether this is the whole name of a staff member, and no part of one."""
    reading = shared("staff-names", lambda presence: {member.name for member in presence.staff()}, keep=14.5)
    return text in (reading.value or ())


def _text(key: str, label: str, hint: str, most: int) -> str | None:
    text = st.text_input(label, key=key, bind="query-params", placeholder=hint, max_chars=most, width=138)
    return (text or "").strip() or None


def _choice(field: str, label: str, options: dict[str, str]) -> str | None:
    return address_choice(field, f"history-{field}", label, options, as_menu=True, width=168) or None


def _period(chosen: str, paged: PagedList[Any]) -> Period:
    """The chosen range. It stays the same from page to page: a cursor belongs to its query."""
    kept: tuple[str, Period] | None = st.session_state.get("history-period")
    if kept is None or kept[0] != chosen or paged.reads_first_page:
        kept = st.session_state["history-period"] = (chosen, resolve(chosen, now(), zone()))
    return kept[1]


_FIELDS: Final[dict[str, Callable[[], str | None]]] = {
    "person": _person,
    "by": lambda: _text("by", texts.HISTORY_BY, texts.HISTORY_BY_HINT, 256),
    "words": lambda: _text("words", texts.HISTORY_WORDS, texts.HISTORY_WORDS_HINT, 100),
    "why": lambda: _choice("why", texts.LABEL_REASON, texts.FAILURE_WHYS),
    "ip": lambda: None if "ip" in access.current().masked else _text("ip", texts.FAILED_IP, texts.FAILED_IP_HINT, 64),
    "how": lambda: _choice("how", texts.LABEL_HOW_IT_ENDED, texts.HISTORY_HOWS),
    "act": lambda: _choice("act", texts.LABEL_ACTION, texts.HISTORY_ACTS),
}


def _clear() -> None:
    for field in ("person", "by", "words", "ip"):
        st.session_state[field] = ""
    st.query_params.pop("time", None)
    for field in ("how", "act", "why"):
        st.session_state[f"history-{field}"] = ""
        st.query_params.pop(field, None)


# -- Rows --------------------------------------------------------------------------------------------------------------


def _table(view: HistoryView, query: HistoryQuery, paged: PagedList[Any], items: Sequence[Any], actor: Actor) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _export(view, query, actor)
        refresh_bar(paged)
    cells = _ROWS[view](items, actor)
    columns = [(_column(name), values) for name, values in cells.items()]
    record_list(
        paged, items, columns, partial(row_details.show, actor=actor),
        key=f"history-{view}", caption=texts.HISTORY_ALT[view], hint=texts.HISTORY_SELECT_HINT,
    )  # fmt: skip
    pager(paged, len(items))
    if paged.page is not None and paged.page.complete_since is not None:
        st.caption(texts.ended_since(minute(paged.page.complete_since, zone())))


def _export(view: HistoryView, query: HistoryQuery, actor: Actor) -> None:
    if actor.may(EXPORT[view]):
        export = history_export(open_store(), view, query, f"**{texts.HISTORY_VIEWS[view]}**")
        live_button(texts.EXPORT_CSV, "export-history", export_dialog.open_dialog, export)


def _ended_rows(ends: Sequence[Ended], actor: Actor) -> dict[str, list[Cell]]:
    return {
        "when": [session.at for session in ends],
        "name": [_shown(session.name, "name", actor) for session in ends],
        "uid": [literal(session.uid) for session in ends],
        "how": [
            texts.HISTORY_HOWS.get(session.cause) or texts.HISTORY_HOWS.get(session.reason, session.reason)
            for session in ends
        ],
        "by": [literal(session.by or "") for session in ends],
        "reason": [_line(session.note) for session in ends],
        "ticket": [ticket_link(session.ticket) for session in ends],
        "device": [_shown(session.device, "name", actor) for session in ends],
        "ip": [_shown(session.ip, "ip", actor) for session in ends],
    }


def _shown(value: str | None, field: str, actor: Actor) -> str:
    return HIDDEN if value and field in actor.masked else literal(value or "")


def _names(uids: Sequence[str | None], actor: Actor) -> list[Cell]:
    """The name of each, empty if it is not known."""
    names = names_of(filter(None, uids), actor)
    return [literal(names.get(uid or "", "")) for uid in uids]


def _line(text: str | None) -> str:
    return " ".join(literal(line) for line in (text or "").splitlines())


def _block_rows(blocks: Sequence[Block], actor: Actor) -> dict[str, list[Cell]]:
    return {
        "when": [block.at for block in blocks],
        "name": _names([block.uid for block in blocks], actor),
        "uid": [literal(block.uid) for block in blocks],
        "until": [minute(block.until, zone()) if block.until else texts.HISTORY_OPEN_END for block in blocks],
        "by": [author(block.by, block.uid) for block in blocks],
        "reason": [_line(block.reason) for block in blocks],
        "ticket": [ticket_link(block.ticket) for block in blocks],
    }


def _job_rows(jobs: Sequence[Job], _actor: Actor) -> dict[str, list[Cell]]:
    return {
        "when": [job.created for job in jobs],
        "by": [literal(job.by) for job in jobs],
        "action": [texts.JOB_KINDS[job.kind] for job in jobs],
        "state": [texts.JOB_STATES.get(job.state, job.state) for job in jobs],
        "progress": [f"{row_details.share(job):.0%}" for job in jobs],
        "kicked": [number(job.kicked) for job in jobs],
        "total": [number(job.total) for job in jobs],
        "reason": [_line(job.reason) for job in jobs],
        "ticket": [ticket_link(job.ticket) for job in jobs],
    }


def _failed_rows(failures: Sequence[FailedLogin], actor: Actor) -> dict[str, list[Cell]]:
    return {
        "when": [failure.at for failure in failures],
        "name": _names([failure.uid for failure in failures], actor),
        "uid": [literal(failure.uid or f"({failure_facts.typed(failure)})") for failure in failures],
        "why": [literal(texts.FAILURE_WHYS.get(failure.why, failure.why)) for failure in failures],
        "times": [number(failure.count) for failure in failures],
        "ip": [literal(failure_facts.address(failure, actor) or "") for failure in failures],
        "rule": [literal(failure_facts.rule(failure, actor) or "") for failure in failures],
    }


def _staff_rows(entries: Sequence[AuditEntry], actor: Actor) -> dict[str, list[Cell]]:
    return {
        "when": [entry.at for entry in entries],
        "by": [author(entry.by or "", entry.uid) for entry in entries],
        "action": [literal(texts.act(entry.action)) for entry in entries],
        "name": _names([entry.uid for entry in entries], actor),
        "uid": [literal(entry.uid or "") for entry in entries],
        "outcome": [literal(outcome(history_query.masked(entry, actor), zone())) for entry in entries],
        "reason": [_line(history_query.reason(entry, actor)) for entry in entries],
        "ticket": [ticket_link(entry.ticket) for entry in entries],
    }


_ROWS: Final[dict[HistoryView, Callable[[Any, Actor], dict[str, list[Cell]]]]] = {
    "ended": _ended_rows,
    "blocks": _block_rows,
    "jobs": _job_rows,
    "failed": _failed_rows,
    "staff": _staff_rows,
}


_LABELS: Final = {
    "when": english.LABEL_WHEN, "name": english.LABEL_NAME, "uid": english.LABEL_UID, "until": english.FACT_UNTIL,
    "how": english.LABEL_HOW_IT_ENDED, "by": english.LABEL_BY, "action": english.LABEL_ACTION,
    "outcome": english.LABEL_OUTCOME, "state": english.HISTORY_STATE, "progress": english.HISTORY_PROGRESS,
    "kicked": english.HISTORY_KICKED, "total": english.HISTORY_TOTAL, "reason": english.LABEL_REASON,
    "why": english.LABEL_REASON, "times": english.LABEL_FAILURE_COUNT, "rule": english.LABEL_FAILURE_RULE,
    "ticket": english.LABEL_TICKET, "device": english.LABEL_DEVICE, "ip": english.LABEL_IP,
}  # fmt: skip


def _column(name: str) -> Column:
    kind: Literal["text", "link", "time"] = "time" if name == "when" else "link" if name == "ticket" else "text"
    return Column(name, gettext(_LABELS[name]), kind)


def _empty(view: HistoryView, query: HistoryQuery, paged: PagedList[Any]) -> None:
    with st.container(border=True, key="nothing"):
        if query.is_everything:
            st.subheader(texts.HISTORY_EMPTY_TITLE[view], anchor=False)
            st.markdown(texts.HISTORY_EMPTY[view])
            return
        st.subheader(texts.HISTORY_NO_MATCH_TITLE, anchor=False)
        if paged.page is not None and paged.page.next_cursor is not None:
            st.markdown(texts.HISTORY_NO_MATCH_SO_FAR)
            live_button(texts.HISTORY_LOOK_FURTHER, "further", paged.older)
        else:
            st.markdown(texts.HISTORY_NO_MATCH)


page()
