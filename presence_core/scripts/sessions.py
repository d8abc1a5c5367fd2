"""Scripts on one user's sessions, and on when sessions may begin; each with the decoder of its reply."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from presence_core.schema.record import NO_ROW, SessionRow
from presence_core.scripts.calls import by_two
from presence_core.scripts.maintenance import SETTLE_SESSIONS
from presence_core.scripts.script import Script, as_sent

RAISE_LOGIN_FLOOR: Final = Script("sessions/raise_login_floor", repeatable=True, shares=True, reply=as_sent)

UNKNOWN, LIVE, ENDED, NO_RECORD, SIGN_IN_REQUIRED, AUTHENTICATION_TOO_OLD, OLD_SECRET = range(7)
"""What a session is now, as ``include/sessions/session_state.lua`` returns it."""


class LoginReply(NamedTuple):
    """A session that has begun."""

    row: SessionRow  #: last seen, core, authentication, demand, what is odd, and the end that the provider set
    replaced: list[str]  #: ids of sessions that a limit ended
    overdue: list[str]  #: ids of sessions that were found past their deadline and ended
    has_no_address: bool = False  #: while a block rule names a network
    guesses: int = 0  #: failed sign-ins since the login before, as the site reported them


class RefusedReply(NamedTuple):
    """A login that was refused."""

    code: str
    is_overdue: bool = False  #: the end of the session that had this id is to be written
    message: bytes = b""  #: of a block or a block rule
    until: bytes = b""  #: of a block or a block rule: ms, or b"" for no end
    kind: str = ""  #: of a block rule


def _decode_login(reply: Sequence[Any]) -> LoginReply | RefusedReply:
    """Decode a reply of sessions/login.lua."""
    code, *rest = reply
    if code == b"ok":
        seen, core, replaced, overdue, (authentication, demand), odd, idp_end, has_no_address, guesses = rest
        row = SessionRow(seen, core, authentication=authentication, demand=demand, odd=odd, idp_end=idp_end)
        return LoginReply(row, _texts(replaced), _texts(overdue), bool(has_no_address), guesses)
    if code == b"blocked":
        return RefusedReply("blocked", False, *rest)
    if code == b"block_rule":
        kind, message, until = rest
        return RefusedReply("block_rule", False, message, until, kind.decode())
    return RefusedReply(code.decode(), bool(rest))


LOGIN: Final = Script("sessions/login", repeatable=False, begins=[SETTLE_SESSIONS], shares=True, reply=_decode_login)


class BegunSession(NamedTuple):
    """A session that has begun without a decision."""

    login: int  #: ms
    seen: int  #: ms


_BEGUN: Final = struct.Struct(">QQ")


def _decode_begun(reply: bytes) -> list[BegunSession | None]:
    """Decode a reply of sessions/begin_sessions.lua: None where a session needs a decision; empty where all do."""
    return [BegunSession(login, seen) if login else None for login, seen in _BEGUN.iter_unpack(reply)]


BEGIN_SESSIONS: Final = Script(
    "sessions/begin_sessions", repeatable=False, seldom=["set"], shares=True, reply=_decode_begun
)


class ValidateReply(NamedTuple):
    """What a session is, for its holder."""

    state: int
    row: SessionRow
    is_overdue: bool  #: past its deadline, and its end is to be written
    now: int = 0  #: of a live session: the clock of Redis, ms
    has_moved: bool = False  #: with this request


_UNKNOWN_REPLY: Final = ValidateReply(UNKNOWN, NO_ROW, False)


def _decode_validate(reply: Sequence[Any]) -> ValidateReply:
    """Decode a reply of sessions/validate.lua."""
    if len(reply) == 1:
        [state] = reply
        return _UNKNOWN_REPLY if state == UNKNOWN else ValidateReply(state, NO_ROW, False)
    state, values, how = reply[:3]
    row = SessionRow(*values)
    if state == LIVE:
        return ValidateReply(state, row, False, how, len(reply) > 3)
    return ValidateReply(state, row.with_end(how) if how else row, len(reply) > 3)


VALIDATE: Final = Script(
    "sessions/validate",
    repeatable=True,
    reads_when_frozen=True,
    shares=True,
    seldom=["hincrby", "xadd"],
    reply=_decode_validate,
)


class UpdateReply(NamedTuple):
    """A session that was to be changed. Where ``refused`` is not empty, nothing was."""

    session: ValidateReply = _UNKNOWN_REPLY
    name: bytes = b""  #: before
    aliases: bytes = b""  #: before, one a line
    refused: str = ""  #: "too long": all attributes together. "other client": it has another label by now


def _decode_update(reply: Sequence[Any]) -> UpdateReply:
    """Decode a reply of sessions/update_session.lua."""
    if isinstance(reply[0], bytes):
        return UpdateReply(refused=reply[0].decode())
    if reply[0] == LIVE:
        *session, name, aliases = reply
        return UpdateReply(_decode_validate(session), name, aliases)
    return UpdateReply(_decode_validate(reply))


UPDATE_SESSION: Final = Script("sessions/update_session", repeatable=False, shares=True, reply=_decode_update)


NOTE_OLD_SECRET: Final = Script("sessions/note_old_secret", repeatable=True, shares=True, reply=as_sent)


class RotateReply(NamedTuple):
    """A session that got a new secret, or has just got one."""

    state: int
    row: SessionRow
    is_overdue: bool  #: past its deadline, and its end is to be written
    follower: int = 0  #: the caller's number, if its secret had been replaced a moment ago
    nonces: bytes = b""  #: then: by which the present secret follows from the caller's, 16 bytes each


def _decode_rotation(reply: Sequence[Any]) -> RotateReply:
    """Decode a reply of sessions/rotate_secret.lua."""
    state, *rest = reply
    if not rest:
        return RotateReply(state, NO_ROW, False)
    values, *more = rest
    is_overdue, *following = more or (0,)
    return RotateReply(state, SessionRow(*values), bool(is_overdue), *following)


ROTATE_SECRET: Final = Script(
    "sessions/rotate_secret", repeatable=False, seldom=["set"], shares=True, reply=_decode_rotation
)


class DemandReply(NamedTuple):
    """A sign-in that staff require."""

    at: int  #: ms
    session_ids: list[str]  #: of live sessions


def _decode_demand(reply: Sequence[Any]) -> DemandReply:
    """Decode a reply of sessions/require_sign_in.lua."""
    at, session_ids = reply
    return DemandReply(at, _texts(session_ids))


REQUIRE_SIGN_IN: Final = Script("sessions/require_sign_in", repeatable=False, shares=True, reply=_decode_demand)


class HeartbeatReply(NamedTuple):
    """A session of a heartbeat that is not live."""

    place: int  #: among the sessions that were sent
    is_overdue: bool


def _decode_heartbeat(reply: Sequence[int]) -> list[HeartbeatReply]:
    """Decode a reply of sessions/heartbeat.lua."""
    return [HeartbeatReply(abs(place) - 1, place < 0) for place in reply]


HEARTBEAT: Final = Script("sessions/heartbeat", repeatable=True, shares=True, reply=_decode_heartbeat)


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


def _decode_end(reply: Sequence[Any]) -> EndReply:
    """Decode a reply of sessions/end_sessions.lua."""
    ended, overdue, rows, block, now, newest = reply
    return EndReply(_texts(ended), _texts(overdue), [SessionRow(*row) for row in rows], block, now, newest)


END_SESSIONS: Final = Script(
    "sessions/end_sessions", repeatable=False, begins=[SETTLE_SESSIONS], shares=True, reply=_decode_end
)


class ReadSession(NamedTuple):
    """A session as sessions/read_sessions.lua found it."""

    session_id: str
    state: int
    row: SessionRow


def _decode_sessions(reply: Sequence[Any]) -> tuple[list[ReadSession], Mapping[bytes, bytes]]:
    """Decode a reply of sessions/read_sessions.lua: the sessions, and the texts of their label ids."""
    flat, labels = reply
    found = []
    for session_id, state, values, how in zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True):
        row = SessionRow(*values)
        found.append(ReadSession(session_id.decode("utf-8", "replace"), state, row.with_end(how) if how else row))
    return found, {label: text for label, text in by_two(labels) if label and text}


READ_SESSIONS: Final = Script("sessions/read_sessions", repeatable=True, derives=True, reply=_decode_sessions)


class RevokeReply(NamedTuple):
    """A shard's watermark."""

    now: int
    upto: int
    ended: int  #: sessions of the list that it ends


REVOKE_BEFORE: Final = Script("sessions/revoke_before", repeatable=True, shares=True, reply=RevokeReply._make)


class LatestLogin(NamedTuple):
    """How far the sessions of a shard reach, ms."""

    now: int
    newest: int  #: latest login time, -1 without sessions
    revoked: int  #: watermark, -1 without
    demanded: int  #: when staff last required a sign-in; 0: never


READ_LATEST_LOGIN: Final = Script("sessions/read_latest_login", repeatable=True, shares=True, reply=LatestLogin._make)


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


def _decode_events(reply: Sequence[Any]) -> EventsReply:
    """Decode a reply of sessions/read_events.lua."""
    gap, last, flat = reply
    events = []
    for entry_id, pairs in by_two(flat):
        fields = dict(by_two(pairs))
        events.append(
            StreamEvent(entry_id.decode(), fields.get(b"k", b"unknown"), fields.get(b"r", b""), fields.get(b"a", b""))
        )
    return EventsReply(bool(gap), last.decode(), events)


READ_EVENTS: Final = Script("sessions/read_events", repeatable=True, reply=_decode_events)


def _texts(raw: Sequence[bytes]) -> list[str]:
    return [item.decode() for item in raw]
