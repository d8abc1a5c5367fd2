"""The filter of the list. Python decides; indexes and Lua only make it faster. ``search_text`` compares text.

A query may use an index or scan the list; every session that it returns has passed ``SessionFilter.matches``. So a
plan, a setting or a stale entry changes only the cost of a query, never its result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.schema.conditions import (
    CONDITIONS,
    LIST_KINDS,
    MATCHED_FIELDS,
    AddressRange,
    MatchedField,
    SearchedSession,
    address_range_of,
    fields_with_text,
    json_pieces,
    typed_addresses,
    typed_needles,
)
from presence_core.text.search_text import Needle
from presence_core.text.typed_text import read_typed

_TRUE_OR_FALSE: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Conditions on sessions of the list. A session matches if it meets all given ones.

    ``text`` finds people as support staff type them. Case, accents and separators do not count; ``ø`` is ``o``, and
    "muller" and "mueller" find "Müller". It matches at the start of the uid, of the digits of a uid such as u1019, of a
    part of the name or of an alias, of an email domain, of the digits of a phone number; it matches the words of a name
    in any order, an IP address, a network, the whole octets of an address, and a whole session id. With an ``@``, and
    as an IP address, its separators count. Pasted text is cleaned of quotes, brackets, "mailto:", a port and so on:
    docs/lookup/search.md has a table.

    ``name_prefix`` (at each of the first 8 words) and ``name_contains`` are compared case- and accent-folded, white
    space single, and so is ``city``, as a whole; the facets (``device`` … ``browser``) and ``attributes`` exactly.
    Times are aware datetimes or Unix seconds. ``app_version_below`` compares the numbers of versions one by one, "2.9"
    before "2.10"; a session without a version, or with one that begins with no number, does not match. ``methods`` and
    ``mfa`` are those of the latest authentication, as ``login`` or ``reauthenticated`` recorded them: ``methods`` asks
    for all that it names. Of a session for which the site recorded none, ``mfa`` is False. ``idle_for`` and
    ``seen_within`` are seconds.

    ``without`` excludes the sessions that match another filter, which has at least one field and no ``without`` of its
    own. ``schema/conditions.py`` says what each field means.
    """

    text: str | None = None
    uid: str | None = None
    name_prefix: str | None = None
    name_contains: str | None = None
    ip: str | None = None
    device: str | None = None
    app: str | None = None
    app_version: str | None = None
    app_version_below: str | None = None
    os: str | None = None
    browser: str | None = None
    logged_in_after: Any = None
    logged_in_before: Any = None
    idle_for: int | None = None
    seen_within: int | None = None
    attributes: Mapping[str, Any] | None = None
    on_behalf: bool = False
    new_device: bool = False
    sign_in_required: bool = False
    distant: bool = False
    after_failures: bool = False
    moved: bool = False
    old_token: bool = False
    country: str | None = None
    network: str | None = None
    city: str | None = None
    idp_issuer: str | None = None
    idp_subject: str | None = None
    idp_session: str | None = None
    methods: Iterable[str] | None = None
    mfa: bool | None = None
    without: SessionFilter | None = None

    def __post_init__(self) -> None:
        for name, condition in CONDITIONS.items():
            value = getattr(self, name)
            if value is not condition.default:
                object.__setattr__(self, name, condition.check(name, value))
        after, before = self.after, self.before
        if after is not None and before is not None and after >= before:
            raise InvalidArgument("logged_in_after", "must be earlier than logged_in_before", "wrong_order")

    @property
    def given(self) -> tuple[str, ...]:
        """The fields that ask for something."""
        return tuple(name for name, condition in CONDITIONS.items() if condition.is_given(getattr(self, name)))

    @property
    def needs(self) -> tuple[str, ...]:
        """The fields that it or ``without`` asks for: a process that knows them all can read this filter."""
        return tuple(dict.fromkeys([*self.given, *(self.without.given if self.without else ())]))

    @property
    def lasting(self) -> SessionFilter:
        """The filter without the conditions that a session may meet now and no longer meet later."""
        drops_inner = self.without is not None and self.without.idle_for
        return replace(self, seen_within=None, without=None if drops_inner else self.without)

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
        return None if self.text is None else typed_addresses(self.text)

    @property
    def text_sessions(self) -> tuple[str, ...]:
        """The session ids that ``text`` may name."""
        return () if self.text is None else read_typed(self.text).sessions

    @property
    def text_session_starts(self) -> tuple[str, ...]:
        """What ``text`` may have of the start of a session id that the library made."""
        return () if self.text is None else read_typed(self.text).starts

    @property
    def text_owners(self) -> tuple[str, ...]:
        """The users of these sessions, where ``text`` names them."""
        return () if self.text is None else read_typed(self.text).uids

    @property
    def needles(self) -> tuple[Needle, ...]:
        """The ways to read ``text``."""
        return () if self.text is None else typed_needles(self.text)

    @property
    def digest(self) -> str:
        """The part of a cursor that ties it to this filter."""
        return blake2b(self.to_json().encode(), digest_size=6).hexdigest() if self.given else ""

    @property
    def pieces(self) -> list[str]:
        """Pieces that the JSON of equal attributes contains. Of numbers, which have many spellings, only the name."""
        return json_pieces(self.attributes or {})

    def to_json(self) -> str:
        """The filter as text, to be stored with a job: ``from_json`` reads it."""
        return json.dumps(self._plain(), sort_keys=True, ensure_ascii=False)

    def _plain(self) -> dict[str, Any]:
        known = {name: getattr(self, name) for name in self.given}
        for name, ms in (("logged_in_after", self.after), ("logged_in_before", self.before)):
            if ms is not None:
                known[name] = ms / 1000
        if self.without is not None:
            known["without"] = self.without._plain()
        return known

    @classmethod
    def from_json(cls, text: str) -> SessionFilter:
        """Read what ``to_json`` wrote."""
        stored = json.loads(text)
        if "without" in stored:
            stored["without"] = cls(**stored["without"])
        return cls(**stored)

    def matches(self, session: SearchedSession, now: int) -> bool:
        """Whether a session matches; ``now`` is ms since the epoch."""
        for name, condition in CONDITIONS.items():
            wanted = getattr(self, name)
            if condition.is_given(wanted):
                holds = condition.holds
                if not (holds(session, wanted, now) if holds else getattr(session, name) == wanted):
                    return False
        return True

    def matched_by(self, session: SearchedSession) -> tuple[MatchedField, ...]:
        """The fields of a matching session by which ``text``, ``uid``, ``ip`` and the name filters found it, in the
        order uid, name, alias, ip, session_id."""
        places = set(fields_with_text(session, self.text)) if self.text is not None else set()
        given = {"uid": self.uid, "name": self.name_prefix or self.name_contains, "ip": self.ip}
        return tuple(field for field in MATCHED_FIELDS if field in places or given.get(field) is not None)


