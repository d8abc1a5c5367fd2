"""revoke_before: the watermark that ends all sessions that began before it."""

from __future__ import annotations

import pytest

from presence_core import InvalidArgument, LoginRefused, SessionFilter
from presence_core.operations.sessions.end import revoke_before
from presence_core.scripts.sessions import REVOKE_BEFORE
from tests.conftest import Bed, every_backend, every_topology, on
from tests.contract.bulk_kick.test_jobs import Held
from tests.support.facade import P


@every_backend
def test_a_revocation_ends_earlier_sessions_at_once_and_spares_later_logins(p: P) -> None:
    p.freeze()
    old = [p.login(f"u{number % 3}", name="Old One", device="phone", ip="192.0.2.1") for number in range(9)]
    assert p.revoke_before(by="staff", reason="leaked keys", message="Please sign in again.") == 9
    for login in old:
        answer = p.validate(login.token)
        assert not answer
        assert answer.ended is not None
        assert (answer.ended.reason, answer.ended.cause, answer.ended.by) == ("kicked", "revoked", "staff")
        assert (answer.ended.note, answer.ended.message) == ("leaked keys", "Please sign in again.")
        assert not p.heartbeat(login.session.uid, login.session.session_id)
        with pytest.raises(LoginRefused):
            p.rotate(login.token)
        assert p.get(login.session.uid, login.session.session_id) is None
    assert p.sessions("u0") == p.list_sessions().items == list(p.iter_sessions()) == []
    for asked in (
        SessionFilter(text="old"),
        SessionFilter(device="phone"),
        SessionFilter(ip="192.0.2.1"),
        SessionFilter(uid="u1"),
    ):
        assert p.list_sessions(asked).items == []
        assert p.count_sessions(asked) == 0
    new = p.login("u0", name="New One")
    assert p.validate(new.token), "a login in the very same millisecond counts as after"
    assert [session.uid for session in p.list_sessions()] == ["u0"]
    assert p.list_sessions().total == 1


@every_topology
def test_sweeps_drain_revoked_sessions_and_counts_report_it_until_then(p: P) -> None:
    p.freeze()
    p.login_many({"uid": f"u{number}", "device": "phone"} for number in range(50))
    p.advance(1)
    assert not p.counts().draining
    p.revoke_before(by="staff", reason="test")
    p.login("new")
    counts = p.counts()
    assert counts.draining
    assert (counts.sessions, counts.users) == (1, 1)
    assert p.sweep().expired == 50
    counts = p.counts()
    assert not counts.draining
    assert (counts.sessions, counts.users, counts.totals["kicked"]) == (1, 1, 50)
    assert p.facets("device") == {}
    assert [event.kind for event in p.events(limit=1000)].count("kicked") == 50
    page = p.ended(reason="kicked", limit=100)
    assert len(page) == 50
    assert {(ended.cause, ended.by, ended.note) for ended in page} == {("revoked", "staff", "test")}
    assert p.sweep().expired == 0


@every_topology
def test_only_sessions_that_began_before_the_given_time_end(p: P) -> None:
    start = p.freeze()
    for number in range(5):
        p.set_now(start + 1000 * number)
        p.login(f"u{number}")
    assert p.revoke_before((start + 2000) / 1000, by="staff", reason="test") == 2
    assert sorted(session.uid for session in p.list_sessions()) == ["u2", "u3", "u4"]
    assert p.revoke_before((start + 1000) / 1000, by="staff", reason="test") == 2, "it never falls; these still wait"
    assert sorted(session.uid for session in p.list_sessions()) == ["u2", "u3", "u4"]
    assert p.revoke_before((start + 4000) / 1000, by="staff", reason="test") == 2
    p.sweep()
    assert [session.uid for session in p.list_sessions()] == ["u4"]


def test_kicks_limits_and_repeated_logins_treat_a_revoked_session_as_ended(bed: Bed) -> None:
    p = bed.connect(max_sessions=2, on_limit="reject")
    p.freeze()
    first, second = p.login("ada", session_id="session-1"), p.login("ada", session_id="session-2")
    p.advance(1)
    p.revoke_before(by="staff", reason="test")
    with pytest.raises(LoginRefused):
        p.login("ada", session_id="session-1")
    result = p.kick("ada", first.session.session_id, by="other", reason="late")
    assert not result.kicked
    assert [(ended.reason, ended.cause, ended.by) for ended in result.already_ended] == [("kicked", "revoked", "staff")]
    for _ in range(2):  # revoked sessions count for no limit
        p.login("ada")
    assert p.kick("ada", by="other", reason="all").kicked
    ended = p.validate(second.token).ended
    assert ended is not None
    assert ended.cause == "revoked"


def test_a_revocation_is_one_audit_entry_and_may_be_repeated(p: P) -> None:
    p.freeze()
    p.login_many({"uid": f"u{number}"} for number in range(20))
    p.advance(1)
    assert p.revoke_before(by="staff", reason="test") == 20
    assert p.revoke_before(by="staff", reason="test") == 0, "they are out already"
    assert [(entry.action, entry.by, entry.uid) for entry in p.audit()] == [("revoke_before", "staff", None)] * 2


