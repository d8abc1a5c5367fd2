"""Recipe R2, complete: the online list by login time, in multi-device and in single-device mode."""

from __future__ import annotations

from typing import Any

from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P


def _places(p: P, raw: Any, uid: str) -> tuple[list[bytes], list[bytes], set[bytes], set[bytes]]:
    """All entries of one user: in the list, the deadlines, the user's SET and the records."""
    shard = p.context.keys.shard(uid)
    prefix = f"{uid}:".encode()
    listed = [ref for ref in raw.zrange(shard.sessions, 0, -1) if ref.startswith(prefix)]
    due = [ref for ref in raw.zrange(shard.deadlines, 0, -1) if ref.startswith(prefix)]
    records = {
        sid
        for sid in raw.smembers(shard.user(uid))
        if raw.hexists(shard.record(uid, sid.decode()), "c") and not raw.hexists(shard.record(uid, sid.decode()), "e")
    }
    return sorted(listed), sorted(due), raw.smembers(shard.user(uid)), records


def _agree(p: P, raw: Any, uid: str, *sids: str) -> None:
    refs = sorted(f"{uid}:{sid}".encode() for sid in sids)
    ids = {sid.encode() for sid in sids}
    assert _places(p, raw, uid) == (refs, refs, ids, ids)


# -- multi-device mode ------------------------------------------------------------------------------------------------


@every_topology
def test_the_list_has_online_sessions_with_the_login_time_as_score(p: P, raw: Any) -> None:
    now = p.freeze()
    p.login("6", session_id="aaaaaaaa")
    p.advance(5)
    p.login("6", session_id="bbbbbbbb")
    shard = p.context.keys.shard("6")
    assert raw.zrange(shard.sessions, 0, -1, withscores=True) == [(b"6:aaaaaaaa", now), (b"6:bbbbbbbb", now + 5000)]
    p.heartbeat("6", "aaaaaaaa")
    assert raw.zscore(shard.sessions, "6:aaaaaaaa") == now, "being seen is no login"
    assert [session.session_id for session in p.list_sessions()] == ["bbbbbbbb", "aaaaaaaa"]


def test_all_the_sessions_of_user_6_are_one_read(p: P, raw: Any) -> None:
    for sid in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
        p.login("6", session_id=sid, device=sid[:1])
    p.login("66", session_id="dddddddd")
    assert raw.smembers(p.context.keys.shard("6").user("6")) == {b"aaaaaaaa", b"bbbbbbbb", b"cccccccc"}
    assert {session.device for session in p.sessions("6")} == {"a", "b", "c"}


@every_backend
def test_all_keys_of_a_session_are_written_and_removed_together(p: P, raw: Any) -> None:
    sids = [f"session-{number}" for number in range(5)]
    for sid in sids:
        p.login("6", session_id=sid, idle_timeout=10 if sid == "session-4" else 100)
        _agree(p, raw, "6", *sids[: sids.index(sid) + 1])
    p.freeze()
    p.logout("6", "session-0")
    _agree(p, raw, "6", *sids[1:])
    p.kick("6", "session-1", by="staff", reason="test")
    _agree(p, raw, "6", *sids[2:])
    p.advance(20)
    p.sweep()
    _agree(p, raw, "6", *sids[2:4])
    p.kick("6", by="staff", reason="test", keep=["session-2"])
    _agree(p, raw, "6", "session-2")
    p.kick("6", by="staff", reason="test")
    _agree(p, raw, "6")


@every_topology
def test_a_kicked_sessions_next_request_is_refused(p: P) -> None:
    login = p.login("6")
    assert p.validate(login.token)
    p.kick("6", login.session.session_id, by="staff", reason="test")
    assert not p.validate(login.token)


# -- single-device mode -----------------------------------------------------------------------------------------------


@every_backend
def test_in_single_device_mode_a_new_login_replaces_the_old_one(bed: Bed, raw: Any) -> None:
    p = bed.connect(max_sessions=1, on_limit="replace")
    first = p.login("6", session_id="aaaaaaaa", device="phone")
    second = p.login("6", session_id="bbbbbbbb", device="desk")
    assert second.replaced == [first.session]
    assert not p.validate(first.token)
    ended = p.validate(first.token).ended
    assert ended is not None
    assert (ended.reason, ended.replaced_by) == ("replaced", "bbbbbbbb")
    assert p.validate(second.token)
    assert p.sessions("6") == p.list_sessions().items == [p.get("6", "bbbbbbbb")]
    _agree(p, raw, "6", "bbbbbbbb")
    assert (p.counts().users, p.counts().sessions) == (1, 1)
    p.kick("6", by="staff", reason="test")
    assert not p.validate(second.token)
    _agree(p, raw, "6")


