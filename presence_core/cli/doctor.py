"""How all of it is, and what to do: ``presence doctor``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from presence_core.cli.asked import Maker
from presence_core.cli.shown import columns, say
from presence_core.client import Presence
from presence_core.models import Health, NodeHealth

_AWAY = (
    "Look whether the server runs and PRESENCE_REDIS_URL is right: host, port, user, password, rediss:// for TLS, "
    "redis+cluster:// for a cluster; and whether a firewall is in between."
)


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    doctor = command("doctor", _doctor, "How Redis, the data and the worker are, and what to do about it.")
    doctor.set_defaults(when_away=_AWAY)


def _doctor(presence: Presence, args: argparse.Namespace) -> int:
    """1 where there is a warning or an error."""
    health = presence.health()
    say(args, health, _told(health))
    return 0 if health.level in ("ok", "note") else 1


def _told(health: Health) -> Iterator[str]:
    findings: list[Sequence[str]] = [("LEVEL", "ABOUT", "WHAT IS, AND WHAT TO DO")]
    for one in health.findings:
        findings.append((one.level, one.subject, one.text))
        if one.advice:
            findings.append(("", "", f"→ {one.advice}"))
    yield from columns(findings)
    yield ""
    nodes: list[Sequence[str]] = [("NODE", "SERVER", "ROLE", "PING", "MEMORY", "CLIENTS", "REPLICAS", "SHARDS")]
    nodes += [_row(node) for node in health.nodes]
    yield from columns(nodes)
    if (sizes := health.sessions_per_shard) and health.shards and health.shards > 1:
        yield (
            f"{health.sessions or 0:,} sessions on {health.shards} shards: {sizes.least:,} to {sizes.most:,} on each, "
            f"{sizes.mean:,.1f} on average."
        )
    if keys := health.keys_per_shard:
        yield f"{keys.least:,} to {keys.most:,} keys of a shard, {keys.mean:,.1f} on average."


def _row(node: NodeHealth) -> Sequence[str]:
    server = f"{node.kind} {node.version}" if node.version else "-"
    ping = "-" if node.latency_ms is None else f"{node.latency_ms:.1f} ms"
    memory = "-" if node.used_memory is None else f"{node.used_memory / 1e6:,.1f} MB"
    numbers = (node.clients, node.replicas, node.shards)
    return (
        node.address,
        server,
        node.role or "-",
        ping,
        memory,
        *("-" if one is None else f"{one:,}" for one in numbers),
    )
