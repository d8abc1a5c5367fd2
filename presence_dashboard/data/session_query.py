"""The query of the list of sessions: in the page's address, and as a filter.

Only the address keeps it, so that every list can be linked: ``/?q=okafor&device=iPhone&login=today&idle=1800``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, get_args

from presence_core import InvalidArgument, ListOrder, SessionFilter
from presence_core.schema.conditions import PLACE_FIELDS
from presence_dashboard import texts, time_range
from presence_dashboard.format import code, cut
from presence_dashboard.texts import english

FACETS: Final = tuple(english.FACET_LABELS)
"""Facets of every site. Declared attributes follow them."""

CITY: Final = "city"
"""Chosen like a facet, and not counted: a place file names many."""

MASKED_FACETS: Final = ("device", *PLACE_FIELDS, CITY)
"""Not for roles from which something of people is hidden: many people call a device by their own name."""

ATTRIBUTE: Final = "attr."
"""Prefix of attributes in the address, where their names could clash with other parameters."""

FLAGS: Final = tuple(english.FLAG_WORDS)
"""What is special about a session: fields of SessionFilter."""

ORDER: Final = "sort"
"""The parameter of the address that has the order of the list."""

ORDERS: Final[tuple[ListOrder, ...]] = get_args(ListOrder)

IDLES: Final = (300, 1_800, 3_600, 86_400)
SEEN: Final = (60, 300, 900, 3_600)
MAX_IDLE: Final = 315_360_000

MFA: Final = {"yes": True, "no": False}

CHOICES: Final = ("login", "idle", "seen", "flag", "method", "mfa", "below")
"""Parameters of the address that are fields of SessionQuery, and no facets."""

_LIKE_AN_ADDRESS: Final = re.compile(r"\d{1,3}(\.\d{0,3}){1,3}(/\d*)?|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(/\d*)?")
_LIKE_A_NETWORK: Final = re.compile(r"[0-9A-Fa-f:.]*[.:][0-9A-Fa-f:.]*/\d*")
_START_OF_IPV6: Final = re.compile(r"(?=.*\d)([0-9A-Fa-f]{1,4}:){1,7}")  # whole groups; "Ada:" may be a name


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions the list shows. Empty: all."""

    text: str = ""
    inside: bool = False  #: the text may be anywhere in the name
    exact: bool = False  #: the text must be the exact user id, for roles that may not see names
    facets: tuple[tuple[str, str], ...] = ()
    login: str = ""  #: a range of time, see time_range
    idle: str = ""  #: seconds
    seen: str = ""  #: seconds
    flag: str = ""  #: one of FLAGS
    method: str = ""  #: of the sign-in; several with commas
    mfa: str = ""  #: one of MFA
    below: str = ""  #: a version of the app
    order: ListOrder = "login"  #: of the list; it narrows nothing

    @property
    def is_everyone(self) -> bool:
        return not (self.text or self.is_filtered)

    @property
    def is_filtered(self) -> bool:
        """Whether more than the text of the search box narrows the list."""
        return bool(self.facets) or any(getattr(self, name) for name in CHOICES)

    def filter(self, now: datetime, zone: tzinfo) -> SessionFilter | None:
        """The query as a filter; None matches everyone. Raises InvalidArgument."""
        if self.is_everyone:
            return None
        fields: dict[str, Any] = {field: value for field, value in self.facets if not field.startswith(ATTRIBUTE)}
        attributes = {
            field.removeprefix(ATTRIBUTE): _value(value) for field, value in self.facets if field.startswith(ATTRIBUTE)
        }
        if attributes:
            fields["attributes"] = attributes
        fields |= self._text() | _flag(self.flag)
        after, before = time_range.resolve(self.login, now, zone)
        fields |= {"logged_in_after": after, "logged_in_before": before}
        fields |= {"idle_for": _seconds("idle", self.idle), "seen_within": _seconds("seen", self.seen)}
        fields |= {"methods": methods_of(self.method) or None, "mfa": _mfa(self.mfa)}
        fields |= {"app_version_below": self.below or None}
        return SessionFilter(**fields)

    def _text(self) -> dict[str, str]:
        if not self.text:
            return {}
        if self.exact:
            return {"uid": self.text}
        if self.inside:
            return {"name_contains": self.text}
        if _LIKE_A_NETWORK.fullmatch(self.text):
            return {"ip": self.text}  # an error for a wrong address is better than no match
        if _START_OF_IPV6.fullmatch(self.text):
            return {"ip": f"{self.text}:/{16 * self.text.count(':')}"}
        return {"text": self.text}

    @property
    def may_name_a_person(self) -> bool:
        """Whether the text may find people who are offline: not if it is an address or a network."""
        return bool(self.text) and (self.exact or not _LIKE_AN_ADDRESS.fullmatch(self.text))

    @property
    def is_part_of_a_name(self) -> bool:
        """Whether a search inside names may find more: not for addresses or exact user ids."""
        return bool(self.text) and not (self.inside or self.exact) and not re.fullmatch(r"[\d.:/]+", self.text)


