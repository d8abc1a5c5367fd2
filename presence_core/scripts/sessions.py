"""Scripts on one user's sessions, and on when sessions may begin; each with the decoder of its reply."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from presence_core.models.sessions import END_FIELDS, ODD_FIELDS, SESSION_FIELDS
from presence_core.scripts.calls import by_two
from presence_core.scripts.maintenance import SETTLE_SESSIONS
from presence_core.scripts.script import Script

BEGIN_SESSIONS: Final = Script("sessions/begin_sessions", repeatable=False, shares=True)
LOGIN: Final = Script("sessions/login", repeatable=False, begins=[SETTLE_SESSIONS], shares=True)
VALIDATE: Final = Script("sessions/validate", repeatable=True, reads_when_frozen=True, shares=True)
ROTATE_SECRET: Final = Script("sessions/rotate_secret", repeatable=False, shares=True)
REQUIRE_SIGN_IN: Final = Script("sessions/require_sign_in", repeatable=False, shares=True)
HEARTBEAT: Final = Script("sessions/heartbeat", repeatable=True, shares=True)
UPDATE_ATTRIBUTES: Final = Script("sessions/update_attributes", repeatable=False, shares=True)
END_SESSIONS: Final = Script("sessions/end_sessions", repeatable=False, begins=[SETTLE_SESSIONS], shares=True)
READ_SESSIONS: Final = Script("sessions/read_sessions", repeatable=True, derives=True)
REVOKE_BEFORE: Final = Script("sessions/revoke_before", repeatable=True, shares=True)
READ_LATEST_LOGIN: Final = Script("sessions/read_latest_login", repeatable=True, shares=True)
RAISE_LOGIN_FLOOR: Final = Script("sessions/raise_login_floor", repeatable=True, shares=True)
READ_EVENTS: Final = Script("sessions/read_events", repeatable=True)

UNKNOWN, LIVE, ENDED, NO_RECORD, SIGN_IN_REQUIRED, AUTHENTICATION_TOO_OLD = range(6)
"""What a session is now, as ``include/sessions/session_state.lua`` returns it."""


class SessionRow(NamedTuple):
    """The values of SESSION_FIELDS, END_FIELDS and ODD_FIELDS (models/sessions.py). The ends are None where it has not
    ended."""

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
    end_reason: bytes | None = None
    at: bytes | None = None
    cause: bytes | None = None
    by: bytes | None = None
    note: bytes | None = None
    ticket: bytes | None = None
    message: bytes | None = None
    replaced_by: bytes | None = None
    odd: bytes | None = None  #: of ODD_FIELDS
    place: bytes | None = None

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
        """The row with the end that `closing` holds for it: END_FIELDS and values."""
        ends = {
            _END_NAMES[name]: value if isinstance(value, bytes) else str(value).encode() for name, value in by_two(how)
        }
        return self._replace(**ends)


_END_NAMES: Final[dict[Any, str]] = {
    b"e": "end_reason", b"ea": "at", b"ec": "cause", b"eb": "by", b"en": "note", b"et": "ticket", b"em": "message",
    b"er": "replaced_by",
}  # fmt: skip
NO_ROW: Final = SessionRow()
_STORED: Final = tuple(name.encode() for name in (*SESSION_FIELDS, *END_FIELDS, *ODD_FIELDS))
_PLACES: Final = {name: place for place, name in enumerate(_STORED)}


_LIVE_FIELDS: Final = len(SESSION_FIELDS) + 1
_NO_END: Final = (None,) * (len(END_FIELDS) - 1)


def _row(values: Sequence[bytes | None]) -> SessionRow:
    """A row of include/sessions/session_state.lua: one that has not ended has ODD_FIELDS behind its field ``e``."""
    if len(values) == _LIVE_FIELDS + len(ODD_FIELDS):
        return SessionRow(*values[:_LIVE_FIELDS], *_NO_END, *values[_LIVE_FIELDS:])
    return SessionRow(*values)


def decode_record(reply: Any) -> SessionRow:
    """Decode the reply to HGETALL of a record."""
    flat = iter(reply)
    values: list[bytes | None] = [None] * len(_STORED)
    for name, value in reply.items() if isinstance(reply, dict) else zip(flat, flat, strict=True):
        if name in _PLACES:
            values[_PLACES[name]] = value
    return SessionRow._make(values)


class LoginReply(NamedTuple):
    """A session that has begun."""

    row: SessionRow  #: last seen, core, authentication, demand and what is odd
    replaced: list[str]  #: ids of sessions that a limit ended
    overdue: list[str]  #: ids of sessions that were found past their deadline and ended


class RefusedReply(NamedTuple):
    """A login that was refused."""

    code: str
    is_overdue: bool = False  #: the end of the session that had this id is to be written
    message: bytes = b""  #: of a block or a block rule
    until: bytes = b""  #: of a block or a block rule: ms, or b"" for no end
    kind: str = ""  #: of a block rule


def decode_login(reply: Sequence[Any]) -> LoginReply | RefusedReply:
    """Decode a reply of sessions/login.lua."""
    code, *rest = reply
    if code == b"ok":
        seen, core, replaced, overdue, (authentication, demand), odd = rest
        row = SessionRow(seen, core, authentication=authentication, demand=demand, odd=odd)
        return LoginReply(row, _texts(replaced), _texts(overdue))
    if code == b"blocked":
        return RefusedReply("blocked", False, *rest)
    if code == b"block_rule":
        kind, message, until = rest
        return RefusedReply("block_rule", False, message, until, kind.decode())
    return RefusedReply(code.decode(), bool(rest))


class BegunSession(NamedTuple):
    """A session that has begun without a decision."""

    login: int  #: ms
    seen: int  #: ms


_BEGUN: Final = struct.Struct(">QQ")


def decode_begun(reply: bytes) -> list[BegunSession | None]:
    """Decode a reply of sessions/begin_sessions.lua: None where a session needs a decision; empty where all do."""
    return [BegunSession(login, seen) if login else None for login, seen in _BEGUN.iter_unpack(reply)]


class ValidateReply(NamedTuple):
    """What a session is, for its holder."""

    state: int
    row: SessionRow
    is_overdue: bool  #: past its deadline, and its end is to be written
    now: int = 0  #: of a live session: the clock of Redis, ms


_UNKNOWN_REPLY: Final = ValidateReply(UNKNOWN, NO_ROW, False)


def decode_validate(reply: Sequence[Any]) -> ValidateReply:
    """Decode a reply of sessions/validate.lua."""
    if len(reply) == 1:
        [state] = reply
        return _UNKNOWN_REPLY if state == UNKNOWN else ValidateReply(state, NO_ROW, False)
    state, values, how = reply[:3]
    row = _row(values)
    if state == LIVE:
        return ValidateReply(state, row, False, how)
    return ValidateReply(state, row.with_end(how) if how else row, len(reply) > 3)


def decode_update(reply: Sequence[Any]) -> ValidateReply | None:
    """Decode a reply of sessions/update_attributes.lua; None: all attributes together would be too long."""
    return None if reply[0] == b"too long" else decode_validate(reply)


def decode_rotation(reply: Sequence[Any]) -> ValidateReply:
    """Decode a reply of sessions/rotate_secret.lua."""
    state, *rest = reply
    return ValidateReply(state, _row(rest[0]) if rest else NO_ROW, len(rest) > 1)


class DemandReply(NamedTuple):
    """A sign-in that staff require."""

    at: int  #: ms
    session_ids: list[str]  #: of live sessions


def decode_demand(reply: Sequence[Any]) -> DemandReply:
    """Decode a reply of sessions/require_sign_in.lua."""
    at, session_ids = reply
    return DemandReply(at, _texts(session_ids))


class HeartbeatReply(NamedTuple):
    """A session of a heartbeat that is not live."""

    place: int  #: among the sessions that were sent
    is_overdue: bool


def decode_heartbeat(reply: Sequence[int]) -> list[HeartbeatReply]:
    """Decode a reply of sessions/heartbeat.lua."""
    return [HeartbeatReply(abs(place) - 1, place < 0) for place in reply]


class EndReply(NamedTuple):
    """What a call of sessions/end_sessions.lua has ended."""

    ended: list[str]  #: session ids that this call ended
    overdue: list[str]  #: session ids that were past their deadline and ended as expired
    rows: list[SessionRow]  #: of the sessions whose records were declared; NO_ROW of one that had ended before
    block: list[bytes]  #: the user's block as it is now; empty where none was asked for
    now: int
    newest: int  #: latest login time of a session that this call ended, ms; 0 without

    @property
    def row(self) -> SessionRow:
        """The row of the one session that was to be ended."""
        return self.rows[0]


def decode_end(reply: Sequence[Any]) -> EndReply:
    """Decode a reply of sessions/end_sessions.lua."""
    ended, overdue, rows, block, now, newest = reply
    found = [SessionRow(*row[:10])._replace(**dict(zip(("odd", "place"), row[10:], strict=False))) for row in rows]
    return EndReply(_texts(ended), _texts(overdue), found, block, now, newest)


class ReadSession(NamedTuple):
    """A session as sessions/read_sessions.lua found it."""

    session_id: str
    state: int
    row: SessionRow


def decode_sessions(reply: Sequence[Any]) -> tuple[list[ReadSession], Mapping[bytes, bytes]]:
    """Decode a reply of sessions/read_sessions.lua: the sessions, and the texts of their label ids."""
    flat, labels = reply
    found = []
    for session_id, state, values, how in zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True):
        row = _row(values)
        found.append(ReadSession(session_id.decode("utf-8", "replace"), state, row.with_end(how) if how else row))
    return found, {label: text for label, text in by_two(labels) if label and text}


class RevokeReply(NamedTuple):
    """A shard's watermark."""

    now: int
    upto: int
    ended: int  #: sessions of the list that it ends


