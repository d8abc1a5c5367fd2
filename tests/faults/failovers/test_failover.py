"""A master is killed under traffic: which errors callers get, how soon they are served again, and which data remain.

The rates are possible on two cores that also run six servers and the tests. With PRESENCE_SOAK (``make soak``) they are
500 logins and 2,000 heartbeats a second.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from presence_core import OutcomeUnknown, Presence, Settings, Unavailable
from tests.support.expected.agreement import comes_to_agree
from tests.support.fair_clock import PATIENT
from tests.support.servers import Cluster, Sentinels, Server, missing, redis_binary, valkey_binary, wait_for
from tests.support.soak import size

SETTINGS = Settings(namespace="failover", timeout=2)
LOGINS, BEATS = size((40, 200), (500, 2_000))
"""Per second."""

CROWD = size(300, 1_000)
"""Sessions that existed before, and are on every replica."""

THREADS = 8
BATCH = 50


@dataclass
class Traffic:
    """Logins, with a kick after each tenth, and heartbeats of the existing sessions; and the results of the calls."""

    presence: Presence
    crowd: list[str]
    live: dict[str, str] = field(default_factory=dict)  #: ref → uid, of logins that were answered
    kicked: dict[str, str] = field(default_factory=dict)  #: kicks that were answered
    unknown: set[str] = field(default_factory=set)  #: refs of calls with an unknown outcome
    wrong: list[str] = field(default_factory=list)
    served: dict[str, int] = field(default_factory=lambda: {"logins": 0, "beats": 0})
    failures: list[float] = field(default_factory=list)  #: times of errors

    def __enter__(self) -> Traffic:
        self._over = threading.Event()
        self._lock = threading.Lock()
        tasks: list[tuple[Callable[[int], None], float]] = [(self._login, LOGINS / THREADS)] * THREADS
        tasks += [(self._beat, BEATS / BATCH / 2)] * 2
        self._threads = [
            threading.Thread(target=self._pace, args=(number, *task), daemon=True) for number, task in enumerate(tasks)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *failed: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def rates(self, seconds: float) -> dict[str, int]:
        """Calls served per second, measured for this many seconds."""
        before = dict(self.served)
        time.sleep(seconds)
        return {name: round((self.served[name] - before[name]) / seconds) for name in before}

    def quiet_since(self, moment: float, seconds: float) -> bool:
        """No call has failed for this long, and every kind of call has been served since then."""
        return time.monotonic() - max([moment, *self.failures[-1:]]) > seconds

    def _pace(self, number: int, act: Callable[[int], None], rate: float) -> None:
        due = time.monotonic() + number / THREADS / rate
        for turn in itertools.count():
            if self._over.wait(max(0.0, due - time.monotonic())):
                return
            due = max(due + 1 / rate, time.monotonic() - 1)  # a call that was delayed does not make up for all of it
            try:
                act(number + turn * len(self._threads))
            except Unavailable:
                self.failures.append(time.monotonic())
            except Exception as error:  # any other error is what this test looks for
                self.wrong.append(repr(error))

    def _login(self, number: int) -> None:
        uid, sid = f"u{number % 397}", f"session-{number}"
        ref = f"{uid}:{sid}"
        try:
            self.presence.login(uid, session_id=sid, device="phone", name="N")
            self.live[ref] = uid
            self._count("logins", 1)
            if number % 10 == 0:
                self.presence.kick(uid, sid, by="staff", reason="test")
                self.kicked[ref] = uid
        except OutcomeUnknown:
            self.unknown.add(ref)
            raise

    def _beat(self, number: int) -> None:
        first = number * BATCH % len(self.crowd)
        gone = self.presence.heartbeats(self.crowd[first : first + BATCH])
        if gone:
            self.wrong.append(f"{gone} are said to be gone: every replica had them")
        self._count("beats", BATCH)

    def _count(self, what: str, number: int) -> None:
        with self._lock:
            self.served[what] += number


def _crowd(presence: Presence, servers: Iterable[Server]) -> list[str]:
    """Log them in, and wait until every server has its master's data."""
    presence.login_many({"uid": f"c{n}", "session_id": "session-c", "device": "phone"} for n in range(CROWD))

    def is_everywhere() -> bool:
        sizes: dict[str, list[int]] = {"master": [], "slave": []}
        for server in servers:
            sizes[server.command("ROLE")[0]].append(server.command("DBSIZE"))
        copies = len(sizes["slave"]) // len(sizes["master"])
        return sorted(sizes["slave"]) == sorted(sizes["master"] * copies)

    wait_for("every replica to have them", is_everywhere)
    return [f"c{n}:session-c" for n in range(CROWD)]


