"""Counts now and over time: ``presence stats`` and ``presence history``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Final

from presence_core import validation as check
from presence_core.cli.arguments import AddCommand, parse_time
from presence_core.cli.output import count_of, format_time, print_result, records_table, table
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.models import Counts, WorkerStatus
from presence_core.schema.endings import END_COUNTS

_FACETS: Final = ("device", "app", "browser")
_TOP: Final = 5
"""Values shown of each facet."""

_MINUTES: Final = 10
"""Minutes over which ``per minute`` is the mean."""


_RATES: Final = ("logins", *END_COUNTS, "new_devices", "distant_logins")

_HISTORY_COLUMNS: Final = {
    "FROM (UTC)": "at", "USERS": "users", "SESSIONS": "sessions", "LEAST": "sessions_min", "MEAN": "sessions_mean",
    "MOST": "sessions_max", "LOGINS": "logins", **{name.upper(): name for name in END_COUNTS},
    "NEW DEVICES": "new_devices", "DISTANT": "distant_logins",
}  # fmt: skip

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def add_commands(add_command: AddCommand) -> None:
    stats = add_command("stats", _stats, "Show the most important numbers on one screen.")
    stats.add_argument("--every", type=int, metavar="SECONDS", help="repeat until Ctrl-C, 1 to 3600")
    history = add_command("history", _history, "Show counts over time.")
    history.add_argument("--since", default="1h", metavar="TIME",
                         help="how long ago, such as 30m, 24h or 7d, or an ISO time in UTC (default 1h)")  # fmt: skip
    history.add_argument("--step", type=int, metavar="SECONDS", help="length of a line (default: fits the period)")


@dataclass(frozen=True, slots=True)
class _Peak:
    """The most sessions and users at once today, and the hour in which there were the most sessions."""

    sessions: int
    users: int
    hour: datetime


@dataclass(frozen=True, slots=True)
class _Overview:
    """All that ``presence stats`` prints."""

    counts: Counts
    per_minute: Mapping[str, float] | None  #: mean rates; None without samples
    peak_today: _Peak | None
    top: Mapping[str, Mapping[str, int]]  #: the most frequent values of some facets
    worker: WorkerStatus | None


def _stats(presence: Presence, args: argparse.Namespace) -> int:
    if args.every is not None:
        check.whole("every", args.every, 1, 3600)
    while True:
        overview = _overview(presence)
        lines = list(_overview_lines(overview))
        is_terminal = sys.stdout.isatty()
        if args.every and is_terminal and not args.json:
            print("\x1b[H\x1b[2J", end="")
        print_result(args, overview, lines)
        if args.every is None:
            return 0
        if not is_terminal and not args.json:
            print()
        sys.stdout.flush()
        time.sleep(args.every)


def _overview(presence: Presence) -> _Overview:
    counts = presence.counts()
    return _Overview(
        counts=counts,
        per_minute=_rates(presence, counts.as_of),
        peak_today=_peak(presence, counts.as_of),
        top={field: dict(list(presence.facets(field).items())[:_TOP]) for field in _FACETS},
        worker=presence.worker_status(),
    )


def _rates(presence: Presence, now: datetime) -> dict[str, float] | None:
    """Logins and ends per minute, over the time that was watched."""
    samples = [sample for sample in presence.history(now - timedelta(minutes=_MINUTES), step=60) if sample.at <= now]
    watched = sum(sample.watched or 0 for sample in samples)
    minutes = max(watched - 10, 10 * sum(sample.samples for sample in samples)) / 60  # the first of all counts nothing
    if not minutes:
        return None
    return {name: round(sum(getattr(sample, name) for sample in samples) / minutes, 1) for name in _RATES}


def _peak(presence: Presence, now: datetime) -> _Peak | None:
    hours = presence.history(_midnight(now), step=3600)
    if not hours:
        return None
    busiest = max(hours, key=lambda hour: hour.sessions_max)
    return _Peak(busiest.sessions_max, max(hour.users_max for hour in hours), busiest.at)


def _midnight(now: datetime) -> datetime:
    """The start of the day in UTC; at midnight itself a second earlier, because a period must not be empty."""
    start = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return start if start < now else start - timedelta(seconds=1)


def _overview_lines(overview: _Overview) -> Iterator[str]:
    counts = overview.counts
    online = f"{count_of(counts.users, 'user')} online in {count_of(counts.sessions, 'session')}"
    yield f"{online}, {format_time(counts.as_of)} UTC"
    if peak := overview.peak_today:
        yield f"peak today   {peak.sessions:,} sessions (hour of {peak.hour:%H:%M} UTC), {peak.users:,} users"
    if rates := overview.per_minute:
        ends = sum(rates[name] for name in END_COUNTS)
        yield f"per minute   {rates['logins']:,.1f} logins, {ends:,.1f} ends (last {_MINUTES} minutes)"
    else:
        yield "per minute   unknown: no worker has recorded samples recently"
    totals = {**counts.totals, **counts.odd_logins, "failed": counts.failed_logins}
    yield f"totals       {', '.join(f'{number:,} {kind}' for kind, number in totals.items())}"
    yield f"worker       {_worker_state(overview.worker)}"
    yield ""
    yield from _top_table(overview.top)


def _top_table(top: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """The most frequent values of each facet, next to each other. Nothing without values."""
    if not any(top.values()):
        return
    rows: list[Sequence[str]] = [[cell for field in top for cell in (field.upper(), "SESSIONS")]]
    columns = [[(value, f"{count:,}") for value, count in values.items()] for values in top.values()]
    rows += [[cell for pair in line for cell in pair] for line in zip_longest(*columns, fillvalue=("", ""))]
    yield from table(rows)


def _worker_state(worker: WorkerStatus | None) -> str:
    if worker is None:
        return "none has run here. Start one: presence worker"
    if not worker.alive:
        return f"none runs; the last was active at {format_time(worker.beat)} UTC"
    return worker.paused or f"{worker.leader} leads, {worker.lag_seconds:.1f} s late"


def _history(presence: Presence, args: argparse.Namespace) -> int:
    now = presence.counts().as_of
    samples = presence.history(_start(args.since, now), step=args.step)
    if not samples:
        print_result(args, samples, ["There are no samples of this period. Is a worker running?"])
        return 1
    lines = list(records_table(_HISTORY_COLUMNS, samples))
    if not samples[-1].complete and now < samples[-1].at + timedelta(seconds=samples[-1].step + 10):
        lines.append("The period of the last line has not ended yet.")
    print_result(args, samples, lines)
    return 0


def _start(since: str, now: datetime) -> datetime | float:
    """Parse a time, or how long ago it was, such as ``24h``."""
    try:
        if since[-1:] in _UNITS:
            return now - timedelta(seconds=int(since[:-1]) * _UNITS[since[-1]])
        return parse_time(since)
    except (ValueError, OverflowError, argparse.ArgumentTypeError):
        raise InvalidArgument("since", "must be like 30m, 24h or 7d, or an ISO time", "malformed") from None
