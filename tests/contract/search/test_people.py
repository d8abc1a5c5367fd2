"""People: online, or offline for a limited time; found by uid, name or alias."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import InvalidArgument, Person
from presence_core.operations.maintenance import sweep as upkeep
from presence_core.scripts.maintenance import REMOVE_OUTDATED
from tests.conftest import Bed, every_backend, every_topology, on
from tests.contract.bulk_kick.test_jobs import Held
from tests.support.facade import P


def _names(people: list[Person]) -> list[tuple[str, bool]]:
    return [(person.uid, person.online) for person in people]


@on("valkey")
def test_a_user_who_returns_during_the_removal_of_old_people_is_kept(bed: Bed) -> None:
    p = bed.connect(keep_people=60)
    p.freeze()
    p.logout("ada", p.login("ada").session.session_id)
    p.advance(61)
    sweep = Held(p, upkeep.sweep(p.context, None), REMOVE_OUTDATED)
    p.logout("ada", p.login("ada").session.session_id)
    sweep.wake()
    assert _names(p.people("ada")) == [("ada", False)]


@on("valkey")
def test_a_person_with_the_name_of_one_session_and_the_aliases_of_another_leaves_no_entry(bed: Bed) -> None:
    p = bed.connect(keep_people=60)
    p.freeze()
    named = p.login("ada", name="Amina Wekesa").session
    other = p.login("ada", aliases=["amina.wekesa@example.org"]).session
    p.logout("ada", named.session_id)
    p.logout("ada", other.session_id)
    [person] = p.people("wekesa")
    assert (person.name, person.aliases) == ("Amina Wekesa", ("amina.wekesa@example.org",))
    assert bed.families()["words"]
    p.advance(61)
    p.sweep()
    assert "words" not in bed.families()


@every_backend
def test_a_person_is_found_while_online_and_for_a_week_after(p: P) -> None:
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
def test_a_person_is_remembered_however_the_last_session_ends(bed: Bed, end: str) -> None:
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


@every_backend
def test_between_the_deadline_and_the_sweep_a_person_is_found_as_offline(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    p.login("u1", name="Emil Alt", aliases=["emil@example.org"], idle_timeout=30)
    p.login("u2", name="Emeline", idle_timeout=3600)
    p.login("u7", name="Emeka Alt", idle_timeout=20, aliases=["emeka@example.org"])
    p.advance(1)
    last = p.login("u7", name="Emeka Okafor", idle_timeout=30).session
    p.advance(40)
    asked = ("u7", "emeka", "OKAFOR", "emeka@ex", "eme", "em", "alt", "nobody")
    before = bed.dump()
    found = {text: p.people(text) for text in asked}
    assert bed.dump() == before, "a read changes nothing"
    assert found["okafor".upper()] == found["u7"] == [
        Person("u7", "Emeka Okafor", ("emeka@example.org",), False, last.last_seen, 0)
    ]  # fmt: skip
    assert _names(found["em"]) == [("u2", True), ("u7", False), ("u1", False)]
    assert _names(found["alt"]) == [("u1", False)]
    assert not p.is_online("u7")
    assert p.counts().users == 1
    assert p.sweep().expired == 3
    assert {text: p.people(text) for text in asked} == found
    p.login("u7")
    assert _names(p.people("u7")) == [("u7", True)]


def test_before_the_sweep_an_offline_person_keeps_a_name_that_only_an_earlier_session_gave(p: P) -> None:
    p.freeze()
    p.logout("u7", p.login("u7", name="Emeka", aliases=["e@example.org"]).session.session_id)
    p.login("u7", idle_timeout=10, aliases=["emeka@example.org"])
    p.login("u7", on_behalf_by="sam", reason="test")
    p.advance(10)
    [found] = p.people("emeka")
    assert (found.name, found.aliases, found.online) == ("Emeka", ("emeka@example.org",), False)
    p.sweep()
    assert p.people("emeka") == [found]


@every_topology
def test_the_exact_uid_comes_first_then_people_online_then_the_latest_seen(p: P) -> None:
    p.freeze()
    for number, uid in enumerate(["max9", "max8", "max7", "max"]):
        p.advance(1)
        p.login(uid, name=f"Max Number {number}")
    p.kick("max8", by="staff", reason="test")
    p.kick("max", by="staff", reason="test")
    assert _names(p.people("max")) == [("max", False), ("max7", True), ("max9", True), ("max8", False)]
    assert _names(p.people("max", limit=2)) == [("max", False), ("max7", True)]


def test_an_old_name_of_an_online_person_with_a_new_name_finds_no_one(p: P) -> None:
    session = p.login("u1", name="Anna Alt").session
    p.login("u1", session_id=session.session_id, name="Anna Neu")
    assert p.people("alt") == []
    assert _names(p.people("neu")) == [("u1", True)]
    p.login("u1", name="Anna Drei")
    assert _names(p.people("drei")) == _names(p.people("neu")) == [("u1", True)]


@on("valkey-sync", "cluster-sync")
def test_hostile_uids_are_found_exactly(p: P) -> None:
    uids = ["a:b", "{x}", "*", "ü😀", "a b", "A:B"]
    for uid in uids:
        p.login(uid)
    for uid in uids:
        found = [person.uid for person in p.people(uid)]
        assert found[0] == uid
        assert len(found) == (3 if uid.lower() in ("a:b", "a b") else 1), "separators do not count"


@on("valkey-sync")
def test_a_frequent_prefix_returns_as_many_people_as_requested(p: P) -> None:
    p.login_many({"uid": f"m{number}", "name": "Maria Many"} for number in range(700))
    assert len(p.people("mar", limit=100)) == 100
    assert _names(p.people("m13")) == [("m13", True), *[(person.uid, True) for person in p.people("m13")[1:]]]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"text": ""}, "text must be text of 1 to 256 bytes."),
        ({"text": "  "}, "text must be text of 1 to 256 bytes, not only white space."),
        ({"text": None}, "text must be text of 1 to 256 bytes."),
        ({"text": "\u0301"}, "text must have a letter or digit."),
        ({"text": "a", "limit": 0}, "limit must be a whole number from 1 to 100."),
    ],
)
@on("valkey-sync", "valkey-async")
def test_an_argument_beyond_a_limit_is_reported_in_one_sentence(p: P, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        p.people(**given)
    assert str(caught.value) == sentence
