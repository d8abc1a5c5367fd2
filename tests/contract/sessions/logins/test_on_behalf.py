"""Staff log in on behalf of a user: marked, audited, short, and without any effect on the user."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import InvalidArgument, Login, LoginRefused, SessionFilter
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

STAFF: dict[str, Any] = {"on_behalf_by": "sam@support", "reason": "ticket 7: cannot pay"}


def _on_behalf(p: P, uid: str = "ada", **given: Any) -> Login:
    return p.login(uid, **STAFF, **given)


@every_backend
def test_a_session_on_behalf_of_a_user_is_marked_everywhere_and_audited(p: P) -> None:
    p.freeze()
    p.login("ada")
    p.advance(1)
    login = _on_behalf(p)
    session_id = login.session.session_id
    assert session_id.startswith("behalf-")
    for session in (
        login.session, p.validate(login.token).session, p.get("ada", session_id), p.rotate(login.token).session,
        *p.list_sessions(SessionFilter(on_behalf=True)).items, *p.sessions("ada")[:1],
    ):  # fmt: skip
        assert session is not None
        assert (session.session_id, session.on_behalf_by) == (session_id, "sam@support")
    assert [session.on_behalf_by for session in p.sessions("ada")][1:] == [None]
    [entry] = p.audit(uid="ada").items
    assert (entry.action, entry.by, entry.session_id) == ("login_on_behalf", "sam@support", session_id)
    assert entry.reason == STAFF["reason"]
    assert p.logout("ada", session_id)
    assert p.ended("ada").items[0].on_behalf_by == "sam@support"


@every_topology
def test_the_user_is_online_by_sessions_of_their_own_alone(p: P) -> None:
    p.freeze()
    other = _on_behalf(p)

    def is_online(is_swept: bool = True) -> bool:
        online = {p.is_online("ada"), bool(p.online_among(["ada"])), p.online_users() == ["ada"]}
        online |= {p.count_users() == 1}
        assert not is_swept or p.counts().users == p.count_users()
        assert len(online) == 1, "all readers agree"
        assert p.is_online("ada", count_on_behalf=True) == bool(p.sessions("ada"))
        return online.pop()

    assert not is_online()
    own = p.login("ada", name="Ada")
    assert is_online()
    p.advance(60)
    assert p.validate(other.token)
    p.advance(1)
    assert p.heartbeats([other.session.ref]) == []
    assert p.people("ada")[0].last_seen == own.session.last_seen, "staff's requests are not the user's"
    assert p.count_users(within=30) == 0
    p.logout("ada", own.session.session_id)
    assert not is_online()
    assert [session.session_id for session in p.sessions("ada")] == [other.session.session_id]
    again = p.login("ada", idle_timeout=100)
    assert is_online()
    p.advance(100)
    assert p.validate(other.token)
    assert not is_online(is_swept=False), "the own session is past its deadline"
    p.sweep()
    assert not is_online()
    assert p.validate(other.token)
    assert not p.validate(again.token)
    assert p.repair().repaired == 0
    assert not is_online()
    assert [person.online for person in p.people("ada")] == [False]
    assert p.is_online("ada", count_on_behalf=True), "asked for"
    p.logout("ada", other.session.session_id)
    assert not is_online()
    assert p.repair().repaired == 0


@pytest.mark.parametrize("on_limit", ["replace", "reject"])
def test_limits_neither_count_nor_end_it_and_it_ends_no_session(bed: Bed, on_limit: str) -> None:
    p = bed.connect(max_sessions=2, max_sessions_per_device=1, on_limit=on_limit)
    p.freeze()
    own = [p.login("ada", device="phone")]
    p.advance(1)
    own.append(p.login("ada", device="laptop"))
    staff = [_on_behalf(p, device="phone") for _ in range(3)]
    assert all(p.validate(login.token) for login in own + staff)
    if on_limit == "reject":
        with pytest.raises(LoginRefused):
            p.login("ada", device="tv")
    else:
        assert [session.session_id for session in p.login("ada", device="tv").replaced] == [own[0].session.session_id]
    assert all(p.validate(login.token) for login in staff)


def test_it_ends_after_its_own_timeout_at_the_latest(bed: Bed) -> None:
    p = bed.connect(on_behalf_timeout=600)
    p.freeze()
    login = _on_behalf(p, idle_timeout=86_400)
    assert (login.session.idle_timeout, login.session.absolute_timeout) == (600, 600)
    assert _on_behalf(p, absolute_timeout=60).session.absolute_timeout == 60
    for _ in range(2):
        p.advance(299)
        assert p.validate(login.token)
    p.advance(2)
    assert not p.validate(login.token)


def test_it_makes_no_device_known_and_ends_with_the_user_s_other_sessions(p: P, bed: Bed) -> None:
    p.login("ada", device_id="device-phone")
    login = _on_behalf(p)
    assert not login.session.new_device
    assert [event.kind for event in p.events()] == ["login", "login"]
    assert {session.session_id for session in p.kick("ada", by="sue", reason="all").kicked} >= {
        login.session.session_id,
    }  # fmt: skip
    assert not p.validate(login.token)


def test_it_never_passes_for_a_fresh_authentication_of_the_user(p: P) -> None:
    login = _on_behalf(p, methods=["pwd", "otp"])
    refused = p.validate(login.token, max_age=300)
    assert (bool(refused), refused.code) == (False, "authentication_too_old")
    with pytest.raises(InvalidArgument, match=r"^token must be of a session of the user"):
        p.reauthenticated(login.token, methods=["pwd"])
    with pytest.raises(InvalidArgument, match=r"^session_id must be of a session of the user"):
        p.reauthenticated_session("ada", login.session.session_id)
    assert p.validate(login.token)


def test_a_repeated_login_keeps_its_mark_and_is_audited_once(p: P) -> None:
    for _ in range(2):
        assert _on_behalf(p, session_id="behalf-of-ticket-7").session.on_behalf_by == "sam@support"
    assert len(p.audit(uid="ada").items) == 1


def test_a_repeat_by_another_member_of_staff_is_audited_under_their_name(p: P) -> None:
    first = _on_behalf(p, session_id="behalf-of-ticket-7")
    again = p.login("ada", session_id="behalf-of-ticket-7", on_behalf_by="eve@support", reason="curious")
    assert not p.validate(first.token)
    session = p.validate(again.token).session
    assert session is not None
    assert session.on_behalf_by == "eve@support"
    entries = [(entry.by, entry.reason) for entry in p.audit(uid="ada").items]
    assert entries == [("eve@support", "curious"), ("sam@support", STAFF["reason"])]


def test_a_user_has_at_most_a_hundred_so_that_a_kick_reaches_all_sessions(p: P) -> None:
    p.freeze()
    p.login_many([{"uid": "ada"} | STAFF for _ in range(99)])
    last = _on_behalf(p, session_id="behalf-the-last")
    with pytest.raises(LoginRefused, match=r"^The limit of 100 sessions on behalf of one user is reached") as refused:
        _on_behalf(p)
    assert refused.value.code == "limit"
    assert _on_behalf(p, session_id="behalf-the-last").session.login_at == last.session.login_at, "a repeat"
    assert p.login("ada").session.on_behalf_by is None
    assert _on_behalf(p, uid="bob").token
    p.logout("ada", "behalf-the-last")
    assert _on_behalf(p).token
    p.advance(3601)
    assert _on_behalf(p).token, "those past their deadline do not count, also before a sweep"
    assert len(p.kick("ada", by="sue", reason="all").kicked) == 1
    assert p.sessions("ada") == []


def test_a_user_with_a_hundred_of_them_is_offline_after_the_last_own_session(p: P) -> None:
    p.login_many([{"uid": "ada"} | STAFF for _ in range(100)])
    own = [p.login("ada").session.session_id for _ in range(2)]
    p.logout("ada", own[0])
    assert p.is_online("ada")
    p.logout("ada", own[1])
    assert not p.is_online("ada")
    assert p.counts().users == p.count_users() == 0


@on("valkey-sync")
def test_a_count_of_one_user_includes_all_sessions_of_both_kinds(p: P) -> None:
    p.login_many([{"uid": "ada"} for _ in range(1000)])
    p.login_many([{"uid": "ada"} | STAFF for _ in range(2)])
    assert p.count_sessions(SessionFilter(uid="ada")) == p.list_sessions(SessionFilter(uid="ada")).total == 1002


def test_a_blocked_user_s_account_is_not_opened_either(p: P) -> None:
    p.block("ada", by="sue", reason="test")
    with pytest.raises(LoginRefused):
        _on_behalf(p)
    assert [entry.action for entry in p.audit(uid="ada").items] == ["block"]


def test_an_erasure_leaves_neither_the_session_nor_the_user_s_name_in_the_audit(p: P, bed: Bed) -> None:
    _on_behalf(p, uid="ada-lovelace", name="Ada Lovelace")
    assert p.erase("ada-lovelace", by="dpo", reason="asked").complete
    for key, value in bed.dump().items():
        assert b"ada-lovelace" not in key + (value or b"")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"on_behalf_by": "sam"}, "reason must be text of 1 to 500 characters"),
        ({"reason": "why"}, "reason must come with on_behalf_by"),
        ({"on_behalf_by": "", "reason": "why"}, "on_behalf_by must be text of 1 to 256 bytes"),
        (STAFF | {"device_id": "device-phone"}, "device_id must not be given with on_behalf_by"),
        (STAFF | {"session_id": "session-1"}, "session_id must begin with behalf-"),
        ({"session_id": "behalf-1"}, "session_id must not begin with behalf- without on_behalf_by"),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused(p: P, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        p.login("ada", **given)


@every_topology
def test_no_new_sign_in_can_be_required_of_it(p: P) -> None:
    own, support = p.login("ada"), _on_behalf(p)
    session_id = support.session.session_id
    sentence = r"^session_id must not be of a session of staff on behalf of the user: kick it instead\.$"
    with pytest.raises(InvalidArgument, match=sentence):
        p.require_sign_in("ada", session_id, by="sue", reason="odd")
    result = p.require_sign_in("ada", by="sue", reason="odd")
    assert ([session.ref for session in result.sessions], result.skipped) == ([own.session.ref], 1)
    assert p.validate(support.token)
    assert not p.validate(own.token)
    nothing = p.require_sign_in("ada", by="sue", reason="odd", keep=[own.session.session_id])
    assert (bool(nothing), nothing.sessions, nothing.skipped) == (False, [], 1)
    assert p.require_sign_in("ada", by="sue", reason="odd", keep=[own.session.session_id, session_id]).skipped == 0
    assert [entry.action for entry in p.audit(uid="ada").items].count("require_sign_in") == 3


@every_topology
def test_a_search_finds_it_whether_the_user_is_online_or_not(p: P) -> None:
    support = _on_behalf(p, name="Ada Lovelace", aliases=["ada@example.org"])

    def found() -> list[list[str]]:
        filters: list[dict[str, Any]] = [{"text": "ada"}, {"text": "lovelace"}, {"name_prefix": "ada"}, {"uid": "ada"}]
        return [[session.ref for session in p.list_sessions(SessionFilter(**asked)).items] for asked in filters]

    assert found() == [[support.session.ref]] * 4, "the user is offline"
    own = p.login("ada", name="Ada Lovelace").session
    assert [set(refs) for refs in found()] == [{own.ref, support.session.ref}] * 4
    p.logout("ada", own.session_id)
    assert found() == [[support.session.ref]] * 4


@on("valkey")
def test_a_search_finds_it_when_its_user_has_been_away_for_too_long_to_be_kept(bed: Bed) -> None:
    p = bed.connect(keep_people=60)
    p.freeze()
    p.logout("ada", p.login("ada", name="Ada Lovelace").session.session_id)
    p.advance(50)
    support = _on_behalf(p, name="Ada Lovelace").session
    p.advance(11)
    p.sweep()
    assert [session.ref for session in p.list_sessions(SessionFilter(text="lovelace"))] == [support.ref]
    assert p.people("lovelace") == []
    p.logout("ada", support.session_id)
    p.repair()
    assert "words" not in bed.families()
