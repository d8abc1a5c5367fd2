"""Counts over time: samples of ten seconds, rolled up as they are written, and read back at any step.

A resolution keeps packed records of one size in one STRING per period, with a place for each slot. A slot that was
never written reads as zeros, which is a gap. Behind the records it has a place for each slot's odd logins: a key of an
earlier version ends before them. Old periods expire.
``lua/maintenance/write_sample.lua`` writes the records.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.models import Sample, moment
from presence_core.operations.context import Context
from presence_core.operations.search.live_counts import count_shards, counts_of
from presence_core.schema.endings import counted
from presence_core.scripts import maintenance as scripts
from presence_core.scripts.calls import Call, Op, by_two, call_of, command
from presence_core.settings import Settings

MAX_POINTS: Final = 1000
STEPS: Final = (10, 30, 60, 300, 900, 3600, 21_600, 86_400)
"""Seconds; the step is chosen from these where the caller gives none."""

LONGEST_STEP: Final = 31_536_000
"""A year, seconds."""

SLOT: Final = 10_000
HOUR: Final = 3_600_000
DAY: Final = 86_400_000
MARGIN: Final = 3_600
"""Seconds that a period is kept beyond its retention, so that the last 24 hours are all there."""

TOP: Final = 20
REST: Final = "(other)"


@dataclass(frozen=True, slots=True)
class Resolution:
    """How the records of one step are stored."""

    step: int  #: seconds
    days: int  #: how many days one key holds
    record: struct.Struct
    setting: str  #: the name of the setting that says how long it is kept

    @property
    def slots(self) -> int:
        """Records in one key."""
        return self.days * 86_400 // self.step

    @property
    def size(self) -> int:
        """Bytes of one key."""
        return self.failed_place(self.slots)

    def place(self, at: int, settings: Settings) -> tuple[int, tuple[int, ...]]:
        """The period of a time (ms); and the places of its record, of its odd logins, of its watched slots and of its
        failed sign-ins, full size, seconds to keep."""
        period, index = divmod(at // (self.step * 1000), self.slots)
        places = index * self.record.size, self.odd_place(index), self.watched_place(index), self.failed_place(index)
        return period, (*places, self.size, self.keep(settings) + MARGIN)

    def odd_place(self, index: int) -> int:
        """Where the odd logins of a slot are in its key."""
        return self.slots * self.record.size + index * ODD_RECORD.size

    def watched_place(self, index: int) -> int:
        """Where its key says how many slots of a record were watched."""
        return self.odd_place(self.slots) + index * WATCHED.size

    def failed_place(self, index: int) -> int:
        """Where its key has how many sign-ins failed."""
        return self.watched_place(self.slots) + index * FAILED.size

    def keep(self, settings: Settings) -> int:
        """Seconds."""
        return int(getattr(settings, self.setting))

    def oldest(self, settings: Settings, now: int) -> int:
        """The time before which nothing is kept, ms."""
        return now - (self.keep(settings) + MARGIN) * 1000


_FINE: Final = struct.Struct(">8I")  # samples (1), users, sessions, logins, logouts, kicked, expired, replaced
ODD_RECORD: Final = struct.Struct(">2I")  # logins on a new device, distant logins
WATCHED: Final = struct.Struct(">H")
"""1 + the ten seconds of which a record has the logins and ends; 0: an earlier version has not noted it."""
FAILED: Final = struct.Struct(">I")
_COARSE: Final = struct.Struct(">4IQ3IQ6I")  # the fields of SlotRecord

RESOLUTIONS: Final = (
    Resolution(10, 1, _FINE, "keep_history_10s"),
    Resolution(60, 1, _COARSE, "keep_history_1m"),
    Resolution(3600, 30, _COARSE, "keep_history_1h"),
    Resolution(86_400, 365, _COARSE, "keep_history_1h"),
)


def base_of(step: int) -> Resolution:
    """The coarsest resolution that ``step`` is a multiple of."""
    return next(resolution for resolution in reversed(RESOLUTIONS) if step % resolution.step == 0)


# -- writing ----------------------------------------------------------------------------------------------------------


def sample(ctx: Context, now: int) -> Op[bool]:
    """Write the sample of the last ten seconds that ended before ``now`` (ms, Redis's clock). True: it is written, by
    this worker or another; False: this came too late, and the sample is missing."""
    slot = now // SLOT - 1
    at = slot * SLOT
    lists = ((s.deadlines, s.users, s.people) for s in ctx.keys.shards)
    measuring = [call_of(scripts.MEASURE_SHARD, keys, at - at % HOUR, at - at % DAY) for keys in lists]
    shards, replies = yield from count_shards(ctx, "", *measuring, most=inf)
    counts, measures = counts_of(ctx, shards), [scripts.MEASURE_SHARD.reply(reply) for reply in replies]
    # An end counts when it was due, not when a sweep writes it: that may be much later, and many at once.
    totals = {kind: number + counts.waiting.get(kind, 0) for kind, number in counts.totals.items()}
    happened = [totals["login"], *counted(totals)]
    odd = [counts.odd_logins["new_device"], counts.odd_logins["distant"], counts.failed_logins]
    left = [seen for shard in shards for seen in shard.offline.values()]  # still in the list of users
    hourly = sum(part.users_of_hour for part in measures) - sum(seen < at - at % HOUR for seen in left)
    daily = sum(part.users_of_day for part in measures) - sum(seen < at - at % DAY for seen in left)
    keys, places = _places(ctx, at)
    [reply] = yield [
        call_of(scripts.WRITE_SAMPLE, keys, *happened, *odd, *places, given_now=ctx.now, given_slot=slot,
                users=counts.users, sessions=counts.sessions, hourly_users=hourly, daily_users=daily)
    ]  # fmt: skip
    return scripts.WRITE_SAMPLE.reply(reply)


def _places(ctx: Context, at: int) -> tuple[list[str], list[int]]:
    """The keys that hold this time; and for each what ``Resolution.place`` says."""
    common = ctx.keys.common
    keys, places = [common.history], list[int]()
    for resolution in RESOLUTIONS:
        period, place = resolution.place(at, ctx.settings)
        keys.append(common.samples(resolution.step, period))
        places += place
    return keys, places


def split(ctx: Context, now: int, apps: Mapping[str, int], devices: Mapping[str, int]) -> Op[None]:
    """Keep how the sessions are split by app and device, for the hour of ``now``. The first split of an hour stays."""
    day, rest = divmod(now, DAY)
    key, hour = ctx.keys.common.split(day), rest // HOUR
    yield [
        command(key, "HSETNX", key, f"{hour}:app", _encode_split(apps)),
        command(key, "HSETNX", key, f"{hour}:device", _encode_split(devices)),
        command(key, "EXPIRE", key, ctx.settings.keep_history_1m + MARGIN),
    ]


def _encode_split(values: Mapping[str, int]) -> str:
    ranked = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    top = dict(ranked[:TOP])
    if rest := sum(number for _, number in ranked[TOP:]):
        top[REST] = top.get(REST, 0) + rest
    return json.dumps(top, ensure_ascii=False, separators=(",", ":"))


# -- the range and the step -------------------------------------------------------------------------------------------


def history(ctx: Context, since: object, until: object, step: object) -> Op[list[Sample]]:
    start = check.time_ms("since", since)
    end = None if until is None else check.time_ms("until", until)
    width = None if step is None else _check_step(step)
    if end is not None:
        if start >= end:
            raise InvalidArgument("since", "must be before until", "wrong_order")
        _check_points(start, end, width)
    return _history(ctx, start, end, width)


def _check_step(step: object) -> int:
    if isinstance(step, bool) or not isinstance(step, int) or step % 10 or not 10 <= step <= LONGEST_STEP:
        raise InvalidArgument(
            "step", f"must be a multiple of 10 seconds, from 10 to {LONGEST_STEP} (a year)", "out_of_range"
        )
    return int(step)


def _points(start: int, end: int, step: int) -> int:
    width = step * 1000
    return -(-end // width) - start // width


def _check_points(start: int, end: int, step: int | None) -> None:
    if step is not None and _points(start, end, step) > MAX_POINTS:
        raise InvalidArgument("step", f"must give at most {MAX_POINTS} points between since and until", "out_of_range")


def _choose_step(settings: Settings, start: int, end: int, now: int) -> int:
    """The finest of STEPS that gives few enough points and is still kept for ``start``; else a number of days."""
    for step in STEPS:
        is_kept = now - base_of(step).keep(settings) * 1000 <= start or step == STEPS[-1]
        if is_kept and _points(start, end, step) <= MAX_POINTS:
            return step
    days = 2
    while _points(start, end, days * 86_400) > MAX_POINTS:
        days += 1
    return days * 86_400


# -- reading ----------------------------------------------------------------------------------------------------------


class SlotRecord(NamedTuple):
    """A stored record, or several of them added up."""

    samples: int
    users_min: int
    users_max: int
    users: int  #: at the end
    users_sum: int
    sessions_min: int
    sessions_max: int
    sessions: int  #: at the end
    sessions_sum: int
    logins: int
    logouts: int
    kicked: int
    expired: int
    replaced: int
    uniques: int = 0  #: users of an hour or a day
    new_devices: int = 0
    distant_logins: int = 0
    watched: int = 0  #: of how many ten seconds it has the logins and ends
    failed_logins: int = 0

    @classmethod
    def from_fine(cls, samples: int, users: int, sessions: int, *happened: int) -> SlotRecord:
        return cls(samples, users, users, users, users, sessions, sessions, sessions, sessions, *happened)

    def plus(self, later: SlotRecord) -> SlotRecord:
        return SlotRecord(
            self.samples + later.samples,
            min(self.users_min, later.users_min), max(self.users_max, later.users_max), later.users,
            self.users_sum + later.users_sum,
            min(self.sessions_min, later.sessions_min), max(self.sessions_max, later.sessions_max), later.sessions,
            self.sessions_sum + later.sessions_sum,
            self.logins + later.logins, self.logouts + later.logouts, self.kicked + later.kicked,
            self.expired + later.expired, self.replaced + later.replaced,
            later.uniques, self.new_devices + later.new_devices, self.distant_logins + later.distant_logins,
            self.watched + later.watched, self.failed_logins + later.failed_logins,
        )  # fmt: skip

    def sample(self, at: int, step: int, now: int, parts: _Split) -> Sample:
        users_mean, sessions_mean = self.users_sum / self.samples, self.sessions_sum / self.samples
        return Sample(
            at=moment(at), step=step, samples=self.samples,
            users=self.users, users_min=self.users_min, users_mean=users_mean, users_max=self.users_max,
            sessions=self.sessions, sessions_min=self.sessions_min, sessions_mean=sessions_mean,
            sessions_max=self.sessions_max,
            logins=self.logins, logouts=self.logouts, kicked=self.kicked, expired=self.expired, replaced=self.replaced,
            new_devices=self.new_devices, distant_logins=self.distant_logins, failed_logins=self.failed_logins,
            uniques=self.uniques if step in (3600, 86_400) else None,
            apps=_decode_split(parts.apps), devices=_decode_split(parts.devices),
            watched=10 * self.watched,
            # The sample of the last ten seconds is written within the next ten.
            complete=(self.samples >= step // 10 or now >= at + step * 1000 + SLOT)
            and (step >= 3600 or self.watched >= step // 10),
        )  # fmt: skip


class _Split(NamedTuple):
    """Live sessions by app and by device in one hour, JSON."""

    apps: bytes | None = None
    devices: bytes | None = None


def _history(ctx: Context, start: int, until: int | None, step: int | None) -> Op[list[Sample]]:
    [reply] = yield [call_of(scripts.READ_WORKER_STATUS, (ctx.keys.common.worker,), ctx.now)]
    now = scripts.READ_WORKER_STATUS.reply(reply).now
    if until is None:
        _check_points(start, now, step)
    end = min(now, until or now)
    start = max(start, RESOLUTIONS[-1].oldest(ctx.settings, now))
    if start >= end:
        return []
    step = step or _choose_step(ctx.settings, start, end, now)
    width = step * 1000
    first, last = start // width * width, -(-end // width) * width  # buckets are whole
    base = base_of(step)
    kept_from = max(first, base.oldest(ctx.settings, now) - base.days * DAY)
    reads = list(_record_reads(ctx, base, kept_from, last))
    split_reads = list(_split_reads(ctx, first, last)) if step == 3600 else []
    replies = yield [call for _, call in (*reads, *split_reads)]
    slots, stored = [slot for slot, _ in reads[::4]], iter(replies[: len(reads)])
    records = list(zip(slots, stored, stored, stored, stored, strict=True))
    splits = _splits((hour, row) for (hour, _), row in zip(split_reads, replies[len(reads) :], strict=True))
    return [
        record.sample(at, step, now, splits.get(at // HOUR, _Split()))
        for at, record in sorted(_buckets(base, width, records).items())
    ]


def _record_reads(ctx: Context, base: Resolution, first: int, last: int) -> Iterator[tuple[int, Call]]:
    """For each key: its first slot in the range, and the calls that read its records, odd logins, watched slots and
    failed sign-ins from there."""
    unit = base.step * 1000
    slot, stop = first // unit, -(-last // unit)
    while slot < stop:
        period, index = divmod(slot, base.slots)
        number = min(stop - slot, base.slots - index)
        key = ctx.keys.common.samples(base.step, period)
        for begin, width in (
            (index * base.record.size, base.record.size),
            (base.odd_place(index), ODD_RECORD.size),
            (base.watched_place(index), WATCHED.size),
            (base.failed_place(index), FAILED.size),
        ):
            yield slot, command(key, "GETRANGE", key, begin, begin + number * width - 1)
        slot += number


def _split_reads(ctx: Context, first: int, last: int) -> Iterator[tuple[int, Call]]:
    """For each day: its first hour, and the call that reads the splits of its hours."""
    for day in range(first // DAY, -(-last // DAY)):
        key = ctx.keys.common.split(day)
        fields = [f"{hour}:{name}" for hour in range(24) for name in ("app", "device")]
        yield day * 24, command(key, "HMGET", key, *fields)


def _splits(days: Iterable[tuple[int, list[bytes | None]]]) -> dict[int, _Split]:
    """The splits by hour since the epoch."""
    return {
        first_hour + hour: _Split(apps, devices)
        for first_hour, row in days
        for hour, (apps, devices) in enumerate(by_two(row))
    }


def _buckets(
    base: Resolution, width: int, stored: Iterable[tuple[int, bytes, bytes, bytes, bytes]]
) -> dict[int, SlotRecord]:
    """The records added up in buckets of ``width`` ms, by the time at which each begins."""
    buckets: dict[int, SlotRecord] = {}
    for first_slot, *parts in stored:
        for index, record in _records(base, *parts):
            at = (first_slot + index) * base.step * 1000 // width * width
            buckets[at] = buckets[at].plus(record) if at in buckets else record
    return buckets


def _records(
    base: Resolution, raw: bytes, odd: bytes, watched: bytes, failed: bytes
) -> Iterator[tuple[int, SlotRecord]]:
    """The records that were written, each with its place."""
    number = len(raw) // base.record.size
    whole = base.record.iter_unpack(memoryview(raw)[: number * base.record.size])
    further = _unpack(ODD_RECORD, odd, number), _unpack(WATCHED, watched, number), _unpack(FAILED, failed, number)
    for index, (values, (new_devices, distant), (noted,), (failures,)) in enumerate(zip(whole, *further, strict=True)):
        record = SlotRecord.from_fine(*values) if base.record is _FINE else SlotRecord(*values)
        if record.samples:
            known = noted - 1 if noted else base.step // 10
            yield (
                index,
                record._replace(new_devices=new_devices, distant_logins=distant, watched=known, failed_logins=failures),
            )


def _unpack(layout: struct.Struct, raw: bytes, number: int) -> Iterator[tuple[int, ...]]:
    """So many records of this layout: zeros where the key ends before."""
    return layout.iter_unpack(raw[: number * layout.size].ljust(number * layout.size, b"\0"))


def _decode_split(raw: bytes | None) -> dict[str, int] | None:
    if not raw:
        return None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return {str(k): v for k, v in value.items() if isinstance(v, int)} if isinstance(value, dict) else None
