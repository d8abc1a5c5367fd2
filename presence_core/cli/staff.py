"""What staff do: ``presence kick``, ``block``, ``unblock``, ``sign-out-all``; and what was done: ``blocks``, ``audit``,
``ended``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from presence_core import settings as check
from presence_core.cli.asked import WHEN, Maker, add_cursor, add_limit, add_why, by, check_words, is_sure, moment
from presence_core.cli.shown import number_of, paged, say, stamp
from presence_core.cli.waiting import not_confirmed
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.models import Block


def add_commands(command: Maker) -> None:
    """Make these commands known to the parser."""
    kick = command("kick", _kick, "End one session of a user, or all of them.")
    kick.add_argument("uid")
    kick.add_argument("session_id", nargs="?")
    add_why(kick, "for the visitor")
    kick.add_argument("--keep", action="append", default=[], metavar="SESSION", help="spare this session")
    kick.add_argument("--block-for", type=int, metavar="SECONDS", help="and let them not log in again for so long")
    block = command("block", _block, "Let a user not log in any more.")
    block.add_argument("uid")
    add_why(block, "for the user")
    ends = block.add_mutually_exclusive_group()
    ends.add_argument("--for", type=int, dest="duration", metavar="SECONDS", help="how long (until unblocked)")
    ends.add_argument("--until", type=moment, metavar="TIME", help=WHEN)
    block.add_argument("--shorten", action="store_true", help="also where the block that there is ends later")
    unblock = command("unblock", _unblock, "Let a user log in again.")
    unblock.add_argument("uid")
    add_why(unblock, ticket=False)
    out = command("sign-out-all", _sign_out_all, "End every session that began before a time, at once.")
    out.add_argument("--before", type=_moment_or_now, required=True, metavar="TIME", help=f"now; or {WHEN}")
    add_why(out, "for the visitors", ticket=False)
    out.add_argument("--yes", action="store_true", help="do not ask")
    blocks = command("blocks", _blocks, "Who may not log in, the latest blocked first.")
    audit = command("audit", _audit, "What staff did, newest first.")
    audit.add_argument("--user", help="only what was done to this user")
    ended = command("ended", _ended, "Why sessions are over, the latest end first.")
    ended.add_argument("uid", nargs="?")
    ended.add_argument("--reason", help="only logout, expired, kicked or replaced")
    for listing in (blocks, audit, ended):
        add_limit(listing)
        add_cursor(listing)
    for timed in (audit, ended):
        timed.add_argument("--by", help="only what this person did")
        timed.add_argument("--since", type=moment, metavar="TIME", help=f"from this time on: {WHEN}")
        timed.add_argument("--until", type=moment, metavar="TIME", help="before this time")


def _kick(presence: Presence, args: argparse.Namespace) -> int:
    result = presence.kick(args.uid, args.session_id, by=by(args), reason=args.reason, message=args.message,
                           ticket=args.ticket, keep=args.keep, block_for=args.block_for)  # fmt: skip
    lines = [f"Kicked {len(result.kicked)} of {args.uid}'s sessions."]
    if result.block:
        lines.append(_held(result.block))
    lines += [f"{one.session_id} had ended before: {one.reason} at {stamp(one.at)} UTC by {one.by or 'nobody'}."
              for one in result.already_ended]  # fmt: skip
    lines += not_confirmed(presence) if result or args.block_for else []
    say(args, result, lines)
    return 0 if result or args.block_for else 1


def _held(block: Block) -> str:
    """A block as it is now; of one that was there before, and stays because it ends later, also whose it is."""
    until = f"until {stamp(block.until)} UTC" if block.until else "until unblocked"
    tickets = f" ({block.ticket})" if block.ticket else ""
    held = f"{block.uid} may not log in {until}{tickets}."
    if block.changed == block.at:
        return held
    return f"{held} An earlier block ends later and stays: by {block.by}, {block.reason}"


def _block(presence: Presence, args: argparse.Namespace) -> int:
    block = presence.block(args.uid, by=by(args), reason=args.reason, message=args.message, duration=args.duration,
                           until=args.until, ticket=args.ticket, shorten=args.shorten)  # fmt: skip
    say(args, block, [_held(block), *not_confirmed(presence)])
    return 0


def _unblock(presence: Presence, args: argparse.Namespace) -> int:
    was = presence.unblock(args.uid, by=by(args), reason=args.reason)
    say(args, {"unblocked": was}, [f"{args.uid} {'may log in again' if was else 'was not blocked'}."])
    return 0 if was else 1


# -- everybody out ----------------------------------------------------------------------------------------------------


def _moment_or_now(value: str) -> datetime | float | None:
    return None if value == "now" else moment(value)


def _sign_out_all(presence: Presence, args: argparse.Namespace) -> int:
    """Done is 0, also where nobody was online: the watermark is set."""
    check_words(args)
    counts = presence.counts()
    everybody = number_of(counts.sessions, "live session")
    if args.before is None:
        began, number = "now", counts.sessions
        found = f"{everybody}, and those that begin until you have answered."
    else:
        ms = check.past("before", args.before)
        if ms > counts.as_of.timestamp() * 1000:
            raise InvalidArgument("before", "must not lie in the future")
        began = f"{stamp(datetime.fromtimestamp(ms / 1000, UTC))} UTC"
        number = presence.count_sessions(SessionFilter(logged_in_before=args.before))
        found = f"{number:,} of {everybody} began before {began}."
    if not args.yes and not is_sure(found, "sign out", number):
        return 1
    ended = presence.revoke_before(args.before, by=by(args), reason=args.reason, message=args.message)
    lines = [f"Signed out {number_of(ended, 'session')}: all that began before {began}."]
    if ended:
        lines.append(
            "None of them passes any more. Sweeps take them off the lists; presence counts says while they do."
        )
    lines += not_confirmed(presence)
    say(args, {"signed_out": ended}, lines)
    return 0


# -- what was done ----------------------------------------------------------------------------------------------------


def _blocks(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.blocks(limit=args.limit, cursor=args.cursor)
    rows: list[Sequence[str]] = [("BLOCKED (UTC)", "USER", "UNTIL (UTC)", "BY", "REASON")]
    rows += [(stamp(one.at), one.uid, stamp(one.until) if one.until else "-", one.by, one.reason) for one in page]
    say(args, page, paged(page, rows, "Nobody is blocked."))
    return 0


def _audit(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.audit(uid=args.user, by=args.by, since=args.since, until=args.until, limit=args.limit,
                          cursor=args.cursor)  # fmt: skip
    rows: list[Sequence[str]] = [("WHEN (UTC)", "BY", "ACTION", "USER", "OUTCOME", "REASON", "TICKET")]
    rows += [(stamp(one.at), one.by or "-", one.action, one.uid or "-", one.outcome or "-", one.reason or "-",
              one.ticket or "-") for one in page]  # fmt: skip
    say(args, page, paged(page, rows, "Nothing is written down."))
    return 0


def _ended(presence: Presence, args: argparse.Namespace) -> int:
    page = presence.ended(args.uid, reason=args.reason, by=args.by, since=args.since, until=args.until,
                          limit=args.limit, cursor=args.cursor)  # fmt: skip
    rows: list[Sequence[str]] = [("ENDED (UTC)", "USER", "REASON", "CAUSE", "BY", "WHY", "SESSION")]
    rows += [(stamp(one.at), one.uid, one.reason, one.cause, one.by or "-", one.note or "-", one.session_id)
             for one in page]  # fmt: skip
    say(args, page, paged(page, rows, "No end is kept."))
    return 0
