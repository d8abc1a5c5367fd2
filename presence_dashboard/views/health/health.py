"""The Health page: state of servers, data and worker, what to fix, and maintenance. A Streamlit script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import streamlit as st

from presence_core import Finding, Health
from presence_dashboard import access, texts
from presence_dashboard.components.figures import metric, show_placeholder
from presence_dashboard.data.browser_tab import this_tab
from presence_dashboard.data.shared_reads import health_before, health_now
from presence_dashboard.data.store import open_store
from presence_dashboard.format import code, literal, name, number, span
from presence_dashboard.views.health import maintenance_panel, retention
from presence_dashboard.views.health.server_tables import (
    data_facts,
    fact_table,
    server_table,
    size,
    value_or_dash,
    worker_facts,
)

access.stop_without_gate()

Icon = tuple[str, str]
_BADGES: Final[dict[str, Icon]] = {
    "ok": (":material/check_circle:", "green"),
    "note": (":material/info:", "blue"),
    "warning": (":material/warning:", "orange"),
    "error": (":material/error:", "red"),
}


def page() -> None:
    state, maintenance = st.container(), st.container()
    with st.skeleton(height=420):
        health_now()
    # Each fragment needs its own container: in a shared one it may vanish during a rerun.
    with state:
        st.fragment(_state, run_every=this_tab().tick)()
    with maintenance:
        st.fragment(maintenance_panel.maintenance_panel, run_every=maintenance_panel.refresh_interval())()
    maintenance_panel.dialog()


def _slowest(health: Health) -> float | None:
    return max((node.latency_ms for node in health.nodes if node.latency_ms is not None), default=None)


def _state() -> None:
    reading, counts = health_now(), open_store().counts()
    cause = code(str(counts.error)) if counts.error is not None else None  # readers of this page can fix it
    if reading.value is None:
        if cause is not None:
            st.warning(cause)
        show_placeholder(reading)
        return
    health = reading.value
    if counts.failure is None:
        _summary(health)
    else:  # an old reading says nothing about now
        st.warning("\n\n".join(filter(None, (cause, texts.updated_ago(span(reading.age))))))
    _figures(health)
    _findings(health.findings)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        server_table(health.nodes)
    with right:
        fact_table(texts.HEALTH_WORKER, worker_facts(health))
        fact_table(texts.HEALTH_DATA, data_facts(health))
    retention.retention_table(open_store().presence.settings)
    st.caption(texts.updated_ago(span(reading.age)))


def _summary(health: Health) -> None:
    show = {"ok": st.success, "note": st.info, "warning": st.warning, "error": st.error}[health.level]
    show(texts.HEALTH_HEADLINES[health.level], icon=_BADGES[health.level][0])


# -- Figures -----------------------------------------------------------------------------------------------------------


def _figures(health: Health) -> None:
    metrics: tuple[tuple[str, Callable[[Health], float | None], Callable[[Any], str], str], ...] = (
        (texts.HEALTH_LATENCY, _slowest, texts.health_ms, texts.HEALTH_LATENCY_HELP),
        (texts.HEALTH_MEMORY, partial(_sum, "used_memory"), size, texts.HEALTH_MEMORY_HELP),
        (texts.HEALTH_EVICTED, partial(_sum, "evicted_keys"), number, texts.HEALTH_EVICTED_HELP),
        (texts.HEALTH_CLIENTS, partial(_sum, "clients"), number, texts.HEALTH_CLIENTS_HELP),
        (texts.HEALTH_LAG, lambda health: health.lag_seconds, texts.health_seconds, texts.HEALTH_LAG_HELP),
    )
    before = list(health_before())
    with st.grid(5, min_column_width=132, gap="xsmall", key="health-strip"):
        for label, value_of, show, help_text in metrics:
            history = [value for health in before if (value := value_of(health)) is not None]
            metric(label, value_or_dash(value_of(health), show), help_text, history)


def _sum(field: str, health: Health) -> int | None:
    """The sum over all servers that report the field; None if none does."""
    values = [int(value) for node in health.nodes if (value := getattr(node, field)) is not None]
    return sum(values) if values else None


# -- Findings ----------------------------------------------------------------------------------------------------------


def _findings(findings: Sequence[Finding]) -> None:
    passed = [finding for finding in findings if finding.level == "ok"]
    with st.container(gap="small", key="findings"):
        for finding in findings:
            if finding.level != "ok":
                _finding(finding)
    with st.expander(texts.health_passed(len(passed)), key="health-passed"):
        for finding in passed:
            _finding(finding)


def _finding(finding: Finding) -> None:
    """A finding, as plain text: it contains names of servers and users."""
    icon, colour = _BADGES[finding.level]
    with st.container(border=finding.level != "ok", gap="xxsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(texts.HEALTH_LEVELS[finding.level], icon=icon, color=cast("Any", colour))
            st.markdown(name(finding.subject), width="content")
        st.text(literal(finding.text), width="stretch")
        if finding.advice:
            st.text(texts.health_advice(literal(finding.advice)), width="stretch")


page()
