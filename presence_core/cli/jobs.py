"""Bulk kicks on the command line: ``presence kick-where``, ``jobs`` and ``job``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from presence_core.cli.asked import (
    Maker,
    add_by,
    add_cursor,
    add_filters,
    add_limit,
    add_why,
    by,
    check_words,
    is_sure,
    session_filter,
)
from presence_core.cli.shown import Growing, complain, number_of, paged, say, stamp
from presence_core.cli.waiting import not_confirmed
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.models import Job


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    kick = command("kick-where", _kick_where, "End all sessions that match, after a look at how many there are.")
    add_filters(kick)
    kick.add_argument("--exclude", action="append", default=[], metavar="USER:SESSION", help="spare this session")
    add_why(kick, "for the visitors", need="needed but for --dry-run")
    kick.add_argument("--pace", type=int, metavar="N", help="at most N sessions a second")
    kick.add_argument("--dry-run", action="store_true", help="only say how many match")
    kick.add_argument("--expected", type=int, metavar="N", help="refuse where more than N match")
    kick.add_argument("--yes", action="store_true", help="do not ask; only with --expected")
    jobs = command("jobs", _jobs, "Bulk kicks, the newest first.")
    add_limit(jobs)
    add_cursor(jobs)
    job = command("job", _job, "One bulk kick: how far it is, or pause, resume or cancel it.")
    job.add_argument("id")
    act = job.add_mutually_exclusive_group()
    act.add_argument("--pause", action="store_const", dest="act", const="pause")
    act.add_argument("--resume", action="store_const", dest="act", const="resume", help="and run it here")
    act.add_argument("--cancel", action="store_const", dest="act", const="cancel")
    add_by(job)


def _kick_where(presence: Presence, args: argparse.Namespace) -> int:
    if not args.dry_run:
        if args.reason is None:
            raise InvalidArgument("reason", "must be given")
        check_words(args)
    if args.yes and args.expected is None:
        raise InvalidArgument("expected", "must be given with --yes: the most sessions that may be ended")
    preview = presence.preview_kick(session_filter(args), exclude=args.exclude)
    found = f"{number_of(preview.total, 'live session')} match, as of {stamp(preview.as_of)} UTC."
    if args.dry_run or not preview.total:
        say(args, preview, [found])
        return 0 if preview.total else 1
    expected = preview.total if args.expected is None else args.expected
    if not args.yes and preview.total <= expected and not is_sure(found, "end", preview.total):
        return 1
    job = presence.start_kick(preview.filter, by=by(args), reason=args.reason, expected=expected, exclude=args.exclude,
                              message=args.message, ticket=args.ticket, pace=args.pace)  # fmt: skip
    return _follow(presence, args, job)


def _follow(presence: Presence, args: argparse.Namespace, job: Job) -> int:
    """Run a job to its end, with a line that grows; Ctrl-C pauses it."""
    try:
        with Growing() as line:
            result = presence.run_job(job.id, on_progress=lambda now: line.say(_progress(presence, now)))
    except KeyboardInterrupt:
        _interrupted(presence, args, job)
        raise
    except PresenceError as error:
        for note in getattr(error, "__notes__", ()):
            complain(note)
        raise
    assert result.job is not None
    say(args, result.job, [*_told(result.job), *(not_confirmed(presence) if result.count else [])])
    return 0 if result.job.state == "done" else 1


def _progress(presence: Presence, job: Job) -> str:
    held = presence.held()
    behind = f", {held:,} held in case of a failover" if held else ""
    return f"{job.kicked:,} of {job.total:,} sessions ended{behind}"


def _interrupted(presence: Presence, args: argparse.Namespace, job: Job) -> None:
    try:
        now = presence.pause_job(job.id, by=by(args))
        said = f"Paused: {now.kicked:,} of {now.total:,} sessions were ended."
    except PresenceError as error:
        said = f"It could not be paused ({error}): a worker may go on with it."
    print(file=sys.stderr)
    complain(said)
    complain(f"Go on:  presence job {job.id} --resume")
    complain(f"End it: presence job {job.id} --cancel")


def _told(job: Job) -> Iterable[str]:
    yield f"Job {job.id} is {job.state}: {job.kicked:,} of {job.total:,} sessions ended, by {job.by}: {job.reason}"
    if job.error:
        yield job.error


def _jobs(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.jobs(limit=args.limit, cursor=args.cursor)
    rows: list[Sequence[str]] = [("BEGUN (UTC)", "STATE", "ENDED", "OF", "BY", "REASON", "TICKET", "JOB")]
    rows += [(stamp(one.created), one.state, str(one.kicked), str(one.total), one.by, one.reason, one.ticket or "-",
              one.id) for one in page]  # fmt: skip
    say(args, page, paged(page, rows, "There is no job."))
    return 0


def _job(presence: Presence, args: argparse.Namespace) -> int:
    if args.act == "resume":
        return _follow(presence, args, presence.resume_job(args.id, by=by(args)))
    if args.act:
        steer = presence.pause_job if args.act == "pause" else presence.cancel_job
        job: Job | None = steer(args.id, by=by(args))
    else:
        job = presence.job(args.id)
    say(args, job, _told(job) if job else [f"No job {args.id} is known."])
    return 0 if job else 1
