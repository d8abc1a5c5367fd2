"""Many clients at once on the same sessions: in any interleaving, an ended session stays ended and counts once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from presence_core import Login, LoginRefused
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.soak import size

TOGETHER = size(1_000, 10_000)
"""Number of interleavings over all backends of the test below."""

RACED = ("valkey-sync", "redis7-sync", "valkey-async", "cluster-sync")


def _start_together(*jobs: Callable[[], Any]) -> list[Any]:
    """Run each job in its own thread, all started together; returns their results and raises their errors."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> Any:
        barrier.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as threads:
        return [future.result() for future in [threads.submit(run, job) for job in jobs]]


@on(*RACED)
def test_a_kick_that_races_every_other_call_ends_a_session_permanently(bed: Bed) -> None:
    count = TOGETHER // len(RACED)
    staff, site = bed.connect(), bed.connect()
    tokens = {}
    for answer in staff.login_many({"uid": f"u{n}", "session_id": f"session-{n}"} for n in range(count)):
        assert isinstance(answer, Login)
        tokens[answer.session.session_id] = answer.token
    kicked = [False] * count
    at = [0]
    mistakes: list[str] = []

    def kick() -> int:
        ended = 0
        for n in range(count):
            at[0] = n
            result = staff.kick(f"u{n}", f"session-{n}" if n % 3 else None, by="staff", reason="race")
            kicked[n] = True
            ended += len(result.kicked)
        at[0] = count
        return ended

    def be_seen(ways: list[Callable[[str, str], bool]]) -> int:
        seen, rng = 0, random.Random(len(ways))
        while at[0] < count:
            n = max(0, min(count - 1, at[0] + rng.choice((-1, 0, 0, 0, 1))))
            way = rng.choice(ways)
            over = kicked[n]  # if the kick had returned before the call, the result must be false
            live = way(f"u{n}", f"session-{n}")
            if live and over:
                mistakes.append(f"session-{n} lives again")
            seen += live
        return seen

    def validate(uid: str, sid: str) -> bool:
        return bool(site.validate(tokens[sid], ip=f"192.0.2.{random.randrange(250)}"))

    def validate_by_id(uid: str, sid: str) -> bool:
        return bool(site.validate_session(uid, sid))

    def beat(uid: str, sid: str) -> bool:
        return site.heartbeat(uid, sid)

    def beat_many(uid: str, sid: str) -> bool:
        return f"{uid}:{sid}" not in site.heartbeats([f"{uid}:{sid}", "absent:no-such-session"])

    def log_in_again(uid: str, sid: str) -> bool:
        try:
            tokens[sid] = site.login(uid, session_id=sid, name="again").token
        except LoginRefused:
            return False
        return True

    ended, *seen = _start_together(
        kick,
        lambda: be_seen([validate, validate_by_id, beat]),
        lambda: be_seen([log_in_again, validate, beat_many]),
    )
    assert mistakes == []
    assert ended == count
    assert sum(seen) > 0, "no session was seen: nothing raced"
    assert [n for n in range(count) if validate_by_id(f"u{n}", f"session-{n}")] == []
    refs = {f"u{n}:session-{n}" for n in range(count)}
    assert set(staff.heartbeats(refs)) == refs
    counts = staff.counts()
    assert (counts.users, counts.sessions, counts.totals["kicked"], counts.totals["login"]) == (0, 0, count, count)
    assert staff.list_sessions().total == 0
    report = staff.repair()
    assert (report.expired, report.repaired) == (0, 0), "nothing was left half-done"


