"""Rules that refuse logins from a network or a country, or with a version of an app: ``presence block-rule list``,
``preview``, ``add`` and ``remove``."""

from __future__ import annotations

import argparse
from typing import Any, Final

from presence_core.cli.arguments import (
    TIME_FORMAT,
    AddCommand,
    action_adder,
    actor,
    add_staff_fields,
    check_staff_fields,
    parse_time,
)
from presence_core.cli.output import count_of, format_time, print_result, records_table
from presence_core.cli.prompts import confirm_count, confirm_text
from presence_core.cli.replica_wait import unconfirmed_warning
from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.models import BlockRule, BlockRulePreview

_COLUMNS: Final = {
    "ID": "id", "BLOCKS": "words", "ADDED (UTC)": "at", "UNTIL (UTC)": "until", "BY": "by", "REASON": "reason",
    "TICKET": "ticket",
}  # fmt: skip
_NAT: Final = "Behind carrier-grade NAT an address belongs to many people."
_PLACES: Final = "Only logins with a known place are refused."
_LIES: Final = "A client can lie about its version."


def add_commands(add_command: AddCommand) -> None:
    help = "Refuse logins from a network or a country, or with a version of an app."
    add_action = action_adder(add_command("block-rule", _list, help))
    add_action("list", _list, "List the rules in force, the latest first.")
    preview = add_action("preview", _preview, "Count the people and live sessions that match now.")
    add = add_action("add", _add, "Add a rule; asks first. Live sessions do not end.")
    for action in (preview, add):
        action.add_argument("--network", help=f"IPv4 or IPv6 address, or a network such as 192.0.2.0/24. {_NAT}")
        action.add_argument("--country", help=f"ISO code, such as FR. {_PLACES}")
        action.add_argument("--app", help="with --app-version")
        action.add_argument("--app-version", help=f"as given at login. {_LIES}")
    add_staff_fields(add, message_for="visitor")
    end = add.add_mutually_exclusive_group()
    end.add_argument("--for", type=int, dest="duration", metavar="SECONDS", help="how long (default: until removed)")
    end.add_argument("--until", type=parse_time, metavar="TIME", help=TIME_FORMAT)
    add.add_argument(
        "--confirm-wide",
        metavar="WHAT",
        help="with --yes: the country again, or a network wider than /16 or, IPv6, /32",
    )
    add.add_argument("--expected", type=int, metavar="N", help="refuse if more than N sessions match")
    add.add_argument("--yes", action="store_true", help="do not ask for confirmation; needs --expected")
    remove = add_action("remove", _remove, "Remove a rule.")
    remove.add_argument("id")
    add_staff_fields(remove, ticket=False)


def _list(presence: Presence, args: argparse.Namespace) -> int:
    rules = presence.block_rules()
    lines = list(records_table(_COLUMNS, rules)) if rules else ["There are no block rules."]
    lines += [
        f"{rule.id} is not in force for all users yet: a sweep completes it." for rule in rules if not rule.everywhere
    ]
    print_result(args, rules, lines)
    return 0


def _preview(presence: Presence, args: argparse.Namespace) -> int:
    preview = presence.preview_block_rule(**_match(args))
    print_result(args, preview, [_found(preview)])
    return 0


def _match(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ("network", "app", "app_version", "country")}


def _found(preview: BlockRulePreview) -> str:
    at_least = "" if preview.people_is_exact else "at least "
    people = f"{preview.people:,} {'person' if preview.people == 1 else 'people'}"
    warning = _NAT if preview.network else _PLACES if preview.country else _LIES
    return (
        f"{preview.words}: {count_of(preview.sessions, 'live session')} of {at_least}{people} match, as of "
        f"{format_time(preview.as_of)} UTC. They go on; their next login is refused. {warning}"
    )


def _add(presence: Presence, args: argparse.Namespace) -> int:
    check_staff_fields(args)
    if args.yes and args.expected is None:
        raise InvalidArgument("expected", "must be given with --yes: the most sessions that may match", "required")
    preview = presence.preview_block_rule(**_match(args))
    expected = preview.sessions if args.expected is None else args.expected
    too_many = preview.sessions > expected  # add_block_rule refuses it, so there is nothing to confirm
    if not (args.yes or too_many or _confirm(preview)):
        return 1
    is_typed = preview.is_wide and not args.yes and not too_many
    confirm_wide = preview.words if is_typed else args.confirm_wide
    rule = presence.add_block_rule(**_match(args), by=actor(args), reason=args.reason, expected=expected,
                                   message=args.message, ticket=args.ticket, duration=args.duration, until=args.until,
                                   confirm_wide=confirm_wide)  # fmt: skip
    print_result(args, rule, [_sentence(rule), *unconfirmed_warning(presence)])
    return 0


def _confirm(preview: BlockRulePreview) -> bool:
    if preview.is_wide:
        wide = "This network is wide." if preview.network else "A country has many people."
        return confirm_text(f"{_found(preview)} {wide}", f"refuse such logins, type {preview.words}", preview.words)
    return confirm_count(_found(preview), "refuse such logins", preview.sessions)


def _sentence(rule: BlockRule) -> str:
    until = f"until {format_time(rule.until)} UTC" if rule.until else "until the rule is removed"
    return f"Logins of {rule.words} are refused {until} (rule {rule.id})."


def _remove(presence: Presence, args: argparse.Namespace) -> int:
    removed = presence.remove_block_rule(args.id, by=actor(args), reason=args.reason)
    sentence = f"Removed rule {args.id}." if removed else f"There is no rule {args.id}."
    print_result(args, {"removed": removed}, [sentence, *(unconfirmed_warning(presence) if removed else [])])
    return 0 if removed else 1
