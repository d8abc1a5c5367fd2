"""validate: may this request pass? And the changes of a session that is seen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from presence_core import InvalidArgument, LoginRefused, Validation
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

ABSENT = [
    ("nobody", "no-such-session"),
    ("ada", "no-such-session"),
    ("*", "no-such-session"),
]


@every_backend
def test_a_live_session_is_valid_and_names_its_user(p: P) -> None:
    login = p.login("ada", name="Ada")
    for answer in (p.validate(login.token), p.validate_session("ada", login.session.session_id)):
        assert answer
        assert answer.session is not None
        assert (answer.session.uid, answer.session.name) == ("ada", "Ada")
        assert answer.ended is None


@every_topology
def test_a_validation_moves_last_seen_and_the_deadline(p: P) -> None:
    p.freeze()
    login = p.login("ada", idle_timeout=100, absolute_timeout=1000)
    p.advance(99)
    for seen in (p.validate(login.token).session, p.get("ada", login.session.session_id)):
        assert seen is not None
        assert seen.last_seen == p.clock.now
        assert seen.expires_at == p.clock.now + timedelta(seconds=100)
        assert seen.login_at == login.session.login_at
    p.advance(99)
    assert p.validate_session("ada", login.session.session_id)
    p.advance(99)
    assert p.heartbeat("ada", login.session.session_id)
    p.advance(99)
    assert p.heartbeats([login.session.ref]) == []
    p.advance(99)
    assert p.validate(login.token)
    p.advance(100)
    assert not p.validate(login.token)


def test_counts_respect_the_deadline_to_the_millisecond_for_each_kind_of_heartbeat(p: P) -> None:
    p.freeze()
    login = p.login("ada", idle_timeout=100)
    ways: list[Callable[[], Any]] = [
        lambda: p.validate(login.token),
        lambda: p.validate_session("ada", login.session.session_id),
        lambda: p.heartbeat("ada", login.session.session_id),
        lambda: p.heartbeats([login.session.ref]),
        lambda: p.login("ada", session_id=login.session.session_id),
    ]
    for see in ways:
        p.advance(50)
        see()
        p.advance(99.999)
        assert p.counts().sessions == 1
        p.advance(0.001)
        assert p.counts().sessions == 0
        p.set_now(p.clock.ms - 100_000)  # not read since: it is live


def test_without_touch_nothing_is_written(p: P, bed: Bed) -> None:
    p.freeze()
    login = p.login("ada", idle_timeout=100, ip="192.0.2.1")
    p.advance(50)
    before = bed.dump()
    assert p.validate(login.token, touch=False, ip="192.0.2.2")
    assert p.validate_session("ada", login.session.session_id, touch=False, ip="192.0.2.2")
    assert bed.dump() == before
    p.advance(50)
    assert not p.validate(login.token, touch=False)


@every_topology
def test_the_latest_address_is_stored_and_the_login_address_kept(p: P) -> None:
    login = p.login("ada", ip="192.0.2.1")
    plain = p.login("bob")
    for given, last in (
        ("2001:db8::7", "2001:db8::7"),
        (None, "2001:db8::7"),
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.3", "192.0.2.3"),
    ):
        for session in (p.validate(login.token, ip=given).session, p.get("ada", login.session.session_id)):
            assert session is not None
            assert (session.ip, session.last_ip) == ("192.0.2.1", last)
    seen = p.validate(plain.token, ip="192.0.2.4").session
    assert seen is not None
    assert (seen.ip, seen.last_ip) == (None, "192.0.2.4")


def test_the_absolute_deadline_moves_only_by_change_timeouts(p: P) -> None:
    p.freeze()
    login = p.login("ada", idle_timeout=100, absolute_timeout=900)
    p.change_timeouts("ada", absolute_timeout=250, by="sam", reason="test")
    for _ in range(3):
        p.advance(80)
        seen = p.validate(login.token).session
        assert seen is not None
        assert seen.expires_at <= login.session.login_at + timedelta(seconds=250)
    p.advance(9.999)
    assert p.heartbeat("ada", login.session.session_id)
    p.advance(0.001)
    assert not p.heartbeat("ada", login.session.session_id)
    assert not p.validate(login.token)
    ended = p.validate(login.token).ended
    assert ended is not None
    assert (ended.reason, ended.cause) == ("expired", "absolute")
    assert ended.at == login.session.login_at + timedelta(seconds=250)


def test_last_seen_never_falls_when_a_clock_is_set_back(p: P) -> None:
    now = p.freeze()
    login = p.login("ada", ip="192.0.2.1")
    p.advance(60)
    seen = p.validate(login.token).session
    p.set_now(now + 1000)
    assert p.validate(login.token)
    assert p.heartbeat("ada", login.session.session_id)
    assert p.heartbeats([login.session.ref]) == []
    assert p.login("ada", session_id=login.session.session_id, ip="192.0.2.1").session == seen
    assert p.get("ada", login.session.session_id) == seen


@every_topology
def test_a_session_past_its_deadline_is_never_live_even_without_a_sweep(p: P) -> None:
    p.freeze()
    login = p.login("ada", idle_timeout=60)
    sid = login.session.session_id
    p.advance(59.999)
    assert p.validate(login.token, touch=False)
    assert p.counts().sessions == 1
    p.advance(0.001)
    for answer in (p.validate(login.token), p.validate_session("ada", sid), p.validate(login.token, touch=False)):
        assert not answer
        assert answer.session is None
        assert answer.ended is not None
        assert (answer.ended.reason, answer.ended.cause) == ("expired", "idle")
        assert answer.ended.at == login.session.expires_at
    assert p.counts().sessions == 0
    assert not p.heartbeat("ada", sid)
    assert p.heartbeats([login.session.ref]) == [login.session.ref]
    assert p.get("ada", sid) is None
    assert p.sessions("ada") == []
    assert p.list_sessions().items == []
    assert p.list_sessions().total == 0
    with pytest.raises(LoginRefused):
        p.rotate(login.token)
    assert not p.logout("ada", sid)


def test_a_clock_set_back_after_the_end_does_not_revive_a_session(p: P) -> None:
    now = p.freeze()
    login = p.login("ada", idle_timeout=60)
    p.advance(61)
    assert p.sweep().expired == 1
    p.set_now(now)
    assert not p.validate(login.token)
    assert not p.heartbeat("ada", login.session.session_id)
    assert p.sessions("ada") == []
    assert p.counts().sessions == 0


# -- unknown, malformed, ended ----------------------------------------------------------------------------------------


def test_an_unknown_session_is_not_live_and_has_no_end(p: P, bed: Bed) -> None:
    p.login("ada")
    before = bed.dump()
    for uid, sid in ABSENT:
        answer = p.validate_session(uid, sid)
        assert not answer
        assert (answer.session, answer.ended) == (None, None)
        assert not p.heartbeat(uid, sid)
        assert not p.logout(uid, sid)
        assert p.get(uid, sid) is None
    assert p.heartbeats(f"{uid}:{sid}" for uid, sid in ABSENT) == [f"{uid}:{sid}" for uid, sid in ABSENT]
    assert bed.dump() == before, "asking about what never was must create nothing"


@every_backend
def test_an_ended_session_shows_its_holder_the_end_and_the_record(bed: Bed) -> None:
    p = bed.connect(max_sessions=3, max_sessions_per_device=1)
    p.freeze()
    fields = {"name": "Ada", "app": "shop", "ip": "192.0.2.1", "user_agent": "curl/8.0"}
    logins = {
        "logout": p.login("ada", **fields, session_id="logout-1"),  # type: ignore[arg-type]
        "kicked": p.login("bob", **fields, session_id="kicked-1"),  # type: ignore[arg-type]
        "expired": p.login("eve", **fields, session_id="expired-1", idle_timeout=1),  # type: ignore[arg-type]
        "limit": p.login("dan", **fields, session_id="limited-1"),  # type: ignore[arg-type]
        "device": p.login("fay", **fields, session_id="device-1", device="phone"),  # type: ignore[arg-type]
    }
    p.advance(5)
    assert p.logout("ada", "logout-1")
    assert p.kick("bob", "kicked-1", by="staff", reason="stolen", message="Call us", ticket="T-1").kicked
    for number in range(3):
        newest = p.login("dan", session_id=f"newer-{number}00")
    assert [session.session_id for session in newest.replaced] == ["limited-1"]
    p.login("fay", session_id="device-2", device="phone")
    expected = {
        "logout": ("logout", "user", "ada", None, None, None, None),
        "kicked": ("kicked", "staff", "bob", "stolen", "T-1", "Call us", None),
        "expired": ("expired", "idle", None, None, None, None, None),
        "limit": ("replaced", "limit", "dan", None, None, None, "newer-200"),
        "device": ("replaced", "device_limit", "fay", None, None, None, "device-2"),
    }
    expected["kicked"] = ("kicked", "staff", "staff", "stolen", "T-1", "Call us", None)
    for sweeping in (False, True):  # the tombstone has the values of the last read before it
        for kind, login in logins.items():
            answer = p.validate(login.token)
            assert not answer
            ended = answer.ended
            assert ended is not None, kind
            said = (ended.reason, ended.cause, ended.by, ended.note, ended.ticket, ended.message, ended.replaced_by)
            assert said == expected[kind]
            for name in ("uid", "session_id", "name", "device", "app", "ip", "user_agent", "login_at", "last_seen"):
                assert getattr(ended, name) == getattr(login.session, name), (kind, name)
            assert ended.at == (login.session.expires_at if kind == "expired" else p.clock.now)
            assert ended.public.code == ended.reason
            assert (ended.public.message, ended.public.at) == (ended.message, ended.at)
            by_id = p.validate_session(login.session.uid, login.session.session_id)
            assert by_id.ended == ended
        if not sweeping:
            p.sweep()


def test_a_validation_has_a_readable_repr(p: P) -> None:
    login = p.login("ada")
    answer = p.validate(login.token)
    assert isinstance(answer, Validation)
    assert "uid='ada'" in repr(answer)
    assert repr(p.validate("x")) == "Validation(session=None, code='unknown', ended=None)"


# -- heartbeats, logout -----------------------------------------------------------------------------------------------


@every_backend
def test_heartbeats_return_the_refs_that_are_not_live(p: P) -> None:
    logins = [p.login(f"user:{number}") for number in range(8)]
    refs = [login.session.ref for login in logins]
    p.logout("user:2", logins[2].session.session_id)
    p.kick("user:5", by="staff", reason="test")
    asked = [*refs, "absent:no-such-session", refs[0], refs[5]]
    assert sorted(p.heartbeats(asked)) == sorted([refs[2], refs[5], refs[5], "absent:no-such-session"])
    assert p.heartbeats([]) == []
    assert p.heartbeats(iter(refs[:2])) == []


def test_heartbeats_in_more_than_one_batch_all_count(p: P) -> None:
    p.freeze()
    p.login_many({"uid": f"u{number % 50}", "session_id": f"session-{number}"} for number in range(1200))
    p.kick("u7", by="staff", reason="test")
    p.advance(1700)
    refs = [f"u{number % 50}:session-{number}" for number in range(1200)]
    assert set(p.heartbeats(refs)) == {ref for ref in refs if ref.startswith("u7:")}
    p.advance(1700)
    assert p.counts().sessions == 1200 - 24
    assert {session.last_seen for session in p.list_sessions(limit=1000)} == {p.clock.now - timedelta(seconds=1700)}


@every_backend
def test_a_logout_ends_one_session_once(p: P) -> None:
    phone, desk = p.login("ada"), p.login("ada")
    sid = phone.session.session_id
    assert p.logout("ada", sid) is True
    assert p.logout("ada", sid) is False
    assert not p.validate(phone.token)
    assert not p.heartbeat("ada", sid)
    assert p.validate(desk.token)
    assert [session.ref for session in p.sessions("ada")] == [desk.session.ref]
    assert p.counts().totals["logout"] == 1
    assert [event.kind for event in p.events()] == ["login", "login", "logout"]


@every_topology
def test_a_session_of_another_user_is_not_accepted(p: P) -> None:
    login = p.login("ada", session_id="shared-id")
    assert not p.validate_session("bob", "shared-id")
    assert not p.logout("bob", "shared-id")
    assert not p.heartbeat("bob", "shared-id")
    assert not p.kick("bob", "shared-id", by="staff", reason="test").kicked
    assert p.validate(login.token)


@on("valkey")
def test_an_address_that_cannot_be_read_is_none(p: P) -> None:
    login = p.login("ada", ip="192.0.2.7:4711")
    for ip in ("localhost", "300.1.1.1", "", "unknown"):
        assert p.validate(login.token, ip=ip)
        session = p.validate_session("ada", login.session.session_id, ip=ip).session
        assert session is not None
        assert (session.ip, session.last_ip) == ("192.0.2.7", "192.0.2.7")
    session = p.validate(login.token, ip="[2001:db8::9]:443").session
    assert session is not None
    assert session.last_ip == "2001:db8::9"


@on("valkey")
def test_an_invalid_address_is_refused_before_anything_is_sent(bed: Bed) -> None:
    p = bed.connect(unfit="refuse")
    login = p.login("ada")
    with pytest.raises(InvalidArgument, match=r"^ip must be an IPv4 or IPv6 address\.$"):
        p.validate(login.token, ip="localhost")
    with pytest.raises(InvalidArgument):
        p.validate_session("ada", login.session.session_id, ip="300.1.1.1")
