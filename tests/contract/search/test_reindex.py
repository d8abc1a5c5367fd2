"""Indexes and facets are rebuilt while logins continue."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from presence_core import InvalidArgument, SessionFilter, Settings, Worker
from presence_core.keyspace import split_ref
from presence_core.operations.search import rebuild
from presence_core.scripts.calls import Op
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P
from tests.support.soak import size

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
    return [[session.ref for session in p.iter_sessions(asked)] for asked in ASKED]


def _state(bed: Bed, p: P) -> dict[bytes, Any]:
    out: dict[bytes, Any] = {}
    for s in p.context.keys.shards:
        for key in (s.words, s.addresses):
            out[key.encode()] = bed.raw.zrange(key, 0, -1)
        counts = bed.raw.hgetall(s.facets)
        out[s.facets.encode()] = {name: count for name, count in counts.items() if name != b"-"}
    return out


@every_topology
def test_lost_indexes_and_counters_are_restored(bed: Bed) -> None:
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


@every_topology
def test_entries_without_a_session_are_removed(bed: Bed) -> None:
    p = bed.connect()
    _crowd(p)
    before = _state(bed, p)
    s = p.context.shard("u1")
    bed.raw.zadd(s.words, {"nobody here\0u1": 0, "ncrazy\0who": 0, "uwho": 0, "aold@example.org\0u1": 0})
    bed.raw.zadd(s.addresses, {b"4\x01\x02\x03\x04u1:no-such-session": 0})
    assert p.reindex().repaired == 5
    assert _state(bed, p) == before


def test_indexes_are_added_and_removed_according_to_the_settings(bed: Bed) -> None:
    bare = bed.connect(indexes=())
    _crowd(bare)
    expected = _answers(bare)
    assert not {"words", "addresses"} & bed.families().keys()
    p = bed.connect(facets=("plan",))
    p.counts()
    assert not p.context.cache.complete
    assert _answers(p) == expected
    p.login("late", name="Emeka Okafor Late", ip="192.0.0.9")
    p.reindex()
    assert {"words", "addresses"} <= bed.families().keys()
    fresh = bed.connect()
    assert _answers(fresh) == _answers(p) != expected
    assert fresh.context.cache.complete == {"uid", "name", "alias", "ip", "idp"}
    assert p.facets("plan") == {"p0": 30, "p1": 30}, "attributes declared since are counted, too"
    some = bed.connect(indexes=("name",))
    some.reindex()
    assert "addresses" not in bed.families()
    kinds = {entry[:1] for s in p.context.keys.shards for entry in bed.raw.zrange(s.words, 0, -1)}
    assert kinds == {b"n"}
    assert _answers(bed.connect()) == _answers(p)


def _cut_short(op: Op[Any], batches: int) -> Op[None]:
    """Send only the first commands; then the process dies."""
    calls = next(op)
    for _ in range(batches - 1):
        calls = op.send((yield calls))
    yield calls
    op.close()


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_an_interrupted_rebuild_begins_again(bed: Bed, monkeypatch: Any) -> None:
    monkeypatch.setattr(rebuild, "ROUND", 10)
    p = bed.connect(shards=2, facets=("plan",))
    _crowd(p, 300)
    before = _state(bed, p)
    bed.raw.delete(*(s.facets for s in p.context.keys.shards)) if not bed.is_cluster else None
    shard = p.context.keys.shards[0]
    filling = rebuild.Filling(p.context, shard)
    p.internal.run(filling.step())
    p.internal.run(_cut_short(filling.step(), 1))
    counted = sorted(bed.raw.smembers(shard.counted))
    p.login("late", attributes={"plan": "p9"}, name="Late")
    p.kick(split_ref(counted[0].decode())[0], by="staff", reason="test")
    p.reindex()
    assert p.facets("plan")["p9"] == 1
    p.kick("late", by="staff", reason="test")
    assert sum(p.facets("plan").values()) == p.counts().sessions
    assert _state(bed, p).keys() == before.keys()
    assert not {"recount", "counted"} & bed.families().keys()


@on("valkey-sync")
def test_reindex_reports_every_entry_that_was_missing(bed: Bed, monkeypatch: Any) -> None:
    monkeypatch.setattr(rebuild, "ROUND", 10)
    p = bed.connect(shards=1)
    _crowd(p, 300)
    [shard] = p.context.keys.shards
    entries = bed.raw.zcard(shard.words)
    bed.raw.delete(shard.words)
    assert p.reindex().repaired == bed.raw.zcard(shard.words) == entries


@on("valkey-sync", soak=("redis7-sync",))
def test_logins_kicks_and_renames_during_a_rebuild_are_counted_once(bed: Bed, monkeypatch: Any) -> None:
    monkeypatch.setattr(rebuild, "ROUND", 20)
    p = bed.connect(facets=("plan",))
    _crowd(p, size(300, 1000))
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
        values = [session.attributes.get("plan") if field == "plan" else session.device for session in every]
        assert p.facets(field) == {value: values.count(value) for value in set(values) if value}
    for asked in (SessionFilter(name_prefix="renam"), SessionFilter(text="busy"), SessionFilter(text="t1-")):
        assert [session.ref for session in p.iter_sessions(asked)] == [
            session.ref for session in every if asked.matches(session, 0)
        ]


@on("valkey-sync", "cluster-sync")
def test_a_worker_rebuilds_indexes_and_facets_automatically(bed: Bed) -> None:
    p = bed.connect(shards=4)
    _crowd(p)
    for s in p.context.keys.shards:
        bed.raw.delete(s.facets)
        bed.raw.zadd(s.words, {"nnobody\0nobody": 0})
    worker = Worker(p)
    worker._beat()
    for _ in range(20):
        worker._index_repair.run()
    assert sum(p.facets("device").values()) == p.counts().sessions
    assert not any(bed.raw.zscore(s.words, "nnobody\0nobody") == 0 for s in p.context.keys.shards)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"indexes": ("email",)}, "indexes must be a tuple of some of uid, name, alias, ip, idp."),
        ({"facets": "plan"}, "facets must be a tuple of at most 8 names of attributes."),
        ({"facets": ("",)}, "facets must be names of attributes, text of 1 to 64 bytes."),
    ],
)
def test_a_setting_beyond_a_limit_is_reported_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Settings(**given)
    assert str(caught.value) == sentence
