"""Bulk kicks on the command line: ``presence kick-where``, ``jobs`` and ``job``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from presence_core.cli import _columns, _moment, _of, _operator, _say, _time
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.filters import SessionFilter
from presence_core.models import Job

_FIELDS = {
    "text": "start of the uid, of a word of name or alias; or an address or block",
    "uid": "this user",
    "name-prefix": "start of a word of the name",
    "name-contains": "part of the name",
    "ip": "address or block at login, such as 192.0.2.0/24",
    "device": None,
    "app": None,
    "app-version": None,
    "os": None,
    "browser": None,
}


def add_commands(command: Callable[[str, Callable[..., int], str], argparse.ArgumentParser]) -> None:
    """Make these commands known to the parser."""
    kick = command("kick-where", _kick_where, "End all sessions that match, after a look at how many there are.")
    for name, help in _FIELDS.items():
        kick.add_argument(f"--{name}", help=help)
    kick.add_argument("--logged-in-after", type=_moment, metavar="TIME", help="2026-01-31T12:00 (UTC), or Unix seconds")
    kick.add_argument("--logged-in-before", type=_moment, metavar="TIME")
    kick.add_argument("--idle-for", type=int, metavar="SECONDS", help="not seen for at least so long")
    kick.add_argument("--attribute", action="append", default=[], metavar="NAME=VALUE", help="VALUE is JSON, or text")
    kick.add_argument("--exclude", action="append", default=[], metavar="USER:SESSION", help="spare this session")
    kick.add_argument("--reason", help="for staff; needed but for --dry-run")
    kick.add_argument("--message", help="for the visitors")
    kick.add_argument("--ticket")
    kick.add_argument("--by", help="who does it (your user name)")
    kick.add_argument("--pace", type=int, metavar="N", help="at most N sessions a second")
    kick.add_argument("--dry-run", action="store_true", help="only say how many match")
    kick.add_argument("--expected", type=int, metavar="N", help="refuse where more than N match")
    kick.add_argument("--yes", action="store_true", help="do not ask; only with --expected")
    jobs = command("jobs", _jobs, "Bulk kicks, the newest first.")
    jobs.add_argument("--limit", type=int, default=50, help="how many, 1 to 1000 (50)")
    jobs.add_argument("--cursor", help="go on where this says (next_cursor of --json)")
    job = command("job", _job, "One bulk kick: how far it is, or pause, resume or cancel it.")
    job.add_argument("id")
    act = job.add_mutually_exclusive_group()
    act.add_argument("--pause", action="store_const", dest="act", const="pause")
    act.add_argument("--resume", action="store_const", dest="act", const="resume", help="and run it here")
    act.add_argument("--cancel", action="store_const", dest="act", const="cancel")
    job.add_argument("--by", help="who does it (your user name)")


def _filter(args: argparse.Namespace) -> SessionFilter:
    given: dict[str, Any] = {name.replace("-", "_"): getattr(args, name.replace("-", "_")) for name in _FIELDS}
    attributes = {}
    for pair in args.attribute:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidArgument("attribute", "must be NAME=VALUE")
        try:
            attributes[name] = json.loads(value)
        except (ValueError, RecursionError):
            attributes[name] = value
    return SessionFilter(
        **given,
        logged_in_after=args.logged_in_after,
        logged_in_before=args.logged_in_before,
        idle_for=args.idle_for,
        attributes=attributes or None,
    )


def _kick_where(presence: Presence, args: argparse.Namespace) -> int:
    if not args.dry_run and args.reason is None:
        raise InvalidArgument("reason", "must be given")
    if args.yes and args.expected is None:
        raise InvalidArgument("expected", "must be given with --yes: the most sessions that may be ended")
    preview = presence.preview_kick(_filter(args), exclude=args.exclude)
    number = f"{preview.total:,} live session{'' if preview.total == 1 else 's'}"
    found = f"{number} match, as of {_time(preview.as_of)} UTC."
    if args.dry_run or not preview.total:
        _say(args, preview, [found])
        return 0 if preview.total else 1
    expected = preview.total if args.expected is None else args.expected
    if not args.yes and preview.total <= expected:
        print(found, file=sys.stderr)
        print("To end them, type their number: ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().replace(",", "") != str(preview.total):
            print("Nothing was done.", file=sys.stderr)
            return 1
    by = args.by or _operator()
    job = presence.start_kick(preview.filter, by=by, reason=args.reason, expected=expected, exclude=args.exclude,
                              message=args.message, ticket=args.ticket, pace=args.pace)  # fmt: skip
    return _follow(presence, args, job)


def _follow(presence: Presence, args: argparse.Namespace, job: Job) -> int:
    """Run a job to its end, with a line that grows; Ctrl-C pauses it."""
    line = sys.stderr.isatty()

    def tell(now: Job) -> None:
        if line:
            print(f"\r{now.kicked:,} of {now.total:,} sessions ended", end="", file=sys.stderr, flush=True)

    try:
        result = presence.run_job(job.id, on_progress=tell)
    except KeyboardInterrupt:
        _interrupted(presence, args, job)
        raise
    except PresenceError as error:
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
        raise
    finally:
        if line:
            print(file=sys.stderr)
    assert result.job is not None
    _say(args, result.job, _told(result.job))
    return 0 if result.job.state == "done" else 1


def _interrupted(presence: Presence, args: argparse.Namespace, job: Job) -> None:
    try:
        now = presence.pause_job(job.id, by=args.by or _operator())
        said = f"Paused: {now.kicked:,} of {now.total:,} sessions were ended."
    except PresenceError as error:
        said = f"It could not be paused ({error}): a worker may go on with it."
    print(f"\n{said}\nGo on:  presence job {job.id} --resume\nEnd it: presence job {job.id} --cancel", file=sys.stderr)


def _told(job: Job) -> Iterable[str]:
    yield f"Job {job.id} is {job.state}: {job.kicked:,} of {job.total:,} sessions ended, by {job.by}: {job.reason}"
    if job.error:
        yield job.error


def _jobs(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.jobs(limit=args.limit, cursor=args.cursor)
    rows = [("BEGUN (UTC)", "STATE", "ENDED", "OF", "BY", "REASON", "TICKET", "JOB")]
    rows += [(_time(one.created), one.state, str(one.kicked), str(one.total), one.by, one.reason, one.ticket or "-",
              one.id) for one in page]  # fmt: skip
    _say(args, page, [*_columns(rows), _of(page)] if page.items else ["There is no job."])
    return 0


def _job(presence: Presence, args: argparse.Namespace) -> int:
    by = args.by or _operator()
    if args.act == "resume":
        return _follow(presence, args, presence.resume_job(args.id, by=by))
    if args.act:
        job: Job | None = (presence.pause_job if args.act == "pause" else presence.cancel_job)(args.id, by=by)
    else:
        job = presence.job(args.id)
    _say(args, job, _told(job) if job else [f"No job {args.id} is known."])
    return 0 if job else 1
