"""The Blocks page."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import Counted, Sentence
from presence_dashboard.language import gettext as _

RULES_TITLE: Final = "Block rules"
RULES_EXPLAINED: Final = (
    "A rule refuses all new logins from a network or a country, or with a version of an app. People who are signed in "
    "stay signed in."
)
RULES_EMPTY: Final = "There are no block rules. Logins are refused only for blocked people."
RULES_ALT: Final = "Block rules, the latest first"
RULES_SELECT_HINT: Final = "Click a rule to see its message or to remove it."
RULES_SELECT_HINT_READER: Final = "Click a rule to see its message. Only admins add and remove rules."
RULE_UNFINISHED: Final = "This rule does not apply to all users yet. This finishes automatically."

LABEL_BLOCKS: Final = "Blocks logins of"
LABEL_ENDS: Final = "End"
LABEL_WHEN_ADDED: Final = "When added"
RULE_NO_END: Final = "when removed"
BLOCK_NO_END: Final = "when unblocked"
rule_matched: Final = Sentence("{sessions} matched")


def rule_ends(moment: str | None) -> str:
    return _("until {moment}").format(moment=moment) if moment else _("until the rule is removed")


RULE_ADD: Final = "Add a block rule …"
RULE_KIND: Final = "Block logins by"
RULE_NETWORK: Final = "Network"
RULE_COUNTRY: Final = "Country"
RULE_VERSION: Final = "App version"
RULE_NETWORK_FIELD: Final = "IP address or network"
RULE_NETWORK_HINT: Final = "198.51.100.0/24 or 2001:db8:7::/48"
RULE_COUNTRY_FIELD: Final = "Country code"
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
        sentence = _("{match}: no one who matches is signed in now (as of {clock}). New logins will be refused.")
    elif is_exact:
        sentence = _(
            "{match}: **{people}** with **{sessions}** match now (as of {clock}). They stay signed in, and are "
            "refused at their next login."
        )
    else:
        sentence = _(
            "{match}: **at least {people}** with **{sessions}** match now (as of {clock}). They stay signed in, and "
            "are refused at their next login."
        )
    return sentence.format(match=match, people=people, sessions=sessions, clock=clock)


rule_people: Final = Counted("{shown} person", "{shown} people")
RULE_FOR: Final = "Block logins"
RULE_UNTIL_REMOVED: Final = "Until removed"
RULE_MESSAGE_HELP: Final = "Shown at each refused login, up to 500 characters. Without it, a general sentence is shown."
RULE_WIDE: Final = "This network is very large. It belongs to many providers, so the rule blocks many unrelated people."
rule_type_wide: Final = Sentence("To confirm, type {network}")
RULE_WIDE_COUNTRY: Final = "A country has many people. The rule blocks all of them."
RULE_WIDE_MISSING: Final = "Type the large network or the country again to confirm it."
RULE_CONFIRM: Final = "Block these logins"
RULE_KICK: Final = "Kick the live sessions of this country …"
RULE_KICK_HELP: Final = "Lists the sessions that signed in from this country. Nothing ends before you confirm it."
RULE_REMOVE: Final = "Remove this rule …"
RULE_REMOVE_CONFIRM: Final = "Remove this rule"
RULE_REMOVE_EXPLAINED: Final = "People whom only this rule blocks can log in again at once."
rule_is_added: Final = Sentence("Logins of {match} are blocked {until}.")
rule_is_removed: Final = Sentence("Logins of {match} pass again.")
rule_was_removed: Final = Sentence("The rule for {match} had been removed already.")
BLOCKED_PEOPLE_TITLE: Final = "Blocked people"
BLOCKED_PEOPLE_EMPTY: Final = "No one is blocked."
BLOCKED_PEOPLE_ALT: Final = "Blocked people, the latest block first"
BLOCKED_PEOPLE_ALL: Final = "Search all blocked people in History"
BLOCKED_PEOPLE_UNNAMED: Final = (
    "A block keeps only the user ID. The name of a person is stored for a limited time after their last session."
)
BLOCKED_SINCE: Final = "Blocked since"
