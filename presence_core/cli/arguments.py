"""Arguments that several commands share: times, session filters, pages, and the fields that staff fill in."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from presence_core import validation as check
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter, read_attributes, read_without
from presence_core.schema.conditions import CONDITIONS, LIST_KINDS, Kind, names_of_kind

Command = Callable[[Presence, argparse.Namespace], int]
"""Runs a command and returns its exit code."""


LocalCommand = Callable[[argparse.Namespace], int]
"""The same for a command that needs no server."""

Changes = bool | Callable[[argparse.Namespace], bool]
"""Whether a command changes something; a function where that depends on its arguments."""


class AddCommand:
    """Adds a command to the parser: its name, the function that runs it, its help text, whether it has --json,
    whether it changes something, and whether it gets a client."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._commands = parser.add_subparsers(required=True, metavar="command")

    def __call__(
        self,
        name: str,
        run: Command | LocalCommand,
        help: str,
        *,
        json: bool = True,
        changes: Changes = False,
        connects: bool = True,
    ) -> argparse.ArgumentParser:
        command = self._commands.add_parser(name, help=help, description=help)
        command.set_defaults(run=run, changes=changes, connects=connects)
        add_embedded(command)
        if json:
            command.add_argument("--json", action="store_true", help="print the result as JSON")
        return command


def action_adder(command: argparse.ArgumentParser) -> Callable[[str, Command, str], argparse.ArgumentParser]:
    """A function that adds an action, such as "add" of ``presence staff add``: its name, function and help text."""
    actions = command.add_subparsers(required=True, metavar="action")

    def add_action(name: str, run: Command, help: str) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=help, description=help)
        add_embedded(action)
        action.set_defaults(run=run, changes=name not in ("list", "preview"))
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print the result as JSON")
        return action

    return add_action


LOG_HELP: Final = "PRESENCE_LOG=json logs one JSON object a line on standard error (default: text)."
"""Of the commands that run until they are stopped."""


def add_embedded(parser: argparse.ArgumentParser, default: object = argparse.SUPPRESS) -> None:
    """Add ``--embedded``, which stands before the command or among its options."""
    help = "use the private server, even if PRESENCE_REDIS_URL is set"
    parser.add_argument("--embedded", action="store_true", default=default, help=help)


TIME_FORMAT: Final = "2026-01-31T12:00 (UTC), or Unix seconds"


def parse_time(text: str) -> datetime | float:
    """Parse Unix seconds or an ISO 8601 time. A time without a zone is UTC."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if 1e9 <= number < 1e11:  # a smaller number is a date without dashes or a mistake; a larger one is milliseconds
        return number
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = datetime.min
    if parsed.year < 1971 or (text.isdigit() and len(text) != 8):
        raise argparse.ArgumentTypeError(f"must be like {TIME_FORMAT}")
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


# -- session filters --------------------------------------------------------------------------------------------------

_OPTIONS: Final[dict[Kind, dict[str, Any]]] = {
    "text": {}, "client": {}, "agent": {}, "place": {}, "version": {"metavar": "VERSION"},
    "time": {"type": parse_time, "metavar": "TIME"},
    "seconds": {"type": int, "metavar": "SECONDS"},
    "flag": {"action": "store_true"},
    "yes_no": {"action": argparse.BooleanOptionalAction},
    "methods": {"action": "append", "metavar": "NAME"},
    "filter": {"action": "append", "default": [], "metavar": "FIELD=VALUE"},
}  # fmt: skip
"""How argparse reads the values of a kind. The help has the kinds in this order."""


def add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("filters", f"A session must match all that are given. TIME is {TIME_FORMAT}.")
    for kind, details in _OPTIONS.items():
        for name in names_of_kind(kind):
            option = LIST_KINDS.get(kind, name).replace("_", "-")
            words = CONDITIONS[name].words + ("; can be repeated" if kind in LIST_KINDS else "")
            group.add_argument(f"--{option}", dest=name, help=words, **details)
    add_attribute(group)


def add_attribute(parser: argparse._ActionsContainer) -> None:
    help = "VALUE is JSON or text; can be repeated"
    parser.add_argument("--attribute", action="append", default=[], metavar="NAME=VALUE", help=help)


def session_filter(args: argparse.Namespace) -> SessionFilter:
    given = {name: getattr(args, name) for name in CONDITIONS if name != "attributes"}
    given["without"] = read_without(args.without, _time_of)
    return SessionFilter(**given, attributes=attributes_of(args))


def _time_of(field: str, text: str) -> datetime | float:
    try:
        return parse_time(text)
    except argparse.ArgumentTypeError as error:
        raise InvalidArgument(field, str(error), "malformed") from None


def attributes_of(args: argparse.Namespace) -> dict[str, Any] | None:
    """The values of ``--attribute``; None without any."""
    return read_attributes(args.attribute) or None


# -- pages ------------------------------------------------------------------------------------------------------------


def add_page(parser: argparse.ArgumentParser, cursor: argparse._ActionsContainer | None = None) -> None:
    """Add ``--limit`` and, to the group ``cursor`` if it is given, ``--cursor``."""
    parser.add_argument("--limit", type=int, default=50, help="entries per page, 1 to 1000 (default 50)")
    (cursor or parser).add_argument("--cursor", help="start of the page: the next_cursor of the page before")


def add_period(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", type=parse_time, metavar="TIME", help=f"from this time on: {TIME_FORMAT}")
    parser.add_argument("--until", type=parse_time, metavar="TIME", help="before this time")


# -- what staff fill in -----------------------------------------------------------------------------------------------


def add_staff_fields(
    parser: argparse.ArgumentParser,
    *,
    message_for: str | None = None,
    ticket: bool = True,
    reason_optional_with: str | None = None,
) -> None:
    """Add ``--reason``, ``--by`` and, where the command takes them, ``--message`` and ``--ticket``."""
    note = f"; not needed with {reason_optional_with}" if reason_optional_with else ""
    parser.add_argument("--reason", required=not reason_optional_with, help=f"internal: only staff read it{note}")
    if message_for:
        parser.add_argument("--message", help=f"public: shown to the {message_for}")
    if ticket:
        parser.add_argument("--ticket", help="number of the support ticket")
    add_by(parser)


def add_by(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", help="your name in the audit (default: your user name on this machine)")


def actor(args: argparse.Namespace) -> str:
    """The name for the audit: ``--by``, else the user of this machine."""
    if args.by is not None:
        return check.actor(args.by)
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return f"user {os.getuid()} (command line)"


def check_staff_fields(args: argparse.Namespace) -> None:
    """Raise InvalidArgument for a field that the library would refuse, so that the error comes before a question."""
    actor(args)
    check.prose("reason", args.reason)
    if getattr(args, "message", None) is not None:
        check.prose("message", args.message)
    check.short("ticket", getattr(args, "ticket", None), 64)


def check_bulk(args: argparse.Namespace, what_may: str) -> None:
    """Raise InvalidArgument unless a bulk action has its reason, and its limit where no one is asked.

    what_may: what may happen to the sessions that ``--expected`` limits, such as "be ended".
    """
    if not args.dry_run:
        if args.reason is None:
            raise InvalidArgument("reason", "must be given", "required")
        check_staff_fields(args)
    if args.yes and args.expected is None:
        rule = f"must be given with --yes: the most sessions that may {what_may}"
        raise InvalidArgument("expected", rule, "required")
