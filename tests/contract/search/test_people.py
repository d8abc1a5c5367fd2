"""People: online or gone not too long ago, found by uid, name or alias."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import InvalidArgument, Person
from tests.conftest import Bed, on
from tests.facade import P


def _names(people: list[Person]) -> list[tuple[str, bool]]:
    return [(one.uid, one.online) for one in people]


def test_a_person_is_found_online_and_for_a_week_after(p: P) -> None:
    p.freeze()
    login = p.login("u7", name="Emeka Okafor", aliases=["emeka@example.org"])
    [online] = p.people("oka")
    assert online == Person("u7", "Emeka Okafor", ("emeka@example.org",), True, login.session.last_seen, 1)
    p.advance(60)
    p.logout("u7", login.session.session_id)
    for text in ("u7", "OKAFOR", "Eméka o", "emeka@ex"):
        [offline] = p.people(text)
        assert offline == Person("u7", "Emeka Okafor", ("emeka@example.org",), False, login.session.last_seen, 0)
    assert p.people("kafor") == []
    p.advance(6 * 86400)
    p.sweep()
    assert _names(p.people("emeka")) == [("u7", False)]
    p.advance(2 * 86400)
    p.sweep()
    assert p.people("emeka") == []
    assert p.people("u7") == []


@pytest.mark.parametrize("end", ["kick one", "kick all", "expire", "replace"])
def test_however_the_last_session_ends_its_person_is_remembered(bed: Bed, end: str) -> None:
    p = bed.connect(max_sessions=1)
    p.freeze()
    session = p.login("u7", name="Zoë Ångström", aliases=["+49 170 1234567"]).session
    if end == "kick one":
        p.kick("u7", session.session_id, by="staff", reason="test")
    elif end == "kick all":
        p.kick("u7", by="staff", reason="test")
    elif end == "expire":
        p.advance(3600)
        p.sweep()
    else:
        p.login("u7", name="Zoe Angstrom")
        p.kick("u7", by="staff", reason="test")
    assert _names(p.people("angstrom")) == _names(p.people("zoe a")) == [("u7", False)]
    if end != "replace":
        assert _names(p.people("+49 170")) == [("u7", False)]


def test_the_very_uid_comes_first_then_who_is_online_then_the_latest_seen(p: P) -> None:
    p.freeze()
    for number, uid in enumerate(["max9", "max8", "max7", "max"]):
        p.advance(1)
        p.login(uid, name=f"Max Number {number}")
    p.kick("max8", by="staff", reason="test")
    p.kick("max", by="staff", reason="test")
    assert _names(p.people("max")) == [("max", False), ("max7", True), ("max9", True), ("max8", False)]
    assert _names(p.people("max", limit=2)) == [("max", False), ("max7", True)]


def test_an_old_name_of_somebody_who_is_online_under_another_finds_nobody(p: P) -> None:
    session = p.login("u1", name="Anna Alt").session
    p.login("u1", session_id=session.session_id, name="Anna Neu")
    assert p.people("alt") == []
    assert _names(p.people("neu")) == [("u1", True)]
    p.login("u1", name="Anna Drei")
    assert _names(p.people("drei")) == _names(p.people("neu")) == [("u1", True)]


@on("valkey-sync", "cluster-sync")
def test_hostile_uids_are_found_and_only_they(p: P) -> None:
    uids = ["a:b", "{x}", "*", "ü😀", "a b", "A:B"]
    for uid in uids:
        p.login(uid)
    for uid in uids:
        found = [one.uid for one in p.people(uid)]
        assert found[0] == uid
        assert len(found) == (2 if uid.lower() == "a:b" else 1)


@on("valkey-sync")
def test_a_dense_beginning_answers_as_many_as_asked(p: P) -> None:
    p.login_many({"uid": f"m{number}", "name": "Maria Many"} for number in range(700))
    assert len(p.people("mar", limit=100)) == 100
    assert _names(p.people("m13")) == [("m13", True), *[(one.uid, True) for one in p.people("m13")[1:]]]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"text": ""}, "text must be text of 1 to 256 bytes."),
        ({"text": "  "}, "text must be text of 1 to 256 bytes, not only white space."),
        ({"text": None}, "text must be text of 1 to 256 bytes."),
        ({"text": "\u0301"}, "text must hold more than accents."),
        ({"text": "a", "limit": 0}, "limit must be a whole number from 1 to 100."),
    ],
)
@on("valkey-sync", "valkey-async")
def test_a_question_that_breaks_a_limit_gets_one_sentence(p: P, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        p.people(**given)
    assert str(caught.value) == sentence
