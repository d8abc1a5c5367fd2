"""The names of given users, online or offline."""

from __future__ import annotations

from presence_core import Settings
from presence_core.operations.search.people import MAX_SESSIONS
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.monitor import Monitor


@every_backend
def test_names_of_users_are_those_of_their_newest_session_or_their_last_ones(p: P) -> None:
    p.freeze()
    p.login("ada", name="Ada King")
    p.advance(1)
    p.login("ada", name="Ada Lovelace")
    p.advance(1)
    p.login("ada")  # without a name
    p.logout("bob", p.login("bob", name="Bob Ångström").session.session_id)
    p.login("a:b", name="Cleo")
    p.login("no-name")
    assert p.names_of(["bob", "ada", "a:b", "no-name", "no-one", "ada"]) == {
        "ada": "Ada Lovelace",
        "bob": "Bob Ångström",
        "a:b": "Cleo",
    }
    assert p.names_of(()) == p.names_of(["no-one"]) == {}


@on("valkey-sync", "cluster-async")
def test_a_kicked_session_gives_no_name_but_its_person_keeps_it(p: P) -> None:
    p.freeze()
    first = p.login("ada", name="Ada King").session
    p.advance(1)
    second = p.login("ada", name="Ada Lovelace").session
    p.kick("ada", second.session_id, by="staff", reason="test")
    assert p.names_of(["ada"]) == {"ada": "Ada King"}
    p.kick("ada", first.session_id, by="staff", reason="test")
    assert p.names_of(["ada"]) == {"ada": "Ada King"}


@on("valkey")
def test_the_name_of_a_user_who_returned_without_one_is_the_last_name(p: P) -> None:
    p.logout("ada", p.login("ada", name="Ada King").session.session_id)
    p.login("ada")
    assert p.names_of(["ada"]) == {"ada": "Ada King"}


@every_topology
def test_an_erased_person_has_no_name(p: P) -> None:
    p.login("ada", name="Ada King")
    p.logout("bob", p.login("bob", name="Bob Stone").session.session_id)
    p.logout("ada", p.sessions("ada")[0].session_id)
    assert set(p.names_of(["ada", "bob"])) == {"ada", "bob"}
    assert p.erase("ada", by="dpo", reason="asked").complete
    assert p.names_of(["ada", "bob"]) == {"bob": "Bob Stone"}


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_names_of_a_thousand_users_take_three_round_trips_that_write_nothing(bed: Bed) -> None:
    p = bed.connect(shards=4, max_sessions=Settings().max_sessions)
    p.login_many([{"uid": f"u{number}", "name": f"Name {number}"} for number in range(600)])
    p.login_many([{"uid": "many"} for _ in range(MAX_SESSIONS + 5)])
    before = bed.dump()
    with Monitor(bed.raw) as monitor:
        names = p.names_of([*(f"u{number}" for number in range(600)), "many", *(f"no{n}" for n in range(399))])
    assert names == {f"u{number}": f"Name {number}" for number in range(600)}
    sent = [line.words[0] for line in monitor.lines]
    assert sent == [b"HGET", b"SMEMBERS"] * 1_000 + [b"ZMSCORE"] * 601 + [b"HGET"] * (600 + MAX_SESSIONS)
    assert bed.dump() == before
