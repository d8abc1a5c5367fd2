"""The session record: the fields of its hash, in the one order in which scripts and replies have their values.

A live session is a small hash. Its fixed part is one packed field, because a hash keeps its compact encoding only while
each value has at most 64 bytes. Separate fields cost about 30 bytes more a session on Valkey 9, and 70 on Redis 7.0.
After its end the hash is the tombstone: it has a field ``e``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args


class Field(NamedTuple):
    """A field of the record. In Lua, ``R.name`` is its place in a row: see ``scripts/script.py``."""

    name: str
    letter: str  #: in the hash
    person: bool = False  #: it names a person, or says where they are or what they have
    is_cut: bool = False  #: ``truncate_addresses_after`` leaves a part of it; else it stays as long as the record
    is_given: bool = False  #: a login sends it as it is; scripts write the others
    stays: bool = False  #: the same login again leaves it as it is


RECORD: Final = (
    Field("seen", "s", stays=True),  # last seen, ms
    # login ms, idle s, absolute s, secret's digest, client label, agent label, address: models/sessions.py has CORE
    Field("core", "c", person=True, is_cut=True, stays=True),
    Field("name", "n", person=True, is_given=True),
    Field("aliases", "a", person=True, is_given=True),  # one a line
    Field("last_ip", "i", person=True, is_cut=True),  # the latest address, packed, where it is not the one of the login
    Field("attributes", "x", person=True, is_given=True),  # JSON of at most 32 levels; else read as empty
    Field("client", "C", person=True),  # device, app, app version, one a line: only where the label table was full
    Field("agent", "A", person=True),  # os, browser, user agent, one a line: only where the label table was full
    # ms, whether with several factors, methods; missing where the site names none at login
    Field("authentication", "h", stays=True),
    Field("demand", "q", stays=True),  # the sign-in that staff require: ms, id of their message
    # what is odd about the session, a byte of flags: 1 a new device; 2 on behalf of the user, then by whom; 4 far from
    # the last login, then when that was, ms (8 bytes), and its place, or, without these, a move faster than a plane; 8
    # a secret was used after its grace; 16 a login after many failed ones; 32 it has moved
    Field("odd", "o", person=True, is_cut=True),
    Field("place", "g", person=True, is_cut=True, is_given=True),  # of the address at login: models/places.py
    # who signed the user in elsewhere: issuer, subject, session there, one a line. Missing for most sites
    Field("idp", "l", person=True, is_given=True),
    Field("idp_end", "u", stays=True),  # when the identity provider ends it, ms, 8 bytes: ``core`` ends by then
    Field("end_reason", "e", stays=True),
    Field("declared", "f", person=True),  # what of its attributes facets count; scripts alone read it
    # the place of the latest address, where it differs, and the last move (moves/note_move.lua). Few sessions have
    # it, so readers ask for it only where another field says that it may be there
    Field("move", "w", person=True, is_cut=True),
)
"""What a live session has; and the reason of its end, by which every script knows a tombstone."""

ENDS: Final = (
    Field("at", "ea"),  # ms
    Field("cause", "ec"),
    Field("by", "eb", person=True),
    Field("note", "en"),  # id of a text
    Field("ticket", "et"),
    Field("message", "em"),  # id of a text
    Field("replaced_by", "er", person=True),  # session id
)
"""What else a tombstone has."""

FORMER: Final = Field("former", "p")
"""The secrets that ``rotate`` has replaced: the first 8 bytes of the present digest; of each of the last two the digest
(16 bytes) and until when it is valid, ms (8). Only ``include/tokens/former_secrets.lua`` reads it."""

FIELDS: Final = (*RECORD, *ENDS, FORMER)
LETTERS: Final = tuple(field.letter for field in FIELDS)
GIVEN: Final = tuple(field for field in RECORD if field.is_given)

SessionFlag = Literal["new_device", "distant", "after_failures", "moved", "old_token"]
"""What may be odd about a session: a field of ``Record`` and of ``SessionFilter``, and the kind of an event."""

FLAGS: Final[tuple[SessionFlag, ...]] = get_args(SessionFlag)

NEW_DEVICE: Final = 1  # flags of the field ``odd``
ON_BEHALF: Final = 2
DISTANT: Final = 4
OLD_TOKEN: Final = 8
AFTER_FAILURES: Final = 16
MOVED: Final = 32

LUA: Final = {
    f"FLAG_{name}": str(flag)
    for name, flag in {"NEW_DEVICE": NEW_DEVICE, "ON_BEHALF": ON_BEHALF, "DISTANT": DISTANT, "OLD_TOKEN": OLD_TOKEN,
                       "AFTER_FAILURES": AFTER_FAILURES, "MOVED": MOVED}.items()
}  # fmt: skip
"""What scripts name in capitals, and the text that takes its place."""

_PLACES: Final[Mapping[Any, int]] = {field.letter.encode(): place for place, field in enumerate(FIELDS)}
_END_NAMES: Final[Mapping[Any, str]] = {
    field.letter.encode(): field.name for field in FIELDS if field.letter.startswith("e")
}


class SessionRow(NamedTuple):
    """The values of FIELDS, or as many as a script has read: None for a field that is missing, and for the others."""

    seen: bytes | None = None
    core: bytes | None = None
    name: bytes | None = None
    aliases: bytes | None = None
    last_ip: bytes | None = None
    attributes: bytes | None = None
    client: bytes | None = None
    agent: bytes | None = None
    authentication: bytes | None = None
    demand: bytes | None = None
    odd: bytes | None = None
    place: bytes | None = None
    idp: bytes | None = None
    idp_end: bytes | None = None
    end_reason: bytes | None = None
    declared: bytes | None = None
    move: bytes | None = None
    at: bytes | None = None
    cause: bytes | None = None
    by: bytes | None = None
    note: bytes | None = None
    ticket: bytes | None = None
    message: bytes | None = None
    replaced_by: bytes | None = None
    former: bytes | None = None

    @property
    def login(self) -> int:
        """Login time, ms; 0 where there is no record."""
        return int.from_bytes(self.core[:8], "big") if self.core else 0

    @property
    def demand_message(self) -> str:
        """The id of staff's message with a required sign-in; empty if there is none."""
        return (self.demand or b"")[8:].decode("ascii", "replace")

    @property
    def secret(self) -> bytes:
        """The digest of the secret."""
        return (self.core or b"")[16:32]

    def with_end(self, how: Sequence[bytes | int]) -> SessionRow:
        """The row with the end that `closing` holds for it: letters and values."""
        ends = {
            _END_NAMES[letter]: value if isinstance(value, bytes) else str(value).encode()
            for letter, value in zip(how[::2], how[1::2], strict=True)
        }
        return self._replace(**ends)


assert SessionRow._fields == tuple(field.name for field in FIELDS), "SessionRow has the fields of the table"
NO_ROW: Final = SessionRow()


def read_record(reply: Any) -> SessionRow:
    """Read the reply to HGETALL of a record: flat by RESP2, a dict by RESP3."""
    flat = iter(reply)
    values: list[bytes | None] = [None] * len(FIELDS)
    for letter, value in reply.items() if isinstance(reply, dict) else zip(flat, flat, strict=True):
        if letter in _PLACES:
            values[_PLACES[letter]] = value
    return SessionRow._make(values)