@pytest.mark.parametrize("at", [None, 1.0])
@on("valkey-sync", "cluster-async")
def test_a_revocation_whose_reply_was_lost_is_one_audit_entry(p: P, at: float | None) -> None:
    p.freeze()
    p.login("ada")
    for number in (1, 2):
        held = Held(p, revoke_before(p.context, at, "staff", "test", None), REVOKE_BEFORE)
        held.send()
        held.wake()  # the transport sends it again
        assert [entry.action for entry in p.audit()] == ["revoke_before"] * number


@pytest.mark.parametrize("at", ["now", True, -1, 0, 4e9])
@on("valkey-sync", "cluster-async")
def test_an_invalid_or_future_time_is_refused(p: P, at: object) -> None:
    login = p.login("ada")
    with pytest.raises(InvalidArgument, match=r"^at must "):
        p.revoke_before(at, by="staff", reason="test")  # type: ignore[arg-type]
    assert p.validate(login.token)


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_within_one_millisecond_each_login_lives_until_the_next_revocation(p: P) -> None:
    p.freeze()
    for number in range(30):
        login = p.login(f"u{number % 7}")
        assert p.validate(login.token), "it began after the revocation before"
        assert p.revoke_before(by="staff", reason="test") == 1
        assert not p.validate(login.token)
    assert p.list_sessions().items == []


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_after_a_clock_was_ahead_the_next_revocation_still_ends_all_sessions(p: P) -> None:
    """A failover to a node with a slower clock is the same."""
    start = p.freeze()
    p.advance(3600)
    p.login("early")
    assert p.revoke_before(by="staff", reason="test") == 1
    p.set_now(start)
    logins = [p.login(f"u{number}", device="phone") for number in range(20)]
    assert all(p.validate(login.token) for login in logins)
    assert p.revoke_before(by="staff", reason="again") == 20
    assert not any(p.validate(login.token) for login in logins)
    late = p.login("late", device="phone")
    assert p.validate(late.token)
    phones = SessionFilter(device="phone")
    assert p.preview_kick(phones).total == 1
    later = p.login("later", device="phone")
    assert p.kick_where(p.preview_kick(phones).filter, by="staff", reason="test", expected=2).count == 2
    assert not p.validate(late.token)
    assert not p.validate(later.token)


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_sessions_that_began_while_the_clock_was_ahead_are_revoked_as_well(p: P) -> None:
    start = p.freeze()
    p.advance(3600)
    logins = [p.login(f"u{number}") for number in range(10)]
    p.set_now(start)
    assert p.revoke_before(start / 1000, by="staff", reason="test") == 0, "an explicit time is what it says"
    assert p.revoke_before(by="staff", reason="test") == 10
    assert not any(p.validate(login.token) for login in logins)
    assert p.validate(p.login("new").token)


@on("cluster-sync", "cluster-async")
def test_all_shards_get_one_watermark_although_their_clocks_differ(p: P, bed: Bed) -> None:
    start = p.freeze()
    p.counts()
    shards = p.context.keys.shards
    ahead = shards[40]
    bed.raw.hset(ahead.meta, "revoked", start + 5000)  # of a revocation that reached one shard, whose clock is ahead
    logins = [p.login(f"u{number}") for number in range(200)]
    assert p.revoke_before(by="staff", reason="test") == 200
    assert {bed.raw.hget(shard.meta, "revoked") for shard in shards} == {b"%d" % (start + 5001)}
    assert not any(p.validate(login.token) for login in logins)
    logins = [p.login(f"u{number}") for number in range(200)]
    assert all(p.validate(login.token) for login in logins)


@on("valkey-sync", "redis7-async")
def test_a_list_entry_without_a_login_does_not_move_the_watermark(p: P, bed: Bed) -> None:
    start = p.freeze()
    p.counts()
    bed.raw.zadd(p.context.keys.shards[0].sessions, {"foreign:session-1": 1e15})
    p.revoke_before(by="staff", reason="test")
    assert p.login("ada").session.login_at.timestamp() * 1000 == pytest.approx(start, abs=2)


@on("valkey-sync", "redis7-async")
def test_a_held_watermark_is_applied_again_although_the_clock_is_behind_it(bed: Bed) -> None:
    """As after a failover to a node with a slower clock."""
    p = bed.connect(confirm_replicas=1, confirm_timeout=1, confirm_hold=0)
    start = p.freeze()
    p.advance(3600)
    login = p.login("ada")
    p.revoke_before(by="staff", reason="test")
    bed.raw.hdel(p.context.keys.shards[0].meta, "revoked")  # the next master has not received it
    p.set_now(start)
    assert p.validate(login.token)
    p.confirm()
    assert not p.validate(login.token)
