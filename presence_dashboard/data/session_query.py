"""What the list of sessions is asked for: as it stands in the page's address, and as a filter.

The address is the one place where it is kept, so that every list can be linked to and found again:
``/?q=okafor&device=iPhone&login=today&idle=1800``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from presence_core import InvalidArgument, SessionFilter
from presence_dashboard import texts
from presence_dashboard.format import code, cut

FACETS: Final = ("device", "app", "browser", "os")
"""Those that every site has; declared attributes come after them."""

ATTRIBUTE: Final = "attr."
"""What the name of an attribute is led by in the address: it may be called like something else there."""

LOGINS: Final = {"1h": timedelta(hours=1), "today": None, "7d": timedelta(days=7)}
"""Login within so long; today since midnight, where the reader is."""

BETWEEN: Final = ".."
IDLES: Final = (300, 1_800, 3_600, 86_400)
MOST_IDLE: Final = 315_360_000

_LIKE_A_BLOCK: Final = re.compile(r"[0-9A-Fa-f:.]*[.:][0-9A-Fa-f:.]*/\d*")


@dataclass(frozen=True, slots=True)
class Question:
    """Which sessions somebody wants to see. Nothing given: all of them."""

    text: str = ""
    inside: bool = False  #: the text may stand anywhere in the name
    exact: bool = False  #: the text must be the whole user id: of who must not find out names by trying
    facets: tuple[tuple[str, str], ...] = ()
    login: str = ""  #: of LOGINS, or two moments with BETWEEN between them, each of which may be missing
    idle: str = ""  #: seconds

    @property
    def is_everybody(self) -> bool:
        return not (self.text or self.facets or self.login or self.idle)

    def filter(self, now: datetime, zone: tzinfo) -> SessionFilter | None:
        """The question as of now; None asks for everybody. Raises InvalidArgument."""
        if self.is_everybody:
            return None
        asked: dict[str, Any] = {field: value for field, value in self.facets if not field.startswith(ATTRIBUTE)}
        attributes = {
            field.removeprefix(ATTRIBUTE): _value(value) for field, value in self.facets if field.startswith(ATTRIBUTE)
        }
        if attributes:
            asked["attributes"] = attributes
        asked |= self._text()
        after, before = _period(self.login, now, zone)
        asked |= {"logged_in_after": after, "logged_in_before": before, "idle_for": _idle(self.idle)}
        return SessionFilter(**asked)

    def _text(self) -> dict[str, str]:
        if not self.text:
            return {}
        if self.exact:
            return {"uid": self.text}
        if self.inside:
            return {"name_contains": self.text}
        if _LIKE_A_BLOCK.fullmatch(self.text):
            return {"ip": self.text}  # which says what is wrong with it, where ``text`` would find nobody
        return {"text": self.text}

    @property
    def is_part_of_a_name(self) -> bool:
        """Whether looking inside names may find more: not for an address, nor where whole user ids are looked for."""
        return bool(self.text) and not (self.inside or self.exact) and not re.fullmatch(r"[\d.:/]+", self.text)


def read(address: Mapping[str, str], text: str, declared: Sequence[str], *, exact: bool) -> Question:
    """The question that stands in the page's address. text: of the search box, which keeps it there by itself."""
    wanted = text.strip()
    names = (*FACETS, *(ATTRIBUTE + name for name in declared))
    return Question(
        text=wanted,
        inside=bool(wanted) and not exact and address.get("inside") == wanted,
        exact=exact,
        facets=tuple((name, address[name]) for name in names if address.get(name)),
        login=address.get("login", ""),
        idle=address.get("idle", ""),
    )


def faults(
    address: Mapping[str, Sequence[str]],
    question: Question,
    declared: Sequence[str] | None,
    now: datetime,
    zone: tzinfo,
) -> dict[str, str]:
    """What is wrong with a link: parameter → a sentence that is safe for Markdown.

    declared: the site's attributes, None where they are not known. The search box is not looked at: what it holds is
    there to be seen, and to be typed over.
    """
    known = {"q", "inside", "login", "idle", *FACETS, *(ATTRIBUTE + name for name in declared or ())}
    found = {}
    for name, values in address.items():
        shown = code(cut(name, 40))
        if name not in known and not (declared is None and name.startswith(ATTRIBUTE)):
            found[name] = texts.link_unknown(shown)
        elif name == "q" or (name == "inside" and question.exact):
            continue
        elif len(values) > 1:
            found[name] = texts.link_twice(shown)
        elif not values[0]:
            found[name] = texts.link_empty(shown)
        elif (rule := _rule_broken(name, values[0], question, now, zone)) is not None:
            found[name] = texts.link_value(shown, rule)
    return found


def _rule_broken(name: str, value: str, question: Question, now: datetime, zone: tzinfo) -> str | None:
    """What the value of a known parameter must be, where it is not."""
    if name == "inside":
        return None if question.inside else texts.LINK_INSIDE
    alone = {"login": value} if name == "login" else {"idle": value} if name == "idle" else {}
    asked = Question(**alone) if alone else Question(facets=((name, value),))  # type: ignore[arg-type]
    try:
        asked.filter(now, zone)
    except InvalidArgument as error:
        if error.field == "logged_in_after":
            return texts.LOGIN_BACKWARDS
        return {"login": texts.LOGIN_MALFORMED, "idle": texts.idle_malformed(MOST_IDLE)}.get(name, "")
    return None


def between(after: datetime | None, before: datetime | None) -> str:
    """Two moments, as ``login`` has them."""
    return BETWEEN.join("" if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%MZ}" for at in (after, before))


def moments(login: str) -> tuple[datetime | None, datetime | None]:
    """What ``between`` wrote."""
    parts = login.split(BETWEEN)
    try:
        after, before = (datetime.fromisoformat(part) if part else None for part in parts)
        if all(at is None or _is_a_time(at) for at in (after, before)) and (after or before):
            return after, before
    except ValueError:
        pass
    raise InvalidArgument("login", "must be of LOGINS, or what ``between`` writes")


def _is_a_time(at: datetime) -> bool:
    """With its zone, and so far from where the calendar ends that every other zone has it too."""
    return at.tzinfo is not None and MINYEAR < at.year < MAXYEAR


def _period(login: str, now: datetime, zone: tzinfo) -> tuple[datetime | None, datetime | None]:
    if not login:
        return None, None
    if login == "today":
        return now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0), None
    if (length := LOGINS.get(login)) is not None:
        return now - length, None
    return moments(login)


def _idle(seconds: str) -> int | None:
    if not seconds:
        return None
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 10 and int(seconds) <= MOST_IDLE):
        raise InvalidArgument("idle", f"must be whole seconds from 0 to {MOST_IDLE}")
    return int(seconds)


def _value(shown: str) -> Any:
    """An attribute's value as facets show it: JSON or, where it is none, a text."""
    try:
        return json.loads(shown)
    except (ValueError, RecursionError):
        return shown
