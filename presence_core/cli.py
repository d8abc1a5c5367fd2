"""The ``presence`` command: what support staff and operators do from a terminal.

Finds Redis as the library does: ``PRESENCE_REDIS_URL``, else the embedded server. Exit codes: 0 done; 1 not so (nobody
was kicked, nothing found); 2 a wrong argument; 3 Redis is away or refuses.
"""

from __future__ import annotations

import argparse
import dataclasses
import getpass
import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.models import Page, Session
from presence_core.worker import Worker

Command = Callable[[Presence, argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit code."""
    args = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that knows no Unicode is no reason to fail
    try:
        with Presence.from_env() as presence:
            run: Command = args.run
            return run(presence, args)
    except InvalidArgument as error:
        print(error, file=sys.stderr)
        return 2
    except PresenceError as error:
        print(error, file=sys.stderr)
        return 3
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from presence_core.cli_jobs import add_commands as add_jobs  # which uses what is in here

    parser = argparse.ArgumentParser(prog="presence", description="See who is online, and end sessions.")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: Command, help: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help)
        made.set_defaults(run=run)
        if name not in ("worker", "watch"):
            made.add_argument("--json", action="store_true", help="answer in JSON")
        return made

    command("counts", _counts, "How many are online, and totals by reason.")
    listing = command("list", _list, "Live sessions, newest login first.")
    listing.add_argument("--limit", type=int, default=50, help="how many, 1 to 1000 (50)")
    show = command("show", _show, "One user's live sessions.")
    show.add_argument("uid")
    kick = command("kick", _kick, "End one session of a user, or all of them.")
    kick.add_argument("uid")
    kick.add_argument("session_id", nargs="?")
    kick.add_argument("--reason", required=True, help="for staff")
    kick.add_argument("--message", help="for the visitor")
    kick.add_argument("--ticket")
    kick.add_argument("--by", help="who does it (your user name)")
    kick.add_argument("--keep", action="append", default=[], metavar="SESSION", help="spare this session")
    block = command("block", _block, "Let a user not log in any more.")
    block.add_argument("uid")
    block.add_argument("--reason", required=True, help="for staff")
    block.add_argument("--message", help="for the user")
    block.add_argument("--ticket")
    block.add_argument("--by", help="who does it (your user name)")
    block.add_argument("--for", type=int, dest="duration", metavar="SECONDS", help="how long (until unblocked)")
    unblock = command("unblock", _unblock, "Let a user log in again.")
    unblock.add_argument("uid")
    unblock.add_argument("--reason", required=True, help="for staff")
    unblock.add_argument("--by", help="who does it (your user name)")
    blocks = command("blocks", _blocks, "Who may not log in, the latest blocked first.")
    audit = command("audit", _audit, "What staff did, newest first.")
    audit.add_argument("--user", help="only what was done to this user")
    ended = command("ended", _ended, "Why sessions are over, the latest end first.")
    ended.add_argument("uid", nargs="?")
    ended.add_argument("--reason", help="only logout, expired, kicked or replaced")
    for paged in (blocks, audit, ended):
        paged.add_argument("--limit", type=int, default=50, help="how many, 1 to 1000 (50)")
        paged.add_argument("--cursor", help="go on where this says (next_cursor of --json)")
    for timed in (audit, ended):
        timed.add_argument("--by", help="only what this person did")
        timed.add_argument("--since", type=_moment, help="from this time on: 2026-01-31T12:00 (UTC), or Unix seconds")
        timed.add_argument("--until", type=_moment, help="before this time")
    add_jobs(command)
    command("sweep", _sweep, "End what is past its deadline, now.")
    command("repair", _repair, "Make lists, sets and records agree again.")
    command("watch", _watch, "Logins and ends as they happen, one JSON object a line.")
    past = command("history", _history, "Counts over time.")
    past.add_argument("--since", default="1h", metavar="WHEN", help="30m, 1h, 7d ago, or an ISO time, UTC (1h)")
    past.add_argument("--step", type=int, metavar="SECONDS", help="of one line; by default what suits the span")
    command("status", _status, "Which worker leads, when it last swept, how far behind it was.")
    worker = command("worker", _worker, "Sweep, and take samples for the history, until Ctrl-C or SIGTERM.")
    worker.add_argument("--interval", type=float, default=5.0, help="seconds between sweeps (5)")
    worker.add_argument("--accept-clock", action="store_true", help="Redis's clock is right, although it has jumped")
    return parser


def _moment(value: str) -> datetime | float:
    """A time as it is typed; one that names no zone is UTC."""
    try:
        return float(value)
    except ValueError:
        moment = datetime.fromisoformat(value)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _plain(value: Any) -> Any:
    """A record as JSON can hold it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _say(args: argparse.Namespace, value: Any, lines: Iterable[str]) -> None:
    if args.json:
        print(json.dumps(_plain(value), ensure_ascii=False))
    else:
        for line in lines:
            print(_shown(line))


def _operator() -> str:
    """Who runs this, as the machine knows them."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return f"user {os.getuid()} (command line)"


def _shown(value: str) -> str:
    """Text for a terminal: what is not printable (escapes, line breaks, direction marks) shows as its code."""
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in value)


def _columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _of(page: Page[Any]) -> str:
    """How much of it all a page shows."""
    return f"{len(page)} of {page.total}{'' if page.total_is_exact else ', not counted to the end'}"


def _table(sessions: Sequence[Session]) -> Iterable[str]:
    rows = [("LOGIN (UTC)", "USER", "NAME", "DEVICE", "APP", "BROWSER", "ADDRESS", "SESSION")]
    for one in sessions:
        login = one.login_at.strftime("%Y-%m-%d %H:%M:%S")
        rows.append((login, one.uid, one.name or "-", one.device or "-", one.app or "-", one.browser or "-",
                     one.ip or "-", one.session_id))  # fmt: skip
    return _columns(rows)


def _counts(presence: Presence, args: argparse.Namespace) -> int:
    counts = presence.counts()
    totals = ", ".join(f"{number} {kind}" for kind, number in counts.totals.items())
    _say(args, counts, [f"{counts.users} users online in {counts.sessions} sessions", f"since the start: {totals}"])
    return 0


def _list(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.list_sessions(limit=args.limit)
    _say(args, page, [*_table(page.items), f"{len(page)} of {page.total}"] if page.items else ["Nobody is online."])
    return 0


def _show(presence: Presence, args: argparse.Namespace) -> int:
    sessions = presence.sessions(args.uid)
    _say(args, sessions, _table(sessions) if sessions else [f"{args.uid} is not online."])
    return 0 if sessions else 1


def _kick(presence: Presence, args: argparse.Namespace) -> int:
    by = args.by or _operator()
    result = presence.kick(args.uid, args.session_id, by=by, reason=args.reason, message=args.message,
                           ticket=args.ticket, keep=args.keep)  # fmt: skip
    lines = [f"Kicked {len(result.kicked)} of {args.uid}'s sessions."]
    lines += [f"{e.session_id} had ended before: {e.reason} at {e.at:%Y-%m-%d %H:%M:%S} UTC by {e.by or 'nobody'}."
              for e in result.already_ended]  # fmt: skip
    _say(args, result, lines)
    return 0 if result else 1


def _block(presence: Presence, args: argparse.Namespace) -> int:
    by = args.by or _operator()
    block = presence.block(args.uid, by=by, reason=args.reason, message=args.message, duration=args.duration,
                           ticket=args.ticket)  # fmt: skip
    until = f"until {_time(block.until)} UTC" if block.until else "until unblocked"
    _say(args, block, [f"{args.uid} may not log in {until}."])
    return 0


def _unblock(presence: Presence, args: argparse.Namespace) -> int:
    was = presence.unblock(args.uid, by=args.by or _operator(), reason=args.reason)
    _say(args, {"unblocked": was}, [f"{args.uid} {'may log in again' if was else 'was not blocked'}."])
    return 0 if was else 1


def _blocks(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.blocks(limit=args.limit, cursor=args.cursor)
    rows = [("BLOCKED (UTC)", "USER", "UNTIL (UTC)", "BY", "REASON")]
    rows += [(_time(one.at), one.uid, _time(one.until) if one.until else "-", one.by, one.reason) for one in page]
    _say(args, page, [*_columns(rows), _of(page)] if page.items else ["Nobody is blocked."])
    return 0


def _audit(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.audit(uid=args.user, by=args.by, since=args.since, until=args.until, limit=args.limit,
                          cursor=args.cursor)  # fmt: skip
    rows = [("WHEN (UTC)", "BY", "ACTION", "USER", "OUTCOME", "REASON", "TICKET")]
    rows += [(_time(one.at), one.by or "-", one.action, one.uid or "-", one.outcome or "-", one.reason or "-",
              one.ticket or "-") for one in page]  # fmt: skip
    _say(args, page, [*_columns(rows), _of(page)] if page.items else ["Nothing is written down."])
    return 0


def _ended(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.ended(args.uid, reason=args.reason, by=args.by, since=args.since, until=args.until,
                          limit=args.limit, cursor=args.cursor)  # fmt: skip
    rows = [("ENDED (UTC)", "USER", "REASON", "CAUSE", "BY", "WHY", "SESSION")]
    rows += [(_time(one.at), one.uid, one.reason, one.cause, one.by or "-", one.note or "-", one.session_id)
             for one in page]  # fmt: skip
    _say(args, page, [*_columns(rows), _of(page)] if page.items else ["No end is kept."])
    return 0


def _sweep(presence: Presence, args: argparse.Namespace) -> int:
    report = presence.sweep()
    _say(args, report, [f"{report.expired} sessions had expired; {report.repaired} entries were put right."])
    return 0


def _repair(presence: Presence, args: argparse.Namespace) -> int:
    report = presence.repair()
    _say(args, report, [f"{report.repaired} entries were put right; {report.expired} sessions ended as expired."])
    return 0


def _watch(presence: Presence, args: argparse.Namespace) -> int:
    for event in presence.watch():
        print(json.dumps(_plain(event), ensure_ascii=False), flush=True)
    return 0


def _worker(presence: Presence, args: argparse.Namespace) -> int:
    told: list[int] = []
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    with Worker(presence, interval=args.interval, accept_clock=args.accept_clock):
        while not told:
            time.sleep(0.2)
    return 0


_AGO = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _begin(since: str, now: datetime) -> datetime | float:
    """ "24h" before now, or a time."""
    try:
        if since[-1:] in _AGO:
            return now - timedelta(seconds=int(since[:-1]) * _AGO[since[-1]])
        return _moment(since)
    except (ValueError, OverflowError, argparse.ArgumentTypeError):
        raise InvalidArgument("since", "must be like 30m, 24h or 7d, or an ISO time") from None


def _history(presence: Presence, args: argparse.Namespace) -> int:
    samples = presence.history(_begin(args.since, presence.counts().as_of), step=args.step)
    rows: list[Sequence[str]] = [("FROM (UTC)", "USERS", "SESSIONS", "LEAST", "MEAN", "MOST", "LOGINS", "LOGOUTS",
                                  "KICKED", "EXPIRED", "REPLACED")]  # fmt: skip
    for one in samples:
        numbers = (one.users, one.sessions, one.sessions_min, round(one.sessions_mean), one.sessions_max, one.logins,
                   one.logouts, one.kicked, one.expired, one.replaced)  # fmt: skip
        rows.append((_time(one.at), *map(str, numbers)))
    lines = _columns(rows)
    if samples and not samples[-1].complete:
        lines = [*lines, "The last line is still running."]
    _say(args, samples, lines if samples else ["No sample was taken in that time: is a worker running?"])
    return 0 if samples else 1


def _status(presence: Presence, args: argparse.Namespace) -> int:
    status = presence.worker_status()
    if status is None:
        lines = ["No worker has ever run here."]
    else:
        did = "leads since" if status.alive else "no longer leads, and nobody else does; it began at"
        ran = f"{_time(status.last_run)} UTC" if status.last_run else "never"
        lines = [f"{status.leader} {did} {_time(status.since)} UTC.",
                 f"Last sweep: {ran}, {status.lag_seconds:.1f} s behind."]  # fmt: skip
        lines += [status.paused] if status.paused else []
    _say(args, status, lines)
    return 0 if status and status.alive else 1


if __name__ == "__main__":
    sys.exit(main())
