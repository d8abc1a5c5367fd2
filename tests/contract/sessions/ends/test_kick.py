"""Staff end one session, all sessions of a user, or all but some. After a kick has returned, none of them validates."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import InvalidArgument
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.monitor import Monitor

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "stolen phone, see call of Monday", "ticket": "T-4711"}
SECRETS = (*BY.values(), "Grace")


@every_backend
def test_a_kicked_session_is_refused_by_every_client_at_once(p: P) -> None:
    p.freeze()
    login = p.login("ada", name="Ada", device="phone")
    sid = login.session.session_id
    p.advance(5)
    result = p.kick("ada", sid, **BY, message="Please call us.")
    assert result
    assert result.kicked == [login.session]
    assert result.already_ended == []
    assert not p.validate(login.token)
    assert not p.validate_session("ada", sid)
    assert not p.heartbeat("ada", sid)
    assert p.heartbeats([login.session.ref]) == [login.session.ref]
    assert p.get("ada", sid) is None
    assert p.sessions("ada") == []
    assert p.list_sessions().items == []
    assert not p.logout("ada", sid)
    counts = p.counts()
    assert (counts.users, counts.sessions, counts.totals["kicked"], counts.totals["logout"]) == (0, 0, 1, 0)


@every_topology
def test_kicking_one_device_leaves_the_others_online(p: P) -> None:
    phone, desk = p.login("ada", device="phone"), p.login("ada", device="desk")
    other = p.login("bob")
    assert p.kick("ada", phone.session.session_id, **BY).kicked == [phone.session]
    assert not p.validate(phone.token)
    assert p.validate(desk.token)
    assert p.validate(other.token)
    assert p.counts().users == 2


@every_backend
def test_kicking_a_user_ends_all_of_their_sessions_newest_first(p: P) -> None:
    p.freeze()
    logins = []
    for _ in range(7):
        p.advance(1)
        logins.append(p.login("ada"))
    other = p.login("bob")
    result = p.kick("ada", **BY)
    assert result.kicked == [login.session for login in reversed(logins)]
    assert not any(p.validate(login.token) for login in logins)
    assert p.validate(other.token)
    assert p.counts().totals["kicked"] == 7
    assert not p.kick("ada", **BY)


@every_topology
def test_kicking_all_but_some_keeps_those(p: P) -> None:
    logins = [p.login("ada") for _ in range(5)]
    ids = [login.session.session_id for login in logins]
    result = p.kick("ada", **BY, keep=[ids[1], ids[3], "not-a-session-of-hers"])
    assert {session.session_id for session in result.kicked} == {ids[0], ids[2], ids[4]}
    assert [bool(p.validate(login.token)) for login in logins] == [False, True, False, True, False]
    assert {session.session_id for session in p.sessions("ada")} == {ids[1], ids[3]}
    assert not p.kick("ada", **BY, keep=iter(ids)).kicked


def test_a_user_with_a_thousand_sessions_is_kicked_completely(p: P) -> None:
    p.login_many({"uid": "ada"} for _ in range(1000))
    assert len(p.kick("ada", **BY).kicked) == 1000
    assert p.counts().sessions == p.counts().users == 0
    assert p.counts().totals["kicked"] == 1000
    assert p.sweep().repaired == 0, "nothing was left half-done"


@on("valkey-sync", "redis7-sync")
def test_a_kick_of_a_few_sessions_takes_two_round_trips(bed: Bed) -> None:
    p = bed.connect(shards=1)
    p.login_many({"uid": "ada", "device": f"desk {number}"} for number in range(50))
    p.list_sessions()  # this process learns the texts of the devices
    with Monitor(bed.raw) as monitor:
        assert len(p.kick("ada", **BY).kicked) == 50
    assert [line.words[0] for line in monitor.lines if not line.by_script] == [b"SMEMBERS", b"EVALSHA"]
    assert "closing" not in bed.families(), "no tombstone is left to a sweep"


def test_a_kick_of_all_removes_entries_of_sessions_that_have_ended(p: P, bed: Bed, raw: Any) -> None:
    live, ended = (p.login("ada", session_id=f"session-{number}").session for number in range(2))
    shard = p.context.keys.shard("ada")
    p.logout("ada", "session-1")
    raw.sadd(shard.user("ada"), "session-1", "session-9")  # as a failover may bring them back
    raw.zadd(shard.sessions, {ended.ref: 1})
    assert p.kick("ada", **BY).kicked == [live]
    assert p.counts().users == 0
    assert (p.counts().totals["kicked"], p.counts().totals["logout"]) == (1, 1)
    assert not {"user:", "sessions", "deadlines", "users", "closing"} & bed.families().keys()


def test_a_kick_of_all_reports_a_session_without_a_record_as_expired(p: P, bed: Bed, raw: Any) -> None:
    live, lost = (p.login("ada", session_id=f"session-{number}") for number in range(2))
    raw.delete(p.context.keys.shard("ada").record("ada", "session-1"))
    assert p.kick("ada", **BY).kicked == [live.session]
    assert (p.counts().totals["kicked"], p.counts().totals["expired"], p.counts().users) == (1, 1, 0)
    assert not p.validate(lost.token)
    assert not {"user:", "sessions", "deadlines", "users", "closing"} & bed.families().keys()


@every_backend
def test_a_second_kick_returns_who_was_first_and_why(bed: Bed) -> None:
    p = bed.connect(max_sessions=1)
    p.freeze()
    p.login("ada", session_id="session-1")
    assert p.kick("ada", "session-1", **BY, message="Call us.").kicked
    p.advance(60)
    [ended] = p.kick("ada", "session-1", by="someone else", reason="the same").already_ended
    assert (ended.reason, ended.by, ended.note) == ("kicked", BY["by"], BY["reason"])
    assert (ended.ticket, ended.message) == (BY["ticket"], "Call us.")
    assert (p.clock.now - ended.at).total_seconds() == 60

    p.login("bob", session_id="session-2")
    p.logout("bob", "session-2")
    p.login("eve", session_id="session-3")
    p.login("eve", session_id="session-4")
    p.login("dan", session_id="session-5", idle_timeout=1)
    p.advance(1)
    for uid, sid, reason in (("bob", "2", "logout"), ("eve", "3", "replaced"), ("dan", "5", "expired")):
        result = p.kick(uid, f"session-{sid}", **BY)
        assert not result.kicked
        assert [(ended.reason, ended.session_id) for ended in result.already_ended] == [(reason, f"session-{sid}")]
    totals = p.counts().totals
    assert (totals["kicked"], totals["logout"], totals["replaced"], totals["expired"]) == (1, 1, 1, 1)


@every_topology
def test_a_kick_of_an_unknown_session_reports_it(p: P) -> None:
    p.login("ada")
    for args in (("nobody",), ("nobody", "no-such-session"), ("ada", "no-such-session")):
        result = p.kick(*args, **BY)
        assert (result.kicked, result.already_ended) == ([], [])
        assert not result
    assert p.counts().sessions == 1
    assert p.counts().totals["kicked"] == 0


def test_a_session_past_its_deadline_has_expired_and_was_not_kicked(p: P) -> None:
    p.freeze()
    old = [p.login("ada", idle_timeout=10) for _ in range(2)]
    p.advance(10)
    new = p.login("ada")
    result = p.kick("ada", **BY)
    assert result.kicked == [new.session]
    for login in old:
        ended = p.validate(login.token).ended
        assert ended is not None
        assert (ended.reason, ended.cause, ended.at) == ("expired", "idle", login.session.expires_at)
    totals = p.counts().totals
    assert (totals["kicked"], totals["expired"]) == (1, 2)


def test_a_kick_of_one_session_past_its_deadline_reports_that_it_has_expired(p: P) -> None:
    p.freeze()
    session = p.login("ada", idle_timeout=10).session
    p.advance(10)
    result = p.kick("ada", session.session_id, **BY)
    assert result.kicked == []
    assert [(ended.reason, ended.at) for ended in result.already_ended] == [("expired", session.expires_at)]
    assert p.counts().totals["kicked"] == 0


def test_a_kick_has_a_note_for_staff_and_a_message_for_the_visitor(p: P) -> None:
    login = p.login("ada")
    p.kick("ada", **BY, message="Please call +44 20 7946 0000 😀")
    ended = p.validate(login.token).ended
    assert ended is not None
    assert (ended.by, ended.note, ended.ticket) == (BY["by"], BY["reason"], BY["ticket"])
    assert (ended.public.code, ended.public.message) == ("kicked", "Please call +44 20 7946 0000 😀")
    assert ended.public.at == ended.at
    assert not any(secret in repr(ended.public) for secret in SECRETS)
    assert {name for name in dir(ended.public) if not name.startswith("_")} == {
        "code", "message", "at", "block", "sentence",
    }  # fmt: skip


def test_without_a_message_the_visitor_does_not_see_the_note(p: P) -> None:
    login = p.login("ada")
    p.kick("ada", **BY)
    ended = p.validate(login.token).ended
    assert ended is not None
    assert ended.message is ended.public.message is None
    assert not any(secret in repr(ended.public) for secret in SECRETS)


def test_long_and_hostile_texts_of_staff_round_trip(p: P) -> None:
    texts: dict[str, Any] = {
        "reason": "é" * 500,
        "message": "line 1\nline 2\t<b>&\"'</b> 😀 \\x00",
        "ticket": "x" * 64,
        "by": "é" * 128,
    }
    login = p.login("ada")
    p.kick("ada", **texts)
    ended = p.validate(login.token).ended
    assert ended is not None
    assert (ended.note, ended.message, ended.ticket, ended.by) == tuple(texts.values())


def test_the_actor_is_never_empty(p: P) -> None:
    login = p.login("ada")
    for by in ("", " ", None, 5, "a\nb"):
        with pytest.raises(InvalidArgument, match=r"^by must be text of 1 to 256 bytes that says who does this"):
            p.kick("ada", by=by, reason="x")  # type: ignore[arg-type]
    assert p.validate(login.token)


# -- what is kept -----------------------------------------------------------------------------------------------------


def _ttl(raw: Any, bed: Bed, part: str, containing: str = "") -> list[int]:
    return [raw.ttl(key) for key in bed.families().get(part, []) if containing.encode() in key]


@every_topology
def test_tombstones_are_kept_for_a_configured_time_per_reason(bed: Bed, raw: Any) -> None:
    keep = {"keep_kicked": 1000, "keep_replaced": 2000, "keep_expired": 3000, "keep_logout": 4000}
    p = bed.connect(max_sessions=1, **keep)
    p.freeze()
    p.login("kicked", session_id="session-1")
    p.kick("kicked", **BY)
    p.login("replaced", session_id="session-1")
    p.login("replaced", session_id="session-2")
    p.login("logout", session_id="session-1")
    p.logout("logout", "session-1")
    p.login("expired", session_id="session-1", idle_timeout=1)
    p.advance(1)
    p.sweep()
    for reason in ("kicked", "replaced", "expired", "logout"):
        [ttl] = _ttl(raw, bed, "session:", f":session:{reason}:session-1")
        assert keep[f"keep_{reason}"] - 60 < ttl <= keep[f"keep_{reason}"]
    assert all(ttl >= 1000 for ttl in _ttl(raw, bed, "note:")), "a text outlives the tombstones that name it"


def test_the_default_retention_is_the_documented_one(p: P, bed: Bed, raw: Any) -> None:
    day = 86400
    p.login("ada", session_id="session-1")
    p.kick("ada", **BY)
    p.login("bob", session_id="session-1")
    p.logout("bob", "session-1")
    for uid, days in (("ada", 30), ("bob", 2)):
        [ttl] = _ttl(raw, bed, "session:", f":session:{uid}:")
        assert days * day - 60 < ttl <= days * day
    settings = p.settings
    assert (settings.keep_replaced, settings.keep_expired) == (7 * day, 2 * day)


def test_retention_0_keeps_no_tombstone(bed: Bed) -> None:
    p = bed.connect(max_sessions=1, keep_kicked=0, keep_replaced=0, keep_expired=0, keep_logout=0)
    p.freeze()
    tokens = [p.login(uid, idle_timeout=5).token for uid in ("kicked", "logout", "expired", "replaced")]
    p.kick("kicked", **BY)
    p.logout("logout", p.sessions("logout")[0].session_id)
    p.login("replaced")
    p.advance(3)
    p.heartbeat("replaced", p.sessions("replaced")[0].session_id)
    p.advance(2)
    p.sweep()
    for token in tokens:
        answer = p.validate(token)
        assert not answer
        assert answer.ended is None
    keys = bed.families()
    assert len(keys["session:"]) == 1
    assert not {"ended", "ended:", "note:", "closing"} & keys.keys()
    totals = p.counts().totals
    assert (totals["kicked"], totals["logout"], totals["expired"], totals["replaced"]) == (1, 1, 1, 1)


def test_a_text_shared_by_many_ends_is_stored_once(p: P, bed: Bed, raw: Any) -> None:
    reason, message = "credential stuffing, wave 3 " * 10, "Your account was under attack. " * 10
    for number in range(30):
        p.login_many([{"uid": "ada"}] * 3)
        p.kick("ada", by="staff", reason=reason, message=message, ticket=f"T-{number}")
    notes = bed.families()["note:"]
    assert sorted(raw.get(note) for note in notes) == sorted([reason.encode(), message.encode()])


def test_a_shared_text_is_kept_as_long_as_the_last_tombstone_that_uses_it(bed: Bed, raw: Any) -> None:
    long, short = bed.connect(keep_kicked=100_000), bed.connect(keep_kicked=10)
    for p in (long, short):
        p.login("ada")
        p.kick("ada", by="staff", reason="the same")
    assert min(_ttl(raw, bed, "note:")) > 100_000
    [note] = bed.families()["note:"]
    raw.expire(note, 99_000)  # as if time had passed
    long.login("ada")
    long.kick("ada", by="staff", reason="the same")
    assert raw.ttl(note) > 100_000


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_tombstones_are_capped_in_number_and_the_oldest_are_removed_first(bed: Bed, raw: Any) -> None:
    p = bed.connect(max_ended=100)
    now = p.freeze()
    for number in range(400):
        p.set_now(now + number)
        p.login(f"u{number}", session_id="session-1")
        p.logout(f"u{number}", "session-1")
    p.sweep()
    keys = bed.families()
    assert len(keys["session:"]) == 100
    assert raw.zcard(keys["ended"][0]) == 100
    assert p.validate_session("u299", "session-1").ended is None
    assert p.validate_session("u300", "session-1").ended is not None


@every_topology
def test_every_kick_is_in_the_audit_with_actor_and_reason(p: P, bed: Bed, raw: Any) -> None:
    p.login("ada")
    p.login("ada", session_id="session-1")
    p.kick("ada", "session-1", **BY, message="Call us.")
    p.kick("ada", by="second", reason="the rest")
    entries = [entry for key in bed.families()["audit"] for _, entry in raw.xrange(key)]
    assert [(entry[b"what"], entry[b"by"], entry[b"reason"]) for entry in entries] == [
        (b"kick", b"Grace Hopper", BY["reason"].encode()),
        (b"kick", b"second", b"the rest"),
    ]
    assert (entries[0][b"session"], entries[0][b"message"], entries[0][b"ticket"]) == (
        b"session-1",
        b"Call us.",
        b"T-4711",
    )
    assert [int(entry[b"ended"]) for entry in entries] == [1, 1]


def test_a_user_whose_last_session_ended_is_remembered_with_their_last_seen(p: P, bed: Bed, raw: Any) -> None:
    now = p.freeze()
    first, second = p.login("ada"), p.login("ada")
    p.kick("ada", first.session.session_id, **BY)
    assert "people" not in bed.families()
    [live] = bed.families()["user:"]
    assert raw.smembers(live) == {second.session.session_id.encode()}
    p.advance(50)
    p.validate(second.token)
    p.kick("ada", **BY)
    [people] = bed.families()["people"]
    assert raw.zrange(people, 0, -1, withscores=True) == [(b"ada", now + 50_000)]
    p.login("ada")
    assert "people" not in bed.families()
