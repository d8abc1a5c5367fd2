"""Counts without a worker: what is past its deadline is in no count, whether a sweep has ended it or not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from presence_core import Worker
from presence_core.operations.maintenance import history
from presence_core.operations.search import facets, live_counts
from presence_core.scripts.calls import Call
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.workers import Own, work

HOUR = 3_600_000


def _log_in(p: P, bed: Bed) -> None:
    """Users of one session and of several, some of which end after 60 seconds; one on behalf of a user."""
    p.login_many(
        {
            "uid": f"u{number % 70}", "device": ("phone", "laptop")[number % 2], "app": f"app{number % 3}",
            "user_agent": "Firefox/141.0" if number % 4 else None, "attributes": {"plan": "free"},
            "idle_timeout": 60 if number % 5 else 4000,
        }
        for number in range(150)
    )  # fmt: skip


def _ends(p: P) -> Counter[str]:
    """Logins, and ends by reason, whether a sweep has written them or not."""
    counts = p.counts()
    return Counter(counts.totals) + Counter(counts.waiting)


def _agree(p: P) -> None:
    """Every count is that of the sessions that are listed."""
    live = list(p.iter_sessions())
    uids = {session.uid for session in live}
    counts = p.counts()
    assert (counts.sessions, counts.users) == (len(live), len(uids))
    assert p.count_users(within=100_000) == len(uids)
    ends = sum(number for kind, number in _ends(p).items() if kind != "login")
    assert counts.totals["login"] - ends == len(live), "each session that began has ended or is live"
    for field in ("device", "app", "browser"):
        expected = Counter(value for session in live if (value := getattr(session, field)))
        assert p.facets(field) == expected, field
    assert p.facets("plan") == Counter(session.attributes["plan"] for session in live if session.attributes)


@every_topology
def test_what_is_past_its_deadline_is_in_no_count_before_a_sweep(bed: Bed) -> None:
    p = bed.connect(facets=("plan",), heal=False)
    p.freeze()
    _log_in(p, bed)
    _agree(p)
    p.advance(60)
    _agree(p)
    p.login("u1", device="phone", app="app1", idle_timeout=10)
    p.login("new", device="phone")
    _agree(p)
    before = _ends(p)
    p.sweep()
    assert _ends(p) == before, "a sweep counts no end again"
    assert p.counts().waiting == {"expired": 0, "kicked": 0}
    _agree(p)
    p.advance(4000)
    _agree(p)
    assert p.counts().users == 0


@pytest.mark.parametrize("size_of_page", [2, 7])
@every_topology
def test_so_it_is_if_more_sessions_wait_than_one_script_reads(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, size_of_page: int
) -> None:
    monkeypatch.setattr(live_counts, "PAGE", size_of_page)
    monkeypatch.setattr(live_counts, "MAX_PAGES", 1_000)
    monkeypatch.setattr(facets, "WAITING_PAGE", size_of_page)
    p = bed.connect(facets=("plan",), heal=False)
    p.freeze()
    _log_in(p, bed)
    p.advance(61)
    _agree(p)
    p.sweep(limit=20)
    _agree(p)


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_so_it_is_for_thousands_of_sessions(bed: Bed) -> None:
    p = bed.connect(facets=("plan",), heal=False)
    p.freeze()
    p.login_many({"uid": f"u{number}", "device": "tv", "attributes": {"plan": "free"}, "idle_timeout": 60 + number // 7}
                 for number in range(3500))  # fmt: skip
    p.advance(60 + 400)
    assert p.counts().users == p.counts().sessions == 3500 - 7 * 401
    assert (p.facets("device"), p.facets("plan")) == ({"tv": 693}, {"free": 693})
    assert p.count_users(within=100_000) == 693


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_a_read_takes_only_so_many_pages_of_those_that_wait_and_estimates_the_others(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    count_call = live_counts.count_call

    def counted(*given: Any) -> Call:
        calls.append(given)
        return count_call(*given)

    monkeypatch.setattr(live_counts, "PAGE", 10)
    monkeypatch.setattr(facets, "WAITING_PAGE", 10)
    monkeypatch.setattr(live_counts, "MAX_PAGES", 2)
    monkeypatch.setattr(live_counts, "count_call", counted)
    p = bed.connect(heal=False)
    now = p.freeze()
    p.set_now(now - now % HOUR + HOUR)
    start = p.clock.ms
    p.login_many({"uid": f"w{number}", "device": ("phone", "laptop")[number % 2], "idle_timeout": 60}
                 for number in range(400))  # fmt: skip
    p.login_many({"uid": f"u{number}", "device": "phone"} for number in range(40))
    p.advance(70)
    counts = p.counts()
    assert len(calls) == 2 * len(p.internal.context.keys.shards)
    assert (counts.sessions, counts.users, counts.waiting["expired"]) == (40, 40, 400)
    assert p.count_users(within=100) == 40
    known = p.facets("device")  # 20 of 400 were read: some more phones than laptops, or fewer
    assert known.keys() <= {"phone", "laptop"}
    assert sum(known.values()) <= 2 * 40
    assert p.internal.run(history.sample(p.internal.context, p.clock.ms))
    [hour] = p.history(start / 1000, step=3600)
    assert hour.users_max == 40, "a sample is stored, so it reads all"
    assert len(calls) > 4 * len(p.internal.context.keys.shards)


@every_topology
def test_sessions_that_were_revoked_and_wait_for_a_sweep_count_as_kicked(bed: Bed) -> None:
    p = bed.connect(facets=("plan",), heal=False)
    p.freeze()
    _log_in(p, bed)
    p.advance(60)  # some are past their deadline when they are revoked: these expire
    p.revoke_before(by="staff", reason="test")
    p.advance(1)
    p.login("later", device="phone", attributes={"plan": "free"})
    _agree(p)
    before = _ends(p)
    assert (before["expired"], before["kicked"]) == (120, 30)
    p.advance(5000)  # and all are now
    assert _ends(p) == before | {"expired": 121}
    p.sweep()
    assert _ends(p) == before | {"expired": 121}
    _agree(p)


@every_backend
def test_a_sample_counts_no_one_who_is_past_their_deadline(bed: Bed) -> None:
    """A worker comes back after an absence: its first sample comes before its first sweep."""
    p = bed.connect(heal=False)
    now = p.freeze()
    p.set_now(now - now % (24 * HOUR) + 34 * HOUR)  # ten o'clock: the test stays on one day
    start = p.clock.ms
    p.login_many({"uid": f"early{number}", "idle_timeout": 600} for number in range(40))
    p.advance(3_000)
    p.login_many({"uid": f"u{number}", "idle_timeout": 900} for number in range(30))
    p.advance(605)
    p.login_many({"uid": f"late{number}"} for number in range(10))
    p.advance(5)
    assert p.internal.run(history.sample(p.internal.context, p.clock.ms))
    [hour] = p.history((start + HOUR) / 1000, step=3600)
    assert (hour.sessions_max, hour.users_max) == (40, 40)
    assert hour.uniques == 40, "those who left in the hour before are not of this one"
    [day] = p.history(start / 1000, step=86_400)
    assert day.uniques == 80
    p.sweep()
    p.advance(10)
    assert p.internal.run(history.sample(p.internal.context, p.clock.ms))
    [hour] = p.history((start + HOUR) / 1000, step=3600)
    assert (hour.users_max, hour.uniques) == (40, 40)


@on("sync", soak=("sync",))
def test_the_first_samples_of_a_worker_that_was_away_agree_with_the_list(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    p, own = bed.connect(), Own(monkeypatch)
    now = p.freeze()
    p.set_now(now - now % HOUR + HOUR)
    start = p.clock.ms
    worker = Worker(p)
    work(worker)
    p.login_many({"uid": f"u{number}", "device": "tv", "idle_timeout": 100} for number in range(60))
    own.elapse(p, 95)
    p.login_many({"uid": f"v{number}", "device": "tv"} for number in range(40))
    own.elapse(p, 10)  # nothing has swept since the sixty are past their deadline
    work(Worker(p))
    assert p.history(start / 1000, step=3600)[0].users_max == 40
    [split] = p.history((start + 1) / 1000, step=3600)
    assert split.devices is not None
    assert sum(split.devices.values()) <= 40
