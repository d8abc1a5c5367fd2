"""The page's script started without the gate, open to the network, as a user of the wheel might do it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.gate.gate_mark import HEADER
from tests.dashboard.conftest import log_in
from tests.dashboard.gate.test_frames import PAGES
from tests.dashboard.wire import ROOT, Wire
from tests.support.servers import Server, free_port, wait_for


def address_of_this_machine() -> str:
    """An address under which other machines reach this one, if it has any. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        host: str = unsent.getsockname()[0]
        return host


@pytest.fixture
def open_door(server: Server, tmp_path: Path) -> Iterator[str]:
    """Streamlit on main.py, with its own defaults, on all addresses; its address from outside."""
    port = free_port()
    script = str(ROOT / "presence_dashboard" / "main.py")
    environ = os.environ | {"PRESENCE_REDIS_URL": server.url, "PYTHONPATH": str(ROOT)}
    options = ["--server.headless", "true", "--server.port", str(port), "--browser.gatherUsageStats", "false"]
    with (tmp_path / "log").open("wb") as output:
        command = [sys.executable, "-m", "streamlit", "run", script, *options]
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=output, stderr=subprocess.STDOUT)
    url = f"http://{address_of_this_machine()}:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/_stcore/health").status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_for("Streamlit", answers)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def test_without_the_gate_every_page_is_one_sentence(open_door: str, presence: Presence) -> None:
    log_in(presence, 2)
    for headers in ({}, {HEADER: ""}, {HEADER: "0" * 64}):
        with Wire.open(open_door, **headers) as wire:
            for path in PAGES:
                wire.go(path, "q=user00")
                [element] = wire.elements()
                assert element.alert.body == texts.NO_GATE, path
            assert b"Person 0" not in b"".join(wire.heard)
