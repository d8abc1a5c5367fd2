"""Block rules: logins from a network or a country, or with a version of an app, are refused by the login script."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.models import AuditFact, BlockRule, BlockRulePreview, RuleMatch, read_stored, write_stored
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import check_capacity
from presence_core.operations.search import list_sessions
from presence_core.operations.staff.rule_storage import (
    AuditFields,
    Rules,
    StoredRules,
    change_rules,
    read_rules,
    rules_calls,
)
from presence_core.scripts.calls import CHECKED, Op, checked_first

MAX_RULES: Final = 100

MAX_READ: Final = 10_000
"""Sessions that a preview reads to count people."""

_PAGE: Final = 1_000


# -- preview ----------------------------------------------------------------------------------------------------------


@checked_first
def preview_block_rule(
    ctx: Context, network: object, app: object, app_version: object, country: object
) -> Op[BlockRulePreview]:
    match = RuleMatch.of(network, app, app_version, country)
    yield CHECKED
    sessions = yield from list_sessions.count_sessions(ctx, match.session_filter)
    people: set[str] = set()
    cursor, read = None, 0
    while True:
        page = yield from list_sessions.list_sessions(ctx, match.session_filter, _PAGE, cursor)
        people |= {session.uid for session in page.items}
        read += len(page.items)
        cursor = page.next_cursor
        if cursor is None or read >= MAX_READ:
            break
    return BlockRulePreview(
        kind=match.kind, network=match.network, app=match.app, app_version=match.app_version, country=match.country,
        sessions=sessions, people=len(people), people_is_exact=cursor is None, is_wide=match.is_wide,
        as_of=page.as_of,
    )  # fmt: skip


# -- change -----------------------------------------------------------------------------------------------------------


@checked_first
def add_block_rule(
    ctx: Context,
    network: object,
    app: object,
    app_version: object,
    by: object,
    reason: object,
    expected: object,
    message: object,
    ticket: object,
    duration: object,
    until: object,
    confirm_wide: object,
    country: object,
) -> Op[BlockRule]:
    """Add a rule, or replace the one for the same network or version if that ends no later."""
    match = RuleMatch.of(network, app, app_version, country)
    actor, note = check.actor(by), check.prose("reason", reason)
    limit = check.whole("expected", expected, 0, 1_000_000_000)
    public = None if message is None else check.prose("message", message)
    case = check.short("ticket", ticket, 64)
    end = _check_end(duration, until)
    _check_width(match, confirm_wide)
    yield CHECKED
    check_capacity(ctx)
    number = yield from list_sessions.count_sessions(ctx, match.session_filter)
    if number > limit:
        raise InvalidArgument(
            "expected",
            f"must be at least {number:,}: that many sessions match now, and {limit:,} were expected",
            "more_match",
        )
    made: dict[str, Any] = {}

    def change(stored: StoredRules, rules: dict[bytes, bytes], version: int) -> AuditFields:
        made.update(
            kind=match.kind, network=match.network, app=match.app, app_version=match.app_version, id=match.id,
            **({"country": match.country} if match.country else {}),
            by=actor, reason=note, message=public, ticket=case, at=stored.now, until=end(stored.now),
            sessions=number, version=version,
        )  # fmt: skip
        _check_room(match, rules, made["until"])
        rules[match.field] = write_stored(made)
        values = {"match": match.words, "rule_until": made["until"], "rule": match.id, "count": number}
        return AuditFields("add_block_rule", actor, note, public or "", case or "", AuditFact("rule_added", values))

    replicas = yield from change_rules(ctx, change)
    return BlockRule.from_stored(made, confirmed=replicas.confirmed)


def _check_end(duration: object, until: object) -> Callable[[int], int | None]:
    """The end of a rule, ms, given the time now."""
    if duration is not None and until is not None:
        raise InvalidArgument("until", "must not be given with duration: give one of them", "conflicts")
    if duration is not None:
        seconds = check.seconds("duration", duration)
        return lambda now: now + 1000 * seconds
    if until is None:
        return lambda now: None
    given = check.time_ms("until", until)

    def end(now: int) -> int:
        if given <= now:
            raise InvalidArgument("until", "must lie in the future", "in_the_past")
        return given

    return end


def _check_width(match: RuleMatch, confirm_wide: object) -> None:
    if match.country and confirm_wide != match.country:
        raise InvalidArgument("confirm_wide", f'must be "{match.country}": a country has many people', "unconfirmed")
    if match.is_wide and confirm_wide != match.words:
        raise InvalidArgument(
            "confirm_wide",
            f'must be "{match.network}": this network is wider than /16 (IPv4) or /32 (IPv6)',
            "unconfirmed",
        )
    if confirm_wide is not None and confirm_wide not in (match.network, match.country):
        raise InvalidArgument("confirm_wide", "must be the network, or not be given", "unconfirmed")


def _check_room(match: RuleMatch, rules: Rules, end: int | None) -> None:
    """Refuse to weaken a rule without a trace, and more rules than a login may read."""
    before = read_stored(rules.get(match.field, b""))
    if before and end is not None and (before.get("until") is None or before["until"] > end):
        raise InvalidArgument(
            "until",
            f"must not be before the end of the rule that exists ({match.id}): remove that rule first",
            "shortens_rule",
        )
    if match.field not in rules and len(rules) >= MAX_RULES:
        raise InvalidArgument(
            "app" if match.app else match.kind, f"has no room: limit of {MAX_RULES} block rules", "list_full"
        )


@checked_first
def remove_block_rule(ctx: Context, rule_id: object, by: object, reason: object) -> Op[bool]:
    wanted = check.plain_text("rule_id", rule_id, 64, "must be the id of a block rule")
    actor, note = check.actor(by), check.prose("reason", reason)
    yield CHECKED
    check_capacity(ctx)
    removed: list[str] = []

    def change(stored: StoredRules, rules: dict[bytes, bytes], version: int) -> AuditFields:
        known = {str(read_stored(raw).get("id")): field for field, raw in rules.items()}
        removed[:] = [wanted] if wanted in known else []
        fact = AuditFact("no_rule", {"rule": wanted})
        if removed:
            rule = read_stored(rules.pop(known[wanted]))
            match = rule.get("network") or rule.get("country") or f"{rule.get('app')} {rule.get('app_version')}"
            fact = AuditFact("rule_removed", {"match": match[:256], "rule": wanted, "by": str(rule.get("by"))})
        return AuditFields("remove_block_rule", actor, note, "", "", fact)

    yield from change_rules(ctx, change)
    return bool(removed)


# -- read -------------------------------------------------------------------------------------------------------------


def block_rules(ctx: Context) -> Op[list[BlockRule]]:
    """The rules in force, newest first. Rules that a crash left on some shards are copied to all."""
    stored = yield from read_rules(ctx)
    if not stored.is_everywhere and ctx.settings.heal:
        with contextlib.suppress(Unavailable, CorruptData):
            yield rules_calls(ctx, ctx.keys.shards, stored.version, stored.rules)
            stored = replace(stored, versions=[stored.version])
    reached = min(stored.versions)
    found = []
    for raw in stored.in_force().values():
        values = read_stored(raw)
        with contextlib.suppress(ValueError, TypeError, LookupError, OverflowError):  # another program's
            found.append(BlockRule.from_stored(values, everywhere=int(values.get("version", 0)) <= reached))
    return sorted(found, key=lambda rule: (rule.at, rule.id), reverse=True)


def _sessions(number: int) -> str:
    return f"{number:,} live session{'' if number == 1 else 's'}"
