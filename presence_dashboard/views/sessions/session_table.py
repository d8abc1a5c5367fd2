"""The table of sessions, the actions on its rows, and the paging buttons."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Final

import streamlit as st

from presence_core import Session
from presence_dashboard import access, texts
from presence_dashboard.actions import bulk_kick, csv_export
from presence_dashboard.actions.kick_and_block import split_ref
from presence_dashboard.components import export_dialog, kick_dialog, notifications
from presence_dashboard.components.buttons import live_button, page_buttons
from presence_dashboard.components.kick_dialog.session_panel import session_panel
from presence_dashboard.components.notifications import Notification
from presence_dashboard.components.pagination import with_details
from presence_dashboard.components.record_table import column_of, record_table, ref_of, ticks_of
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.session_list import MAX_SELECTED, PAGE_SIZES, Rows, SessionList, this_session_list
from presence_dashboard.data.store import open_store
from presence_dashboard.format import cut, name, number
from presence_dashboard.roles import Actor
from presence_dashboard.views.sessions import bulk_kick_dialog, bulk_timeouts_dialog
from presence_dashboard.views.sessions.search_bar import in_words, request_person, sort_by
from presence_dashboard.views.sessions.table_columns import ORDERS, table_columns, table_rows

KEY: Final = "sessions-table"
"""Of the table's widget. It stays while rows change: actions go by ref."""

_CHANGED: Final = "sessions-table-changed"


def session_table(listing: SessionList, rows: Rows, actor: Actor) -> None:
    """Draw the actions, and below them the rows."""
    st.session_state.pop(_CHANGED, None)
    may_kick = actor.may("kick")
    ticked = listing.live_selected if may_kick else ()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="actions"):
        if may_kick:
            _kick_actions(ticked)
        _list_actions(listing, rows, actor, ticked)
        if may_kick:
            _selection(listing, ticked)
    picked = _session_of(rows, listing.picked)
    details = partial(_details, picked, actor) if picked and picked.ref not in listing.ended else None
    with_details(
        "sessions", "table", partial(st.fragment(_table, run_every=this_tab().tick), actor), details, listing.pick
    )


def _details(session: Session, actor: Actor) -> None:
    session_panel(session, 2, actor)
    st.button(
        texts.HISTORY_OPEN_PERSON, key="open-person", type="tertiary", on_click=request_person, args=(session.uid,)
    )


def _table(actor: Actor) -> None:
    """The rows, up to date at each tick. An action or an end redraws the whole page."""
    listing = this_session_list()
    if not access.is_still(actor) or st.session_state.pop(_CHANGED, False):
        st.rerun()
    if not this_tab().away and listing.update(open_store()):
        st.rerun()
    rows = listing.rows
    if rows is None:
        return
    columns, may_kick = table_columns(listing, rows), actor.may("kick")
    by_last_seen = listing.query.order == "last_seen"
    record_table(
        columns,
        list(table_rows(listing, rows, columns, actor)),
        key=KEY,
        shown=listing.key,
        caption=texts.TABLE_LABEL_LAST_ACTIVE if by_last_seen else texts.TABLE_LABEL,
        back=texts.BACK_TO_LAST_ACTIVE if by_last_seen else texts.BACK_TO_LOGIN,
        now=rows.as_of + timedelta(seconds=rows.age),
        order=("seen" if by_last_seen else "login", True),
        selected=len(listing.live_selected),
        sequence=listing.ticks,
        can_act=not this_tab().away,
        picked=listing.picked,
        on_open=partial(_name_clicked, rows),
        on_pick=_row_clicked,
        on_tick=partial(_ticked, actor) if may_kick else None,
        on_kick=partial(_kick_clicked, rows) if may_kick else None,
        on_order=_order_clicked,
    )


def _ticked(actor: Actor) -> None:
    """Take over the ticks of the browser, up to as many as the actor may kick at once. Refs that the page does not show
    are ignored."""
    listing, sent = this_session_list(), ticks_of(KEY)
    st.session_state[_CHANGED] = True
    if sent is None:
        return
    listing.ticks = sent.sequence
    if sent.list != listing.key:
        return
    people = {split_ref(ref)[0] for ref in (*sent.refs, *listing.selected)}
    # A second person is for kicks of several people; one session can be ticked in any case.
    limit = actor.bulk_limit if len(people) < 2 or actor.alone_limit is None else max(1, actor.alone_limit)
    wanted = listing.select(sent.refs, MAX_SELECTED if limit is None else min(MAX_SELECTED, limit))
    if limit is not None and wanted > limit:
        notifications.notify(Notification("note", texts.too_many_at_once(limit, wanted)))
    elif wanted > MAX_SELECTED:
        notifications.notify(Notification("note", texts.select_most(MAX_SELECTED)))


def _kick_clicked(rows: Rows) -> None:
    """Open the kick dialog: for a row that was drawn with a button, or without a row for the selected sessions."""
    listing, ref = this_session_list(), ref_of(KEY, "kick")
    st.session_state[_CHANGED] = True
    session = _session_of(rows, ref)
    if this_tab().away:
        notifications.notify(Notification("bad", texts.AWAY_HINT))
    elif ref is None and listing.live_selected:
        kick_dialog.open_for_sessions(listing.live_selected)
    elif session is None or session.ref in listing.ended:
        notifications.notify(Notification("note", texts.ROW_GONE))
    else:
        kick_dialog.open_for_sessions((session,))


