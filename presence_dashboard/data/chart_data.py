"""Data of the charts and tables of the Live page, made of samples. Pure functions.

A time without samples is a gap, never a zero.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types

from presence_core import Presence, Sample
from presence_core.models.history import ends_of
from presence_core.schema.endings import END_COUNTS
from presence_dashboard.format import DAY, HOUR, MINUTE

CountKind = Literal["users", "sessions"]


@dataclass(frozen=True, slots=True)
class ChartRange:
    """A range of the chart, and the step of its points."""

    seconds: int
    step: int
    keep: float  #: seconds for which its samples are shared

    @property
    def compared_step(self) -> int:
        """The step for an earlier day, of which only minutes may still be stored."""
        return max(self.step, MINUTE)


RANGES: Final[Mapping[str, ChartRange]] = {
    "15min": ChartRange(15 * MINUTE, 10, 4.5),
    "1h": ChartRange(HOUR, 10, 4.5),
    "24h": ChartRange(DAY, 5 * MINUTE, 14.5),
    "7d": ChartRange(7 * DAY, HOUR, 59.5),
    "30d": ChartRange(30 * DAY, 3 * HOUR, 59.5),
}
"""By name, as in the address. The steps work with the shortest retention of fine samples."""


@dataclass(frozen=True, slots=True)
class ChartWindow:
    """The times that the chart shows, and how its samples are read."""

    name: str
    since: datetime
    until: datetime
    step: int | None  #: None: the finest that gives few enough points
    compared_step: int | None
    keep: float  #: seconds for which its samples are shared
    is_latest: bool  #: ends now

    @classmethod
    def latest(cls, name: str, now: datetime) -> ChartWindow:
        """A range of RANGES, until now."""
        found = RANGES[name]
        since = now - timedelta(seconds=found.seconds)
        return cls(name, since, now, found.step, found.compared_step, found.keep, True)

    @classmethod
    def free(cls, since: datetime, until: datetime) -> ChartWindow:
        return cls(f"{since:%Y%m%d%H%M%S}-{until:%Y%m%d%H%M%S}", since, until, None, None, 14.5, False)

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()

    def curve(self, presence: Presence) -> ChartSeries:
        return curve(presence.history(self.since, None if self.is_latest else self.until, step=self.step))

    def hours(self, presence: Presence) -> list[Sample]:
        """Read the samples of whole hours, as far back as they have a split."""
        since = max(self.since, self.until - LONGEST_SPLIT)
        return presence.history(since, None if self.is_latest else self.until, step=HOUR)

    def earlier(self, presence: Presence, shift: int) -> ChartSeries:
        """Read the samples of ``shift`` seconds before, to be drawn under these."""
        back = timedelta(seconds=shift)
        return curve(presence.history(self.since - back, self.until - back, step=self.compared_step), shift)


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """Samples, and the same as a table for the browser, so that no tick makes it again."""

    samples: tuple[Sample, ...]
    table: pa.Table


def level(sample: Sample, kind: CountKind) -> float:
    """The value of a line: the count for a step of ten seconds, the mean for longer steps."""
    if sample.step == 10:
        return float(getattr(sample, kind))
    return round(float(getattr(sample, f"{kind}_mean")), 1)


def known(sample: Sample, count: int) -> int | None:
    """A count of events of a sample; None where no event in it was counted: the sample before is too old."""
    return None if sample.watched == 0 else count


def is_running(sample: Sample) -> bool:
    """Whether samples may still be added. One that has ended is not complete where a part of it was not watched."""
    end = sample.at + timedelta(seconds=sample.step + 10)
    return not sample.complete and (sample.watched is None or datetime.now(UTC) < end)


def curve(samples: Sequence[Sample], shift: int = 0) -> ChartSeries:
    """A series for the chart. shift: seconds by which it is drawn later."""
    return ChartSeries(tuple(samples), table(samples, shift))


def table(samples: Sequence[Sample], shift: int = 0) -> pa.Table:
    """A row for each sample, times in Unix ms.

    part: number of the stretch between gaps; lines end where it changes. tail: belongs to the dashed end. alone: has no
    neighbour, so no line would show it.
    """
    parts: list[int] = []
    for position, sample in enumerate(samples):
        follows = position > 0 and sample.at - samples[position - 1].at <= timedelta(seconds=sample.step)
        parts.append(parts[-1] + (not follows) if parts else 0)
    edged = [-1, *parts, -1]
    running = [*map(is_running, samples), False]
    positions = range(len(samples))
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
            "logins": pa.array([known(sample, sample.logins) for sample in samples], pa.int64()),
            "ends": pa.array([known(sample, ends_of(sample)) for sample in samples], pa.int64()),
            "kicked": pa.array([known(sample, sample.kicked) for sample in samples], pa.int64()),
            "part": parts,
            "done": [not is_running for is_running in running[:-1]],
            "tail": [
                running[position] or (running[position + 1] and edged[position + 1] == edged[position + 2])
                for position in positions
            ],
            "alone": [edged[position + 1] not in (edged[position], edged[position + 2]) for position in positions],
        }
    )


@dataclass(frozen=True, slots=True)
class Extent:
    """The lowest, the highest and the latest value of a line."""

    low: float
    low_in: Sample
    high: float
    high_in: Sample
    latest: float


def extent(samples: Sequence[Sample], kind: CountKind) -> Extent | None:
    if not samples:
        return None
    low = min(samples, key=lambda sample: int(getattr(sample, f"{kind}_min")))
    high = max(samples, key=lambda sample: int(getattr(sample, f"{kind}_max")))
    return Extent(getattr(low, f"{kind}_min"), low, getattr(high, f"{kind}_max"), high, getattr(samples[-1], kind))


def last_whole(minutes: Sequence[Sample], now: datetime) -> Sample | None:
    """The last full minute; None if it is more than three minutes ago."""
    whole = next((sample for sample in reversed(minutes) if sample.complete), None)
    return whole if whole is not None and now - whole.at <= timedelta(minutes=3) else None


@dataclass(frozen=True, slots=True)
class KickMark:
    """A sample with kicks, and the time in which to look for them."""

    kicked: int
    since: datetime
    until: datetime


NEAR: Final = 80
"""A click finds a mark that is at most the 80th part of the range away."""


def kick_mark(samples: Sequence[Sample], picked: datetime, seconds: float) -> KickMark | None:
    """The kick mark nearest to a picked time; None: there is none near it. seconds: length of the range.

    A sample is taken up to ten seconds after its end, so it may count a kick that came after it.
    """
    near = timedelta(seconds=max(seconds / NEAR, samples[0].step if samples else 0))
    marks = [sample for sample in samples if sample.kicked and abs(sample.at - picked) <= near]
    if not marks:
        return None
    nearest = min(marks, key=lambda sample: abs(sample.at - picked))
    return KickMark(nearest.kicked, nearest.at, nearest.at + timedelta(seconds=nearest.step + 10))


# -- Split -------------------------------------------------------------------------------------------------------------

SplitField = Literal["apps", "devices"]

ODD: Final = ("new_devices", "distant_logins")
"""Fields of a sample: logins that were odd, by kind."""

TOP_SPLIT: Final = 6
REST: Final = "(other)"
"""As the history names the rest of the values."""

LONGEST_SPLIT: Final = timedelta(days=31)
"""The split by app and device is kept for about a month."""


@dataclass(frozen=True, slots=True)
class Split:
    """Counts by value over time, and the same as a table for the browser."""

    totals: tuple[tuple[str, int], ...]  #: of events by reason or kind; of apps and devices the latest count
    step: int  #: seconds
    table: pa.Table


def events_by(fields: Sequence[str], samples: Sequence[Sample]) -> Split:
    """The events of each step, by these fields of a sample: ends by reason, or ODD."""
    counts = [(sample, {field: int(getattr(sample, field)) for field in fields}) for sample in samples]
    totals = tuple((field, sum(found[field] for _, found in counts)) for field in fields)
    return _split(counts, totals)


def sessions_by(field: SplitField, samples: Sequence[Sample]) -> Split:
    """The live sessions of each hour, by app or device: the most frequent values, and all others together."""
    found = [(sample, dict(values)) for sample in samples if (values := getattr(sample, field)) is not None]
    most: dict[str, int] = {}
    for _, values in found:
        for value, count in values.items():
            most[value] = most.get(value, 0) + count
    shown = sorted((value for value in most if value != REST), key=lambda value: (-most[value], value))[:TOP_SPLIT]
    counts = []
    for sample, values in found:
        row = {value: values[value] for value in shown if value in values}
        rest = sum(values.values()) - sum(row.values())
        counts.append((sample, row | ({REST: rest} if rest else {})))
    latest = counts[-1][1] if counts else {}
    return _split(counts, tuple((value, latest[value]) for value in (*shown, REST) if value in latest))


def _split(counts: Sequence[tuple[Sample, Mapping[str, int]]], totals: tuple[tuple[str, int], ...]) -> Split:
    rows = [(sample, value, count) for sample, values in counts for value, count in values.items() if count]
    table = pa.table(
        {
            "at": pa.array([sample.at.timestamp() * 1000 for sample, _, _ in rows], pa.float64()),
            "until": pa.array([(sample.at.timestamp() + sample.step) * 1000 for sample, _, _ in rows], pa.float64()),
            "value": pa.array([value for _, value, _ in rows], pa.string()),
            "count": pa.array([count for _, _, count in rows], pa.int64()),
        }
    )
    return Split(totals, counts[-1][0].step if counts else 0, table)


# -- Shares ------------------------------------------------------------------------------------------------------------

TOP: Final = 8


@dataclass(frozen=True, slots=True)
class FacetShare:
    value: str | None  #: None: all other values
    sessions: int
    share: float  #: of all sessions, 0…1
    values: int = 1  #: number of values


def shares(facet: Mapping[str, int], total: int) -> list[FacetShare]:
    """Shares of the most frequent values, of all others together, and of sessions without a value ("")."""
    ranked = sorted(((value, count) for value, count in facet.items() if value), key=lambda pair: (-pair[1], pair[0]))
    known = sum(count for _, count in ranked)
    shown = TOP + (len(ranked) == TOP + 1)  # a single other value is shown by its name
    rest = ranked[shown:]
    total = max(total, known)
    found = [FacetShare(value, count, count / total) for value, count in ranked[:shown]]
    if rest:
        found.append(
            FacetShare(None, sum(count for _, count in rest), sum(count for _, count in rest) / total, len(rest))
        )
    if total > known:
        found.append(FacetShare("", total - known, (total - known) / total))
    return found


# -- Comparison with the week before -----------------------------------------------------------------------------------

MAX_DAYS: Final = 31
WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PeriodSummary:
    """Figures of some hours. None without samples."""

    hours: int  #: hours with samples
    uniques: float | None  #: users per day, the mean of full days
    peak_users: int | None
    mean_users: float | None
    peak_sessions: int | None
    logins: int | None
    kicks: int | None


def summary(hours: Sequence[Sample], days: Sequence[Sample]) -> PeriodSummary:
    seen = [sample.uniques for sample in days if sample.complete and sample.uniques is not None]
    uniques = sum(seen) / len(seen) if seen else None
    if not hours:
        return PeriodSummary(0, uniques, None, None, None, None, None)
    taken = sum(sample.samples for sample in hours)
    return PeriodSummary(
        len(hours),
        uniques,
        max(sample.users_max for sample in hours),
        sum(sample.users_mean * sample.samples for sample in hours) / taken,
        max(sample.sessions_max for sample in hours),
        sum(sample.logins for sample in hours),
        sum(sample.kicked for sample in hours),
    )


def change(now: float | None, before: float | None) -> float | None:
    """The change as a share of ``before``; None if that has no meaning."""
    return None if now is None or not before else now / before - 1


def whole_hours(begin: datetime, end: datetime, now: datetime) -> tuple[datetime, datetime]:
    """The full hours (UTC) between ``begin`` and ``end``."""
    return _hour(begin), _hour(min(end, now))


def _hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def within(samples: Iterable[Sample], since: datetime, until: datetime) -> list[Sample]:
    return [sample for sample in samples if since <= sample.at < until]


CSV_FIELDS: Final = (
    "at", "range", "samples", "users_min", "users_mean", "users_max", "uniques", "sessions_min", "sessions_mean",
    "sessions_max", "logins", *END_COUNTS, "new_devices", "distant_logins",
    "failed_logins",
)  # fmt: skip


def as_csv(ranges: Mapping[str, Sequence[Sample]]) -> str:
    """The hours of several ranges as CSV: numbers and UTC times, no text of visitors."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_FIELDS)
    for name, samples in ranges.items():
        for sample in samples:
            at = sample.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            levels = (getattr(sample, field) for field in CSV_FIELDS[2:10])
            events = (known(sample, getattr(sample, field)) for field in CSV_FIELDS[10:])
            row = (f"{value:.2f}" if isinstance(value, float) else value for value in (*levels, *events))
            writer.writerow([at, name, *row])
    return out.getvalue()
