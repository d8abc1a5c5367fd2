"""Attributes of a live session change without a new login."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from presence_core import InvalidArgument, SessionFilter
from presence_core.scripts.calls import call_of
from presence_core.scripts.search import RECOUNT_FACETS
from tests.conftest import Bed, every_backend, on
from tests.support.facade import P


@every_backend
def test_named_attributes_change_and_the_others_stay(bed: Bed) -> None:
    p = bed.connect()
    login = p.login("ada", name="Ada", attributes={"tenant": "navy", "cart": 1, "coupon": "X"})
    updated = p.update(login.token, attributes={"cart": 2, "coupon": None, "theme": "dark"})
    assert updated
    assert updated.session.attributes == {"tenant": "navy", "cart": 2, "theme": "dark"}
    assert p.get("ada", login.session.session_id) == updated.session
    assert (updated.session.name, updated.session.login_at) == ("Ada", login.session.login_at)
    by_id = p.update_session("ada", login.session.session_id, attributes={"theme": None})
    assert by_id.session
    assert by_id.session.attributes == {"tenant": "navy", "cart": 2}


def test_a_repeated_update_changes_nothing_more(p: P, bed: Bed) -> None:
    token = p.login("ada", attributes={"a": 1, "b": 2}).token
    p.update(token, attributes={"a": None, "c": 3})
    before = bed.dump()
    assert p.update(token, attributes={"a": None, "c": 3})
    assert bed.dump() == before


HARD_VALUES: list[Any] = [
    None, True, 0, -1.5, 12345678901234567890, 0.1, 1e300, "", "a,b", '"', "\\", '\\"', "}", '{"a":1}', "[",
    "é\u2028😀", "\x00", [], {}, [[]], [{}, {"x": [1, {"y": "]"}]}], {"": ""}, {'"': {"}": ["{", ","]}}, {"a": None},
]  # fmt: skip


def test_every_json_value_survives_updates_of_its_neighbours(p: P) -> None:
    names = [f'{value!r:.20}"\\,:' for value in HARD_VALUES]
    attributes = dict(zip(names, HARD_VALUES, strict=True))
    login = p.login("ada", attributes=attributes)
    for number in range(len(names) + 1):
        found = p.update(login.token, attributes={"n": number, '"': [number]}).session
        assert found is not None
        assert json.dumps(found.attributes) == json.dumps(attributes | {"n": number, '"': [number]}), "types and order"
    for name in names:
        p.update(login.token, attributes={name: None})
        del attributes[name]
        found = p.update(login.token, attributes={}).session
        assert found is not None
        assert found.attributes == attributes | {"n": len(HARD_VALUES), '"': [len(HARD_VALUES)]}


def test_a_session_may_lose_its_last_attribute_and_gain_a_first_one(p: P) -> None:
    token = p.login("ada", attributes={"a": 1}).token
    for attributes, expected in (({"a": None}, {}), ({"b": None}, {}), ({"b": [1]}, {"b": [1]})):
        found = p.update(token, attributes=attributes)
        assert found.session
        assert found.session.attributes == expected


def test_an_update_is_no_sign_of_life(p: P) -> None:
    p.freeze()
    login = p.login("ada")
    p.advance(60)
    updated = p.update(login.token, attributes={"a": 1}).session
    assert updated is not None
    assert (updated.last_seen, updated.expires_at) == (login.session.last_seen, login.session.expires_at)
    assert [event.kind for event in p.events()] == ["login"]


def _end(p: P, how: str, uid: str, session_id: str) -> None:
    if how == "logout":
        p.logout(uid, session_id)
    elif how == "kick":
        p.kick(uid, session_id, by="sam", reason="test", message="Bye.")
    elif how == "kick all":
        p.kick(uid, by="sam", reason="test", message="Bye.")
    elif how == "revoke":
        p.revoke_before(by="sam", reason="test")
    else:
        p.advance(1800)


@pytest.mark.parametrize("how", ["logout", "kick", "kick all", "revoke", "expired"])
def test_a_session_that_has_ended_is_neither_changed_nor_revived(p: P, bed: Bed, how: str) -> None:
    p.freeze()
    login = p.login("ada", attributes={"a": 1})
    uid, session_id = login.session.uid, login.session.session_id
    _end(p, how, uid, session_id)
    before = bed.dump()
    for answer in (
        p.update(login.token, attributes={"a": 2, "b": 1}),
        p.update_session(uid, session_id, attributes={"b": 1}),
    ):
        assert not answer
        assert answer.ended
        assert answer.ended.attributes == {"a": 1}
        assert answer.ended.public.code == {"logout": "logout", "expired": "expired"}.get(how, "kicked")
    assert bed.dump() == before
    assert p.counts().sessions == 0


def test_a_wrong_secret_changes_nothing_and_learns_nothing(p: P, bed: Bed) -> None:
    login, other = p.login("ada", attributes={"a": 1}), p.login("ada")
    uid, session_id, _ = login.token.split(".")
    forged = f"{uid}.{session_id}.{other.token.rpartition('.')[2]}"
    before = bed.dump()
    for token in (forged, "malformed", login.token + "A"):
        answer = p.update(token, attributes={"a": 2})
        assert (bool(answer), answer.session, answer.ended) == (False, None, None)
    p.update_session("ada", "no-such-session", attributes={"a": 2})
    assert bed.dump() == before


def test_the_attributes_of_a_session_have_a_limit_together(p: P, bed: Bed) -> None:
    login = p.login("ada", attributes={"big": "x" * 3000})
    before = bed.dump()
    with pytest.raises(InvalidArgument) as refused:
        p.update(login.token, attributes={"more": "é" * 600})
    assert str(refused.value) == (
        "attributes must be at most 4096 bytes of JSON, together with those that the session has."
    )
    assert bed.dump() == before
    room = 4096 - len('{"big":"' + "x" * 3000 + '","more":""}')
    assert p.update(login.token, attributes={"more": "x" * room})
    with pytest.raises(InvalidArgument):
        p.update(login.token, attributes={"more": "x" * (room + 1)})
    assert p.update(login.token, attributes={"big": None, "more": "x" * 4000})


def test_concurrent_updates_of_different_names_are_all_there(bed: Bed) -> None:
    p = bed.connect()
    login = p.login("ada", attributes={"kept": True})
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda n: p.update(login.token, attributes={f"n{n}": n}), range(60)))
    session = p.get("ada", login.session.session_id)
    assert session is not None
    assert session.attributes == {"kept": True} | {f"n{n}": n for n in range(60)}


# -- facets and searches ----------------------------------------------------------------------------------------------


@every_backend
def test_facets_and_searches_follow_at_once(bed: Bed) -> None:
    p = bed.connect(facets=("tenant", "plan"))
    login = p.login("ada", attributes={"tenant": "navy", "plan": "free", "note": 1})
    p.login("bob", attributes={"tenant": "navy"})
    p.update(login.token, attributes={"tenant": "army", "plan": None, "note": 2})
    assert (p.facets("tenant"), p.facets("plan")) == ({"navy": 1, "army": 1}, {})
    assert [session.uid for session in p.list_sessions(SessionFilter(attributes={"tenant": "army"}))] == ["ada"]
    assert p.count_sessions(SessionFilter(attributes={"tenant": "navy"})) == 1
    p.update(login.token, attributes={"note": 3})
    assert p.facets("tenant") == {"navy": 1, "army": 1}, "an attribute that is not named stays in its facet"
    p.logout("ada", login.session.session_id)
    assert p.facets("tenant") == {"navy": 1}
    assert p.repair().repaired == 0


def test_a_value_beyond_the_limit_of_facets_is_counted_as_other(p: P, bed: Bed) -> None:
    p = bed.connect(facets=("tenant",))
    login = p.login("ada", attributes={"tenant": "first"})
    facets = p.context.keys.shard("ada").facets
    bed.raw.hset(facets, mapping={f"x{number}": 1 for number in range(10_000)})
    p.update(login.token, attributes={"tenant": "second"})
    assert bed.raw.hget(facets, b'xtenant\0"(other)"') == b"1"
    assert bed.raw.hget(facets, b'xtenant\0"first"') is None


def test_an_update_during_a_rebuild_is_counted_once(bed: Bed) -> None:
    p = bed.connect(facets=("tenant",))
    # All of one user, and so on one shard.
    before = p.login("ada", attributes={"tenant": "a"})
    p.login("ada", attributes={"tenant": "b"})
    s = p.context.keys.shard("ada")
    p.internal.run(_begin_recount(s))
    later = p.login("ada", attributes={"tenant": "c"})  # is in both counts
    p.update(later.token, attributes={"tenant": "d"})
    p.update(before.token, attributes={"tenant": "e"})  # is not in the new count yet
    found = [bed.raw.hget(s.recount, b'xtenant\0"%b"' % value) for value in (b"c", b"d", b"e")]
    assert found == [None, b"1", None]
    p.reindex()
    assert p.facets("tenant") == {"e": 1, "b": 1, "d": 1}


def _begin_recount(s: Any) -> Any:
    return (yield [call_of(RECOUNT_FACETS, (s.sessions, s.closing, s.facets, s.recount, s.counted, s.meta), "begin")])


@on("valkey-sync", "redis7-sync")
def test_a_record_with_damaged_attributes_takes_new_ones(p: P, bed: Bed) -> None:
    login = p.login("ada")
    record = p.context.keys.shard("ada").record("ada", login.session.session_id)
    for damaged in (b"[1]", b'{"a', b'{"a":[1', b"x", b'{"a":"\\'):
        bed.raw.hset(record, "x", damaged)
        found = p.update(login.token, attributes={"b": 1})
        assert found.session
        assert found.session.attributes == {"b": 1}
