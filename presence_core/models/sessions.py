"""Sessions, live and ended: frozen, slotted, each decoding itself from the values of its record (schema/record.py)."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any, Final, Literal, TypeAlias

from presence_core import validation as check
from presence_core.models.choices import FailureCode
from presence_core.models.places import Move, Place, read_move, read_place
from presence_core.schema.endings import EndCause, EndReason
from presence_core.schema.record import AFTER_FAILURES, DISTANT, MOVED, NEW_DEVICE, OLD_TOKEN, ON_BEHALF, SessionRow
from presence_core.validation import IDP_CLAIMS, as_json, is_too_deep

CORE: Final = struct.Struct(">QII16s4s4s")
_TIMES: Final = struct.Struct(">QII")
_TIME: Final = struct.Struct(">Q")
LAST_MOMENT: Final = 253_402_300_799_000  # the end of the year 9999, ms
NO_LABEL: Final = b"\0\0\0\0"  # no label
INLINE: Final = b"\xff\xff\xff\xff"  # the label table was full: the text is in the record itself
_NO_IDS: Final = {NO_LABEL, INLINE, b""}

Labels = Mapping[bytes, bytes]
"""Label id → text."""

NO_LABELS: Final[Labels] = {}


@lru_cache(maxsize=8192)
def moment(ms: int) -> datetime:
    """Milliseconds since the epoch as an aware UTC time, at most the end of the year 9999. Cached, as is the address: a
    dashboard reads the same sessions every few seconds."""
    return datetime.fromtimestamp((ms if ms < LAST_MOMENT else LAST_MOMENT) / 1000, UTC)


def text(raw: bytes) -> str:
    """Stored bytes as text; bytes that are not UTF-8 (another program's) show as U+FFFD and never raise."""
    return raw.decode("utf-8", "replace")


def stored_number(raw: bytes | None) -> int | None:
    """A number as we write it; None for anything else, also for more digits than Python converts."""
    return int(raw) if raw and len(raw) < 20 and raw.isdigit() else None


def _packed_time(packed: bytes) -> datetime:
    """The ms that the first 8 bytes hold."""
    return moment(_TIME.unpack_from(packed)[0] if len(packed) >= _TIME.size else 0)


def previous_login(odd: bytes | None) -> tuple[Place | None, datetime | None]:
    """Place and time of the login before a distant one, of the field ``o``; None for each if it was not distant."""
    if not odd or not odd[0] & DISTANT or len(odd) <= _TIME.size:
        return None, None
    return read_place(odd[1 + _TIME.size :]), _packed_time(odd[1:])


def label_ids(core: bytes | None) -> frozenset[bytes]:
    """The ids of the labels that a record's core names in its shard's table."""
    return _two_ids(core[32:40] if core else b"")


@lru_cache(maxsize=8192)
def _two_ids(labels: bytes) -> frozenset[bytes]:
    """Cached: the same few thousand pairs occur again and again."""
    return frozenset((labels[:4], labels[4:])) - _NO_IDS


def optional_text(raw: bytes | None) -> str | None:
    return raw.decode("utf-8", "replace") if raw else None


@lru_cache(maxsize=8192)
def _address(packed: bytes) -> str | None:
    if len(packed) not in (4, 16):
        return None
    return inet_ntop(AF_INET if len(packed) == 4 else AF_INET6, packed)


@lru_cache(maxsize=8192)
def _three(raw: bytes | None) -> tuple[str | None, str | None, str | None]:
    """The three lines of a label. Cached: the same few thousand labels occur again and again."""
    parts: list[str | None] = [optional_text(part) for part in (raw or b"").split(b"\n", 2)]
    first, second, third = parts + [None] * (3 - len(parts))
    return first, second, third


def _finite(number: str) -> float | None:
    value = float(number)
    return value if isfinite(value) else None


_decode_json: Final = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None).decode
"""NaN and numbers beyond a float are None, as in JavaScript: JSON has no word for them, so no reader could pass them
on."""

_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")


