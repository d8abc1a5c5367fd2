"""What a person may ask for: ``presence forget`` and ``presence export-person``."""

from __future__ import annotations

import argparse

from presence_core import settings as check
from presence_core.cli.asked import Maker, add_by, add_why, by, is_meant
from presence_core.cli.shown import as_json, number_of, say
from presence_core.client import Presence


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    forget = command("forget", _forget, "Take every trace of a person out of every key. There is no way back.")
    forget.add_argument("uid")
    add_why(forget, ticket=False)
    forget.add_argument("--yes", action="store_true", help="do not ask")
    export = command("export-person", _export, "Everything that is kept of a person, in JSON.")
    export.add_argument("uid")
    add_by(export)


def _forget(presence: Presence, args: argparse.Namespace) -> int:
    """1 where something is left."""
    check.uid(args.uid)
    who = by(args)
    check.prose("reason", args.reason)
    live = presence.sessions(args.uid)
    found = (
        f"{args.uid} has {number_of(len(live), 'live session')}. They end, and all that is kept of this person goes."
    )
    if not args.yes and not is_meant(found, "forget this person, type the uid", args.uid):
        return 1
    report = presence.forget(args.uid, by=who, reason=args.reason)
    lines = [
        f"Forgotten: {number_of(report.sessions, 'session')}, {report.kicked} of them live.",
        f"What staff did to this person stands in the audit under {report.pseudonym}.",
    ]
    if report.live:
        lines.append("The person has signed in again meanwhile: call forget again.")
    if report.unfinished:
        lines.append(
            f"Left alone: bulk kicks under way, {', '.join(report.unfinished)}. Once they are over, call again."
        )
    say(args, report, lines)
    return 0 if report.complete else 1


def _export(presence: Presence, args: argparse.Namespace) -> int:
    """1 where nothing is kept. In the audit before anybody has it, as every export is."""
    check.uid(args.uid)
    out = presence.export_person(args.uid)
    known = [out["person"]["last_seen"], *(out[name] for name in ("sessions", "ended", "audit", "events", "block"))]
    if any(known):
        presence.audit_note(by=by(args), what="export_person", uid=args.uid, outcome="all that is kept of this person")
    print(as_json(out))
    return 0 if any(known) else 1
