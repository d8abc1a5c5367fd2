"""All the numbers on one screen: ``presence stats``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any, Final

from presence_core import settings as check
from presence_core.cli.asked import Maker
from presence_core.cli.shown import columns, number_of, say, stamp
from presence_core.client import Presence
from presence_core.models import Counts, WorkerStatus

_FACETS: Final = ("device", "app", "browser")
_TOP: Final = 5
_MINUTES: Final = 10
"""How far back "of late" reaches."""

_ENDS: Final = ("logouts", "kicked", "expired", "replaced")


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    stats = command("stats", _stats, "Who is online and what goes on, on one screen.")
    stats.add_argument("--every", type=int, metavar="SECONDS", help="again and again, until Ctrl-C")


def _stats(presence: Presence, args: argparse.Namespace) -> int:
    if args.every is not None:
        check.whole("every", args.every, 1, 3600)
    while True:
        numbers = _numbers(presence)
        lines = list(_lines(**numbers))
        if args.every and sys.stdout.isatty() and not args.json:
            print("\x1b[H\x1b[2J", end="")
        say(args, numbers, lines)
        if args.every is None:
            return 0
        if not sys.stdout.isatty() and not args.json:
            print()
        sys.stdout.flush()
        time.sleep(args.every)


def _numbers(presence: Presence) -> dict[str, Any]:
    counts = presence.counts()
    now = counts.as_of
    late = [one for one in presence.history(now - timedelta(minutes=_MINUTES), step=60) if one.at <= now]
    today = presence.history(_midnight(now), step=3600)
    minutes = sum(one.samples for one in late) / 6
    rates = {
        what: round(sum(getattr(one, what) for one in late) / minutes, 1) for what in ("logins", *_ENDS) if minutes
    }
    peak = max(today, key=lambda one: one.sessions_max, default=None)
    return {
        "counts": counts,
        "per_minute": rates or None,
        "peak_today": {"sessions": peak.sessions_max, "users": max(one.users_max for one in today), "hour": peak.at}
        if peak
        else None,
        "top": {field: dict(list(presence.facets(field).items())[:_TOP]) for field in _FACETS},
        "worker": presence.worker_status(),
    }


def _midnight(now: datetime) -> datetime:
    """The begin of the day, UTC; on its first tick the one before, for there must be something to ask for."""
    begin = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return begin if begin < now else begin - timedelta(seconds=1)


def _lines(
    counts: Counts,
    per_minute: Mapping[str, float] | None,
    peak_today: Mapping[str, Any] | None,
    top: Mapping[str, Mapping[str, int]],
    worker: WorkerStatus | None,
) -> Iterator[str]:
    online = f"{number_of(counts.users, 'user')} online in {number_of(counts.sessions, 'session')}"
    yield f"{online}, {stamp(counts.as_of)} UTC"
    if peak_today:
        hour = f"{peak_today['hour']:%H:%M}"
        yield f"peak today   {peak_today['sessions']:,} sessions (hour of {hour} UTC), {peak_today['users']:,} users"
    if per_minute:
        ends = sum(per_minute[what] for what in _ENDS)
        yield f"per minute   {per_minute['logins']:,.1f} logins, {ends:,.1f} ends (the last {_MINUTES} minutes)"
    else:
        yield "per minute   not known: no worker has taken samples of late"
    yield f"in all       {', '.join(f'{number:,} {kind}' for kind, number in counts.totals.items())}"
    yield f"worker       {_worker(worker)}"
    yield ""
    heading = [cell for field in _FACETS for cell in (field.upper(), "SESSIONS")]
    rows: list[Sequence[str]] = [heading]
    rows += [
        [cell for pair in values for cell in ((pair[0], f"{pair[1]:,}") if pair else ("", ""))]
        for values in zip_longest(*(top[field].items() for field in _FACETS))
    ]
    if len(rows) > 1:
        yield from columns(rows)


def _worker(worker: WorkerStatus | None) -> str:
    if worker is None:
        return "none has ever run here: presence worker"
    if not worker.alive:
        return f"none runs; the last was heard of at {stamp(worker.beat)} UTC"
    return worker.paused or f"{worker.leader} leads, {worker.lag_seconds:.1f} s behind"
