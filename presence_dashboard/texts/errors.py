"""Sentences for errors of the library; ``error_sentences`` chooses among them."""

from __future__ import annotations

from typing import Final, Literal

from presence_core import InvalidCode

# -- Errors, in place of what the library says of them: see error_sentences.py -----------------------------------------

ERROR_AWAY: Final = "The session server cannot be reached."
ERROR_NOT_NOW: Final = "The action failed."
ERROR_UNKNOWN: Final = "The server did not reply, so the outcome is unknown. Check the result before you try again."
ERROR_DATA: Final = "Some stored data cannot be read. Tell your administrator: the dashboard's log has the details."
ERROR_VALUE: Final = "A value was not accepted. Tell your administrator: the dashboard's log has the details."
_NO_CHANGES: Final = "The session server does not accept changes at the moment."
ERROR_SERVER: Final = {
    "NOPERM": "The session server denies this to the dashboard. Tell your administrator: the log has the details.",
    "OOM": "The session server is out of memory. Tell your administrator.",
    "LOADING": "The session server is starting.",
    "LAYOUT": "The stored data is being reorganised.",
    "READONLY": _NO_CHANGES,
    "NOREPLICAS": _NO_CHANGES,
    "MISCONF": _NO_CHANGES,
}
"""Error code of the server → sentence."""
TRY_LATER: Final = "Try again in a minute."
ERROR_LASTING: Final = frozenset({"NOPERM", "OOM"})
"""Error codes that do not pass by waiting."""

_FILTER: Final = "A filter has a value that no session can have. Remove the filter."
_SEARCH: Final = (
    "This text cannot be searched. Type up to 256 characters (é counts as 2, 名 as 3), with at least one letter or "
    "digit."
)
_LONG_SEARCH: Final = (
    "This text is too long. Type up to 256 characters (é counts as 2, 名 as 3), or paste up to 20,000 with an email "
    "address, “uid=” and a user ID, an IP address, a phone number with its country code or a session ID."
)
_RULES_FULL: Final = "There are already 100 block rules. Remove a rule first."
_RULE_VERSION: Final = "Give both the app and its version."

_NAME: Final = "A name has 1 to 256 characters on one line; é counts as 2, 名 as 3."
_FULL: Final = "There is no room for more. Delete something that is saved first."
ERROR_FIELD: Final[dict[str, dict[InvalidCode | Literal[""], str]]] = {
    "reason": {"": "The reason must be 1 to 500 characters of plain text."},
    "message": {"": "The message must be 1 to 500 characters of plain text."},
    "ticket": {"": "The ticket must be at most 64 plain characters, on one line."},
    "duration": {"": "A block lasts from 1 second to 10 years, or until the person is unblocked."},
    "idle_timeout": {"": "The time without use must not be longer than the time since the login."},
    "block_for": {"": "A block lasts from 1 second to 10 years, or until the person is unblocked."},
    "by": {
        "items_full": _FULL,
        "requests_full": "There are already many open requests. Withdraw one of yours, or ask an admin to answer some.",
        "own_request": "This request is for another person to answer.",
        "not_an_actor": "Your sign-in name cannot be used in the audit log. Ask an admin of this dashboard.",
        "": _NAME,
    },
    "request_id": {"": "This request was answered meanwhile, was withdrawn or has lapsed."},
    "word": {"": "Write why you refuse, in 1 to 500 characters of plain text."},
    "job_id": {"": "This bulk kick has already ended. It cannot be paused, resumed or cancelled."},
    "expected": {"": "More sessions match now than before. Count them again."},
    "exclude": {"too_many": "Too many ticked rows to leave out. Untick some."},
    "logged_in_after": {
        "in_the_future": "The login time must start in the past. A bulk kick ends existing sessions only.",
        "wrong_order": "The first time must be earlier than the second.",
    },
    "text": {
        "items_full": _FULL,
        "not_storable": "This text is too long to be saved.",
        "too_long": _LONG_SEARCH,
        "": _SEARCH,
    },
    "name_prefix": {"": _SEARCH},
    "name_contains": {"": _SEARCH},
    "ip": {"": "This is not an IP address or an address range. Examples: `192.0.2.7`, `192.0.2.0/24`."},
    "uid": {"": "This is not a user ID. A user ID has 1 to 256 characters on one line; é counts as 2, 名 as 3."},
    "idle": {"": _FILTER},
    "time": {"": _FILTER},
    **{field: {"": _FILTER} for field in ("device", "os", "browser", "attributes", "app_version_below")},
    **{field: {"": _FILTER} for field in ("seen", "seen_within", "methods", "mfa")},
    "country": {"list_full": _RULES_FULL, "": "Use the two letters of a country, such as FR."},
    "app": {"list_full": _RULES_FULL, "required": _RULE_VERSION, "": _FILTER},
    "app_version": {"required": _RULE_VERSION, "": _FILTER},
    "since": {"": "The first time must be earlier than the second."},
    "network": {
        "list_full": _RULES_FULL,
        "not_an_as_number": _FILTER,
        "": "This is not an IP address or a network. Examples: `192.0.2.7`, `192.0.2.0/24`, `2001:db8:7::/48`.",
    },
    "confirm_wide": {"": "Type the large network or the country again, exactly as shown, to confirm it."},
    "until": {
        "shortens_rule": "A rule for the same logins exists and ends later. Remove that rule first.",
        "": "The end must lie in the future.",
    },
    "role": {"": "Choose a role."},
    "password": {"": "Staff do not sign in with a password here."},
    "PRESENCE_STAFF_FILE": {
        "read_only": "Passwords cannot be changed here: the password file is read-only. Nothing was changed.",
        "changed_meanwhile": (
            "The password file was changed by another program just now. Nothing was changed. Try again."
        ),
        "disk_full": "The disk with the password file is full. Nothing was changed.",
        "": "The password file cannot be read or written. Nothing was changed. Tell your administrator.",
    },
    "cursor": {"": "The next page cannot be read. Go back to the first page."},
    "name": {
        "items_full": _FULL,
        "empty": _NAME,
        "too_long": _NAME,
        "unprintable": _NAME,
        "last_admin": "This is the last admin. Give another person the role admin first.",
        "list_full": "The list of staff is full. Remove a record first.",
        "damaged": "This record cannot be read. Give this person their role again.",
        "exists": "This person is on the staff already. Change their role in the list.",
        "own_password": "You cannot reset your own password here. Ask another admin of this dashboard.",
        "no_role": "This person is no longer on the staff.",
        "not_a_staff_name": (
            "A name has 1 to 128 characters on one line, with no space at either end; é counts as 2, 名 as 3."
        ),
    },
}
"""Field → code of the refusal → sentence; "" is for all its other codes."""
