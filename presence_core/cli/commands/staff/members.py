"""The staff of the dashboard, their roles and passwords: ``presence staff list``, ``add``, ``role``, ``password`` and
``remove``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import UTC, datetime

from presence_core.cli.arguments import AddCommand, action_adder, actor, add_by
from presence_core.cli.output import format_time, print_error, print_result, table
from presence_core.cli.prompts import read_password
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.files.password_file import VARIABLE, PasswordFile, one_time_password
from presence_core.models import STAFF_ROLES, StaffMember
from presence_core.operations.staff.members import staff_name


def add_commands(add_command: AddCommand) -> None:
    add_action = action_adder(add_command("staff", _list, "Manage the roles and passwords of the dashboard."))
    add = add_action("add", _add, f"Add a staff member with a role and, where {VARIABLE} is set, a password.")
    role = add_action("role", _role, "Change the role of a staff member.")
    remove = add_action("remove", _remove, "Remove a staff member: role and password.")
    password = add_action("password", _password, f"Change a password in the file that {VARIABLE} names.")
    add_action("list", _list, "List all who have a role or had one.")
    for action in (add, role, remove, password):
        action.add_argument("name", help="often an email address; upper and lower case are the same")
    add.add_argument("--role", choices=STAFF_ROLES, required=True)
    role.add_argument("role", choices=STAFF_ROLES)
    for action in (add, password):
        how = action.add_mutually_exclusive_group()
        how.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
        how.add_argument("--one-time", action="store_true",
                         help="make and print a password with which its owner must choose another")  # fmt: skip
    for action in (role, remove):
        action.add_argument("--break-glass", action="store_true",
                            help="for emergencies: even if no admin is left or the role was removed")  # fmt: skip
    for action in (add, role, remove):
        add_by(action)


def _add(presence: Presence, args: argparse.Namespace) -> int:
    name, by, file = staff_name(args.name), actor(args), PasswordFile.from_env(os.environ)
    if file is None and (args.password_stdin or args.one_time):
        raise InvalidArgument(VARIABLE, "must name the password file, because a password is given")
    known = presence.staff_member(name)
    if known and known.role:
        raise InvalidArgument(
            "name", f"must be new: {name} is {known.role} already (see presence staff role)", "exists"
        )
    if file is None:
        member = presence.add_staff(name, args.role, by=by)
        print_result(args, member, [f"{name} is {member.role}."])
        return 0
    password, valid_until = _new_password(args)
    with file.storing(name, password, valid_until=valid_until):  # both or none; a password alone opens nothing
        member = presence.add_staff(name, args.role, by=by)
    if valid_until is None:
        print_result(args, member, [f"{name} is {member.role}, with a password."])
        return 0
    shown = {"name": name, "role": member.role, "password": password, "valid_until": valid_until}
    print_result(args, shown, [f"{name} is {member.role}.", *_one_time_lines(password, valid_until)])
    return 0


def _new_password(args: argparse.Namespace) -> tuple[str, int | None]:
    """A new password, and when it ends if it is a one-time password."""
    return one_time_password() if args.one_time else (read_password(args), None)


def _one_time_lines(password: str, valid_until: int) -> list[str]:
    end = format_time(datetime.fromtimestamp(valid_until, UTC))
    return [f"One-time password: {password}", f"It is valid until {end} UTC. It is not shown again."]


def _role(presence: Presence, args: argparse.Namespace) -> int:
    known = presence.staff_member(args.name)
    if known is None or (known.role is None and not args.break_glass):
        return _unknown(args.name)
    member = presence.set_staff(args.name, args.role, by=actor(args), force=args.break_glass)
    print_result(args, member, [f"{member.name} is now {member.role}. Open pages follow within 5 seconds."])
    return 0


def _remove(presence: Presence, args: argparse.Namespace) -> int:
    """The exit code is 1 if something is left."""
    name = staff_name(args.name)
    removed = presence.remove_staff(name, by=actor(args), force=args.break_glass)
    sentence = f"Removed {name}. Open pages close within 5 seconds." if removed else f"{name} had no role."
    print_result(args, {"removed": removed}, [sentence])
    file = PasswordFile.from_env(os.environ)
    try:
        if file is not None:
            file.remove(name)
    except InvalidArgument as error:  # the removal must not fail for it
        print_error(f"The password of {name} is still stored, and opens nothing without a role. {error}")
        return 1
    return 0 if removed else 1


def _password(presence: Presence, args: argparse.Namespace) -> int:
    name, file = staff_name(args.name), PasswordFile.from_env(os.environ)
    if file is None:
        raise InvalidArgument(VARIABLE, "must name the password file")
    known = presence.staff_member(name)
    if known is None or known.role is None:
        return _unknown(name)
    password, valid_until = _new_password(args)
    file.set(name, password, valid_until=valid_until)
    sentence = f"{name} has a new password. Open pages close within 5 seconds."
    if valid_until is None:
        print_result(args, {"name": name}, [sentence])
    else:
        shown = {"name": name, "password": password, "valid_until": valid_until}
        print_result(args, shown, [sentence, *_one_time_lines(password, valid_until)])
    return 0


def _unknown(name: str) -> int:
    print_error(f"There is no staff member {name}. Add one: presence staff add")
    return 1


def _list(presence: Presence, args: argparse.Namespace) -> int:
    members = presence.staff()
    file = PasswordFile.from_env(os.environ)
    rows: list[Sequence[str]] = [("NAME", "ROLE", "SINCE (UTC)", "BY", "PASSWORD")]
    rows += [
        (member.name, member.role or "removed", format_time(member.since), member.by, _password_state(file, member))
        for member in members
    ]
    empty = ["No one has a role yet. Add the first: presence staff add NAME --role admin"]
    print_result(args, members, table(rows) if members else empty)
    return 0


def _password_state(file: PasswordFile | None, member: StaffMember) -> str:
    if file is None:
        return "-"
    stored = file.find(member.name)
    if stored is None:
        return "no"
    return "expired" if stored.has_expired else "one-time" if stored.is_one_time else "yes"
