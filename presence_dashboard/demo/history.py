"""Two weeks of history for a new demo, so that its charts and lists show from the start what they are for.

What staff and visitors did is done again by the public methods of Presence, with a clock in the past. The counts of the
time before are invented (rhythm.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from presence_core import Login, Presence, SessionFilter, Settings
from presence_core.keyspace import Shard
from presence_core.operations.maintenance import history
from presence_core.operations.maintenance.history import SlotRecord
from presence_core.scripts.calls import Call, Op, command
from presence_dashboard.demo.devices import Device
from presence_dashboard.demo.people import VISITORS, Member
from presence_dashboard.demo.rhythm import (
    APPS,
    DAY,
    DEVICES,
    HOUR,
    MINUTE,
    USERS,
    BusyMinute,
    incident_end,
    minutes,
    split,
)
from presence_dashboard.demo.visitors import Visit, save_cookies

PLAYED: Final = HOUR
"""Ended sessions of visitors are kept for so long (launch.DEMO_SETTINGS), so earlier ones are only counted."""

FINE: Final = DAY
"""Samples of ten seconds are kept for so long; before, one a minute is enough."""

BROKEN_VERSION: Final = "7.2.0"
ATTACK: Final = "203.0.113.0/24"

# Shifts of invented staff: who, and the hours of the day, UTC.
SHIFTS: Final = (("dana", range(6, 14)), ("sam", range(14, 22)), ("ines", (22, 23, 0, 1, 2, 3, 4, 5)))

# (reason, message, whether all sessions of the person, seconds of a block)
CASES: Final = (
    ("Lost phone, says the user", "This device was reported as lost and has been signed out.", False, None),
    ("The user asked us to sign out this device.", "You asked us to sign out this device.", False, None),
    ("Left signed in at a library", "You asked us to sign out this device.", False, None),
    ("Account takeover: email was changed from abroad", "Please set a new password, then sign in again.", True, 3600),
    ("Suspicious sign-in", "Your sign-in looked unusual. If it was not you, change your password.", True, None),
    ("Shared account", "Please sign in with your own account.", True, None),
    ("Card reported as stolen, asked by billing", "Please contact support before you sign in again.", True, DAY),
)

KINDS: Final = ("login", "logout", "kicked", "expired", "replaced")

Step = tuple[float, Callable[[], None]]
"""When something happened, Unix seconds; and a function that does it."""


def write_history(url: str, settings: Settings, now: float, visitors: int, jar: Path) -> bool:
    """Fill an empty server; False, and nothing is done, if it has any data. ``jar`` gets the cookies of visitors who
    are signed in at the end, so that the simulated visitors go on with these sessions."""
    # A TTL counts from the real time, so the records of past sessions have none until they are tombstones.
    past = replace(settings, record_ttl=False, timeout=30.0)
    random = Random("the same two weeks every time")
    with Presence.from_url(url, past) as presence:
        if presence.internal.redis_client.dbsize():
            return False
        busy = list(minutes(now, visitors, random))
        story = _Story(presence, random, now)
        story.play(busy)
        presence.internal.context.now = ""
        presence.sweep()
        _sign_in_visitors(url, settings, visitors, now, jar, random)
        totals = presence.counts().totals
        _write_counts(presence, busy, totals, story.kicks, random)
        for shard in presence.internal.context.keys.shards:
            _date_entries(presence.internal.redis_client, shard)
            _date_tombstones(presence.internal.redis_client, shard, settings)
    return True


class _Story:
    """What visitors and staff did, one step after another."""

    def __init__(self, presence: Presence, random: Random, now: float) -> None:
        self.kicks: Counter[int] = Counter()  #: minute (Unix seconds) → sessions that staff ended
        self._presence = presence
        self._random = random
        self._now = now
        self._ticket = 4100

    def play(self, busy: list[BusyMinute]) -> None:
        recent = [minute for minute in busy if minute.at >= self._now - PLAYED]
        steps: list[Step] = [
            *self._cases(busy[0].at),
            *((minute.at + MINUTE - 1.0, partial(self._visits, minute)) for minute in recent),
            (incident_end(self._now), self._end_broken_version),
            (self._now - 9 * DAY - 5 * HOUR, self._end_attack),
        ]
        for at, act in sorted(steps, key=lambda step: step[0]):
            self._go_to(at)
            act()

    def _go_to(self, at: float) -> None:
        self._at = at
        self._presence.internal.context.now = str(round(at * 1000))

    # -- visitors

    def _sign_in(self, rows: Iterable[tuple[Member, Device, float, float]], ips: Sequence[str] = ()) -> list[Login]:
        """Sessions that began and were last seen so many seconds ago; without users who are blocked."""
        given = [
            _row(member, device) | {"login_at": self._at - age, "last_seen": self._at - seen}
            for member, device, age, seen in rows
        ]
        for row, ip in zip(given, ips, strict=False):
            row["ip"] = ip
        logins = self._presence.login_many(given, imported=True)
        return [login for login in logins if isinstance(login, Login)]

    def _drawn(self, number: int, seen: float = 0.0) -> Iterator[tuple[Member, Device, float, float]]:
        for member in self._random.sample(VISITORS, number):
            age = min(1500.0, 40.0 + self._random.expovariate(1 / 440))
            yield member, self._random.choice(member.devices), age + seen, seen

    def _visits(self, minute: BusyMinute) -> None:
        """The sessions that ended in a minute. Those that expired were last seen before."""
        self._sign_in(self._drawn(minute.expired, seen=self._random.uniform(80, 118)))
        for login in self._sign_in(self._drawn(minute.logouts)):
            self._presence.logout(login.session.uid, login.session.session_id)
        for member in self._random.sample(VISITORS, minute.replaced):
            # The fourth session of a user ends the first one.
            self._sign_in((member, self._random.choice(member.devices), 900.0 - 200 * n, 100.0) for n in range(4))
        if minute.at % (10 * MINUTE) == 0:
            self._presence.sweep()

    # -- staff

    def _cases(self, begin: float) -> Iterator[Step]:
        """About one case in two hours, at any time of the day."""
        at = begin + HOUR
        while at < self._now - 5 * MINUTE:
            name = next(name for name, hours in SHIFTS if at % DAY // HOUR in hours)
            yield at, partial(self._handle_case, name)
            at += self._random.uniform(0.4, 3.4) * HOUR

    def _handle_case(self, by: str) -> None:
        self._ticket += self._random.randrange(1, 9)
        kind = self._random.random()
        if kind < 0.06:
            self._block(by)
        elif kind < 0.1:
            self._presence.audit_note(
                by=by, what="export", outcome=f"{self._random.randrange(20, 400)} sessions exported"
            )
        elif kind < 0.13:
            member = self._random.choice(VISITORS)
            self._presence.denied(by="noor", what="kick", uid=member.uid, reason="role viewer")
        else:
            self._kick(by)

    def _kick(self, by: str) -> None:
        reason, message, is_all, block_for = self._random.choice(CASES)
        member = self._random.choice(VISITORS)
        devices = [self._random.choice(member.devices) for _ in range(self._random.choice((1, 1, 2, 3)))]
        logins = self._sign_in((member, device, self._random.uniform(90, 1400), 20.0) for device in devices)
        if not logins:
            return
        result = self._presence.kick(
            member.uid,
            None if is_all else logins[0].session.session_id,
            by=by,
            reason=reason,
            message=message,
            ticket=f"SUP-{self._ticket}",
            block_for=block_for,
        )
        self._count(len(result.kicked))

    def _block(self, by: str) -> None:
        member, days = self._random.choice(VISITORS), self._random.choice((1, 7, 30))
        self._presence.block(
            member.uid, by=by, reason="Sends advertising to other users", duration=days * DAY,
            message="Please contact support.", ticket=f"SUP-{self._ticket}",
        )  # fmt: skip
        if days == 1 and self._random.random() < 0.5:
            self._presence.unblock(member.uid, by=by, reason="Solved with the user on the phone")

    def _end_broken_version(self) -> None:
        users = [(member, device) for member in VISITORS for device in member.devices
                 if device.app == "android" and device.app_version == BROKEN_VERSION]  # fmt: skip
        self._sign_in((member, device, self._random.uniform(60, 1500), 20.0) for member, device in users)
        self._kick_where(
            SessionFilter(app="android", app_version=BROKEN_VERSION), "sam", "INC-204",
            "Android 7.2.0 signs in again and again", "Please update the app, then sign in again.",
        )  # fmt: skip

    def _end_attack(self) -> None:
        network = ATTACK.rpartition(".")[0]
        self._sign_in(self._drawn(23, seen=15.0), ips=[f"{network}.{11 + 9 * number}" for number in range(23)])
        self._kick_where(
            SessionFilter(ip=ATTACK), "dana", "INC-198", "Stolen passwords are tried from this network",
            "Please set a new password.",
        )  # fmt: skip

    def _kick_where(self, found: SessionFilter, by: str, ticket: str, reason: str, message: str) -> None:
        preview = self._presence.preview_kick(found)
        result = self._presence.kick_where(
            preview.filter, by=by, reason=reason, expected=preview.total, message=message, ticket=ticket
        )
        self._count(result.count)

    def _count(self, kicked: int) -> None:
        self.kicks[int(self._at // MINUTE) * MINUTE] += kicked


def _row(member: Member, device: Device) -> dict[str, Any]:
    return {
        "uid": member.uid, "name": member.name, "aliases": member.aliases, "device": device.name, "app": device.app,
        "app_version": device.app_version, "ip": member.addresses[device.mobile], "device_id": member.device_id(device),
        "user_agent": device.user_agent,
    }  # fmt: skip


def _sign_in_visitors(url: str, settings: Settings, visitors: int, now: float, jar: Path, random: Random) -> None:
    """The sessions that are live at the end, and their cookies. Some users have two."""
    members = random.sample(VISITORS, min(round(visitors * USERS), len(VISITORS)))
    visits = []
    for member in [*members, *members[: visitors - len(members)]]:
        device = random.choice(member.devices)
        visits.append(Visit(member, device, member.addresses[device.mobile]))
    rows = [
        _row(visit.member, visit.device)
        | {"login_at": now - min(1500.0, random.expovariate(1 / 440)) - 30, "last_seen": now - random.uniform(0, 30)}
        for visit in visits
    ]
    with Presence.from_url(url, settings) as presence:  # these records have a TTL
        logins = presence.login_many(rows, imported=True)
    for visit, login in zip(visits, logins, strict=True):
        if isinstance(login, Login):
            visit.token = login.token
    save_cookies(jar, visits)


# -- counts ------------------------------------------------------------------------------------------------------------


def _write_counts(
    presence: Presence, busy: list[BusyMinute], totals: Mapping[str, int], kicks: Counter[int], random: Random
) -> None:
    """The samples, packed as the worker's script writes them: that script takes one at a time, in 20 times as long."""
    minute_records = [(minute.at, _record(minute, kicks[minute.at])) for minute in busy]
    fine_records = [item for item in minute_records if item[0] >= busy[-1].at - FINE for item in _tenths(*item, random)]
    context, calls = presence.internal.context, []
    for resolution in history.RESOLUTIONS:
        records = fine_records if resolution.step == 10 else minute_records
        keep = resolution.keep(context.settings) + history.MARGIN
        for period, packed in _packed(resolution, records).items():
            key = context.keys.common.samples(resolution.step, period)
            calls += [command(key, "SET", key, packed, "EX", keep)]
    # The worker goes on from here: the next sample is what has grown since.
    key, slot = context.keys.common.history, (busy[-1].at + MINUTE) * 1000 // history.SLOT - 1
    noted = [word for kind in KINDS for word in (kind, totals[kind])]
    presence.internal.run(_send([*calls, command(key, "HSET", key, "slot", slot, *noted)]))
    for minute in busy:
        if minute.at % HOUR == 0:
            apps, devices = (split(shares, minute.sessions, random) for shares in (APPS, DEVICES))
            presence.internal.run(history.split(context, minute.at * 1000, apps, devices))


