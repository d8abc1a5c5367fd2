"""The History page: ended sessions, blocks in force, bulk kicks, staff actions. Streamlit runs this file as a script of
its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import pandas as pd
import streamlit as st

from presence_core import AuditEntry, Block, Ended, Job
from presence_dashboard import access, records, texts
from presence_dashboard.access import Actor
from presence_dashboard.format import literal
from presence_dashboard.ledger import Ledger, this_ledger
from presence_dashboard.record_export import of_records
from presence_dashboard.records import EXPORT, FIELDS, VIEWS, Question, View, asker
from presence_dashboard.roles import HIDDEN
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab, zone
from presence_dashboard.views import details, export
from presence_dashboard.views.paging import bar, pager

access.stop_without_gate()

ROW_HEIGHT: Final = 31
MOST_ROWS: Final = 20


def page() -> None:
    actor = access.current()
    is_back = "history-view" not in st.session_state  # gone with the page
    view = _view()
    question = _filters(view)
    ledger: Ledger[Any] = this_ledger(view)
    if is_back or st.session_state.get("history-shown") != view:
        ledger.refresh()
    st.session_state["history-shown"] = view
    with st.skeleton(height=320):
        ledger.load(open_store(), question, asker(view, open_store(), question, actor))
    if ledger.failure is not None and not this_tab().away:
        st.error(texts.unreadable(ledger.failure))
    if ledger.page is None:
        if ledger.failure is None or this_tab().away:
            st.info(texts.HISTORY_UNREAD)
        else:
            st.button(texts.PERSON_RETRY, key="retry")  # any run asks again
    elif ledger.page.items:
        _table(view, question, ledger, actor)
    else:
        _nothing(view, question, ledger)
    export.dialog()


def _view() -> View:
    if "history-view" not in st.session_state:
        asked = st.query_params.get("view")
        st.session_state["history-view"] = asked if asked in VIEWS else VIEWS[0]
    view = st.segmented_control(
        texts.HISTORY_VIEW,
        VIEWS,
        required=True,
        key="history-view",
        format_func=lambda one: texts.HISTORY_VIEWS[one],
        label_visibility="collapsed",
        on_change=_into_address,
        args=("view", "history-view"),
    )
    return view or VIEWS[0]


def _into_address(field: str, key: str) -> None:
    """A choice stands in the page's address as the word that the library has for it, not as the label is written."""
    if st.session_state[key]:
        st.query_params[field] = st.session_state[key]
    else:
        st.query_params.pop(field, None)


# -- Filters -----------------------------------------------------------------------------------------------------------


def _filters(view: View) -> Question:
    said: dict[str, Any] = {}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="filters"):
        for field in FIELDS[view]:
            said[field] = _FIELDS[field]()
        here = str(zone())
        since, until = st.session_state.get("since"), st.session_state.get("until")
        with st.popover(texts.HISTORY_TIME_SET if since or until else texts.HISTORY_TIME):
            said["since"] = _moment("since", texts.history_since(here))
            said["until"] = _moment("until", texts.history_until(here))
        question = Question(**said)
        if not question.is_everything:
            st.button(texts.HISTORY_CLEAR, key="clear", type="tertiary", on_click=_clear)
    return question


def _text(key: str, label: str, hint: str, most: int) -> str | None:
    kind: Literal["search", "default"] = "search" if key == "person" else "default"  # "/" goes to the one for searches
    said = st.text_input(label, key=key, type=kind, bind="query-params", placeholder=hint, max_chars=most, width=138)
    return (said or "").strip() or None


def _choice(field: str, label: str, options: dict[str, str]) -> str | None:
    key = f"history-{field}"
    if key not in st.session_state:
        asked = st.query_params.get(field, "")
        st.session_state[key] = asked if asked in options else ""
    chosen: str = st.selectbox(
        label,
        list(options),
        key=key,
        format_func=lambda one: options[one],
        width=138,
        on_change=_into_address,
        args=(field, key),
    )
    return chosen or None


def _moment(key: str, label: str) -> datetime | None:
    said = st.datetime_input(label, None, key=key, bind="query-params", format="YYYY-MM-DD", width=200)
    return None if said is None else said.replace(tzinfo=zone())


_FIELDS: Final[dict[str, Callable[[], str | None]]] = {
    "person": lambda: _text("person", texts.HISTORY_PERSON, texts.HISTORY_PERSON_HINT, 256),
    "by": lambda: _text("by", texts.HISTORY_BY, texts.HISTORY_BY_HINT, 256),
    "words": lambda: _text("words", texts.HISTORY_WORDS, texts.HISTORY_WORDS_HINT, 100),
    "how": lambda: _choice("how", texts.HISTORY_HOW, texts.HISTORY_HOWS),
    "act": lambda: _choice("act", texts.HISTORY_ACT, texts.HISTORY_ACTS),
}


def _clear() -> None:
    for field in ("person", "by", "words"):
        st.session_state[field] = ""
    for field in ("since", "until"):
        st.session_state[field] = None
    for field in ("how", "act"):
        st.session_state[f"history-{field}"] = ""
        st.query_params.pop(field, None)


# -- Rows --------------------------------------------------------------------------------------------------------------


