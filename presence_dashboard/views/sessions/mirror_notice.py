"""Above the list: that its sessions are mirrored from the site's own store, how far behind, and what a kick does."""

from __future__ import annotations

from operator import methodcaller

import streamlit as st

from presence_core import MirrorStatus
from presence_dashboard import texts
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.shared_reads import now, shared
from presence_dashboard.format import name, span


def mirror_notice() -> None:
    """A line for each mirror of this namespace; nothing without one. Call it alone in its container: it refreshes."""
    if _statuses():
        st.fragment(_notices, run_every=this_tab().tick)()


def _statuses() -> list[MirrorStatus]:
    return shared("mirrors", methodcaller("mirrors")).value or []


def _notices() -> None:
    for status in _statuses():
        _notice(status)


def _notice(status: MirrorStatus) -> None:
    store, age = name(status.store), max(0.0, (now() - status.at).total_seconds())
    if not status.alive:
        st.warning(texts.mirror_stopped(store, span(age)))
    elif status.problem:
        st.warning(texts.mirror_waits(store))
    else:
        st.caption(texts.mirrored(store, span(status.behind_seconds + age)))
