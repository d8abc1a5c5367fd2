"""A site that runs in a process of its own, and what a browser does with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from presence_core import Login, Presence, Settings
from tests.support.fair_clock import PATIENT
from tests.support.servers import HOST, Server, free_port, wait_for
from tests.web.frameworks.test_frameworks import ask, is_up

ROOT = Path(__file__).parents[3]


class Site(NamedTuple):
    """A site that runs, and a client of its sessions."""

    port: int
    presence: Presence
    server: Server

    def sign_in(self, uid: str, **details: Any) -> Login:
        return self.presence.login(uid, **details)

    def socket(self, path: str, token: str | None) -> Any:
        """An open websocket, as a context manager."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return connect(f"ws://{HOST}:{self.port}{path}", additional_headers=headers, proxy=None)

    @property
    def seen(self) -> list[str]:
        return list(self._state()["seen"])

    @property
    def watchers(self) -> int:
        return int(self._state()["watchers"])

    def _state(self) -> Any:
        return json.loads(ask(self.port, "GET", "/seen")[2])


@contextmanager
def running_site(directory: Path, server: Server, client: str, **environ: str) -> Iterator[Site]:
    """The site of ``site.py``. client: the class of its client. environ: other variables."""
    port, namespace = free_port(), client.lower()
    environ = {
        "PRESENCE_REDIS_URL": server.url, "PRESENCE_NAMESPACE": namespace, "SITE_CLIENT": client, **environ
    }  # fmt: skip
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "tests.web.open_connections.site:app", f"--port={port}"],
            cwd=ROOT, env=os.environ | environ, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        wait_for("the site", lambda: is_up(port))
        with Presence.from_url(server.url, Settings(namespace, timeout=PATIENT)) as presence:
            yield Site(port, presence, server)
    finally:
        process.terminate()
        process.wait(30)
    logged = log.read_text()
    assert "Traceback" not in logged, logged
    assert "Task was destroyed" not in logged, logged


def speak(socket: ClientConnection, answer: str = "hello") -> None:
    """The socket is open: the site answers."""
    socket.send("hello")
    assert socket.recv(timeout=30) == answer


def closing(socket: ClientConnection) -> tuple[int, str]:
    """Wait until the site closes the socket: code and reason."""
    with pytest.raises(ConnectionClosed) as closed:
        for _ in iter(lambda: socket.recv(timeout=30), None):
            pass
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason
