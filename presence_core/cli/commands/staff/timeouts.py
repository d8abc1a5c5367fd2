"""``presence change-timeouts``: of a user's live sessions, or of all sessions that match filters."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from presence_core.cli.arguments import (
    AddCommand,
    actor,
    add_filters,
    add_staff_fields,
    check_bulk,
    session_filter,
)
from presence_core.cli.commands.bulk_kick import run_job
from presence_core.cli.output import count_of, format_time, print_result
from presence_core.cli.prompts import confirm_count
from presence_core.cli.replica_wait import unconfirmed_warning
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.models import TimeoutsPreview


def add_timeouts(add_command: AddCommand) -> None:
    help = "Change the timeouts of a user's live sessions, or of all that match filters: shorter or longer."
    timeouts = add_command("change-timeouts", _change_timeouts, help, changes=lambda args: not args.dry_run)
    timeouts.add_argument("user", nargs="?", metavar="uid", help="the user; without one, filters")
    timeouts.add_argument("session", nargs="?", metavar="session_id", help="only of this session")
    timeouts.add_argument("--idle-timeout", type=int, metavar="SECONDS", help="default: each session keeps its own")
    timeouts.add_argument("--absolute-timeout", type=int, metavar="SECONDS", help="default: each session keeps its own")
    help = "change nothing if one would be longer; with filters, leave alone each session that would be"
    timeouts.add_argument("--only-shorten", action="store_true", help=help)
    add_staff_fields(timeouts, ticket=False, reason_optional_with="--dry-run")
    add_filters(timeouts)
    group = timeouts.add_argument_group("with filters")
    group.add_argument("--pace", type=int, metavar="N", help="at most N sessions per second")
    group.add_argument("--dry-run", action="store_true", help="only print how many match, and what would change")
    group.add_argument("--expected", type=int, metavar="N", help="refuse if more than N match")
    group.add_argument("--yes", action="store_true", help="do not ask for confirmation; needs --expected")


def _change_timeouts(presence: Presence, args: argparse.Namespace) -> int:
    check_bulk(args, "change")
    wanted = session_filter(args)
    if args.user is None:
        return _change_where(presence, args, wanted)
    if wanted.given or args.dry_run or args.yes or (args.expected, args.pace) != (None, None):
        raise InvalidArgument("uid", "cannot be combined with filters and their options", "conflicts")
    sessions = presence.change_timeouts(args.user, args.session, idle_timeout=args.idle_timeout,
                                        absolute_timeout=args.absolute_timeout, by=actor(args), reason=args.reason,
                                        only_shorten=args.only_shorten)  # fmt: skip
    lines = [
        f"{session.session_id}: idle timeout {session.idle_timeout} s, absolute timeout {session.absolute_timeout} s, "
        f"expires at {format_time(session.expires_at)} UTC"
        for session in sessions
    ]
    lines = [*lines, *unconfirmed_warning(presence)] if sessions else [f"{args.user} has no such live session."]
    print_result(args, sessions, lines)
    return 0 if sessions else 1


def _change_where(presence: Presence, args: argparse.Namespace, wanted: SessionFilter) -> int:
    given = {"idle_timeout": args.idle_timeout, "absolute_timeout": args.absolute_timeout}
    preview = presence.preview_timeouts(wanted, **given)
    if args.dry_run or not preview.total:
        print_result(args, preview, _preview_lines(preview))
        return 0 if preview.total else 1
    expected = preview.total if args.expected is None else args.expected
    too_many = preview.total > expected  # the library refuses it, so there is nothing to confirm
    found = " ".join(_preview_lines(preview))
    if not (args.yes or too_many or confirm_count(found, "change them", preview.total)):
        return 1
    job = presence.start_timeouts(preview.filter, **given, by=actor(args), reason=args.reason, expected=expected,
                                  only_shorten=args.only_shorten, pace=args.pace)  # fmt: skip
    return run_job(presence, args, job)


def _preview_lines(preview: TimeoutsPreview) -> Iterable[str]:
    yield f"{count_of(preview.total, 'live session')} match, as of {format_time(preview.as_of)} UTC."
    if preview.total:
        of = f"Of the newest {preview.read:,}" if preview.read < preview.total else "Of these"
        yield (
            f"{of}, {preview.shortened:,} would be shorter, {preview.lengthened:,} longer; {preview.ended:,} would end "
            "at once."
        )
