"""Counts over time, written as the worker does, but for any time and without the wait."""

from __future__ import annotations

from collections.abc import Sequence

from presence_core import Presence
from presence_core.operations.maintenance.history import RESOLUTIONS, SLOT
from presence_core.scripts.calls import Op, call_of, command
from presence_core.scripts.maintenance import WRITE_SAMPLE


def write_samples(presence: Presence, begin: float, rows: Sequence[tuple[int, int, int]], step: int = 10) -> None:
    """One sample every ``step`` seconds (of ten each) from ``begin``, Unix seconds, each as if the ten seconds before
    it had been watched.

    Rows: users, sessions, kicks so far (with as many logins, each on a new device). The unique users of the hour and of
    the day are two and three times as many.
    """
    presence.counts()
    presence.internal.run(_write(presence, round(begin), rows, step))


def _write(presence: Presence, begin: int, rows: Sequence[tuple[int, int, int]], step: int) -> Op[None]:
    ctx, calls = presence.internal.context, []
    assert ctx.cache.keyspace is not None
    common = ctx.cache.keyspace.common
    for number, (users, sessions, kicked) in enumerate(rows):
        slot = (begin + number * step) * 1000 // SLOT
        keys, places = [common.history], list[int]()
        for resolution in RESOLUTIONS:
            period, place = resolution.place(slot * SLOT, ctx.settings)
            keys.append(common.samples(resolution.step, period))
            places += place
        totals = (kicked, 0, kicked, 0, 0, kicked)
        now = (slot + 1) * SLOT + 1
        calls.append(command(common.history, "HSET", common.history, "slot", slot - 1))
        calls.append(call_of(WRITE_SAMPLE, keys, *totals, 0, 0, *places, given_now=now, given_slot=slot, users=users,
                             sessions=sessions, hourly_users=2 * users, daily_users=3 * users))  # fmt: skip
    replies = yield calls
    assert replies[1::2] == [1] * len(rows), "each is written once, and none comes too late"
