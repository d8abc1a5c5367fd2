"""Block rules: logins from a network or a country, or with a version of an app, are refused."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.keyspace import digest
from presence_core.models.choices import BlockRuleKind
from presence_core.models.sessions import PublicBlock, moment
from presence_core.schema.conditions import address_range_of

WIDEST: Final = {4: 16, 6: 32}
"""The shortest prefix that needs no confirmation, by IP version: what one provider typically has. A wider network
belongs to many of them."""

Stored = Mapping[str, Any]
"""A rule as JSON has it: kind, what it matches, id, by, reason, message, ticket, at, until (ms), sessions, version."""


def words_of(rule: RuleMatch | BlockRulePreview | BlockRule) -> str:
    """What a rule matches, as staff read it."""
    return rule.network or rule.country or f"{rule.app} {rule.app_version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """Which logins a rule refuses."""

    kind: BlockRuleKind
    network: str | None = None
    app: str | None = None
    app_version: str | None = None
    country: str | None = None

    @property
    def words(self) -> str:
        """ "198.51.100.0/24", "FR", "ios 4.2.0"."""
        return words_of(self)

    @property
    def is_wide(self) -> bool:
        """Whether it is a country, or a network that is wider than what one provider typically has."""
        if self.network is None:
            return self.country is not None
        network = ipaddress.ip_network(self.network)
        return network.prefixlen < WIDEST[network.version]

    @property
    def session_filter(self) -> SessionFilter:
        """Finds the sessions whose logins the rule would refuse now."""
        return SessionFilter(ip=self.network, app=self.app, app_version=self.app_version, country=self.country)

    @property
    def field(self) -> bytes:
        """The field of T:block_rules: see lua/include/staff/block_rules.lua. One match has one rule."""
        if self.country is not None:
            return f"country:{self.country}".encode()
        if self.network is None:
            return f"app:{self.app}\n{self.app_version}".encode()
        network = ipaddress.ip_network(self.network)
        prefix = network.network_address.packed[: -(-network.prefixlen // 8)]
        return b"%d/%d:%b" % (network.version, network.prefixlen, prefix)

    @property
    def id(self) -> str:
        """Twelve hex digits, the same for the same match."""
        return digest(self.field.hex(), 6)

    @classmethod
    def of(cls, network: object, app: object, app_version: object, country: object) -> RuleMatch:
        """Check these arguments: a network, a country, or an app and its version."""
        if [network is not None, country is not None, app is not None or app_version is not None].count(True) != 1:
            raise InvalidArgument(
                "network", "must be given, or country, or app with app_version: give one of the three", "required"
            )
        if country is not None:
            return cls(kind="country", country=SessionFilter(country=country).country)  # type: ignore[arg-type]
        if network is not None:
            return cls(kind="network", network=canonical_network(network))
        for name, value in (("app", app), ("app_version", app_version)):
            if value is None:
                raise InvalidArgument(name, "must be given: a rule is for a version of one app", "required")
        return cls(
            kind="app_version",
            app=check.short("app", app, 64),
            app_version=check.short("app_version", app_version, 64),
        )


def canonical_network(value: object) -> str:
    """A network with its host bits zero; an address is a network of its own, an IPv4-mapped network is IPv4."""
    addresses = address_range_of(value)
    if addresses is None:
        raise InvalidArgument(
            "network", "must be an IPv4 or IPv6 address, or a network such as 192.0.2.0/24", "malformed"
        )
    first, last = (ipaddress.ip_address(end[1:]) for end in addresses)
    [network] = ipaddress.summarize_address_range(first, last)
    return str(network)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRulePreview:
    """Whom a block rule would concern now: give ``sessions`` to ``add_block_rule`` as ``expected``.

    Live sessions go on. They show who would be refused at the next login.
    """

    kind: BlockRuleKind
    network: str | None  #: with host bits zero: as the rule would be stored
    app: str | None
    app_version: str | None
    country: str | None
    sessions: int  #: live sessions that match now
    people: int  #: users with such a session; at least, where ``people_is_exact`` is False
    people_is_exact: bool  #: False: there are more sessions than were read
    is_wide: bool  #: ``add_block_rule`` needs ``confirm_wide``
    as_of: datetime

    @property
    def words(self) -> str:
        """What it would match; as ``confirm_wide`` must be."""
        return words_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRule:
    """A rule that refuses logins: from a network or a country, or with a version of an app."""

    id: str  #: twelve hex digits, the same for the same network, country or version
    kind: BlockRuleKind
    network: str | None = None  #: of kind "network": "198.51.100.0/24"
    app: str | None = None  #: of kind "app_version"
    app_version: str | None = None
    by: str  #: the staff member
    reason: str  #: for staff
    message: str | None = None  #: the public text
    ticket: str | None = None
    at: datetime
    until: datetime | None = None  #: None: until staff remove the rule
    sessions: int = 0  #: live sessions that matched when the rule was added
    everywhere: bool = True  #: False: a crash or an outage left it on some shards only; a sweep completes it
    confirmed: bool | None = None  #: of a new rule. False: too few replicas acknowledged it; None: not asked
    country: str | None = None  #: of kind "country": "FR"

    @property
    def words(self) -> str:
        """What it matches: "198.51.100.0/24", "FR", "ios 4.2.0"."""
        return words_of(self)

    @property
    def public(self) -> PublicBlock:
        """The part that is safe to show to the visitor."""
        return PublicBlock(self.message, self.until)

    @classmethod
    def from_stored(cls, stored: Stored, *, everywhere: bool = True, confirmed: bool | None = None) -> BlockRule:
        """Decode a rule as JSON has it. Raises ValueError, TypeError, LookupError or OverflowError for another
        program's."""
        kind = stored["kind"]
        if kind not in ("network", "app_version", "country"):
            raise ValueError("not a kind of this version")
        until = stored.get("until")
        return cls(
            id=str(stored["id"]),
            kind=kind,
            network=stored.get("network"),
            app=stored.get("app"),
            app_version=stored.get("app_version"),
            country=stored.get("country"),
            by=str(stored["by"]),
            reason=str(stored["reason"]),
            message=stored.get("message"),
            ticket=stored.get("ticket"),
            at=moment(int(stored["at"])),
            until=None if until is None else moment(int(until)),
            sessions=int(stored.get("sessions", 0)),
            everywhere=everywhere,
            confirmed=confirmed,
        )


def read_stored(raw: bytes) -> dict[str, Any]:
    """A rule as JSON has it; {} for another program's."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_stored(stored: Stored) -> bytes:
    """The JSON of a rule."""
    known = {name: value for name, value in stored.items() if value is not None}
    return json.dumps(known, ensure_ascii=False, sort_keys=True).encode()
