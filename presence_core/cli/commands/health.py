"""The state of the servers, the data and the worker: ``presence doctor`` and ``presence status``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from presence_core.cli.arguments import AddCommand
from presence_core.cli.bug_report import report_lines
from presence_core.cli.output import count_of, format_time, print_result, table
from presence_core.client import Presence
from presence_core.models import Health, NodeHealth, WorkerStatus

_ADVICE_IF_UNAVAILABLE: Final = (
    "Check that the server is running, that PRESENCE_REDIS_URL is right (host, port, user, password; rediss:// for "
    "TLS; redis+cluster:// for a cluster), and that no firewall blocks the connection."
)


def add_commands(add_command: AddCommand) -> None:
    doctor = add_command("doctor", _doctor, "Check servers, data and worker, and print advice.")
    doctor.add_argument(
        "--report", action="store_true", help="print what a bug report needs: versions, servers, settings and findings,"
        " without personal data, addresses and secrets"
    )  # fmt: skip
    doctor.set_defaults(advice_if_unavailable=_ADVICE_IF_UNAVAILABLE)
    add_command("status", _status, "Show the worker that leads and its last sweep; exit code 1 if none leads.")


def _doctor(presence: Presence, args: argparse.Namespace) -> int:
    """The exit code is 1 if there is a warning or an error. A report always succeeds."""
    if args.report:
        lines = list(report_lines(presence))
        print_result(args, lines, lines)
        return 0
    health = presence.health()
    print_result(args, health, health_lines(health))
    return 0 if health.level in ("ok", "note") else 1


def health_lines(health: Health) -> Iterator[str]:
    """The findings, then the servers, then how sessions and keys spread over the shards."""
    findings: list[Sequence[str]] = [("LEVEL", "SUBJECT", "FINDING AND ADVICE")]
    for finding in health.findings:
        findings.append((finding.level, finding.subject, finding.text))
        if finding.advice:
            findings.append(("", "", f"→ {finding.advice}"))
    yield from table(findings)
    yield ""
    nodes: list[Sequence[str]] = [("NODE", "SERVER", "ROLE", "PING", "MEMORY", "CLIENTS", "REPLICAS", "SHARDS")]
    nodes += [_node_row(node) for node in health.nodes]
    yield from table(nodes)
    if (spread := health.sessions_per_shard) and health.shards and health.shards > 1:
        total = f"{count_of(health.sessions or 0, 'session')} on {health.shards} shards"
        yield f"{total}: {spread.least:,} to {spread.most:,} per shard, mean {spread.mean:,.1f}."
    if keys := health.keys_per_shard:
        yield f"{keys.least:,} to {keys.most:,} keys per shard, mean {keys.mean:,.1f}."


def _node_row(node: NodeHealth) -> Sequence[str]:
    return (
        node.address,
        f"{node.kind} {node.version}" if node.version else "-",
        node.role or "-",
        "-" if node.latency_ms is None else f"{node.latency_ms:.1f} ms",
        "-" if node.used_memory is None else f"{node.used_memory / 1e6:,.1f} MB",
        *("-" if number is None else f"{number:,}" for number in (node.clients, node.replicas, node.shards)),
    )


def _status(presence: Presence, args: argparse.Namespace) -> int:
    """The exit code is 1 if no worker leads."""
    status = presence.worker_status()
    print_result(args, status, _status_lines(status))
    return 0 if status and status.alive else 1


def _status_lines(status: WorkerStatus | None) -> Iterator[str]:
    if status is None:
        yield "No worker has ever run here. Start a worker: presence worker"
        return
    since = f"{format_time(status.since)} UTC"
    if status.alive:
        yield f"{status.leader} leads since {since}."
    else:
        yield f"No worker leads. The last was {status.leader}, since {since}."
    last_run = f"{format_time(status.last_run)} UTC" if status.last_run else "never"
    yield f"Last sweep: {last_run}" + (f", {status.lag_seconds:.1f} s late." if status.last_run else ".")
    if status.paused:
        yield status.paused
    for alert in status.alerts:
        yield f"{alert.sentence}."
