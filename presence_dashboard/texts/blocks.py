"""The Blocks page."""

from __future__ import annotations

from typing import Final

RULES_TITLE: Final = "Block rules"
RULES_EXPLAINED: Final = (
    "A rule refuses all new logins from a network, or with a version of an app. People who are signed in "
    "stay signed in."
)
RULES_EMPTY: Final = "There are no block rules. Logins are refused only for blocked people."
RULES_ALT: Final = "Block rules, the latest first"
RULES_SELECT_HINT: Final = "Tick a rule to see its message or to remove it."
RULES_SELECT_HINT_READER: Final = "Tick a rule to see its message. Only admins add and remove rules."
RULE_UNFINISHED: Final = "This rule does not apply to all users yet. This finishes automatically."

LABEL_BLOCKS: Final = "Blocks logins of"
LABEL_ENDS: Final = "Ends"
LABEL_WHEN_ADDED: Final = "When added"
LABEL_MESSAGE: Final = "Message"
RULE_NO_END: Final = "when removed"
BLOCK_NO_END: Final = "when unblocked"


def rule_matched(sessions: str) -> str:
    return f"{sessions} matched"


def rule_ends(moment: str | None) -> str:
    return f"until {moment}" if moment else "until the rule is removed"


def rule_added(zone: str) -> str:
    return f"Added ({zone})"


RULE_ADD: Final = "Add a block rule …"
RULE_KIND: Final = "Block logins by"
RULE_NETWORK: Final = "Network"
RULE_COUNTRY: Final = "Country"
RULE_VERSION: Final = "App version"
RULE_NETWORK_FIELD: Final = "IP address or network"
RULE_NETWORK_HINT: Final = "198.51.100.0/24 or 2001:db8:7::/48"
RULE_COUNTRY_FIELD: Final = "Country code"
RULE_APP_FIELD: Final = "App"
RULE_VERSION_FIELD: Final = "Version"
RULE_NAT: Final = (
    "Mobile carriers and offices share one address among many people: all of them are refused. A login without a known "
    "address passes."
)
RULE_PLACES: Final = "Only logins with a known place are refused. The place of an address is an estimate."
RULE_LIES: Final = "An app can lie about its version. This stops a broken release, not an attacker."
RULE_PREVIEW: Final = "Show who matches"
RULE_PREVIEW_FIRST: Final = "Show who matches before you add the rule."


def rule_preview(match: str, people: str, sessions: str, clock: str, *, is_exact: bool, is_none: bool) -> str:
    if is_none:
        return f"{match}: no one who matches is signed in now (as of {clock}). New logins will be refused."
    at_least = "" if is_exact else "at least "
    return (
        f"{match}: **{at_least}{people}** with **{sessions}** match now (as of {clock}). They stay signed in, and are "
        "refused at their next login."
    )


def rule_people(count: int, shown: str) -> str:
    return f"{shown} {'person' if count == 1 else 'people'}"


def rule_sessions(count: int, shown: str) -> str:
    return f"{shown} {'session' if count == 1 else 'sessions'}"


RULE_FOR: Final = "Block logins"
RULE_UNTIL_REMOVED: Final = "Until removed"
RULE_MESSAGE_HELP: Final = "Shown at each refused login, up to 500 characters. Without it, a general sentence is shown."


RULE_WIDE: Final = "This network is very large. It belongs to many providers, so the rule blocks many unrelated people."


def rule_type_wide(network: str) -> str:
    return f"To confirm, type {network}"


RULE_WIDE_COUNTRY: Final = "A country has many people. The rule blocks all of them."
RULE_WIDE_MISSING: Final = "Type the large network or the country again to confirm it."
RULE_CONFIRM: Final = "Block these logins"
RULE_REMOVE: Final = "Remove this rule …"
RULE_REMOVE_CONFIRM: Final = "Remove this rule"
RULE_REMOVE_EXPLAINED: Final = "People whom only this rule blocks can log in again at once."


def rule_is_added(match: str, until: str) -> str:
    return f"Logins of {match} are blocked {until}."


def rule_is_removed(match: str) -> str:
    return f"Logins of {match} pass again."


def rule_was_removed(match: str) -> str:
    return f"The rule for {match} had been removed already."


BLOCKED_PEOPLE_TITLE: Final = "Blocked people"
BLOCKED_PEOPLE_EMPTY: Final = "No one is blocked."
BLOCKED_PEOPLE_ALT: Final = "Blocked people, the latest block first"
BLOCKED_PEOPLE_ALL: Final = "Search all blocked people in History"
BLOCKED_PEOPLE_UNNAMED: Final = (
    "A block keeps only the user ID. The name of a person is stored for a limited time after their last session."
)


BLOCKED_SINCE: Final = "Blocked since"
