"""Confirmed changes that a failover loses nevertheless: the client holds them and applies them again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from presence_core import Job, SessionFilter, Unavailable, cli
from presence_core.operations.bulk_kick.runner import Run
from presence_core.operations.durability import held_changes
from presence_core.scripts.bulk_kick import KICK_SESSIONS
from tests.conftest import Bed, on, one_mode
from tests.contract.bulk_kick.test_jobs import Held
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import SYNC_AT_ONCE, Server, in_sync, missing, redis_binary, valkey_binary, wait_for

SAID: dict[str, Any] = {"by": "staff", "reason": "test"}
TIMED = ("timed", "timed-twice", "timed-where", "timed-since")


@dataclass
class Three:
    """A master and two replicas; one replica becomes master without the changes that the other one confirmed."""

    master: Server
    kept: Server
    other: Server

    @classmethod
    def start(cls, binary: str, directory: Path, running: ExitStack) -> Three:
        servers: list[Server] = []
        for name in ("master", "kept", "other"):
            follow = ["--replicaof", "127.0.0.1", str(servers[0].port)] if servers else []
            servers.append(Server.start(binary, directory / name, *SYNC_AT_ONCE, *follow, port=True))
            running.callback(servers[-1].kill)  # a master that is asked to stop waits for its replicas
        wait_for("replicas in sync", lambda: all(map(in_sync, servers[1:])))
        return cls(*servers)

    def promote(self) -> None:
        """``other`` no longer receives data from the master, and would accept writes."""
        sizes = [self.master, self.kept, self.other]
        wait_for("replicas to have it all", lambda: len({node.command("DBSIZE") for node in sizes}) == 1)
        with self.master.client() as raw:
            raw.set("mark", "1")
            assert raw.execute_command("WAIT", 2, 5000) == 2
        self.other.command("REPLICAOF", "NO", "ONE")

    def take_over(self) -> None:
        """The master dies, ``other`` gets its address, and the second replica follows it."""
        self.master.kill()
        self.other.command("CONFIG", "SET", "port", self.master.port or 0)


@pytest.fixture
def three(anywhere: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Three]:
    """Valkey for sync, Redis for async."""
    monkeypatch.setattr("presence_core.client.replica_ack.ROUND_SECONDS", 0.1)
    binary = (valkey_binary, redis_binary)[anywhere.backend.mode == "async"]() or missing("a server of the kind wanted")
    with ExitStack() as running:
        yield Three.start(binary, tmp_path, running)


def _connect(bed: Bed, server: Server, **settings: Any) -> P:
    chosen = {"timeout": PATIENT, "confirm_replicas": 1, "confirm_timeout": 5000, "confirm_hold": 600}
    p = bed.connect_to(server.url, **chosen | settings)
    p.clock.run_freely()
    return p


def test_a_rotate_that_a_failover_lost_is_applied_again_with_its_grace(anywhere: Bed, three: Three) -> None:
    p, other = (_connect(anywhere, three.master, rotate_grace=300) for _ in range(2))
    uids = ("first", "both", "follower", "twice")
    old = {uid: p.login(uid).token for uid in uids}
    three.promote()
    new = [p.rotate(old["first"]).token, p.rotate(old["both"]).token, p.rotate(old["both"]).token]
    hasty = _connect(anywhere, three.master, rotate_grace=300, confirm_replicas=0)  # it holds nothing
    new += [hasty.rotate(old["follower"]).token, other.rotate(old["follower"]).token]
    between = p.rotate(old["twice"]).token
    new += [p.rotate(between).token, p.rotate(old["twice"]).token]
    assert (p.held(), other.held(), p.unconfirmed()) == (3, 1, 0)
    direct = _connect(anywhere, three.other, confirm_replicas=0)
    assert not any(map(direct.validate, new)), "it has none of this"
    three.take_over()

    def is_all_applied() -> bool:
        p.counts()
        other.counts()
        return all(map(p.validate, new))

    wait_for("all to be applied again", is_all_applied)
    for uid in uids[:3]:
        assert p.validate(old[uid])
        assert p.validate(p.rotate(old[uid]).token)
    assert not p.validate(old["twice"]), "of two rotates at once, no former secret is known any more"


def test_a_confirmed_change_lost_in_a_failover_is_applied_again(anywhere: Bed, three: Three) -> None:
    p = _connect(anywhere, three.master)
    single = _connect(anywhere, three.master, max_sessions=1)
    first = p.login("first")
    before = time.time() + 0.001
    time.sleep(0.01)
    uids = ("one", "all", "again", "all-again", "out", "out-again", "out-others", "out-other", "replaced", "rotated",
            "forgotten", "where", "demanded", "authenticated")  # fmt: skip
    tokens = {uid: p.login(uid).token for uid in uids}
    sids = {uid: p.sessions(uid)[0].session_id for uid in uids}
    rotated = p.login("rotated-twice").token
    p.block("longer", duration=60, **SAID)
    for uid in TIMED:
        p.login(uid, idle_timeout=1800, device=uid)
    p.close(wait=0)
    three.promote()

    hasty = _connect(anywhere, three.master)  # as if its replies were lost; and it holds nothing
    hasty.kick("again", sids["again"], **SAID)
    hasty.kick("all-again", **SAID)
    hasty.logout("out-again", sids["out-again"])
    hasty.close(wait=0)

    p = _connect(anywhere, three.master)
    results: list[Any] = [
        p.kick("one", sids["one"], block_for=600, **SAID),
        p.kick("all", **SAID),
        p.kick("again", sids["again"], **SAID),
        p.kick("all-again", **SAID),
        p.kick_where(SessionFilter(uid="where"), expected=1, **SAID),
        p.require_sign_in("demanded", **SAID),
        *(p.block(uid, duration=600, **SAID) for uid in ("blocked", "longer", "lifted", "shortened")),
        p.add_block_rule(network="198.51.100.0/24", expected=0, **SAID),
    ]
    for uid, idle in (("timed", 60), ("timed-twice", 60), ("timed-twice", 90), ("timed-since", 60)):
        p.change_timeouts(uid, idle_timeout=idle, **SAID)
    p.change_timeouts_where(SessionFilter(device="timed-where"), idle_timeout=60, expected=1, **SAID)
    assert p.logout("out", sids["out"])
    assert not p.logout("out-again", sids["out-again"])
    for uid, other in (("out-others", None), ("out-other", sids["out-other"])):
        assert [session.uid for session in p.logout_others(uid, "session-stays", other)] == [uid]
    second = p.rotate(rotated)
    new = [p.rotate(tokens["rotated"]).token, p.rotate(second.token).token,
           p.reauthenticated(tokens["authenticated"], methods=["hwk"]).token]  # fmt: skip
    assert single.login("replaced").replaced
    p.erase("forgotten", **SAID)
    p.revoke_before(before, **SAID)
    assert all(result.confirmed for result in results)
    assert (p.unconfirmed(), single.unconfirmed(), single.held()) == (0, 0, 1)

    direct = _connect(anywhere, three.other, confirm_replicas=0)
    dead = [first.token, *tokens.values(), rotated, second.token]
    assert all(direct.validate(token) for token in dead if token != second.token), "all of them live again"
    direct.unblock("lifted", **SAID)
    direct.block("shortened", duration=60, **SAID)
    assert {direct.sessions(uid)[0].idle_timeout for uid in TIMED} == {1800}
    direct.change_timeouts("timed-since", idle_timeout=30, **SAID)
    three.take_over()

    def is_all_applied() -> bool:
        p.counts()
        return not any(p.validate(token) for token in dead)

    wait_for("all to be applied again", is_all_applied)
    assert all(p.validate(token) for token in new), "who has the new secret goes on"
    wait_for("blocks", lambda: all(p.blocked(uid) for uid in ("one", "blocked")))
    wait_for("the block rule", p.block_rules)
    wait_for("the longer block", lambda: _until(p, "longer") > _in(120))
    wait_for("replicas to confirm it", lambda: p.unconfirmed() == 0)
    wait_for("the person to be erased again", lambda: p.ended("forgotten").items == [])
    assert p.validate(tokens["demanded"]).code == "sign_in_required"
    assert p.sessions("demanded")[0].sign_in_required_at == results[5].sessions[0].sign_in_required_at
    assert p.sessions("authenticated")[0].methods == ("hwk",)
    assert [entry.action for entry in p.audit(uid="demanded")] == ["require_sign_in"], "written again"
    assert p.blocked("lifted") is None, "staff have lifted it"
    assert _until(p, "shortened") < _in(120), "staff have shortened it"
    wait_for("the timeouts", lambda: [p.sessions(uid)[0].idle_timeout for uid in TIMED] == [60, 90, 60, 30])
    assert [entry.action for entry in p.audit(uid="timed")] == ["change_timeouts"], "written again"
    assert [ended.reason for ended in p.ended("replaced")] == ["replaced"]
    assert [ended.reason for ended in p.ended("out")] == ["logout"]
    assert [[ended.cause for ended in p.ended(uid)] for uid in ("out-others", "out-other")] == [["self"], ["self"]]
    p.close(wait=0)
    single.close(wait=0)


@on("valkey-sync")
def test_timeouts_that_others_change_back_stay_as_they_are_then(bed: Bed) -> None:
    p = bed.connect(confirm_replicas=1, confirm_timeout=20, confirm_hold=600)
    other = bed.connect()
    session = p.login("ada", idle_timeout=1800).session
    p.change_timeouts("ada", idle_timeout=60, **SAID)
    other.change_timeouts("ada", idle_timeout=1800, **SAID)
    for _ in range(2):
        assert p.confirm() == 1, "no replica has it"
    assert p.get("ada", session.session_id) == session
    p.close(wait=0)


def _until(p: P, uid: str) -> datetime:
    block = p.blocked(uid)
    assert block is not None
    assert block.until is not None
    return block.until


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


@one_mode("sync")
def test_sessions_of_a_bulk_kick_whose_reply_was_lost_are_ended_again_after_a_failover(
    anywhere: Bed, three: Three
) -> None:
    p = _connect(anywhere, three.master)
    tokens = [p.login(uid).token for uid in ("ada", "bob", "logged-out")]
    job = p.start_kick(SessionFilter(logged_in_after=1.0), expected=3, **SAID)
    three.promote()

    run = Held(p, Run(p.context, job.id).step(), KICK_SESSIONS)
    p.logout("logged-out", p.sessions("logged-out")[0].session_id)
    [results] = run.send_script()
    assert sorted(results) == [0, 1, 1]
    run.wake()  # the reply was lost, so the transport sends it again
    assert p.held() == 3

    direct = _connect(anywhere, three.other, confirm_replicas=0)
    assert all(direct.validate(token) for token in tokens), "all of them live again"
    three.take_over()
    wait_for("all to be ended again", lambda: p.counts().sessions == 0)
    assert not any(p.validate(token) for token in tokens)
    assert [p.ended(uid).items[0].reason for uid in ("ada", "bob")] == ["kicked"] * 2


@pytest.mark.parametrize("confirmable", [True, False])
@one_mode("sync")
def test_a_bulk_kick_during_a_failover_counts_what_was_ended_again_and_says_what_is_not_confirmed(
    anywhere: Bed, three: Three, monkeypatch: pytest.MonkeyPatch, confirmable: bool
) -> None:
    """One replica confirms, and the other one becomes the master: it lacks the second page."""
    monkeypatch.setattr("presence_core.operations.bulk_kick.runner.BATCH", 10)
    monkeypatch.setattr("presence_core.operations.bulk_kick.runner.POLL", 0.05)
    monkeypatch.setattr("presence_core.operations.bulk_kick.runner.SETTLE_SECONDS", 30.0 if confirmable else 1.0)
    p = _connect(anywhere, three.master, confirm_timeout=5000 if confirmable else 300)
    p.login_many({"uid": f"u{number}"} for number in range(40))

    def take_over() -> None:
        if not confirmable:
            three.kept.kill()
        three.take_over()

    steps = {10: three.promote, 20: take_over}

    def step(job: Job) -> None:
        steps.pop(job.kicked, lambda: None)()

    result = p.kick_where(SessionFilter(logged_in_after=1.0), expected=40, on_progress=step, **SAID)
    assert not steps, "the failover came in between"
    assert result.job is not None
    assert result.job.state == "done"
    assert result.confirmed is confirmable
    wait_for("all to be ended", lambda: p.counts().sessions == 0)
    job = p.job(result.job.id)
    assert job is not None
    assert job.kicked == 40
    [closing] = [entry for entry in p.audit().items if entry.action == "kick_where"]
    if confirmable:
        assert (result.count, result.job.error) == (40, None)
        assert closing.outcome == f"job {job.id}: 40 of 40 sessions ended"
        assert p.audit(limit=100).items[0] == closing, "what was ended again is part of the bulk kick"
    else:
        assert "is not confirmed by 1 replica: a failover came in between" in (result.job.error or "")
        assert result.job.error_code == "unconfirmed"
        assert closing.outcome.endswith(result.job.error or "-")
    assert p.counts().totals["kicked"] == 40
    p.context.held.clear()


@one_mode("sync")
def test_a_held_change_costs_no_calls_and_close_waits_for_its_end(
    anywhere: Bed, three: Three, caplog: pytest.LogCaptureFixture
) -> None:
    p = _connect(anywhere, three.master, confirm_hold=1)
    p.login_many({"uid": f"u{number}"} for number in range(50))
    assert p.kick_where(SessionFilter(logged_in_after=1.0), expected=50, **SAID).confirmed
    assert (p.held(), p.unconfirmed()) == (50, 0)
    scripts = _scripts(three.master)
    begun = time.monotonic()
    p.close()
    assert time.monotonic() - begun > 0.75
    assert p.held() == 0
    assert _scripts(three.master) == scripts, "only INFO, once a round"
    assert caplog.records == []

    hasty = _connect(anywhere, three.master)
    hasty.login("ada")
    hasty.kick("ada", **SAID)
    hasty.close(wait=0.2)
    assert "1 changes were still held, 0 of them not confirmed" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        hasty.close()
    assert caplog.records == []


def _scripts(server: Server) -> str:
    lines: list[str] = server.command("INFO", "commandstats").splitlines()
    return next(line for line in lines if "_evalsha:" in line)


@on("valkey-sync")
def test_when_no_more_can_be_held_staff_are_refused_and_bulk_kicks_wait(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_changes, "MAX_HELD", 10)
    monkeypatch.setattr("presence_core.operations.bulk_kick.runner.MAX_HELD", 10)
    monkeypatch.setattr("presence_core.operations.bulk_kick.runner.BATCH", 5)
    monkeypatch.setattr("presence_core.operations.bulk_kick.runner.POLL", 0.05)
    p = bed.connect(confirm_replicas=1, confirm_timeout=1, confirm_hold=0)
    logins = p.login_many({"uid": f"u{number}"} for number in range(20))
    results: list[int] = []
    result: list[Any] = []
    runner = threading.Thread(
        target=lambda: result.append(
            p.kick_where(
                SessionFilter(logged_in_after=1.0),
                expected=20,
                on_progress=lambda job: results.append(job.kicked),
                **SAID,
            )
        )
    )
    runner.start()
    wait_for("the runner to wait", lambda: results.count(10) > 2)
    assert (p.held(), p.counts().sessions) == (10, 10)
    with pytest.raises(Unavailable, match="Nothing was done: this process already holds 10 changes"):
        p.kick("u1", **SAID)
    with pytest.raises(Unavailable, match="Nothing was done"):
        p.block("u1", **SAID)
    with pytest.raises(Unavailable, match="Nothing was done"):
        p.change_timeouts("u1", idle_timeout=60, **SAID)
    p.context.held.clear()
    wait_for("the runner to go on", lambda: results.count(20) > 0)
    p.context.held.clear()
    runner.join(30)
    assert result[0].count == 20
    assert logins
    p.context.held.clear()


@on("valkey-sync")
def test_the_command_waits_and_names_the_changes_that_it_gives_up(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bed.connect().login_many([{"uid": "ada"}, {"uid": "bob"}])
    environ = {"REDIS_URL": bed.url, "NAMESPACE": bed.namespace, "CONFIRM_REPLICAS": "1", "CONFIRM_TIMEOUT": "10"}
    environ["CONFIRM_HOLD"] = "1"
    for name, value in environ.items():
        monkeypatch.setenv(f"PRESENCE_{name}", value)
    begun = time.monotonic()
    assert cli.main(["kick", "ada", "--reason", "test"]) == 0
    assert time.monotonic() - begun > 1.9, "twice the time for which a confirmed one is held"
    said = capsys.readouterr().err
    assert "Waiting up to 2 s" in said
    assert "Stopped waiting for 1 change, 1 of them not confirmed by a replica." in said

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("presence_core.cli.replica_wait.ProgressLine.show", interrupt)
    assert cli.main(["kick", "bob", "--reason", "test"]) == 130
    said = capsys.readouterr().err
    assert "a failover cannot undo it" in said
    assert "Stopped waiting for 1 change, 1 of them not confirmed by a replica." in said


@on("cluster-sync")
def test_the_command_reports_that_no_replica_was_asked(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bed.connect().login_many([{"uid": "ada"}, {"uid": "bob"}])
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    said = "No replica has confirmed this change, because confirm_replicas is 0 (PRESENCE_CONFIRM_REPLICAS)"
    shorter, of_bob = ["--idle-timeout", "60"], ["--text", "bob", "--expected", "1", "--yes"]
    for words in (["change-timeouts", "ada", *shorter], ["change-timeouts", *of_bob, *shorter], ["kick", "ada"],
                  ["block", "ada"], ["kick-where", *of_bob]):  # fmt: skip
        assert cli.main([*words, "--reason", "test"]) == 0
        assert said in capsys.readouterr().out
    assert cli.main(["kick", "ada", "--reason", "test"]) == 1
    assert said not in capsys.readouterr().out, "nothing was done"