def attributes_of(raw: bytes | None) -> dict[str, Any]:
    """The site's own fields; empty if they are not JSON, or nested deeper than a login may give them.

    Another program may have written them. Each reader can pass the result on as JSON.
    """
    if not raw or is_too_deep(raw):
        return {}
    try:
        value = _decode_json(raw.decode("utf-8", "replace"))
        if b"\\u" in raw:  # an escape may be half a character, which has no UTF-8
            value = _decode_json(_HALF_CHARACTER.sub("\ufffd", as_json(value)))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The fields that a session and its tombstone share. Times are aware UTC."""

    uid: str  #: the user
    session_id: str  #: public and unique; never a secret
    name: str | None = None  #: display name given at login
    aliases: tuple[str, ...] = ()  #: other ways to find the person: email, phone
    device: str | None = None  #: named by the site: "iPhone", "desktop"
    app: str | None = None
    app_version: str | None = None
    ip: str | None = None  #: the address at login
    last_ip: str | None = None  #: the latest address seen
    user_agent: str | None = None  #: cut at 512 characters, with a mark
    os: str | None = None  #: family, parsed from the user agent
    browser: str | None = None  #: family, parsed from the user agent
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False)  #: the site's own, at most 4 KB of JSON
    login_at: datetime
    last_seen: datetime
    expires_at: datetime  #: its deadline unless seen again: min(last seen + idle, login + absolute)
    idle_timeout: int  #: seconds
    absolute_timeout: int  #: seconds
    idp_expires_at: datetime | None = None  #: when the identity provider ends it; nothing moves this
    idp: Mapping[str, str] | None = field(default=None, hash=False)
    """Where the user has signed in: ``iss``, the issuer, with ``sub``, its name of the user, or ``sid``, its session,
    or both. None: the site named no identity provider."""
    authenticated_at: datetime  #: when the visitor last proved who they are: the login, or ``reauthenticated``
    methods: tuple[str, ...] = ()  #: how, as the site named it: "pwd", "otp", "hwk"
    mfa: bool = False  #: with several factors
    new_device: bool = False  #: the user had other devices at login, and not this one
    on_behalf_by: str | None = None  #: the member of staff who logged in on behalf of the user; None: the user did
    place: Place | None = None  #: of the address at login; None without ``Settings.place_file``
    distant: bool = False
    """Farther than a plane flies in the time between: from the place of the login before, or in a move."""
    previous_place: Place | None = None  #: of the login before; only if the login was ``distant``
    previous_login_at: datetime | None = None  #: when that was
    after_failures: bool = False  #: five or more sign-ins of the user had failed since the login before
    old_token: bool = False  #: a token was used after the grace of the ``rotate`` that replaced it: someone has a copy
    last_place: Place | None = None  #: of the latest address, as far as known
    moved: bool = False  #: used from another country, or from another network and browser: docs/use/moves.md
    move: Move | None = None  #: the last time that it moved

    @property
    def ref(self) -> str:
        """``uid:session_id``, its name in every list."""
        return f"{self.uid}:{self.session_id}"

    @property
    def is_mirrored(self) -> bool:
        """Whether it is a copy of a session in the site's own store, which decides how long that lives."""
        return check.is_mirrored(self.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Record):
    """One live login of one user on one device."""

    sign_in_required_at: datetime | None = None
    """When staff required a new sign-in; until then no request of this session passes. None: they did not."""

    @classmethod
    def from_reply(cls, uid: str, session_id: str, row: SessionRow, labels: Labels = NO_LABELS) -> Session:
        """Decode the values of a record."""
        draft: Any = object.__new__(_Draft)
        _fill(draft, uid, session_id, row, labels)
        draft.sign_in_required_at = _packed_time(row.demand) if row.demand else None
        if check.is_mirrored(session_id) and draft.idle_timeout < check.LONGEST_TIMEOUT:
            draft.idle_timeout -= check.MIRROR_AWAY
            draft.expires_at -= timedelta(seconds=check.MIRROR_AWAY)
        draft.__class__ = cls
        return draft  # type: ignore[no-any-return]


def login_ms(session: Record) -> int:
    """Login time as scripts write it, ms."""
    return as_ms(session.login_at)


def as_ms(time: datetime) -> int:
    """The reverse of ``moment``."""
    return round(time.timestamp() * 1000)


def in_words(message: str | None, block: PublicBlock | None) -> str:
    """What staff wrote for a user, and until when they may not log in; empty if neither is there."""
    if message is None or block is None:
        return message or (block.sentence if block else "")
    stop = "" if message.rstrip().endswith((".", "!", "?", "…", "。")) else "."
    return f"{message.rstrip()}{stop} {block.sentence}"


@dataclass(frozen=True, slots=True)
class PublicBlock:
    """The part of a block that the user may read: never the staff member, nor their reason."""

    message: str | None  #: what staff wrote for them
    until: datetime | None  #: None: until staff unblock the user

    @property
    def sentence(self) -> str:
        """For the user: the end of the block, rounded up to the minute, so that a login at that time succeeds."""
        if self.until is None:
            return "Signing in is blocked until our staff unblock it."
        end = min(self.until, moment(LAST_MOMENT - 60_000)) + timedelta(seconds=59, microseconds=999_999)
        return f"Signing in is blocked until {end:%Y-%m-%d %H:%M} UTC."


