"""Reshard: all data is copied, while visitors log in and out and coordinators die at any step."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from presence_core import (
    CorruptData,
    InvalidArgument,
    LoginRefused,
    OutcomeUnknown,
    SessionFilter,
    Unavailable,
    Worker,
)
from presence_core.cli import main
from presence_core.client import reshard
from presence_core.keyspace import Keyspace, Shard
from presence_core.operations import layout
from presence_core.operations.privacy import erase
from presence_core.operations.privacy.identity import Identity, Trace
from presence_core.operations.reshard import coordinator, copier
from presence_core.operations.search import rebuild
from presence_core.operations.search.list_sessions import list_sessions
from presence_core.scripts.calls import Call, call_of
from presence_core.scripts.reshard import COMMIT_LAYOUT
from presence_core.scripts.script import AnyScript
from presence_core.transport import SyncTransport
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.faults.outages import all_at_once, failure
from tests.support.servers import wait_for
from tests.support.soak import size

ROOT = Path(__file__).parents[3]
AGENTS = ("curl/8", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0")


class Died(BaseException):
    """Raised where the process would die: no cleanup runs."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)


def _seed(p: P) -> list[Any]:
    """Write some data of every kind; returns the logins."""
    rows = [{"uid": f"u{n % 40}", "name": f"Name {n % 40}", "aliases": [f"alias{n % 40}"], "device": f"d{n % 3}",
             "user_agent": AGENTS[n % 2], "ip": f"192.0.2.{n % 9}", "attributes": {"plan": n % 2}}
            for n in range(90)]  # fmt: skip
    logins = p.login_many([*rows, *({"uid": f"b{n}", "device": "bulk"} for n in range(9))])
    p.login("a:{b}:ü")
    p.kick("u1", by="staff", reason="one", message="Bye.", ticket="T1")
    p.kick("u2", p.sessions("u2")[0].session_id, by="staff", reason="only one")
    for session in p.sessions("u3"):
        p.logout("u3", session.session_id)
    p.block("u4", by="staff", reason="hold", message="Held.", duration=3600)
    p.block("nobody", by="staff", reason="for ever")
    p.kick_where(SessionFilter(device="bulk"), by="staff", reason="bulk", expected=9)
    p.audit_note(by="staff", what="export", reason="asked for")
    p.set_staff("boss@example.org", "admin", by="setup")
    p.save_item("watch", "u1", "Name 1", by="boss@example.org")
    p.sweep()
    return logins


def _picture(p: P) -> dict[str, Any]:
    counts = p.counts()
    return {
        "sessions": sorted(map(repr, p.iter_sessions())),
        "of users": [p.sessions(f"u{n}") for n in range(40)],
        "ended": [p.ended(uid).items for uid in ("u1", "u2", "u3", "b1")],
        "recently ended": sorted(map(repr, p.ended(limit=1000).items)),
        "counts": (counts.users, counts.sessions, counts.totals, counts.swept_at),
        "facets": [p.facets(name) for name in ("browser", "device", "plan")],
        "found": [sorted(session.ref for session in p.iter_sessions(SessionFilter(text=word)))
                  for word in ("alias7", "name", "192.0.2.3", "u1")],
        "people": [sorted(map(repr, p.people(word, limit=100))) for word in ("name 3", "u1", "alias1")],
        "online": sorted(p.online_users(3600)),
        "blocks": p.blocks().items,
        "audit": sorted(map(repr, p.audit(limit=1000).items)),
        "jobs": [(job.id, job.kicked, job.state) for job in p.jobs().items],
        "staff": p.staff(),
        "requests": p.approval_requests(),
        "saved": p.saved_items("watch", owner="boss@example.org"),
    }  # fmt: skip


def _left(bed: Bed, shards: int) -> set[bytes]:
    """The keys of this layout, without the fences that refuse outdated clients."""
    found = bed.raw.scan_iter(match=f"{{{bed.namespace}:{shards}:*", count=5000)
    return {key for key in found if not key.endswith(b"}:moved")}


def _hold_ends(bed: Bed) -> None:
    """As if ten seconds had passed."""
    assert 0 < bed.raw.pttl(f"{{{bed.namespace}}}:moving") <= 10_000
    bed.raw.delete(f"{{{bed.namespace}}}:moving")


def _is_refused(error: Unavailable) -> bool:
    """It may retry until there is no time left for the reply of the last try."""
    return "is being resharded" in str(error) or isinstance(error, OutcomeUnknown)


