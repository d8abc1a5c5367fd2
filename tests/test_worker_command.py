"""The worker and the history on the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from presence_core import Worker, cli
from tests.conftest import Bed, on
from tests.workers import until, work

ROOT = Path(__file__).parent.parent


@pytest.fixture
def command(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environ = {"PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return os.environ | environ


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@on("valkey-sync")
def test_the_command_lets_go_of_the_lead_when_it_is_told_to_end(
    bed: Bed, command: dict[str, str], number: int
) -> None:  # fmt: skip
    p = bed.connect()
    process = subprocess.Popen([sys.executable, "-m", "presence_core.cli", "worker"], cwd=ROOT, env=command)
    try:
        until(lambda: (status := p.worker_status()) and status.last_run)
        status = p.worker_status()
        assert status is not None
        assert status.leader.endswith(f":{process.pid}")
        process.send_signal(number)
        assert process.wait(30) == (0 if number == signal.SIGTERM else 130)
    finally:
        process.kill()
        process.wait()
    status = p.worker_status()
    assert status is not None
    assert not status.alive


@on("valkey-sync")
def test_history_and_status_are_there_on_the_command_line(
    bed: Bed, command: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    def said(*words: str) -> tuple[int, str]:
        code = cli.main(words)
        return code, capsys.readouterr().out

    assert said("status") == (1, "No worker has ever run here: start one, presence worker.\n")
    assert said("history")[0] == 1
    p = bed.connect()
    at_work = Worker(p)
    p.login("ada")
    work(at_work)
    code, out = said("status")
    assert code == 0
    assert "leads since" in out
    assert "Last sweep: 20" in out
    code, out = said("history", "--since", "30m", "--step", "60")
    assert code == 0
    assert out.splitlines()[0].split()[:3] == ["FROM", "(UTC)", "USERS"]
    code, out = said("history", "--since", "2020-01-01", "--json")
    assert code == 0
    assert '"step": 86400' in out
    at_work._leave()
    code, out = said("status", "--json")
    assert code == 1
    assert '"alive": false' in out
    for bad in ("soon", "", "xh", "9999999999d"):
        assert cli.main(["history", "--since", bad]) == 2, bad
