"""The log of the dashboard's process: the format of PRESENCE_LOG, and one line for an outage that many pages meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.dashboard.wire import ROOT, Wire, serve
from tests.support.servers import free_port, wait_for


def test_pages_without_redis_are_one_warning_in_json(tmp_path: Path) -> None:
    log = tmp_path / "dashboard.log"
    url = f"redis://:canary-of-redis@127.0.0.1:{free_port()}/0"
    environ = {"PRESENCE_REDIS_URL": url, "PRESENCE_LOG": "json", "PRESENCE_TIMEOUT": "0.2"}

    def outages() -> list[dict[str, Any]]:
        records = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"time": ')]
        return [record for record in records if record.get("presence_event") == "redis_failed"]

    with serve(environ, log) as address:
        for _ in range(2):
            with Wire.open(address) as wire:
                wire.go("live")
                wait_for("the warning", outages)
        assert httpx.get(f"{address}/healthz").status_code == 200
    [outage] = outages()
    assert (outage["level"], outage["logger"]) == ("WARNING", "presence_core.transport.routing")
    assert "canary" not in log.read_text()


@pytest.mark.soak
def test_a_wrong_format_ends_the_dashboard_with_one_sentence() -> None:
    environ = os.environ | {"PRESENCE_REDIS_URL": "redis://127.0.0.1:1/0", "PRESENCE_LOG": "xml"}
    command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(free_port())]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "PRESENCE_LOG must be text or json." in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
