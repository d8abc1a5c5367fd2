"""Settings: how long sessions live, how many a user may have, what is kept."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.schema.conditions import FACETS
from presence_core.schema.endings import KEEPS
from presence_core.validation import TEN_YEARS

DAY: Final = 86_400
INDEXES: Final = ("uid", "name", "alias", "ip", "idp")

_OPTIONAL = ("shards", "max_sessions_per_device", "truncate_addresses_after")  # may be None
LIMITS: Final = {
    "shards": (1, 1024),
    "max_sessions": (1, 1000),
    "max_sessions_per_device": (1, 1000),
    "rotate_grace": (0, 300),
    **dict.fromkeys(KEEPS, (0, TEN_YEARS)),
    "keep_people": (0, TEN_YEARS),
    "keep_devices": (0, TEN_YEARS),
    "keep_failed_logins": (0, 365 * DAY),
    "max_failed_logins": (100, 10_000_000),
    "keep_remarks": (3600, 365 * DAY),
    "keep_history_10s": (3600, 30 * DAY),
    "keep_history_1m": (DAY, 730 * DAY),
    "keep_history_1h": (30 * DAY, TEN_YEARS),
    "max_ended": (0, 10_000_000),
    "max_events": (100, 10_000_000),
    "max_audit": (100, 10_000_000),
    "keep_sign_ins": (0, 400),
    "truncate_addresses_after": (0, 3650),
    "confirm_replicas": (0, 10),
    "confirm_timeout": (1, 30_000),
    "confirm_hold": (0, 3600),
}
_NAMESPACE = re.compile(r"[a-z0-9_-]{1,32}")


OnLimit = Literal["replace", "reject"]
Unfit = Literal["cut", "refuse"]
NoAddress = Literal["pass", "refuse"]
RecordAddress = Literal["full", "network", "none"]
OnMove = Literal["flag", "require_sign_in"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How long sessions live, how many there may be, what is kept. Durations are whole seconds."""

    namespace: str = "online"  #: [a-z0-9_-], 1 to 32; keeps products on one Redis apart
    shards: int | None = None  #: 1…1024; None: what is stored, else 1 on a single Redis and 64 on a cluster
    idle_timeout: int = 1_800  #: a session ends when not seen for so long; 1…10 years, at most the absolute timeout
    absolute_timeout: int = DAY  #: a session ends so long after its login, even if in use; 1…10 years
    on_behalf_timeout: int = 3_600  #: a session on behalf of a user ends so long after its login at most; 1…10 years
    max_sessions: int = 1_000  #: live sessions a user may have, 1…1000
    max_sessions_per_device: int | None = None  #: the same per device_id, or per device without one; None: no limit
    on_limit: OnLimit = "replace"  #: end the oldest session, or refuse the login
    unfit: Unfit = "cut"  #: what describes a visitor (name, device, address, …) and does not fit: cut it, or refuse it
    no_address: NoAddress = "pass"  #: while a block rule names a network: refuse logins without a readable address
    record_address: RecordAddress = "full"  #: addresses in records: whole, their network (/24, /48), or none
    record_user_agent: bool = True  #: False: records have os and browser, and not the user agent that named them
    on_move: OnMove = "flag"  #: a session that moves (docs/use/moves.md): flag it, or also require a new sign-in
    rotate_grace: int = 0  #: a token that ``rotate`` has replaced stays valid for so long, so that tabs agree; 0…300
    keep_kicked: int = 30 * DAY  #: how long the tombstone of a kicked session is kept; 0 keeps none
    keep_replaced: int = 7 * DAY  #: the same, for a session that a limit ended
    keep_expired: int = 2 * DAY  #: the same, for an expired session
    keep_logout: int = 2 * DAY  #: the same, after a logout
    keep_history_10s: int = DAY  #: how long samples of 10 s are kept, an hour…30 days
    keep_history_1m: int = 30 * DAY  #: those of a minute, and the hourly split per app and device; a day…2 years
    keep_history_1h: int = 730 * DAY  #: those of an hour and of a day, 30 days…10 years
    keep_people: int = 7 * DAY  #: how long last seen and name of an offline user are kept; at least ``keep_sign_ins``
    keep_devices: int = 180 * DAY  #: how long a user's device stays known after a login on it; 0 keeps none
    keep_sign_ins: int = 0  #: days that a user's last 50 sign-ins are kept, and their name while offline; 0 (off)…400
    keep_failed_logins: int = 3 * DAY  #: how long a failed sign-in is kept; 0 records none, 0…a year
    max_failed_logins: int = 8_000  #: rows of failed sign-ins a day begins, half for typed names; 100…10 million
    keep_remarks: int = 14 * DAY  #: how long a remark of staff on a person is kept; an hour…a year
    max_ended: int = 1_000_000  #: tombstones listed in all (oldest dropped first), 0…10 million
    max_events: int = 100_000  #: events kept in all for readers that return, 100…10 million
    max_audit: int = 100_000  #: staff actions kept in all, 100…10 million
    keep_audit: int = 730 * DAY  #: how long staff actions and denied attempts are kept; 1…10 years
    truncate_addresses_after: int | None = None  #: days after the end of a session, 0…3650; None: addresses stay whole
    place_file: str | None = None  #: MaxMind DB files, with a colon between them: logins get a place (extra geo)
    indexes: tuple[str, ...] = INDEXES  #: search indexes to keep; a change takes effect with `presence reindex`
    facets: tuple[str, ...] = ()  #: attributes that are counted for `facets`; at most 8
    record_ttl: bool = True  #: let Redis delete a live record a day after its absolute deadline
    heal: bool = True  #: reads remove stale entries that they find; False for connections that may not write
    confirm_replicas: int = 0  #: replicas that must acknowledge ends, blocks and revocations, 0…10; 0: not asked
    confirm_timeout: int = 500  #: ms to wait for them; 1…30,000, at most half of ``timeout``
    confirm_hold: int = 30  #: seconds to hold a change after that, and apply it again if a failover lost it; 0…3600
    timeout: float = 2.0  #: seconds for each step of a call, with all attempts; most calls have one step; 0.05…60

    def __post_init__(self) -> None:
        if not isinstance(self.namespace, str) or not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidArgument("namespace", "must be 1 to 32 characters of a-z, 0-9, _ and -", "malformed")
        for name, (low, high) in LIMITS.items():
            if getattr(self, name) is not None or name not in _OPTIONAL:
                check.whole(name, getattr(self, name), low, high)
        for name in ("idle_timeout", "absolute_timeout", "on_behalf_timeout", "keep_audit"):
            check.seconds(name, getattr(self, name))
        for name in ("record_ttl", "heal", "record_user_agent"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(name, "must be True or False", "wrong_type")
        check.call_time(self.timeout)
        check.choice("on_limit", self.on_limit, OnLimit)
        check.choice("unfit", self.unfit, Unfit)
        check.choice("no_address", self.no_address, NoAddress)
        check.choice("record_address", self.record_address, RecordAddress)
        check.choice("on_move", self.on_move, OnMove)
        if self.idle_timeout > self.absolute_timeout:
            raise InvalidArgument("idle_timeout", "must be at most absolute_timeout")
        if self.confirm_replicas and self.confirm_timeout > self.timeout * 500:
            raise InvalidArgument("confirm_timeout", "must be at most half of timeout")
        if self.place_file is not None:
            check.plain_text("place_file", self.place_file, 4096, "must be paths of MaxMind DB files")
        self._check_indexes_and_facets()

    def _check_indexes_and_facets(self) -> None:
        if not isinstance(self.indexes, tuple) or not all(name in INDEXES for name in self.indexes):
            raise InvalidArgument("indexes", "must be a tuple of some of " + ", ".join(INDEXES), "not_a_choice")
        if not isinstance(self.facets, tuple) or len(self.facets) > 8:
            raise InvalidArgument("facets", "must be a tuple of at most 8 names of attributes")
        for name in self.facets:
            check.plain_text("facets", name, 64, "must be names of attributes, text of 1 to 64 bytes")
            if name in FACETS or self.facets.count(name) > 1:
                raise InvalidArgument(
                    "facets", f"must name each attribute once, and none that is counted anyway: {name}"
                )

    def timeouts(self, idle: object, absolute: object) -> tuple[int, int]:
        """The idle and the absolute timeout of a login. If only one is given, the default of the other adapts to it."""
        if idle is None and absolute is None:
            return self.idle_timeout, self.absolute_timeout
        idle_s = self.idle_timeout if idle is None else check.seconds("idle_timeout", idle)
        absolute_s = self.absolute_timeout if absolute is None else check.seconds("absolute_timeout", absolute)
        if idle is None:
            idle_s = min(idle_s, absolute_s)
        elif absolute is None:
            absolute_s = max(idle_s, absolute_s)
        elif idle_s > absolute_s:
            raise InvalidArgument("idle_timeout", "must be at most absolute_timeout")
        return idle_s, absolute_s

    @property
    def people_kept(self) -> int:
        """How long an offline user's last-seen time and name are kept, s: at least as long as the sign-in history."""
        return max(self.keep_people, self.keep_sign_ins * DAY)

    def policy(self, shards: int) -> bytes:
        """The settings that scripts need, packed for ``include/shard_keys.lua``."""
        share = max(1, shards)
        return struct.pack(
            f">{len(KEEPS) + 5}I",
            *(getattr(self, name) for name in KEEPS),
            self.people_kept,
            max(1, self.max_events // share),
            max(1, self.max_audit // share),
            1 if self.record_ttl else 0,
            0 if self.max_sessions_per_device is None else 1,
        )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Settings from ``PRESENCE_<FIELD>`` variables, for example ``PRESENCE_IDLE_TIMEOUT=900``."""
        return cls(**fields_of_environ(environ))


def fields_of_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    """The fields of Settings that ``PRESENCE_<FIELD>`` variables name. Checks each alone."""
    given: dict[str, Any] = {}
    for item in fields(Settings):
        variable = f"PRESENCE_{item.name.upper()}"
        raw = environ.get(variable, "").strip()
        if not raw:
            continue
        if item.name in ("namespace", "on_limit", "place_file", "unfit", "no_address", "record_address", "on_move"):
            given[item.name] = raw
        elif item.name in ("indexes", "facets"):
            given[item.name] = tuple(word.strip() for word in raw.split(",") if word.strip() not in ("", "none"))
        elif item.name in ("record_ttl", "heal", "record_user_agent"):
            if raw.lower() not in ("1", "0", "true", "false", "yes", "no"):
                raise InvalidArgument(variable, "must be true or false")
            given[item.name] = raw.lower() in ("1", "true", "yes")
        else:
            try:
                given[item.name] = float(raw) if item.name == "timeout" else int(raw)
            except ValueError:
                raise InvalidArgument(variable, "must be a number") from None
    return given
