"""Block rules: preview, add, remove. For admins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

from presence_core import BlockRule, BlockRulePreview, Presence
from presence_dashboard import access, texts
from presence_dashboard.roles import Denied

# Names in the audit, also of denials.
ADD: Final = "add_block_rule"
REMOVE: Final = "remove_block_rule"


class RuleConditions(TypedDict, total=False):
    """Which logins a rule refuses: those from a network or a country, or those of a version of an app."""

    network: str | None
    app: str | None
    app_version: str | None
    country: str | None


@dataclass(frozen=True, slots=True)
class RuleDetails:
    """The form of a rule."""

    reason: str  #: for staff
    message: str | None = None  #: for the visitor
    ticket: str | None = None
    seconds: int | None = None  #: None: until removed
    typed: str | None = None  #: a wide network or country, typed again; None for others


def preview(presence: Presence, match: RuleConditions) -> BlockRulePreview:
    """How many people and sessions match now."""
    access.require("block_rules", action=ADD)
    return presence.preview_block_rule(**match)


def add(presence: Presence, match: RuleConditions, most: int, details: RuleDetails) -> BlockRule:
    """Add a rule, if at most ``most`` sessions match now. Raises as ``Presence.add_block_rule``, and Denied, also for a
    wide rule that needs a second person."""
    actor = access.require_fresh("block_rules", action=ADD)
    if details.typed is not None and actor.four_eyes is not None:
        presence.denied(by=actor.name, what=ADD, reason="needs a second person")
        raise Denied(texts.ASK_WIDE)
    return add_as(presence, actor.name, match, most, details)


def add_as(presence: Presence, by: str, match: RuleConditions, most: int, details: RuleDetails) -> BlockRule:
    """``add`` in this name. The caller has checked the rights."""
    return presence.add_block_rule(
        **match,
        by=by,
        reason=details.reason,
        expected=most,
        message=details.message,
        ticket=details.ticket,
        duration=details.seconds,
        confirm_wide=details.typed,
    )


def remove(presence: Presence, rule_id: str, reason: str) -> bool:
    """Remove a rule. False if it had been removed before."""
    actor = access.require_fresh("block_rules", action=REMOVE)
    return presence.remove_block_rule(rule_id, by=actor.name, reason=reason)
