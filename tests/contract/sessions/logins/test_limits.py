"""Limits per user and per device are enforced inside the login script, so that no race exceeds them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from presence_core import Login, LoginRefused
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P


def _without_failures(bed: Bed) -> dict[bytes, bytes]:
    """All keys but those that a refusal changes."""
    return {key: value for key, value in bed.dump().items() if b":failed" not in key and not key.endswith(b":totals")}


def _live(p: P, uid: str) -> list[str]:
    return [session.session_id for session in p.sessions(uid)]


@every_backend
def test_a_login_above_the_limit_ends_the_oldest_session(bed: Bed) -> None:
    p = bed.connect(max_sessions=3)
    p.freeze()
    logins = []
    for number in range(5):
        p.advance(1)
        logins.append(p.login("ada", session_id=f"session-{number}"))
    assert [[session.session_id for session in login.replaced] for login in logins] == [
        [],
        [],
        [],
        ["session-0"],
        ["session-1"],
    ]
    assert logins[3].replaced == [logins[0].session]
    assert _live(p, "ada") == ["session-4", "session-3", "session-2"]
    assert not p.validate(logins[0].token)
    ended = p.validate(logins[0].token).ended
    assert ended is not None
    assert (ended.reason, ended.cause, ended.replaced_by) == ("replaced", "limit", "session-3")
    assert (ended.public.code, ended.public.sentence) == ("replaced", "A later sign-in ended this session.")
    assert p.counts().totals["replaced"] == 2
    assert p.login("bob").replaced == [], "a limit is each user's own"


def test_a_lowered_limit_is_enforced_at_the_next_login(bed: Bed) -> None:
    many = bed.connect()
    many.freeze()
    for number in range(6):
        many.advance(1)
        many.login("ada", session_id=f"session-{number}")
    p = bed.connect(max_sessions=2)
    login = p.login("ada", session_id="session-6")
    assert [session.session_id for session in login.replaced] == [f"session-{number}" for number in range(5)]
    assert _live(p, "ada") == ["session-6", "session-5"]


@every_backend
def test_a_login_may_have_a_limit_of_its_own_in_place_of_that_of_the_settings(bed: Bed) -> None:
    p = bed.connect(max_sessions=3)
    p.freeze()
    for number in range(5):
        p.advance(1)
        assert p.login("ada", session_id=f"session-{number}", max_sessions=5).replaced == [], "a higher one"
    p.advance(1)
    replaced = p.login("ada", session_id="session-5", max_sessions=2).replaced
    assert [session.session_id for session in replaced] == [f"session-{number}" for number in range(4)]
    p.advance(1)
    assert p.login("ada", session_id="session-6").replaced == [], "a later login without it has the limit of three"
    p.advance(1)
    assert [session.session_id for session in p.login("ada").replaced] == ["session-4"]
    reject = bed.connect(max_sessions=30, on_limit="reject")
    with pytest.raises(LoginRefused, match="limit of 3 sessions is reached"):
        reject.login("ada", max_sessions=3)


@every_topology
def test_each_row_of_login_many_may_have_a_limit_of_its_own(p: P) -> None:
    p.freeze()
    limits = [("ada", 1), ("bob", 2), ("cat", None)] * 3 + [("cat", 2)]
    rows = [{"uid": uid, "max_sessions": most} for uid, most in limits]
    for answer in p.login_many(rows):
        assert isinstance(answer, Login)
    assert [len(_live(p, uid)) for uid in ("ada", "bob", "cat")] == [1, 2, 2]


@every_backend
def test_with_on_limit_reject_the_login_is_refused_and_changes_nothing(bed: Bed) -> None:
    p = bed.connect(max_sessions=2, on_limit="reject")
    p.freeze()
    p.login("ada", session_id="session-1")
    p.login("ada", session_id="session-2", idle_timeout=10)
    before = _without_failures(bed)
    with pytest.raises(LoginRefused, match="limit of 2 sessions is reached") as refused:
        p.login("ada", session_id="session-3")
    assert refused.value.code == "limit"
    assert _without_failures(bed) == before
    p.advance(10)
    assert p.login("ada", session_id="session-3").replaced == [], "what has run out of time does not count"
    p.logout("ada", "session-1")
    p.login("ada", session_id="session-4")
    assert _live(p, "ada") == ["session-4", "session-3"]
    p.kick("ada", by="staff", reason="test")
    p.login("ada")


@every_topology
def test_a_device_limit_does_not_affect_other_devices(bed: Bed) -> None:
    p = bed.connect(max_sessions_per_device=1)
    p.freeze()
    p.login("ada", device="phone", session_id="phone-01")
    p.advance(1)
    p.login("ada", device="desk", session_id="desk-001")
    p.login("ada", session_id="nowhere-1")
    p.login("ada", session_id="nowhere-2")
    p.advance(1)
    login = p.login("ada", device="phone", session_id="phone-02")
    assert [session.session_id for session in login.replaced] == ["phone-01"]
    assert set(_live(p, "ada")) == {"phone-02", "desk-001", "nowhere-1", "nowhere-2"}
    ended = p.validate_session("ada", "phone-01").ended
    assert ended is not None
    assert (ended.reason, ended.cause, ended.replaced_by) == ("replaced", "device_limit", "phone-02")
    p.logout("ada", "phone-02")
    assert p.login("ada", device="phone").replaced == []
    assert p.login("bob", device="phone").replaced == []


@every_topology
def test_devices_with_one_label_and_different_ids_have_a_limit_each(bed: Bed) -> None:
    p = bed.connect(max_sessions_per_device=1)
    p.freeze()

    def replaced(session_id: str, **given: Any) -> list[str]:
        p.advance(1)
        login = p.login("ada", session_id=session_id, **given)
        return [session.session_id for session in login.replaced]

    assert replaced("phone-01", device="phone", device_id="device-1") == []
    assert replaced("phone-02", device="phone", device_id="device-2") == []
    assert replaced("phone-03", device="phone") == [], "a label counts only among those without an id"
    assert replaced("phone-04", device="My phone", device_id="device-1") == ["phone-01"], (
        "one device, whatever its label"
    )
    assert replaced("phone-05", device_id="device-2") == ["phone-02"]
    assert replaced("phone-06", device="phone") == ["phone-03"]
    assert set(_live(p, "ada")) == {"phone-04", "phone-05", "phone-06"}
    ended = p.validate_session("ada", "phone-01").ended
    assert ended is not None
    assert (ended.reason, ended.cause, ended.replaced_by) == ("replaced", "device_limit", "phone-04")
    assert p.login("bob", device="phone", device_id="device-1").replaced == []
    rows = [{"uid": "eve", "session_id": f"tablet-{n}", "device_id": f"device-{n % 2}"} for n in range(3)]
    logins = [login for login in p.login_many(rows) if isinstance(login, Login)]
    assert [[old.session_id for old in login.replaced] for login in logins] == [[], [], ["tablet-0"]]


def test_a_limit_by_device_id_holds_when_devices_are_not_kept_or_their_key_is_rotated(bed: Bed) -> None:
    p = bed.connect(max_sessions_per_device=1, keep_devices=0)
    behind = bed.connect(max_sessions_per_device=1, keep_devices=0)
    p.freeze()
    for client in (p, behind):
        client.login("ada", session_id="session-0", device_id="device-1")
    for number, client in enumerate((p, behind, p), 1):
        if number == 1:
            p.rotate_device_key(by="sue", reason="test")
        p.advance(20)
        login = client.login("ada", session_id=f"session-{number}", device_id="device-1")
        assert [session.session_id for session in login.replaced] == [f"session-{number - 1}"]
    p.advance(60)
    assert len(p.login("ada", device_id="device-1").replaced) == 1, "by the new key now"
    assert "known" not in bed.families()


def test_a_device_limit_may_refuse_too(bed: Bed) -> None:
    p = bed.connect(max_sessions_per_device=2, max_sessions=3, on_limit="reject")
    p.login("ada", device="phone")
    p.login("ada", device="phone")
    with pytest.raises(LoginRefused, match="limit of 2 sessions on one device is reached") as refused:
        p.login("ada", device="phone")
    assert refused.value.code == "device_limit"
    p.login("ada", device="desk")
    with pytest.raises(LoginRefused) as refused:
        p.login("ada", device="watch")
    assert refused.value.code == "limit"


@every_topology
def test_both_limits_together_end_no_more_sessions_than_needed(bed: Bed) -> None:
    p = bed.connect(max_sessions=3, max_sessions_per_device=2)
    p.freeze()
    for number, device in enumerate(("desk", "phone", "phone")):
        p.advance(1)
        p.login("ada", device=device, session_id=f"session-{number}")
    p.advance(1)
    login = p.login("ada", device="phone", session_id="session-3")
    assert [session.session_id for session in login.replaced] == ["session-1"], "one end makes room under both"
    assert _live(p, "ada") == ["session-3", "session-2", "session-0"]


def test_a_session_with_a_changed_device_counts_under_the_new_one(bed: Bed) -> None:
    p = bed.connect(max_sessions_per_device=1)
    p.login("ada", device="phone", session_id="session-1")
    p.login("ada", device="desk", session_id="session-1")
    assert p.login("ada", device="phone", session_id="session-2").replaced == []
    p.login("ada", session_id="session-1")
    assert p.login("ada", device="desk", session_id="session-3").replaced == [], "it has no device now"
    assert set(_live(p, "ada")) == {"session-1", "session-2", "session-3"}


def test_a_session_past_its_deadline_is_expired_and_not_replaced_by_the_limit(bed: Bed) -> None:
    p = bed.connect(max_sessions=2)
    p.freeze()
    p.login("ada", session_id="session-1")
    old = p.login("ada", session_id="session-2", idle_timeout=5)
    p.advance(5)
    assert p.login("ada", session_id="session-3").replaced == []
    ended = p.validate(old.token).ended
    assert ended is not None
    assert (ended.reason, ended.cause, ended.at) == ("expired", "idle", old.session.expires_at)
    p.sweep()
    totals = p.counts().totals
    assert (totals["expired"], totals["replaced"]) == (1, 0)


def test_the_highest_limit_is_a_thousand_sessions(p: P) -> None:
    p.freeze()
    p.login_many({"uid": "ada", "session_id": f"session-{number:04}"} for number in range(1000))
    p.advance(1)
    login = p.login("ada", session_id="one-more")
    assert [session.session_id for session in login.replaced] == ["session-0000"]
    assert len(p.sessions("ada")) == 1000


def test_many_threads_logging_in_one_user_never_exceed_three_live_sessions(bed: Bed) -> None:
    _many_threads_at_once(bed, max_sessions=3)


@on("valkey-async", "cluster-sync", soak=("redis7-sync",))
def test_many_threads_logging_in_one_user_never_exceed_three_live_sessions_per_device(bed: Bed) -> None:
    _many_threads_at_once(bed, max_sessions_per_device=3)


def _many_threads_at_once(bed: Bed, **limit: int) -> None:
    p, watcher = bed.connect(**limit), bed.connect()
    p.login("ada", device="phone")
    shard = p.context.keys.shard("ada")
    raw = bed.raw
    most, looks, stop = 0, 0, threading.Event()

    def look() -> None:
        nonlocal most, looks
        while looks < 4 or not stop.is_set():
            seen = (
                len(watcher.sessions("ada")), watcher.counts().sessions, len(watcher.list_sessions(limit=10)),
                raw.zcard(shard.sessions), raw.zcard(shard.deadlines), raw.scard(shard.user("ada")),
            )  # fmt: skip
            most, looks = max(most, *seen), looks + 1

    sampler = threading.Thread(target=look)
    sampler.start()
    barrier = threading.Barrier(200)

    def log_in(number: int) -> Login:
        barrier.wait()
        return p.login("ada", session_id=f"session-{number:03}", device="phone")

    try:
        with ThreadPoolExecutor(200) as threads:
            logins = list(threads.map(log_in, range(200)))
    finally:
        stop.set()
        sampler.join()
    assert looks > 3
    assert most <= 3
    live = set(_live(p, "ada"))
    assert len(live) == 3
    replaced = [session.session_id for login in logins for session in login.replaced]
    assert len(replaced) == len(set(replaced)) == 198, "201 logins, 3 live"
    assert not live & set(replaced)
    counts = p.counts()
    assert (counts.users, counts.sessions, counts.totals["login"], counts.totals["replaced"]) == (1, 3, 201, 198)
    kinds = [event.kind for event in p.events(limit=1000)]
    assert (kinds.count("login"), kinds.count("replaced"), len(kinds)) == (201, 198, 399)
    for login in logins:
        answer = p.validate(login.token)
        assert bool(answer) == (login.session.session_id in live)
        if not answer:
            assert answer.ended is not None
            assert answer.ended.reason == "replaced"


def test_racing_logins_for_the_last_places_are_refused_exactly(bed: Bed) -> None:
    p = bed.connect(max_sessions=7, on_limit="reject")
    p.counts()
    barrier = threading.Barrier(100)

    def log_in(number: int) -> Any:
        barrier.wait()
        answers = p.login_many([{"uid": "ada"}] * 3)
        return [isinstance(answer, Login) for answer in answers]

    with ThreadPoolExecutor(100) as threads:
        taken = sum(map(sum, threads.map(log_in, range(100))))
    assert taken == 7 == len(p.sessions("ada"))
    assert p.counts().totals["login"] == 7
