"""Counts over time, written as a worker does it, but for any moment and without the wait."""

from __future__ import annotations

from collections.abc import Sequence

from presence_core import Presence
from presence_core.operations.history import MARGIN, RESOLUTIONS, SLOT
from presence_core.scripts import SAMPLE, Op, run


def write_samples(presence: Presence, begin: float, rows: Sequence[tuple[int, int, int]], step: int = 10) -> None:
    """One sample every ``step`` seconds (of ten each) from ``begin``, Unix seconds. Rows: users, sessions, kicks so far
    (of as many logins). Of the hour and of the day around them, two and three times as many users are unique."""
    presence.counts()
    presence._run(_write(presence, round(begin), rows, step))


def _write(presence: Presence, begin: int, rows: Sequence[tuple[int, int, int]], step: int) -> Op[None]:
    ctx, calls = presence._ctx, []
    assert ctx.keyspace is not None
    common = ctx.keyspace.common
    for number, (users, sessions, kicked) in enumerate(rows):
        slot = (begin + number * step) * 1000 // SLOT
        keys, places = [common.history], []
        for one in RESOLUTIONS:
            period, index = divmod(slot * SLOT // (one.step * 1000), one.slots)
            keys.append(common.samples(one.step, period))
            places += [index * one.record.size, one.size, one.keep(ctx.settings) + MARGIN]
        totals = (kicked, 0, kicked, 0, 0)
        now = (slot + 1) * SLOT + 1
        calls.append(run(SAMPLE, keys, now, slot, users, sessions, *totals, 2 * users, 3 * users, *places))
    replies = yield calls
    assert replies == [1] * len(rows), "each is written once, and none comes too late"
