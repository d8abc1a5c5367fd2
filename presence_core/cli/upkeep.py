"""Upkeep, and how it went: sweep, repair, reindex, migrate, worker, history and status."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from presence_core.cli.asked import Maker, moment
from presence_core.cli.shown import Growing, columns, complain, say, stamp
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.worker import Worker


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    command("sweep", _sweep, "End what is past its deadline, now.")
    command("repair", _repair, "Make lists, sets and records agree again.")
    command("reindex", _reindex, "Make search indexes and counters anew, as PRESENCE_INDEXES and PRESENCE_FACETS ask.")
    move = command("migrate", _migrate, "Move everything to another number of shards; if stopped, call it again.")
    move.add_argument("--shards", type=int, required=True, metavar="N", help="how many there are to be, 1 to 1024")
    past = command("history", _history, "Counts over time.")
    past.add_argument("--since", default="1h", metavar="WHEN", help="30m, 1h, 7d ago, or an ISO time, UTC (1h)")
    past.add_argument("--step", type=int, metavar="SECONDS", help="of one line; by default what suits the span")
    command("status", _status, "Which worker leads, when it last swept, how far behind it was.")
    worker = command("worker", _worker, "Sweep, and take samples for the history, until Ctrl-C or SIGTERM.")
    worker.add_argument("--interval", type=float, default=5.0, help="seconds between sweeps (5)")
    worker.add_argument("--accept-clock", action="store_true", help="Redis's clock is right, although it has jumped")


def _sweep(presence: Presence, args: argparse.Namespace) -> int:
    report = presence.sweep()
    say(args, report, [f"{report.expired} sessions had expired; {report.repaired} entries were put right."])
    return 0


def _repair(presence: Presence, args: argparse.Namespace) -> int:
    report = presence.repair()
    say(args, report, [f"{report.repaired} entries were put right; {report.expired} sessions ended as expired."])
    return 0


def _reindex(presence: Presence, args: argparse.Namespace) -> int:
    try:
        with Growing() as line:
            report = presence.reindex(on_progress=lambda done, of: line.say(f"{done:,} of {of:,} sessions visited"))
    except KeyboardInterrupt:
        complain("Stopped half-way: until it has been through, searches walk the list. Go on: presence reindex")
        raise
    kept = ", ".join(presence.settings.indexes) or "none"
    counted = ", ".join(("device", "app", "app_version", "os", "browser", *presence.settings.facets))
    put_right = f"{report.repaired:,} {'entry was' if report.repaired == 1 else 'entries were'} put right"
    say(args, report, [f"Indexes: {kept}. Counted: {counted}. {put_right}."])
    return 0


def _migrate(presence: Presence, args: argparse.Namespace) -> int:
    does = {
        "copy": "keys copied",
        "check": "keys copied, and checked",
        "change": "keys copied, with what changed meanwhile",
        "last": "keys copied; the last changes, while writes wait",
        "index": "sessions indexed",
        "remove": "removed",
    }
    try:
        with Growing() as line:
            done = presence.migrate(args.shards, on_progress=lambda step, number: line.say(f"{number:,} {does[step]}"))
    except KeyboardInterrupt:
        complain(f"Stopped half-way. In ten seconds it may go on, for an hour: presence migrate --shards {args.shards}")
        raise
    if done.before == done.shards:
        lines = [f"There are {done.shards} shards already."]
    else:
        copied = f": {done.sessions:,} sessions, {done.keys:,} keys" if done.keys else ""  # not by this call
        lines = [f"Moved from {done.before} to {done.shards} shards{copied}; {done.removed:,} old keys removed."]
    say(args, done, lines)
    return 0


def _worker(presence: Presence, args: argparse.Namespace) -> int:
    told: list[int] = []
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    with Worker(presence, interval=args.interval, accept_clock=args.accept_clock):
        while not told:
            time.sleep(0.2)
    return 0


# -- how it went ------------------------------------------------------------------------------------------------------

_AGO = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _begin(since: str, now: datetime) -> datetime | float:
    """ "24h" before now, or a time."""
    try:
        if since[-1:] in _AGO:
            return now - timedelta(seconds=int(since[:-1]) * _AGO[since[-1]])
        return moment(since)
    except (ValueError, OverflowError, argparse.ArgumentTypeError):
        raise InvalidArgument("since", "must be like 30m, 24h or 7d, or an ISO time") from None


def _history(presence: Presence, args: argparse.Namespace) -> int:
    samples = presence.history(_begin(args.since, presence.counts().as_of), step=args.step)
    rows: list[Sequence[str]] = [("FROM (UTC)", "USERS", "SESSIONS", "LEAST", "MEAN", "MOST", "LOGINS", "LOGOUTS",
                                  "KICKED", "EXPIRED", "REPLACED")]  # fmt: skip
    for one in samples:
        numbers = (one.users, one.sessions, one.sessions_min, round(one.sessions_mean), one.sessions_max, one.logins,
                   one.logouts, one.kicked, one.expired, one.replaced)  # fmt: skip
        rows.append((stamp(one.at), *map(str, numbers)))
    lines: Iterable[str] = columns(rows)
    if samples and not samples[-1].complete:
        lines = [*lines, "The last line is still running."]
    say(args, samples, lines if samples else ["No sample was taken in that time: is a worker running?"])
    return 0 if samples else 1


def _status(presence: Presence, args: argparse.Namespace) -> int:
    status = presence.worker_status()
    if status is None:
        lines = ["No worker has ever run here: start one, presence worker."]
    else:
        did = "leads since" if status.alive else "no longer leads, and nobody else does; it began at"
        ran = f"{stamp(status.last_run)} UTC" if status.last_run else "never"
        lines = [f"{status.leader} {did} {stamp(status.since)} UTC.",
                 f"Last sweep: {ran}, {status.lag_seconds:.1f} s behind."]  # fmt: skip
        lines += [status.paused] if status.paused else []
    say(args, status, lines)
    return 0 if status and status.alive else 1
