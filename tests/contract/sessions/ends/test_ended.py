"""Why was this user logged out? The ends of all users and of one user, by reason, staff member and time."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from presence_core import CorruptData, Ended
from presence_core.operations.sessions import end, tombstones
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.monitor import Monitor

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "stolen phone", "ticket": "T-4711", "message": "Call us."}
HOSTILE = ["a:b", "{x}", "*", "ended:ada", "ü😀"]


def _story(p: P) -> None:
    """One end of each reason, a second apart: expired is the second oldest."""
    p.freeze()
    p.login("ada", session_id="kicked-1", device="phone", name="Ada", user_agent="curl/8")
    p.login("bob", session_id="logout-1")
    p.login("ada", session_id="expired-1", idle_timeout=3)
    p.advance(2)
    p.logout("bob", "logout-1")
    p.advance(2)
    p.sweep()
    p.login("eve", session_id="replaced-1")
    p.advance(1)
    p.login("eve", session_id="live-one")
    p.advance(1)
    p.kick("ada", "kicked-1", **BY)


@pytest.fixture
def single(bed: Bed) -> P:
    """One session per user: the next login replaces it."""
    return bed.connect(max_sessions=1)


@pytest.fixture
def two(bed: Bed) -> P:
    return bed.connect(max_sessions_per_device=1)


def _refs(items: Any) -> list[str]:
    return [ended.ref for ended in items]


@every_backend
def test_ends_are_listed_latest_first_with_their_reason(bed: Bed) -> None:
    p = bed.connect()
    _story(p)
    p.kick("eve", **BY, keep=["live-one"])
    page = p.ended()
    assert {ended.session_id[:-2] for ended in page} == {"kicked", "logout", "expired", "replaced"}
    assert [ended.at for ended in page] == sorted((ended.at for ended in page), reverse=True)
    assert all(isinstance(ended, Ended) for ended in page)
    kicked = next(ended for ended in page if ended.session_id == "kicked-1")
    assert (kicked.reason, kicked.cause, kicked.by, kicked.note) == ("kicked", "staff", BY["by"], BY["reason"])
    assert (kicked.ticket, kicked.message, kicked.at) == (BY["ticket"], BY["message"], p.clock.now)
    assert (kicked.name, kicked.device, kicked.user_agent) == ("Ada", "phone", "curl/8")
    assert (page.total, page.total_is_exact, page.next_cursor, page.as_of) == (4, True, None, p.clock.now)


def test_a_users_ends_are_only_their_own(p: P) -> None:
    _story(p)
    assert _refs(p.ended("ada")) == ["ada:kicked-1", "ada:expired-1"]
    assert _refs(p.ended("bob")) == ["bob:logout-1"]
    assert p.ended("nobody").items == []
    assert (p.ended("nobody").total, p.ended("nobody").total_is_exact) == (0, True)


@every_topology
def test_ends_are_found_by_reason_staff_member_and_time(single: P) -> None:
    p = single
    now = p.freeze()
    p.login("eve", session_id="replaced-1")
    p.login("eve", session_id="live-one")
    p.advance(10)
    p.login("ada", session_id="kicked-1")
    p.kick("ada", **BY)
    p.advance(10)
    p.login("bob", session_id="logout-1")
    p.logout("bob", "logout-1")
    p.login("dan", session_id="expired-1", idle_timeout=1)
    p.advance(10)
    p.sweep()
    for reason in ("replaced", "kicked", "logout", "expired"):
        page = p.ended(reason=reason)
        assert [ended.session_id for ended in page] == [f"{reason}-1"]
        assert (page.total, page.total_is_exact, page.scanned) == (1, True, 4)
    assert _refs(p.ended(cause="limit")) == ["eve:replaced-1"]
    assert _refs(p.ended(cause="staff")) == ["ada:kicked-1"]
    assert _refs(p.ended(cause="idle")) == ["dan:expired-1"], "a cause that is not stored"
    assert p.ended(cause="user", reason="kicked").items == []
    assert _refs(p.ended(by=BY["by"])) == ["ada:kicked-1"]
    assert _refs(p.ended(by="bob")) == ["bob:logout-1"]
    assert p.ended(by="unknown").items == []
    assert p.ended("ada", reason="logout").items == []
    at = [now / 1000, now / 1000 + 10, now / 1000 + 20]
    assert _refs(p.ended(since=at[1])) == ["dan:expired-1", "bob:logout-1", "ada:kicked-1"]
    assert _refs(p.ended(until=at[1])) == ["eve:replaced-1"], "until is not in it, since is"
    assert _refs(p.ended(since=at[1], until=at[2])) == ["ada:kicked-1"]
    assert p.ended(since=at[1], until=at[2]).total == 1
    aware = p.clock.now - timedelta(seconds=20)
    assert _refs(p.ended(since=aware, until=aware + timedelta(seconds=0.001), reason="kicked")) == ["ada:kicked-1"]


def test_an_end_whose_tombstone_is_not_yet_written_is_shown(p: P, bed: Bed) -> None:
    """A kick of all that dies leaves the ends of sessions in `closing` that began after it had read which there are."""
    p.freeze()
    p.counts()  # reads the layout
    op = end.kick(p.context, "ada", None, **BY)
    read = _send(p, next(op))
    for sid in ("session-1", "session-2"):
        p.login("ada", session_id=sid, device="phone", name="Ada")
    _send(p, op.send(read))  # sessions/end_sessions.lua; later calls are lost
    assert {"closing"} <= bed.families().keys()
    for page in (p.ended(), p.ended("ada"), p.ended(reason="kicked", by=BY["by"])):
        assert sorted(_refs(page)) == ["ada:session-1", "ada:session-2"]
        for ended in page:
            assert (ended.reason, ended.by, ended.note, ended.message) == (
                "kicked",
                BY["by"],
                BY["reason"],
                BY["message"],
            )
            assert (ended.at, ended.device, ended.name) == (p.clock.now, "phone", "Ada")
    p.sweep()
    assert sorted(_refs(p.ended())) == ["ada:session-1", "ada:session-2"]


def _send(p: P, calls: list[Any]) -> list[Any]:
    def op() -> Any:
        return (yield calls)

    return p.internal.run(op())


@every_topology
def test_an_end_past_its_retention_is_not_shown(bed: Bed, raw: Any) -> None:
    p = bed.connect()
    for number in range(10):
        p.login(f"u{number}", session_id="session-1")
        p.kick(f"u{number}", by="staff", reason="test")
    for number in range(0, 10, 2):
        raw.delete(p.context.shard(f"u{number}").record(f"u{number}", "session-1"))
    page = p.ended()
    assert sorted(ended.uid for ended in page) == [f"u{number}" for number in range(1, 10, 2)]
    assert (page.total, page.total_is_exact) == (5, True)
    assert p.ended("u0").items == []


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_an_id_used_again_after_its_tombstone_expired_is_not_shown_as_ended(p: P, raw: Any) -> None:
    p.login("ada", session_id="session-1")
    p.kick("ada", **BY)
    raw.delete(p.context.shard("ada").record("ada", "session-1"))
    p.login("ada", session_id="session-1")
    assert p.ended().items == []
    assert p.ended("ada").items == []


def test_hostile_uids_have_their_own_ends(p: P) -> None:
    for uid in HOSTILE:
        p.login(uid, session_id="session-1")
        p.kick(uid, by="staff", reason=uid)
    assert sorted(ended.uid for ended in p.ended()) == sorted(HOSTILE)
    for uid in HOSTILE:
        assert [(ended.uid, ended.note) for ended in p.ended(uid)] == [(uid, uid)]
    assert p.ended("x").items == []


def test_pages_of_ends_together_are_all_of_them(p: P) -> None:
    now = p.freeze()
    p.login_many({"uid": f"u{number % 7}", "session_id": f"session-{number}"} for number in range(60))
    for number in range(60):
        p.set_now(now + number // 4)
        p.kick(f"u{number % 7}", f"session-{number}", by=f"staff {number % 2}", reason="test")
    everything = _refs(p.ended(limit=1000))
    assert len(set(everything)) == 60
    for limit, asked in itertools.product((1, 7, 60), ({}, {"by": "staff 1"}, {"uid": "u3"})):
        seen: list[str] = []
        cursor = None
        while True:
            page = p.ended(limit=limit, cursor=cursor, **asked)  # type: ignore[arg-type]
            seen += _refs(page)
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page) == limit
        wanted = [
            f"u{number % 7}:session-{number}"
            for number in range(60)
            if (number % 2 or "by" not in asked) and (number % 7 == 3 or "uid" not in asked)
        ]
        assert seen == [ref for ref in everything if ref in wanted]
        assert (page.total, page.total_is_exact) == (len(wanted), True)
    assert p.ended(limit=1).total == 60


@every_topology
def test_pages_of_ends_are_stable_while_other_sessions_end(p: P) -> None:
    p.freeze()
    for number in range(20):
        p.login(f"u{number:02}", session_id="session-1")
        p.advance(1)
        p.logout(f"u{number:02}", "session-1")
    first = p.ended(limit=5)
    p.advance(1)
    p.login("new", session_id="session-1")
    p.logout("new", "session-1")
    second = p.ended(limit=100, cursor=first.next_cursor)
    assert [ended.uid for ended in [*first, *second]] == [f"u{number:02}" for number in range(19, -1, -1)]


@on("valkey-sync", soak=("redis7-sync", "cluster-sync"))
def test_one_call_reads_a_limited_number_of_ends_and_returns_a_cursor(p: P) -> None:
    p.freeze()
    p.login("rare", session_id="session-1")
    p.kick("rare", **BY)
    p.advance(1)
    rows = [{"uid": f"u{number}", "session_id": "session-1", "idle_timeout": 1} for number in range(6000)]
    p.login_many(rows)
    p.advance(10)
    while p.sweep().has_more:
        pass
    found, calls, cursor = [], 0, None
    while True:
        page = p.ended(by=BY["by"], cursor=cursor)
        found += _refs(page)
        calls += 1
        assert page.scanned <= 5000
        cursor = page.next_cursor
        if cursor is None:
            break
        assert (page.items, page.total, page.total_is_exact) == ([], 0, False)
    assert found == ["rare:session-1"]
    assert calls == 2
    assert (page.total, page.total_is_exact) == (1, True)


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_a_foreign_value_under_a_list_of_ends_is_named(p: P, raw: Any) -> None:
    p.login("ada", session_id="session-1")
    p.kick("ada", **BY)
    shard = p.context.shard("ada")
    for key, args in ((shard.ended, ()), (shard.ended_of("ada"), ("ada",))):
        raw.delete(key)
        raw.set(key, "foreign")
        with pytest.raises(CorruptData) as caught:
            p.ended(*args)
        assert key in str(caught.value)


@on("valkey-async", "redis7-sync", soak=("valkey",))
def test_damaged_bytes_break_no_list_of_ends(p: P, raw: Any) -> None:
    p.freeze()
    _story(p)
    shard = p.context.shard("ada")
    whole = _refs(p.ended())
    for place, member in enumerate((b"\xff\xfe", b"\xff:session-1", b"", b":", b"no colon", b"a\nb:session-1")):
        raw.zadd(shard.ended, {member: p.clock.ms + place, member + b"2": "-inf"})
    raw.set(shard.record("ada", "foreign-1"), "foreign")
    raw.zadd(shard.ended, {"ada:foreign-1": p.clock.ms})
    assert _refs(p.ended()) == whole
    seen, cursor = [], None
    while True:
        page = p.ended(limit=1, cursor=cursor)
        seen += _refs(page)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == whole


# -- more than are kept -----------------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-async")
def test_ends_beyond_the_cap_are_removed_and_the_complete_period_is_reported(bed: Bed) -> None:
    p = bed.connect(max_ended=3, keep_kicked=600)
    now = p.freeze()
    for number in range(6):
        p.login(f"u{number}", session_id="session-1")
        p.logout(f"u{number}", "session-1")
        p.advance(1)
        if number == 2:
            p.sweep()
            assert p.ended().complete_since is None
            assert p.health().ended_complete_since is None
    p.sweep()
    since = p.ended().complete_since
    assert since is not None
    assert round(since.timestamp() * 1000) == now + 2_001
    assert _refs(p.ended()) == [f"u{number}:session-1" for number in (5, 4, 3)]
    assert [p.ended(f"u{number}").complete_since for number in (0, 5)] == [since, since]
    assert all(ended.at >= since for ended in p.ended())
    health = p.health()
    assert health.ended_complete_since == since
    [finding] = [finding for finding in health.findings if finding.subject == "ended sessions"]
    assert finding.level == "note"
    assert finding.text == f"Ended sessions are complete since {since:%Y-%m-%d %H:%M:%S} UTC."
    p.advance(7 * 86_400)  # all of them have expired in any case
    assert p.ended().complete_since is None
    assert p.health().ended_complete_since is None


@on("cluster-sync")
def test_on_a_cluster_the_latest_start_of_all_shards_counts(bed: Bed) -> None:
    p = bed.connect(max_ended=64)  # one on each of 64 shards
    now = p.freeze()
    for number in range(200):
        p.login(f"u{number}", session_id="session-1")
        p.logout(f"u{number}", "session-1")
        p.advance(1)
    p.sweep()
    page, cut = p.ended(limit=1000), [0] * 64
    kept = {ended.uid for ended in page}
    for number in range(200):
        if f"u{number}" not in kept:
            index = p.context.shard(f"u{number}").index
            cut[index] = max(cut[index], number + 1)
    assert page.complete_since is not None
    assert round(page.complete_since.timestamp() * 1000) == now + (max(cut) - 1) * 1000 + 1
    assert p.health().ended_complete_since == page.complete_since


@on("valkey-sync", "redis7-async")
def test_the_hundred_latest_ends_of_a_user_are_complete_since_the_oldest(p: P) -> None:
    p.freeze()
    for number in range(103):
        p.login("ada", session_id=f"session-{number}")
        p.logout("ada", f"session-{number}")
        p.advance(1)
        if number == 98:
            assert p.ended("ada").complete_since is None
    page = p.ended("ada", limit=1000)
    assert len(page) == 100
    assert page.complete_since == page.items[-1].at
    assert p.ended().complete_since is None


# -- What given sessions are now ---------------------------------------------------------------------------------------


@on("valkey-sync", "valkey-async", "cluster-sync")
def test_sessions_among_names_the_live_ones_and_why_the_others_ended(p: P) -> None:
    kept, kicked, over = p.login("ada", device="Mac"), p.login("ada"), p.login("bob", idle_timeout=10)
    left, others = p.login("eve"), [p.login(f"u{number}:x") for number in range(20)]
    p.kick("ada", kicked.session.session_id, **BY)
    p.logout("eve", left.session.session_id)
    refs = [login.session.ref for login in (kept, kicked, over, left, *others)]
    p.freeze()
    p.advance(11)
    found = p.sessions_among([*refs, refs[0], "absent:no-such-session"])
    assert set(found) == set(refs)
    assert found[refs[0]] == p.get("ada", kept.session.session_id)
    assert [ended.reason for ended in found.values() if isinstance(ended, Ended)] == ["kicked", "expired", "logout"]
    ended = found[refs[1]]
    assert isinstance(ended, Ended)
    assert (ended.by, ended.note, ended.message, ended.ticket) == ("Grace Hopper", "stolen phone", "Call us.", "T-4711")
    assert set(p.sessions_among(ref for ref in refs[:1])) == {refs[0]}
    assert p.sessions_among(()) == {}
    p.revoke_before(by="alex", reason="test")
    found = p.sessions_among(refs)
    assert all(isinstance(session, Ended) for session in found.values()), "also before a sweep has come by"
    assert {session.reason for session in found.values() if isinstance(session, Ended)} >= {"kicked", "expired"}


@on("valkey")
def test_sessions_among_is_one_round_trip_that_writes_nothing(bed: Bed) -> None:
    p = bed.connect(shards=4)
    p.login_many([{"uid": f"u{number}", "idle_timeout": 1} for number in range(50)])
    refs = [session.ref for session in p.list_sessions(limit=50)]
    p.freeze()
    p.advance(5)
    p.sessions_among(refs[:1])
    before = bed.dump()
    with Monitor(bed.raw) as monitor:
        assert {session.reason for session in p.sessions_among(refs).values() if isinstance(session, Ended)} == {
            "expired"
        }
    assert {line.words[0] for line in monitor.lines if not line.by_script} == {b"EVALSHA_RO"}
    assert bed.dump() == before


# -- between a deadline and the sweep ---------------------------------------------------------------------------------


def _overdue(p: P) -> None:
    """Three sessions of ada past their deadlines, between two that were kicked; and one that is live."""
    p.freeze()
    p.login("ada", session_id="kicked-1")
    p.kick("ada", **BY)
    p.login("ada", session_id="expired-1", idle_timeout=10, device="phone", name="Ada", ip="192.0.2.7")
    p.login("ada", session_id="expired-2", idle_timeout=20, absolute_timeout=20)
    p.login("ada", session_id="expired-3", idle_timeout=20)
    p.login("ada", session_id="kicked-2")
    p.login("ada", session_id="live-one")
    p.advance(15)
    p.kick("ada", "kicked-2", **BY)
    p.advance(60)


@every_backend
def test_an_end_that_waits_for_a_sweep_is_listed_as_it_is_after_it(bed: Bed) -> None:
    p = bed.connect()
    _overdue(p)
    before = bed.dump()
    asked: list[dict[str, Any]] = [
        {}, {"reason": "expired"}, {"reason": "kicked"}, {"by": BY["by"]}, {"limit": 1}, {"limit": 4},
        {"since": p.clock.now - timedelta(seconds=60)}, {"until": p.clock.now - timedelta(seconds=60)},
    ]  # fmt: skip
    pages = [p.ended("ada", **given) for given in asked]
    of_all = [p.ended(**given) for given in asked]
    assert [page.items for page in of_all] == [page.items for page in pages]
    assert [page.total for page in of_all] == [page.total for page in pages]
    assert bed.dump() == before, "a read changes nothing"
    assert [(end.session_id, end.reason, end.cause) for end in pages[0]] == [
        ("expired-3", "expired", "idle"), ("expired-2", "expired", "absolute"), ("kicked-2", "kicked", "staff"),
        ("expired-1", "expired", "idle"), ("kicked-1", "kicked", "staff"),
    ]  # fmt: skip
    assert (pages[0].total, pages[0].total_is_exact, pages[0].next_cursor) == (5, True, None)
    phone = pages[0].items[3]
    assert (phone.at, phone.device, phone.name, phone.ip) == (phone.expires_at, "phone", "Ada", "192.0.2.7")
    assert phone.at == p.clock.now - timedelta(seconds=65)
    assert [page.total for page in pages[4:6]] == [5, 5]
    assert p.sweep().expired == 3
    assert [p.ended("ada", **given) for given in asked] == pages
    assert [p.ended(**given).items for given in asked] == [page.items for page in pages]


@on("valkey-sync", "cluster-async")
def test_a_revoked_session_whose_deadline_passes_before_a_sweep_is_in_no_period_after_its_end(p: P) -> None:
    p.freeze()
    p.login("ada", idle_timeout=600)
    p.advance(100)
    p.revoke_before(p.clock.now, by="sam", reason="leak")
    p.login("bob", idle_timeout=600)
    p.advance(700)
    after: dict[str, Any] = {"since": p.clock.now - timedelta(seconds=250)}
    assert [(end.uid, end.reason) for end in p.ended(**after)] == [("bob", "expired")]
    assert [(end.uid, end.reason) for end in p.ended()] == [("bob", "expired")]
    assert [(end.uid, end.cause) for end in p.ended("ada")] == [("ada", "revoked")]
    p.sweep()
    assert [(end.uid, end.reason) for end in p.ended(**after)] == [("bob", "expired")]
    assert [end.uid for end in p.ended()] == ["bob", "ada"]


@pytest.mark.parametrize("uid", ["ada", None])
@pytest.mark.parametrize("swept_after", range(1, 5))
@on("valkey-sync", "cluster-async")
def test_pages_before_and_after_a_sweep_have_every_end_once(p: P, swept_after: int, uid: str | None) -> None:
    _overdue(p)
    seen, cursor = [], None
    for number in itertools.count(1):
        page = p.ended(uid, limit=1, cursor=cursor)
        seen += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
        if number == swept_after:
            p.sweep()
    assert seen == p.ended("ada").items
    assert len(seen) == 5


@pytest.mark.parametrize("uid", ["ada", None])
@on("valkey-sync")
def test_an_end_that_a_sweep_writes_between_the_two_reads_is_listed_once(p: P, uid: str | None) -> None:
    _overdue(p)

    def swept_after_its_first_read(operation: Any) -> Any:
        replies = yield next(operation)
        p.sweep()
        while True:
            try:
                calls = operation.send(replies)
            except StopIteration as done:
                return done.value
            replies = yield calls

    asked = tombstones.ended(p.context, uid, None, None, None, None, 50, None)
    page = p.internal.run(swept_after_its_first_read(asked))
    assert len(page) == 5
    assert page.items == p.ended("ada").items


def test_sessions_before_a_revocation_are_listed_before_the_sweep_too(p: P) -> None:
    p.freeze()
    p.login("ada", session_id="revoked-1")
    p.login("ada", session_id="revoked-2", idle_timeout=10)
    p.advance(20)
    p.revoke_before(by="Grace Hopper", reason="keys leaked")
    p.login("ada")
    ends = p.ended("ada").items
    assert [(end.session_id, end.reason, end.note) for end in ends] == [
        ("revoked-1", "kicked", "keys leaked"), ("revoked-2", "expired", None),
    ]  # fmt: skip
    p.sweep()
    assert p.ended("ada").items == ends


def test_an_expiry_that_is_not_kept_is_not_listed_before_the_sweep_either(bed: Bed) -> None:
    p = bed.connect(keep_expired=0)
    p.freeze()
    p.login("ada", idle_timeout=10)
    p.advance(10)
    assert p.ended("ada").items == []
    p.sweep()
    assert p.ended("ada").items == []