def _name_clicked(rows: Rows) -> None:
    session = _session_of(rows, ref_of(KEY, "open"))
    st.session_state[_CHANGED] = True
    if session is not None:
        request_person(session.uid)


def _row_clicked() -> None:
    this_session_list().pick(ref_of(KEY, "pick"))
    st.session_state[_CHANGED] = True


def _order_clicked() -> None:
    order = ORDERS.get(column_of(KEY) or "")
    st.session_state[_CHANGED] = True
    if order is not None:
        sort_by(order)


def _session_of(rows: Rows, ref: str | None) -> Session | None:
    return next((session for session in rows.sessions if session.ref == ref), None)


def _kick_actions(ticked: tuple[Session, ...]) -> None:
    users = {session.uid: session for session in ticked}
    live_button(
        texts.kick_selected(len(ticked)), "kick-selected", kick_dialog.open_for_sessions, ticked,
        shortcut="K", disabled=not ticked,
    )  # fmt: skip
    user = next(iter(users.values())) if len(users) == 1 else None
    label = texts.kick_all_of(name(cut(user.name or user.uid, 32)) if user else None)
    args = (user.uid, tuple(session.ref for session in ticked)) if user else ()
    hint = None if user else texts.SELECT_ONE_PERSON
    live_button(
        label, "kick-person", kick_dialog.open_for_person, *args, help=hint, disabled=user is None, type="tertiary"
    )


def _list_actions(listing: SessionList, rows: Rows, actor: Actor, ticked: tuple[Session, ...]) -> None:
    """Actions on all matching sessions, for the query that the rows answer."""
    disabled = listing.problem is not None  # then the search box and the rows differ
    if actor.may("bulk"):
        count, matching = max(rows.total, len(rows.sessions)), not listing.query.is_everyone
        limit = actor.alone_limit
        asks = limit is not None and count > limit and actor.can_ask
        label = (texts.ask_all if asks else texts.kick_all)(number(count), matching=matching, exact=rows.total_is_exact)
        live_button(
            label, "ask-all" if asks else "kick-all", bulk_kick_dialog.open_dialog,
            listing.filter or bulk_kick.everyone(rows.as_of), listing.query, tuple(session.ref for session in ticked),
            help=texts.ask_all_help(number(limit or 0)) if asks else texts.KICK_ALL_HELP, disabled=disabled,
            type="tertiary",
        )  # fmt: skip
        live_button(
            texts.TIMEOUTS_ALL, "timeouts-all", bulk_timeouts_dialog.open_dialog,
            listing.filter or bulk_kick.everyone(rows.as_of), listing.query, help=texts.TIMEOUTS_ALL_HELP,
            disabled=disabled, type="tertiary",
        )  # fmt: skip
    if actor.may("export"):
        export = csv_export.session_export(open_store().presence, listing.filter, in_words(listing.query))
        live_button(texts.EXPORT_LIST, "export", export_dialog.open_dialog, export, disabled=disabled, type="tertiary")


def _selection(listing: SessionList, ticked: tuple[Session, ...]) -> None:
    """How many are selected, and the button that clears the selection."""
    users, ended = len({session.uid for session in ticked}), len(listing.selected) - len(ticked)
    if this_tab().away:
        words = texts.AWAY_HINT
    elif listing.selected:
        words = texts.selected_hint(len(ticked), users, listing.selected_elsewhere, ended)
    else:
        words = texts.SELECT_HINT
    st.caption(words, width="content")
    if listing.selected:
        st.button(texts.SELECT_NONE, key="select-none", type="tertiary", on_click=listing.select_none)


# -- Pages -------------------------------------------------------------------------------------------------------------


def pager(listing: SessionList, rows: Rows) -> None:
    """The paging buttons. Cursors skip or repeat no session while others log in and out."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="pager"):
        page_buttons(listing, is_first=listing.number == 1, is_last=rows.next_cursor is None)
        st.markdown(_place(listing, rows), width="content")
        st.selectbox(
            texts.PER_PAGE,
            PAGE_SIZES,
            index=PAGE_SIZES.index(listing.limit),
            key="page-size",
            width=150,
            disabled=this_tab().away,
            label_visibility="collapsed",
            format_func=texts.rows_per_page,
            on_change=_resize,
            args=(listing,),
        )


def search_further(listing: SessionList, rows: Rows) -> None:
    """How much of the list was searched if few sessions match, and the button to search further."""
    share = int(rows.progress * 100)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="rare"):
        part = f"{share} %" if share else texts.LESS_THAN_A_PERCENT
        st.markdown(texts.rare(number(rows.scanned), part), width="content")
        live_button(texts.SEARCH_FURTHER, "go-on", listing.scan_further)


def _place(listing: SessionList, rows: Rows) -> str:
    first, last = listing.before + 1, listing.before + len(rows.sessions)
    # The total may be older than this page, and smaller than the position of its last row.
    total = number(max(rows.total, last))
    total = total if rows.total_is_exact else texts.about(total)
    return texts.place(number(first), number(last), total, listing.number)


def _resize(listing: SessionList) -> None:
    listing.resize(st.session_state["page-size"])
