"""Staff change the timeouts of live sessions: record, deadline and TTL agree at once, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import InvalidArgument, Session
from presence_core.keyspace import digest
from presence_core.operations.maintenance import leader
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "shared device"}
DAY = 86_400
DAY_MS = DAY * 1000


def _session(p: P, session_id: str) -> Session:
    session = p.get("ada", session_id)
    assert session is not None
    return session


def _stored(p: P, raw: Any, session_id: str) -> tuple[int, int]:
    """The deadline in the list, and when the record's TTL ends; ms."""
    shard = p.context.shard("ada")
    key = shard.record("ada", session_id)
    return int(raw.zscore(shard.deadlines, f"ada:{session_id}")), raw.pexpiretime(key)


def _ms(session: Session) -> int:
    return round(session.expires_at.timestamp() * 1000)


@every_backend
def test_timeouts_are_changed_in_the_record_the_list_of_deadlines_and_the_ttl(p: P, raw: Any) -> None:
    now = p.freeze()
    login = p.login("ada", session_id="session-1", idle_timeout=600, absolute_timeout=7200)
    changes: list[tuple[dict[str, Any], int, int]] = [
        ({"idle_timeout": 60}, 60, 7200),
        ({"absolute_timeout": 40 * DAY}, 60, 40 * DAY),
        ({"idle_timeout": 50 * DAY}, 40 * DAY, 40 * DAY),
        ({"absolute_timeout": 30}, 30, 30),
        ({"idle_timeout": 900, "absolute_timeout": 9000}, 900, 9000),
    ]
    for given, idle, absolute in changes:
        [changed] = p.change_timeouts("ada", "session-1", **given, **BY)
        assert (changed.idle_timeout, changed.absolute_timeout) == (idle, absolute)
        assert changed == _session(p, "session-1") == p.validate(login.token, touch=False).session
        assert _stored(p, raw, "session-1") == (_ms(changed), now + absolute * 1000 + DAY_MS)
    p.advance(899)
    assert p.validate(login.token)
    p.advance(899)
    assert p.heartbeat("ada", "session-1")
    assert _stored(p, raw, "session-1")[0] == now + (2 * 899 + 900) * 1000
    assert p.repair().repaired == 0


@every_backend
def test_all_live_sessions_of_the_user_change_and_no_others(p: P) -> None:
    p.freeze()
    for number in range(3):
        p.login("ada", session_id=f"session-{number}", idle_timeout=100 * (number + 1))
        p.advance(1)
    p.login("bob", session_id="session-0")
    p.logout("ada", "session-0")
    changed = p.change_timeouts("ada", idle_timeout=1000, **BY)
    assert [session.session_id for session in changed] == ["session-2", "session-1"]
    assert {session.idle_timeout for session in changed} == {1000}
    assert [session.idle_timeout for session in p.sessions("bob")] == [1800]
    assert p.change_timeouts("ada", "session-0", idle_timeout=1000, **BY) == []
    assert p.change_timeouts("nobody", idle_timeout=1000, **BY) == []


@every_backend
def test_a_session_that_is_older_than_its_new_timeout_ends_as_expired_now(bed: Bed) -> None:
    p = bed.connect(heal=False)  # no call but the sweep ends it
    p.freeze()
    idle = p.login("ada", session_id="session-1", device="phone")
    p.advance(600)
    absolute = p.login("ada", session_id="session-2")
    p.advance(1000)
    assert p.heartbeat("ada", "session-2")
    p.advance(100)
    now, facets = p.clock.now, p.facets("device")
    changed = p.change_timeouts("ada", "session-1", idle_timeout=60, **BY)
    changed += p.change_timeouts("ada", "session-2", absolute_timeout=900, **BY)
    assert {session.expires_at for session in changed} == {now}
    assert not p.validate(idle.token)
    assert not p.validate(absolute.token)
    assert p.sessions("ada") == []
    assert not p.heartbeat("ada", "session-1")
    assert not p.is_online("ada")
    assert p.counts().sessions == 0
    assert facets == {"phone": 1}
    assert [event.kind for event in p.events()] == ["login", "login"]
    assert p.sweep().expired == 2
    assert [(end.session_id, end.reason, end.cause, end.at) for end in p.ended("ada").items] == [
        ("session-2", "expired", "absolute", now), ("session-1", "expired", "idle", now)
    ]  # fmt: skip
    assert p.change_timeouts("ada", absolute_timeout=9 * DAY, **BY) == [], "a session never comes back"


@on("valkey-sync", "cluster-async")
def test_while_a_worker_confirms_the_clock_such_a_session_has_ended_when_the_call_returns(p: P) -> None:
    now = p.freeze()
    p.login("ada", session_id="session-1")
    p.advance(100)
    p.internal.run(leader.vouch(p.context, now, 1, 1_000_000, True))
    p.change_timeouts("ada", idle_timeout=1, **BY)
    assert [event.kind for event in p.events()] == ["login", "expired"]
    assert p.sweep().expired == 0


