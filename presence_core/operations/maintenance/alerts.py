"""Alerts: compare the counts of the last minute with their limits, after each sample.

The worker's key stores the state of each count. So a worker that takes the lead repeats no alert, and reports the end
of one that its predecessor sent; and ``worker_status`` has the counts that are above their limit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, get_args

from presence_core.models import (
    Alert,
    AlertCount,
    Ended,
    PersonAlert,
    Sample,
    SavedItem,
    Session,
    moment,
    stored_number,
)
from presence_core.models.history import ends_of
from presence_core.operations.context import Context
from presence_core.operations.maintenance import history
from presence_core.operations.sessions import read, tombstones
from presence_core.scripts import maintenance as scripts
from presence_core.scripts.calls import Op, call_of, command

COUNTS: Final[tuple[AlertCount, ...]] = get_args(AlertCount)

MINUTE: Final = 60_000

SLACK: Final = 1_000
"""ms behind now up to which logins are looked for: the servers of a cluster may have somewhat different clocks."""

LOOK_BACK: Final = 2 * MINUTE
"""Samples before this are not read. If they do not cover a minute, there is no rate yet."""


class AlertState(NamedTuple):
    """What is stored for a count."""

    is_above: bool = False  #: as the last alert said
    at: int = 0  #: when its last alert was sent, ms; 0: never
    per_minute: int = 0  #: at the last check
    limit: int = 0


def check_alerts(ctx: Context, limits: Mapping[AlertCount, int], now: int) -> Op[list[Alert]]:
    """The alerts to send now, after the sample before ``now`` (ms, Redis's clock) was written. Each is returned once:
    the new state is stored first."""
    end = now // history.SLOT * history.SLOT
    samples = yield from history.history(ctx, (end - LOOK_BACK) / 1000, None, 10)
    rates = per_minute(samples, end)
    if not rates:
        return []
    key = ctx.keys.common.worker
    [reply] = yield [call_of(scripts.READ_WORKER_STATUS, (key,), ctx.now)]
    _, stored = _decode(scripts.READ_WORKER_STATUS.reply(reply).text(b"alerts"))
    before = {count: stored.get(count, AlertState()) for count in limits}
    after = {
        count: next_state(state, rates[count] > limits[count], end)._replace(
            per_minute=rates[count], limit=limits[count]
        )
        for count, state in before.items()
    }
    yield [command(key, "HSET", key, "alerts", json.dumps({"at": end, "counts": after}))]
    return [
        _alert(ctx, count, state, state.is_above, end)
        for count, state in after.items()
        if state.is_above != before[count].is_above
    ]


def current(ctx: Context, raw: str, now: int) -> tuple[Alert, ...]:
    """The counts that were above their limit at the last check, if that was less than a minute ago. ``raw``: what is
    stored; now: ms."""
    at, states = _decode(raw)
    if abs(now - at) >= MINUTE:
        return ()
    return tuple(
        _alert(ctx, count, state, True, at)
        for count in COUNTS
        if (state := states.get(count)) and state.per_minute > state.limit
    )


def _alert(ctx: Context, count: AlertCount, state: AlertState, is_above: bool, at: int) -> Alert:
    return Alert(
        type="alert" if is_above else "alert_ended",
        count=count,
        per_minute=state.per_minute,
        limit=state.limit,
        at=moment(at),
        namespace=ctx.settings.namespace,
    )


def next_state(state: AlertState, is_above: bool, now: int) -> AlertState:
    """The state after a check at ``now``, ms. It changes at most once a minute, so that a count that swings around its
    limit sends no more alerts than that."""
    if is_above == state.is_above or abs(now - state.at) < MINUTE:
        return state
    return state._replace(is_above=is_above, at=now)


def per_minute(samples: Sequence[Sample], end: int) -> dict[AlertCount, int]:
    """The counts per minute up to ``end``, ms; empty if they are not known.

    A sample after a gap is not complete and says nothing. An earlier version called it complete if the gap was within a
    minute, and it holds all that happened since the sample before. So the last complete samples are counted whose times
    since the sample before are a minute or more, and divided by that time.
    """
    ends = [round(sample.at.timestamp() * 1000) + history.SLOT for sample in samples]
    watched, counted = 0, list[Sample]()
    for index in reversed(range(1, len(ends))):
        if watched < MINUTE and samples[index].complete:
            watched += ends[index] - ends[index - 1]
            counted.append(samples[index])
    if watched < MINUTE or ends[-1] != end:
        return {}
    minutes = watched / MINUTE
    totals: dict[AlertCount, int] = {
        "ends": sum(map(ends_of, counted)),
        "logins": sum(sample.logins for sample in counted),
        "failed": sum(sample.failed_logins for sample in counted),
    }
    return {count: round(total / minutes) for count, total in totals.items()}


# -- people -----------------------------------------------------------------------------------------------------------


def check_people(ctx: Context, now: int) -> Op[list[PersonAlert]]:
    """The logins since the last check of the people on the shared watch list. Each is returned once: the time of the
    check is stored first. The first check only stores it. now: ms, Redis's clock.

    Cost: two round trips; for those of them who were seen since the last check, two more each.
    """
    key, saved, end = ctx.keys.common.worker, ctx.keys.shards[0].saved, now - SLACK
    raw, stored = yield [
        command(key, "HGET", key, "people_at", lenient=True),
        command(saved, "HGET", saved, "watch\n", lenient=True),
    ]
    since = stored_number(raw) or end
    watched = [item.name for item in SavedItem.from_list("watch", "", stored)]
    parts = ctx.parts(watched, str, len(watched) or 1)
    _, *scores = yield [
        command(key, "HSET", key, "people_at", end),
        *(command(list_key, "ZMSCORE", list_key, *uids) for s, uids in parts for list_key in (s.users, s.people)),
    ]
    found: list[PersonAlert] = []
    for at, (_, uids) in enumerate(parts):
        for uid, *marks in zip(uids, *scores[2 * at : 2 * at + 2], strict=True):
            if any(mark is not None and float(mark) >= since for mark in marks):
                records = yield from _records(ctx, uid, since)
                found += [_login_of(ctx, record) for record in records if since < _login_ms(record) <= end]
    return sorted(found, key=lambda alert: alert.at)


def _records(ctx: Context, uid: str, since: int) -> Op[list[Session | Ended]]:
    """The user's own sessions that live, or have ended since then."""
    live = yield from read.sessions(ctx, uid)
    ends = yield from tombstones.ended(ctx, uid, None, None, since / 1000, None, 100, None)
    return [record for record in (*live, *ends) if record.on_behalf_by is None]


def _login_ms(record: Session | Ended) -> int:
    return round(record.login_at.timestamp() * 1000)


def _login_of(ctx: Context, record: Session | Ended) -> PersonAlert:
    return PersonAlert(
        uid=record.uid,
        name=record.name,
        session_id=record.session_id,
        device=record.device,
        at=record.login_at,
        namespace=ctx.settings.namespace,
    )


def _decode(raw: str) -> tuple[int, dict[str, AlertState]]:
    """The time of the last check, ms, and the state of each count; nothing where that cannot be read."""
    try:
        stored = json.loads(raw)
        states = {
            str(count): AlertState(bool(is_above), int(at), int(per_minute), int(limit))
            for count, (is_above, at, per_minute, limit) in stored["counts"].items()
        }
        return int(stored["at"]), states
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return 0, {}
