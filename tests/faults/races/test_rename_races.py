"""Names and clients change while sessions begin, end and are counted, or while others change them, too."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from presence_core import SessionFilter, Unavailable
from presence_core.operations.search import update
from presence_core.operations.sessions import end
from presence_core.scripts.calls import Call, Op
from tests.conftest import Bed, on
from tests.faults.races.test_index_races import relay, until
from tests.support.facade import P

OLD: dict[str, Any] = {"name": "Ann Lee", "aliases": ["ann@example.org"]}
NEW: dict[str, Any] = {"name": "Bea Ode", "aliases": ["bea@example.org"]}
CLIENT: dict[str, Any] = {"device": "phone", "app": "shop", "app_version": "1.0"}
BY: dict[str, Any] = {"by": "sam", "reason": "test"}


def _finish(p: P, op: Op[Any], calls: list[Call]) -> Any:
    """Run the rest of an operation; returns its result."""
    try:
        while True:
            calls = op.send(p.internal.run(relay(calls)))
    except StopIteration as done:
        return done.value


def _meanwhile(p: P, op: Op[Any]) -> None:
    """Run an operation while another client changes the app before each of its steps."""
    calls = next(op)
    for number in itertools.count():
        p.update_session("ada", "session-1", app=f"app {number}")
        calls = op.send(p.internal.run(relay(calls)))


def _found(p: P, text: str) -> list[str]:
    return sorted(session.session_id for session in p.list_sessions(SessionFilter(text=text)))


def test_changes_of_the_client_at_the_same_time_are_all_there(bed: Bed) -> None:
    p = bed.connect()
    p.login("ada", session_id="session-1", **CLIENT)
    op = update.update_session(p.context, "ada", "session-1", {"device": "tablet"})
    calls = until(p, op, "sessions/update_session")
    p.update_session("ada", "session-1", app_version="2.0")
    assert _finish(p, op, calls).session.app_version == "2.0"
    [session] = p.sessions("ada")
    assert (session.device, session.app, session.app_version) == ("tablet", "shop", "2.0")
    assert p.facets("device") == {"tablet": 1}
    with pytest.raises(Unavailable, match="Nothing was changed"):
        _meanwhile(p, update.update_session(p.context, "ada", "session-1", {"device": "desk"}))
    assert p.facets("device") == {"tablet": 1}


def test_a_rename_while_facets_are_counted_again_is_counted_once(bed: Bed) -> None:
    p = bed.connect()
    for number in range(3):
        p.login("ada", session_id=f"session-{number}", device="phone", **OLD)
    op = update.update_session(p.context, "ada", "session-1", {"device": "desk", **NEW})
    calls = until(p, op, "sessions/update_session")
    s = p.context.keys.shard("ada")
    bed.raw.hset(s.meta, "recount", 1)
    bed.raw.hset(s.recount, "-", "pad")
    bed.raw.sadd(s.counted, "ada:session-1")
    bed.raw.hset(s.recount, b"c" + bed.raw.hget(s.record("ada", "session-1"), "c")[32:36], 1)
    p.internal.run(relay(calls))
    assert [value for name, value in bed.raw.hgetall(s.recount).items() if name[:1] == b"c"] == [b"1"]
    p.reindex()
    assert p.facets("device") == {"phone": 2, "desk": 1}


def test_a_session_that_ends_while_the_person_is_renamed_keeps_its_name_and_the_person_does_not(p: P) -> None:
    p.freeze()
    p.login("ada", session_id="session-1", **OLD)
    kick = end.kick(p.context, "ada", None, **BY)
    members: list[Any] = [[] for _ in next(kick)]  # as if the session had begun since
    rename = update.update_person(p.context, "ada", NEW)
    calls = rename.send(p.internal.run(relay(next(rename))))
    tombstones = kick.send(p.internal.run(relay(kick.send(members))))  # ended, but without a tombstone yet
    p.advance(1)
    assert _finish(p, rename, calls) == 0
    p.internal.run(relay(tombstones))
    assert [ended.name for ended in p.ended("ada")] == ["Ann Lee"]
    assert [(person.uid, person.name) for person in p.people("bea")] == [("ada", "Bea Ode")]
    assert p.people("ann") == []
    p.repair()
    assert p.repair().repaired == 0
    assert [(person.uid, person.name) for person in p.people("bea")] == [("ada", "Bea Ode")]


def test_only_what_was_given_is_kept_from_a_tombstone_that_comes_later(p: P) -> None:
    p.freeze()
    p.login("ada", session_id="session-1", **OLD)
    kick = end.kick(p.context, "ada", None, **BY)
    members: list[Any] = [[] for _ in next(kick)]
    tombstones = kick.send(p.internal.run(relay(kick.send(members))))
    p.update_person("ada", name="Bea Ode")
    p.internal.run(relay(tombstones))
    [person] = p.people("bea")
    assert (person.name, person.aliases) == ("Bea Ode", tuple(OLD["aliases"]))


def test_sessions_that_begin_between_the_steps_are_renamed_too(p: P) -> None:
    p.login("ada", session_id="session-1", **OLD)
    rename = update.update_person(p.context, "ada", NEW)
    members = p.internal.run(relay(next(rename)))
    p.login("ada", session_id="session-2", **OLD)
    calls = rename.send(members)
    assert _finish(p, rename, calls) == 2
    assert _found(p, "bea") == ["session-1", "session-2"]
    assert _found(p, "ann") == []
    assert p.repair().repaired == 0


def test_of_two_renames_at_the_same_time_one_is_last_for_all_sessions(p: P) -> None:
    p.login("ada", session_id="session-1", **OLD)
    first = update.update_person(p.context, "ada", NEW)
    members = p.internal.run(relay(next(first)))
    p.login("ada", session_id="session-2", **OLD)
    calls = first.send(p.internal.run(relay(first.send(members))))  # session-2 is to follow
    p.update_person("ada", name="Cat Fox", aliases=["cat@example.org"])
    _finish(p, first, calls)
    assert _found(p, "cat") == ["session-1", "session-2"]
    assert p.people("bea") == []
    assert p.repair().repaired == 0


@on("valkey", "cluster-sync")
def test_logins_ends_and_renames_at_the_same_time_leave_exact_indexes(bed: Bed) -> None:
    p = bed.connect()
    names = [f"Name{letter} Ode" for letter in "abcdef"]

    def act(number: int) -> None:
        session_id = f"session-{number % 7}-{number}"
        p.login("ada", session_id=session_id, name=names[number % 6], aliases=[f"{number}@example.org"])
        p.update_person("ada", name=names[(number + 1) % 6])
        p.update_session("ada", session_id, device=f"d{number % 3}", aliases=[f"new{number}@example.org"])
        if number % 2:
            p.logout("ada", session_id)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(act, range(40)))
    p.update_person("ada", name="Last Name")
    assert len(_found(p, "last name")) == 20
    p.sweep()
    p.repair()  # entries that were in use when the last change of their session looked
    assert p.repair().repaired == 0
    assert sum(p.facets("device").values()) == 20
    for name in names:
        assert _found(p, name) == []
