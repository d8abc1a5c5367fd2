"""Who is online: one user, some of many, all users who were seen recently."""

from __future__ import annotations

import random
import threading

import pytest

from presence_core.operations.search import online_users
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.monitor import Monitor
from tests.support.soak import size


def _agree(p: P, *expected: str, among: tuple[str, ...] = ("ada", "bob", "cy")) -> None:
    """All four methods give the same answer."""
    assert p.online_among(among) == set(expected)
    assert {uid for uid in among if p.is_online(uid)} == set(expected)
    assert set(p.online_users()) == set(expected)
    assert p.count_users(900) == len(expected)


@every_backend
def test_a_user_is_online_from_the_first_login_to_the_last_end(p: P) -> None:
    _agree(p)
    first, second = p.login("ada").session, p.login("ada").session
    _agree(p, "ada")
    p.logout("ada", first.session_id)
    _agree(p, "ada")
    p.kick("ada", second.session_id, by="staff", reason="test")
    _agree(p)


@every_topology
def test_past_the_deadline_a_user_is_offline_even_before_a_sweep(p: P) -> None:
    p.freeze()
    p.login("ada", idle_timeout=10)
    p.login("bob", idle_timeout=10)
    p.login("bob", idle_timeout=100)
    _agree(p, "ada", "bob")
    p.advance(9.999)
    _agree(p, "ada", "bob")
    p.advance(0.001)
    _agree(p, "bob")
    p.sweep()
    _agree(p, "bob")


def test_after_a_revocation_of_all_sessions_only_users_who_log_in_again_are_online(p: P) -> None:
    p.freeze()
    p.login_many([{"uid": uid} for uid in ("ada", "bob", "cy")])
    p.advance(1)
    p.revoke_before(by="staff", reason="test")
    _agree(p)
    p.advance(1)
    p.login("bob")
    _agree(p, "bob")
    p.sweep()
    _agree(p, "bob")


@pytest.mark.parametrize("waiting", [30, 1500])
@on("valkey", "redis7", "cluster-sync")
def test_this_holds_for_any_number_of_sessions_that_wait_for_a_sweep(p: P, waiting: int) -> None:
    p.freeze()
    p.login_many([{"uid": f"old{number}", "idle_timeout": 10} for number in range(waiting)])
    p.login("ada", idle_timeout=10)
    p.login("ada")
    p.login("bob")
    p.login("cy", idle_timeout=10)
    p.advance(20)
    assert p.online_among(["ada", "bob", "cy", *(f"old{number}" for number in range(waiting))]) == {"ada", "bob"}
    assert set(p.online_users()) == {"ada", "bob"}
    assert p.count_users() <= (2 if waiting < 1000 or len(p.context.keys.shards) > 1 else p.counts().sessions)
    p.sweep()
    _agree(p, "ada", "bob")


@every_topology
def test_online_users_lists_those_seen_within_the_period_latest_first(p: P) -> None:
    p.freeze()
    for place in range(7):
        p.login(f"u{place}")
        p.advance(100)
    session = p.sessions("u1")[0]
    p.heartbeat("u1", session.session_id)
    assert p.online_users() == ["u1", "u6", "u5", "u4", "u3", "u2", "u0"]
    assert p.online_users(within=300) == ["u1", "u6", "u5", "u4"], "seen exactly so long ago is within"
    assert p.online_users(299) == ["u1", "u6", "u5"]
    assert [p.count_users(within) for within in (1, 299, 300)] == [1, 3, 4]
    assert p.count_users() == 6
    assert p.online_users(within=1) == ["u1"]


def test_a_user_is_listed_once_by_the_device_seen_last(p: P) -> None:
    p.freeze()
    p.login("ada")
    p.advance(500)
    p.login("bob")
    p.login("ada")
    p.advance(1)
    assert sorted(p.online_users(within=10)) == ["ada", "bob"]
    assert p.count_users(10) == 2


def test_a_users_last_seen_does_not_go_back_with_the_clock(p: P) -> None:
    now = p.freeze()
    first, second, third = (p.login("ada") for _ in range(3))
    p.advance(60)
    assert p.validate(first.token)
    p.set_now(now + 30_000)
    assert p.validate(second.token)
    assert p.heartbeats([third.session.ref]) == []
    p.set_now(now + 60_000)
    assert p.online_users(within=1) == ["ada"]


