"""The trackers as black boxes: recipes R1, R3, R4 and both variants of R5, on every backend."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import presence_core
from presence_core import (
    CorruptData,
    InvalidArgument,
    LastSeenTracker,
    MinuteSetTracker,
    Unavailable,
)
from presence_core.operations import trackers as activity
from tests.conftest import Bed, every_backend, every_topology, on
from tests.contract.connections.test_keys import _declared, _keys_of
from tests.support.monitor import Monitor
from tests.support.trackers import Trackers

NOON = 1_790_000_400
"""A full hour, Unix seconds."""


@pytest.fixture
def make(bed: Bed) -> Iterator[Trackers]:
    trackers = Trackers(bed)
    yield trackers
    trackers.close()


def _keys(bed: Bed) -> set[str]:
    return {key.decode() for keys in bed.families().values() for key in keys}


def _values(bed: Bed) -> dict[str, Any]:
    """The content of every key. Not its DUMP, because a SET may change its order when it is read."""
    return {
        key: bed.raw.smembers(key) if bed.raw.type(key) == b"set" else bed.raw.zrange(key, 0, -1, withscores=True)
        for key in _keys(bed)
    }


# -- R1: visitor counter ----------------------------------------------------------------------------------------------


@every_backend
def test_r1_a_visit_is_recorded_old_ones_are_removed_and_the_rest_counted_in_one_step(make: Trackers, bed: Bed) -> None:
    counter = make.last_seen(600)
    assert counter.touch("s1", NOON) == 1
    assert counter.touch("s2", NOON + 1) == 2
    assert counter.touch("s1", NOON + 300) == 2, "members are unique"
    key = make.key("last.seen")
    assert bed.raw.zrange(key, 0, -1, withscores=True) == [(b"s2", NOON + 1), (b"s1", NOON + 300)]
    assert counter.touch("s3", NOON + 601) == 3, "silent for exactly ten minutes"
    assert counter.touch("s3", NOON + 602) == 2, "silence longer than the window is leaving"
    assert bed.raw.zscore(key, "s2") is None, "memory stays bounded"
    assert counter.count(now=NOON + 602) == 2


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_r1_one_visit_is_one_round_trip(make: Trackers, bed: Bed) -> None:
    counter = make.last_seen()
    counter.touch("a")
    with Monitor(bed.raw) as monitor:
        counter.touch("b")
    assert [line.words[0] for line in monitor.lines if not line.by_script] == [b"EVALSHA"]


@every_topology
def test_without_now_the_clock_of_redis_is_used(make: Trackers, bed: Bed) -> None:
    counter = make.last_seen(60)
    assert counter.touch("a") == 1
    assert abs(bed.raw.zscore(make.key("last.seen"), "a") - time.time()) < 60
    assert counter.count() == 1
    assert counter.members() == ["a"]
    assert counter.trim() == 0
    assert counter.trim(now=time.time() + 120) == 1
    assert counter.count() == 0


def test_a_visitor_who_leaves_is_removed_at_once(make: Trackers) -> None:
    counter = make.last_seen()
    counter.touch("a")
    counter.touch("b")
    assert counter.forget("a")
    assert not counter.forget("a")
    assert counter.members() == ["b"]


def test_a_late_touch_does_not_move_a_last_visit_back(make: Trackers) -> None:
    counter = make.last_seen(60)
    counter.touch("a", NOON + 50)
    counter.touch("a", NOON)
    assert counter.count(now=NOON + 100) == 1


def test_a_score_in_the_future_is_not_counted_and_a_true_one_replaces_it(make: Trackers, bed: Bed) -> None:
    bed.raw.zadd(make.key("last.seen"), {"milliseconds": 1_790_000_400_000})
    counter = make.last_seen(60)
    assert counter.count() == 0
    assert counter.members() == []
    assert counter.touch("milliseconds") == 1


def test_more_stale_members_than_one_touch_removes_are_not_counted_and_removed_later(make: Trackers, bed: Bed) -> None:
    key = make.key("last.seen")
    bed.raw.zadd(key, {f"old{number}": number for number in range(12_000)})
    counter = make.last_seen()
    assert counter.touch("a", NOON) == 1
    assert bed.raw.zcard(key) == 12_001 - activity.TRIMMED_BY_TOUCH
    assert counter.trim(NOON) == 12_000 - activity.TRIMMED_BY_TOUCH
    assert counter.trim(NOON) == 0
    assert counter.members(now=NOON) == ["a"]


def test_keep_older_keeps_last_visits(make: Trackers, bed: Bed) -> None:
    bed.raw.zadd(make.key("last.seen"), {"last year": NOON - 31_536_000})
    assert make.last_seen(keep_older=True).touch("a", NOON) == 1
    assert bed.raw.zcard(make.key("last.seen")) == 2


# -- R4: who's online -------------------------------------------------------------------------------------------------


@every_topology
def test_r4_online_is_the_range_from_fifteen_minutes_ago_until_now(make: Trackers, bed: Bed) -> None:
    key = make.key("last.seen")
    bed.raw.zadd(key, {"gone": NOON - 900.5, "just": NOON - 900, "b": NOON - 1.25, "a": NOON - 1.25, "c": NOON,
                       "later": NOON + 0.5})  # fmt: skip
    before = bed.raw.dump(key)
    board = make.last_seen(900)
    assert board.members(now=NOON) == ["c", "b", "a", "just"], "the newest first"
    assert board.count(now=NOON) == 4
    assert board.members(within=60, now=NOON) == ["c", "b", "a"]
    assert board.count(60, NOON) == 3
    assert board.members(now=NOON + 0.5) == ["later", "c", "b", "a"]
    assert bed.raw.dump(key) == before, "the source is never changed by a read"
    assert board.trim(NOON) == 1
    assert bed.raw.zscore(key, "gone") is None


def test_members_are_complete_and_in_order_for_any_number_and_equal_scores(
    make: Trackers, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "MAX_READ", 10)
    scores = {f"m{number:03}": NOON - (number // 35 if number < 90 else number) for number in range(200)}
    bed.raw.zadd(make.key("last.seen"), scores)
    assert make.last_seen().members(now=NOON) == sorted(scores, key=lambda uid: (scores[uid], uid), reverse=True)


def test_members_of_one_second_are_read_a_page_at_a_time(
    make: Trackers, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "MAX_READ", 10)
    members = {f"m{number}" for number in range(200)}
    bed.raw.zadd(make.key("last.seen"), dict.fromkeys(members, NOON))
    board = make.last_seen()
    board.count(now=NOON)
    with Monitor(bed.raw) as monitor:
        assert set(board.members(now=NOON)) == members
    pages = [line.words for line in monitor.lines if line.by_script and line.words[0] == b"ZRANGE"]
    assert len(pages) == 23, "199 members by nines, because each page begins with the last entry of the one before"
    assert max(int(page[3]) - int(page[2]) for page in pages) < 10


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_a_user_seen_again_while_members_are_read_is_listed_once(
    make: Trackers, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "MAX_READ", 7)
    board, key, stop = make.last_seen(3600), make.key("last.seen"), threading.Event()
    members = [f"m{number}" for number in range(300)]
    begin = time.time() - 600
    bed.raw.zadd(key, {uid: begin + place for place, uid in enumerate(members)})

    def be_seen() -> None:
        place = 0
        while not stop.is_set():
            bed.raw.zadd(key, {members[place % 300]: time.time() - 0.001})
            place += 1

    busy = threading.Thread(target=be_seen)
    busy.start()
    try:
        for _ in range(5):
            assert sorted(board.members()) == sorted(members)
    finally:
        stop.set()
        busy.join()


def test_existing_data_of_a_site_can_be_used_as_it_is(make: Trackers, bed: Bed) -> None:
    bed.raw.zadd(make.key("last.seen"), {"5": NOON - 60.75, "6": NOON - 3600, "ü😀": NOON - 5, b"\xff": NOON - 6})
    board = make.last_seen(900)
    assert board.members(now=NOON) == ["ü😀", "\ufffd", "5"]
    assert board.touch("6", NOON) == 4


# -- R5: online friends by a sorted set -------------------------------------------------------------------------------

Friends = Callable[[str, list[str]], None]


@pytest.fixture(params=["set", "zset"])
def befriend(request: pytest.FixtureRequest, bed: Bed) -> Friends:
    """Write friends as a SET, or as a ZSET whose scores (since when they are friends) must not matter."""

    def write(key: str, names: list[str]) -> None:
        if request.param == "set":
            bed.raw.sadd(key, *names)
        else:
            bed.raw.zadd(key, {name: place * 1e9 for place, name in enumerate(names)} | {names[0]: float("inf")})

    return write


@every_backend
@pytest.mark.parametrize("strangers", [0, 50], ids=["by copy", "looked up"])
def test_r5_online_friends_are_those_on_the_list_latest_first(
    make: Trackers, bed: Bed, befriend: Friends, strangers: int
) -> None:
    key, friends = make.key("last.seen"), make.key("friends:ada")
    bed.raw.zadd(key, {"bob": NOON - 599.5, "eve": NOON - 600.5, "cy": NOON - 1, "dan": NOON, "late": NOON + 1})
    if strangers:
        bed.raw.zadd(key, {f"x{number}": NOON - number for number in range(strangers)})
    befriend(friends, ["cy", "eve", "bob", "nobody", "late"] + [f"offline{n}" for n in range(5)])
    before = _values(bed)
    tracker = make.last_seen(600)
    assert tracker.online_friends(friends, now=NOON) == ["cy", "bob"]
    assert tracker.online_friends(friends, within=5, now=NOON) == ["cy"]
    assert tracker.online_friends(friends, 700, NOON) == ["cy", "bob", "eve"]
    assert tracker.online_friends(friends) == []
    assert tracker.online_friends(make.key("nobody's friends"), now=NOON) == []
    assert _values(bed) == before, "the source as it was, and no temporary key left"


def test_r5_the_shortened_copy_is_shared_for_some_seconds(make: Trackers, bed: Bed, befriend: Friends) -> None:
    key, friends, others = make.key("last.seen"), make.key("friends:ada"), make.key("friends:bob")
    now = time.time() - 1
    bed.raw.zadd(key, {"bob": now - 5, "ada": now - 6, "old": now - 1000})
    befriend(friends, ["bob", "cy", "old"])
    befriend(others, ["ada", "cy"])
    before = bed.raw.dump(key)
    tracker = make.last_seen(600, reuse_for=30)
    assert tracker.online_friends(friends) == ["bob"]
    [copy] = _keys(bed) - {key, friends, others}
    assert copy == f"{key}:copy:600:30"
    assert 0 < bed.raw.ttl(copy) <= 30
    assert bed.raw.zcard(copy) == 2, "it is trimmed"
    bed.raw.zadd(key, {"cy": now})
    assert tracker.online_friends(friends) == ["bob"], "as old as the copy"
    assert tracker.online_friends(others) == ["ada"], "shared by all"
    assert tracker.online_friends(friends, reuse_for=0) == ["cy", "bob"]
    assert tracker.online_friends(friends, within=300) == ["cy", "bob"], "another window has a copy of its own"
    bed.raw.unlink(copy)
    assert tracker.online_friends(friends) == ["cy", "bob"]
    bed.raw.zrem(key, "cy")
    assert bed.raw.dump(key) == before


def test_a_copy_for_another_time_is_not_shared(make: Trackers, bed: Bed) -> None:
    friends = make.key("friends")
    bed.raw.zadd(make.key("last.seen"), {"a": NOON, "b": NOON + 500})
    bed.raw.sadd(friends, "a", "b")
    tracker = make.last_seen(100, reuse_for=60)
    assert tracker.online_friends(friends, now=NOON) == ["a"]
    assert tracker.online_friends(friends, now=NOON + 500) == ["b"]


def test_the_script_is_atomic_among_twenty_threads(make: Trackers, bed: Bed) -> None:
    key, friends = make.key("last.seen"), make.key("friends")
    bed.raw.sadd(friends, *(f"m{number}" for number in range(200)))
    tracker = make.last_seen(600)

    def visit(number: int) -> list[str]:
        for turn in range(10):
            tracker.touch(f"m{number}-{turn}")
        tracker.touch(f"m{number}")
        return tracker.online_friends(friends, reuse_for=number % 2)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(visit, range(20)))
    assert all(f"m{number}" in answer for number, answer in enumerate(answers) if number % 2 == 0)
    assert set().union(*answers) <= {f"m{number}" for number in range(20)}
    assert tracker.count() == 220
    assert tracker.touch("m0") == 220
    time.sleep(1.1)
    assert _keys(bed) == {key, friends}


# -- R3 and R5: minute sets -------------------------------------------------------------------------------------------


@every_topology
def test_r3_online_is_the_union_of_the_last_five_sets(make: Trackers, bed: Bed) -> None:
    tracker = make.minute_sets(300)
    for minute, name in enumerate(["gone", "b", "a", "c", "b", "d"]):
        tracker.touch(name, NOON + 60 * minute + 59)
    assert tracker.members(now=NOON + 300) == ["d", "b", "c", "a"], "the newest bucket first, then in order"
    assert tracker.count(now=NOON + 300) == 4
    assert tracker.members(120, NOON + 300) == ["d", "b"]
    assert tracker.count(within=61, now=NOON + 359) == 2, "whole buckets"
    assert _keys(bed) == {f"{make.key('seen')}:{NOON // 60 + minute}" for minute in range(6)}, "one SET for each minute"


def test_r3_online_friends_are_computed_inside_redis(make: Trackers, bed: Bed, befriend: Friends) -> None:
    friends = make.key("friends:ada")
    tracker = make.minute_sets(300)
    for minute, name in enumerate(["gone", "zoe", "bob", "stranger", "amy", "bob"]):
        tracker.touch(name, NOON + 60 * minute)
    befriend(friends, ["bob", "amy", "zoe", "gone", "nobody"])
    before = _values(bed)
    assert tracker.online_friends(friends, now=NOON + 300) == ["bob", "amy", "zoe"]
    assert tracker.online_friends(friends, 60, NOON + 300) == ["bob"]
    assert tracker.online_friends(make.key("nobody's"), now=NOON + 300) == []
    assert _values(bed) == before


@every_topology
@pytest.mark.parametrize("second", [0, 17, 59.999])
def test_r5_a_user_seen_at_minute_29_is_online_until_minute_39(make: Trackers, second: float) -> None:
    tracker = make.minute_sets(600)
    tracker.touch("ada", NOON + 29 * 60 + second)
    for minute in range(29, 39):
        assert tracker.members(now=NOON + minute * 60 + 59.999) == ["ada"], minute
    assert tracker.members(now=NOON + 39 * 60) == []
    assert tracker.count(now=NOON + 39 * 60) == 0


def test_r5_a_bucket_of_the_previous_hour_is_never_used(make: Trackers) -> None:
    tracker = make.minute_sets(3540)
    tracker.touch("last hour's", NOON + 29 * 60)
    assert tracker.members(now=NOON + 3600 + 29 * 60) == []
    tracker.touch("this hour's", NOON + 3600 + 29 * 60)
    assert tracker.members(now=NOON + 3600 + 29 * 60) == ["this hour's"]
    assert tracker.members(now=NOON + 29 * 60) == ["last hour's"], "each minute has a SET of its own"


@pytest.mark.parametrize(
    ("window", "bucket", "least"), [(600, 60, 600), (300, 60, 300), (3540, 60, 3540), (3598, 1, 3598), (5, 5, 5)]
)
def test_r5_the_ttl_exceeds_the_window_and_stays_under_an_hour(
    make: Trackers, bed: Bed, window: int, bucket: int, least: int
) -> None:
    tracker = make.minute_sets(window, bucket=bucket)
    for now in (None, NOON, 5):  # relative, even if now is given
        tracker.touch("ada", now)
    keys = _keys(bed)
    assert len(keys) == 3
    assert all(least * 1000 < bed.raw.pttl(key) + 900 < 3_600_900 for key in keys)
    assert all(bed.raw.pttl(key) < 3_600_000 for key in keys)


def test_minute_sets_also_use_the_clock_of_redis(make: Trackers, bed: Bed) -> None:
    tracker = make.minute_sets(600)
    tracker.touch("a")
    assert tracker.members() == ["a"]
    assert tracker.count() == 1
    bed.raw.sadd(make.key("friends"), "a", "b")
    assert tracker.online_friends(make.key("friends")) == ["a"]
    [key] = _keys(bed) - {make.key("friends")}
    assert abs(int(key.rpartition(":")[2]) - time.time() / 60) < 1.1


@on("valkey-sync", "redis7-sync")
def test_an_app_server_with_a_wrong_clock_asks_twice_only_once(
    make: Trackers, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = time.time
    monkeypatch.setattr("presence_core.trackers.time.time", lambda: right() - 7 * 86400)
    tracker = make.minute_sets(600)
    monkeypatch.undo()
    with Monitor(bed.raw) as monitor:
        tracker.touch("loads the scripts")
    with Monitor(bed.raw) as monitor:
        for number in range(5):
            tracker.touch(f"m{number}")
        assert tracker.count() == 6
    assert len([line for line in monitor.lines if not line.by_script]) == 6
    assert all(abs(int(key.rpartition(":")[2]) - time.time() / 60) < 1.1 for key in _keys(bed))


def test_minute_sets_lose_no_visit_among_twenty_threads(make: Trackers) -> None:
    tracker = make.minute_sets(600, bucket=1)
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda number: tracker.touch(f"m{number}"), range(500)))
    assert tracker.count() == len(tracker.members()) == 500


# -- both -------------------------------------------------------------------------------------------------------------


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_a_caller_may_pass_its_own_client(bed: Bed, make: Trackers) -> None:
    with LastSeenTracker(bed.raw, make.key("last.seen"), 60) as tracker:
        assert tracker.touch("a") == 1
    with MinuteSetTracker(bed.raw, make.key("seen"), 60) as sets:
        sets.touch("a")
        assert sets.count() == 1
    assert bed.raw.exists(make.key("last.seen")) == 1, "and keeps it"


@on("cluster")
def test_on_a_cluster_a_key_without_a_hash_tag_works_until_a_second_key_is_needed(make: Trackers, bed: Bed) -> None:
    plain = make.last_seen(600, key=f"last.seen-{bed.namespace}")
    assert plain.touch("a", NOON) == 1
    assert plain.members(now=NOON) == ["a"]
    with pytest.raises(InvalidArgument, match=r"^friends_key must carry the \{tag\} of key on a cluster"):
        plain.online_friends("friends:ada")
    friends = f"{{last.seen-{bed.namespace}}}:friends"
    bed.raw.sadd(friends, "a", "b")
    assert plain.online_friends(friends, now=NOON) == ["a"]
    assert plain.online_friends(friends, now=NOON, reuse_for=5) == ["a"]
    with pytest.raises(InvalidArgument, match=r"^prefix must hold a \{tag\} on a cluster"):
        make.minute_sets(prefix="seen")
    for key in ("a}b", "{}x"):
        with pytest.raises(InvalidArgument, match=r"^key must hold braces only as a \{tag\} on a cluster\.$"):
            make.last_seen(key=key)
    with pytest.raises(InvalidArgument, match=r"^friends_key must carry the \{tag\} of prefix on a cluster"):
        make.minute_sets().online_friends("{other}:friends")


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_any_key_works_on_a_single_server(make: Trackers, bed: Bed) -> None:
    for key in ("last.seen", "a}b", "{}x", "plain key"):
        named = f"{bed.namespace} {key}"
        bed.raw.sadd(f"{named} friends", "a")
        tracker = make.last_seen(key=named)
        tracker.touch("a", NOON)
        assert tracker.online_friends(f"{named} friends", now=NOON, reuse_for=1) == ["a"]


def test_a_key_with_a_foreign_type_is_named(make: Trackers, bed: Bed) -> None:
    key, friends, text = make.key("last.seen"), make.key("friends"), make.key("text")
    tracker, sets = make.last_seen(), make.minute_sets()
    bed.raw.set(text, "x")
    tracker.touch("a", NOON)
    before = bed.dump()
    with pytest.raises(CorruptData, match="holds neither a SET nor a ZSET"):
        tracker.online_friends(text, now=NOON)
    sets.touch("a", NOON)
    with pytest.raises(CorruptData, match=re.escape(text)):
        sets.online_friends(text, now=NOON)
    bed.raw.unlink(f"{make.key('seen')}:{NOON // 60}")
    assert bed.dump() == before
    bed.raw.set(key, "x")
    bed.raw.sadd(friends, "a")
    other = make.last_seen()
    calls: list[Callable[[], Any]] = [partial(other.touch, "a"), other.count, other.members, other.trim]
    calls.append(partial(other.online_friends, friends))
    for call in calls:
        with pytest.raises(CorruptData, match=re.escape(key)):
            call()
    assert bed.raw.get(key) == b"x"


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_trackers_touch_only_keys_that_they_declared(make: Trackers, bed: Bed) -> None:
    friends = make.key("friends")
    bed.raw.sadd(friends, "a", "b", "c")
    with Monitor(bed.raw) as monitor:
        for tracker in (make.last_seen(), make.minute_sets()):
            tracker.touch("a")
            tracker.count()
            tracker.members()
            tracker.online_friends(friends)
        make.last_seen().trim()
        make.last_seen().online_friends(friends, reuse_for=5)
    owner: Any = None
    owners, calls = [], []
    for line in monitor.lines:
        if not line.by_script:
            owner = line if line.words[0].upper().startswith(b"EVAL") else None
        elif owner is not None:
            owners.append(owner)
            calls.append(line)
    assert len(calls) > 20
    for line, script, keys in zip(calls, owners, _keys_of(bed.raw, calls), strict=True):
        assert keys <= _declared(script.words), line.words


def test_trackers_raise_unavailable_while_redis_is_down(anywhere: Bed) -> None:
    make = Trackers(anywhere, "redis://:hunter2@127.0.0.1:1")
    calls: list[Callable[[], Any]] = []
    trackers: tuple[LastSeenTracker | MinuteSetTracker, ...] = (
        make.last_seen(timeout=0.1),
        make.minute_sets(timeout=0.1),
    )
    for tracker in trackers:
        calls += [tracker.count, tracker.members, partial(tracker.touch, "a"), partial(tracker.online_friends, "f")]
    for call in calls:
        with pytest.raises(Unavailable, match="cannot be reached") as refused:
            call()
        assert "hunter2" not in str(refused.value)
    make.close()


def test_sync_and_async_trackers_have_the_same_methods() -> None:
    for name in ("LastSeenTracker", "MinuteSetTracker"):
        ours, theirs = getattr(presence_core, name), getattr(presence_core, f"Async{name}")
        methods = [name for name, _ in inspect.getmembers(ours, callable) if not name.startswith("_")]
        assert methods == [name for name, _ in inspect.getmembers(theirs, callable) if not name.startswith("_")]
        for method in ["__init__", *methods]:
            mine, other = inspect.signature(getattr(ours, method)), inspect.signature(getattr(theirs, method))
            assert [(p.name, p.kind, p.default) for p in mine.parameters.values()] == [
                (p.name, p.kind, p.default) for p in other.parameters.values()
            ]
            if method not in ("__init__", "from_url"):
                assert asyncio.iscoroutinefunction(getattr(theirs, method))