decode_revoke: Final = RevokeReply._make
"""Decode a reply of sessions/revoke_before.lua."""


class LatestLogin(NamedTuple):
    """How far the sessions of a shard reach, ms."""

    now: int
    newest: int  #: latest login time, -1 without sessions
    revoked: int  #: watermark, -1 without
    demanded: int  #: when staff last required a sign-in; 0: never


decode_latest_login: Final = LatestLogin._make
"""Decode a reply of sessions/read_latest_login.lua."""


class StreamEvent(NamedTuple):
    """An entry of a shard's stream of events."""

    entry_id: str
    kind: bytes
    ref: bytes
    at: bytes


class EventsReply(NamedTuple):
    """A part of a shard's stream."""

    has_gap: bool  #: entries behind the position are gone
    last_id: str  #: of the stream
    events: list[StreamEvent]


def decode_events(reply: Sequence[Any]) -> EventsReply:
    """Decode a reply of sessions/read_events.lua."""
    gap, last, flat = reply
    events = []
    for entry_id, pairs in by_two(flat):
        fields = dict(by_two(pairs))
        events.append(
            StreamEvent(entry_id.decode(), fields.get(b"k", b"unknown"), fields.get(b"r", b""), fields.get(b"a", b""))
        )
    return EventsReply(bool(gap), last.decode(), events)


def _texts(raw: Sequence[bytes]) -> list[str]:
    return [item.decode() for item in raw]
