"""The people with the most sessions, devices, networks and countries, found by the worker in slices."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from presence_core import TopCount, Worker
from presence_core.operations.maintenance import top_people
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P
from tests.support.place_file import city, write_place_file


def rank(p: P) -> int:
    """Run a whole pass; the number of its steps."""
    ranking, steps = top_people.Ranking(p.context), 1
    while p.internal.run(ranking.step()):
        steps += 1
    return steps


def found(p: P, count: TopCount) -> list[tuple[str, int]]:
    top = p.top_people(count)
    assert top is not None
    return [(person.uid, person.count) for person in top.people]


@every_topology
def test_the_lists_are_those_of_a_plain_count(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, places = random.Random(5), {f"10.{n}.0.0/16": city("FR" if n % 2 else "JP", "X", (1, 1)) for n in range(6)}
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb", places)))
    p.freeze()
    monkeypatch.setattr(top_people, "MOST", 8)
    monkeypatch.setattr(top_people, "SLICE", 7)
    assert p.top_people() is None
    rows: list[dict[str, Any]] = [
        {
            "uid": f"u{rng.randrange(60) ** 2 // 60}",
            "device": rng.choice(["tv", "phone", "pc"]),
            "user_agent": rng.choice(["curl/8", "x/1"]),
            "ip": f"10.{rng.randrange(6)}.0.{n % 9}" if n % 3 else f"2001:db8:{rng.randrange(3)}::{n % 5}",
        }
        for n in range(300)
    ]
    p.login_many(rows)
    p.login("u59", on_behalf_by="dana", reason="test")
    values: dict[TopCount, dict[str, list[Any]]] = {kind: defaultdict(list) for kind in top_people.KINDS}
    for session in p.iter_sessions():
        if session.on_behalf_by is None:
            ip = session.ip or ""
            values["sessions"][session.uid].append(session.ref)
            values["devices"][session.uid].append((session.device, session.user_agent))
            values["networks"][session.uid].append(ip.rpartition(".")[0] or ip.split("::")[0])
            values["countries"][session.uid] += [session.place.country] if session.place else []
    assert rank(p) > 5
    for kind in top_people.KINDS:
        counted = {uid: len(set(known)) for uid, known in values[kind].items()}
        expected = sorted((count for count in counted.values() if count > 1), reverse=True)[:8]
        ours = found(p, kind)
        assert [count for _, count in ours] == expected, kind
        assert all(counted[uid] == count for uid, count in ours), kind


@on("valkey")
def test_sessions_past_their_deadline_do_not_count_and_an_erased_person_is_in_no_list(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    for uid, number in (("ada", 3), ("bob", 2), ("eve", 1)):
        p.login_many({"uid": uid} for _ in range(number))
    p.login("bob", idle_timeout=5)
    p.advance(6)
    rank(p)
    assert found(p, "sessions") == [("ada", 3), ("bob", 2)]
    assert p.top_people("sessions").at == p.clock.now  # type: ignore[union-attr]
    ranking = top_people.Ranking(p.context)
    ranking._take("ada", [3, 1, 1, 1])  # as a pass that had read her before
    p.erase("ada", by="dpo", reason="asked")
    assert p.top_people() is None
    while p.internal.run(ranking.step()):
        pass
    assert found(p, "sessions") == [("bob", 2)]


@on("valkey-sync")
def test_the_worker_ranks_people_and_begins_again_a_minute_later(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    p.login_many({"uid": "ada"} for _ in range(3))
    worker = Worker(p)
    worker._turn()
    assert worker.last_error is None
    assert found(p, "sessions") == [("ada", 3)]
    p.login("ada")
    for duty in worker._duties:
        duty.due = 0.0
    worker._turn()
    assert found(p, "sessions") == [("ada", 3)], "not yet"
    worker._ranking._due = 0.0
    for duty in worker._duties:
        duty.due = 0.0
    worker._turn()
    assert found(p, "sessions") == [("ada", 4)]


@on("valkey")
def test_a_foreign_list_is_none(bed: Bed) -> None:
    p = bed.connect()
    p.login("ada")
    key = p.context.keys.common.top
    for stored in ("", "{", "5", "[[1]]"):
        bed.raw.hset(key, mapping={"at": "5", "sessions": stored})
        assert p.top_people() is None
    bed.raw.delete(key)
    bed.raw.set(key, "text")
    assert p.top_people() is None
