"""The conditions of ``SessionFilter``: its checks, the planner, options, parameters and documents follow this table.

Python decides whether a session has a value; what a condition sends to Lua only makes a search faster. Its tests are in
``lua/include/search/filter_tests.lua``. ``search_text`` compares text.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.schema.record import AFTER_FAILURES, DISTANT, MOVED, NEW_DEVICE, OLD_TOKEN, ON_BEHALF
from presence_core.text.addresses import parse_network
from presence_core.text.app_versions import is_below, version_key
from presence_core.text.search_text import Needle, fold, is_found, is_found_in_uid, is_made, needles, starts
from presence_core.text.typed_text import MAX_BYTES, MAX_PASTED, Typed, as_one_line, read_typed, size

MatchedField = Literal["uid", "name", "alias", "ip", "session_id"]
"""The field of a session that a search has found."""

MATCHED_FIELDS: Final[tuple[MatchedField, ...]] = get_args(MatchedField)

AddressRange = tuple[bytes, bytes]
"""The first and the last address of a network, each its family and its bytes."""

_DOTTED: Final = re.compile(r"(?:\d{1,3}\.){1,3}|\d{1,3}(?:\.\d{1,3}){1,2}", re.ASCII)
_COUNTRY: Final = re.compile(r"[A-Za-z]{2}", re.ASCII)
_GROUPS: Final = re.compile(r"(?=.*\d)((?:[0-9A-Fa-f]{1,4}:){1,7})(?::|([0-9A-Fa-f]{1,4}))?", re.ASCII)
_NETWORK: Final = re.compile(r"[Aa][Ss][1-9]\d{0,9}", re.ASCII)
_MISSING: Final = object()


class SearchedPlace(Protocol):
    """What a filter reads of a place."""

    @property
    def country(self) -> str | None: ...
    @property
    def city(self) -> str | None: ...
    @property
    def network_id(self) -> str | None: ...


class SearchedSession(Protocol):
    """What a filter reads of a session, besides the fields that have the name of a condition."""

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
    def on_behalf_by(self) -> str | None: ...
    @property
    def sign_in_required_at(self) -> datetime | None: ...
    @property
    def place(self) -> SearchedPlace | None: ...
    @property
    def login_at(self) -> datetime: ...
    @property
    def last_seen(self) -> datetime: ...
    @property
    def app_version(self) -> str | None: ...
    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def idp(self) -> Mapping[str, str] | None: ...


@runtime_checkable
class InnerFilter(Protocol):
    """What a filter reads of the one that excludes sessions."""

    @property
    def given(self) -> tuple[str, ...]: ...
    def matches(self, session: SearchedSession, now: int) -> bool: ...


# -- what values mean -------------------------------------------------------------------------------------------------


def address_range_of(value: object) -> AddressRange | None:
    """An IPv4 or IPv6 address, or a network in CIDR notation, as its first and last address."""
    network = parse_network(value) if isinstance(value, str) else None
    if network is None:
        return None
    family = b"4" if network.version == 4 else b"6"
    return family + network.network_address.packed, family + network.broadcast_address.packed


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


def _grouped(value: str) -> AddressRange | None:
    """Whole groups of an IPv6 address, such as "2001:db8:", "2001:db8:2" or "2001:db8::": of one group only with its
    colon."""
    found = _GROUPS.fullmatch(value)
    if not found:
        return None
    groups = [*found[1].removesuffix(":").split(":"), *([found[2]] if found[2] else [])]
    return address_range_of(":".join(groups) + f"{'::' if len(groups) < 8 else ''}/{16 * len(groups)}")


def _span(value: str) -> AddressRange | None:
    """From one address to another, such as "203.0.113.0-203.0.113.99"."""
    first, dash, last = map(str.strip, value.partition("-"))
    begin, end = address_range_of(first), address_range_of(last)
    if begin is None or end is None or not dash or "/" in value:
        return None
    low, high = begin[0], end[1]
    return (low, high) if low[:1] == high[:1] and low <= high else None


@lru_cache(maxsize=1024)
def typed_addresses(text: str) -> AddressRange | None:
    """The addresses that a search text means."""
    for written in read_typed(text).addresses:
        if found := _grouped(written) or address_range_of(written) or _dotted(written) or _span(written):
            return found
    return None


@lru_cache(maxsize=1024)
def typed_needles(text: str) -> tuple[Needle, ...]:
    """The ways to read a search text. The separators of an address count."""
    typed = read_typed(text)
    found = [needle for meant in typed.texts for needle in needles(meant, _is_address(meant.strip()))]
    found += [Needle(number, "", ()) for number in typed.numbers]
    return tuple(dict.fromkeys(found))


def _is_address(written: str) -> bool:
    return (address_range_of(written) or _dotted(written)) is not None


def json_pieces(attributes: Mapping[str, Any]) -> list[str]:
    """Pieces that the JSON of equal attributes contains. Of numbers, which have many spellings, only the name."""
    out = []
    for key, value in attributes.items():
        name = json.dumps(key, ensure_ascii=False) + ":"
        plain = value is None or isinstance(value, str | bool)
        out.append(name + json.dumps(value, ensure_ascii=False) if plain else name)
    return out


# -- checks: of name and value, return the value that a filter keeps --------------------------------------------------

_check_label: Final = partial(check.short, high=64)
_check_claim: Final = partial(check.short, high=check.MAX_CLAIM)
_check_family: Final = partial(check.short, high=4 * check.AGENT_LENGTH)  # what can be stored can be searched


_LONG_TEXT: Final = (
    f"must be text of 1 to {MAX_BYTES} bytes, or of up to {MAX_PASTED} characters with an email address, uid=…, "
    "an IP address, an international phone number or a session id"
)


def _check_text(name: str, value: object) -> str | None:
    """Also a text of several lines, or a longer one in which something can be found."""
    text = as_one_line(value) if isinstance(value, str) else value
    if isinstance(text, str) and size(text) > MAX_BYTES:
        raise InvalidArgument(name, _LONG_TEXT, "too_long")
    return _check_searchable(name, text)


def _check_searchable(name: str, value: object) -> str | None:
    text = check.short(name, value, MAX_BYTES)
    if text is not None and not fold(text):
        raise InvalidArgument(name, "must have a letter or digit", "not_searchable")
    return text


def _check_addresses(name: str, value: object) -> object:
    if address_range_of(value) is None:
        raise InvalidArgument(name, "must be an IPv4 or IPv6 address, or a network such as 192.0.2.0/24", "malformed")
    return value


def _check_country(name: str, value: object) -> str:
    country = _check_label(name, value) or ""
    if not _COUNTRY.fullmatch(country):
        raise InvalidArgument(name, "must be the two letters of an ISO country code, such as FR", "malformed")
    return country.upper()


def _check_city(name: str, value: object) -> str:
    city = _check_label(name, value) or ""
    if not fold(city):
        raise InvalidArgument(name, "must have a letter or digit", "not_searchable")
    return city


def _check_network(name: str, value: object) -> str:
    network = _check_label(name, value) or ""
    if not _NETWORK.fullmatch(network):
        raise InvalidArgument(name, "must be the number of a network (AS number), such as AS64500", "not_an_as_number")
    return network.upper()


def _check_time(name: str, value: object) -> object:
    check.time_ms(name, value)
    return value


def _check_flag(name: str, value: object) -> object:
    if not isinstance(value, bool):
        raise InvalidArgument(name, "must be True or False", "wrong_type")
    return value


def _check_methods(name: str, value: object) -> object:
    """In one order, because their order does not count."""
    return tuple(sorted(check.method_names(name, value)))


def _check_version(name: str, value: object) -> str | None:
    version = _check_label(name, value)
    if version is not None and version_key(version) is None:
        raise InvalidArgument(name, "must be a version that begins with a number, such as 2.10", "malformed")
    return version


def _check_inner(name: str, value: object) -> object:
    if isinstance(value, type) or not isinstance(value, InnerFilter):
        raise InvalidArgument(name, "must be a SessionFilter", "wrong_type")
    if not value.given:
        raise InvalidArgument(name, "must have at least one field: else no session matches", "required")
    if name in value.given:
        raise InvalidArgument(name, f"must not have a {name} of its own", "too_deep")
    return value


def _check_attributes(_name: str, value: object) -> object:
    """As JSON has them, and a copy that no caller can change."""
    return json.loads(check.attributes(value) or b"{}")


# -- whether a session has a value, and what is sent to Lua -----------------------------------------------------------


def fields_with_text(session: SearchedSession, text: str) -> Iterator[MatchedField]:
    """The fields of a session that have a search text."""
    found, typed = typed_needles(text), read_typed(text)
    if is_found_in_uid(found, session.uid):
        yield "uid"
    if session.name and is_found(found, session.name, is_name=True):
        yield "name"
    if any(is_found(found, alias) for alias in session.aliases):
        yield "alias"
    if _is_within(session, typed_addresses(text)):
        yield "ip"
    if _is_named(session, typed):
        yield "session_id"


def _is_named(session: SearchedSession, typed: Typed) -> bool:
    if typed.uids and session.uid not in typed.uids:
        return False
    known = session.session_id
    return known in typed.sessions or (known.startswith(typed.starts) and is_made(known))


def _is_within(session: SearchedSession, addresses: AddressRange | None) -> bool:
    first, last = addresses or (b"", b"")
    return any(len(ip) == len(first) > 0 and first <= ip <= last for ip in map(packed, {session.ip, session.last_ip}))


def _has_claim(claim: str, session: SearchedSession, value: str, _now: int) -> bool:
    return session.idp is not None and session.idp.get(claim) == value


def _send_claim(claim: str, value: str) -> Sent:
    return {f"idp_{claim}": value}


def _has_word(session: SearchedSession, start: str, _now: int) -> bool:
    return any(text.startswith(fold(start)) for text in starts(fold(session.name or "")))


def _ms(at: datetime | float) -> int:
    return round(1000 * (at.timestamp() if isinstance(at, datetime) else at))


def _is_in_city(session: SearchedSession, city: str, _now: int) -> bool:
    return session.place is not None and session.place.city is not None and fold(session.place.city) == fold(city)


def _has_attributes(session: SearchedSession, wanted: Mapping[str, Any], _now: int) -> bool:
    return all(_same(session.attributes.get(key, _MISSING), value) for key, value in wanted.items())


def _same(ours: object, wanted: object) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(ours, list) and isinstance(wanted, list):
        return len(ours) == len(wanted) and all(map(_same, ours, wanted))
    if isinstance(ours, dict) and isinstance(wanted, dict):
        return ours.keys() == wanted.keys() and all(_same(ours[key], wanted[key]) for key in wanted)
    return isinstance(ours, bool) == isinstance(wanted, bool) and ours == wanted


def _has_methods(session: SearchedSession, wanted: tuple[str, ...], _now: int) -> bool:
    return set(wanted) <= set(session.methods)


def _idle_ms(session: SearchedSession, now: int) -> int:
    return now - _ms(session.last_seen)


def _send_addresses(addresses: AddressRange | None, first: str, last: str) -> Sent:
    return {} if addresses is None else {first: addresses[0], last: addresses[1]}


def _send_text(text: str) -> Sent:
    sent, typed = {"text": json.dumps(typed_needles(text), ensure_ascii=False)}, read_typed(text)
    if typed.sessions or typed.starts:
        sent |= {"text_sessions": "\n".join(typed.sessions), "text_session_starts": "\n".join(typed.starts)}
        sent |= {"text_owners": "\n".join(typed.uids)}
    return {**sent, **_send_addresses(typed_addresses(text), "text_from", "text_to")}


# -- the table --------------------------------------------------------------------------------------------------------

Kind = Literal[
    "text",
    "client",
    "agent",
    "place",
    "version",
    "time",
    "seconds",
    "flag",
    "yes_no",
    "methods",
    "attributes",
    "filter",
]
"""What a value is. Facets count a field of the client, of its user agent (agent) and of the place of its address. A
flag asks for something only if it is True, yes_no also if it is False."""

LIST_KINDS: Final[Mapping[Kind, str]] = {"attributes": "attribute", "methods": "method", "filter": "without"}
"""Kinds whose values options and queries take one by one → the name of that option or parameter."""

Sent = Mapping[str, str | bytes | int]
"""Names and values for ``lua/include/search/filter_tests.lua``."""


class Condition(NamedTuple):
    """What a field of SessionFilter asks for, if it has a value: not None, False or empty."""

    kind: Kind
    words: str  #: for the help of the command, of HTTP and of the reference
    check: Callable[[str, Any], object]  #: of name and value: returns the value that a filter keeps
    holds: Callable[[SearchedSession, Any, int], bool] | None = None
    """Whether a session has the value, now (ms). None: its field of the same name is equal."""
    sends: Callable[[Any], Sent] = lambda _: {}  #: the tests of Lua
    way: str | None = None  #: to the sessions, by an index that has tested this already: see WayName
    person: bool = False  #: the value may name a person: masked for some roles, removed by an erasure
    label: str | None = None  #: the field of a client or of its user agent that it compares, of which labels have texts
    fits: Callable[[str, Any], bool] = str.__eq__  #: whether the text of a label, of this field, has the value

    @property
    def default(self) -> bool | None:
        return False if self.kind == "flag" else None

    def is_given(self, value: object) -> bool:
        """Whether a value asks for something."""
        return value is not None if self.kind == "yes_no" else bool(value)


CONDITIONS: Final[Mapping[str, Condition]] = {
    "text": Condition("text", "a person (uid, name, email, domain, phone), an IP address or network, or a session id",
                      _check_text, lambda session, text, _: any(fields_with_text(session, text)), _send_text,
                      way="text", person=True),
    "uid": Condition("text", "sessions of this user", lambda _, value: check.uid(value), sends=lambda uid: {"uid": uid},
                     way="uid"),
    "name_prefix": Condition("text", "start of a word of the name", _check_searchable, _has_word,
                             lambda start: {"prefix": fold(start)}, way="name", person=True),
    "name_contains": Condition("text", "part of the name", _check_searchable,
                               lambda session, part, _: fold(part) in fold(session.name or ""),
                               lambda part: {"contains": fold(part)}, person=True),
    "ip": Condition("text", "IP address at login or the latest, or a network such as 192.0.2.0/24",
                    _check_addresses, lambda session, ip, _: _is_within(session, address_range_of(ip)),
                    lambda ip: _send_addresses(address_range_of(ip), "from", "to"), way="ip", person=True),
    "device": Condition("client", "device, as the site named it at login", _check_label, label="device"),
    "app": Condition("client", "app, as the site named it at login", _check_label, label="app"),
    "app_version": Condition("client", "version of the app, as the site named it at login", _check_label,
                             label="app_version"),
    "app_version_below": Condition("version", "version of the app lower than this, compared by its numbers",
                                   _check_version, lambda session, limit, _: is_below(session.app_version, limit),
                                   label="app_version", fits=is_below),
    "os": Condition("agent", "family of the operating system, from the user agent", _check_family, label="os"),
    "browser": Condition("agent", "family of the browser, from the user agent", _check_family, label="browser"),
    "logged_in_after": Condition("time", "login at this time or later", _check_time,
                                 lambda session, at, _: _ms(session.login_at) >= _ms(at),
                                 lambda at: {"login_from": _ms(at)}, way="login"),
    "logged_in_before": Condition("time", "login before this time", _check_time,
                                  lambda session, at, _: _ms(session.login_at) < _ms(at),
                                  lambda at: {"login_before": _ms(at)}, way="login"),
    "idle_for": Condition("seconds", "not seen for at least this many seconds",
                          partial(check.whole, low=0, high=check.TEN_YEARS),
                          lambda session, seconds, now: _idle_ms(session, now) >= seconds * 1000,
                          lambda seconds: {"idle": seconds * 1000}),
    "seen_within": Condition("seconds", "seen at most this many seconds ago", check.seconds,
                             lambda session, seconds, now: _idle_ms(session, now) <= seconds * 1000,
                             lambda seconds: {"seen": seconds * 1000}),
    "attributes": Condition("attributes", "each of these has this value", _check_attributes, _has_attributes,
                            lambda wanted: {f"attribute:{n}": piece for n, piece in enumerate(json_pieces(wanted))}),
    "on_behalf": Condition("flag", "only sessions of staff on behalf of their user", _check_flag,
                           lambda session, _, __: session.on_behalf_by is not None, lambda _: {"flags": ON_BEHALF}),
    "new_device": Condition("flag", "only sessions on a device that was new to their user", _check_flag,
                            sends=lambda _: {"flags": NEW_DEVICE}),
    "sign_in_required": Condition("flag", "only sessions whose visitor must sign in again", _check_flag,
                                  lambda session, _, __: session.sign_in_required_at is not None,
                                  lambda _: {"sign_in_required": 1}),
    "distant": Condition("flag", "only sessions farther from the place before than a plane flies", _check_flag,
                         sends=lambda _: {"flags": DISTANT}),
    "after_failures": Condition("flag", "only sessions that began after five or more failed sign-ins", _check_flag,
                                sends=lambda _: {"flags": AFTER_FAILURES}),
    "moved": Condition("flag", "only sessions that have moved: to another country, or to another network and browser",
                       _check_flag, sends=lambda _: {"flags": MOVED}),
    "old_token": Condition("flag", "only sessions of which an old token was used after its grace", _check_flag,
                           sends=lambda _: {"flags": OLD_TOKEN}),
    "country": Condition("place", "country of the address at login, its ISO code, such as FR", _check_country,
                         lambda session, code, _: session.place is not None and session.place.country == code,
                         lambda code: {"country": code}),
    "network": Condition("place", "network of the address at login, its AS number, such as AS64500", _check_network,
                         lambda session, code, _: session.place is not None and session.place.network_id == code,
                         lambda code: {"network": code.removeprefix("AS")}),
    "city": Condition("text", "city of the address at login, as the place file names it, such as Lyon", _check_city,
                      _is_in_city, lambda city: {"city": fold(city)}),
    "idp_issuer": Condition("text", "identity provider that has signed the user in, its issuer", _check_claim,
                            partial(_has_claim, "iss"), partial(_send_claim, "iss")),
    "idp_subject": Condition("text", "user of the identity provider, the subject", _check_claim,
                             partial(_has_claim, "sub"), partial(_send_claim, "sub"), person=True),
    "idp_session": Condition("text", "session of the identity provider, its sid", _check_claim,
                             partial(_has_claim, "sid"), partial(_send_claim, "sid"), person=True),
    "methods": Condition("methods", "all these methods are among those of the latest sign-in, such as pwd",
                         _check_methods, _has_methods, lambda names: {"methods": "\n".join(names)}),
    "mfa": Condition("yes_no", "whether the latest sign-in had several factors", _check_flag,
                     sends=lambda is_wanted: {"mfa": int(is_wanted)}),
    "without": Condition("filter", "leave out the sessions that match all of these fields of a filter", _check_inner,
                         lambda session, inner, now: not inner.matches(session, now)),
}  # fmt: skip


def names_of_kind(kind: Kind) -> tuple[str, ...]:
    return tuple(name for name, condition in CONDITIONS.items() if condition.kind == kind)


CLIENT_FIELDS: Final = names_of_kind("client")
AGENT_FIELDS: Final = names_of_kind("agent")
PLACE_FIELDS: Final = names_of_kind("place")
FACETS: Final = (*CLIENT_FIELDS, *AGENT_FIELDS, *PLACE_FIELDS)
"""The facets of every site. ``Settings.facets`` adds attributes."""

PERSON_FIELDS: Final = tuple(name for name, condition in CONDITIONS.items() if condition.person)
"""Their value may name one person: masked for some roles, and removed from stored filters by an erasure."""
