"""Indexes and facets made anew, while logins go on."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from presence_core import InvalidArgument, SessionFilter, Settings, Worker
from presence_core.operations import reindex
from presence_core.scripts import Op
from tests.conftest import Bed, on
from tests.facade import P

ASKED = [
    SessionFilter(text="okaf"), SessionFilter(name_prefix="em"), SessionFilter(ip="192.0.0.0/28"),
    SessionFilter(text="u1"), SessionFilter(device="phone", text="emeka"),
]  # fmt: skip


def _crowd(p: P, count: int = 60) -> None:
    p.login_many(
        {
            "uid": f"u{n % 40}",
            "name": f"Emeka Okafor {n % 7}",
            "aliases": [f"e{n}@example.org"],
            "ip": f"192.0.{n // 250}.{n % 250}",
            "device": ("phone", "desk")[n % 2],
            "user_agent": f"curl/{n % 3}",
            "attributes": {"plan": f"p{n % 2}"},
        }
        for n in range(count)
    )


def _answers(p: P) -> list[list[str]]:
    return [[one.ref for one in p.iter_sessions(asked)] for asked in ASKED]


def _state(bed: Bed, p: P) -> dict[bytes, Any]:
    out: dict[bytes, Any] = {}
    for s in p.context.keys.shards:
        for key in (s.words, s.addresses):
            out[key.encode()] = bed.raw.zrange(key, 0, -1)
        counts = bed.raw.hgetall(s.facets)
        out[s.facets.encode()] = {name: count for name, count in counts.items() if name != b"-"}
    return out


def test_lost_indexes_and_counters_come_back_as_they_were(bed: Bed) -> None:
    p = bed.connect(facets=("plan",))
    _crowd(p)
    p.kick("u30", by="staff", reason="test")
    before, answers = _state(bed, p), _answers(p)
    for key in before:
        bed.raw.delete(key)
    seen: list[tuple[int, int]] = []
    report = p.reindex(on_progress=lambda done, total: seen.append((done, total)))
    assert report.repaired > 100
    assert seen[-1][0] == seen[-1][1] == p.counts().sessions
    assert _state(bed, p) == before
    assert _answers(p) == answers
    assert not {"recount", "counted"} & bed.families().keys()
    assert p.reindex().repaired == 0


def test_entries_that_nobody_backs_go(bed: Bed) -> None:
    p = bed.connect()
    _crowd(p)
    before = _state(bed, p)
    s = p.context.shard("u1")
    bed.raw.zadd(s.words, {"nobody here\0u1": 0, "ncrazy\0who": 0, "uwho": 0, "aold@example.org\0u1": 0})
    bed.raw.zadd(s.addresses, {b"4\x01\x02\x03\x04u1:no-such-session": 0})
    assert p.reindex().repaired == 5
    assert _state(bed, p) == before


def test_indexes_are_added_and_taken_away_as_the_settings_say(bed: Bed) -> None:
    bare = bed.connect(indexes=())
    _crowd(bare)
    expected = _answers(bare)
    assert not {"words", "addresses"} & bed.families().keys()
    p = bed.connect(facets=("plan",))
    p.counts()
    assert not p.context.complete
    assert _answers(p) == expected
    p.login("late", name="Emeka Okafor Late", ip="192.0.0.9")
    p.reindex()
    assert {"words", "addresses"} <= bed.families().keys()
    fresh = bed.connect()
    assert _answers(fresh) == _answers(p) != expected
    assert fresh.context.complete == {"uid", "name", "alias", "ip"}
    assert p.facets("plan") == {"p0": 30, "p1": 30}, "attributes declared since are counted, too"
    some = bed.connect(indexes=("name",))
    some.reindex()
    assert "addresses" not in bed.families()
    kinds = {entry[:1] for s in p.context.keys.shards for entry in bed.raw.zrange(s.words, 0, -1)}
    assert kinds == {b"n"}
    assert _answers(bed.connect()) == _answers(p)


def _cut_short(op: Op[Any], batches: int) -> Op[None]:
    """The first commands only; then the process dies."""
    calls = next(op)
    for _ in range(batches):
        calls = op.send((yield calls))
    op.close()


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_begun_and_left_half_way_it_is_begun_again(bed: Bed, monkeypatch: Any) -> None:
    monkeypatch.setattr(reindex, "ROUND", 10)
    p = bed.connect(shards=2, facets=("plan",))
    _crowd(p, 300)
    before = _state(bed, p)
    bed.raw.delete(*(s.facets for s in p.context.keys.shards)) if not bed.is_cluster else None
    p._run(_cut_short(reindex.Filling(p.context, p.context.keys.shards[0]).step(), 3))
    p.login("late", attributes={"plan": "p9"}, name="Late")
    p.kick("u1", by="staff", reason="test")
    p.reindex()
    assert p.facets("plan")["p9"] == 1
    p.kick("late", by="staff", reason="test")
    assert sum(p.facets("plan").values()) == p.counts().sessions
    assert _state(bed, p).keys() == before.keys()
    assert not {"recount", "counted"} & bed.families().keys()


@on("valkey-sync", "redis7-sync")
def test_logins_kicks_and_renames_meanwhile_are_counted_once(bed: Bed, monkeypatch: Any) -> None:
    monkeypatch.setattr(reindex, "ROUND", 20)
    p = bed.connect(facets=("plan",))
    _crowd(p, 1000)
    stop = threading.Event()
    errors: list[BaseException] = []

    def traffic(number: int) -> None:
        mine = bed.connect(facets=("plan",))
        try:
            for turn in range(10_000):
                if stop.is_set():
                    return
                uid = f"t{number}-{turn % 5}"
                login = mine.login(uid, name=f"Busy {turn % 3}", device="busy", attributes={"plan": f"b{turn % 2}"})
                if turn % 3 == 0:
                    mine.login(uid, session_id=login.session.session_id, name="Renamed", attributes={"plan": "other"})
                if turn % 2 == 0:
                    mine.logout(uid, login.session.session_id)
                if turn % 7 == 0:
                    mine.kick(uid, by="staff", reason="test")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=traffic, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        p.reindex()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    p.sweep()
    every = list(p.iter_sessions())
    for field in ("device", "plan"):
        values = [one.attributes.get("plan") if field == "plan" else one.device for one in every]
        assert p.facets(field) == {value: values.count(value) for value in set(values) if value}
    for asked in (SessionFilter(name_prefix="renam"), SessionFilter(text="busy"), SessionFilter(text="t1-")):
        assert [one.ref for one in p.iter_sessions(asked)] == [one.ref for one in every if asked.matches(one, 0)]


@on("valkey-sync", "cluster-sync")
def test_a_worker_mends_indexes_and_counts_facets_anew_by_itself(bed: Bed) -> None:
    p = bed.connect(shards=4)
    _crowd(p)
    for s in p.context.keys.shards:
        bed.raw.delete(s.facets)
        bed.raw.zadd(s.words, {"nnobody\0nobody": 0})
    worker = Worker(p)
    worker._beat()
    for _ in range(20):
        worker._mend()
    assert sum(p.facets("device").values()) == p.counts().sessions
    assert not any(bed.raw.zscore(s.words, "nnobody\0nobody") == 0 for s in p.context.keys.shards)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"indexes": ("email",)}, "indexes must be a tuple of some of uid, name, alias, ip."),
        ({"facets": "plan"}, "facets must be a tuple of at most 8 names of attributes."),
        ({"facets": ("",)}, "facets must be names of attributes, text of 1 to 64 bytes."),
    ],
)
def test_a_setting_that_breaks_a_limit_gets_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Settings(**given)
    assert str(caught.value) == sentence
