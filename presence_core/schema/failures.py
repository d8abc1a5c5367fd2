"""Why a sign-in fails: one row for each reason. Scripts, HTTP, commands and pages follow this table.

A new reason is a member of one of the two Literals and a row here, and its words in
``presence_dashboard/texts/failures.py``. A unit test finds what is missing.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

SiteFailure = Literal["wrong_password", "second_factor", "unknown_name", "locked", "other"]
"""What the site refuses, and reports by ``login_failed``."""

LoginFailure = Literal["blocked", "block_rule", "limit", "device_limit", "no_address", "ended", "expired"]
"""What ``login`` refuses, and its script records: the codes of ``LoginRefused``."""

FailureWhy = Literal[SiteFailure, LoginFailure]

FailedName = Literal["email", "phone", "name"]
"""What a typed text looks like that is the uid of no known person."""


class Failure(NamedTuple):
    """A reason."""

    why: FailureWhy
    is_guess: bool = False  #: someone may be trying out passwords: many of them before a login are worth a flag


FAILURES: Final = (
    Failure("wrong_password", is_guess=True),
    Failure("second_factor", is_guess=True),
    Failure("unknown_name", is_guess=True),
    Failure("locked", is_guess=True),
    Failure("other", is_guess=True),
    Failure("blocked"),
    Failure("block_rule"),
    Failure("limit"),
    Failure("device_limit"),
    Failure("no_address"),
    Failure("ended"),
    Failure("expired"),
)

MANY: Final = 5
"""So many guesses since the person's last login make the next one a login after failures."""

LUA: Final = {
    "GUESS_REASONS": ", ".join(f"{failure.why} = true" for failure in FAILURES if failure.is_guess),
    "MANY_GUESSES": str(MANY),
}
"""What scripts name in capitals, and the text that takes its place."""