@on("valkey-sync", "cluster-sync")
def test_timeouts_that_change_while_sessions_are_seen_agree_everywhere(bed: Bed) -> None:
    staff, site = bed.connect(), bed.connect()
    token = site.login("ada", session_id="session-1").token
    changes = [random.Random(7).randrange(60, 90_000) for _ in range(size(100, 1_000))]
    done = threading.Event()

    def change() -> None:
        try:
            for idle in changes:
                [session] = staff.change_timeouts(
                    "ada", idle_timeout=idle, absolute_timeout=2 * idle, by="sue", reason="race"
                )
                assert (session.idle_timeout, session.absolute_timeout) == (idle, 2 * idle)
        finally:
            done.set()

    def be_seen() -> int:
        seen, latest = 0, token
        while not done.is_set():
            latest = site.rotate(latest).token
            seen += bool(site.validate(latest, ip=f"192.0.2.{seen % 250}")) + site.heartbeat("ada", "session-1")
            assert site.login("ada", session_id="session-1").session.idle_timeout in {1_800, *changes}
            latest = site.login("ada", session_id="session-1").token
        return seen

    _, seen = _start_together(change, be_seen)
    assert seen > 0, "the session was not seen: nothing raced"
    [session] = site.sessions("ada")
    assert (session.idle_timeout, session.absolute_timeout) == (changes[-1], 2 * changes[-1])
    report = staff.repair()
    assert (report.expired, report.repaired) == (0, 0), "record, lists and deadline agree"


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_of_many_concurrent_ends_of_a_session_one_counts(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    p.login_many({"uid": f"u{n}", "session_id": f"session-{n}"} for n in range(size(50, 100)))
    done = {"kick": 0, "logout": 0}
    for n in range(size(50, 100)):
        uid, sid = f"u{n}", f"session-{n}"
        kicked, kicked_all, out, also = _start_together(
            lambda uid=uid, sid=sid: len(p.kick(uid, sid, by="one", reason="r").kicked),  # type: ignore[misc]
            lambda uid=uid: len(q.kick(uid, by="two", reason="r").kicked),  # type: ignore[misc]
            lambda uid=uid, sid=sid: p.logout(uid, sid),  # type: ignore[misc]
            lambda uid=uid, sid=sid: q.logout(uid, sid),  # type: ignore[misc]
        )
        assert kicked + kicked_all + out + also == 1
        done["kick"] += kicked + kicked_all
        done["logout"] += out + also
        ended = p.validate_session(uid, sid).ended
        assert ended is not None
        assert ended.reason == ("kicked" if kicked + kicked_all else "logout")
        assert ended.by == ("one" if kicked else "two" if kicked_all else uid)
    totals = p.counts().totals
    assert (totals["kicked"], totals["logout"]) == (done["kick"], done["logout"])
    assert len(p.events(limit=1000)) == 2 * size(50, 100)


@pytest.mark.slow
@on("valkey-sync")
def test_two_sweepers_over_many_expired_sessions_count_each_once(bed: Bed) -> None:
    _two_sweepers(bed, size(5_000, 100_000))


@on("cluster-sync", "redis7-async")
def test_two_sweepers_count_each_expired_session_once(bed: Bed) -> None:
    _two_sweepers(bed, size(2_000, 10_000))


def _two_sweepers(bed: Bed, count: int) -> None:
    options = {"max_events": 10_000_000, "keep_expired": 0}
    ours, theirs = bed.connect(**options), bed.connect(**options)
    ours.freeze()
    half = count // 2
    _start_together(
        *(
            lambda p=p, start=start: p.login_many(
                {"uid": f"u{n // 3}", "idle_timeout": 60} for n in range(start, start + half)
            )
            for p, start in ((ours, 0), (theirs, half))
        )
    )
    ours.advance(60)
    assert ours.counts().sessions == 0
    first, second = _start_together(ours.sweep, theirs.sweep)
    third = ours.sweep()
    assert first.expired + second.expired + third.expired == count
    assert third.expired == 0
    counts = ours.counts()
    assert (counts.totals["expired"], counts.totals["login"], counts.users) == (count, count, 0)
    shards = ours.context.keys.shards
    assert sum(bed.raw.xlen(shard.events) for shard in shards) == 2 * count, "each end was reported once"
    assert all(not bed.raw.exists(shard.sessions, shard.deadlines, shard.users) for shard in shards)


@on("valkey-async", "cluster-sync", soak=("sync",))
def test_a_sweep_that_races_heartbeats_ends_no_session_seen_in_time(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    refs = [f"u{n}:session-{n}" for n in range(500)]
    p.freeze()
    p.login_many({"uid": f"u{n}", "session_id": f"session-{n}", "idle_timeout": 10} for n in range(500))
    for _ in range(10):
        p.advance(9)
        offline, _ = _start_together(lambda: q.heartbeats(refs), p.sweep)
        assert offline == []
    assert p.counts().sessions == 500
    p.advance(10)
    offline, report = _start_together(lambda: q.heartbeats(refs), p.sweep)
    assert (len(offline), report.expired) == (500, 500)


@on("valkey-async", "redis7-sync", soak=("sync",))
def test_concurrent_logins_of_many_users_leave_every_list_consistent(bed: Bed) -> None:
    p = bed.connect(max_sessions=4)
    clients = [p, bed.connect(max_sessions=4)]
    p.counts()
    refusals = set()

    def work(seed: int) -> None:
        rng, q = random.Random(seed), clients[seed % 2]
        for _ in range(25):
            uid = f"u{rng.randrange(12)}"
            try:
                login = q.login(uid, session_id=f"session-{rng.randrange(300)}")
            except LoginRefused as refused:
                refusals.add(refused.code)
                continue
            if rng.random() < 0.3:
                q.logout(uid, login.session.session_id)
            if rng.random() < 0.1:
                q.kick(uid, by="staff", reason="race", keep=[login.session.session_id])

    _start_together(*(lambda seed=seed: work(seed) for seed in range(24)))
    assert refusals <= {"ended"}
    live = [session.ref for session in p.iter_sessions()]
    counts = p.counts()
    assert counts.sessions == len(live) == len(set(live))
    per_user = {uid: len(p.sessions(uid)) for uid in {ref.split(":")[0] for ref in live}}
    assert sum(per_user.values()) == len(live)
    assert counts.users == len(per_user)
    assert max(per_user.values()) <= 4
    totals = counts.totals
    assert totals["login"] - sum(number for kind, number in totals.items() if kind != "login") == len(live)
    report = p.repair()
    assert (report.expired, report.repaired) == (0, 0)


@on("valkey", "cluster")
def test_clients_that_start_at_once_agree_on_one_layout(bed: Bed) -> None:
    clients = [bed.connect(shards=shards) for shards in (1, 2, 3, 4) for _ in range(3)]

    def begin(p: P) -> bool:
        try:
            p.login("ada")
        except ValueError:  # the layout is another one
            return False
        return True

    began = _start_together(*(lambda p=p: begin(p) for p in clients))
    assert sum(began) == 3
    assert len(bed.families()["sessions"]) == 1
