"""The menu of saved views: open, save, rename, share and delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import streamlit as st

from presence_dashboard import texts
from presence_dashboard.actions import saved_items
from presence_dashboard.components import notifications
from presence_dashboard.components.buttons import button, live_button
from presence_dashboard.components.notifications import Notification
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.saved_views import SavedView, view_text, views_of
from presence_dashboard.data.session_query import ATTRIBUTE
from presence_dashboard.data.store import open_store
from presence_dashboard.format import cut, name
from presence_dashboard.roles import Actor
from presence_dashboard.views.sessions.search_bar import address_of_query, declared_attributes, set_address
from presence_dashboard.views.sessions.table_columns import COLUMNS

PARAMETER: Final = "view"
"""Opens a view by its name: ``/?view=Broken version``."""

_MENU: Final = "menu-views"
_COLUMNS: Final = "columns"
_RENAMED: Final = "view-renamed"


def open_linked_view(actor: Actor) -> None:
    """Open the view that the address names. Call it before anything is drawn. An unknown one stays in the address, so
    that the page says so."""
    wanted = st.query_params.get(PARAMETER)
    if wanted is None:
        return
    views = views_of(open_store(), actor.name, names_hidden=bool(actor.masked), fresh=True).value or ()
    view = next((view for view in views if view.name == wanted), None)
    if view is not None and view.query is not None:
        st.query_params.clear()
        st.query_params.update(view.query)
        _show_columns(view)
        st.rerun()  # the box reads the address at the start of a run


def views_menu(actor: Actor) -> None:
    menu = st.popover(texts.VIEWS_MENU, key=_MENU, on_change="rerun")
    if not menu.open:  # a closed menu reads nothing
        return
    reading = views_of(open_store(), actor.name, names_hidden=bool(actor.masked))
    with menu:
        if reading.value is None:
            st.markdown(reading.failure or "")
            return
        for title, shared in ((texts.VIEWS_OWN, False), (texts.VIEWS_SHARED, True)):
            views = [view for view in reading.value if view.shared == shared]
            if views:
                st.caption(title)
                with st.container(gap=None):
                    for view in views:
                        _row(view, actor)
        if not reading.value:
            st.caption(texts.VIEWS_NONE)
        _rename(actor)
        _new(actor)


def _row(view: SavedView, actor: Actor) -> None:
    key = f"{'shared' if view.shared else 'own'}-{view.name}"
    with st.container(horizontal=True, vertical_alignment="center", gap="xxsmall", horizontal_alignment="distribute"):
        label, is_damaged = name(cut(view.name, 40)), view.query is None
        hint = texts.VIEW_DAMAGED if is_damaged else None
        button(label, f"view-{key}", _open, view, actor, type="tertiary", disabled=is_damaged, help=hint)
        if not actor.may(saved_items.right_to_change(view.shared)):
            return
        with st.container(horizontal=True, width="content", gap="xxsmall"):
            for words, icon, act in (
                (texts.VIEW_RENAME, "edit", _ask_name),
                (texts.VIEW_DELETE, "delete", _delete),
            ):
                off = is_damaged and act is _ask_name
                look = {"type": "tertiary", "icon": f":material/{icon}:", "help": f"{words}: {label}"}
                live_button("", f"{icon}-{key}", act, view, actor, disabled=off, **look)


def _rename(actor: Actor) -> None:
    view: SavedView | None = st.session_state.get(_RENAMED)
    if view is None:
        return
    with st.form("rename-view", border=True, enter_to_submit=True):
        st.text_input(texts.view_new_name(name(cut(view.name, 40))), value=view.name, key="view-new-name", max_chars=60)
        st.form_submit_button(texts.VIEW_RENAME, on_click=_save_new_name, args=(view, actor))


def _new(actor: Actor) -> None:
    with st.form("save-view", border=False, clear_on_submit=False):
        st.text_input(texts.VIEW_NAME, key="view-name", max_chars=60, help=texts.VIEW_NAME_HELP)
        if actor.may("share"):
            st.checkbox(texts.VIEW_SHARE, key="view-share")
        st.form_submit_button(texts.VIEW_SAVE, on_click=_save, args=(actor,), disabled=this_tab().away)


# -- Actions -----------------------------------------------------------------------------------------------------------


def _open(view: SavedView, actor: Actor) -> None:
    set_address(view.query or {})
    st.session_state[_MENU] = False  # closed, so that it does not cover the list
    _show_columns(view)
    if not view.shared:  # own views are listed by their last use
        _change(actor, lambda: saved_items.save(open_store().presence, "view", view.name, view.text))


def _show_columns(view: SavedView) -> None:
    """Show the view's columns that still exist."""
    known = {*COLUMNS, *(ATTRIBUTE + attribute for attribute in declared_attributes())}
    if columns := [column for column in view.columns if column in known]:
        st.session_state[_COLUMNS] = columns


def _save(actor: Actor) -> None:
    title = (st.session_state.get("view-name") or "").strip()
    shared = bool(st.session_state.get("view-share"))
    if not title:
        notifications.notify(Notification("bad", texts.VIEW_NAME_MISSING))
        return
    text = view_text(address_of_query(), st.session_state.get(_COLUMNS) or ())
    if _change(actor, lambda: saved_items.save(open_store().presence, "view", title, text, shared=shared)):
        st.session_state["view-name"] = ""
        notifications.notify(Notification("done", texts.view_saved(name(title), shared)))


def _ask_name(view: SavedView, _actor: Actor) -> None:
    st.session_state[_RENAMED] = view
    st.session_state["view-new-name"] = view.name


def _save_new_name(view: SavedView, actor: Actor) -> None:
    title = (st.session_state.get("view-new-name") or "").strip()
    st.session_state.pop(_RENAMED, None)
    if title and title != view.name:
        _change(
            actor,
            lambda: saved_items.save(
                open_store().presence, "view", title, view.text, shared=view.shared, instead_of=view.name
            ),
        )


def _delete(view: SavedView, actor: Actor) -> None:
    if _change(actor, lambda: saved_items.remove(open_store().presence, "view", view.name, shared=view.shared)):
        notifications.notify(Notification("done", texts.view_deleted(name(view.name))))


def _change(actor: Actor, act: Callable[[], object]) -> bool:
    """Whether the change was made. If not, a toast says why."""
    done = notifications.attempt(act)
    if done:
        views_of(open_store(), actor.name, names_hidden=bool(actor.masked), fresh=True)
    return done
