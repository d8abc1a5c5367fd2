"""``presence doctor --report``: what maintainers need to know about an installation, without names or secrets."""

from __future__ import annotations

import dataclasses
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal, get_origin, get_type_hints

from presence_core import __version__
from presence_core.client import Presence
from presence_core.errors import PresenceError
from presence_core.models import Health, NodeHealth
from presence_core.settings import Settings

PACKAGES: Final = (
    "redis", "hiredis", "streamlit", "pandas", "fastapi", "starlette", "uvicorn", "uvloop", "django", "flask",
    "joserfc",
)  # fmt: skip
"""Packages whose version may explain a bug."""

_ADDRESS: Final = re.compile(
    r"\[[0-9a-fA-F:.]+\](:\d+)?|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|\b[\w.-]+:\d{2,5}\b|/[\w./-]+"
)
"""An IP address, a host with a port, or a path."""


def report_lines(presence: Presence) -> Iterator[str]:
    """The report, as text to paste. While Redis is away it has what is known without it."""
    yield f"presence_core {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version_of(name)))
    changed = list(_changed_settings(presence.internal.context.settings))
    yield f"Settings other than the defaults: {', '.join(changed) or 'none'}"
    try:
        health = presence.health()
    except PresenceError as error:
        code: object = getattr(error, "code", None)
        yield f"Health: {type(error).__name__}" + (f", code {code}" if code else "")
        return
    yield from _health_lines(health, is_cluster=presence.internal.context.is_cluster)


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _changed_settings(settings: Settings) -> Iterator[str]:
    """Numbers and choices with their value. Of text, such as names and paths, only that it is set."""
    kinds = get_type_hints(Settings)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value == field.default:
            continue
        if isinstance(value, tuple):
            yield f"{field.name}: {len(value)}"
        elif isinstance(value, int | float | None) or get_origin(kinds[field.name]) is Literal:
            yield f"{field.name}={value}"
        else:
            yield f"{field.name}: set"


def _health_lines(health: Health, *, is_cluster: bool) -> Iterator[str]:
    topology = "cluster" if is_cluster else "one server" if health.sentinels is None else "Sentinel"
    yield f"Topology: {topology}; schema {health.schema}, shards {health.shards}, sessions {health.sessions}"
    for number, node in enumerate(health.nodes, 1):
        yield f"Node {number}: {_node(node)}"
    worker = health.worker
    if worker is None:
        yield "Worker: none has ever run"
    else:
        lag = "unknown" if health.lag_seconds is None else f"{health.lag_seconds:.1f} s"
        yield f"Worker: {'leads' if worker.alive else 'none leads'}, lag {lag}"
    private = {node.address: f"node {number}" for number, node in enumerate(health.nodes, 1)}
    if worker is not None and worker.leader:
        private[worker.leader] = "the worker"
    for finding in health.findings:
        yield f"{finding.level}: {finding.subject}: {without_names(finding.text, private)}"


def _node(node: NodeHealth) -> str:
    """Its version and state, without its address."""
    facts: dict[str, Any] = {
        "role": node.role, "memory": node.used_memory, "maxmemory": node.maxmemory, "policy": node.maxmemory_policy,
        "evicted": node.evicted_keys, "clients": node.clients, "replicas": node.replicas, "aof": node.aof_enabled,
        "snapshots": node.snapshots, "ping_ms": node.latency_ms, "clock_offset": node.clock_offset,
    }  # fmt: skip
    rest = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    return f"{node.kind or 'unknown'} {node.version or ''}, {rest or 'does not reply'}"


def without_names(text: str, private: dict[str, str]) -> str:
    """Text without these names, and without what looks like an address or a path."""
    for name in sorted(private, key=len, reverse=True):
        text = text.replace(name, private[name])
    return _ADDRESS.sub("<address>", text)