@every_backend
def test_every_user_is_found_once_page_by_page(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online_users, "MAX_READ", 7)
    p.freeze()
    p.login_many([{"uid": f"same{number}"} for number in range(60)])
    for number in range(20):
        p.advance(1)
        p.login(f"u{number}")
    found = p.online_users()
    assert found[:20] == [f"u{number}" for number in reversed(range(20))]
    assert sorted(found[20:]) == sorted(f"same{number}" for number in range(60))


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_a_user_seen_again_between_two_pages_is_neither_missed_nor_repeated(
    p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_users, "MAX_READ", 5)
    p.login_many([{"uid": f"u{number}"} for number in range(150)])
    refs = [session.ref for session in p.iter_sessions()]
    other, stop = bed.connect(), threading.Event()

    def beat() -> None:
        while not stop.is_set():
            other.heartbeats(random.sample(refs, 5))

    busy = threading.Thread(target=beat)
    busy.start()
    try:
        for _ in range(5):
            assert sorted(p.online_users()) == sorted(f"u{number}" for number in range(150))
    finally:
        stop.set()
        busy.join()


def test_online_among_takes_any_list_with_duplicates(p: P) -> None:
    p.login("ada")
    p.login("a:b")
    p.login("ü😀")
    assert p.online_among(()) == set()
    assert p.online_among(uid for uid in ["ada", "ada", "a:b", "a", "ü😀", "nobody"]) == {"ada", "a:b", "ü😀"}
    many = [f"u{number}" for number in range(9_999)]
    assert p.online_among(["ada", *many]) == {"ada"}


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_online_among_is_one_round_trip_that_writes_nothing(bed: Bed) -> None:
    p = bed.connect(shards=4)
    p.login_many([{"uid": f"u{number}", "idle_timeout": 1} for number in range(50)])
    p.freeze()
    p.advance(5)
    before = bed.dump()
    p.online_among(["u1"])
    with Monitor(bed.raw) as monitor:
        assert p.online_among([f"u{number}" for number in range(500)]) == set()
    sent = [line.words[0] for line in monitor.lines if not line.by_script]
    assert sent == [b"EVALSHA_RO"] * 4
    assert bed.dump() == before


@every_topology
def test_is_online_is_exact_when_a_record_was_lost_and_heals(p: P, bed: Bed) -> None:
    session = p.login("ada").session
    bed.raw.unlink(p.context.shard("ada").record("ada", session.session_id))
    assert not p.is_online("ada")
    _agree(p)


def test_a_users_set_of_a_foreign_type_affects_no_other_user(p: P, bed: Bed) -> None:
    p.freeze()
    p.login("ada", idle_timeout=10)
    p.login("bob")
    p.advance(11)
    key = p.context.shard("ada").user("ada")
    bed.raw.unlink(key)
    bed.raw.set(key, "x")
    assert p.online_among(["ada", "bob"]) == {"bob"}
    assert p.online_users() == ["bob"]


@on("valkey-sync", "cluster-async", soak=("redis7-async",))
def test_the_four_methods_agree_with_the_list_after_random_actions(p: P) -> None:
    dice = random.Random(5)
    p.freeze()
    uids = [f"u{number}" for number in range(30)]
    for _ in range(size(75, 150)):
        what, uid = dice.choice(("login", "login", "logout", "time", "sweep", "beat", "revoke")), dice.choice(uids)
        if what == "login":
            p.login(uid, idle_timeout=dice.choice((5, 50, 500)))
        elif what == "logout":
            for session in p.sessions(uid):
                p.logout(uid, session.session_id)
        elif what == "beat":
            p.heartbeats([session.ref for session in p.sessions(uid)])
        elif what == "time":
            p.advance(dice.choice((0.5, 3, 20)))
        elif what == "sweep":
            p.sweep()
        elif dice.random() < 0.2:
            p.revoke_before(by="staff", reason="test")
        live = {session.uid for session in p.iter_sessions()}
        assert p.online_among(uids) == live
        assert set(p.online_users(within=1000)) == live
        assert p.count_users(within=1000) == len(live)
        assert p.is_online(uid) == (uid in live)
