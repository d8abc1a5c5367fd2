"""Maintenance: ``presence worker``, ``sweep``, ``repair`` and ``reindex``."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time

from presence_core.cli.alerts import add_alerts, alert_webhook
from presence_core.cli.arguments import LOG_HELP, AddCommand
from presence_core.cli.metrics import metrics_server
from presence_core.cli.output import ProgressLine, count_of, print_error, print_result
from presence_core.cli.telemetry import start_telemetry
from presence_core.client import Presence
from presence_core.logs import start_logs
from presence_core.schema.conditions import FACETS
from presence_core.worker import Worker


def add_commands(add_command: AddCommand) -> None:
    help = "Run sweeps, the history and bulk kicks, until Ctrl-C."
    worker = add_command("worker", _worker, help, json=False, changes=True)
    worker.epilog = LOG_HELP
    worker.add_argument("--interval", type=float, default=5.0, help="seconds between sweeps (default 5)")
    worker.add_argument("--accept-clock", action="store_true", help="go on although the clock of Redis has jumped")
    worker.add_argument("--metrics", metavar="HOST:PORT", help="serve metrics for Prometheus here")
    add_alerts(worker)
    add_command("sweep", _sweep, "End all sessions that are past their deadline, now.", changes=True)
    add_command("repair", _repair, "Read everything and make lists, indexes and records agree.", changes=True)
    help = "Rebuild the indexes and counters of PRESENCE_INDEXES and PRESENCE_FACETS."
    add_command("reindex", _reindex, help, changes=True)


def _worker(presence: Presence, args: argparse.Namespace) -> int:
    start_logs(args.environ)
    start_telemetry(presence, args.environ)
    terminated = threading.Event()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    with (
        metrics_server(args.metrics) as export,
        alert_webhook(args, os.environ) as alerts,
        Worker(presence, interval=args.interval, accept_clock=args.accept_clock, alerts=alerts) as worker,
    ):
        export(presence, worker)
        while not terminated.is_set():
            time.sleep(0.2)
    return 0


def _sweep(presence: Presence, args: argparse.Namespace) -> int:
    report = presence.sweep()
    line = f"Ended {count_of(report.expired, 'expired session')}; repaired {_entries(report.repaired)}."
    print_result(args, report, [line])
    return 0


def _repair(presence: Presence, args: argparse.Namespace) -> int:
    report = presence.repair()
    line = f"Repaired {_entries(report.repaired)}; ended {count_of(report.expired, 'expired session')}."
    print_result(args, report, [line])
    return 0


def _reindex(presence: Presence, args: argparse.Namespace) -> int:
    try:
        with ProgressLine() as line:
            report = presence.reindex(on_progress=lambda done, of: line.show(f"{done:,} of {of:,} sessions visited"))
    except KeyboardInterrupt:
        print_error("Stopped before the end. Searches scan all sessions until it is finished: presence reindex")
        raise
    indexes = ", ".join(presence.settings.indexes) or "none"
    counted = ", ".join((*FACETS, *presence.settings.facets))
    print_result(args, report, [f"Indexes: {indexes}. Counted: {counted}. Repaired {_entries(report.repaired)}."])
    return 0


def _entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"
