"""`presence worker` and `presence reindex`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from typing import Any

import pytest

from presence_core import SessionFilter
from presence_core.cli.commands import maintenance
from presence_core.cli.commands.programs import http_service
from presence_core.web.webhooks import AlertWebhook
from tests.cli.conftest import ROOT, Run
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.server_line import without_server_line
from tests.support.workers import until


@on("valkey-sync", "cluster-sync")
def test_reindex_shows_progress_on_a_terminal(bed: Bed, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    p = bed.connect(indexes=())
    p.login_many([{"uid": f"u{number}", "name": "Emeka Okafor", "ip": "192.0.2.7"} for number in range(1500)])
    terminal, end = pty.openpty()
    with monkeypatch.context() as patch, open(end, "w") as stderr:
        patch.setattr("sys.stderr", stderr)
        code, out, _ = run("reindex", "--json")
        line = ""
        while not line.endswith("\n"):  # one read may return a part of what was written
            line += os.read(terminal, 65536).decode()
    os.close(terminal)
    assert code == 0
    assert json.loads(out)["repaired"] >= 1500
    line = without_server_line(line)
    assert line.startswith("\r")
    assert line.endswith("\r1,500 of 1,500 sessions visited\r\n")
    fields = "device, app, app_version, os, browser, country, network"
    assert run("reindex") == (0, f"Indexes: uid, name, alias, ip, idp. Counted: {fields}. Repaired 0 entries.\n", ""), (
        "without a terminal there is no progress line"
    )
    assert bed.connect().explain(SessionFilter(ip="192.0.2.8")).index == "ip"


@on("valkey-sync")
def test_ctrl_c_in_reindex_says_how_to_continue(p: P, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    p.login("ada")

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("presence_core.cli.output.ProgressLine.show", stop)
    sentence = "Stopped before the end. Searches scan all sessions until it is finished: presence reindex\n"
    assert run("reindex") == (130, "", sentence)
    monkeypatch.undo()
    assert p.reindex().repaired >= 0


@on("valkey-sync")
def test_sweep_and_repair_say_what_they_did(p: P, run: Run) -> None:
    p.set_now(p.clock.ms - 120_000)  # the command reads the real clock
    p.login("ada", idle_timeout=60)
    assert run("sweep") == (0, "Ended 1 expired session; repaired 0 entries.\n", "")
    assert run("repair") == (0, "Repaired 0 entries; ended 0 expired sessions.\n", "")


@pytest.mark.parametrize("command", [["worker"], ["serve", "--worker", "--port", "0"]])
@on("valkey-sync")
def test_the_worker_of_a_command_gets_the_alerts_of_its_options(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    limits = []

    def stop(*_: Any, alerts: AlertWebhook, **__: Any) -> None:
        limits.append(alerts.limits)
        raise KeyboardInterrupt

    for module in (maintenance, http_service):
        monkeypatch.setattr(module, "Worker", stop)
    monkeypatch.setenv("PRESENCE_ALERT_SECRET", "a secret that only two know")
    assert run(*command, "--alert-ends", "5")[::2] == (
        2, "--alert-url must be given for alerts: where to send them.\n",
    )  # fmt: skip
    assert run(*command, "--alert-ends", "5", "--alert-url", "http://alerts.example/")[0] == 130
    assert limits == [{"ends": 5}]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@on("valkey-sync")
def test_the_worker_releases_the_lead_when_it_ends(
    bed: Bed, environ: dict[str, str], number: int
) -> None:  # fmt: skip
    p = bed.connect()
    process = subprocess.Popen([sys.executable, "-m", "presence_core.cli", "worker"], cwd=ROOT, env=environ)
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
