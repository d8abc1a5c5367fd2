"""What charts and tables of counts are made of. Pure: samples go in; nothing is drawn, and nothing is asked for.

A stretch without samples is a gap, never a zero.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types

from presence_core import Sample
from presence_dashboard.format import DAY, HOUR, MINUTE

What = Literal["users", "sessions"]


@dataclass(frozen=True, slots=True)
class Range:
    """What a chart reaches back, and of which step its points are."""

    seconds: int
    step: int
    keep: float  #: seconds for which its samples are shared: the longer a step, the later anything changes

    @property
    def ghost_step(self) -> int:
        """Of an earlier day only the minutes may still be kept."""
        return max(self.step, MINUTE)


RANGES: Final[Mapping[str, Range]] = {
    "15min": Range(15 * MINUTE, 10, 4.5),
    "1h": Range(HOUR, 10, 4.5),
    "24h": Range(DAY, 5 * MINUTE, 14.5),
    "7d": Range(7 * DAY, HOUR, 59.5),
    "30d": Range(30 * DAY, 3 * HOUR, 59.5),
}
"""As they stand in the address: steps that fit the settings however short these keep the fine samples."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Samples, and the same as the rows of a chart: as they travel to the browser, so that no tick makes them again."""

    samples: tuple[Sample, ...]
    table: pa.Table


def ends(sample: Sample) -> int:
    return sample.logouts + sample.kicked + sample.expired + sample.replaced


def level(sample: Sample, what: What) -> float:
    """What a line shows: the very count of ten seconds, the mean of a longer step."""
    if sample.step == 10:
        return float(getattr(sample, what))
    return round(float(getattr(sample, f"{what}_mean")), 1)


def curve(samples: Sequence[Sample], shift: int = 0) -> Curve:
    """shift: seconds by which they are drawn later than they were taken."""
    return Curve(tuple(samples), table(samples, shift))


def table(samples: Sequence[Sample], shift: int = 0) -> pa.Table:
    """One row a sample. ``part`` counts the stretches between gaps: a line is broken where it changes. ``tail`` is what
    the dashed end is drawn of; ``alone`` has no neighbour, so that no line would show it. Times are Unix ms."""
    parts: list[int] = []
    for place, sample in enumerate(samples):
        follows = place > 0 and sample.at - samples[place - 1].at <= timedelta(seconds=sample.step)
        parts.append(parts[-1] + (not follows) if parts else 0)
    edged = [-1, *parts, -1]
    running = [*(not sample.complete for sample in samples), False]
    places = range(len(samples))
    return pa.table(
        {
            "at": [(sample.at.timestamp() + shift) * 1000 for sample in samples],
            "taken": [sample.at.timestamp() * 1000 for sample in samples],
            "users": [level(sample, "users") for sample in samples],
            "users_min": [sample.users_min for sample in samples],
            "users_max": [sample.users_max for sample in samples],
            "sessions": [level(sample, "sessions") for sample in samples],
            "sessions_min": [sample.sessions_min for sample in samples],
            "sessions_max": [sample.sessions_max for sample in samples],
            "logins": [sample.logins for sample in samples],
            "ends": [ends(sample) for sample in samples],
            "kicked": [sample.kicked for sample in samples],
            "part": parts,
            "done": [sample.complete for sample in samples],
            "tail": [
                running[place] or (running[place + 1] and edged[place + 1] == edged[place + 2]) for place in places
            ],
            "alone": [edged[place + 1] not in (edged[place], edged[place + 2]) for place in places],
        }
    )


@dataclass(frozen=True, slots=True)
class Extent:
    """The lowest and the highest of a line, and its end."""

    low: float
    low_at: datetime
    high: float
    high_at: datetime
    latest: float