def test_the_audit_has_who_what_and_why_also_where_nothing_was_live(p: P) -> None:
    p.login("ada", session_id="session-1")
    p.change_timeouts("ada", "session-1", idle_timeout=60, absolute_timeout=7200, **BY)
    p.change_timeouts("ada", absolute_timeout=600, **BY)
    p.change_timeouts("bob", idle_timeout=60, **BY)
    assert [(entry.action, entry.uid, entry.session_id, entry.outcome) for entry in p.audit().items] == [
        ("change_timeouts", "bob", None, "no session, idle timeout 60 s"),
        ("change_timeouts", "ada", None, "1 session, absolute timeout 600 s"),
        ("change_timeouts", "ada", "session-1", "1 session, idle timeout 60 s, absolute timeout 7200 s"),
    ]
    assert {(entry.by, entry.reason) for entry in p.audit().items} == {("Grace Hopper", "shared device")}


@every_backend
def test_only_shorten_refuses_what_would_be_longer_for_one_of_the_sessions_and_changes_nothing(p: P, bed: Bed) -> None:
    p.freeze()
    p.login("ada", session_id="session-1", idle_timeout=600, absolute_timeout=7200)
    p.login("ada", session_id="session-2", idle_timeout=60, absolute_timeout=3600)
    before = bed.dump()
    longer: list[dict[str, Any]] = [{"idle_timeout": 61}, {"absolute_timeout": 3601}]
    for given in longer:
        with pytest.raises(InvalidArgument) as refused:
            p.change_timeouts("ada", **given, only_shorten=True, **BY)
        assert (refused.value.field, refused.value.code) == (*given, "lengthens")
        assert bed.dump() == before
    changed = p.change_timeouts("ada", idle_timeout=60, absolute_timeout=3600, only_shorten=True, **BY)
    assert [(session.idle_timeout, session.absolute_timeout) for session in changed] == [(60, 3600)] * 2


def test_a_session_on_behalf_of_the_user_lives_no_longer_than_such_sessions_may(bed: Bed) -> None:
    p = bed.connect(on_behalf_timeout=600)
    p.freeze()
    p.login("ada", on_behalf_by="sam", reason="ticket 7", session_id="behalf-ada-1")
    p.login("ada", session_id="session-1")
    changed = {session.session_id: session for session in p.change_timeouts("ada", absolute_timeout=9 * DAY, **BY)}
    assert changed["behalf-ada-1"].absolute_timeout == 600
    assert changed["session-1"].absolute_timeout == 9 * DAY
    assert p.change_timeouts("ada", "behalf-ada-1", absolute_timeout=60, **BY)[0].absolute_timeout == 60


@every_topology
def test_a_session_on_behalf_of_a_user_stays_in_the_list_by_last_seen_as_long_as_it_lives(bed: Bed, raw: Any) -> None:
    p = bed.connect()
    now = p.freeze()
    p.login("ada", on_behalf_by="sam", reason="ticket 7", session_id="behalf-ada-1", absolute_timeout=60)
    p.change_timeouts("ada", "behalf-ada-1", idle_timeout=600, absolute_timeout=600, **BY)
    assert raw.pexpiretime(p.context.shard("ada").on_behalf) == now + 600_000
    p.advance(61)
    p.login("ada", on_behalf_by="sam", reason="ticket 8", session_id="behalf-ada-2")  # removes entries of ended ones
    newest_first = ["behalf-ada-2", "behalf-ada-1"]
    assert [session.session_id for session in p.list_sessions(order="last_seen")] == newest_first


@every_backend
def test_the_same_login_again_keeps_the_changed_timeouts(p: P) -> None:
    p.freeze()
    p.login("ada", session_id="session-1")
    p.change_timeouts("ada", idle_timeout=60, absolute_timeout=120, **BY)
    p.advance(50)
    again = p.login("ada", session_id="session-1", idle_timeout=900, absolute_timeout=9000)
    assert (again.session.idle_timeout, again.session.absolute_timeout) == (60, 120)
    assert p.login("ada").session.idle_timeout == 1800, "a later login has the timeouts of the settings"


@every_backend
def test_what_belongs_to_a_longer_session_stays_as_long(bed: Bed, raw: Any) -> None:
    p = bed.connect(max_sessions_per_device=1)
    first = p.login("ada", session_id="session-1", device="phone", absolute_timeout=7200)
    p.require_sign_in("ada", message="Please sign in.", **BY)
    p.change_timeouts("ada", absolute_timeout=30 * DAY, **BY)
    shard = p.context.shard("ada")
    _, devices, _, _ = shard.of_user("ada")
    assert raw.ttl(devices) > 30 * DAY
    assert raw.ttl(shard.note(digest("Please sign in."))) > 30 * DAY
    assert p.validate(first.token).message == "Please sign in."
    assert p.login("ada", device="phone").replaced


def test_without_a_ttl_of_records_there_is_none_after_a_change(bed: Bed, raw: Any) -> None:
    p = bed.connect(record_ttl=False)
    p.login("ada", session_id="session-1")
    p.change_timeouts("ada", absolute_timeout=60, **BY)
    assert _stored(p, raw, "session-1")[1] == -1
