"""Alerts on failed sign-ins: a person, or a network, has more of them than its limit. After each sample."""

from __future__ import annotations

import hmac
import json
from typing import Final

from presence_core.keyspace import split_ref
from presence_core.models import FailureAlert, moment, stored_number, text
from presence_core.operations.context import Context
from presence_core.operations.failures import listing
from presence_core.operations.known_devices import need_keys
from presence_core.scripts.calls import Op, command

MOST_READ: Final = 200
"""Rows of a shard, the latest, that one check reads."""

MOST_SENT: Final = 20
"""Alerts of one check. What is still above its limit comes with the next."""

MOST_NETWORKS: Final = 1_000
"""Networks that one check reads, those with the most failures."""

MOST_NOTED: Final = 1_000
"""Alerts that are remembered, so that none is sent twice."""

HOUR: Final = 3_600_000
DAY: Final = 86_400_000


def check_failures(ctx: Context, of_person: int | None, of_network: int | None, now: int) -> Op[list[FailureAlert]]:
    """The alerts to send now; each is returned once, because it is noted first. A person is alerted again after a day,
    a network after an hour. now: ms, Redis's clock.

    People are noted by keyed digests, so that an erasure finds nothing of them here.

    Cost: two round trips; one more where people failed since the last check, and one if the notes have changed.
    """
    key = ctx.keys.common.worker
    [raw] = yield [command(key, "HGET", key, "failure_alerts", lenient=True)]
    before = read_noted(raw)
    noted = {name: at for name, at in before.items() if now < at + (HOUR if name.startswith("\n") else DAY)}
    found: dict[str, FailureAlert] = {}  # by the name that is noted
    if of_network is not None:
        for network in (yield from listing.failed_networks(ctx, MOST_NETWORKS)):
            name = f"\n{network.network}"
            if network.count > of_network and network.network and name not in noted:
                found[name] = _alert(ctx, now, network.count, of_network, network=network.network)
    if of_person is not None:
        guesses = yield from _guesses(ctx, now)
        if guesses:
            yield from need_keys(ctx)
        for uid, count in guesses.items():
            names = _names(ctx, uid)
            if count > of_person and noted.keys().isdisjoint(names):
                found[names[0]] = _alert(ctx, now, count, of_person, uid=uid)
    sent = dict(sorted(found.items(), key=lambda item: -item[1].count)[:MOST_SENT])
    noted |= dict.fromkeys(sent, now)
    latest = dict(sorted(noted.items(), key=lambda item: -item[1])[:MOST_NOTED])
    if latest != before:
        yield [command(key, "HSET", key, "failure_alerts", json.dumps(latest))]
    return list(sent.values())


def _names(ctx: Context, uid: str) -> list[str]:
    """What a person is noted by: a digest by each key, that of today first."""
    return [hmac.digest(key, f"failure alert\0{uid}".encode(), "sha256")[:16].hex() for key in ctx.cache.device_keys]


def _guesses(ctx: Context, now: int) -> Op[dict[str, int]]:
    """The people whose sign-ins failed within the last hour, and how often since their login before."""
    shards = ctx.keys.shards
    replies = yield [
        command(s.failed, "ZRANGE", s.failed, "+inf", now - HOUR, "BYSCORE", "REV", "LIMIT", 0, MOST_READ, lenient=True)
        for s in shards
    ]
    people = list(dict.fromkeys(split_ref(text(ref))[0] for refs in replies for ref in refs or ()))
    if not people:
        return {}
    rows = yield [
        command(key, "HMGET", key, "#", "=", lenient=True) for key in (ctx.shard(uid).failures(uid) for uid in people)
    ]
    sums = [[stored_number(value) or 0 for value in row or (None, None)] for row in rows]
    return {uid: counted - before for uid, (counted, before) in zip(people, sums, strict=True)}


def _alert(
    ctx: Context, now: int, count: int, limit: int, *, uid: str | None = None, network: str | None = None
) -> FailureAlert:
    namespace = ctx.settings.namespace
    return FailureAlert(uid=uid, network=network, count=count, limit=limit, at=moment(now), namespace=namespace)


def read_noted(raw: bytes | None) -> dict[str, int]:
    """Who was alerted, and when, ms; nothing where that cannot be read."""
    try:
        return {str(name): int(at) for name, at in json.loads(raw or b"{}").items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}
