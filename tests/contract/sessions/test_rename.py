"""A live session or a person gets another name, aliases or client without a new login."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import InvalidArgument, SessionFilter
from presence_core.operations.sessions import login_calls
from tests.conftest import Bed, every_backend, on
from tests.support.facade import P

OLD: dict[str, Any] = {"name": "Ann Lee", "aliases": ["ann@example.org", "+44 20 7946 0018"]}
NEW: dict[str, Any] = {"name": "Bea Ode", "aliases": ["bea@example.org"]}
CLIENT: dict[str, Any] = {"device": "phone", "app": "shop", "app_version": "1.0"}
BY: dict[str, Any] = {"by": "sam", "reason": "test"}


def _found(p: P, text: str) -> list[str]:
    """The session ids that a search for this text finds; the people are those of their users."""
    sessions = list(p.list_sessions(SessionFilter(text=text)))
    assert p.count_sessions(SessionFilter(text=text)) == len(sessions)
    assert {person.uid for person in p.people(text) if person.online} == {session.uid for session in sessions}
    return sorted(session.session_id for session in sessions)


def _words(p: P, bed: Bed, uid: str) -> set[bytes]:
    entries = bed.raw.zrange(p.context.keys.shard(uid).words, 0, -1)
    return {entry for entry in entries if entry.endswith(b"\0" + uid.encode())}


def _says(call: Any, changes: dict[str, Any]) -> None:
    assert call
    for field, value in changes.items():
        assert getattr(call.session, field) == (tuple(value) if field == "aliases" else value), field


# -- one session ------------------------------------------------------------------------------------------------------


@every_backend
def test_a_renamed_session_is_found_by_its_new_name_alone(bed: Bed) -> None:
    p = bed.connect(facets=("plan",), max_sessions_per_device=5)
    p.freeze()
    first = p.login("ada", session_id="session-1", **OLD, **CLIENT, user_agent="curl/8", attributes={"plan": "pro"})
    p.advance(1)
    p.login("ada", session_id="session-2", **OLD, device="desk")
    p.login("eve", session_id="session-3", **OLD, **CLIENT)
    users, order = p.counts().users, [session.ref for session in p.list_sessions()]
    p.advance(1)
    changes = {**NEW, "device": "tablet", "app_version": "2.0", "attributes": {"plan": "free"}}
    _says(p.update_session("ada", "session-1", **changes), changes | {"app": "shop", "user_agent": "curl/8"})
    session = p.get("ada", "session-1")
    assert session == p.validate(first.token, touch=False).session, "its token stays"
    assert session is not None
    assert (session.login_at, session.last_seen) == (first.session.login_at, first.session.last_seen)
    for text in ("bea", "ode", "bea@example"):
        assert _found(p, text) == ["session-1"], text
    for text in ("ann", "lee", "ann@example", "+44 20 7946"):
        assert _found(p, text) == ["session-2", "session-3"], text
    assert p.facets("device") == {"tablet": 1, "desk": 1, "phone": 1}
    assert (p.facets("app"), p.facets("app_version")) == ({"shop": 2}, {"2.0": 1, "1.0": 1})
    assert p.facets("plan") == {"free": 1}
    assert [s.session_id for s in p.list_sessions(SessionFilter(device="tablet"))] == ["session-1"]
    assert p.counts().users == users
    assert [session.ref for session in p.list_sessions()] == order
    assert [event.kind for event in p.events()] == ["login"] * 3
    assert p.repair().repaired == 0
    p.logout("ada", "session-1")
    assert p.facets("device") == {"desk": 1, "phone": 1}
    assert p.repair().repaired == 0


@on("valkey", "redis7-sync")
def test_what_is_not_given_stays_and_none_removes(p: P, bed: Bed) -> None:
    p.login("ada", session_id="session-1", **OLD, **CLIENT, attributes={"plan": "pro"})
    for field in ("name", "device", "app", "app_version"):
        before = p.get("ada", "session-1")
        for value in ("x", None, (OLD | CLIENT)[field]):
            change: dict[str, Any] = {field: value}
            _says(p.update_session("ada", "session-1", **change), OLD | CLIENT | change)
        assert p.get("ada", "session-1") == before
    _says(p.update_session("ada", "session-1", aliases=None), CLIENT | {"name": "Ann Lee", "aliases": ()})
    assert _found(p, "ann") == ["session-1"]
    assert _found(p, "ann@example") == []
    _says(p.update_session("ada", "session-1", name=None, aliases=OLD["aliases"]), {"name": None})
    assert _found(p, "ann@example") == ["session-1"]
    assert _found(p, "lee") == []
    _says(p.update_session("ada", "session-1", device=None, app=None, app_version=None), dict.fromkeys(CLIENT))
    _says(p.update_session("ada", "session-1", attributes={}), {"attributes": {"plan": "pro"}})
    assert p.facets("device") == {}
    assert p.repair().repaired == 0
    before_dump = bed.dump()
    p.update_session("ada", "session-1", name=None, device=None, aliases=OLD["aliases"])
    assert bed.dump() == before_dump, "a repeated call changes nothing"


def test_values_that_do_not_fit_are_treated_as_those_of_a_login(p: P, bed: Bed) -> None:
    values: dict[str, Any] = {
        "name": "é" * 200,
        "aliases": ["ok", "x" * 300, 7],
        "device": "d" * 70,
        "app": "a\x00" * 40,
    }
    expected = p.login("eve", **values).session
    p.login("ada", session_id="session-1", **OLD, **CLIENT)
    found = p.update_session("ada", "session-1", **values).session
    assert found is not None
    for field in values:
        assert getattr(found, field) == getattr(expected, field), field
    strict = bed.connect(unfit="refuse")
    before = bed.dump()
    for field, value in values.items():
        with pytest.raises(InvalidArgument, match=field):
            strict.update_session("ada", "session-1", **{field: value})
        if field in NEW:
            with pytest.raises(InvalidArgument, match=field):
                strict.update_person("ada", **{field: value})
    assert bed.dump() == before


def test_what_is_no_text_is_refused_and_removes_nothing(p: P, bed: Bed) -> None:
    p.login("ada", session_id="session-1", **OLD, **CLIENT)
    before = bed.dump()
    for field in (*NEW, *CLIENT):
        for value in (42, b"x", True, 1.5):
            change: dict[str, Any] = {field: value}
            with pytest.raises(InvalidArgument, match=f"^{field} must be "):
                p.update_session("ada", "session-1", **change)
            if field in NEW:
                with pytest.raises(InvalidArgument, match=f"^{field} must be "):
                    p.update_person("ada", **change)
    assert bed.dump() == before


def test_a_call_without_a_change_is_refused(p: P) -> None:
    with pytest.raises(InvalidArgument, match=r"attributes or another field must be given\."):
        p.update_session("ada", "session-1")
    with pytest.raises(InvalidArgument, match=r"name or aliases must be given\."):
        p.update_person("ada")


@pytest.mark.parametrize("how", ["ended", "expired", "demanded"])
def test_a_session_that_has_ended_or_must_sign_in_again_keeps_its_name(p: P, bed: Bed, how: str) -> None:
    p.freeze()
    p.login("ada", session_id="session-1", **OLD, **CLIENT)
    if how == "ended":
        p.kick("ada", **BY)
    elif how == "expired":
        p.advance(1800)
    else:
        p.require_sign_in("ada", **BY)
    before = bed.dump()
    answer = p.update_session("ada", "session-1", **NEW, device="tablet")
    assert not answer
    kept = answer.ended or answer.refused
    assert kept
    assert kept.name == "Ann Lee"
    assert bed.dump() == before


def test_where_the_table_of_labels_is_full_the_session_has_the_text_itself(
    p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_calls, "MAX_LABELS", 1)
    p.login("ada", session_id="session-1", device="phone")
    for device, label in (("tablet", "watch"), ("desk", "tv"), ("phone", "phone")):
        for name in (device, label):
            _says(p.update_session("ada", "session-1", device=name), {"device": name})
            assert p.facets("device") == {name: 1}
    assert p.context.keys.shard("ada").labels
    assert bed.raw.hlen(p.context.keys.shard("ada").labels) == 1
    p.logout("ada", "session-1")
    assert p.facets("device") == {}
    assert p.repair().repaired == 0


def test_a_limit_per_device_counts_a_session_by_its_new_device(bed: Bed) -> None:
    p = bed.connect(max_sessions_per_device=1)
    p.login("ada", session_id="session-1", device="phone")
    p.login("ada", session_id="session-2", device="desk", device_id="device-of-ada")
    p.update_session("ada", "session-1", device="tablet")
    p.update_session("ada", "session-2", device="tv")
    assert [s.session_id for s in p.login("ada", session_id="session-4", device="phone").replaced] == []
    assert [s.session_id for s in p.login("ada", session_id="session-5", device="tablet").replaced] == ["session-1"]
    replaced = p.login("ada", session_id="session-6", device="tv", device_id="device-of-ada").replaced
    assert [s.session_id for s in replaced] == ["session-2"], "by its id, whatever its label"
    p.update_session("ada", "session-5", device=None)
    assert p.login("ada", session_id="session-7", device="tablet").replaced == []
    p.update_session("ada", "session-5", device="tv")
    assert p.repair().repaired == 0


# -- a person ---------------------------------------------------------------------------------------------------------


@every_backend
def test_a_person_is_renamed_in_all_live_sessions_and_in_what_is_kept(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    tokens = []
    for number in range(3):
        tokens.append(p.login("ada", session_id=f"session-{number}", **OLD, device="phone").token)
        p.advance(1)
    p.login("eve", session_id="session-of-eve", **OLD)
    p.logout("ada", "session-0")
    before, counts = p.sessions("ada"), p.counts()
    assert p.update_person("ada", **NEW) == 2
    after = p.sessions("ada")
    assert [(s.session_id, s.login_at, s.last_seen) for s in after] == [
        (s.session_id, s.login_at, s.last_seen) for s in before
    ]
    assert {(s.name, *s.aliases) for s in after} == {("Bea Ode", "bea@example.org")}
    assert [bool(p.validate(token, touch=False)) for token in tokens] == [False, True, True]
    assert p.counts() == counts
    for text in ("bea", "ode", "bea@example.org"):
        assert _found(p, text) == ["session-1", "session-2"], text
    for text in ("ann lee", "ann@example.org", "+44 20 7946"):
        assert _found(p, text) == ["session-of-eve"], text
    assert p.names_of(["ada"]) == {"ada": "Bea Ode"}
    assert [ended.name for ended in p.ended("ada")] == ["Ann Lee"], "history says what was"
    assert p.facets("device") == {"phone": 2}
    assert p.update_person("ada", **NEW) == 0, "nothing was left to change"
    assert p.repair().repaired == 0
    p.kick("ada", **BY)
    [person] = p.people("bea@")
    assert (person.uid, person.name, person.aliases, person.online) == ("ada", "Bea Ode", ("bea@example.org",), False)
    assert [person.uid for person in p.people("ann")] == ["eve"]
    assert p.repair().repaired == 0


@on("valkey", "redis7-sync")
def test_a_person_who_is_offline_is_renamed(p: P, bed: Bed) -> None:
    p.freeze()
    p.login("ada", session_id="session-1", **OLD)
    p.logout("ada", "session-1")
    key = p.context.keys.shard("ada").person("ada")
    bed.raw.expire(key, 1000)
    p.advance(1)
    assert p.update_person("ada", name="Bea Ode") == 0
    [person] = p.people("bea")
    assert (person.name, person.aliases) == ("Bea Ode", tuple(OLD["aliases"]))
    assert [person.uid for person in p.people("ann@")] == ["ada"]
    assert p.people("lee") == []
    assert p.names_of(["ada"]) == {"ada": "Bea Ode"}
    exported = p.export_person("ada")["person"]
    assert (exported["name"], exported["last_seen"] < exported["renamed_at"]) == ("Bea Ode", True)
    assert 0 < bed.raw.ttl(key) <= 1000, "it is kept no longer than before"
    p.update_person("ada", name=None, aliases=None)
    assert [person.name for person in p.people("ada")] == [None]
    assert p.people("bea") == p.people("ann") == []
    assert p.repair().repaired == 0
    assert p.erase("ada", **BY).complete
    assert not bed.raw.exists(key)


def test_a_user_who_is_not_known_is_not_written(p: P, bed: Bed) -> None:
    p.counts()
    before = bed.dump()
    assert p.update_person("nobody", **NEW) == 0
    assert bed.dump() == before


@on("valkey", "redis7-sync")
def test_the_end_of_a_session_past_its_deadline_keeps_the_new_name(p: P) -> None:
    p.freeze()
    p.login("ada", session_id="session-1", idle_timeout=60, **OLD)
    p.advance(60)
    assert p.update_person("ada", **NEW) == 0, "it is not live any more"
    p.sweep()
    [person] = p.people("bea")
    assert (person.name, person.aliases) == ("Bea Ode", ("bea@example.org",))
    assert p.people("ann") == []
    assert p.repair().repaired == 0


def test_a_later_login_with_another_name_has_that_name_and_leaves_it(p: P) -> None:
    p.freeze()
    p.login("ada", session_id="session-1", **OLD)
    p.update_person("ada", **NEW)
    p.advance(1)
    p.login("ada", session_id="session-2", name="Cat Fox")
    assert _found(p, "cat") == ["session-2"]
    p.logout("ada", "session-1")
    p.logout("ada", "session-2")
    assert [(person.name, person.aliases) for person in p.people("cat")] == [("Cat Fox", ("bea@example.org",))]


def test_no_entry_of_a_former_name_is_left_in_the_index(p: P, bed: Bed) -> None:
    p.login("ada", session_id="session-1", **OLD)
    before = _words(p, bed, "ada")
    p.update_session("ada", "session-1", name="Bea Ode", aliases=["bea@example.net"])
    assert not {entry for entry in _words(p, bed, "ada") & before if entry[:1] in b"nat"}
    p.update_person("ada", **OLD)
    assert _words(p, bed, "ada") == before
    p.update_session("ada", "session-1", name="Amina Wekesa")
    p.update_session("ada", "session-1", aliases=["amina.wekesa12@example.org"])  # its start is that of the name
    p.update_session("ada", "session-1", **OLD)
    p.update_person("ada", **OLD)
    assert _words(p, bed, "ada") == before


def test_a_thousand_sessions_are_renamed_in_one_step(p: P, bed: Bed) -> None:
    p.login_many({"uid": "ada", "session_id": f"session-{number}", **OLD} for number in range(1000))
    p.login("ada", on_behalf_by="sam", reason="test")
    assert p.update_person("ada", name="Bea Ode") == 1001
    assert p.count_sessions(SessionFilter(text="bea")) == 1001
    assert p.people("lee") == []