def extent(samples: Sequence[Sample], what: What) -> Extent | None:
    """None where there are no samples."""
    if not samples:
        return None
    low = min(samples, key=lambda one: int(getattr(one, f"{what}_min")))
    high = max(samples, key=lambda one: int(getattr(one, f"{what}_max")))
    return Extent(
        getattr(low, f"{what}_min"), low.at, getattr(high, f"{what}_max"), high.at, getattr(samples[-1], what)
    )


def last_whole(minutes: Sequence[Sample], now: datetime) -> Sample | None:
    """The last minute that is over, unless it is too long ago to be called the last."""
    whole = next((one for one in reversed(minutes) if one.complete), None)
    return whole if whole is not None and now - whole.at <= timedelta(minutes=3) else None


# -- Shares ------------------------------------------------------------------------------------------------------------

TOP: Final = 8


@dataclass(frozen=True, slots=True)
class Share:
    value: str | None  #: None: all the rest together
    sessions: int
    share: float  #: of all sessions, 0…1
    values: int = 1  #: how many values there are in it


def shares(facet: Mapping[str, int], total: int) -> list[Share]:
    """The most frequent, the rest together, and those that told nothing ("")."""
    ranked = sorted(((value, count) for value, count in facet.items() if value), key=lambda one: (-one[1], one[0]))
    known = sum(count for _, count in ranked)
    shown = TOP + (len(ranked) == TOP + 1)  # one alone is as short by its own name
    rest = ranked[shown:]
    total = max(total, known)
    found = [Share(value, count, count / total) for value, count in ranked[:shown]]
    if rest:
        found.append(Share(None, sum(count for _, count in rest), sum(count for _, count in rest) / total, len(rest)))
    if total > known:
        found.append(Share("", total - known, (total - known) / total))
    return found


# -- A range against the week before -----------------------------------------------------------------------------------

MOST_DAYS: Final = 31
WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Summary:
    """What some hours were like. None where nothing was sampled."""

    hours: int  #: that have samples
    uniques: float | None  #: users seen per day, the mean of the days that are over
    peak_users: int | None
    mean_users: float | None
    peak_sessions: int | None
    logins: int | None
    kicks: int | None


def summary(hours: Sequence[Sample], days: Sequence[Sample]) -> Summary:
    seen = [one.uniques for one in days if one.complete and one.uniques is not None]
    uniques = sum(seen) / len(seen) if seen else None
    if not hours:
        return Summary(0, uniques, None, None, None, None, None)
    taken = sum(one.samples for one in hours)
    return Summary(
        len(hours),
        uniques,
        max(one.users_max for one in hours),
        sum(one.users_mean * one.samples for one in hours) / taken,
        max(one.sessions_max for one in hours),
        sum(one.logins for one in hours),
        sum(one.kicked for one in hours),
    )


def change(now: float | None, before: float | None) -> float | None:
    """As a share of what was before; None where that says nothing."""
    return None if now is None or not before else now / before - 1


def whole_hours(begin: datetime, end: datetime, now: datetime) -> tuple[datetime, datetime]:
    """The hours, as they are counted (UTC), from ``begin`` to ``end`` that are over."""
    return _hour(begin), _hour(min(end, now))


def _hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def within(samples: Iterable[Sample], since: datetime, until: datetime) -> list[Sample]:
    return [one for one in samples if since <= one.at < until]


CSV_FIELDS: Final = (
    "at", "range", "samples", "users_min", "users_mean", "users_max", "uniques", "sessions_min", "sessions_mean",
    "sessions_max", "logins", "logouts", "kicked", "expired", "replaced",
)  # fmt: skip


def as_csv(ranges: Mapping[str, Sequence[Sample]]) -> str:
    """The hours of several ranges, each under its name, as CSV: numbers and UTC times, nothing that anybody typed."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_FIELDS)
    for name, samples in ranges.items():
        for one in samples:
            at = one.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            rest = (getattr(one, field) for field in CSV_FIELDS[2:])
            writer.writerow([at, name, *(f"{value:.2f}" if isinstance(value, float) else value for value in rest)])
    return out.getvalue()
