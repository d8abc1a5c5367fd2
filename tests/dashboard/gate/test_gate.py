"""The gate that is open only on this machine: which requests it accepts, and the headers of every response."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from starlette.types import Message, Receive, Scope, Send

from presence_dashboard.gate.gate_mark import HEADER, is_marked
from presence_dashboard.gate.headers import security_headers
from presence_dashboard.gate.loopback import LoopbackOnly, refuse_public_address
from tests.support.behind_gate import through_the_mark
from tests.support.servers import free_port

ROOT = Path(__file__).parents[3]


def ask(kind: str = "http", client: str = "127.0.0.1", server: str = "127.0.0.1", **headers: str) -> list[Message]:
    """The gate's response to a request with these headers; an empty list if it accepts the request."""
    sent: list[Message] = []

    async def inner(_scope: Scope, _receive: Receive, _send: Send) -> None:
        return

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    given = {"host": "localhost:8501"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope: dict[str, Any] = {"type": kind, "client": (client, 5000), "server": (server, 8501), "method": "GET"}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in given.items() if value]
    asyncio.run(LoopbackOnly(inner)(scope, receive, send))
    return sent


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8501", "[::1]:8501", "LOCALHOST:1"])
def test_this_machine_gets_in(host: str) -> None:
    assert ask(host=host) == []
    assert ask("websocket", host=host, origin=f"http://{host}") == []


@pytest.mark.parametrize(
    "refused",
    [
        lambda kind: ask(kind, client="192.0.2.7"),
        lambda kind: ask(kind, server="192.0.2.1"),
        lambda kind: ask(kind, host="rebound.example"),
        lambda kind: ask(kind, host="localhost.example"),
        lambda kind: ask(kind, host=""),
        lambda kind: ask(kind, origin="https://evil.example"),
        lambda kind: ask(kind, origin="null"),
        lambda kind: ask(kind, origin="http://localhost:3000"),
        lambda kind: ask(kind, origin="http://localhost"),
        lambda kind: ask(kind, origin="http://127.0.0.1:8501"),
        lambda kind: ask(kind, origin="https://localhost:8501"),
        lambda kind: ask(kind, origin="chrome-extension://localhost:8501"),
        lambda kind: ask(kind, origin="app://localhost:8501"),
        lambda kind: ask(kind, origin="http://user@localhost:8501"),
        lambda kind: ask(kind, origin="localhost:8501"),
        lambda kind: ask(kind, x_forwarded_for="127.0.0.1"),
    ],
)
def test_others_are_refused(refused: Callable[[str], list[Message]]) -> None:
    assert refused("http")[0]["status"] == 403
    assert refused("websocket") == [{"type": "websocket.close", "code": 1008, "reason": ""}]


FORWARDED = (
    *("Forwarded", "Via", "CF-Connecting-IP", "CF-Ray", "CDN-Loop", "True-Client-IP", "X-Real-IP", "X-Forwarded-For"),
    *(
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Server",
        "X-Forwarded-User",
        "X-Client-IP",
        "X-Envoy-Attempt",
    ),
    *("X-Cluster-Client-IP", "Fastly-Client-IP", "Fly-Client-IP", "X-Azure-ClientIP", "X-Original-Forwarded-For"),
    *("X-Amzn-Trace-Id", "X-Auth-Request-Email", "X-Remote-User", "Remote-User", "Tailscale-User-Login", "Client-IP"),
    *("X-Envoy-External-Address", "DO-Connecting-IP", "X-Vercel-Forwarded-For", "X-Forwarded"),
)


@pytest.mark.parametrize("name", FORWARDED)
def test_what_a_proxy_forwarded_is_refused(name: str) -> None:
    for header in (name, name.lower()):
        assert ask(**{header: "x"})[0]["status"] == 403
        assert ask("websocket", origin="http://localhost:8501", **{header: "x"})[0]["type"] == "websocket.close"


@pytest.mark.parametrize("name", ["Accept", "User-Agent", "Sec-Fetch-Site", "Cookie", "Referer", "Priority", "DNT"])
def test_what_a_browser_sends_is_not_taken_for_forwarded(name: str) -> None:
    assert ask(**{name: "x"}) == []


def test_a_websocket_without_an_origin_is_refused() -> None:
    assert ask() == []
    assert ask("websocket") == [{"type": "websocket.close", "code": 1008, "reason": ""}]


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.1", "::", "", None, "unix:///tmp/x"])
def test_a_public_address_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    monkeypatch.setattr(st, "get_option", {"server.address": address}.get)
    with pytest.raises(SystemExit, match="listens on this machine only"):
        refuse_public_address()


def test_every_answer_carries_the_headers() -> None:
    headers = security_headers()
    assert "'unsafe-eval'" not in headers["Content-Security-Policy"]
    assert "script-src 'self' 'sha256-" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"


def test_the_gate_marks_a_websocket_and_takes_away_what_a_client_sent_as_its_mark() -> None:
    forged = [(HEADER, "0" * 64), (HEADER.title(), "0" * 64)]
    [kept, mark] = through_the_mark("websocket", ("host", "localhost"), *forged)
    assert kept == ("host", "localhost")
    assert mark[0] == HEADER
    assert is_marked([mark[1]])
    assert through_the_mark("http", *forged) == [], "no page is drawn for a request"


@pytest.mark.parametrize("values", [[], [""], ["0" * 64], ["é"]])
def test_what_a_client_can_send_is_no_mark(values: list[str]) -> None:
    assert not is_marked(values)
    [(_, mark)] = through_the_mark("websocket")
    assert not is_marked([mark, *values, "more than one"])


def test_another_process_has_another_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    [(_, mark)] = through_the_mark("websocket")
    monkeypatch.setattr(current_process(), "authkey", os.urandom(32))
    assert not is_marked([mark])


def test_the_dashboard_does_not_start_without_a_server(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("PRESENCE_REDIS_URL", "REDIS_URL")}
    ended = subprocess.run(
        [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(free_port())],
        cwd=ROOT,
        env=environ | {"PRESENCE_DATA_DIR": str(tmp_path / "private")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    assert "PRESENCE_REDIS_URL must be set" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "private").exists()


def test_the_dashboard_does_not_start_on_a_public_address() -> None:
    command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.address", "0.0.0.0"]
    ended = subprocess.run(
        [*command, "--server.port", str(free_port())],
        cwd=ROOT,
        env=os.environ | {"PRESENCE_REDIS_URL": "redis://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    assert "listens on this machine only" in ended.stderr


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o622])
def test_the_dashboard_does_not_start_with_a_password_file_that_others_may_write(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "staff"
    file.touch()
    file.chmod(mode)
    environ = {"PRESENCE_REDIS_URL": "redis://127.0.0.1:1", "PRESENCE_DASHBOARD_ACCESS": "password"}
    ended = subprocess.run(
        [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(free_port())],
        cwd=ROOT,
        env=os.environ | environ | {"PRESENCE_STAFF_FILE": str(file)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode != 0
    assert f"PRESENCE_STAFF_FILE must name a file that only its owner may write (its mode is 0{mode:o})" in ended.stderr
    assert "Traceback" not in ended.stderr
