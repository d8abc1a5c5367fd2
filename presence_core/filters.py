"""The filter of the list. Python decides; indexes and Lua only make it faster. ``search_text`` compares text.

A query may use an index or scan the list; every session that it returns has passed ``SessionFilter.matches``. So a
plan, a setting or a stale entry changes only the cost of a query, never its result.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, get_args

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.settings import AGENT_FIELDS, CLIENT_FIELDS, FACETS
from presence_core.text.search_text import Needle, fold, is_found, is_found_in_uid, needles, starts

_DOTTED = re.compile(r"(?:\d{1,3}\.){1,3}|\d{1,3}(?:\.\d{1,3}){1,2}", re.ASCII)
_COUNTRY = re.compile(r"[A-Za-z]{2}", re.ASCII)
_NETWORK = re.compile(r"[Aa][Ss][1-9]\d{0,9}", re.ASCII)
_CIDR = re.compile(r"[0-9A-Fa-f:.]+(?:/\d{1,3})?")

MatchedField = Literal["uid", "name", "alias", "ip", "session_id"]
"""The field of a session that a search has found."""

PERSON_FIELDS: Final = ("text", "name_prefix", "name_contains", "ip")
"""Fields whose value may name one person: masked for some roles, and removed from stored filters by an erasure."""

MATCHED_FIELDS: Final[tuple[MatchedField, ...]] = get_args(MatchedField)

AddressRange = tuple[bytes, bytes]
"""The first and the last address of a network, each its family and its bytes."""


# -- addresses --------------------------------------------------------------------------------------------------------


def address_range_of(value: object) -> AddressRange | None:
    """An IPv4 or IPv6 address, or a network in CIDR notation, as its first and last address."""
    if not isinstance(value, str) or not _CIDR.fullmatch(value):
        return None
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError:
        return None
    first, last = network.network_address, network.broadcast_address
    if isinstance(first, ipaddress.IPv6Address) and network.prefixlen >= 96 and first.ipv4_mapped:
        assert isinstance(last, ipaddress.IPv6Address)
        return b"4" + first.packed[12:], b"4" + last.packed[12:]
    family = b"4" if first.version == 4 else b"6"
    return family + first.packed, family + last.packed


def _dotted(value: str) -> AddressRange | None:
    """Whole octets, such as "192.0." or "192.0": of one octet only with its dot."""
    if not _DOTTED.fullmatch(value):
        return None
    octets = value.removesuffix(".").split(".")
    return address_range_of(".".join(octets + ["0"] * (4 - len(octets))) + f"/{8 * len(octets)}")


def packed(ip: str | None) -> bytes:
    """An address of a session in the form that ranges of addresses compare."""
    if ip is None:
        return b""
    address = ipaddress.ip_address(ip)
    return (b"4" if address.version == 4 else b"6") + address.packed


# -- the filter -------------------------------------------------------------------------------------------------------


class SearchedPlace(Protocol):
    """What a filter reads of a place."""

    @property
    def country(self) -> str | None: ...
    @property
    def network_id(self) -> str | None: ...


class SearchedSession(Protocol):
    """What a filter reads of a session, besides the facets."""

    @property
    def uid(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def ip(self) -> str | None: ...
    @property
    def last_ip(self) -> str | None: ...
    @property
    def attributes(self) -> Mapping[str, Any]: ...
    @property
    def new_device(self) -> bool: ...
    @property
    def on_behalf_by(self) -> str | None: ...
    @property
    def sign_in_required_at(self) -> datetime | None: ...
    @property
    def place(self) -> SearchedPlace | None: ...
    @property
    def distant(self) -> bool: ...
    @property
    def login_at(self) -> datetime: ...
    @property
    def last_seen(self) -> datetime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Conditions on sessions of the list. A session matches if it meets all given ones.

    ``text`` finds people as support staff type them. Case, accents and separators do not count; ``ø`` is ``o``, and
    "muller" and "mueller" find "Müller". It matches at the start of the uid, of the digits of a uid such as u1019, of a
    part of the name or of an alias, of an email domain, of the digits of a phone number; it matches the words of a name
    in any order, an IP address, a network, the whole octets of an address, and a whole session id. With an ``@``, and
    as an IP address, its separators count.

    ``name_prefix`` and ``name_contains`` are compared case- and accent-folded, white space single; the facets
    (``device`` … ``browser``) and ``attributes`` exactly.
    """

    text: str | None = None  #: a person, an address or a session, as above
    uid: str | None = None  #: the sessions of this user
    name_prefix: str | None = None  #: the start of the name, or of one of its first 8 words
    name_contains: str | None = None  #: a part of the name
    ip: str | None = None  #: the address at login or the latest, or its network: "192.0.2.7", "2001:db8::/32"
    device: str | None = None  #: as the site named it at login
    app: str | None = None  #: the same
    app_version: str | None = None  #: the same
    os: str | None = None  #: the family, as the user agent says
    browser: str | None = None  #: the same
    logged_in_after: Any = None  #: at this moment or later: an aware datetime, or Unix seconds
    logged_in_before: Any = None  #: before this moment: an aware datetime, or Unix seconds
    idle_for: int | None = None  #: not seen for at least so many seconds; 0 asks for nothing
    attributes: Mapping[str, Any] | None = None  #: each of these has this value
    on_behalf: bool = False  #: True: only sessions of staff on behalf of their user
    new_device: bool = False  #: True: only sessions on a device that was new to their user
    sign_in_required: bool = False  #: True: only sessions that staff refuse until their visitor signs in again
    distant: bool = False  #: True: only sessions that began far from the place of the login before
    country: str | None = None  #: of the address at login, its ISO code: "FR"
    network: str | None = None  #: of the address at login, its AS number: "AS64500"

    def __post_init__(self) -> None:
        if self.uid is not None:
            check.uid(self.uid)
        for name in ("text", "name_prefix", "name_contains"):
            value = getattr(self, name)
            if value is not None:
                check.short(name, value, 256)
                if not fold(value):
                    raise InvalidArgument(name, "must have a letter or digit")
        if self.ip is not None and address_range_of(self.ip) is None:
            raise InvalidArgument("ip", "must be an IPv4 or IPv6 address, or a network such as 192.0.2.0/24")
        for name in FACETS:
            check.short(name, getattr(self, name), 64)
        self._check_place()
        after, before = self.after, self.before
        if after is not None and before is not None and after >= before:
            raise InvalidArgument("logged_in_after", "must be earlier than logged_in_before")
        if self.idle_for is not None:
            check.whole("idle_for", self.idle_for, 0, check.TEN_YEARS)
        for name in ("new_device", "on_behalf", "sign_in_required", "distant"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(name, "must be True or False")
        if self.attributes is not None:  # as JSON has them, and a copy that no caller can change
            object.__setattr__(self, "attributes", json.loads(check.attributes(self.attributes) or b"{}"))

    def _check_place(self) -> None:
        for name, form, rule in (
            ("country", _COUNTRY, "must be the two letters of an ISO country code, such as FR"),
            ("network", _NETWORK, "must be the number of a network (AS number), such as AS64500"),
        ):
            value = getattr(self, name)
            if value is not None and not form.fullmatch(value):
                raise InvalidArgument(name, rule)
            if value is not None:
                object.__setattr__(self, name, value.upper())

    @property
    def given(self) -> tuple[str, ...]:
        """The fields that ask for something."""
        return tuple(item.name for item in fields(self) if getattr(self, item.name) not in (None, 0, {}))

    @property
    def after(self) -> int | None:
        """The earliest login, ms."""
        return None if self.logged_in_after is None else check.time_ms("logged_in_after", self.logged_in_after)

    @property
    def before(self) -> int | None:
        """Logins earlier than this, ms."""
        return None if self.logged_in_before is None else check.time_ms("logged_in_before", self.logged_in_before)

    @property
    def addresses(self) -> AddressRange | None:
        """The addresses of ``ip``."""
        return address_range_of(self.ip)

    @property
    def text_addresses(self) -> AddressRange | None:
        """The addresses of ``text``, where it is written as such."""
        return None if self.text is None else address_range_of(self.text.strip()) or _dotted(self.text.strip())

    @property
    def text_session(self) -> str | None:
        """The session id that ``text`` may be."""
        return self.text.strip() if self.text is not None and check.is_session_id(self.text.strip()) else None

    @property
    def needles(self) -> tuple[Needle, ...]:
        """The ways to read ``text``."""
        return () if self.text is None else needles(self.text, self.text_addresses is not None)

    @property
    def digest(self) -> str:
        """The part of a cursor that ties it to this filter."""
        return blake2b(self.to_json().encode(), digest_size=6).hexdigest() if self.given else ""

    @property
    def pieces(self) -> list[str]:
        """Pieces that the JSON of equal attributes contains. Of numbers, which have many spellings, only the name."""
        out = []
        for key, value in (self.attributes or {}).items():
            name = json.dumps(key, ensure_ascii=False) + ":"
            plain = value is None or isinstance(value, str | bool)
            out.append(name + json.dumps(value, ensure_ascii=False) if plain else name)
        return out

    def to_json(self) -> str:
        """The filter as text, to be stored with a job: ``from_json`` reads it."""
        known = {name: getattr(self, name) for name in self.given}
        for name, ms in (("logged_in_after", self.after), ("logged_in_before", self.before)):
            if ms is not None:
                known[name] = ms / 1000
        return json.dumps(known, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> SessionFilter:
        """Read what ``to_json`` wrote."""
        return cls(**json.loads(text))

    def matches(self, session: SearchedSession, now: int) -> bool:
        """Whether a session matches; ``now`` is ms since the epoch."""
        return (
            (self.uid is None or session.uid == self.uid)
            and (session.new_device or not self.new_device)
            and (session.on_behalf_by is not None or not self.on_behalf)
            and (session.sign_in_required_at is not None or not self.sign_in_required)
            and (session.distant or not self.distant)
            and self._matches_facets(session)
            and self._matches_place(session.place)
            and self._matches_times(session, now)
            and ((addresses := self.addresses) is None or _is_from(session, addresses))
            and self._matches_names(session)
            and self._matches_attributes(session)
        )

    def _matches_facets(self, session: SearchedSession) -> bool:
        return not any(
            (wanted := getattr(self, name)) is not None and getattr(session, name) != wanted
            for name in (*CLIENT_FIELDS, *AGENT_FIELDS)
        )

    def _matches_place(self, place: SearchedPlace | None) -> bool:
        return (self.country is None or (place is not None and place.country == self.country)) and (
            self.network is None or (place is not None and place.network_id == self.network)
        )

    def _matches_times(self, session: SearchedSession, now: int) -> bool:
        login, after, before = round(session.login_at.timestamp() * 1000), self.after, self.before
        if (after is not None and login < after) or (before is not None and login >= before):
            return False
        return not self.idle_for or now - round(session.last_seen.timestamp() * 1000) >= self.idle_for * 1000

    def _matches_names(self, session: SearchedSession) -> bool:
        name = fold(session.name or "")
        if self.name_contains is not None and fold(self.name_contains) not in name:
            return False
        if self.name_prefix is not None and not _any_start(name, fold(self.name_prefix)):
            return False
        return self.text is None or any(self._places_of_text(session))

    def _matches_attributes(self, session: SearchedSession) -> bool:
        wanted = self.attributes or {}
        return all(_same(session.attributes.get(key, _MISSING), value) for key, value in wanted.items())

    def _places_of_text(self, session: SearchedSession) -> Iterator[MatchedField]:
        """The fields of a session that have ``text``."""
        assert self.text is not None
        found = self.needles
        if is_found_in_uid(found, session.uid):
            yield "uid"
        if session.name and is_found(found, session.name, is_name=True):
            yield "name"
        if any(is_found(found, alias) for alias in session.aliases):
            yield "alias"
        if (addresses := self.text_addresses) is not None and _is_from(session, addresses):
            yield "ip"
        if session.session_id == self.text_session:
            yield "session_id"

    def matched_by(self, session: SearchedSession) -> tuple[MatchedField, ...]:
        """The fields of a matching session by which ``text``, ``uid``, ``ip`` and the name filters found it, in the
        order uid, name, alias, ip, session_id."""
        places = set(self._places_of_text(session)) if self.text is not None else set()
        given = {"uid": self.uid, "name": self.name_prefix or self.name_contains, "ip": self.ip}
        return tuple(field for field in MATCHED_FIELDS if field in places or given.get(field) is not None)


_MISSING: Final = object()


def _any_start(folded: str, needle: str) -> bool:
    return any(text.startswith(needle) for text in starts(folded))


def _is_from(session: SearchedSession, addresses: AddressRange) -> bool:
    return any(_within(ip, addresses) for ip in {session.ip, session.last_ip})


def _within(ip: str | None, addresses: AddressRange) -> bool:
    address = packed(ip)
    return len(address) == len(addresses[0]) and addresses[0] <= address <= addresses[1]


def _same(ours: object, wanted: object) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(ours, list) and isinstance(wanted, list):
        return len(ours) == len(wanted) and all(map(_same, ours, wanted))
    if isinstance(ours, dict) and isinstance(wanted, dict):
        return ours.keys() == wanted.keys() and all(_same(ours[key], wanted[key]) for key in wanted)
    return isinstance(ours, bool) == isinstance(wanted, bool) and ours == wanted


def read_attributes(pairs: Iterable[str]) -> dict[str, Any]:
    """Attributes that were written as NAME=VALUE, VALUE being JSON or else text."""
    attributes: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidArgument("attribute", "must be NAME=VALUE")
        if name in attributes:
            raise InvalidArgument("attribute", "must name each attribute once")
        try:
            attributes[name] = json.loads(value)
        except (ValueError, RecursionError):
            attributes[name] = value
    return attributes


def facet_members(declared: Collection[str], attributes: Mapping[str, Any] | None) -> str:
    """The declared attributes as facets count them: name, zero byte, value as JSON; one a line."""
    known = attributes or {}
    return "\n".join(
        f"{name}\0{json.dumps(known[name], ensure_ascii=False, sort_keys=True, separators=(',', ':'))}"
        for name in declared
        if known.get(name) is not None
    )
