"""Repair and the rebuild of indexes on the Health page: buttons, dialog and progress."""

from __future__ import annotations

import time
from typing import Final

import streamlit as st

from presence_core import InvalidArgument, PresenceError
from presence_dashboard import access, texts
from presence_dashboard.actions.maintenance import MaintenanceKind, maintenance_runner
from presence_dashboard.components import notifications
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.store import open_store
from presence_dashboard.error_sentences import plain
from presence_dashboard.format import code, name, number, span
from presence_dashboard.roles import Denied, SignedOut

_REQUEST: Final = "health-request"
_PER_SECOND: Final = 5_000
"""Sessions that a repair checks in a second, roughly: enough to say seconds, minutes or hours."""

_REFRESH_WHILE_RUNNING: Final = 5.0
"""Seconds between two refreshes while a task runs, also if the reader has turned refreshing off."""


def refresh_interval() -> float | None:
    """``run_every`` for the fragment with the panel."""
    task = maintenance_runner().task
    return this_tab().tick or (_REFRESH_WHILE_RUNNING if task is not None and task.is_running else None)


def dialog() -> None:
    if _REQUEST in st.session_state:
        kind: MaintenanceKind = st.session_state[_REQUEST]
        st.dialog(texts.HEALTH_CONFIRM[kind], on_dismiss=_close)(_dialog)(kind)


def maintenance_panel() -> None:
    """The buttons and the progress of maintenance. Call it in a fragment, alone in its container."""
    st.markdown(f"**{texts.HEALTH_MAINTENANCE}**")
    task = maintenance_runner().task
    _progress()
    if not access.may("repair"):
        st.caption(texts.HEALTH_MAINTENANCE_READ_ONLY)
        return
    disabled = task is not None and task.is_running
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for kind, label, help_text in (
            ("repair", texts.HEALTH_REPAIR, texts.HEALTH_REPAIR_HELP),
            ("reindex", texts.HEALTH_REINDEX, texts.HEALTH_REINDEX_HELP),
        ):
            if notifications.checked_button(label, f"health-{kind}", "repair", kind, disabled=disabled, help=help_text):
                st.session_state[_REQUEST] = kind
                st.rerun()  # the page draws the dialog, not this fragment
        if this_tab().away:
            st.caption(texts.AWAY_HINT, width="content")


def _progress() -> None:
    task = maintenance_runner().task
    if task is None:
        return
    ago = span(time.monotonic() - (task.started if task.ended is None else task.ended))
    if task.is_running:
        running = texts.health_running(task.kind, name(task.by), ago)
        if task.total:
            checked = texts.health_visited(number(task.done), number(task.total))
            st.progress(min(task.done / task.total, 1.0), text=f"{running} · {checked}")
        else:
            st.info(running, icon=":material/hourglass_top:")
    elif task.failure is not None:
        st.warning(texts.health_gave_up(task.kind, ago, code(task.failure)))
    elif task.report is not None:
        result = texts.health_repaired(task.report.repaired, task.report.expired)
        not_audited = f" {texts.HEALTH_NOT_AUDITED}" if task.not_audited else ""
        st.success(texts.health_ended(task.kind, ago, result + not_audited))


def _close() -> None:
    st.session_state.pop(_REQUEST, None)


def _dialog(kind: MaintenanceKind) -> None:
    st.markdown(texts.HEALTH_ABOUT[kind])
    counts = open_store().counts().value
    if counts is not None:
        seconds = counts.sessions / _PER_SECOND
        duration = texts.health_about(span(seconds)) if seconds > 2 else texts.HEALTH_A_FEW_SECONDS
        st.markdown(texts.health_how_long(number(counts.sessions), duration))
    st.caption(texts.HEALTH_CONTINUES)
    with st.container(horizontal=True, gap="small"):
        label = texts.HEALTH_REPAIR if kind == "repair" else texts.HEALTH_REINDEX
        confirmed = st.button(label, key="health-confirm", type="primary", disabled=this_tab().away)
        cancelled = st.button(texts.CANCEL, key="health-cancel")
    if cancelled:
        _close()
        st.rerun()
    if confirmed:
        try:
            started = maintenance_runner().start(open_store().presence, kind)
        except (PresenceError, InvalidArgument, Denied, SignedOut) as error:
            st.warning(texts.action_failed(plain(error)))
            return
        if not started:
            st.warning(texts.HEALTH_BUSY)
            return
        _close()
        st.rerun()
