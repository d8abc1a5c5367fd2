"""The Health page: how Redis, the data and the worker are, in words, and what mends them. Streamlit runs this file as a
script of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, cast

import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types
import streamlit as st

from presence_core import Finding, Health, InvalidArgument, NodeHealth, PresenceError
from presence_dashboard import access, texts
from presence_dashboard.format import clock, code, exact, literal, name, number, span
from presence_dashboard.mending import Act, open_bench
from presence_dashboard.readings import health_before, health_now, now
from presence_dashboard.store import open_store
from presence_dashboard.tab import this_tab
from presence_dashboard.views import kept, notices
from presence_dashboard.views.pending import not_yet
from presence_dashboard.wording import plain

access.stop_without_gate()

_ASK: Final = "health-ask"
_PER_SECOND: Final = 5_000
"""Sessions that a repair visits, roughly: enough to say seconds, minutes or hours."""

_WHILE_MENDING: Final = 5.0
"""Seconds between two looks at work that runs, also where the reader has paused the rest."""

Icon = tuple[str, str]
_BADGES: Final[dict[str, Icon]] = {
    "ok": (":material/check_circle:", "green"),
    "note": (":material/info:", "blue"),
    "warning": (":material/warning:", "orange"),
    "error": (":material/error:", "red"),
}


def page() -> None:
    state, upkeep = st.container(), st.container()
    with st.skeleton(height=420):
        health_now()
    # Each alone in a container of its own: a fragment that shares one may vanish when it meets a rerun.
    with state:
        st.fragment(_state, run_every=this_tab().tick)()
    work = open_bench().work
    with upkeep:
        st.fragment(_upkeep, run_every=this_tab().tick or (_WHILE_MENDING if work and work.runs else None))()
    if _ASK in st.session_state:
        act: Act = st.session_state[_ASK]
        st.dialog(texts.HEALTH_ASK[act], on_dismiss=_close)(_dialog)(act)


def _slowest(health: Health) -> float | None:
    return max((node.latency_ms for node in health.nodes if node.latency_ms is not None), default=None)


def _state() -> None:
    reading, counts = health_now(), open_store().counts()
    if counts.error is not None:
        st.markdown(code(str(counts.error)))  # this page is for those who can do something about it
    if reading.value is None:
        not_yet(reading)
        return
    health = reading.value
    if counts.failure is None:  # what was well before says nothing of now
        _headline(health)
    _strip(health)
    _findings(health.findings)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _servers(health.nodes)
    with right:
        _facts(texts.HEALTH_WORKER, _worker(health))
        _facts(texts.HEALTH_DATA, _data(health))
    kept.draw(open_store().presence.settings)
    st.caption(texts.health_as_of(span(reading.age)))


def _headline(health: Health) -> None:
    show = {"ok": st.success, "note": st.info, "warning": st.warning, "error": st.error}[health.level]
    show(texts.HEALTH_HEADLINES[health.level], icon=_BADGES[health.level][0])


# -- Figures -----------------------------------------------------------------------------------------------------------


def _strip(health: Health) -> None:
    figures: tuple[tuple[str, Callable[[Health], float | None], Callable[[Any], str], str], ...] = (
        (texts.HEALTH_LATENCY, _slowest, texts.health_ms, texts.HEALTH_LATENCY_HELP),
        (texts.HEALTH_MEMORY, partial(_sum, "used_memory"), _size, texts.HEALTH_MEMORY_HELP),
        (texts.HEALTH_EVICTED, partial(_sum, "evicted_keys"), number, texts.HEALTH_EVICTED_HELP),
        (texts.HEALTH_CLIENTS, partial(_sum, "clients"), number, texts.HEALTH_CLIENTS_HELP),
        (texts.HEALTH_LAG, lambda one: one.lag_seconds, texts.health_seconds, texts.HEALTH_LAG_HELP),
    )
    before = list(health_before())
    with st.grid(5, min_column_width=132, gap="xsmall", key="health-strip"):
        for label, of, show, explained in figures:
            history = [value for one in before if (value := of(one)) is not None]
            st.metric(
                label,
                _or_none(of(health), show),
                help=explained,
                border=True,
                height="stretch",
                delta_color="off",
                chart_data=history if len(history) > 1 else None,
            )


def _sum(field: str, health: Health) -> int | None:
    """Over all servers that tell it; None where none does."""
    told = [int(value) for node in health.nodes if (value := getattr(node, field)) is not None]
    return sum(told) if told else None


def _size(value: float) -> str:
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


# -- Findings ----------------------------------------------------------------------------------------------------------


def _findings(findings: Sequence[Finding]) -> None:
    fine = [one for one in findings if one.level == "ok"]
    with st.container(gap="small", key="findings"):
        for finding in findings:
            if finding.level != "ok":
                _finding(finding)
    with st.expander(texts.health_in_order(len(fine)), key="health-in-order"):
        for finding in fine:
            _finding(finding)


def _finding(finding: Finding) -> None:
    """Its words hold names of servers and users of Redis: they are shown as plain text."""
    icon, colour = _BADGES[finding.level]
    with st.container(border=finding.level != "ok", gap="xxsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(texts.HEALTH_LEVELS[finding.level], icon=icon, color=cast("Any", colour))
            st.markdown(name(finding.subject), width="content")
        st.text(literal(finding.text), width="stretch")
        if finding.advice:
            st.text(texts.health_advice(literal(finding.advice)), width="stretch")


# -- Facts -------------------------------------------------------------------------------------------------------------


def _facts(title: str, facts: dict[str, str]) -> None:
    st.markdown(f"**{title}**")
    _table({texts.HEALTH_FACT: list(facts), texts.HEALTH_VALUE: [literal(one) for one in facts.values()]}, title)


def _servers(nodes: Sequence[NodeHealth]) -> None:
    """One column a server."""
    st.markdown(f"**{texts.HEALTH_SERVERS}**")
    moment = now()
    told = [dict(_server(node, moment)) for node in nodes]
    if told:
        columns = {
            literal(node.address): [literal(value) for value in one.values()]
            for node, one in zip(nodes, told, strict=True)
        }
        _table({texts.HEALTH_FACT: list(told[0]), **columns}, texts.HEALTH_SERVERS)


def _table(columns: dict[str, list[str]], title: str) -> None:
    first, *others = columns
    widths: dict[str, Any] = {first: st.column_config.TextColumn(width=150, pinned=True)}
    widths |= {one: st.column_config.TextColumn(width=160) for one in others}
    st.dataframe(pa.table(columns), column_config=widths, hide_index=True, height="content", row_height=31, alt=title)


def _or_none(value: object, show: Callable[[Any], str]) -> str:
    return texts.NO_VALUE if value is None else show(value)


def _server(node: NodeHealth, moment: datetime) -> Iterator[tuple[str, str]]:
    kind = " ".join(filter(None, (node.kind, node.version)))
    yield texts.HEALTH_KIND, kind or texts.NO_VALUE
    yield texts.HEALTH_ROLE, node.role or texts.NO_VALUE
    yield texts.HEALTH_UPTIME, _or_none(node.uptime, span)
    yield texts.HEALTH_LATENCY, _or_none(node.latency_ms, texts.health_ms)
    yield texts.HEALTH_MEMORY, _or_none(node.used_memory, _size)
    yield (
        texts.HEALTH_MEMORY_LIMIT,
        _or_none(node.maxmemory, lambda value: _size(value) if value else texts.HEALTH_NO_LIMIT),
    )
    yield texts.HEALTH_EVICTION, node.maxmemory_policy or texts.NO_VALUE
    yield texts.HEALTH_EVICTED, _or_none(node.evicted_keys, number)
    yield texts.HEALTH_AOF, _aof(node)
    yield texts.HEALTH_SNAPSHOT, _snapshot(node, moment)
    yield texts.HEALTH_UNSAVED, _or_none(node.unsaved_changes, number)
    yield texts.HEALTH_CLIENTS, _or_none(node.clients, number)
    yield (
        texts.HEALTH_REPLICAS,
        _or_none(node.replicas, lambda value: texts.health_replicas(node.replicas_online or 0, value)),
    )
    yield texts.HEALTH_CLOCK, _or_none(node.clock_offset, texts.health_offset)
    yield texts.HEALTH_SHARDS_SERVED, _or_none(node.shards, number)


def _aof(node: NodeHealth) -> str:
    if node.aof_enabled is None:
        return texts.NO_VALUE
    if not node.aof_enabled:
        return texts.HEALTH_OFF
    return texts.HEALTH_ON_FAILS if node.aof_ok is False else texts.HEALTH_ON


def _snapshot(node: NodeHealth, moment: datetime) -> str:
    if node.snapshots is False:
        return texts.HEALTH_OFF
    if node.saved_at is None:
        return texts.NO_VALUE
    return texts.health_snapshot(_ago(node.saved_at, moment), node.save_ok is not False)


def _ago(then: datetime, moment: datetime) -> str:
    return span((moment - then).total_seconds())


def _when(then: datetime, moment: datetime) -> str:
    return texts.health_ago(_ago(then, moment), clock(then) if moment - then < timedelta(days=1) else exact(then))


def _worker(health: Health) -> dict[str, str]:
    worker, moment = health.worker, now()
    if worker is None:
        return {texts.HEALTH_LEADER: texts.HEALTH_NO_WORKER}
    return {
        texts.HEALTH_LEADER: worker.leader if worker.alive else f"{worker.leader}: {texts.HEALTH_GONE}",
        texts.HEALTH_LEADS_SINCE: _ago(worker.since, moment) if worker.alive else texts.NO_VALUE,
        texts.HEALTH_BEAT: _when(worker.beat, moment),
        texts.HEALTH_LAST_SWEEP: _or_none(worker.last_run, lambda at: _when(at, moment)),
        texts.HEALTH_LAG: _or_none(health.lag_seconds, texts.health_seconds),
        texts.HEALTH_PAUSED: worker.paused or (texts.HEALTH_SWEEPS if worker.alive else texts.NO_VALUE),
    }


def _data(health: Health) -> dict[str, str]:
    off = health.disagreeing
    return {
        texts.SESSIONS: _or_none(health.sessions, number),
        texts.HEALTH_USERS: _or_none(health.users, number),
        texts.HEALTH_AGREEMENT: _or_none(
            off,
            lambda shards: texts.health_disagree(", ".join(map(str, shards))) if shards else texts.HEALTH_AGREE,
        ),
        texts.HEALTH_INDEXES: _or_none(health.indexes, lambda some: ", ".join(some) or texts.HEALTH_NONE),
        texts.HEALTH_SHARDS: _or_none(health.shards, number),
        texts.HEALTH_PER_SHARD: _or_none(
            health.sessions_per_shard,
            lambda one: texts.health_spread(number(one.least), number(round(one.mean)), number(one.most)),
        ),
        texts.HEALTH_SCHEMA: _or_none(health.schema, str),
    }


# -- Upkeep ------------------------------------------------------------------------------------------------------------


def _upkeep() -> None:
    st.markdown(f"**{texts.HEALTH_UPKEEP}**")
    work = open_bench().work
    _progress()
    if not access.may("repair"):
        st.caption(texts.HEALTH_UPKEEP_READ_ONLY)
        return
    off = this_tab().away or (work is not None and work.runs)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for act, label, explained in (
            ("repair", texts.HEALTH_REPAIR, texts.HEALTH_REPAIR_HELP),
            ("reindex", texts.HEALTH_REINDEX, texts.HEALTH_REINDEX_HELP),
        ):
            if st.button(
                label,
                key=f"health-{act}",
                help=explained,
                disabled=off,
                on_click=notices.check,
                args=("repair", act),
            ):
                st.session_state[_ASK] = act
                st.rerun()  # the dialog is the page's, not this fragment's
        if this_tab().away:
            st.caption(texts.AWAY_HINT, width="content")


def _progress() -> None:
    work = open_bench().work
    if work is None:
        return
    ago = span(time.monotonic() - (work.begun if work.ended is None else work.ended))
    if work.runs:
        said = texts.health_running(work.act, name(work.by), ago)
        if work.total:
            visited = texts.health_visited(number(work.done), number(work.total))
            st.progress(min(work.done / work.total, 1.0), text=f"{said} · {visited}")
        else:
            st.info(said, icon=":material/hourglass_top:")
    elif work.failure is not None:
        st.error(texts.health_gave_up(work.act, ago, code(work.failure)))
    elif work.report is not None:
        result = texts.health_put_right(work.report.repaired, work.report.expired)
        unaudited = f" {texts.HEALTH_UNAUDITED}" if work.unaudited else ""
        st.success(texts.health_ended(work.act, ago, result + unaudited))


def _close() -> None:
    st.session_state.pop(_ASK, None)


def _dialog(act: Act) -> None:
    st.markdown(texts.HEALTH_ABOUT[act])
    counts = open_store().counts().value
    if counts is not None:
        seconds = counts.sessions / _PER_SECOND
        long = texts.health_about(span(seconds)) if seconds > 2 else texts.HEALTH_MOMENT
        st.markdown(texts.health_how_long(number(counts.sessions), long))
    st.caption(texts.HEALTH_GOES_ON)
    with st.container(horizontal=True, gap="small"):
        label = texts.HEALTH_REPAIR if act == "repair" else texts.HEALTH_REINDEX
        confirmed = st.button(label, key="health-confirm", type="primary", disabled=this_tab().away)
        cancelled = st.button(texts.CANCEL, key="health-cancel")
    if cancelled:
        _close()
        st.rerun()
    if confirmed:
        try:
            begun = open_bench().begin(open_store().presence, act)
        except (PresenceError, InvalidArgument, access.Denied, access.SignedOut) as error:
            st.error(texts.could_not(plain(error)))
            return
        if not begun:
            st.error(texts.HEALTH_BUSY)
            return
        _close()
        st.rerun()


page()
