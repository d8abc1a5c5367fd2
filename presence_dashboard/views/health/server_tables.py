"""The tables of the Health page: servers, worker and data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types
import streamlit as st

from presence_core import Health, NodeHealth
from presence_dashboard import texts
from presence_dashboard.components.session_facts import time_of_day
from presence_dashboard.data.shared_reads import now
from presence_dashboard.format import literal, number, span


def fact_table(title: str, facts: dict[str, str]) -> None:
    """A table of labels and values under a title."""
    st.markdown(f"**{title}**")
    _table({texts.HEALTH_FACT: list(facts), texts.HEALTH_VALUE: [literal(value) for value in facts.values()]}, title)


def server_table(nodes: Sequence[NodeHealth]) -> None:
    """A table with one column for each server."""
    st.markdown(f"**{texts.HEALTH_SERVERS}**")
    moment = now()
    columns_of_servers = [dict(_server(node, moment)) for node in nodes]
    if columns_of_servers:
        columns = {
            literal(node.address): [literal(value) for value in facts.values()]
            for node, facts in zip(nodes, columns_of_servers, strict=True)
        }
        _table({texts.HEALTH_FACT: list(columns_of_servers[0]), **columns}, texts.HEALTH_SERVERS)


def _table(columns: dict[str, list[str]], title: str) -> None:
    first, *others = columns
    widths: dict[str, Any] = {first: st.column_config.TextColumn(width=150, pinned=True)}
    widths |= {column: st.column_config.TextColumn(width=160) for column in others}
    st.dataframe(pa.table(columns), column_config=widths, hide_index=True, height="content", row_height=31, alt=title)


def value_or_dash(value: object, show: Callable[[Any], str]) -> str:
    """The value as text, or a dash if it is not known."""
    return texts.NO_VALUE if value is None else show(value)


def _server(node: NodeHealth, moment: datetime) -> Iterator[tuple[str, str]]:
    kind = " ".join(filter(None, (node.kind, node.version)))
    yield texts.HEALTH_KIND, kind or texts.NO_VALUE
    yield texts.LABEL_ROLE, node.role or texts.NO_VALUE
    yield texts.HEALTH_UPTIME, value_or_dash(node.uptime, span)
    yield texts.HEALTH_LATENCY, value_or_dash(node.latency_ms, texts.health_ms)
    yield texts.HEALTH_MEMORY, value_or_dash(node.used_memory, size)
    yield (
        texts.HEALTH_MEMORY_LIMIT,
        value_or_dash(node.maxmemory, lambda value: size(value) if value else texts.HEALTH_NO_LIMIT),
    )
    yield texts.HEALTH_EVICTION, node.maxmemory_policy or texts.NO_VALUE
    yield texts.HEALTH_EVICTED, value_or_dash(node.evicted_keys, number)
    yield texts.HEALTH_AOF, _aof(node)
    yield texts.HEALTH_SNAPSHOT, _snapshot(node, moment)
    yield texts.HEALTH_UNSAVED, value_or_dash(node.unsaved_changes, number)
    yield texts.HEALTH_CLIENTS, value_or_dash(node.clients, number)
    yield (
        texts.HEALTH_REPLICAS,
        value_or_dash(node.replicas, lambda value: texts.health_replicas(node.replicas_online or 0, value)),
    )
    yield texts.HEALTH_CLOCK, value_or_dash(node.clock_offset, texts.health_offset)
    yield texts.HEALTH_SHARDS_SERVED, value_or_dash(node.shards, number)


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
    return texts.health_ago(_ago(then, moment), time_of_day(then))


def worker_facts(health: Health) -> dict[str, str]:
    """Labels and values of the worker."""
    worker, moment = health.worker, now()
    if worker is None:
        return {texts.HEALTH_LEADER: texts.HEALTH_NO_WORKER}
    return {
        texts.HEALTH_LEADER: worker.leader if worker.alive else f"{worker.leader}: {texts.HEALTH_GONE}",
        texts.HEALTH_LEADS_SINCE: _ago(worker.since, moment) if worker.alive else texts.NO_VALUE,
        texts.HEALTH_BEAT: _when(worker.beat, moment),
        texts.HEALTH_LAST_SWEEP: value_or_dash(worker.last_run, lambda at: _when(at, moment)),
        texts.HEALTH_LAG: value_or_dash(health.lag_seconds, texts.health_seconds),
        texts.HEALTH_PAUSED: worker.paused or (texts.HEALTH_SWEEPS if worker.alive else texts.NO_VALUE),
    }


def data_facts(health: Health) -> dict[str, str]:
    """Labels and values of the stored data."""
    inconsistent, sign_ins = health.disagreeing, health.sign_ins_memory
    return {
        texts.SESSIONS: value_or_dash(health.sessions, number),
        texts.USERS: value_or_dash(health.users, number),
        texts.HEALTH_AGREEMENT: value_or_dash(
            inconsistent,
            lambda shards: texts.health_disagree(", ".join(map(str, shards))) if shards else texts.HEALTH_AGREE,
        ),
        texts.HEALTH_INDEXES: value_or_dash(health.indexes, lambda names: ", ".join(names) or texts.HEALTH_NONE),
        texts.HEALTH_SHARDS: value_or_dash(health.shards, number),
        texts.HEALTH_PER_SHARD: value_or_dash(
            health.sessions_per_shard,
            lambda spread: texts.health_spread(number(spread.least), number(round(spread.mean)), number(spread.most)),
        ),
        texts.HEALTH_ENDED: texts.HEALTH_ENDED_ALL
        if health.ended_complete_since is None
        else texts.health_ended_since(time_of_day(health.ended_complete_since)),
        **({texts.HEALTH_SIGN_INS: size(sign_ins)} if sign_ins else {}),
        texts.HEALTH_SCHEMA: value_or_dash(health.schema, str),
    }


def size(value: float) -> str:
    """A number of bytes in B, kB, MB or GB."""
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
