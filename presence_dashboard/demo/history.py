"""Two weeks of history for a new demo, so that its charts and lists show from the start what they are for.

What staff did is done again by the public methods of Presence, with a clock in the past. The counts of each minute are
invented, with days, nights and weekends. They end now, with as many sessions as the first visitors have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from random import Random
from typing import Any, Final

from presence_core import Login, Presence, Settings
from presence_core.keyspace import Shard
from presence_core.operations.maintenance import history
from presence_core.operations.maintenance.history import SlotRecord
from presence_core.schema.endings import END_REASONS, kept
from presence_core.scripts.calls import Call, Op, command
from presence_dashboard.demo.people import VISITORS
from presence_dashboard.demo.visitors import STAY, USERS, first_visits

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
DAYS: Final = 14

FINE: Final = DAY
"""Samples of ten seconds are kept for so long; before, one a minute is enough."""

TENTH: Final = 10
"""Seconds of the finest samples."""

PEAK: Final = 15.0  # the busiest hour, UTC
NIGHT: Final = 0.42  # sessions at night, as a share of those at the peak
WEEKEND: Final = 0.78  # the same for a weekend
DEVICES: Final = {"Windows PC": 26, "iPhone": 23, "Mac": 18, "Android phone": 17, "Linux PC": 8, "iPad": 8}
APPS: Final = {"web": 68, "android": 12, "ios": 12, "desktop": 8}

# Shifts of invented staff: who, and the hours of the day, UTC.
SHIFTS: Final = (("dana", range(6, 14)), ("sam", range(14, 22)), ("ines", (22, 23, 0, 1, 2, 3, 4, 5)))

# (reason, message, whether all sessions of the person, seconds of a block)
CASES: Final = (
    ("Lost phone, says the user", "This device was reported as lost and has been signed out.", False, None),
    ("Left signed in at a library", "You asked us to sign out this device.", False, None),
    ("Account takeover: email was changed from abroad", "Please set a new password, then sign in again.", True, 3600),
    ("Shared account", "Please sign in with your own account.", True, None),
    ("Card reported as stolen, asked by billing", "Please contact support before you sign in again.", True, DAY),
)


def write_history(url: str, settings: Settings, now: float, visitors: int) -> bool:
    """Fill an empty server; False, and nothing is done, if it has any data."""
    # A TTL counts from the real time, so the records of past sessions have none until they are tombstones.
    past = replace(settings, record_ttl=False, timeout=30.0)
    random = Random("the same two weeks every time")
    with Presence.from_url(url, past) as presence:
        redis, context = presence.internal.redis_client, presence.internal.context
        if redis.dbsize():
            return False
        kicks = _handle_cases(presence, now, random)
        context.now = ""
        presence.sweep()
        presence.login_many(first_visits(random, visitors, now), imported=True)
        _write_counts(presence, list(_minutes(now, visitors, kicks, random)), presence.counts().totals, now, random)
        for shard in context.keys.shards:
            _date_entries(redis, shard)
            _date_tombstones(redis, shard, settings)
    return True


# -- what staff did ----------------------------------------------------------------------------------------------------


def _handle_cases(presence: Presence, now: float, random: Random) -> Counter[int]:
    """About one case in two hours, at any time of the day. Returns kicks by minute (Unix seconds)."""
    kicks: Counter[int] = Counter()
    at, ticket = now - DAYS * DAY + HOUR, 4100
    while at < now - 5 * MINUTE:
        presence.internal.context.now = str(round(at * 1000))
        by = next(name for name, hours in SHIFTS if at % DAY // HOUR in hours)
        ticket += random.randrange(1, 9)
        if random.random() < 0.05:
            uid = random.choice(VISITORS).uid
            presence.denied(by="noor", what="kick", uid=uid, reason="role viewer")
        else:
            kicks[int(at // MINUTE) * MINUTE] += _kick(presence, random, at, by, f"SUP-{ticket}")
        at += random.uniform(0.4, 3.4) * HOUR
    return kicks


def _kick(presence: Presence, random: Random, at: float, by: str, ticket: str) -> int:
    """A person signs in on some devices, and staff end one session or all. Returns how many ended."""
    reason, message, is_all, block_for = random.choice(CASES)
    member = random.choice(VISITORS)
    ages = [random.uniform(90, 1400) for _ in range(random.choice((1, 1, 2, 3)))]
    rows = [
        member.login(random.choice(member.devices)) | {"login_at": at - age, "last_seen": at - 20.0} for age in ages
    ]
    logins = [login for login in presence.login_many(rows, imported=True) if isinstance(login, Login)]
    if not logins:  # blocked
        return 0
    session_id = None if is_all else logins[0].session.session_id
    result = presence.kick(
        member.uid, session_id, by=by, reason=reason, message=message, ticket=ticket, block_for=block_for
    )
    return len(result.kicked)


# -- counts ------------------------------------------------------------------------------------------------------------


def _minutes(now: float, visitors: int, kicks: Counter[int], random: Random) -> Iterator[tuple[int, SlotRecord]]:
    """The minutes of the two weeks up to ``now``, with the one that has begun. The last ones have about as many
    sessions as there are visitors."""
    scale = visitors / _level(now)
    until = int(now // MINUTE) * MINUTE
    before = None
    for at in range(until - DAYS * DAY, until + 1, MINUTE):
        sessions = round(scale * _level(at) * random.gauss(1, 0.01))
        users, kicked = round(sessions * USERS), kicks[at]
        grown = 0 if before is None else sessions - before
        before = sessions
        usual = sessions * MINUTE / STAY
        logins = max(0, grown, round(random.gauss(usual, math.sqrt(usual))))
        ends = logins - grown
        replaced = int(ends * 0.04 + random.random())
        expired = min(ends - replaced, int(ends * random.uniform(0.24, 0.4) + random.random()))
        new_devices = (logins + at // MINUTE % 20) // 20  # a twentieth on average, also of few logins
        yield at, SlotRecord(
            6, users, users, users, 6 * users, sessions, sessions, sessions, 6 * sessions, logins + kicked,
            ends - replaced - expired, kicked, expired, replaced, new_devices=new_devices,
        )  # fmt: skip


def _level(at: float) -> float:
    """Sessions at a time, as a share of those of the busiest hour."""
    by_hour = NIGHT + (1 - NIGHT) * (1 + math.cos(2 * math.pi * (at / HOUR - PEAK) / 24)) / 2
    # 1 January 1970 was a Thursday. Between two days the level changes slowly.
    by_day = sum(((at + shift * HOUR) // DAY + 3) % 7 >= 5 for shift in (-2, -1, 0, 1, 2)) / 5
    return by_hour * (1 - (1 - WEEKEND) * by_day)


def _write_counts(
    presence: Presence, minutes: list[tuple[int, SlotRecord]], totals: Mapping[str, int], now: float, random: Random
) -> None:
    """The samples, packed as the worker's script writes them: that script takes one at a time, in 20 times as long."""
    begun, last = minutes.pop()
    end = int(now // TENTH) * TENTH
    tenths = [tenth for at, record in minutes if at >= end - FINE for tenth in _tenths(at, record, random)]
    running = [(at, record) for at, record in _tenths(begun, last, random) if at < end]
    if running:  # of the minute that has begun
        tenths += running
        minutes.append((begun, reduce(SlotRecord.plus, (record for _, record in running))))
    context, calls = presence.internal.context, []
    for resolution in history.RESOLUTIONS:
        keep = resolution.keep(context.settings) + history.MARGIN
        for period, packed in _packed(resolution, tenths if resolution.step == TENTH else minutes).items():
            key = context.keys.common.samples(resolution.step, period)
            calls += [command(key, "SET", key, packed, "EX", keep)]
    # The worker goes on from here: the next sample is what has grown since.
    key = context.keys.common.history
    noted = [word for kind in ("login", *END_REASONS) for word in (kind, totals[kind])]
    calls += [command(key, "HSET", key, "slot", end * 1000 // history.SLOT - 1, *noted)]
    presence.internal.run(_send(calls))
    for at, record in minutes:
        if at % HOUR == 0:
            apps, devices = (_split(shares, record.sessions) for shares in (APPS, DEVICES))
            presence.internal.run(history.split(context, at * 1000, apps, devices))


def _split(shares: dict[str, int], sessions: int) -> dict[str, int]:
    whole = sum(shares.values())
    return {name: round(sessions * share / whole) for name, share in shares.items()}


def _tenths(at: int, record: SlotRecord, random: Random) -> Iterator[tuple[int, SlotRecord]]:
    """The samples of ten seconds of a minute."""
    happened = (*record[9:14], record.new_devices)
    for part in range(6):
        *counts, new_devices = (count * (part + 1) // 6 - count * part // 6 for count in happened)
        sessions = record.sessions + random.randrange(-1, 2)
        fine = SlotRecord.from_fine(1, record.users, sessions, *counts)
        yield at + TENTH * part, fine._replace(new_devices=new_devices)


def _packed(resolution: history.Resolution, records: Iterable[tuple[int, SlotRecord]]) -> dict[int, bytes]:
    """The value of each key of a resolution, by its period."""
    added: dict[int, SlotRecord] = {}
    for at, record in records:
        slot = at // resolution.step
        added[slot] = added[slot].plus(record) if slot in added else record
    keys: dict[int, bytearray] = {}
    for slot, record in added.items():
        period, index = divmod(slot, resolution.slots)
        buffer = keys.setdefault(period, bytearray(resolution.size))
        resolution.record.pack_into(buffer, index * resolution.record.size, *_fields(resolution.step, record))
        history.ODD_RECORD.pack_into(buffer, resolution.odd_place(index), record.new_devices, record.distant_logins)
    return {period: bytes(buffer) for period, buffer in keys.items()}


def _fields(step: int, record: SlotRecord) -> Sequence[int]:
    if step == TENTH:
        return (record.samples, record.users, record.sessions, *record[9:14])
    unique_share = {HOUR: 1.7, DAY: 2.4}.get(step, 0.0)
    return record._replace(uniques=min(len(VISITORS), round(record.users_max * unique_share)))[:15]


def _send(calls: list[Call]) -> Op[None]:
    yield calls


# -- dates -------------------------------------------------------------------------------------------------------------


def _date_entries(redis: Any, shard: Shard) -> None:
    """Give audit entries the ids of their time: the server gave those of today, and the audit is read by id."""
    entries = [fields for _, fields in redis.xrange(shard.audit)]
    pipe = redis.pipeline()
    pipe.delete(shard.audit)
    for number, fields in enumerate(entries):
        pipe.xadd(shard.audit, fields, id=f"{int(fields[b'at'])}-{number}")
    pipe.execute()


def _date_tombstones(redis: Any, shard: Shard, settings: Settings) -> None:
    """Let the records of past ends expire when they would have."""
    keeps = kept(settings)
    ends = redis.zrange(shard.ended, 0, -1, withscores=True)
    keys = [shard.record_prefix.encode() + ref for ref, _ in ends]
    reading, writing = redis.pipeline(), redis.pipeline()
    for key in keys:
        reading.hget(key, "e")
    for (_, at), key, reason in zip(ends, keys, reading.execute(), strict=True):
        writing.pexpireat(key, int(at) + 1000 * keeps[reason.decode()])
    writing.execute()
