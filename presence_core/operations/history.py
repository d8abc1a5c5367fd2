"""Counts over time: samples of ten seconds, rolled up as they are written, and read back at any step.

A resolution keeps packed records of one size, a place for each slot of a period, in one STRING per period: a slot is
found by arithmetic, one that was never written reads as zeros (no samples: a gap), and old periods go by their time to
live. ``lua/sample.lua`` writes them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.models import Counts, Sample, moment
from presence_core.operations import reading
from presence_core.operations.context import Context
from presence_core.scripts import GAUGE, SAMPLE, STATUS, Call, Op, command, run
from presence_core.settings import Settings

MOST_POINTS: Final = 1000
LADDER: Final = (10, 30, 60, 300, 900, 3600, 21_600, 86_400)
"""The steps that are chosen from, seconds."""

SLOT: Final = 10_000
HOUR: Final = 3_600_000
DAY: Final = 86_400_000
MARGIN: Final = 3_600
"""Seconds that a period outlives its retention: who asks for the last 24 hours gets all of them."""

TOP: Final = 20
REST: Final = "(other)"


@dataclass(frozen=True, slots=True)
class Resolution:
    """What is stored of one step."""

    step: int  #: seconds
    days: int  #: how many days one key holds
    record: struct.Struct
    setting: str  #: which one says how long it is kept

    @property
    def slots(self) -> int:
        """Records in one key."""
        return self.days * 86_400 // self.step

    @property
    def size(self) -> int:
        """Bytes of one key."""
        return self.slots * self.record.size

    def keep(self, settings: Settings) -> int:
        """Seconds."""
        return int(getattr(settings, self.setting))


_FINE: Final = struct.Struct(">8I")  # samples (1), users, sessions, logins, logouts, kicked, expired, replaced
_COARSE: Final = struct.Struct(">4IQ3IQ6I")  # samples; users least, most, last, sum; sessions the same; five; uniques

RESOLUTIONS: Final = (
    Resolution(10, 1, _FINE, "keep_history_10s"),
    Resolution(60, 1, _COARSE, "keep_history_1m"),
    Resolution(3600, 30, _COARSE, "keep_history_1h"),
    Resolution(86_400, 365, _COARSE, "keep_history_1h"),
)


def base_of(step: int) -> Resolution:
    """The coarsest of what is stored that ``step`` can be made of."""
    return next(one for one in reversed(RESOLUTIONS) if step % one.step == 0)


# -- writing ----------------------------------------------------------------------------------------------------------


def sample(ctx: Context, now: int) -> Op[bool]:
    """Write down the ten seconds that ended last before ``now`` (ms, by Redis). True: they are, by us or by another;
    False: this came too late, and they stay a gap."""
    slot = now // SLOT - 1
    at = slot * SLOT
    counting = reading.counts(ctx)
    calls = next(counting)
    gauges = [
        run(GAUGE, (s.deadlines, s.users, s.people), at - at % HOUR, at - at % DAY) for s in ctx.keys.shards
    ]  # fmt: skip
    replies = yield [*calls, *gauges]
    counts = _end(counting, replies[: len(calls)])
    hourly, daily = (sum(reply[place] for reply in replies[len(calls) :]) for place in (1, 2))
    totals = [counts.totals[kind] for kind in ("login", "logout", "kicked", "expired", "replaced")]
    common = ctx.keys.common
    keys, places = [common.history], []
    for one in RESOLUTIONS:
        period, index = divmod(at // (one.step * 1000), one.slots)
        keys.append(common.samples(one.step, period))
        places += [index * one.record.size, one.size, one.keep(ctx.settings) + MARGIN]
    [written] = yield [
        run(SAMPLE, keys, ctx.now, slot, counts.users, counts.sessions, *totals, hourly, daily, *places)
    ]  # fmt: skip
    return bool(written >= 0)


def _end(op: Op[Counts], replies: list[Any]) -> Counts:
    """What an operation of one batch makes of its replies."""
    try:
        op.send(replies)
    except StopIteration as done:
        counts: Counts = done.value
        return counts
    raise AssertionError("counts is one batch")


def split(ctx: Context, now: int, apps: Mapping[str, int], devices: Mapping[str, int]) -> Op[None]:
    """Keep how the sessions are spread just now, for the hour of ``now``; whoever comes first in an hour is heard."""
    day, rest = divmod(now, DAY)
    key, hour = ctx.keys.common.split(day), rest // HOUR
    yield [
        command(key, "HSETNX", key, f"{hour}:app", _packed(apps)),
        command(key, "HSETNX", key, f"{hour}:device", _packed(devices)),
        command(key, "EXPIRE", key, ctx.settings.keep_history_1m + MARGIN),
    ]


def _packed(values: Mapping[str, int]) -> str:
    ranked = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    top = dict(ranked[:TOP])
    if rest := sum(number for _, number in ranked[TOP:]):
        top[REST] = top.get(REST, 0) + rest
    return json.dumps(top, ensure_ascii=False, separators=(",", ":"))


# -- reading ----------------------------------------------------------------------------------------------------------


def history(ctx: Context, since: object, until: object, step: object) -> Op[list[Sample]]:
    start = check.past("since", since)
    end = None if until is None else check.past("until", until)
    wanted = None if step is None else _step(step)
    if end is not None:
        if start >= end:
            raise InvalidArgument("since", "must be before until")
        _check_points(start, end, wanted)
    return _history(ctx, start, end, wanted)


def _step(step: object) -> int:
    if isinstance(step, bool) or not isinstance(step, int) or step % 10 or not 10 <= step <= 31_536_000:
        raise InvalidArgument("step", "must be a multiple of 10 seconds, from 10 to 31536000 (a year)")
    return int(step)


def _points(start: int, end: int, step: int) -> int:
    width = step * 1000
    return -(-end // width) - start // width


def _check_points(start: int, end: int, step: int | None) -> None:
    if step is not None and _points(start, end, step) > MOST_POINTS:
        raise InvalidArgument("step", f"must give at most {MOST_POINTS} points between since and until")


def _chosen(settings: Settings, start: int, end: int, now: int) -> int:
    """The finest step of the ladder that fits and still knows of ``start``."""
    for step in LADDER:
        known = now - base_of(step).keep(settings) * 1000 <= start or step == LADDER[-1]
        if known and _points(start, end, step) <= MOST_POINTS:
            return step
    days = 2
    while _points(start, end, days * 86_400) > MOST_POINTS:
        days += 1
    return days * 86_400


def _history(ctx: Context, start: int, until: int | None, step: int | None) -> Op[list[Sample]]:
    [(raw_now, _)] = yield [run(STATUS, (ctx.keys.common.worker,), ctx.now)]
    now = int(raw_now)
    if until is None:
        _check_points(start, now, step)
    end = min(now, until or now)
    longest = RESOLUTIONS[-1]
    start = max(start, now - (longest.keep(ctx.settings) + MARGIN) * 1000)  # before that there is nothing to be had
    if start >= end:
        return []
    step = step or _chosen(ctx.settings, start, end, now)
    width = step * 1000
    first, last = start // width * width, -(-end // width) * width  # buckets are whole
    base = base_of(step)
    reads = list(_reads(ctx, base, max(first, now - (base.keep(ctx.settings) + MARGIN) * 1000 - base.days * DAY), last))
    splits = list(_split_reads(ctx, first, last)) if step == 3600 else []
    replies = yield [call for _, call in (*reads, *splits)]
    spread: dict[int, bytes] = {}
    for (midnight, _), values in zip(splits, replies[len(reads) :], strict=True):
        spread.update((midnight * 2 + place, value) for place, value in enumerate(values) if value)
    buckets: dict[int, _Bucket] = {}
    for (slot, _), raw in zip(reads, replies, strict=False):
        for index, record in _records(base, raw):
            at = (slot + index) * base.step * 1000 // width * width
            bucket = buckets.get(at)
            if bucket is None:
                bucket = buckets[at] = _Bucket()
            bucket.add(record)
    return [bucket.sample(at, step, now, spread) for at, bucket in sorted(buckets.items())]


def _reads(ctx: Context, base: Resolution, first: int, last: int) -> Iterator[tuple[int, Call]]:
    """The first slot, and the call that reads it and those behind it, for each key."""
    unit = base.step * 1000
    slot, stop = first // unit, -(-last // unit)
    while slot < stop:
        period, index = divmod(slot, base.slots)
        number = min(stop - slot, base.slots - index)
        key, begin = ctx.keys.common.samples(base.step, period), index * base.record.size
        yield slot, command(key, "GETRANGE", key, begin, begin + number * base.record.size - 1)
        slot += number


def _split_reads(ctx: Context, first: int, last: int) -> Iterator[tuple[int, Call]]:
    """The hour of the day's begin, and the call that reads apps and devices of each of its hours."""
    for day in range(first // DAY, -(-last // DAY)):
        key = ctx.keys.common.split(day)
        fields = [f"{hour}:{what}" for hour in range(24) for what in ("app", "device")]
        yield day * 24, command(key, "HMGET", key, *fields)


def _records(base: Resolution, raw: bytes) -> Iterable[tuple[int, Sequence[int]]]:
    """Place and values of what was written; what was not is zeros."""
    whole = memoryview(raw)[: len(raw) - len(raw) % base.record.size]
    for index, record in enumerate(base.record.iter_unpack(whole)):
        if record[0]:
            if base.record is _FINE:
                _, users, sessions, *happened = record
                record = (1, users, users, users, users, sessions, sessions, sessions, sessions, *happened, 0)
            yield index, record


class _Bucket:
    """What several records say together."""

    __slots__ = ("sums", "values")

    def __init__(self) -> None:
        self.values: Sequence[int] = ()

    def add(self, new: Sequence[int]) -> None:
        old = self.values
        if not old:
            self.values = new
            return
        self.values = (
            old[0] + new[0],
            min(old[1], new[1]), max(old[2], new[2]), new[3], old[4] + new[4],
            min(old[5], new[5]), max(old[6], new[6]), new[7], old[8] + new[8],
            *(a + b for a, b in zip(old[9:14], new[9:14], strict=True)),
            new[14],
        )  # fmt: skip

    def sample(self, at: int, step: int, now: int, spread: Mapping[int, bytes]) -> Sample:
        number, u_min, u_max, users, u_sum, s_min, s_max, sessions, s_sum, *happened, uniques = self.values
        logins, logouts, kicked, expired, replaced = happened
        return Sample(
            at=moment(at), step=step, samples=number,
            users=users, users_min=u_min, users_mean=u_sum / number, users_max=u_max,
            sessions=sessions, sessions_min=s_min, sessions_mean=s_sum / number, sessions_max=s_max,
            logins=logins, logouts=logouts, kicked=kicked, expired=expired, replaced=replaced,
            uniques=uniques if step in (3600, 86_400) else None,
            apps=_unpacked(spread.get(at // HOUR * 2)),
            devices=_unpacked(spread.get(at // HOUR * 2 + 1)),
            # The last ten seconds are written within the ten that follow.
            complete=number >= step // 10 or now >= at + step * 1000 + SLOT,
        )  # fmt: skip


def _unpacked(raw: bytes | None) -> dict[str, int] | None:
    if not raw:
        return None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return {str(k): v for k, v in value.items() if isinstance(v, int)} if isinstance(value, dict) else None
