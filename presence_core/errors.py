"""Everything that presence_core raises.

::

    PresenceError
    ├── InvalidArgument (also ValueError)   an argument breaks a limit; the change was not made
    ├── LoginRefused                        this login is not permitted: .code says why
    ├── Unavailable                         Redis did not answer, or refused; .server names it
    │   └── OutcomeUnknown                  a write was sent and no reply came: it may have happened
    └── CorruptData                         one of our keys holds data that we never wrote

Absence is a value, not an error: a session that does not exist is ``None``, ``False`` or an ``Ended`` record.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

RefusalCode = Literal[
    "limit", "device_limit", "ended", "expired", "blocked", "block_rule", "no_address", "sign_in_required"
]

InvalidCode = Literal[
    "invalid", "wrong_type", "malformed", "empty", "too_short", "too_long", "too_deep", "too_many", "unprintable",
    "not_searchable", "out_of_range", "not_a_choice", "required", "conflicts", "unknown", "exists", "wrong_order",
    "in_the_past", "in_the_future", "more_match", "unconfirmed", "shortens_rule", "lengthens", "list_full",
    "items_full", "not_storable", "not_an_actor", "not_an_as_number", "not_a_staff_name", "last_admin", "no_role",
    "own_password", "no_passwords", "damaged", "on_behalf", "mirrored", "job_ended", "newer_version", "unusable_file",
    "read_only", "disk_full", "changed_meanwhile", "not_installed", "requests_full", "own_request", "answered",
]  # fmt: skip
"""What an argument breaks, as programs read it: ``schema.refusals`` says each in English."""


class PresenceError(Exception):
    """The root of the tree: catch this to catch everything that the library raises."""


class InvalidArgument(PresenceError, ValueError):
    """An argument breaks a limit. The one sentence names the field and the limit; the change was not made.

    ``field`` is the argument's name, ``rule`` the rest of the sentence, for people. ``code`` says the same to
    programs: the code of an error stays, its sentence may be reworded.
    """

    def __init__(self, field: str, rule: str, code: InvalidCode = "invalid") -> None:
        super().__init__(f"{field} {rule}.")
        self.field = field
        self.rule = rule
        self.code = code

    def __reduce__(self) -> tuple[type[InvalidArgument], tuple[str, str, InvalidCode]]:
        return type(self), (self.field, self.rule, self.code)


class LoginRefused(PresenceError):
    """This login is not permitted. Nothing was written.

    ``code`` is ``"limit"`` (the user has as many live sessions as allowed, and ``on_limit`` is ``"reject"``; or staff
    have as many on behalf of the user), ``"device_limit"`` (the same, on this device), ``"ended"`` (the given session
    id has ended and its tombstone is still stored), ``"expired"`` (an imported session past its deadline),
    ``"blocked"`` (staff have blocked this user), ``"block_rule"`` (a rule blocks the network, country or app version of
    this login), ``"no_address"`` (its address cannot be read, while a rule blocks a network and ``Settings.no_address``
    is "refuse") or ``"sign_in_required"`` (of ``rotate``: staff require a new sign-in).
    ``sentence`` says why. For a block or a rule it is staff's public message, if there is one, and the end.
    ``message`` is that message alone; ``until`` is an aware UTC time, or None: until staff remove the block or rule.
    """

    def __init__(
        self, code: RefusalCode, sentence: str, message: str | None = None, until: datetime | None = None
    ) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.message = message
        self.until = until

    def __reduce__(self) -> tuple[type[LoginRefused], tuple[RefusalCode, str, str | None, datetime | None]]:
        return type(self), (self.code, self.sentence, self.message, self.until)


RENAMED: Final = "(rename-command)"
"""In the sentence of an Unavailable: the server's configuration has taken a command away."""


class Unavailable(PresenceError):
    """Redis did not answer in time, cannot be reached, or refuses. As far as is known, nothing has changed.

    ``server`` is host and port (or the socket path), never with a password; empty where no server was named. ``code``
    is Redis's own word where it answered with a refusal (NOPERM, READONLY, OOM, LOADING, …), else empty.
    """

    def __init__(self, sentence: str, server: str = "", code: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.server = server
        self.code = code

    def __reduce__(self) -> tuple[type[Unavailable], tuple[str, str, str]]:
        return type(self), (self.sentence, self.server, self.code)


class OutcomeUnknown(Unavailable):
    """A write was sent and no reply came: it may have happened. Or a part of a larger change was made, and Redis
    refused the rest. Read the data, or call again. A second call changes nothing more; not so ``rotate``,
    ``reauthenticated``, ``require_sign_in``, ``login`` without a session id, ``start_kick``, ``kick_where``,
    ``audit_note``."""


class CorruptData(PresenceError):
    """One of our keys holds data that the library never wrote: another program shares the namespace. Nothing was
    written."""


def foreign_data(key: str) -> CorruptData:
    """The error for a key that holds something else."""
    return CorruptData(
        f"{key} holds data that presence_core did not write. Another program uses this namespace: give each program "
        "its own."
    )