def _under_traffic(
    presence: Presence, crowd: list[str], kill: Callable[[], object], whole: Callable[[], object]
) -> Traffic:
    """``kill`` a master, wait until its servers are ``whole`` again, and check that callers recover automatically."""
    with Traffic(presence, crowd) as traffic:
        wait_for("traffic", lambda: min(traffic.served.values()) > 50)
        rates = traffic.rates(size(0.5, 2))
        assert (traffic.wrong, traffic.failures) == ([], [])
        killed = time.monotonic()
        kill()
        whole()
        healed = time.monotonic()
        wait_for("a second and a half without a failure", lambda: traffic.quiet_since(healed, 1.5), 40)
        last = max(traffic.failures, default=killed)
        after = traffic.rates(size(0.5, 1))
    assert traffic.wrong == [], "callers hear Unavailable and OutcomeUnknown alone"
    assert min(after.values()) > 0
    print(
        f"served a second {rates}, afterwards {after}; whole {healed - killed:.1f} s after the kill, the last of "
        f"{len(traffic.failures)} failures {last - killed:.1f} s after it; {len(traffic.unknown)} outcomes unknown"
    )
    return traffic


def _what_is_left(traffic: Traffic, presence: Presence, raw: Any, had_it: Callable[[str], bool]) -> None:
    """``had_it``: whether the killed master served this user."""
    repaired = presence.repair()
    assert comes_to_agree(presence, raw) >= CROWD
    assert presence.heartbeats(traffic.crowd) == []
    logged_in = [ref for ref in traffic.live if ref not in traffic.kicked and ref not in traffic.unknown]
    lost = presence.heartbeats(logged_in)
    back = set(traffic.kicked) - set(presence.heartbeats(traffic.kicked))
    print(
        f"{repaired}; of {len(logged_in)} logins that were answered {len(lost)} lost, "
        f"of {len(traffic.kicked)} kicks {len(back)} undone"
    )
    assert all(had_it(traffic.live[ref]) for ref in lost), "no other master has lost a login"
    assert all(had_it(traffic.kicked[ref]) for ref in back), "nor a kick"


@pytest.mark.soak  # test_traffic_cluster.py kills one, too
@pytest.mark.cluster
def test_callers_recover_automatically_when_a_cluster_master_dies_under_traffic(tmp_path: Path) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Cluster.start(binary, tmp_path, masters=3, replicas=1) as cluster,
        Presence.from_url(cluster.url, SETTINGS) as p,
        Presence.from_url(cluster.url, Settings(namespace=SETTINGS.namespace, timeout=PATIENT)) as patient,
        cluster.client(decode_responses=True) as raw,
    ):
        crowd = _crowd(patient, cluster.nodes)
        masters = {s.index: cluster.master_of(s.sessions) for s in patient.internal.context.keys.shards}
        victim = masters[0]
        traffic = _under_traffic(p, crowd, victim.kill, cluster.wait_ok)
        _what_is_left(
            traffic, patient, raw, lambda uid: masters[patient.internal.context.keys.shard(uid).index] is victim
        )


@pytest.mark.cluster
def test_callers_recover_automatically_when_a_master_behind_sentinel_dies_under_traffic(tmp_path: Path) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Sentinels.start(binary, tmp_path) as sentinels,
        Presence.from_url(sentinels.url, SETTINGS) as p,
        Presence.from_url(sentinels.url, Settings(namespace=SETTINGS.namespace, timeout=PATIENT)) as patient,
    ):
        crowd = _crowd(patient, sentinels.servers)
        first = sentinels.master()

        def another_is_named() -> None:
            wait_for("another master", lambda: sentinels.master() is not first)
            wait_for("a caller that is served", lambda: _serves(p))

        traffic = _under_traffic(p, crowd, first.kill, another_is_named)
        sentinels.wait_ok()
        with sentinels.master().client(decode_responses=True) as raw:
            _what_is_left(traffic, patient, raw, lambda uid: True)


def _serves(presence: Presence) -> bool:
    try:
        return bool(presence.login("ada", device="phone"))
    except Unavailable:
        return False
