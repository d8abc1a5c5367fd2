"""Questions that a command asks before it goes on: a confirmation, or a new password."""

from __future__ import annotations

import argparse
import getpass
import sys

from presence_core.cli.output import print_error, write_error
from presence_core.errors import InvalidArgument
from presence_core.files.password_file import check_password
from presence_core.logs import printable


def confirm_count(found: str, action: str, count: int) -> bool:
    """Print what was found and ask for the number of sessions. True if the user types it, with or without commas."""
    return _confirmed(_ask(found, f"{action}, type the number of sessions").replace(",", "") == str(count))


def confirm_text(found: str, action: str, text: str) -> bool:
    """Print what was found and ask for a text. True if the user types it."""
    return _confirmed(_ask(found, action) == text.strip())


def _confirmed(matches: bool) -> bool:
    if not matches:
        print_error("Nothing was done.")
    return matches


def _ask(found: str, request: str) -> str:
    print_error(found)
    write_error(f"To {printable(request)}: ")
    return _read_line().strip()


def _read_line() -> str:
    """A line of standard input; empty where standard input is closed or is not text."""
    try:
        return sys.stdin.readline()
    except (AttributeError, UnicodeDecodeError):
        return ""


def read_password(args: argparse.Namespace) -> str:
    """A new password: from standard input with ``--password-stdin``, else typed twice at the terminal."""
    if args.password_stdin:
        password = _read_line().rstrip("\r\n")
        check_password(password)
        return password
    try:
        password = getpass.getpass("New password: ")
        check_password(password)
        repeated = getpass.getpass("Repeat the password: ")
    except EOFError:
        raise InvalidArgument("password", "must be typed at a terminal, or given with --password-stdin") from None
    if password != repeated:
        raise InvalidArgument("password", "must be the same both times")
    return password
