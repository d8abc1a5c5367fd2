"""Settings, and the validation of every argument: one sentence names the field and the limit."""

from __future__ import annotations

import json
import re
import struct
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any, Final, NoReturn

from presence_core.errors import InvalidArgument

DAY: Final = 86_400
TEN_YEARS: Final = 315_360_000
INDEXES: Final = ("uid", "name", "alias", "ip")
AGENT_LENGTH: Final = 512
CUT_MARK: Final = "…"
MAX_UIDS: Final = 10_000

_COUNTED = ("device", "app", "app_version", "os", "browser")
_NAMESPACE = re.compile(r"[a-z0-9_-]{1,32}")
_MAPPED = bytes(10) + b"\xff\xff"
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{8,128}")


@dataclass(frozen=True, slots=True)
class Settings:
    """How long sessions live, how many there may be, what is kept. Durations are whole seconds."""

    namespace: str = "online"  #: [a-z0-9_-], 1 to 32; keeps products on one Redis apart
    shards: int | None = None  #: 1…1024; None: what is stored, else 1 on a single Redis and 64 on a cluster
    idle_timeout: int = 1_800  #: a session not seen for so long is over; 1…10 years, at most the absolute timeout
    absolute_timeout: int = DAY  #: a session is over so long after login, however busy; 1…10 years
    max_sessions: int = 1_000  #: live sessions a user may have, 1…1000
    max_sessions_per_device: int | None = None  #: the same per device named at login; None: no limit of its own
    on_limit: str = "replace"  #: "replace" ends the oldest session; "reject" refuses the login
    keep_kicked: int = 30 * DAY  #: how long a tombstone is kept, by reason; 0 keeps none
    keep_replaced: int = 7 * DAY
    keep_expired: int = 2 * DAY
    keep_logout: int = 2 * DAY
    keep_history_10s: int = DAY  #: how long samples of 10 s are kept, an hour…30 days
    keep_history_1m: int = 30 * DAY  #: those of a minute, and the hourly split per app and device; a day…2 years
    keep_history_1h: int = 730 * DAY  #: those of an hour and of a day, 30 days…10 years
    keep_people: int = 7 * DAY  #: how long an offline user's last-seen time is kept
    max_ended: int = 1_000_000  #: tombstones listed in all (older ones go first), 0…10 million
    max_events: int = 100_000  #: events kept in all for readers that come back, 100…10 million
    max_audit: int = 100_000  #: staff actions kept in all, 100…10 million
    keep_audit: int = 730 * DAY  #: how long staff actions and denied attempts are kept; 1…10 years
    truncate_addresses_after: int | None = None  #: days after the end of a session, 0…3650; None: addresses stay whole
    indexes: tuple[str, ...] = INDEXES  #: what search is hastened for; a change takes effect with `presence reindex`
    facets: tuple[str, ...] = ()  #: attributes that are counted for `facets`; at most 8
    record_ttl: bool = True  #: let Redis drop a live record a day after its last possible moment
    heal: bool = True  #: reads put right what they find dirty; off for connections that may not write
    confirm_replicas: int = 0  #: replicas that are to confirm ends, blocks and revocations (WAIT), 0…10; 0: not asked
    confirm_timeout: int = 500  #: ms that are waited for it; 1…30,000, at most half of ``timeout``
    confirm_hold: int = 30  #: seconds for which they are held after that and applied again after a failover, 0…3600
    timeout: float = 2.0  #: seconds for each step of a call, all tries together; most have one; 0.05…60

    def __post_init__(self) -> None:
        if not isinstance(self.namespace, str) or not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidArgument("namespace", "must be 1 to 32 characters of a-z, 0-9, _ and -")
        if self.shards is not None:
            whole("shards", self.shards, 1, 1024)
        seconds("idle_timeout", self.idle_timeout)
        seconds("absolute_timeout", self.absolute_timeout)
        if self.idle_timeout > self.absolute_timeout:
            raise InvalidArgument("idle_timeout", "must be at most absolute_timeout")
        whole("max_sessions", self.max_sessions, 1, 1000)
        if self.max_sessions_per_device is not None:
            whole("max_sessions_per_device", self.max_sessions_per_device, 1, 1000)
        if self.on_limit not in ("replace", "reject"):
            raise InvalidArgument("on_limit", 'must be "replace" or "reject"')
        for name in ("keep_kicked", "keep_replaced", "keep_expired", "keep_logout", "keep_people"):
            whole(name, getattr(self, name), 0, TEN_YEARS)
        whole("keep_history_10s", self.keep_history_10s, 3600, 30 * DAY)
        whole("keep_history_1m", self.keep_history_1m, DAY, 730 * DAY)
        whole("keep_history_1h", self.keep_history_1h, 30 * DAY, TEN_YEARS)
        whole("max_ended", self.max_ended, 0, 10_000_000)
        whole("max_events", self.max_events, 100, 10_000_000)
        whole("max_audit", self.max_audit, 100, 10_000_000)
        seconds("keep_audit", self.keep_audit)
        if self.truncate_addresses_after is not None:
            whole("truncate_addresses_after", self.truncate_addresses_after, 0, 3650)
        if not isinstance(self.indexes, tuple) or not all(one in INDEXES for one in self.indexes):
            raise InvalidArgument("indexes", "must be a tuple of some of " + ", ".join(INDEXES))
        if not isinstance(self.facets, tuple) or len(self.facets) > 8:
            raise InvalidArgument("facets", "must be a tuple of at most 8 names of attributes")
        for name in self.facets:
            _plain("facets", name, 64, "must be names of attributes, text of 1 to 64 bytes")
            if name in _COUNTED or self.facets.count(name) > 1:
                raise InvalidArgument(
                    "facets", f"must name each attribute once, and none that is counted anyway: {name}"
                )
        for name in ("record_ttl", "heal"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(name, "must be True or False")
        call_time(self.timeout)
        whole("confirm_replicas", self.confirm_replicas, 0, 10)
        whole("confirm_timeout", self.confirm_timeout, 1, 30_000)
        whole("confirm_hold", self.confirm_hold, 0, 3600)
        if self.confirm_replicas and self.confirm_timeout > self.timeout * 500:
            raise InvalidArgument("confirm_timeout", "must be at most half of timeout")

    def policy(self, shards: int) -> bytes:
        """What scripts must know of these settings, packed for ``include/ending.lua``."""
        share = max(1, shards)
        return struct.pack(
            ">9I",
            self.keep_kicked,
            self.keep_replaced,
            self.keep_expired,
            self.keep_logout,
            self.keep_people,
            max(1, self.max_events // share),
            max(1, self.max_audit // share),
            1 if self.record_ttl else 0,
            0 if self.max_sessions_per_device is None else 1,
        )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Settings from ``PRESENCE_<FIELD>`` variables, for example ``PRESENCE_IDLE_TIMEOUT=900``."""
        given: dict[str, Any] = {}
        for item in fields(cls):
            variable = f"PRESENCE_{item.name.upper()}"
            raw = environ.get(variable, "").strip()
            if not raw:
                continue
            if item.name in ("namespace", "on_limit"):
                given[item.name] = raw
            elif item.name in ("indexes", "facets"):
                given[item.name] = tuple(word.strip() for word in raw.split(",") if word.strip() not in ("", "none"))
            elif item.name in ("record_ttl", "heal"):
                if raw.lower() not in ("1", "0", "true", "false", "yes", "no"):
                    raise InvalidArgument(variable, "must be true or false")
                given[item.name] = raw.lower() in ("1", "true", "yes")
            else:
                try:
                    given[item.name] = float(raw) if item.name == "timeout" else int(raw)
                except ValueError:
                    raise InvalidArgument(variable, "must be a number") from None
        return cls(**given)


# -- one function for each kind of argument -----------------------------------------------------------------------


def whole(field: str, value: object, low: int, high: int) -> int:
    """A whole number within limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidArgument(field, f"must be a whole number from {low} to {high}")
    return int(value)


def callback(field: str, value: object) -> None:
    """Before anything is sent: a call that fails on the way would leave a part of it done."""
    if value is not None and not callable(value):
        raise InvalidArgument(field, "must be a function")


def call_time(value: object) -> float:
    """``timeout``: seconds that one call may take."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.05 <= value <= 60:
        raise InvalidArgument("timeout", "must be 0.05 to 60 seconds")
    return value


def instant(value: object) -> str:
    """``now`` of a tracker, as it is sent: Unix seconds; "" for None, which leaves it to the clock of Redis."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e11:
        raise InvalidArgument("now", "must be Unix seconds, from 0 to 100000000000")
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def seconds(field: str, value: object) -> int:
    """A timeout."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= TEN_YEARS:
        raise InvalidArgument(field, f"must be whole seconds from 1 to {TEN_YEARS} (10 years)")
    return int(value)


def _plain(field: str, value: object, high: int, rule: str) -> str:
    """Text of 1 to ``high`` bytes without control characters that is more than white space."""
    if type(value) is str and value.isascii() and value.isprintable() and 0 < len(value) <= high and value[0] != " ":
        return value  # nearly every call: no encoding, no category look-ups
    if not isinstance(value, str):
        raise InvalidArgument(field, rule)
    value = str.__str__(value)  # a subclass may say something else of itself
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(field, f"{rule}; this text is not valid Unicode") from None
    if not 1 <= size <= high:
        raise InvalidArgument(field, rule)
    if not value.strip():
        raise InvalidArgument(field, f"{rule}, not only white space")
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise InvalidArgument(field, f"{rule}, without control characters")
    return value


def uid(value: object, field: str = "uid") -> str:
    return _plain(field, value, 256, "must be text of 1 to 256 bytes")


def uids(value: object) -> list[str]:
    """Users of ``online_among`` and ``blocked_among``, each once: at most MAX_UIDS."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument("uids", "must be a list of uids")
    asked: dict[str, None] = {}
    for place, item in enumerate(value):
        if place == MAX_UIDS:
            raise InvalidArgument("uids", f"must be at most {MAX_UIDS} uids")
        asked[uid(item)] = None
    return list(asked)


def actor(value: object) -> str:
    """``by``: who does it. Never empty."""
    return _plain("by", value, 256, "must be text of 1 to 256 bytes that says who does this")


def short(field: str, value: object, high: int) -> str | None:
    """Optional text such as a device or a name."""
    return None if value is None else _plain(field, value, high, f"must be text of 1 to {high} bytes")


def session_id(value: object, field: str = "session_id") -> str:
    if not isinstance(value, str) or not _SESSION_ID.fullmatch(value):
        raise InvalidArgument(field, "must be 8 to 128 characters of A-Z, a-z, 0-9, _ and -")
    return str.__str__(value)


def ref(value: object) -> tuple[str, str]:
    """``uid:session_id``."""
    if not isinstance(value, str):
        raise InvalidArgument("ref", "must be text: uid, a colon, session id")
    owner, colon, session = value.rpartition(":")
    if not colon:
        raise InvalidArgument("ref", "must be uid, a colon, session id")
    return uid(owner), session_id(session)


def address(value: object, field: str = "ip") -> bytes:
    """An IPv4 or IPv6 address, packed; b"" for None. An IPv4 address in IPv6 dress is the IPv4 address."""
    if value is None:
        return b""
    try:
        if not isinstance(value, str):
            raise ValueError
        packed = inet_pton(AF_INET6 if ":" in value else AF_INET, value)
    except (OSError, ValueError):
        raise InvalidArgument(field, "must be an IPv4 or IPv6 address") from None
    return packed[12:] if packed.startswith(_MAPPED) else packed


def user_agent(value: object) -> str:
    """A user agent, cut at 512 characters with a mark; control characters (an attacker's) become spaces."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidArgument("user_agent", "must be text")
    if not (value.isascii() and value.isprintable()):
        value = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in value)
    if len(value) > AGENT_LENGTH:
        value = value[: AGENT_LENGTH - 1] + CUT_MARK
    return value


def aliases(value: object) -> str:
    """Up to eight other names, one a line."""
    if value == ():
        return ""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidArgument("aliases", "must be a list of texts")
    items = list(value)
    if len(items) > 8:
        raise InvalidArgument("aliases", "must be at most 8 texts")
    rule = "must be texts of 1 to 256 bytes"
    return "\n".join(_plain("aliases", item, 256, rule) for item in items)


def attributes(value: object) -> bytes:
    """The site's own fields as JSON; b"" for none."""
    if value is None or value == {}:
        return b""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument("attributes", "must be a dict with text keys")
    try:
        raw = json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidArgument("attributes", "must be made of what JSON can hold") from None
    if len(raw) > 4096:
        raise InvalidArgument("attributes", "must be at most 4096 bytes of JSON")
    return raw


def prose(field: str, value: object) -> str:
    """A reason or a message: 1 to 500 characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= 500 or not value.strip():
        raise InvalidArgument(field, "must be text of 1 to 500 characters")
    if any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t" for char in value):
        raise InvalidArgument(field, "must be text of 1 to 500 characters, without control characters")
    return value


def timeouts(settings: Settings, idle: object, absolute: object) -> tuple[int, int]:
    """Both timeouts of one login; with one given, the other's default is clamped to fit it."""
    if idle is None and absolute is None:
        return settings.idle_timeout, settings.absolute_timeout
    idle_s = settings.idle_timeout if idle is None else seconds("idle_timeout", idle)
    absolute_s = settings.absolute_timeout if absolute is None else seconds("absolute_timeout", absolute)
    if idle is None:
        idle_s = min(idle_s, absolute_s)
    elif absolute is None:
        absolute_s = max(idle_s, absolute_s)
    elif idle_s > absolute_s:
        raise InvalidArgument("idle_timeout", "must be at most absolute_timeout")
    return idle_s, absolute_s


def past(field: str, value: object) -> int:
    """A moment of an imported session, ms: an aware datetime, or Unix seconds."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            _not_a_moment(field)
        value = value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e11:
        _not_a_moment(field)
    ms = round(value * 1000)
    if not 0 < ms < 10**14:  # neither may what it is rounded to: it is written down, and read again
        _not_a_moment(field)
    return ms


def period(since: object, until: object) -> tuple[int | None, int | None]:
    """From ``since`` on and before ``until``, ms; None where there is no bound."""
    first = None if since is None else past("since", since)
    last = None if until is None else past("until", until)
    if first is not None and last is not None and first >= last:
        raise InvalidArgument("since", "must be before until")
    return first, last


def _not_a_moment(field: str) -> NoReturn:
    raise InvalidArgument(field, "must be an aware datetime or Unix seconds")
