"""Why an argument was refused: the codes of ``InvalidArgument``, each with its rule in English.

A raise gives the code next to its own sentence, which names the field and the limit. Programs, such as the dashboard,
choose by field and code. So a sentence may be reworded, and a code that the type checker does not know is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from presence_core.errors import InvalidCode

RULES: Final[Mapping[InvalidCode, str]] = {
    # the form of a value
    "invalid": "must be a value that it takes; the sentence says which",
    "wrong_type": "must be of another type",
    "malformed": "must have the form that the sentence says",
    "empty": "must have text, not only white space",
    "too_short": "must not be shorter than its limit",
    "too_long": "must not be longer than its limit",
    "too_deep": "must not be nested deeper than its limit",
    "too_many": "must not have more items than its limit",
    "unprintable": "must be valid Unicode without control characters",
    "not_searchable": "must have a letter or digit",
    "out_of_range": "must be a number within its limits",
    "not_a_choice": "must be one of a list of words",
    "not_an_as_number": "must be the number of a network, such as AS64500",
    # with the other arguments, and with the time now
    "required": "must be given",
    "conflicts": "must not be given, or not so, together with another argument",
    "wrong_order": "must be earlier than the end",
    "in_the_past": "must lie in the future",
    "in_the_future": "must not lie in the future",
    # with what is stored
    "unknown": "must name something that exists",
    "exists": "must be new",
    "damaged": "must have a record that can be read",
    "on_behalf": "must be of a session of the user, or of one on behalf of the user, as the sentence says",
    "mirrored": "must not be an id that presence mirror makes",
    "newer_version": "must not be from a newer version",
    "job_ended": "must be of a job that has not ended",
    "more_match": "must not be lower than the number of sessions that match now",
    "unconfirmed": "must repeat the large network or the country",
    "shortens_rule": "must not be before the end of the block rule that exists",
    "lengthens": "must not be longer than the timeout that the session has",
    "list_full": "cannot be added: the list has as many entries as it may have",
    # of staff
    "not_an_actor": "must be a name that the audit log can hold",
    "not_a_staff_name": "must be a name that a staff member can have",
    "last_admin": "must not be the last admin",
    "no_role": "must be a staff member with a role",
    "own_password": "must not be the name of the actor",
    "no_passwords": "cannot be set: staff do not sign in with a password",
    "not_storable": "must be text that a saved item can hold",
    "items_full": "cannot be saved: there are as many saved items as there may be",
    "requests_full": "cannot ask: there are as many open requests as there may be",
    "own_request": "must be another person than the one who asks, or the same, as the sentence says",
    "answered": "must be of a request that is still open",
    # of files and packages
    "unusable_file": "must name a file that can be used",
    "read_only": "must name a file that can be written",
    "disk_full": "must name a file on a disk with space",
    "changed_meanwhile": "must not be changed by another program at the same time",
    "not_installed": "needs a package that is not installed",
}
"""Code → what the argument must be. ``make docs`` prints this table on the page of errors."""
