"""Everything that presence_core raises.

::

    PresenceError
    ├── InvalidArgument (also ValueError)   an argument breaks a limit; nothing was sent
    ├── LoginRefused                        this login may not begin: .code says why
    ├── Unavailable                         Redis did not answer, or refused; .server names it
    │   └── OutcomeUnknown                  a write was sent and its reply lost: it may have happened
    └── CorruptData                         a key of ours holds what we never wrote

Absence is a value, not an error: a session that is not there is ``None``, ``False`` or an ``Ended`` record.
"""

from __future__ import annotations

from datetime import datetime


class PresenceError(Exception):
    """The root of the tree: catch this to catch everything that the library raises."""


class InvalidArgument(PresenceError, ValueError):
    """An argument breaks a limit. The one sentence names the field and the limit; nothing was sent.

    ``field`` is the argument's name.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}.")
        self.field = field
        self.rule = rule

    def __reduce__(self) -> tuple[type[InvalidArgument], tuple[str, str]]:
        return type(self), (self.field, self.rule)


class LoginRefused(PresenceError):
    """This login may not begin. Nothing was written.

    ``code`` is ``"limit"`` (the user has as many live sessions as allowed, and ``on_limit`` is ``"reject"``),
    ``"device_limit"`` (the same, on this device), ``"ended"`` (the given session id has ended and its tombstone still
    lives), ``"expired"`` (an imported session that would already be over) or ``"blocked"`` (staff hold this user's
    logins). ``sentence`` is for the user. Of a block it is staff's public message, if there is one, and until when the
    block lasts; ``message`` is that message alone, ``until`` an aware UTC time, or None: until staff lift it.
    """

    def __init__(self, code: str, sentence: str, message: str | None = None, until: datetime | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.message = message
        self.until = until

    def __reduce__(self) -> tuple[type[LoginRefused], tuple[str, str, str | None, datetime | None]]:
        return type(self), (self.code, self.sentence, self.message, self.until)


class Unavailable(PresenceError):
    """Redis did not answer in time, cannot be reached, or refuses. Nothing is known to have changed.

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
    """A write was sent and no reply came: it may have happened. Look, or call again: every transition but rotate is
    idempotent."""


class CorruptData(PresenceError):
    """A key of ours holds what the library never wrote: another program shares the namespace. Nothing was written."""
