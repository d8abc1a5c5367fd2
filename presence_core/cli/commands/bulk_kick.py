"""Bulk kicks: ``presence kick-refs`` names sessions; ``kick-where`` starts a job. ``jobs`` and ``job`` control jobs."""

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
    check_bulk,
    session_filter,
)
from presence_core.cli.mirrored import site_note
from presence_core.cli.output import (
    ProgressLine,
    count_of,
    format_time,
    how_ended,
    print_error,
    print_page,
    print_result,
    table,
)
from presence_core.cli.prompts import confirm_count
from presence_core.cli.replica_wait import unconfirmed_warning
from presence_core.client import Presence
from presence_core.errors import PresenceError
from presence_core.models import NO_RUNNER, Job, KickPreview, plain

_COLUMNS: Final = {
    "STARTED (UTC)": "created", "WHAT": "kind", "STATE": "state", "DONE": "kicked", "OF": "total", "BY": "by",
    "REASON": "reason", "TICKET": "ticket", "JOB": "id",
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
    refs = add_command("kick-refs", _kick_refs, "End up to 1,000 sessions of any users.", changes=True)
    refs.add_argument("refs", nargs="+", metavar="USER:SESSION", help="user id, a colon, session id")
    add_staff_fields(refs, message_for="users")
    jobs = add_command("jobs", _jobs, "List bulk kicks and bulk changes of timeouts, newest first.")
    add_page(jobs)
    help = "Show, pause, resume or cancel a bulk kick or a bulk change of timeouts."
    job = add_command("job", _job, help, changes=lambda args: args.action is not None)
    job.add_argument("id")
    action = job.add_mutually_exclusive_group()
    action.add_argument("--pause", action="store_const", dest="action", const="pause", help="pause it")
    action.add_argument("--resume", action="store_const", dest="action", const="resume", help="continue it, here")
    action.add_argument("--cancel", action="store_const", dest="action", const="cancel", help="end it for good")
    add_by(job)


def _kick_where(presence: Presence, args: argparse.Namespace) -> int:
    check_bulk(args, "be ended")
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
    return run_job(presence, args, job)


def _kick_refs(presence: Presence, args: argparse.Namespace) -> int:
    result = presence.kick_refs(args.refs, by=actor(args), reason=args.reason, message=args.message, ticket=args.ticket)
    lines = [f"Kicked {count_of(result.count, 'session')}.", *site_note(presence, result.kicked)]
    lines += [f"{ended.ref} had already ended{how_ended(ended)}" for ended in result.already_ended]
    lines += [f"{ref} is unknown, or its end is no longer kept." for ref in result.not_found]
    warning = unconfirmed_warning(presence) if result else []
    errors = {ref: str(error) for ref, error in result.failed.items()}
    print_result(args, plain(result) | {"failed": errors}, [*lines, *warning])
    for ref, error in errors.items():
        print_error(f"{ref} may still be live. {error}")
    return 3 if errors else 0 if result else 1


def _people_lines(preview: KickPreview) -> list[str]:
    """Whose sessions match, and by what."""
    rows = [(person.uid, person.name or "-", ", ".join(person.matched_by) or "-") for person in preview.people]
    return list(table([("USER", "NAME", "MATCHED BY"), *rows])) if rows else []


def run_job(presence: Presence, args: argparse.Namespace, job: Job) -> int:
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
    print_result(args, result.job, [*_job_lines(result.job), *site_note(presence, result.kicked), *warning])
    return 0 if result.job.state == "done" else 1


def _progress(presence: Presence, job: Job) -> str:
    held = presence.held()
    note = f", {held:,} held in case of a failover" if held else ""
    return f"{_done_of(job)}{note}"


def _done_of(job: Job) -> str:
    return f"{job.kicked:,} of {job.total:,} sessions {'ended' if job.kind == 'kick' else 'have new timeouts'}"


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
    yield f"Job {job.id} is {job.state}: {_done_of(job)}, by {job.by}: {job.reason}"
    if job.error:
        yield job.error


def _no_runner(presence: Presence, job: Job) -> Iterable[str]:
    if job.state == "running":
        status = presence.worker_status()
        if status is None or not status.alive:
            yield NO_RUNNER


def _jobs(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.jobs(limit=args.limit, cursor=args.cursor)
    return print_page(args, page, _COLUMNS, "There are no bulk jobs.")


def _job(presence: Presence, args: argparse.Namespace) -> int:
    job: Job | None
    if args.action == "resume":
        return run_job(presence, args, presence.resume_job(args.id, by=actor(args)))
    if args.action == "pause":
        job = presence.pause_job(args.id, by=actor(args))
    elif args.action == "cancel":
        job = presence.cancel_job(args.id, by=actor(args))
    else:
        job = presence.job(args.id)
    lines = [*_job_lines(job), *_no_runner(presence, job)] if job else [f"There is no job {args.id}."]
    print_result(args, job, lines)
    return 0 if job else 1
