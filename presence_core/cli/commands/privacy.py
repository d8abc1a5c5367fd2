"""Requests of a person about their own data: ``presence erase`` and ``presence export-person``; the secret behind
digests of devices."""

from __future__ import annotations

import argparse

from presence_core import validation as check
from presence_core.cli.arguments import AddCommand, actor, add_by, add_staff_fields
from presence_core.cli.output import count_of, print_result, to_json
from presence_core.cli.prompts import confirm_text
from presence_core.client import Presence
from presence_core.models import AuditFact


def add_commands(add_command: AddCommand) -> None:
    erase = add_command("erase", _erase, "Delete all that is stored about a person, forever.", changes=True)
    erase.add_argument("uid")
    add_staff_fields(erase, ticket=False)
    erase.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    help = "Make a new secret for the digests of users' devices."
    rotate = add_command("rotate-device-key", _rotate_device_key, help, changes=True)
    add_staff_fields(rotate, ticket=False)
    help = "Print all that is stored about a person, as JSON."
    export = add_command("export-person", _export_person, help, changes=True)  # an entry in the audit
    export.add_argument("uid")
    add_by(export)


def _erase(presence: Presence, args: argparse.Namespace) -> int:
    """The exit code is 1 if something is left."""
    check.uid(args.uid)
    check.prose("reason", args.reason)
    by = actor(args)
    live = count_of(len(presence.sessions(args.uid)), "live session")
    found = f"{args.uid} has {live}. They end, and all that is stored about this person is deleted."
    if not args.yes and not confirm_text(found, "erase this person, type the uid", args.uid):
        return 1
    report = presence.erase(args.uid, by=by, reason=args.reason)
    lines = [
        f"Erased {count_of(report.sessions, 'session')} (live: {report.kicked}).",
        f"The audit keeps what staff did to this person, under the name {report.pseudonym}.",
    ]
    if report.live:
        lines.append("The person has logged in again since: run presence erase again.")
    if report.unfinished:
        jobs = ", ".join(report.unfinished)
        lines.append(f"Bulk kicks that name the person are not finished: {jobs}. Run presence erase again after them.")
    print_result(args, report, lines)
    return 0 if report.complete else 1


def _rotate_device_key(presence: Presence, args: argparse.Namespace) -> int:
    check.prose("reason", args.reason)
    presence.rotate_device_key(by=actor(args), reason=args.reason)
    print_result(args, {"rotated": True}, ["Digests of devices are made with a new secret. Known devices stay known."])
    return 0


def _export_person(presence: Presence, args: argparse.Namespace) -> int:
    """The exit code is 1 if nothing is stored. The audit entry is written before the data is printed."""
    check.uid(args.uid)
    data = presence.export_person(args.uid)
    stored = [data["person"]["last_seen"], *(data[name] for name in ("sessions", "ended", "audit", "events", "block"))]
    if any(stored):
        presence.audit_note(by=actor(args), what="export_person", uid=args.uid,
                            facts=[AuditFact("person_exported")])  # fmt: skip
    print(to_json(data))
    return 0 if any(stored) else 1
