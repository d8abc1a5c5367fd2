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
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.models import Session
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
    command("sweep", _sweep, "End what is past its deadline, now.")
    command("repair", _repair, "Make lists, sets and records agree again.")
    command("watch", _watch, "Logins and ends as they happen, one JSON object a line.")
    worker = command("worker", _worker, "Sweep every few seconds until Ctrl-C.")
    worker.add_argument("--interval", type=float, default=5.0, help="seconds between sweeps (5)")
    return parser


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


def _table(sessions: Sequence[Session]) -> Iterable[str]:
    rows = [("LOGIN (UTC)", "USER", "NAME", "DEVICE", "APP", "BROWSER", "ADDRESS", "SESSION")]
    for one in sessions:
        login = one.login_at.strftime("%Y-%m-%d %H:%M:%S")
        rows.append((login, one.uid, one.name or "-", one.device or "-", one.app or "-", one.browser or "-",
                     one.ip or "-", one.session_id))  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


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
    Worker(presence, interval=args.interval).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