@dataclass(frozen=True, slots=True)
class PublicEnd:
    """The part of an end that the session's holder may read: never the name of a staff member."""

    code: EndReason
    message: str | None  #: what staff wrote for them
    at: datetime
    block: PublicBlock | None = None  #: of a kick, from ``validate``: they may not log in

    @property
    def sentence(self) -> str:
        """For the holder: staff's message and the end of a block, or that a later sign-in ended it; otherwise empty."""
        later = "A later sign-in ended this session." if self.code == "replaced" else ""
        return in_words(self.message, self.block) or later


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Record):
    """A tombstone: what the session was, and why exactly it ended."""

    reason: EndReason
    cause: EndCause
    at: datetime
    by: str | None = None  #: the staff member, or the user, that ended it
    note: str | None = None  #: the kick's reason, for staff
    ticket: str | None = None
    message: str | None = None  #: the public text
    replaced_by: str | None = None  #: session id of the login that took its place
    block: PublicBlock | None = None  #: of a kick, from ``validate``: the user may not log in

    @property
    def public(self) -> PublicEnd:
        """The part that is safe to show to its holder."""
        return PublicEnd(self.reason, self.message, self.at, self.block)

    @classmethod
    def from_reply(
        cls, uid: str, session_id: str, row: SessionRow, labels: Labels = NO_LABELS, notes: Labels = NO_LABELS
    ) -> Ended:
        """Decode the values of a record. One without an end is past its deadline."""
        draft: Any = object.__new__(_EndedDraft)
        _fill(draft, uid, session_id, row, labels)
        lives_out = draft.expires_at - draft.login_at >= timedelta(seconds=draft.absolute_timeout)
        by_idp = draft.idp_expires_at and draft.idp_expires_at - draft.expires_at < timedelta(seconds=1)
        draft.reason = text(row.end_reason) if row.end_reason else "expired"
        draft.cause = text(row.cause) if row.cause else "idle" if not lives_out else "idp" if by_idp else "absolute"
        ended_at = stored_number(row.at)
        draft.at = draft.expires_at if ended_at is None else moment(ended_at)
        draft.by = optional_text(row.by)
        draft.note = optional_text(notes.get(row.note)) if row.note else None
        draft.ticket = optional_text(row.ticket)
        draft.message = optional_text(notes.get(row.message)) if row.message else None
        draft.replaced_by = optional_text(row.replaced_by)
        draft.block = None
        draft.__class__ = cls
        return draft  # type: ignore[no-any-return]


def login_and_deadline(row: SessionRow) -> tuple[int, int] | None:
    """Login time and deadline of this row, ms. None for a malformed row, which counts as lost.
    ``include/sessions/session_record.lua`` decides the same."""
    seen, core = row.seen, row.core
    if not seen or not core or len(core) < CORE.size or len(seen) > 15 or not seen.isdigit():
        return None
    login, idle, absolute = _TIMES.unpack_from(core)
    by_idle, by_age = int(seen) + idle * 1000, login + absolute * 1000
    return login, by_idle if by_idle < by_age else by_age


def idp_link(stored: bytes) -> dict[str, str] | None:
    """The link to the identity provider: issuer, subject and session there, one a line; None for anything else."""
    parts = dict(zip(IDP_CLAIMS, text(stored).split("\n"), strict=False))
    return {name: part for name, part in parts.items() if part} if parts.get("iss") else None


class _Draft(Record):
    """A session while its fields are set. Those of a frozen dataclass take three times as long to set; a page decodes
    many sessions."""

    __slots__ = ("sign_in_required_at",)
    __setattr__, __delattr__ = object.__setattr__, object.__delattr__


class _EndedDraft(Record):
    """The same of a tombstone."""

    __slots__ = ("at", "block", "by", "cause", "message", "note", "reason", "replaced_by", "ticket")
    __setattr__, __delattr__ = object.__setattr__, object.__delattr__