def _first(bed: Bed) -> tuple[int, ...]:
    return size((2, 4, 3), (4, 16, 8)) if bed.is_cluster else (1, 4, 2)


STOPS_WHILE_IT_COPIES = """
import os, signal, sys
from presence_core import Presence
def stop(step, _):
    if step == "copy":
        os.kill(os.getpid(), signal.SIGSTOP)
Presence.from_env().reshard(int(sys.argv[1]), on_progress=stop)
"""


class Visitors(threading.Thread):
    """Log in, send heartbeats, and are kicked. Each call waits while the writes are frozen, and is repeated if
    refused."""

    def __init__(self, p: P) -> None:
        super().__init__(daemon=True)
        self._p, self._over = p, threading.Event()
        self.live: dict[str, Any] = {}
        self.kicked: dict[str, Any] = {}
        self.wrong: list[str] = []
        self.rounds = 0

    def _surely(self, call: Callable[..., Any], *words: Any, **named: Any) -> Any:
        while True:
            try:
                return call(*words, **named)
            except Unavailable:
                pass

    def run(self) -> None:
        p, rng = self._p, random.Random(7)
        try:
            while not self._over.is_set():
                uid, sid = f"v{rng.randrange(30)}", f"visit-{self.rounds:06}"
                login = self._surely(p.login, uid, session_id=sid, name="Visitor")
                self.live[sid] = login
                self._surely(p.heartbeat, uid, sid)
                if self.rounds % 3 == 0:
                    gone = self.live.pop(rng.choice(list(self.live)))
                    at = gone.session
                    self._surely(p.kick, at.uid, at.session_id, by="staff", reason="traffic")
                    self.kicked[at.session_id] = gone
                for known, expected in ((self.live, True), (self.kicked, False)):
                    for checked in rng.sample(list(known.values()), min(3, len(known))):
                        if bool(self._surely(p.validate, checked.token)) is not expected:
                            self.wrong.append(f"{checked.session.ref} ought to be {expected}")
                self.rounds += 1
        except BaseException as error:
            self.wrong.append(repr(error))

    def stop(self) -> None:
        self._over.set()
        self.join(60)


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_all_data_is_copied_wherever_the_coordinator_dies(bed: Bed) -> None:
    first, second, third = _first(bed)
    p = bed.connect(shards=first, facets=("plan",))
    logins = _seed(p)
    before = _picture(p)
    for goal in (second, third):
        for step in ("copy", "index") if bed.is_cluster else ("copy", "check", "index", "remove"):

            def die(at: str, _: int, step: str = step) -> None:
                if at == step:
                    raise Died

            with pytest.raises(Died):
                p.reshard(goal, on_progress=die)
            _hold_ends(bed)
        done = p.reshard(goal)
        assert done.shards == goal
        assert _picture(p) == before
        assert p.reshard(goal).keys == 0, "there is nothing to do"
    assert not _left(bed, first)
    assert not _left(bed, second)
    assert _left(bed, third)
    fresh = bed.connect(facets=("plan",))
    assert _picture(fresh) == before
    assert p.repair().repaired == 0
    assert p.validate(logins[0].token)
    assert not p.validate(logins[1].token)


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_visitors_log_in_and_out_during_a_reshard_whose_coordinator_is_killed(bed: Bed) -> None:
    first, second, third = _first(bed)
    p, many = bed.connect(shards=first, timeout=5.0), 300 if bed.is_cluster else size(300, 1_000)
    p.login_many([{"uid": f"u{n}", "name": "Somebody"} for n in range(many)])
    visitors = Visitors(bed.connect(timeout=5.0))
    visitors.start()
    environ = {**os.environ, "PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace}
    words = [sys.executable, "-c", STOPS_WHILE_IT_COPIES, str(second)]
    fence = Keyspace(bed.namespace, first).shards[0].moved
    with subprocess.Popen(words, cwd=ROOT, env=environ) as mover:
        os.waitpid(mover.pid, os.WUNTRACED)
        assert bed.raw.hget(fence, "state") == b"copying"
        with pytest.raises(Unavailable, match="Another process is resharding"):
            bed.connect().reshard(third)
        mover.send_signal(signal.SIGKILL)
    assert bed.raw.hget(f"{{{bed.namespace}}}:layout", "shards") == str(first).encode(), "killed while it copied"
    assert 0 < bed.raw.pttl(fence) <= 3_600_000, "nor is anything noted for ever"
    _hold_ends(bed)
    for goal in (second, third):
        rounds = visitors.rounds
        assert p.reshard(goal).shards == goal
        while visitors.rounds < rounds + 5 and visitors.is_alive():
            time.sleep(0.01)
    visitors.stop()
    assert not visitors.wrong
    assert visitors.kicked
    listed = {session.session_id for session in p.iter_sessions() if session.uid.startswith("v")}
    assert listed == set(visitors.live)
    assert all(map(p.validate, (login.token for login in visitors.live.values())))
    assert not any(map(p.validate, (login.token for login in visitors.kicked.values())))
    counts = p.counts()
    assert counts.sessions == many + len(visitors.live)
    assert counts.totals["kicked"] == len(visitors.kicked)
    assert counts.totals["login"] == counts.sessions + len(visitors.kicked)
    assert p.audit(limit=1000).total == len(visitors.kicked)
    assert p.count_sessions(SessionFilter(text="visitor")) == len(visitors.live)
    assert not _left(bed, first)
    assert not _left(bed, second)


@on("valkey-sync")
@pytest.mark.parametrize(
    ("room", "act"),
    [(copier, "write_keys"), (coordinator, "_finish_step"), (coordinator, "claim_all")],
    ids=["copies", "opens", "removes"],
)
def test_a_coordinator_that_was_paused_and_wakes_later_writes_nothing(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, room: Any, act: str
) -> None:
    p, other = bed.connect(shards=1, facets=("plan",)), bed.connect(facets=("plan",))
    victim = p.login("victim")
    _seed(p)
    pictures: list[Any] = []
    late: list[Any] = []
    real = getattr(room, act)

    def sleep() -> None:
        late.append(act)
        _hold_ends(bed)
        other.reshard(2)
        other.kick("victim", by="staff", reason="while it slept")
        if act == "claim_all":  # the shards that it would remove are in use again
            other.reshard(1)
        pictures.append(_picture(other))

    def before_writing(*words: Any) -> Any:
        removes = bed.raw.hget(f"{{{bed.namespace}}}:layout", "step") == b"remove"
        if not late and (removes or act != "claim_all"):
            sleep()
        return (yield from real(*words))

    monkeypatch.setattr(room, act, before_writing)
    with pytest.raises(Unavailable, match="lost its claim"):
        p.reshard(2)
    assert late
    assert not bed.raw.hexists(f"{{{bed.namespace}}}:layout", "step")
    assert _picture(other) == pictures[0]
    assert not other.validate(victim.token)


@on("valkey-sync", "redis7-sync")
def test_during_the_freeze_reads_work_and_writes_are_refused_whole(bed: Bed) -> None:
    p, reader, hasty = bed.connect(shards=2), bed.connect(), bed.connect(timeout=1)
    login = p.login("ada")
    seen: list[Any] = []

    def try_all(step: str, _: int) -> None:
        if step != "last":
            return
        frozen = bed.dump()
        assert reader.validate(login.token)
        assert reader.counts().sessions == 1
        assert [session.uid for session in reader.list_sessions()] == ["ada"]
        at = login.session
        writes: dict[str, Callable[[], Any]] = {
            "login": lambda: hasty.login("eve"),
            "kick": lambda: hasty.kick("ada", by="staff", reason="r"),
            "logout": lambda: hasty.logout("ada", at.session_id),
            "sweep": hasty.sweep,
            "heartbeat": lambda: hasty.heartbeat("ada", at.session_id),
            "block": lambda: hasty.block("ada", by="staff", reason="r"),
        }
        for name, error in all_at_once(writes).items():
            assert _is_refused(error), name
        seen.append(bed.dump() == frozen)

    p.reshard(4, on_progress=try_all)
    assert seen == [True]
    wait_for("the reader to look again", lambda: reader.validate(login.token))
    assert reader.kick("ada", by="staff", reason="now").count == 1


class Staff:
    """A random action of any kind at each call."""

    def __init__(self, p: P, seed: int) -> None:
        self._p, self._rng, self._n = p, random.Random(seed), 0
        self.done: list[str] = []

    def __call__(self) -> None:
        p, rng = self._p, self._rng
        uid = f"u{rng.randrange(12)}"
        live = p.sessions(uid)
        sid = rng.choice(live).session_id if live else "none"
        said: dict[str, Any] = {"by": "staff", "reason": rng.choice(("one", "again", "a reason of its own"))}
        phones = SessionFilter(device="d1")
        self._n += 1
        acts: dict[str, Callable[[], Any]] = {
            "login": lambda: p.login(uid, session_id=f"new-{self._n:05}", name=f"Name {self._n}",
                                     user_agent=f"agent/{rng.randrange(5)}", device=f"d{rng.randrange(4)}"),
            "login again": lambda: p.login(uid, session_id=sid, name="Renamed") if live else None,
            "short": lambda: p.login(uid, session_id=f"brief-{self._n:05}", idle_timeout=60),
            "kick": lambda: p.kick(uid, **said, message="Bye."),
            "kick one": lambda: p.kick(uid, sid, **said),
            "logout": lambda: p.logout(uid, sid),
            "heartbeat": lambda: p.heartbeat(uid, sid),
            "validate": lambda: p.validate(self._token(live), ip=f"192.0.2.{rng.randrange(99)}"),
            "block": lambda: p.block(uid, by="staff", reason=f"held {self._n}", duration=3600),
            "kick and block": lambda: p.kick(uid, **said, block_for=600),
            "unblock": lambda: p.unblock(uid, by="staff", reason="paid"),
            "revoke": lambda: p.revoke_before(p.clock.ms / 1000 - 40, by="staff", reason="leak"),
            "time": lambda: p.advance(rng.choice((0.1, 5, 30))),
            "sweep": p.sweep,
            "repair": p.repair,
            "staff": lambda: p.set_staff(f"s{self._n % 5}@example.org", rng.choice(("viewer", "support")), by="setup"),
            "job": lambda: p.kick_where(phones, **said, expected=p.count_sessions(phones)),
            "note": lambda: p.audit_note(by="staff", what="export", reason=f"{self._n}"),
        }  # fmt: skip
        name = rng.choice(list(acts))
        with contextlib.suppress(LoginRefused, InvalidArgument):
            acts[name]()
            self.done.append(name)

    def _token(self, live: list[Any]) -> str:
        """The login of a new session, whose token is known."""
        return str(self._p.login("guest", session_id=f"guest-{self._n:05}").token)


@on("valkey-sync", "cluster-sync", soak=("sync",))
@pytest.mark.parametrize("seed", range(size(1, 3)))
def test_every_change_during_the_copy_is_copied_too(bed: Bed, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(coordinator, "FEW", 0)
    monkeypatch.setattr(coordinator, "BATCH", 40)
    first, second, third = _first(bed)
    p = bed.connect(shards=first, facets=("plan",), max_sessions=4)
    _seed(p)
    p.freeze()
    p.advance(100)
    other = bed.connect(facets=("plan",), max_sessions=4)
    act, steps, left = Staff(other, seed), [], [0]
    pictures: list[dict[str, Any]] = []

    def meanwhile(step: str, _: int) -> None:
        if step in ("copy", "check", "change"):
            for _ in range(min(20, left[0])):
                left[0] -= 1
                act()
                if left[0] == 0:  # as a reindex would do
                    other.sweep()
        elif step == "last":
            pictures.append(_picture(other))
        steps.append(step)

    for goal in (second, third):
        left[0] = size(80, 120)
        with contextlib.suppress(Unavailable):  # the first call after a reshard may only report the new layout
            other.counts()
        done = p.reshard(goal, on_progress=meanwhile)
        assert _picture(p) == pictures[-1]
        assert p.repair().repaired == 0
        assert done.sessions == sum(1 for _ in p.iter_sessions())
    assert left == [0], "it has done all of it, and swept"
    assert len(set(act.done)) > 12
    assert set(steps) >= {"copy", "check", "change", "last", "index", "remove"}


@on("valkey-sync", soak=("cluster-sync",))
def test_the_next_coordinator_copies_only_uncopied_and_changed_data(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "BATCH", 40)
    first, second, _ = _first(bed)
    p = bed.connect(shards=first, facets=("plan",))
    logins = _seed(p)
    p.login_many([{"uid": f"more{n}", "name": "More", "user_agent": f"agent/{n}"} for n in range(size(100, 200))])
    said: list[int] = []

    def die(step: str, copied: int) -> None:
        said.append(copied)
        if step == "check":
            raise Died

    with pytest.raises(Died):
        p.reshard(second, on_progress=die)
    _hold_ends(bed)
    for n in range(5):
        p.kick(f"more{n}", by="staff", reason="meanwhile", message="Bye.")
        p.login(f"late{n}", name="Late", user_agent="late/1")
    p.kick(logins[5].session.uid, by="staff", reason="meanwhile")
    before = _picture(p)
    done = p.reshard(second)
    assert _picture(p) == before
    assert done.keys < said[-1] / 4, "those of some users only"
    assert p.repair().repaired == 0

    with pytest.raises(Died):
        p.reshard(first, on_progress=die)
    _hold_ends(bed)
    for shard in p.context.keys.shards:  # an hour later
        bed.raw.delete(shard.moved)
    p.kick("more7", by="staff", reason="nobody notes this")
    before = _picture(p)
    assert p.reshard(first).keys > said[-1] / 2, "begun again"
    assert _picture(p) == before


@on("valkey-sync")
def test_no_person_can_be_erased_during_the_copy(bed: Bed) -> None:
    """Neither if the erasure begins now, nor if it began before."""
    p, other = bed.connect(shards=1), bed.connect(timeout=0.3)
    p.login("quill", name="Quill")
    p.kick("quill", by="staff", reason="quill asked")
    other.counts()
    shard = other.context.shard("quill")
    tried: list[str] = []

    def meanwhile(step: str, _: int) -> None:
        if step == "copy" and not tried:
            with pytest.raises(Unavailable, match="call erase when presence reshard has finished"):
                other.erase("quill", by="dpo", reason="asked")
            with pytest.raises(Unavailable, match="is being resharded"):
                other.internal.run(
                    erase._erase_records(other.context, shard, Identity("quill", "forgotten:x"), Trace())
                )
            tried.append(step)

    p.reshard(2, on_progress=meanwhile)
    assert tried
    assert p.erase("quill", by="dpo", reason="asked").complete
    assert not [key for key, value in bed.dump().items() if b"quill" in key + value]


@on("valkey-sync")
def test_a_bulk_kick_that_begins_during_the_copy_is_waited_for_and_the_copy_is_kept(bed: Bed) -> None:
    p, other = bed.connect(shards=1), bed.connect()
    p.login_many([{"uid": f"u{n}", "device": "phone"} for n in range(50)])
    jobs: list[Any] = []

    def meanwhile(step: str, _: int) -> None:
        if step == "check" and not jobs:
            jobs.append(other.start_kick(SessionFilter(device="phone"), by="staff", reason="r", expected=50))

    with pytest.raises(Unavailable, match="bulk kick is running"):
        p.reshard(2, on_progress=meanwhile)
    assert other.login("eve").token, "nothing stays closed"
    assert other.run_job(jobs[0].id).count == 50
    done = p.reshard(2)
    assert done.sessions == 1
    assert p.counts().totals["kicked"] == 50
    assert [job.kicked for job in p.jobs().items] == [50]
    assert p.ended(limit=1000).total == 50


@on("valkey-sync")
def test_a_running_bulk_kick_is_waited_for(bed: Bed) -> None:
    p = bed.connect(shards=1)
    p.login("ada")
    p.start_kick(SessionFilter(uid="ada"), by="staff", reason="r", expected=1)
    with pytest.raises(Unavailable, match="bulk kick is running"):
        p.reshard(2)
    assert p.login("eve").token, "nothing stays closed"
    [job] = p.jobs().items
    p.pause_job(job.id, by="staff")
    p.reshard(2)
    p.resume_job(job.id, by="staff")
    assert p.run_job(job.id).count == 1
    assert p.counts().sessions == 1


@on("valkey-sync")
def test_a_copy_that_differs_is_discarded(bed: Bed) -> None:
    p = bed.connect(shards=1, facets=("plan",))
    _seed(p)
    before = _picture(p)

    def lose(step: str, _: int) -> None:
        if step == "check":
            shard = Keyspace(bed.namespace, 2).shards[0]
            bed.raw.zremrangebyrank(shard.sessions, 0, 0)

    with pytest.raises(CorruptData, match="do not agree"):
        p.reshard(2, on_progress=lose)
    assert _picture(p) == before
    assert not _left(bed, 2), "nor does it take memory"
    bed.raw.set(f"{{{bed.namespace}:1:0}}:unheard-of", "x")
    with pytest.raises(CorruptData, match="no key that this version knows"):
        p.reshard(2)
    assert _picture(p) == before
    assert p.login("eve").token


@on("valkey-sync", "redis7-sync")
def test_a_key_that_was_not_copied_is_missed_before_the_old_shards_are_frozen(bed: Bed) -> None:
    p = bed.connect(shards=1, facets=("plan",))
    uid = p.login("u1", name="N").session.uid
    p.login("u2", name="M")
    before, steps = _picture(p), []

    def lose(step: str, _: int) -> None:
        steps.append(step)
        if step == "copy":
            bed.raw.delete(Keyspace(bed.namespace, 2).shard(uid).user(uid))

    with pytest.raises(CorruptData, match="1 keys were not copied"):
        p.reshard(2, on_progress=lose)
    assert "last" not in steps
    assert _picture(p) == before


def _die_at(script: AnyScript, patch: pytest.MonkeyPatch) -> None:
    """The coordinator dies before it reports this step."""

    def dying(asked: AnyScript, *words: Any) -> Call:
        if asked is script:
            raise Died
        return call_of(asked, *words)

    patch.setattr(coordinator, "call_of", dying)


@on("valkey-sync", "cluster-sync")
@pytest.mark.parametrize("goal", [1, 2], ids=["back", "elsewhere"])
def test_a_reshard_is_given_up_by_a_request_for_another_number(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, goal: int
) -> None:
    p, visitor = bed.connect(shards=1, facets=("plan",)), bed.connect(timeout=1)
    _seed(p)
    before = _picture(p)
    with monkeypatch.context() as patch:
        _die_at(COMMIT_LAYOUT, patch)
        with pytest.raises(Died):
            p.reshard(4)
    assert _left(bed, 4)
    assert _is_refused(failure(lambda: visitor.login("eve")))
    _hold_ends(bed)
    [informed] = [finding for finding in p.health().findings if "reshard to 4 shards" in finding.text]
    assert informed.advice is not None
    assert "presence reshard --shards 4" in informed.advice
    assert p.reshard(goal).shards == goal
    assert not _left(bed, 4), "a forget would not reach it"
    assert _picture(p) == before
    wait_for("a login", lambda: visitor.login("eve"))
    assert not any("being moved" in finding.text for finding in p.health().findings)


@on("valkey-sync")
def test_doctor_reports_an_interrupted_reshard(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    p = bed.connect(shards=1)
    p.login("ada")
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "_open", _died)
        with pytest.raises(Died):
            p.reshard(4)
    assert any("reshard to 4 shards" in finding.text for finding in bed.connect().health().findings)
    _hold_ends(bed)
    p.reshard(4)
    assert p.counts().sessions == 1


def _died(*_: object) -> Any:
    raise Died


@on("valkey-sync")
def test_a_worker_continues_in_the_new_shards(bed: Bed) -> None:
    """Duties that it does in parts begin again there, because their stored positions are of shards that are no longer
    used."""
    p = bed.connect(shards=1, truncate_addresses_after=1)
    at_work = Worker(bed.connect(truncate_addresses_after=1), interval=0.05)

    def work(turns: int) -> None:
        for _ in range(turns):
            for duty in at_work._duties:
                duty.due = 0.0
            at_work._turn()

    p.login("ada", name="Ada")
    work(1)
    assert at_work.last_error is None
    shard = Keyspace(bed.namespace, 1).shards[0]
    at_work._index_repair._rebuilds = [rebuild.Filling(at_work._presence.internal.context, shard)]
    p.reshard(2)
    new = p.context.keys.shards[1]
    bed.raw.zadd(new.words, {"nnobody\0nobody": 0})
    work(6)
    assert at_work.last_error is None
    assert bed.raw.zscore(new.words, "nnobody\0nobody") is None


@on("valkey")
def test_a_call_that_meets_a_reshard_is_refused_and_not_mixed_up(bed: Bed) -> None:
    p = bed.connect(shards=2)
    p.login("ada", device="phone")
    asked = layout.with_layout(p.context, list_sessions(p.context, SessionFilter(device="phone"), 10, None))
    first = next(asked)
    transport = SyncTransport(bed.raw, 2.0)

    def reply(to: list[Call]) -> list[Any]:
        def send() -> Any:
            return (yield to)

        return transport.run(send())

    def go_on(calls: list[Call]) -> None:
        while True:
            calls = asked.send(reply(calls))

    then = asked.send(reply(first))
    p.context.adopt(4, b"")  # another thread has read the layout
    with pytest.raises(Unavailable) as refused:
        go_on(then)
    assert refused.value.code == "LAYOUT"


@on("valkey-sync")
def test_a_client_with_a_layout_newer_than_a_restored_snapshot_goes_on_with_the_snapshot(bed: Bed) -> None:
    p = bed.connect(shards=1)
    token = p.login("ada").token
    snapshot = {key: bed.raw.dump(key) for keys in bed.families().values() for key in keys}
    p.reshard(2)
    p.login("eve")
    bed.raw.delete(*(key for keys in bed.families().values() for key in keys))
    for key, value in snapshot.items():
        bed.raw.restore(key, 0, value)
    p.context.cache.look_at = 0.001  # some seconds later
    assert p.validate(token)
    assert p.counts().sessions == 1
    [finding] = [finding for finding in p.health().findings if "was gone" in finding.text]
    assert "and then it had 1 shards instead of 2" in finding.text


@on("cluster-sync")
def test_the_coordinator_knows_masters_that_joined_after_its_client_began(bed: Bed) -> None:
    p = bed.connect(shards=4)
    uids = [f"u{n}" for n in range(20)]
    for uid in uids:
        p.block(uid, by="staff", reason="hold")
    client = p._transport._client
    newest = client.get_primaries()[0]
    del client.nodes_manager.nodes_cache[newest.name]
    p.reshard(2)
    assert all(map(p.blocked, uids))


@on("valkey-sync")
def test_texts_with_the_same_label_id_on_two_shards_are_not_confused(bed: Bed) -> None:
    p = bed.connect(shards=2)
    uids = [f"u{n}" for n in range(12)]
    for uid in uids:
        p.login(uid, user_agent=f"{uid}/1")
    by_shard: dict[Shard, list[str]] = {}
    for uid in uids:
        by_shard.setdefault(p.context.shard(uid), []).append(uid)
    ids = []
    for shard, (uid, *_) in by_shard.items():  # two texts with one digest are rare, so the test makes them
        record = shard.record(uid, p.sessions(uid)[0].session_id)
        core = bed.raw.hget(record, "c")
        ids.append(core[36:40])
        bed.raw.hset(record, "c", core[:36] + b"same" + core[40:])
        bed.raw.hset(shard.labels, "same", bed.raw.hget(shard.labels, core[36:40]))
    assert len(ids) == 2
    p.reshard(1)
    assert {session.uid: session.user_agent for session in p.iter_sessions()} == {uid: f"{uid}/1" for uid in uids}


@on("valkey")
def test_clients_with_the_old_number_find_the_new_one(bed: Bed) -> None:
    p, informed = bed.connect(shards=2), bed.connect(shards=2)
    login = informed.login("ada")
    cursor = informed.events_end()
    p.reshard(1)
    with pytest.raises(Unavailable, match="is being resharded"):
        informed.validate(login.token)
    assert informed.validate(login.token), "the next call looks where they are"
    [gap] = informed.events(after=cursor)
    assert gap.kind == "gap"
    informed.login("eve")
    assert [event.kind for event in informed.events(after=gap.cursor)] == ["login"]
    assert bed.connect(shards=2).counts().sessions == 2, "settings may follow later"
    with pytest.raises(InvalidArgument, match="must be 1"):
        bed.connect(shards=8).counts()
    with pytest.raises(InvalidArgument, match="1024"):
        p.reshard(1025)


@on("valkey-sync")
def test_the_command_reshards_and_reports_its_result(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    bed.connect().login("ada")
    assert main(["reshard", "--shards", "4", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["before"], done["shards"], done["sessions"]) == (1, 4, 1)
    assert done["removed"] > 0
    assert main(["reshard", "--shards", "2"]) == 0
    assert "Moved from 4 to 2 shards: copied 1 session in" in capsys.readouterr().out
    assert main(["reshard", "--shards", "2"]) == 0
    assert "There are already 2 shards." in capsys.readouterr().out
    assert main(["reshard", "--shards", "0"]) == 2
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "_open", _died)
        with pytest.raises(Died):
            bed.connect().reshard(3)
    _hold_ends(bed)
    assert main(["reshard", "--shards", "3"]) == 0
    assert "Moved from 2 to 3 shards: removed " in capsys.readouterr().out
    bed.raw.hset(f"{{{bed.namespace}}}:moving", mapping={"state": "frozen", "token": "another"})
    assert main(["reshard", "--shards", "4"]) == 3
    assert "Another process is resharding" in capsys.readouterr().err