def test_any_filter_that_an_operator_types_gives_users_and_their_sessions(p: P) -> None:
    for uid in ("6", "7", "7"):
        p.login(uid)
    assert {uid: len(p.sessions(uid)) for uid in ("6", "7", "8", "*", "6*", "?")} == {
        "6": 1, "7": 2, "8": 0, "*": 0, "6*": 0, "?": 0,
    }  # fmt: skip


# -- dirty entries ----------------------------------------------------------------------------------------------------


@every_backend
def test_an_entry_without_a_record_is_never_shown_and_is_removed_everywhere(p: P, raw: Any) -> None:
    kept = p.login("6", session_id="aaaaaaaa")
    for way in ("sessions", "get", "list", "iter", "validate", "kick", "kick all", "sweep", "repair"):
        lost = p.login("6", session_id="bbbbbbbb")
        shard = p.context.keys.shard("6")
        raw.delete(shard.record("6", "bbbbbbbb"))
        if way == "sessions":
            assert p.sessions("6") == [kept.session]
        elif way == "get":
            assert p.get("6", "bbbbbbbb") is None
        elif way == "list":
            assert p.list_sessions().items == [kept.session]
        elif way == "iter":
            assert list(p.iter_sessions()) == [kept.session]
        elif way == "validate":
            assert not p.validate(lost.token)
        elif way == "kick":
            assert not p.kick("6", "bbbbbbbb", by="staff", reason="test").kicked
        elif way == "kick all":
            assert p.kick("6", by="staff", reason="test", keep=["aaaaaaaa"]).kicked == []
        elif way == "sweep":
            p.advance(1801)
            p.heartbeat("6", "aaaaaaaa")
            p.sweep()
            kept = p.login("6", session_id="aaaaaaa2")
        else:
            p.repair()
        sid = kept.session.session_id
        _agree(p, raw, "6", sid)
        assert not p.heartbeat("6", "bbbbbbbb")
        assert not p.validate(lost.token)
    assert p.counts().users == 1


@every_topology
def test_a_read_only_client_shows_no_stale_entry_and_changes_nothing(bed: Bed, raw: Any) -> None:
    p, reader = bed.connect(), bed.connect(heal=False)
    p.login("6", session_id="aaaaaaaa")
    p.login("6", session_id="bbbbbbbb")
    raw.delete(p.context.keys.shard("6").record("6", "bbbbbbbb"))
    before = bed.dump()
    assert [session.session_id for session in reader.sessions("6")] == ["aaaaaaaa"]
    assert [session.session_id for session in reader.list_sessions()] == ["aaaaaaaa"]
    assert reader.get("6", "bbbbbbbb") is None
    assert not reader.validate_session("6", "bbbbbbbb", touch=False)
    assert bed.dump() == before
    assert [session.session_id for session in p.list_sessions()] == ["aaaaaaaa"]
    _agree(p, raw, "6", "aaaaaaaa")


@every_topology
def test_a_stale_entry_counts_as_one_expired_session_however_often_it_is_found(p: P, raw: Any) -> None:
    p.login("6", session_id="aaaaaaaa")
    raw.delete(p.context.keys.shard("6").record("6", "aaaaaaaa"))
    for _ in range(3):
        p.sessions("6")
        p.list_sessions()
        p.sweep()
        p.repair()
    assert p.counts().totals["expired"] == 1
    assert [event.kind for event in p.events()] == ["login", "expired"]


# -- expiry with and without a sweeper --------------------------------------------------------------------------------


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_stale_entries_are_never_shown_with_or_without_a_sweep(p: P, raw: Any) -> None:
    p.freeze()
    for number in range(20):
        p.login(f"u{number}", session_id="session-1", idle_timeout=10 + number)
    p.advance(9)
    for second in range(10, 31):
        p.advance(1)
        live = {f"u{number}" for number in range(20) if 10 + number > second}
        assert {session.uid for session in p.list_sessions(limit=100)} == live
        assert p.counts().sessions == len(live)
        if second % 3 == 0:
            p.sweep()
            assert p.counts().users == len(live)
    assert p.list_sessions().total == 0
    p.sweep()
    for number in range(20):
        _agree(p, raw, f"u{number}")


def test_a_session_record_expires_by_ttl_without_a_sweep(p: P, raw: Any) -> None:
    p.login("6", session_id="aaaaaaaa", absolute_timeout=60)
    record = p.context.keys.shard("6").record("6", "aaaaaaaa")
    assert 0 < raw.ttl(record) <= 86400 + 60