def facets_for(*, exact: bool) -> tuple[str, ...]:
    """The facets of a role. exact: as in SessionQuery."""
    return tuple(field for field in FACETS if not (exact and field in MASKED_FACETS))


def _fields_for(*, exact: bool) -> tuple[str, ...]:
    return facets_for(exact=exact) if exact else (*FACETS, CITY)


def parameters(attributes: Sequence[str]) -> tuple[str, ...]:
    """The names of an address that narrow the list, besides ``q``."""
    return ("inside", *FACETS, CITY, *(ATTRIBUTE + name for name in attributes), *CHOICES)


def query_of(address: Mapping[str, str], text: str, declared: Sequence[str], *, exact: bool) -> SessionQuery:
    """The query in the page's address. text: of the search box, which writes it to the address itself."""
    wanted = text.strip()
    names = (*_fields_for(exact=exact), *(ATTRIBUTE + name for name in declared))
    return SessionQuery(
        text=wanted,
        inside=bool(wanted) and not exact and address.get("inside") == wanted,
        exact=exact,
        facets=tuple((name, address[name]) for name in names if address.get(name)),
        **{name: address.get(name, "") for name in CHOICES},
        order="last_seen" if address.get(ORDER) == "last_seen" else "login",
    )


def faults(
    address: Mapping[str, Sequence[str]],
    query: SessionQuery,
    declared: Sequence[str] | None,
    now: datetime,
    zone: tzinfo,
) -> dict[str, str]:
    """What is wrong with a link: parameter → a sentence that is safe for Markdown.

    declared: the site's attributes, None if not known. The search text is not checked: the reader can see and edit it.
    """
    known = {"q", "inside", ORDER, *CHOICES, *_fields_for(exact=query.exact)}
    known.update(ATTRIBUTE + name for name in declared or ())
    wrong = {}
    for name, values in address.items():
        shown = code(cut(name, 40))
        if name not in known and not (declared is None and name.startswith(ATTRIBUTE)):
            wrong[name] = texts.link_unknown(shown)
        elif name == "q" or (name == "inside" and query.exact):
            continue
        elif len(values) > 1:
            wrong[name] = texts.link_twice(shown)
        elif not values[0]:
            wrong[name] = texts.link_empty(shown)
        elif (rule := _rule_broken(name, values[0], query, now, zone)) is not None:
            wrong[name] = texts.link_value(shown, rule)
    return wrong


def is_valid(name: str, value: str) -> bool:
    """Whether one of CHOICES can have this value. Not for times of login, which depend on the reader's clock."""
    return _rule_broken(name, value, SessionQuery(), datetime.now(UTC), UTC) is None


def _rule_broken(name: str, value: str, query: SessionQuery, now: datetime, zone: tzinfo) -> str | None:
    """The rule that the value of a known parameter breaks, if any."""
    if name == "inside":
        return None if query.inside else texts.LINK_INSIDE
    if name == ORDER:
        return None if value in ORDERS else texts.SORT_MALFORMED
    only = {name: value} if name in CHOICES else {}
    single = SessionQuery(**only) if only else SessionQuery(facets=((name, value),))  # type: ignore[arg-type]
    try:
        single.filter(now, zone)
    except InvalidArgument as error:
        if error.field == "logged_in_after":
            return texts.TIME_BACKWARDS
        return {
            "login": texts.TIME_MALFORMED,
            "idle": texts.idle_malformed(MAX_IDLE),
            "seen": texts.seen_malformed(MAX_IDLE),
            "flag": texts.flag_malformed(", ".join(FLAGS)),
            "method": texts.METHOD_MALFORMED,
            "mfa": texts.MFA_MALFORMED,
            "below": texts.VERSION_MALFORMED,
        }.get(name, "")
    return None


def _seconds(name: str, seconds: str) -> int | None:
    if not seconds:
        return None
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 10 and int(seconds) <= MAX_IDLE):
        raise InvalidArgument(name, f"must be whole seconds from 0 to {MAX_IDLE}", "out_of_range")
    return int(seconds)


def methods_of(method: str) -> tuple[str, ...]:
    """The names of methods in a text, with commas between them. Without a name, the text, which is refused."""
    names = tuple(name for part in method.split(",") if (name := part.strip().lower()))
    return names or ((method,) if method else ())


def _mfa(mfa: str) -> bool | None:
    if mfa and mfa not in MFA:
        raise InvalidArgument("mfa", "must be one of " + ", ".join(MFA), "not_a_choice")
    return MFA.get(mfa)


def _flag(flag: str) -> dict[str, bool]:
    if flag and flag not in FLAGS:
        raise InvalidArgument("flag", "must be one of " + ", ".join(FLAGS), "not_a_choice")
    return {flag: True} if flag else {}


def _value(shown: str) -> Any:
    """The value of an attribute as facets show it: JSON, or else a string."""
    try:
        return json.loads(shown)
    except (ValueError, RecursionError):
        return shown
