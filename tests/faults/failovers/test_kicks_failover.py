"""Changes that replicas confirmed survive a failover, with none, one or all of the replicas asked.

Behind Sentinel: by hand, kill -9 and SIGSTOP; on a cluster: TAKEOVER, kill -9 and SIGSTOP. Each change has its own
client, as a command has. ``make test`` takes a case or two; with PRESENCE_SOAK the whole table runs.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from presence_core import Job, Login, LoginRefused, Presence, PresenceError, SessionFilter, Settings, Unavailable
from tests.support.faults.failover_harness import SETTINGS, Check, Kick, Log, Trio, Validators, live_after_kick, summary
from tests.support.servers import Cluster, Server, missing, redis_binary, valkey_binary, wait_for

SOAK = bool(os.environ.get("PRESENCE_SOAK"))

PACE, SECONDS = 14.0, 14.0 if SOAK else 3.0
"""Changes a second, and for how many seconds."""

SAID: dict[str, Any] = {"by": "staff", "reason": "test"}

KINDS = ("kick", "logout", "kick all", "replaced", "rotated", "block", "revoked")
LONG_AGO = 1_000.0
"""The sessions to be revoked began this many seconds ago, one per second."""


@dataclass
class Crowd:
    """Sessions to end, by kind of end, and the results."""

    logins: dict[str, list[Login]]
    begun: float
    log: Log = field(default_factory=Log)
    blocked: list[str] = field(default_factory=list)  #: uids whose block was confirmed
    fresh: list[str] = field(default_factory=list)  #: tokens that replaced others, confirmed
    clients: list[Presence] = field(default_factory=list)

    @classmethod
    def begin(cls, url: str, count: int) -> Crowd:
        """``count`` of each kind."""
        now = time.time()
        settings = replace(SETTINGS, absolute_timeout=10 * 86_400, idle_timeout=86_400)
        with Presence.from_url(url, settings) as p:
            logins = {
                kind: [
                    login
                    for login in p.login_many(
                        (
                            {"uid": f"{kind} {n}", "login_at": now - LONG_AGO + n, "last_seen": now}
                            if kind == "revoked"
                            else {"uid": f"{kind} {n}"}
                            for n in range(count)
                        ),
                        imported=True,
                    )
                    if isinstance(login, Login)
                ]
                for kind in KINDS
            }
        return cls(logins, now)

    @property
    def every(self) -> list[Login]:
        return [login for kind in KINDS if kind != "block" for login in self.logins[kind]]

    def end(self, url: str, settings: Settings, pace: float, seconds: float) -> None:
        """End one of each kind in turn at this rate, each with its own client. Those that remain at the end are not
        ended."""
        until = time.monotonic() + seconds
        for number, (kind, login) in enumerate(
            itertools.chain.from_iterable(zip(*([(k, login) for login in self.logins[k]] for k in KINDS), strict=True))
        ):
            due = until - seconds + number / pace
            time.sleep(max(0.0, due - time.monotonic()))
            while time.monotonic() < until:
                try:
                    p = Presence.from_url(url, replace(settings, max_sessions=1) if kind == "replaced" else settings)
                    self.clients.append(p)
                    sure = self._end(p, kind, login, number // len(KINDS))
                    self.log.kicks.append(Kick(login.session.ref, time.monotonic(), sure))
                except Unavailable:  # also for OutcomeUnknown: repeated, as the docs say
                    time.sleep(0.02)
                    continue
                except LoginRefused:  # a rotate whose reply was lost
                    pass
                except PresenceError as error:
                    self.log.wrong.append(f"{kind}: {error!r}")
                break

    def _end(self, p: Presence, kind: str, login: Login, number: int) -> bool:
        """Whether it is confirmed."""
        uid, sid = login.session.uid, login.session.session_id
        if kind == "kick":
            return bool(p.kick(uid, sid, **SAID).confirmed)
        if kind == "kick all":
            return bool(p.kick(uid, **SAID).confirmed)
        if kind == "block":
            sure = bool(p.block(uid, **SAID).confirmed)
            self.blocked += [uid] if sure else []
            return sure
        if kind == "logout":
            p.logout(uid, sid)
        elif kind == "replaced":
            p.login(uid)
        elif kind == "rotated":
            token = p.rotate(login.token).token
        else:
            p.revoke_before(self.begun - LONG_AGO + number + 0.5, **SAID)
        held = getattr(p, "held", p.unconfirmed)()
        sure = bool(held and p.settings.confirm_replicas and not p.unconfirmed())
        if kind == "rotated" and sure:
            self.fresh.append(token)
        return sure

    def left(self, url: str, *, confirmed: bool = True) -> list[str]:
        """Changes that were lost in the end: either the confirmed ones, or all others."""
        ended = {kick.ref for kick in self.log.kicks if kick.confirmed is confirmed}
        with Presence.from_url(url, SETTINGS) as p:
            back = [login.session.ref for login in self.every if login.session.ref in ended and p.validate(login.token)]
            if not confirmed:
                return back
            back += [f"block of {uid}" for uid in self.blocked if not p.blocked(uid)]
            return back + [f"new token {number}" for number, token in enumerate(self.fresh) if not p.validate(token)]

    def close(self) -> None:
        for client in self.clients:
            client.close(wait=0)


def report(title: str, crowd: Crowd, failed_at: float, left: list[str], others: list[str]) -> list[Check]:
    late = live_after_kick(crowd.log)
    by_kind: dict[str, int] = {}
    for ref in {check.ref for check in late}:
        kind = ref.rpartition(":")[0].rpartition(" ")[0]
        by_kind[kind] = by_kind.get(kind, 0) + 1
    last = max((check.started - failed_at for check in late), default=0.0)
    print(
        f"{title}: {summary(crowd.log)}; last {last:.1f} s after the fault; {by_kind}; in the end live {len(left)} "
        f"confirmed {left[:3]} and {len(others)} others"
    )
    return late


@contextmanager
def watched(url: str, crowd: Crowd, seconds: float) -> Iterator[None]:
    """Sessions are validated until this many seconds after the fault."""
    with Validators(url, crowd.every, crowd.log) as asking:
        yield
        asking.seconds(seconds)


def run(title: str, url: str, fault: Callable[[], object], settings: Settings) -> tuple[list[Check], list[str], Crowd]:
    """End sessions one after the other, with the fault one second after the begin."""
    crowd = Crowd.begin(url, int(PACE * SECONDS / len(KINDS)))
    try:
        with watched(url, crowd, 4 if SOAK else 1):
            failed_at: list[float] = []

            def later() -> None:
                time.sleep(1)
                failed_at.append(time.monotonic())
                fault()

            breaking = threading.Thread(target=later)
            breaking.start()
            crowd.end(url, settings, PACE, SECONDS)
            breaking.join()
        left = crowd.left(url)
        return report(title, crowd, failed_at[0], left, crowd.left(url, confirmed=False)), left, crowd
    finally:
        crowd.close()


SENTINEL = [(fault, number) for fault in ("by hand", "kill -9", "SIGSTOP") for number in (0, 1, 2)]


@pytest.mark.cluster
@pytest.mark.parametrize(("fault", "replicas"), SENTINEL if SOAK else [("by hand", 1)])
def test_confirmed_changes_survive_a_failover_behind_sentinel(tmp_path: Path, fault: str, replicas: int) -> None:
    with Trio.start(tmp_path) as trio:
        settings = replace(SETTINGS, confirm_replicas=replicas, confirm_timeout=500)
        acts: dict[str, Callable[[], object]] = {
            "by hand": trio.fail_over,
            "kill -9": trio.first.kill,
            "SIGSTOP": lambda: _stop_for_a_while(trio.first),
        }
        late, left, crowd = run(f"{fault}, N={replicas}", trio.url, acts[fault], settings)
        assert crowd.log.wrong == []
        if replicas == 2:
            assert late == []
        assert left == []


CLUSTER = [(fault, number) for fault in ("TAKEOVER", "kill -9", "SIGSTOP") for number in (0, 1, 2)]


def _replica_of(cluster: Cluster, master: Server) -> Server:
    for node in cluster.nodes:
        role = node.command("ROLE")
        if role[0] == "slave" and role[2] == master.port:
            return node
    raise LookupError("it has no replica")


def _stop_for_a_while(server: Server) -> None:
    server.pause()
    time.sleep(8)
    server.resume()


@pytest.mark.soak  # test_failover_cluster.py takes over by hand, too
@pytest.mark.cluster
@pytest.mark.parametrize(("fault", "replicas"), CLUSTER if SOAK else [("TAKEOVER", 1)])
def test_confirmed_changes_survive_a_failover_on_a_cluster(tmp_path: Path, fault: str, replicas: int) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Cluster.start(binary, tmp_path, masters=3, replicas=2 if SOAK else 1) as cluster:
        settings = replace(SETTINGS, confirm_replicas=replicas, confirm_timeout=500)
        victim = cluster.nodes[1]  # the URL of the cluster names the first master
        act: Callable[[], object] = {
            "TAKEOVER": lambda: _replica_of(cluster, victim).command("CLUSTER", "FAILOVER", "TAKEOVER"),
            "kill -9": victim.kill,
            "SIGSTOP": lambda: _stop_for_a_while(victim),
        }[fault]
        late, left, crowd = run(f"cluster, {fault}, N={replicas}", cluster.url, act, settings)
        assert crowd.log.wrong == []
        assert left == []
        assert late == [] or replicas < 2


@pytest.mark.cluster
def test_a_bulk_kick_during_a_failover_behind_sentinel_says_what_it_has_ended(tmp_path: Path) -> None:
    number = 2_000
    with Trio.start(tmp_path) as trio:
        settings = replace(SETTINGS, confirm_replicas=1, confirm_timeout=500)
        with Presence.from_url(trio.url, settings) as p:
            p.login_many({"uid": f"u{n}"} for n in range(number))
            failing = threading.Thread(target=trio.fail_over)

            def step(job: Job) -> None:
                if job.kicked >= number // 4 and failing.ident is None:
                    failing.start()

            job_id, result = "", None
            everyone = SessionFilter(logged_in_after=1.0)
            try:
                result = p.kick_where(everyone, expected=number, pace=1_000, on_progress=step, **SAID)
            except Unavailable:  # as the docs say: the job goes on
                job_id = p.jobs(limit=1).items[0].id
            while result is None:
                try:
                    result = p.run_job(job_id)
                except Unavailable:
                    time.sleep(0.05)
            failing.join()
            trio.wait_switched()
            assert result.job is not None
            job = result.job
            assert job.state == "done"
            left = p.counts().sessions
            print(f"{job.kicked} of {job.total}, {left} live, confirmed {result.confirmed}, {job.error}")
            if job.error is None:
                assert (job.kicked, left) == (number, 0)
            else:
                assert result.confirmed is False
            wait_for("all to be ended", lambda: p.counts().sessions == 0)
            wait_for("all to be counted", lambda: (found := p.job(job.id)) is not None and found.kicked == number)
            assert p.counts().totals["kicked"] == number
            p.internal.context.held.clear()
