"""Failed sign-ins: why, on every page. ``presence_core/schema/failures.py`` lists the reasons; a unit test compares."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import Sentence
from presence_dashboard.language import gettext as _

FAILURE_WHYS: Final = {
    "": "Any reason",
    "wrong_password": "Wrong password",
    "second_factor": "Second factor failed",
    "unknown_name": "Unknown name",
    "locked": "Account locked",
    "other": "Refused by the site",
    "blocked": "Blocked",
    "block_rule": "Refused by a block rule",
    "limit": "Too many sessions",
    "device_limit": "Too many sessions on one device",
    "no_address": "Address not readable",
    "ended": "Session had ended",
    "expired": "Session too old",
}
FAILED_TYPED: Final = {
    "email": "an email address",
    "phone": "a phone number",
    "name": "a name",
}
"""What was typed, where it is the ID of no known person."""
LABEL_FAILURE_COUNT: Final = "Times"
LABEL_FAILURE_FIRST: Final = "First"
LABEL_FAILURE_LAST: Final = "Last"
LABEL_FAILURE_TYPED: Final = "Typed"
LABEL_FAILURE_RULE: Final = "Block rule"
FAILED_IP: Final = "Address"
FAILED_IP_HINT: Final = "IP or network"
FAILED_IP_MALFORMED: Final = "Use an IP address, or a network such as 192.0.2.0/24."
failed_times: Final = Sentence(":red[:material/key_off:] {why}, {count} times")
failed_once: Final = Sentence(":red[:material/key_off:] {why}")
failed_last_from: Final = Sentence("latest from {where}")
failed_since: Final = Sentence("first at {at}")
failed_under: Final = Sentence("typed {typed}")
failed_sign_ins_under: Final = Sentence("Failed sign-ins of {text}: {count}")
FAILED_NO_ONE: Final = "No one with this name is known here, but someone tried to sign in with it:"
LIVE_FAILED_BY: Final = "**By reason and place, in this range**"
LIVE_FAILED_IN_HISTORY: Final = "Open in History"
LIVE_FAILED_MOST: Final = Sentence("Only the latest {count} rows are split.")
LIVE_FAILED_NONE: Final = "No sign-in failed in this range."


def failed(why: str, count: int, shown: str) -> str:
    """A line of the timeline, as Markdown. shown: the count as text."""
    words = _(FAILURE_WHYS.get(why, why))
    return failed_once(words) if count == 1 else failed_times(words, shown)
