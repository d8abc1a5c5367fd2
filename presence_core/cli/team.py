"""Who may work with the dashboard: ``presence staff add``, ``list``, ``role``, ``remove`` and ``password``."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Sequence

from presence_core.cli.asked import Command, Maker, add_by, by
from presence_core.cli.shown import columns, complain, say, stamp
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.models import STAFF_ROLES, StaffMember
from presence_core.operations.staff_records import staff_name
from presence_core.passwords import VARIABLE, PasswordFile, check_password

_GLASS = "also where no admin would be left: somebody must be able to get in again"


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    staff = command("staff", _list, "Who may work with the dashboard, and as what.")
    acts = staff.add_subparsers(required=True, metavar="act")

    def act(name: str, run: Command, help: str) -> argparse.ArgumentParser:
        made = acts.add_parser(name, help=help, description=help)
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answer in JSON")
        return made

    add = act("add", _add, f"Give somebody a role and, where {VARIABLE} is set, a password.")
    role = act("role", _role, "Give somebody another role.")
    remove = act("remove", _remove, "Take somebody's role away, and their password.")
    password = act("password", _password, f"Write a new password into the file that {VARIABLE} names.")
    act("list", _list, "Everybody who has a role, or had one.")
    for one in (add, role, remove, password):
        one.add_argument("name", help="often an email; capitals make no difference")
    add.add_argument("--role", choices=STAFF_ROLES, required=True)
    role.add_argument("role", choices=STAFF_ROLES)
    for one in (add, password):
        one.add_argument("--password-stdin", action="store_true", help="read it from standard input, one line")
    for one in (role, remove):
        one.add_argument("--break-glass", action="store_true", help=_GLASS)
    for one in (add, role, remove):
        add_by(one)


def _add(presence: Presence, args: argparse.Namespace) -> int:
    name, actor, file = staff_name(args.name), by(args), PasswordFile.from_env(os.environ)
    if file is None and args.password_stdin:
        raise InvalidArgument(VARIABLE, "must name the password file: passwords are written there")
    known = presence.staff_member(name)
    if known and known.role:
        raise InvalidArgument("name", f"must be new: {name} is {known.role} already (see presence staff role)")
    if file is not None:
        file.set(name, _asked(args))  # first: a role without a password opens nothing, and the other way round
    member = presence.set_staff(name, args.role, by=actor)
    said = f"{name} is {member.role}" + (", with a password." if file else ".")
    say(args, member, [said])
    return 0


def _role(presence: Presence, args: argparse.Namespace) -> int:
    known = presence.staff_member(args.name)
    if known is None or (known.role is None and not args.break_glass):
        complain(f"There is no {args.name} on the staff: presence staff add")
        return 1
    member = presence.set_staff(args.name, args.role, by=by(args), force=args.break_glass)
    say(args, member, [f"{member.name} is {member.role} now, within 5 seconds on every page that is open."])
    return 0


def _remove(presence: Presence, args: argparse.Namespace) -> int:
    name = staff_name(args.name)
    gone = presence.remove_staff(name, by=by(args), force=args.break_glass)
    file = PasswordFile.from_env(os.environ)
    if file is not None:
        file.remove(name)
    said = "has no role any more: open pages close within 5 seconds." if gone else "had no role."
    say(args, {"removed": gone}, [f"{name} {said}"])
    return 0 if gone else 1


def _password(presence: Presence, args: argparse.Namespace) -> int:
    name, file = staff_name(args.name), PasswordFile.from_env(os.environ)
    if file is None:
        raise InvalidArgument(VARIABLE, "must name the password file")
    known = presence.staff_member(name)
    if known is None or known.role is None:
        complain(f"There is no {name} on the staff: presence staff add")
        return 1
    file.set(name, _asked(args))
    say(args, {"name": name}, [f"{name} has a new password. Pages that are open stay open."])
    return 0


def _list(presence: Presence, args: argparse.Namespace) -> int:
    found = presence.staff()
    file = PasswordFile.from_env(os.environ)
    rows: list[Sequence[str]] = [("NAME", "ROLE", "SINCE (UTC)", "BY", "PASSWORD")]
    rows += [(one.name, one.role or "removed", stamp(one.since), one.by, _has_password(file, one)) for one in found]
    say(args, found, columns(rows) if found else ["Nobody has a role yet: presence staff add NAME --role admin"])
    return 0


def _has_password(file: PasswordFile | None, member: StaffMember) -> str:
    return "-" if file is None else "yes" if member.name in file else "no"


def _asked(args: argparse.Namespace) -> str:
    """The new password: from standard input, or typed twice at a terminal that does not show it."""
    if args.password_stdin:
        try:
            password = sys.stdin.readline().rstrip("\r\n")
        except (AttributeError, UnicodeDecodeError):
            password = ""
        check_password(password)
        return password
    try:
        password = getpass.getpass("New password: ")
        check_password(password)
        again = getpass.getpass("The same again: ")
    except EOFError:
        raise InvalidArgument("password", "must be typed: at a terminal, or with --password-stdin") from None
    if password != again:
        raise InvalidArgument("password", "must be typed the same twice")
    return password
