"""A range of time as staff choose it: a preset, or two times. The address of a page keeps it as text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from presence_core import InvalidArgument

PRESETS: Final = ("1h", "today", "since-08:00", "yesterday", "7d")
"""The choices of every page. ``since-`` takes any time of day: the last time that a clock showed it."""

BETWEEN: Final = ".."

FIRST_YEAR, LAST_YEAR = 1971, 5137

Period = tuple[datetime | None, datetime | None]
"""Start and end; None: not limited."""

_LENGTHS: Final = {"1h": timedelta(hours=1), "7d": timedelta(days=7)}
_SINCE: Final = re.compile(r"since-([01]\d|2[0-3]):([0-5]\d)")


def time_of_since(chosen: str) -> str | None:
    """``08:00`` of ``since-08:00``; None of other ranges."""
    return chosen.removeprefix("since-") if _SINCE.fullmatch(chosen) else None


def resolve(chosen: str, now: datetime, zone: tzinfo) -> Period:
    """The range at this moment, for a reader in this zone. Raises InvalidArgument for ``time``."""
    if not chosen:
        return None, None
    if chosen in _LENGTHS:
        return now - _LENGTHS[chosen], None
    local = now.astimezone(zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if chosen == "today":
        return midnight, None
    if chosen == "yesterday":
        return midnight - timedelta(days=1), midnight
    if found := _SINCE.fullmatch(chosen):
        begin = midnight.replace(hour=int(found[1]), minute=int(found[2]))
        # At the end of summer time a clock shows an hour twice. So the times are compared in UTC.
        shown = [(begin - timedelta(days=days)).replace(fold=fold) for days in (0, 1) for fold in (0, 1)]
        return max((at for at in shown if at.astimezone(UTC) <= now), key=lambda at: at.astimezone(UTC)), None
    return parse_range(chosen)


def format_range(after: datetime | None, before: datetime | None) -> str:
    """Two times as text, to the second."""
    return BETWEEN.join("" if at is None else f"{at.astimezone(UTC):{_shape(at)}Z}" for at in (after, before))


def _shape(at: datetime) -> str:
    return "%Y-%m-%dT%H:%M:%S" if at.second else "%Y-%m-%dT%H:%M"


def parse_range(chosen: str) -> Period:
    """The two times that ``format_range`` wrote."""
    parts = chosen.split(BETWEEN)
    try:
        after, before = (datetime.fromisoformat(part) if part else None for part in parts)
        if all(at is None or _is_a_time(at) for at in (after, before)) and (after or before):
            return after, before
    except ValueError:
        pass
    raise InvalidArgument("time", "must be one of PRESETS, or a range", "not_a_choice")


def _is_a_time(at: datetime) -> bool:
    """Whether it has a time zone, and is one that the library takes, in every time zone."""
    return at.tzinfo is not None and FIRST_YEAR <= at.year <= LAST_YEAR
