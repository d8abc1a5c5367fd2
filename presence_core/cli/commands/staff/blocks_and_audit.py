"""What staff do, and the record of it: ``presence kick``, ``require-sign-in``, ``revoke-before``, ``block``,
``unblock``, ``blocks`` and ``audit``; and ``failed-logins``."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Final, NamedTuple

from presence_core import validation as check
from presence_core.cli.arguments import (
    TIME_FORMAT,
    AddCommand,
    actor,
    add_page,
    add_period,
    add_staff_fields,
    check_staff_fields,
    parse_time,
)
from presence_core.cli.commands.staff.timeouts import add_timeouts
from presence_core.cli.mirrored import site_note
from presence_core.cli.output import count_of, format_time, how_ended, print_page, print_result
from presence_core.cli.prompts import confirm_count
from presence_core.cli.replica_wait import unconfirmed_warning
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.models import Block
from presence_core.schema.failures import FAILURES

_BLOCK_COLUMNS: Final = {"BLOCKED (UTC)": "at", "USER": "uid", "UNTIL (UTC)": "until", "BY": "by", "REASON": "reason"}
_FAILURE_COLUMNS: Final = {
    "LAST (UTC)": "at", "USER": "uid", "TYPED": "name_kind", "WHY": "why", "COUNT": "count", "ADDRESS": "ip",
    "RULE": "rule",
}  # fmt: skip
_AUDIT_COLUMNS: Final = {
    "WHEN (UTC)": "at", "BY": "by", "ACTION": "action", "USER": "uid", "OUTCOME": "outcome", "REASON": "reason",
    "TICKET": "ticket",
}  # fmt: skip


def add_commands(add_command: AddCommand) -> None:
    kick = add_command("kick", _kick, "End one session of a user, or all of them.", changes=True)
    kick.add_argument("uid")
    kick.add_argument("session_id", nargs="?", help="only this session")
    add_staff_fields(kick, message_for="user")
    kick.add_argument("--keep", action="append", default=[], metavar="SESSION", help="do not end this session")
    kick.add_argument("--block-for", type=int, metavar="SECONDS", help="also block the user's logins for this long")
    help = "Require a new sign-in in a user's sessions. Until then they stay listed, and open nothing."
    sign_in = add_command("require-sign-in", _require_sign_in, help, changes=True)
    sign_in.add_argument("uid")
    sign_in.add_argument("session_id", nargs="?", help="only in this session")
    add_staff_fields(sign_in, message_for="user")
    sign_in.add_argument("--keep", action="append", default=[], metavar="SESSION", help="not in this session")
    add_timeouts(add_command)
    help = "Sign out everyone who logged in before a time, at once."
    revoke = add_command("revoke-before", _revoke_before, help, changes=True)
    revoke.add_argument("--before", type=_time_or_now, required=True, metavar="TIME", help=f"now, or {TIME_FORMAT}")
    add_staff_fields(revoke, message_for="users", ticket=False)
    revoke.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    _add_block_commands(add_command)
    failed = add_command("failed-logins", _failed_logins, "List sign-ins that failed, the latest first.")
    failed.add_argument("uid", nargs="?", help="only those of this user, or of a name as it was typed")
    failed.add_argument("--ip", help="only those from this address or network")
    failed.add_argument("--why", choices=[failure.why for failure in FAILURES], help="only those for this reason")
    add_period(failed)
    add_page(failed)
    audit = add_command("audit", _audit, "List what staff did, newest first.")
    audit.add_argument("--user", help="only what was done to this user")
    audit.add_argument("--by", help="only what this staff member did")
    add_period(audit)
    add_page(audit)


def _add_block_commands(add_command: AddCommand) -> None:
    block = add_command("block", _block, "Block a user's logins. Live sessions do not end.", changes=True)
    block.add_argument("uid")
    add_staff_fields(block, message_for="user")
    end = block.add_mutually_exclusive_group()
    end.add_argument("--for", type=int, dest="duration", metavar="SECONDS", help="how long (default: until unblocked)")
    end.add_argument("--until", type=parse_time, metavar="TIME", help=TIME_FORMAT)
    block.add_argument("--shorten", action="store_true", help="replace an existing block that ends later")
    unblock = add_command("unblock", _unblock, "Let a blocked user log in again.", changes=True)
    unblock.add_argument("uid")
    add_staff_fields(unblock, ticket=False)
    blocks = add_command("blocks", _blocks, "List blocked users, newest block first.")
    add_page(blocks)


def _kick(presence: Presence, args: argparse.Namespace) -> int:
    result = presence.kick(args.uid, args.session_id, by=actor(args), reason=args.reason, message=args.message,
                           ticket=args.ticket, keep=args.keep, block_for=args.block_for)  # fmt: skip
    lines = [f"Kicked {count_of(len(result.kicked), 'session')} of {args.uid}."]
    if result.block:
        lines.append(_block_sentence(result.block))
    lines += [f"{ended.session_id} had already ended{how_ended(ended)}" for ended in result.already_ended]
    lines += site_note(presence, result.kicked)
    changed = bool(result or args.block_for)
    if changed:
        lines += unconfirmed_warning(presence)
    print_result(args, result, lines)
    return 0 if changed else 1


def _require_sign_in(presence: Presence, args: argparse.Namespace) -> int:
    result = presence.require_sign_in(args.uid, args.session_id, by=actor(args), reason=args.reason,
                                      message=args.message, ticket=args.ticket, keep=args.keep)  # fmt: skip
    number = count_of(len(result.sessions), "session")
    lines = [f"{args.uid} must sign in again in {number}." if result else f"{args.uid} has no such live session."]
    if result.skipped:
        lines.append(f"Skipped {count_of(result.skipped, 'session')} on behalf of {args.uid}: kick them instead.")
    print_result(args, result, [*lines, *(unconfirmed_warning(presence) if result else ())])
    return 0 if result else 1


def _block_sentence(block: Block) -> str:
    """The block in force, and whose it is if an earlier one stays because it ends later."""
    until = f"until {format_time(block.until)} UTC" if block.until else "until unblocked"
    tickets = f" ({block.ticket})" if block.ticket else ""
    sentence = f"{block.uid} may not log in {until}{tickets}."
    if block.changed == block.at:
        return sentence
    return f"{sentence} An earlier block ends later and stays in force: by {block.by}, {block.reason}"


def _block(presence: Presence, args: argparse.Namespace) -> int:
    block = presence.block(args.uid, by=actor(args), reason=args.reason, message=args.message, duration=args.duration,
                           until=args.until, ticket=args.ticket, shorten=args.shorten)  # fmt: skip
    print_result(args, block, [_block_sentence(block), *unconfirmed_warning(presence)])
    return 0


def _unblock(presence: Presence, args: argparse.Namespace) -> int:
    was_blocked = presence.unblock(args.uid, by=actor(args), reason=args.reason)
    sentence = f"{args.uid} {'may log in again' if was_blocked else 'was not blocked'}."
    print_result(args, {"unblocked": was_blocked}, [sentence])
    return 0 if was_blocked else 1


def _blocks(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.blocks(limit=args.limit, cursor=args.cursor)
    return print_page(args, page, _BLOCK_COLUMNS, "No user is blocked.")


class _Revocation(NamedTuple):
    before: str
    sessions: int
    found: str


def _time_or_now(text: str) -> datetime | float | None:
    return None if text == "now" else parse_time(text)


def _revoke_before(presence: Presence, args: argparse.Namespace) -> int:
    """The exit code is 0 also if no session ended: the time is stored in any case."""
    check_staff_fields(args)
    revocation = _preview(presence, args.before)
    if not args.yes and not confirm_count(revocation.found, "sign them out", revocation.sessions):
        return 1
    ended = presence.revoke_before(args.before, by=actor(args), reason=args.reason, message=args.message)
    lines = [f"Signed out {count_of(ended, 'session')} that began before {revocation.before}."]
    if ended:
        lines.append(
            "Their tokens are invalid now. Sweeps remove them from the lists; presence counts shows when it is done."
        )
    lines += unconfirmed_warning(presence)
    print_result(args, {"signed_out": ended}, lines)
    return 0


def _preview(presence: Presence, before: datetime | float | None) -> _Revocation:
    counts = presence.counts()
    live = count_of(counts.sessions, "live session")
    if before is None:
        found = f"{live} will end, and sessions that begin before you confirm."
        return _Revocation("now", counts.sessions, found)
    ms = check.time_ms("before", before)
    if ms > counts.as_of.timestamp() * 1000:
        raise InvalidArgument("before", "must not be in the future", "in_the_future")
    shown = f"{format_time(datetime.fromtimestamp(ms / 1000, UTC))} UTC"
    matching = presence.count_sessions(SessionFilter(logged_in_before=before))
    return _Revocation(shown, matching, f"{matching:,} of {live} began before {shown}.")


def _failed_logins(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.failed_logins(args.uid, ip=args.ip, why=args.why, since=args.since, until=args.until,
                                  limit=args.limit, cursor=args.cursor)  # fmt: skip
    return print_page(args, page, _FAILURE_COLUMNS, "No sign-in has failed.", args.uid, args.ip, args.why, args.since,
                      args.until)  # fmt: skip


def _audit(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.audit(uid=args.user, by=args.by, since=args.since, until=args.until, limit=args.limit,
                          cursor=args.cursor)  # fmt: skip
    return print_page(args, page, _AUDIT_COLUMNS, "There are no audit entries.", args.user, args.by, args.since,
                      args.until)  # fmt: skip
