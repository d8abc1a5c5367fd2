"""Counts over time: each ten seconds once, rolled up exactly, gaps stay gaps, kept as long as the settings say."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from presence_core import CorruptData, InvalidArgument, Sample, Settings
from presence_core.operations.maintenance import history
from presence_core.operations.maintenance.alerts import check_alerts
from presence_core.operations.maintenance.history import DAY, HOUR, RESOLUTIONS, SLOT
from presence_core.scripts.calls import call_of
from presence_core.scripts.maintenance import WRITE_SAMPLE
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.place_file import write_place_file
from tests.support.soak import size


def _align(p: P, ms: int = HOUR) -> int:
    """Stop the clock at the next full hour (or day, …); returns this time in ms."""
    now = p.freeze()
    p.set_now(now - now % ms + ms)
    return p.clock.ms


def _take(p: P) -> bool:
    """The steps that the worker takes every ten seconds."""
    return p.internal.run(history.sample(p.internal.context, p.clock.ms))


def _step(p: P, seconds: float = 10) -> None:
    p.advance(seconds)
    assert _take(p)


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@every_backend
def test_a_sample_has_the_counts_of_its_ten_seconds(p: P) -> None:
    start = _align(p)
    p.login("ada")
    _step(p)  # the first sample: earlier events are not known to be from these ten seconds
    sessions = [p.login(uid).session for uid in ("ada", "bob", "eve")]
    p.logout("bob", sessions[1].session_id)
    p.kick("eve", by="staff", reason="test")
    _step(p)
    first, second = p.history(start / 1000, _at(start + 20_000))
    assert (first.at, first.step, first.samples, first.complete) == (_at(start), 10, 1, True)
    assert (first.users, first.sessions, first.logins) == (1, 1, 0)
    assert (second.at, second.users, second.sessions) == (_at(start + 10_000), 1, 2)
    assert (second.users_min, second.users_mean, second.users_max) == (1, 1.0, 1)
    assert (second.sessions_min, second.sessions_mean, second.sessions_max) == (2, 2.0, 2)
    happened = (second.logins, second.logouts, second.kicked, second.expired, second.replaced)
    assert happened == (3, 1, 1, 0, 0)
    assert (second.uniques, second.apps, second.devices) == (None, None, None)


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_distant_logins_are_counted_now_and_over_time(bed: Bed, tmp_path: Path) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    start = _align(p)
    for ip in ("192.0.2.7", "203.0.113.7"):
        p.login("ada", ip=ip, device_id="the-phone-of-ada")
    for _ in range(2):
        _step(p)
    for ip, device in (("192.0.2.7", "phone"), ("203.0.113.7", "laptop"), ("203.0.113.7", "phone")):
        p.login("ada", ip=ip, device_id=f"the-{device}-of-ada")
    _step(p)
    assert p.counts().odd_logins == {"new_device": 1, "distant": 3, "after_failures": 0, "moved": 0}
    assert p.counts().totals == {"login": 5, "logout": 0, "expired": 0, "kicked": 0, "replaced": 0}
    assert [sample.distant_logins for sample in p.history(start / 1000, step=10)] == [0, 0, 2]
    for step in (60, 3600, 86_400):
        [sample] = p.history(start / 1000, step=step)
        assert (sample.new_devices, sample.distant_logins) == (1, 2), step


@every_topology
def test_logins_on_a_new_device_are_counted_now_and_over_time(p: P) -> None:
    start = _align(p)
    for device_id in ("phone", "laptop"):
        p.login("ada", device_id=f"the-{device_id}-of-ada")
    _step(p)  # the first sample: earlier events are not known to be from these ten seconds
    _step(p)
    for uid, device_id in (("ada", "tablet"), ("ada", "tablet"), ("ada", "watch"), ("bob", "phone")):
        p.login(uid, device_id=f"the-{device_id}-of-{uid}")
    _step(p)
    p.login("bob", device_id="the-laptop-of-bob")
    _step(p)
    counts = p.counts()
    assert counts.odd_logins == {"new_device": 4, "distant": 0, "after_failures": 0, "moved": 0}
    assert counts.totals == {"login": 7, "logout": 0, "expired": 0, "kicked": 0, "replaced": 0}
    assert [sample.new_devices for sample in p.history(start / 1000, step=10)] == [0, 0, 2, 1]
    for step in (60, 3600, 86_400):
        assert [sample.new_devices for sample in p.history(start / 1000, step=step)] == [3], step


def test_a_key_of_an_earlier_version_is_read_and_goes_on_to_count_new_devices(p: P, bed: Bed, raw: Any) -> None:
    start = _align(p)
    p.login("ada", device_id="the-phone-of-ada")
    _step(p)
    shape = {resolution.step: resolution.slots * resolution.record.size for resolution in RESOLUTIONS}
    for key in bed.families()["history:"]:
        raw.set(key, raw.get(key)[: shape[int(key.split(b":")[2])]], keepttl=True)
    assert [sample.new_devices for sample in p.history(start / 1000)] == [0]
    p.login("ada", device_id="the-laptop-of-ada")
    _step(p)
    assert [(sample.logins, sample.new_devices) for sample in p.history(start / 1000)] == [(0, 0), (1, 1)]
    [hour] = p.history(start / 1000, step=3600)
    assert (hour.samples, hour.logins, hour.new_devices) == (2, 1, 1)


def test_a_second_sample_in_the_same_ten_seconds_changes_nothing(bed: Bed) -> None:
    p, other = bed.connect(), bed.connect()
    start = _align(p)
    _step(p)
    p.login("ada")
    _step(p)
    before = bed.dump()
    p.login("bob")
    between = bed.dump()
    p.advance(9.999)
    assert _take(other), "they are written down"
    for key in before:
        if b"history" in key:
            assert between[key] == bed.raw.dump(key) == before[key]
    p.advance(0.001)
    assert _take(other)
    assert [sample.logins for sample in p.history(start / 1000)] == [0, 1, 1]
    [hour] = p.history(start / 1000, step=3600)
    assert (hour.samples, hour.logins, hour.complete) == (3, 2, False)


def test_a_sample_that_arrives_late_or_twice_is_not_written(p: P) -> None:
    start = _align(p)
    _step(p)
    late = history.sample(p.internal.context, p.clock.ms)
    p.advance(10)
    assert not p.internal.run(late)
    assert len(p.history(start / 1000)) == 1
    early = history.sample(p.internal.context, p.clock.ms + 10_000)
    assert not p.internal.run(early)
    assert len(p.history(start / 1000)) == 1


def test_a_lost_counter_subtracts_nothing(p: P, bed: Bed) -> None:
    start = _align(p)
    _step(p)
    p.login_many({"uid": f"u{number}"} for number in range(20))
    _step(p)
    for key in bed.families()["totals"]:
        bed.raw.delete(key)
    _step(p)
    p.login("ada")
    _step(p)
    assert [sample.logins for sample in p.history(start / 1000)] == [0, 20, 0, 1]


def test_ten_seconds_without_a_worker_are_a_gap_and_its_events_count_in_the_minute_alone(p: P) -> None:
    start = _align(p)
    _step(p)
    p.login("ada", device_id="the-phone-of-ada")
    p.login("ada", device_id="the-laptop-of-ada")
    _step(p, 40)
    p.login("bob")
    _step(p)
    samples = p.history(start / 1000)
    assert [(sample.at, sample.sessions, sample.logins, sample.new_devices) for sample in samples] == [
        (_at(start), 0, 0, 0), (_at(start + 40_000), 2, 0, 0), (_at(start + 50_000), 3, 1, 0)
    ]  # fmt: skip
    assert [(sample.watched, sample.complete) for sample in samples] == [(10, True), (0, False), (10, True)]
    halves = p.history(start / 1000, step=30)
    assert [(sample.logins, sample.watched, sample.complete) for sample in halves] == [(0, 10, False), (1, 10, False)]
    [minute] = p.history(start / 1000, step=60)
    assert (minute.logins, minute.new_devices, minute.watched) == (3, 1, 60)
    assert (minute.samples, minute.complete, minute.sessions_mean) == (3, False, 5 / 3)
    p.advance(10)
    [minute] = p.history(start / 1000, step=60)
    assert minute.complete, "nothing can be added to it any more"


@pytest.mark.parametrize("away", [30, 60, 110, 200, 3300])
@every_topology
def test_a_time_that_was_not_watched_is_a_gap_and_no_later_sample_has_its_events(p: P, away: int) -> None:
    """Five logins and five ends in ten seconds, and a worker that is away: within a minute, or for some minutes."""
    start = _align(p)

    def ten_seconds() -> None:
        p.login_many({"uid": f"u{p.clock.ms}-{number}", "idle_timeout": 30} for number in range(5))
        p.advance(10)

    for _ in range(13):
        ten_seconds()
        assert _take(p)
    for _ in range(away // 10):
        ten_seconds()
    for _ in range(13):
        ten_seconds()
        assert _take(p)
        alerts = p.internal.run(check_alerts(p.internal.context, {"logins": 30, "ends": 30}, p.clock.ms))
        assert not alerts, "thirty a minute have been steady all the time"
        p.sweep(limit=3)  # the backlog of the sweep takes longer than a minute
    for step, most in ((10, 5), (60, 30), (300, 150)):
        for sample in p.history(start / 1000, step=step):
            assert sample.logins <= most
            assert sample.expired <= most
            if sample.complete and sample.at >= _at(start + 60_000):
                assert (sample.logins, sample.expired) == (most, most), (step, sample.at)
            assert sample.complete == (sample.watched == step), "all have ended"
    minutes = p.history(start / 1000, step=60)
    assert {True, False} == {minute.complete for minute in minutes}
    unwatched = range(start + 180_000, start + (130 + away) // 60 * 60_000, 60_000)
    assert not {_at(at) for at in unwatched} & {minute.at for minute in minutes}
    [*_, day] = p.history(start / 1000, step=86_400)
    assert day.logins == 5 * (25 + away // 10), "all but those before the first sample"
    assert day.expired == day.logins + 5 - p.counts().sessions


@every_topology
def test_the_current_bucket_is_marked_as_incomplete(p: P) -> None:
    start = _align(p)
    for _ in range(6):
        _step(p)
    [minute] = p.history(start / 1000, step=60)
    assert (minute.samples, minute.complete) == (6, True)
    _step(p)
    assert [sample.complete for sample in p.history(start / 1000, step=60)] == [True, False]
    assert [sample.complete for sample in p.history(start / 1000, step=300)] == [False]


def test_a_bucket_is_whole_even_if_the_period_begins_or_ends_within_it(p: P) -> None:
    start = _align(p)
    for _ in range(12):
        _step(p)
    [sample] = p.history((start + 30_000) / 1000, (start + 31_000) / 1000, step=60)
    assert (sample.at, sample.samples) == (_at(start), 6)
    both = p.history((start + 59_999) / 1000, (start + 60_001) / 1000, step=60)
    assert [sample.samples for sample in both] == [6, 6]


@every_topology
def test_users_of_an_hour_and_of_a_day_are_counted_once_even_if_they_have_left(p: P) -> None:
    start = _align(p, DAY)
    p.login("early", idle_timeout=60)
    p.advance(60)
    p.sweep()
    p.set_now(start + HOUR)
    sessions = [p.login(uid).session for uid in ("ada", "ada", "bob", "eve")]
    p.logout("bob", sessions[2].session_id)
    _step(p)
    [hourly], [daily] = p.history(start / 1000, step=3600), p.history(start / 1000, step=86_400)
    assert (hourly.users, hourly.uniques, daily.uniques) == (2, 3, 4)
    p.logout("eve", sessions[3].session_id)
    p.set_now(start + 2 * HOUR)
    p.sweep()
    assert _take(p), "the last of its hour, although the next has begun"
    [hourly] = p.history(start / 1000, step=3600)
    assert (hourly.samples, hourly.uniques) == (2, 3)
    p.login("dan")
    _step(p)
    assert [sample.uniques for sample in p.history(start / 1000, step=3600)] == [3, 1]
    [daily] = p.history(start / 1000, step=86_400)
    assert daily.uniques == 5
    assert p.history(start / 1000, step=7200)[0].uniques is None


def _expected(rows: list[tuple[int, list[int]]], step: int, now: int) -> list[Sample]:
    """The roll-up in plain Python: rows of (at, users, sessions, logins, logouts, kicked, expired, replaced,
    logins on a new device). What has grown in a gap counts only in a stored record that holds the whole gap."""
    out = []
    width = step * 1000
    base = history.base_of(step).step * 1000
    ends = [rows[0][0], *(at + SLOT for at, _ in rows)]
    watched = {at: (at + SLOT - before) // 1000 if before >= at // base * base else 0
               for (at, _), before in zip(rows, ends, strict=False)}  # fmt: skip
    for at in sorted({slot // width * width for slot, _ in rows}):
        part = [row for slot, row in rows if slot // width * width == at]
        users, sessions, *_ = zip(*part, strict=True)
        known = [row[2:] for slot, row in rows if slot // width * width == at and watched[slot]]
        logins, logouts, kicked, expired, replaced, new_devices = map(sum, zip(*known or [[0] * 6], strict=True))
        seconds = sum(watched[slot] for slot, _ in rows if slot // width * width == at)
        out.append(
            Sample(
                at=_at(at), step=step, samples=len(part),
                users=users[-1], users_min=min(users), users_mean=sum(users) / len(part), users_max=max(users),
                sessions=sessions[-1], sessions_min=min(sessions), sessions_mean=sum(sessions) / len(part),
                sessions_max=max(sessions),
                logins=logins, logouts=logouts, kicked=kicked, expired=expired, replaced=replaced,
                new_devices=new_devices, uniques=7 if step == 3600 else 8 if step == 86_400 else None,
                watched=seconds,
                complete=(seconds == step or step >= 3600)
                and (len(part) == step // 10 or now >= at + width + SLOT),
            )
        )  # fmt: skip
    return out


@pytest.mark.parametrize("seed", range(size(1, 3)))
def test_the_roll_up_agrees_with_a_plain_model_of_the_same_samples(p: P, seed: int) -> None:
    """The script gets random counts across minutes, hours, days and the periods of the keys."""
    chance = random.Random(seed)
    start = _align(p, 30 * DAY) - HOUR
    p.counts()
    keys = p.context.keys.common
    totals = [0] * 6
    rows: list[tuple[int, list[int]]] = []
    at = start
    while at < start + 3 * HOUR:
        if chance.random() < 0.05:
            at += 10_000 * chance.randrange(1, chance.choice((6, 60)))  # a gap
        grown = [chance.randrange(5) if rows else 0 for _ in range(6)]
        totals = [a + b for a, b in zip(totals, grown, strict=True)]
        users = chance.choice((0, chance.randrange(1000), 4_000_000_000))
        sessions = chance.choice((0, chance.randrange(1000), 4_294_967_295))
        rows.append((at, [users, sessions, *grown]))
        p.set_now(at + SLOT + chance.randrange(SLOT))
        p.internal.run(_write(p, keys, at, users, sessions, totals))
        at += SLOT
    now = p.clock.ms
    for step in (10, 20, 60, 120, 300, 900, 1800, 3600, 7200, 86_400):
        since = max(start, now - 990 * step * 1000) // (step * 1000) * step
        expected = [sample for sample in _expected(rows, step, now) if sample.at.timestamp() >= since]
        assert p.history(since, now / 1000, step=step) == expected, step


def _write(p: P, keys: Any, at: int, users: int, sessions: int, totals: list[int]) -> Any:
    names, places = [keys.history], list[int]()
    for resolution in RESOLUTIONS:
        period, place = resolution.place(at, p.settings)
        names.append(keys.samples(resolution.step, period))
        places += place
    call = call_of(WRITE_SAMPLE, names, *totals, 0, 0, *places, given_now=p.context.now, given_slot=at // SLOT,
                   users=users, sessions=sessions, hourly_users=7, daily_users=8)  # fmt: skip
    assert (yield [call]) == [1]


def test_every_key_expires_after_its_retention(bed: Bed, raw: Any) -> None:
    p = bed.connect(keep_history_10s=7200, keep_history_1m=2 * 86_400, keep_history_1h=40 * 86_400)
    _align(p)
    _step(p)
    p.internal.run(history.split(p.internal.context, p.clock.ms, {"web": 1}, {}))
    margin, ttl = 3600, {}
    for key in bed.families()["history:"]:
        ttl[key.split(b":")[2].decode()] = raw.ttl(key)
    assert {name: -(-left // 60) * 60 for name, left in ttl.items()} == {
        "10": 7200 + margin, "60": 2 * 86_400 + margin, "3600": 40 * 86_400 + margin, "86400": 40 * 86_400 + margin,
        "split": 2 * 86_400 + margin,
    }  # fmt: skip
    assert raw.ttl(bed.families()["history"][0]) == -1


@every_topology
def test_the_hourly_split_names_the_twenty_largest_and_adds_up_the_rest(p: P) -> None:
    start = _align(p)
    _step(p)
    apps = {f"app{number}": number + 1 for number in range(25)}
    p.internal.run(history.split(p.internal.context, p.clock.ms, apps, {"phone": 1}))
    p.internal.run(history.split(p.internal.context, p.clock.ms, {"late": 1}, {"late": 1}))
    [hour] = p.history(start / 1000, step=3600)
    assert hour.devices == {"phone": 1}
    assert hour.apps == {f"app{number}": number + 1 for number in range(5, 25)} | {"(other)": 15}
    assert p.history(start / 1000, step=60)[0].apps is None


def test_without_a_step_the_finest_stored_one_that_fits_is_chosen(p: P) -> None:
    now = _align(p, DAY) + DAY // 2
    p.set_now(now)
    _step(p)
    hour, day = 3600, 86_400
    for ago, step in ((hour, 10), (2 * hour, 10), (3 * hour, 30), (12 * hour, 60), (2 * day, 300), (7 * day, 900),
                      (29 * day, 3600), (31 * day, 3600), (200 * day, 21_600), (729 * day, 86_400),
                      (20 * 365 * day, 86_400)):  # fmt: skip
        [sample] = p.history(now / 1000 - ago)
        assert sample.step == step, ago
    [sample] = p.history(now / 1000 - 3 * 3600, now / 1000 + 9e6)
    assert sample.step == 30, "the future counts for nothing"


@on("valkey")
def test_a_period_without_fine_data_is_answered_with_coarse_data(bed: Bed) -> None:
    p = bed.connect(keep_history_10s=3600, keep_history_1h=3650 * 86_400)
    now = _align(p)
    _step(p)
    [sample] = p.history(now / 1000 - 3700)
    assert sample.step == 60, "10 s would have fitted"
    [sample] = p.history(now / 1000 - 3600 * 24 * 2990)
    assert (sample.step, sample.samples) == (3 * 86_400, 1)


def test_without_samples_the_history_is_empty(p: P) -> None:
    now = p.freeze() / 1000
    assert p.history(now - 3600) == []
    assert p.history(now - 3600 * 24 * 365, now - 3600 * 24 * 300, step=86_400) == []
    assert p.history(now + 3600) == []
    assert p.history(now + 3600, now + 7200) == []
    with pytest.raises(InvalidArgument, match=r"^step must give at most 1000 points between since and until\.$"):
        p.history(now - 10_010, step=10)
    p.history(now // 10 * 10 - 9_990, step=10)


def test_a_clock_that_was_far_ahead_does_not_end_the_history(p: P) -> None:
    start = _align(p)
    _step(p)
    p.advance(400 * 86_400)
    p.login("ada")
    assert _take(p)
    p.set_now(start + 20_000)
    p.login("bob")
    assert _take(p)
    assert [(sample.at, sample.logins) for sample in p.history(start / 1000)] == [
        (_at(start), 0),
        (_at(start + 10_000), 1),
    ]


def test_a_key_of_a_foreign_type_is_named_and_nothing_is_written(p: P, bed: Bed, raw: Any) -> None:
    start = _align(p)
    _step(p)
    for what in ("history", "10", "60", "3600", "86400"):
        [key] = [
            key
            for key in (*bed.families()["history"], *bed.families()["history:"])
            if key.split(b":")[-2 if key.count(b":") > 1 else -1].decode() == what
        ]
        kept = raw.dump(key)
        raw.delete(key)
        raw.sadd(key, "foreign")
        before = bed.dump()
        p.advance(10)
        with pytest.raises(CorruptData):
            _take(p)
        assert bed.dump() == before
        raw.delete(key)
        raw.restore(key, 0, kept)
    assert len(p.history(start / 1000)) == 1


def test_damaged_bytes_are_read_as_far_as_they_are_valid(p: P, bed: Bed, raw: Any) -> None:
    start = _align(p)
    _step(p)
    p.internal.run(history.split(p.internal.context, p.clock.ms, {"web": 1}, {"phone": 1}))
    for key in bed.families()["history:"]:
        kind = key.split(b":")[2]
        if kind == b"split":
            place = start % DAY // HOUR
            raw.hset(key, mapping={f"{place}:app": "[[[", f"{place}:device": "5"})
        elif kind == b"10":
            raw.setrange(key, 0, b"x" * 40)
    [hour] = p.history(start / 1000, step=3600)
    assert (hour.apps, hour.devices, hour.samples) == (None, None, 1)
    p.history(start // DAY * 86_400, start // DAY * 86_400 + 100, step=10)


def test_the_history_of_two_years_fits_into_a_few_megabytes() -> None:
    """The numbers of docs/keys.md: keys that exist at once, times their size."""
    settings = Settings()
    total = 0
    for resolution in RESOLUTIONS:
        periods = -(-(resolution.keep(settings) + 3600) // (resolution.days * 86_400)) + 1
        total += periods * resolution.size
    assert 5_000_000 < total < 7_000_000