def _fill(draft: Any, uid: str, session_id: str, row: SessionRow, labels: Labels) -> None:
    """Set the fields of Record."""
    seen, core, client, agent, authentication, odd = (
        row.seen, row.core, row.client, row.agent, row.authentication, row.odd
    )  # fmt: skip
    assert seen, "scripts return no row without last seen"
    assert core, "scripts return no row without its core"
    login, idle, absolute, _digest, client_label, agent_label = CORE.unpack_from(core)
    last_seen = int(seen)
    draft.uid = uid
    draft.session_id = session_id
    draft.name = optional_text(row.name)
    draft.aliases = tuple(text(row.aliases).split("\n")) if row.aliases else ()
    draft.device, draft.app, draft.app_version = _three(labels.get(client_label) if client is None else client)
    draft.os, draft.browser, draft.user_agent = _three(labels.get(agent_label) if agent is None else agent)
    draft.ip = ip = _address(core[CORE.size :])
    draft.last_ip = _address(row.last_ip) if row.last_ip else ip
    draft.attributes = attributes_of(row.attributes) if row.attributes else {}
    draft.login_at = draft.authenticated_at = moment(login)
    draft.last_seen = moment(last_seen)
    by_idle, by_age = last_seen + idle * 1000, login + absolute * 1000
    draft.expires_at = moment(by_idle if by_idle < by_age else by_age)
    draft.idle_timeout = idle
    draft.absolute_timeout = absolute
    draft.idp_expires_at = _packed_time(row.idp_end) if row.idp_end else None
    draft.idp = idp_link(row.idp) if row.idp else None
    draft.methods = ()
    draft.mfa = False
    if authentication and len(authentication) > _TIME.size:
        methods = authentication[9:]
        draft.authenticated_at, draft.mfa = _packed_time(authentication), authentication[8:9] == b"1"
        draft.methods = tuple(text(methods).split(",")) if methods else ()
    draft.place = read_place(row.place) if row.place else None
    draft.last_place, draft.move = read_move(row.move) if row.move else (draft.place, None)
    draft.new_device = draft.distant = draft.after_failures = draft.old_token = draft.moved = False
    draft.on_behalf_by = draft.previous_place = draft.previous_login_at = None
    if odd:
        draft.new_device = bool(odd[0] & NEW_DEVICE)
        draft.on_behalf_by = text(odd[1:]) if odd[0] & ON_BEHALF else None
        draft.previous_place, draft.previous_login_at = previous_login(odd)
        draft.moved = bool(odd[0] & MOVED)
        draft.distant = draft.previous_login_at is not None or (draft.moved and bool(odd[0] & DISTANT))
        draft.after_failures = bool(odd[0] & AFTER_FAILURES)
        draft.old_token = bool(odd[0] & OLD_TOKEN)


class Login:
    """A session that has begun. ``session`` is decoded when it is first read: an import reads few."""

    __slots__ = ("_decode", "_session", "failures", "replaced", "token")

    def __init__(self, decode: Callable[[], Session], token: str, replaced: list[Session], failures: int = 0) -> None:
        self._decode = decode
        self._session: Session | None = None
        self.token = token  #: the secret for the visitor's cookie: given once, never stored
        self.replaced = replaced  #: the sessions that a limit ended, oldest first
        self.failures = failures  #: how many sign-ins ``login_failed`` has reported of the user since the login before

    @property
    def session(self) -> Session:
        """The session that has begun."""
        if self._session is None:
            self._session = self._decode()
        return self._session

    def __repr__(self) -> str:  # without the token: logs and tracebacks show this
        return f"Login(session={self.session!r}, replaced={self.replaced!r})"


class ValidationPassed:
    """A Validation that is truthy: the session is live. Its record is decoded when it is first read."""

    __slots__ = ("_decode", "_now", "_session", "moved")

    ended: Final = None
    refused: Final = None
    message: Final = None
    code: Final = "live"

    def __init__(self, decode: Callable[[], Session], now: int = 0, moved: bool = False) -> None:
        self._decode = decode
        self._now = now
        self.moved = moved  #: the session has moved with this request: docs/use/moves.md
        self._session: Session | None = None

    def __bool__(self) -> Literal[True]:
        return True

    @property
    def session(self) -> Session:
        """The live session."""
        if self._session is None:
            self._session = self._decode()
        return self._session

    @property
    def authenticated_for(self) -> float:
        """Seconds since the visitor authenticated, by the clock of Redis."""
        return max(0.0, (moment(self._now) - self.session.authenticated_at).total_seconds())

    def __repr__(self) -> str:
        return f"Validation(session={self.session!r}, ended=None)"


class ValidationFailed:
    """A Validation that is falsy: the session is unknown, has ended, or needs a new authentication."""

    __slots__ = ("_decode", "_ended", "code", "message", "refused")

    session: Final = None
    moved: Final = False

    def __init__(
        self,
        decode: Callable[[], Ended] | None = None,
        code: FailureCode | None = None,
        refused: Session | None = None,
        message: str | None = None,
    ) -> None:
        self._decode = decode
        self._ended: Ended | None = None
        self.code: FailureCode = code or ("unknown" if decode is None else "ended")  #: why it is falsy
        self.refused = refused
        """With "sign_in_required" or "authentication_too_old": the live session, so that the site knows whom to ask to
        sign in again. It lets no request pass."""
        self.message = message  #: with "sign_in_required": what staff wrote for the visitor

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def ended(self) -> Ended | None:
        """Why the session ended, as long as its tombstone is kept; else None."""
        if self._ended is None and self._decode is not None:
            self._ended = self._decode()
        return self._ended

    def __repr__(self) -> str:
        return f"Validation(session=None, code={self.code!r}, ended={self.ended!r})"


Validation: TypeAlias = ValidationPassed | ValidationFailed
"""Whether a request may pass. A type checker knows that ``.session`` is there after ``if validation:``."""
