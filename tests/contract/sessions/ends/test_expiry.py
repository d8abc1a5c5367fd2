"""Sessions past their deadline: no read shows them as live, a sweep ends each once and removes data past its
retention."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

WHAT_STAYS = {"moved", "layout", "events", "audit", "meta", "totals", "labels", "facets", "ids"}
"""Families of keys that stay, or that are capped in number."""


@every_backend
def test_a_sweep_ends_sessions_past_their_deadline_and_counts_each_once(p: P) -> None:
    p.freeze()
    for number in range(50):
        p.login(f"u{number}", idle_timeout=10 if number % 2 else 100)
    assert p.sweep().expired == 0
    p.advance(10)
    report = p.sweep()
    assert (report.expired, report.repaired, report.has_more) == (25, 0, False)
    assert p.sweep().expired == 0
    counts = p.counts()
    assert (counts.users, counts.sessions, counts.totals["expired"]) == (25, 25, 25)
    kinds = [event.kind for event in p.events(limit=1000)]
    assert (kinds.count("login"), kinds.count("expired"), len(kinds)) == (50, 25, 75)


def test_the_time_of_an_expiry_is_the_deadline_and_not_the_sweep(p: P) -> None:
    p.freeze()
    idle, absolute = p.login("ada", idle_timeout=10), p.login("bob", idle_timeout=60, absolute_timeout=60)
    p.advance(3600)
    p.sweep()
    for login, cause in ((idle, "idle"), (absolute, "absolute")):
        ended = p.validate(login.token).ended
        assert ended is not None
        assert (ended.reason, ended.cause, ended.at) == ("expired", cause, login.session.expires_at)
        assert ended.by is None
        assert ended.public.message is None


@every_topology
def test_a_sweep_with_a_limit_reports_that_there_is_more(p: P) -> None:
    p.freeze()
    p.login_many({"uid": f"u{number}", "idle_timeout": 10} for number in range(250))
    p.advance(10)
    done, rounds = 0, 0
    while True:
        report = p.sweep(limit=100)
        assert report.expired <= 100
        done, rounds = done + report.expired, rounds + 1
        if not report.has_more:
            break
    assert (done, p.counts().totals["expired"]) == (250, 250)
    assert rounds == 3
    p.login("ada", idle_timeout=10)
    p.advance(10)
    assert not p.sweep(limit=1).has_more, "that was the last one"


@pytest.mark.parametrize("shards", [1, 8, 64])
@on("valkey-sync", "cluster-async", soak=("sync", "valkey-async"))
def test_one_sweep_ends_all_due_sessions_on_any_number_of_shards(bed: Bed, shards: int) -> None:
    p = bed.connect(shards=shards)
    p.freeze()
    p.login_many({"uid": f"u{number}", "idle_timeout": 10} for number in range(1500))
    p.login_many({"uid": f"u{number}"} for number in range(100))
    p.advance(10)
    assert p.sweep().expired == 1500
    assert p.counts().totals["expired"] == 1500
    assert p.counts().users == p.counts().sessions == 100


@every_topology
def test_any_write_ends_the_sessions_that_it_finds_past_their_deadline(p: P) -> None:
    p.freeze()
    for number, uid in enumerate(("login", "logout", "kick", "kick all")):
        p.login(uid, session_id=f"session-{number}", idle_timeout=10)
    p.advance(10)
    p.logout("logout", "session-1")
    p.kick("kick", "session-2", by="staff", reason="test")
    p.kick("kick all", by="staff", reason="test")
    assert p.counts().totals["expired"] == 3
    assert p.sweep().expired == 1
    totals = p.counts().totals
    assert (totals["expired"], totals["logout"], totals["kicked"]) == (4, 0, 0)


@every_topology
def test_a_heartbeat_after_the_deadline_revives_nothing(p: P, bed: Bed) -> None:
    p.freeze()
    logins = [p.login("ada", idle_timeout=10) for _ in range(3)]
    p.advance(10)
    before = bed.dump()
    assert p.heartbeats(login.session.ref for login in logins) == [login.session.ref for login in logins]
    assert not p.heartbeat("ada", logins[0].session.session_id)
    assert bed.dump() == before
    assert not any(p.validate(login.token) for login in logins)


def test_a_live_record_outlives_its_latest_deadline_by_a_day_and_no_more(bed: Bed, raw: Any) -> None:
    p = bed.connect()
    login = p.login("ada", absolute_timeout=1000, idle_timeout=10)
    [record] = bed.families()["session:"]
    first = raw.pexpiretime(record)
    assert first == round(login.session.login_at.timestamp() * 1000) + (1000 + 86400) * 1000
    p.heartbeat("ada", login.session.session_id)
    p.validate(login.token, ip="192.0.2.1")
    p.login("ada", session_id=login.session.session_id)
    assert raw.pexpiretime(record) == first, "it is set once"


def test_with_an_eviction_policy_for_ttls_live_records_have_none(bed: Bed, raw: Any) -> None:
    p = bed.connect(record_ttl=False)
    login = p.login("ada")
    p.validate(login.token)
    [record] = bed.families()["session:"]
    assert raw.ttl(record) == -1
    p.logout("ada", login.session.session_id)
    assert raw.ttl(record) > 0


def test_a_user_who_went_offline_is_remembered_for_the_configured_time(bed: Bed) -> None:
    p = bed.connect(keep_people=3600)
    p.freeze()
    p.login_many({"uid": f"u{number}", "idle_timeout": 10} for number in range(500))
    p.advance(10)
    p.sweep()
    assert "people" in bed.families()
    p.advance(3500 - 10)
    p.sweep()
    assert "people" in bed.families()
    p.advance(100)
    p.sweep()
    assert "people" not in bed.families()


def test_ends_whose_tombstone_expired_are_removed(bed: Bed) -> None:
    p = bed.connect(keep_logout=60, keep_kicked=60)
    p.freeze()
    p.login_many({"uid": f"u{number}", "session_id": "session-1"} for number in range(100))
    for number in range(100):
        if number % 2:
            p.logout(f"u{number}", "session-1")
        else:
            p.kick(f"u{number}", by="staff", reason="test")
    keys = bed.families()
    assert len(keys["session:"]) == 100
    for key in keys["session:"]:  # the clock of the tests does not change the TTL of a key
        assert 0 < bed.raw.pttl(key) <= 60_000
        bed.raw.delete(key)
    p.advance(60.2)
    for _ in range(20):
        p.sweep()
    keys = bed.families()
    assert "session:" not in keys
    assert "ended" not in keys
    assert p.login("u1", session_id="session-1").replaced == []


@every_backend
def test_after_all_sessions_ended_only_retained_data_remains(bed: Bed) -> None:
    p = bed.connect(keep_logout=0, keep_kicked=0, keep_expired=0, keep_replaced=0, keep_people=60, max_sessions=2,
                    max_sessions_per_device=1)  # fmt: skip
    p.freeze()
    for number in range(60):
        uid = f"u{number % 20}"
        login = p.login(uid, name="N", aliases=["a"], device=f"d{number % 3}", user_agent="curl/8", idle_timeout=100)
        p.validate(login.token, ip="192.0.2.1")
        if number % 5 == 0:
            p.logout(uid, login.session.session_id)
        if number % 7 == 0:
            p.kick(uid, by="staff", reason="test", message="hello")
    p.advance(100)
    p.sweep()
    assert bed.families().keys() <= WHAT_STAYS | {"people"}
    p.advance(61)
    p.sweep()
    assert bed.families().keys() <= WHAT_STAYS
    counts = p.counts()
    assert (counts.users, counts.sessions) == (0, 0)
    assert counts.totals["login"] == sum(number for kind, number in counts.totals.items() if kind != "login") == 60
