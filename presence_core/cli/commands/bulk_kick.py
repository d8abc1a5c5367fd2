"""Bulk kicks: ``presence kick-where`` starts a job, ``jobs`` lists jobs, ``job`` shows or controls one."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final

from presence_core.cli.arguments import (
    AddCommand,
    actor,
    add_by,
    add_filters,
    add_page,
    add_staff_fields,
    check_staff_fields,
    session_filter,
)
from presence_core.cli.output import ProgressLine, count_of, format_time, print_error, print_page, print_result, table
from presence_core.cli.prompts import confirm_count
from presence_core.cli.replica_wait import unconfirmed_warning
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.models import Job, KickPreview

_COLUMNS: Final = {
    "STARTED (UTC)": "created", "STATE": "state", "ENDED": "kicked", "OF": "total", "BY": "by", "REASON": "reason",
    "TICKET": "ticket", "JOB": "id",
}  # fmt: skip


def add_commands(add_command: AddCommand) -> None:
    help = "End all sessions that match filters; asks first."
    kick = add_command("kick-where", _kick_where, help, changes=lambda args: not args.dry_run)
    add_filters(kick)
    kick.add_argument("--exclude", action="append", default=[], metavar="USER:SESSION", help="do not end this session")
    add_staff_fields(kick, message_for="users", reason_optional_with="--dry-run")
    kick.add_argument("--pace", type=int, metavar="N", help="end at most N sessions per second")
    kick.add_argument("--delay", type=int, metavar="SECONDS", help="wait before the first end; Ctrl-C pauses the job")
    kick.add_argument("--dry-run", action="store_true", help="only print how many match")
    kick.add_argument("--expected", type=int, metavar="N", help="refuse if more than N match")
    kick.add_argument("--yes", action="store_true", help="do not ask for confirmation; needs --expected")
    jobs = add_command("jobs", _jobs, "List bulk kicks, newest first.")
    add_page(jobs)
    help = "Show, pause, resume or cancel a bulk kick."
    job = add_command("job", _job, help, changes=lambda args: args.action is not None)
    job.add_argument("id")
    action = job.add_mutually_exclusive_group()
    action.add_argument("--pause", action="store_const", dest="action", const="pause", help="pause it")
    action.add_argument("--resume", action="store_const", dest="action", const="resume", help="continue it, here")
    action.add_argument("--cancel", action="store_const", dest="action", const="cancel", help="end it for good")
    add_by(job)


def _kick_where(presence: Presence, args: argparse.Namespace) -> int:
    _check_arguments(args)
    preview = presence.preview_kick(session_filter(args), exclude=args.exclude)
    found = f"{count_of(preview.total, 'live session')} match, as of {format_time(preview.as_of)} UTC."
    if args.dry_run or not preview.total:
        print_result(args, preview, [found, *_people_lines(preview)])
        return 0 if preview.total else 1
    expected = preview.total if args.expected is None else args.expected
    too_many = preview.total > expected  # start_kick refuses it, so there is nothing to confirm
    if not (args.yes or too_many or confirm_count(found, "end them", preview.total)):
        return 1
    job = presence.start_kick(preview.filter, by=actor(args), reason=args.reason, expected=expected,
                              exclude=args.exclude, message=args.message, ticket=args.ticket,
                              pace=args.pace, delay=args.delay)  # fmt: skip
    return _run_job(presence, args, job)


def _people_lines(preview: KickPreview) -> list[str]:
    """Whose sessions match, and by what."""
    rows = [(person.uid, person.name or "-", ", ".join(person.matched_by) or "-") for person in preview.people]
    return list(table([("USER", "NAME", "MATCHED BY"), *rows])) if rows else []


def _check_arguments(args: argparse.Namespace) -> None:
    if not args.dry_run:
        if args.reason is None:
            raise InvalidArgument("reason", "must be given")
        check_staff_fields(args)
    if args.yes and args.expected is None:
        raise InvalidArgument("expected", "must be given with --yes: the most sessions that may be ended")


def _run_job(presence: Presence, args: argparse.Namespace, job: Job) -> int:
    """Run a job to its end with a progress line. Ctrl-C pauses it."""
    try:
        with ProgressLine() as line:
            result = presence.run_job(job.id, on_progress=lambda job: line.show(_progress(presence, job)))
    except KeyboardInterrupt:
        _pause_interrupted(presence, args, job)
        raise
    except PresenceError as error:
        for note in getattr(error, "__notes__", ()):
            print_error(note)
        raise
    assert result.job is not None
    warning = unconfirmed_warning(presence) if result.count else []
    print_result(args, result.job, [*_job_lines(result.job), *warning])
    return 0 if result.job.state == "done" else 1


def _progress(presence: Presence, job: Job) -> str:
    held = presence.held()
    note = f", {held:,} held in case of a failover" if held else ""
    return f"{job.kicked:,} of {job.total:,} sessions ended{note}"


def _pause_interrupted(presence: Presence, args: argparse.Namespace, job: Job) -> None:
    try:
        paused = presence.pause_job(job.id, by=actor(args))
        outcome = f"Paused after {paused.kicked:,} of {paused.total:,} sessions."
    except PresenceError as error:
        outcome = f"The job could not be paused ({error}). A worker may continue it."
    print_error("")
    print_error(outcome)
    print_error(f"Resume: presence job {job.id} --resume")
    print_error(f"Cancel: presence job {job.id} --cancel")


def _job_lines(job: Job) -> Iterable[str]:
    yield f"Job {job.id} is {job.state}: {job.kicked:,} of {job.total:,} sessions ended, by {job.by}: {job.reason}"
    if job.error:
        yield job.error


def _jobs(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.jobs(limit=args.limit, cursor=args.cursor)
    return print_page(args, page, _COLUMNS, "There are no bulk kicks.")


def _job(presence: Presence, args: argparse.Namespace) -> int:
    job: Job | None
    if args.action == "resume":
        return _run_job(presence, args, presence.resume_job(args.id, by=actor(args)))
    if args.action == "pause":
        job = presence.pause_job(args.id, by=actor(args))
    elif args.action == "cancel":
        job = presence.cancel_job(args.id, by=actor(args))
    else:
        job = presence.job(args.id)
    print_result(args, job, _job_lines(job) if job else [f"There is no job {args.id}."])
    return 0 if job else 1
