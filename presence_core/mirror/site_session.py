"""A session of the site, as its store wrote it: who, since when, from where, and how long it lives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

Path = tuple[str, ...]
"""Where a value is in the data of a session: a name for each level."""

Paths = tuple[Path, ...]
"""The places to look at, the first that has a value counts."""

_LONGEST: Final = 10_000
"""Characters of a value that are looked at: login cuts or refuses what is too long."""


class SiteSession(NamedTuple):
    """What a store says about a session that has a user."""

    uid: str
    login: str  #: what distinguishes this sign-in from another with the same id; "" if the store does not say
    login_at: float | None = None  #: Unix seconds
    person: str | None = None  #: their name
    email: str | None = None
    address: str | None = None
    agent: str | None = None
    seen: float | None = None  #: Unix seconds, where the data say so
    lifetime: float | None = None  #: seconds that the key lives after each request; None: not known

    @property
    def identity(self) -> tuple[str, str]:
        """What another sign-in does not share."""
        return self.uid, self.login


def paths(*dotted: str) -> Paths:
    """ "passport.user" is the value ``user`` in ``passport``."""
    return tuple(tuple(each.split(".")) for each in dotted)


def value_at(data: Any, places: Iterable[Path]) -> Any:
    """The first value that is there; None."""
    for place in places:
        found = data
        for name in place:
            found = found.get(name) if type(found) is dict else None  # formats make no other mapping
        if found is not None:
            return found
    return None


def text_at(data: Any, places: Iterable[Path]) -> str | None:
    """The first of them that is a text or a whole number, as text."""
    for place in places:
        found = data
        for name in place:
            found = found.get(name) if type(found) is dict else None
        if found is not None and (text := _as_text(found)):
            return text
    return None


def _as_text(found: Any) -> str | None:
    if isinstance(found, bytes):
        found = found.decode("utf-8", "replace")
    if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 10**40:
        return str(found)
    return found[:_LONGEST] if isinstance(found, str) else None


def seconds_at(data: Any, places: Sequence[Path]) -> float | None:
    """The first value as Unix seconds: a number of seconds or milliseconds, or an ISO 8601 time."""
    found = value_at(data, places)
    if isinstance(found, bytes):
        found = found.decode("ascii", "replace")
    if isinstance(found, str):
        try:
            return _finite(float(found))
        except ValueError:
            return _iso(found)
    return _finite(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _finite(number: float) -> float | None:
    try:
        seconds = number / 1000 if abs(number) > 1e11 else float(number)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and abs(seconds) < 1e11 else None


def _iso(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
