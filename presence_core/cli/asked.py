"""What is asked on the command line: moments, filters, pages, who asks and why, and whether they are sure."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from presence_core import settings as check
from presence_core.cli.shown import complain
from presence_core.client import Presence
from presence_core.filters import SessionFilter, read_attributes

Command = Callable[[Presence, argparse.Namespace], int]
"""Does what was asked; answers the exit code."""

Maker = Callable[[str, Command, str], argparse.ArgumentParser]
"""Makes a command known by its name, what it runs and its help."""

WHEN: Final = "2026-01-31T12:00 (UTC), or Unix seconds"

_FIELDS: Final = {
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


def moment(value: str) -> datetime | float:
    """A time as it is typed; one that names no zone is UTC."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if 1e9 <= number < 1e11:  # what is less is a date without dashes, or a slip; what is more, milliseconds
        return number
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        at = datetime.min
    if at.year < 1971 or (value.isdigit() and len(value) != 8):
        raise argparse.ArgumentTypeError(f"must be like {WHEN}")
    return at if at.tzinfo else at.replace(tzinfo=UTC)


# -- which sessions ---------------------------------------------------------------------------------------------------


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Every field of SessionFilter as an option."""
    which = parser.add_argument_group("which sessions", "All that is given must hold.")
    for name, help in _FIELDS.items():
        which.add_argument(f"--{name}", help=help)
    which.add_argument("--logged-in-after", type=moment, metavar="TIME", help=WHEN)
    which.add_argument("--logged-in-before", type=moment, metavar="TIME")
    which.add_argument("--idle-for", type=int, metavar="SECONDS", help="not seen for at least so long")
    add_attribute(which)


def add_attribute(parser: argparse._ActionsContainer) -> None:
    """The site's own fields."""
    parser.add_argument("--attribute", action="append", default=[], metavar="NAME=VALUE", help="VALUE is JSON, or text")


def session_filter(args: argparse.Namespace) -> SessionFilter:
    """What these options ask for."""
    given: dict[str, Any] = {name.replace("-", "_"): getattr(args, name.replace("-", "_")) for name in _FIELDS}
    return SessionFilter(
        **given,
        logged_in_after=args.logged_in_after,
        logged_in_before=args.logged_in_before,
        idle_for=args.idle_for,
        attributes=attributes_of(args),
    )


def attributes_of(args: argparse.Namespace) -> dict[str, Any] | None:
    """What was given by --attribute; None for nothing."""
    return read_attributes(args.attribute) or None


# -- pages ------------------------------------------------------------------------------------------------------------


def add_limit(parser: argparse.ArgumentParser) -> None:
    """How long a page is."""
    parser.add_argument("--limit", type=int, default=50, help="how many, 1 to 1000 (50)")


def add_cursor(parser: argparse._ActionsContainer) -> None:
    """Where a page begins."""
    parser.add_argument("--cursor", help="go on where this says (next_cursor of --json)")


# -- who does it, why, and are they sure ------------------------------------------------------------------------------


def add_why(
    parser: argparse.ArgumentParser, message: str | None = None, *, ticket: bool = True, need: str | None = None
) -> None:
    """What staff say of an act. message: for whom there may be one; need: when a reason is needed, if not always."""
    parser.add_argument("--reason", required=need is None, help=f"for staff{f'; {need}' if need else ''}")
    if message:
        parser.add_argument("--message", help=message)
    if ticket:
        parser.add_argument("--ticket")
    add_by(parser)


def add_by(parser: argparse.ArgumentParser) -> None:
    """Who acts."""
    parser.add_argument("--by", help="who does it (your user name)")


def by(args: argparse.Namespace) -> str:
    """Who acts: as they say or, if they do not, as the machine knows them."""
    if args.by is not None:
        return check.actor(args.by)
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return f"user {os.getuid()} (command line)"


def check_words(args: argparse.Namespace) -> None:
    """Before somebody is asked whether they are sure: nothing of what they wrote will be refused afterwards."""
    by(args)
    check.prose("reason", args.reason)
    if args.message is not None:
        check.prose("message", args.message)
    check.short("ticket", getattr(args, "ticket", None), 64)


def is_sure(found: str, end: str, number: int) -> bool:
    """Whether somebody who has read what was found types the number of it."""
    return is_meant(found, f"{end} them, type their number", str(number), comma=True)


def is_meant(found: str, ask: str, word: str, *, comma: bool = False) -> bool:
    """Whether somebody who has read what was found types this word. comma: a number may have some."""
    complain(found)
    print(f"To {ask}: ", end="", file=sys.stderr, flush=True)
    try:
        typed = sys.stdin.readline().strip()
    except (AttributeError, UnicodeDecodeError):  # there is no standard input, or no text in it
        typed = ""
    if (typed.replace(",", "") if comma else typed) == word.strip():
        return True
    complain("Nothing was done.")
    return False