def _table(view: View, question: Question, ledger: Ledger[Any], actor: Actor) -> None:
    items: Sequence[Any] = ledger.page.items if ledger.page else ()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _export(view, question, actor)
        bar(ledger)
    event = st.dataframe(
        pd.DataFrame(_ROWS[view](items, actor)),
        key=f"history-{view}-{ledger.generation}",
        on_select="rerun",
        selection_mode="single-row",
        column_config=_columns(),
        hide_index=True,
        height=ROW_HEIGHT * (min(len(items), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="",
        alt=texts.HISTORY_ALT[view],
    )
    pager(ledger, len(items))
    row = next(iter(event.selection.rows), None)
    if row is not None and row < len(items):
        details.show(items[row], actor)
    else:
        st.caption(texts.HISTORY_SELECT_HINT)


def _export(view: View, question: Question, actor: Actor) -> None:
    if actor.may(EXPORT[view]):
        st.button(
            texts.HISTORY_EXPORT,
            key="export-history",
            disabled=this_tab().away,
            on_click=export.ask,
            args=(of_records(open_store(), view, question, f"**{texts.HISTORY_VIEWS[view]}**"),),
        )


def _ended_rows(ends: Sequence[Ended], actor: Actor) -> dict[str, list[Any]]:
    return {
        "when": [one.at for one in ends],
        "name": [_shown(one.name, "name", actor) for one in ends],
        "uid": [literal(one.uid) for one in ends],
        "how": [texts.HISTORY_HOWS.get(one.reason, one.reason) for one in ends],
        "by": [literal(one.by or "") for one in ends],
        "reason": [_line(one.note) for one in ends],
        "ticket": [literal(one.ticket or "") for one in ends],
        "device": [literal(one.device or "") for one in ends],
        "ip": [_shown(one.ip, "ip", actor) for one in ends],
    }


def _shown(value: str | None, field: str, actor: Actor) -> str:
    return HIDDEN if value and field in actor.masked else literal(value or "")


def _line(text: str | None) -> str:
    """What has several lines, on one."""
    return " ".join(literal(line) for line in (text or "").splitlines())


def _block_rows(blocks: Sequence[Block], _actor: Actor) -> dict[str, list[Any]]:
    return {
        "when": [one.at for one in blocks],
        "uid": [literal(one.uid) for one in blocks],
        "until": [_local(one.until) if one.until else texts.HISTORY_OPEN_END for one in blocks],
        "by": [literal(one.by) for one in blocks],
        "reason": [_line(one.reason) for one in blocks],
        "ticket": [literal(one.ticket or "") for one in blocks],
    }


def _local(moment: datetime) -> str:
    return moment.astimezone(zone()).strftime("%Y-%m-%d %H:%M:%S")


def _job_rows(jobs: Sequence[Job], _actor: Actor) -> dict[str, list[Any]]:
    return {
        "when": [one.created for one in jobs],
        "by": [literal(one.by) for one in jobs],
        "state": [texts.JOB_STATES.get(one.state, one.state) for one in jobs],
        "progress": [details.share(one) for one in jobs],
        "kicked": [one.kicked for one in jobs],
        "total": [one.total for one in jobs],
        "reason": [_line(one.reason) for one in jobs],
        "ticket": [literal(one.ticket or "") for one in jobs],
    }


def _staff_rows(entries: Sequence[AuditEntry], actor: Actor) -> dict[str, list[Any]]:
    return {
        "when": [one.at for one in entries],
        "by": [literal(one.by or "") for one in entries],
        "action": [literal(texts.act(one.action)) for one in entries],
        "uid": [literal(one.uid or "") for one in entries],
        "outcome": [literal(records.outcome(one, actor)) for one in entries],
        "reason": [_line(records.reason(one, actor)) for one in entries],
        "ticket": [literal(one.ticket or "") for one in entries],
    }


_ROWS: Final[dict[View, Callable[[Any, Actor], dict[str, list[Any]]]]] = {
    "ended": _ended_rows,
    "blocks": _block_rows,
    "jobs": _job_rows,
    "staff": _staff_rows,
}


def _columns() -> dict[str, Any]:
    column, here = st.column_config, str(zone())
    return {
        "when": column.DatetimeColumn(texts.history_when(here), width=150, format="YYYY-MM-DD HH:mm:ss", timezone=here),
        "name": column.TextColumn(texts.HISTORY_NAME, width=145),
        "uid": column.TextColumn(texts.HISTORY_UID, width=130),
        "until": column.TextColumn(texts.history_blocked_until(here), width=160),
        "how": column.TextColumn(texts.HISTORY_ENDED_HOW, width=85),
        "by": column.TextColumn(texts.HISTORY_ENDED_BY, width=120),
        "action": column.TextColumn(texts.HISTORY_ACTION, width=120),
        "outcome": column.TextColumn(texts.HISTORY_OUTCOME, width=230),
        "state": column.TextColumn(texts.HISTORY_STATE, width=85),
        "progress": column.ProgressColumn(
            texts.HISTORY_PROGRESS, width=140, min_value=0, max_value=1, format="percent"
        ),
        "kicked": column.NumberColumn(texts.HISTORY_KICKED, width=80, format="localized"),
        "total": column.NumberColumn(texts.HISTORY_TOTAL, width=80, format="localized"),
        "reason": column.TextColumn(texts.HISTORY_REASON, width=175),
        "ticket": column.TextColumn(texts.HISTORY_TICKET, width=90),
        "device": column.TextColumn(texts.HISTORY_DEVICE, width=105),
        "ip": column.TextColumn(texts.HISTORY_IP, width=112),
    }


def _nothing(view: View, question: Question, ledger: Ledger[Any]) -> None:
    with st.container(border=True, key="nothing"):
        if question.is_everything:
            st.subheader(texts.HISTORY_EMPTY_TITLE[view], anchor=False)
            st.markdown(texts.HISTORY_EMPTY[view])
            return
        st.subheader(texts.HISTORY_NO_MATCH_TITLE, anchor=False)
        if ledger.page is not None and ledger.page.next_cursor is not None:
            st.markdown(texts.HISTORY_NO_MATCH_SO_FAR)
            st.button(texts.HISTORY_LOOK_FURTHER, key="further", disabled=this_tab().away, on_click=ledger.older)
        else:
            st.markdown(texts.HISTORY_NO_MATCH)


page()