def _record(minute: BusyMinute, kicked: int) -> SlotRecord:
    users, sessions = minute.users, minute.sessions
    new_devices = (minute.logins + minute.at // MINUTE % 20) // 20  # a twentieth on average, also of few logins
    return SlotRecord(
        6, users, users, users, 6 * users, sessions, sessions, sessions, 6 * sessions, minute.logins + kicked,
        minute.logouts, kicked, minute.expired, minute.replaced, new_devices=new_devices,
    )  # fmt: skip


def _tenths(at: int, record: SlotRecord, random: Random) -> Iterator[tuple[int, SlotRecord]]:
    """The samples of ten seconds of a minute."""
    happened = (*record[9:14], record.new_devices)
    for part in range(6):
        *counts, new_devices = (count * (part + 1) // 6 - count * part // 6 for count in happened)
        sessions = record.sessions + random.randrange(-1, 2)
        fine = SlotRecord.from_fine(1, record.users, sessions, *counts)
        yield at + 10 * part, fine._replace(new_devices=new_devices)


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
    if step == 10:
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
    ends = redis.zrange(shard.ended, 0, -1, withscores=True)
    keys = [shard.record_prefix.encode() + ref for ref, _ in ends]
    reading, writing = redis.pipeline(), redis.pipeline()
    for key in keys:
        reading.hget(key, "e")
    for (_, at), key, reason in zip(ends, keys, reading.execute(), strict=True):
        writing.pexpireat(key, int(at) + 1000 * int(getattr(settings, f"keep_{reason.decode()}")))
    writing.execute()
