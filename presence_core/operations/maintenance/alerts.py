"""Alerts: compare the counts of the last minute with their limits, after each sample.

Per count the worker's key stores whether it is above its limit and the time of its last alert. So a worker that takes
the lead repeats no alert, and reports the end of one that its predecessor sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from presence_core.models import Alert, AlertCount, Sample, moment
from presence_core.operations.context import Context
from presence_core.operations.maintenance import history
from presence_core.scripts import maintenance as scripts
from presence_core.scripts.calls import Op, command, run

MINUTE: Final = 60_000

LOOK_BACK: Final = 2 * MINUTE
"""Samples before this are not read. If none between one and two minutes ago exists, there is no rate yet."""


class AlertState(NamedTuple):
    """What is stored for a count."""

    is_above: bool = False
    at: int = 0  #: when its last alert was sent, ms; 0: never


def check_alerts(ctx: Context, limits: Mapping[AlertCount, int], now: int) -> Op[list[Alert]]:
    """The alerts to send now, after the sample before ``now`` (ms, Redis's clock) was written. Each is returned once:
    the new state is stored first."""
    end = now // history.SLOT * history.SLOT
    samples = yield from history.history(ctx, (end - LOOK_BACK) / 1000, None, 10)
    rates = per_minute(samples, end)
    if not rates:
        return []
    key = ctx.keys.common.worker
    [reply] = yield [run(scripts.READ_WORKER_STATUS, (key,), ctx.now)]
    stored = _decode_states(scripts.decode_worker_status(reply).text(b"alerts"))
    before = {count: stored.get(count, AlertState()) for count in limits}
    after = {count: next_state(state, rates[count] > limits[count], end) for count, state in before.items()}
    if after != stored:
        yield [command(key, "HSET", key, "alerts", json.dumps(after))]
    return [
        Alert(
            type="alert" if after[count].is_above else "alert_ended",
            count=count, per_minute=rates[count], limit=limits[count], at=moment(end), namespace=ctx.settings.namespace,
        )
        for count in limits
        if after[count] != before[count]
    ]  # fmt: skip


def next_state(state: AlertState, is_above: bool, now: int) -> AlertState:
    """The state after a check at ``now``, ms. It changes at most once a minute, so that a count that swings around its
    limit sends no more alerts than that."""
    if is_above == state.is_above or abs(now - state.at) < MINUTE:
        return state
    return AlertState(is_above, now)


def per_minute(samples: Sequence[Sample], end: int) -> dict[AlertCount, int]:
    """The counts per minute up to ``end``, ms; empty if they are not known.

    A sample holds all that happened since the sample before it. So the counts begin after some sample that is a minute
    or more older than the last one, and are divided by the time since then.
    """
    ends = [round(sample.at.timestamp() * 1000) + history.SLOT for sample in samples]
    first = next((index for index in reversed(range(len(ends))) if ends[index] <= end - MINUTE), None)
    if first is None or ends[-1] != end:
        return {}
    minutes = (end - ends[first]) / MINUTE
    counted = samples[first + 1 :]
    totals: dict[AlertCount, int] = {
        "ends": sum(sample.logouts + sample.kicked + sample.expired + sample.replaced for sample in counted),
        "logins": sum(sample.logins for sample in counted),
    }
    return {count: round(total / minutes) for count, total in totals.items()}


def _decode_states(raw: str) -> dict[str, AlertState]:
    """Without what cannot be read: then the alert may be sent again."""
    try:
        return {str(count): AlertState(bool(is_above), int(at)) for count, (is_above, at) in json.loads(raw).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