def read_attributes(pairs: Iterable[str]) -> dict[str, Any]:
    """Attributes that were written as NAME=VALUE, VALUE being JSON or else text."""
    attributes: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidArgument("attribute", "must be NAME=VALUE", "malformed")
        if name in attributes:
            raise InvalidArgument("attribute", "must name each attribute once")
        try:
            attributes[name] = json.loads(value)
        except (ValueError, RecursionError):
            attributes[name] = value
    return attributes


def inner_filter(**fields: Any) -> SessionFilter:
    """The filter of ``without``. Errors name the field in it."""
    try:
        return SessionFilter(**fields)
    except InvalidArgument as error:
        raise InvalidArgument(f"without.{error.field}", error.rule, error.code) from None


def read_without(pairs: Iterable[str], read_time: Callable[[str, str], Any]) -> SessionFilter | None:
    """The filter of ``without`` that was written as FIELD=VALUE: fields and values as options and parameters have
    them, a flag as true or false. None without any. read_time: reads the time of a field."""
    fields: dict[str, Any] = {}
    lists: dict[str, list[str]] = {"attribute": [], "method": []}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.replace("-", "_")
        condition = CONDITIONS.get(name)
        if name in lists and equals:
            lists[name].append(value)
        elif not equals or condition is None or condition.kind in LIST_KINDS:
            raise InvalidArgument(
                "without", "must be FIELD=VALUE, FIELD being another filter: device=iPhone", "malformed"
            )
        elif name in fields:
            raise InvalidArgument("without", "must name each field once, but for attribute and method")
        elif condition.kind == "time":
            fields[name] = read_time(f"without.{name}", value)
        elif condition.kind == "seconds" and value.isdecimal():
            fields[name] = int(value)
        else:
            fields[name] = _TRUE_OR_FALSE.get(value, value) if condition.kind in ("flag", "yes_no") else value
    if not fields and not any(lists.values()):
        return None
    return inner_filter(
        **fields, attributes=read_attributes(lists["attribute"]) or None, methods=lists["method"] or None
    )


def facet_members(declared: Collection[str], attributes: Mapping[str, Any] | None) -> str:
    """The declared attributes as facets count them: name, zero byte, value as JSON; one a line."""
    known = attributes or {}
    return "\n".join(
        f"{name}\0{json.dumps(known[name], ensure_ascii=False, sort_keys=True, separators=(',', ':'))}"
        for name in declared
        if known.get(name) is not None
    )
