"""Django: websockets of Channels, with the lines of docs/use/frameworks/channels_celery.md, and event streams."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.sync.client import connect

from presence_core import Presence, Settings
from tests.support.fair_clock import PATIENT
from tests.support.servers import HOST, Server, free_port, missing, redis_binary, valkey_binary, wait_for
from tests.web.framework_pages.printed import blocks
from tests.web.frameworks.test_frameworks import DJANGO, ENVIRON, PREPARE, ask, running
from tests.web.open_connections.running import ROOT, closing, speak

SETTINGS = DJANGO.replace("tests.web.frameworks.django_site", "tests.web.open_connections.django_views")

COMMANDS = {
    "uvicorn": ["uvicorn", "mysite:application", "--lifespan=off", "--port=PORT"],
    "runserver": ["django", "runserver", "--noreload", f"{HOST}:PORT"],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("redis"), port=True) as running:
        yield running


@pytest.fixture
def presence(server: Server) -> Iterator[Presence]:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as client:
        client.kick("1", by="test", reason="test")
        yield client


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Django site with its tables and a user."""
    folder = tmp_path_factory.mktemp("django")
    (folder / "mysettings.py").write_text(SETTINGS + blocks("django")["settings.py"], "utf-8")
    # mysite/asgi.py on the page
    (folder / "mysite.py").write_text(blocks("channels_celery")["asgi.py"], "utf-8")
    path = os.pathsep.join([str(folder), str(ROOT)])
    subprocess.run(
        [sys.executable, "-c", PREPARE],
        cwd=folder, env={**os.environ, "PYTHONPATH": path, **ENVIRON}, check=True, capture_output=True,
    )  # fmt: skip
    return folder


@contextmanager
def site(command: str, directory: Path, server: Server) -> Iterator[int]:
    port = free_port()
    arguments = [word.replace("PORT", str(port)) for word in COMMANDS[command]]
    with running(*arguments, directory=directory, port=port, server=server, PRESENCE_TIMEOUT="0.5", **ENVIRON):
        yield port


@pytest.fixture(scope="module")
def port(directory: Path, server: Server) -> Iterator[int]:
    with site("uvicorn", directory, server) as port:
        yield port


def sign_in(port: int) -> str:
    """The cookie of a new session."""
    form = urlencode({"who": "ada", "password": "secret"})
    kind = "application/x-www-form-urlencoded"
    status, headers, _ = ask(port, "POST", "/sign-in", form, content_type=kind)
    assert status == 200
    return headers["Set-Cookie"].partition(";")[0]


def chat(port: int, cookie: str = "") -> Any:
    headers = {"Origin": f"http://{HOST}", **({"Cookie": cookie} if cookie else {})}
    return connect(f"ws://{HOST}:{port}/chat", additional_headers=headers, proxy=None)


def test_a_kick_closes_the_open_websockets_and_no_new_one_opens(port: int, presence: Presence) -> None:
    cookie, other = sign_in(port), sign_in(port)
    _, first = presence.sessions("1")
    with (
        chat(port, cookie) as kicked,
        chat(port, cookie) as also_kicked,
        chat(port, other) as stays,
        chat(port) as anonymous,
    ):
        for socket in (kicked, also_kicked, stays):
            speak(socket, "1: hello")
        speak(anonymous, "visitor: hello")
        presence.kick("1", first.session_id, by="sam", reason="test")
        assert closing(kicked) == closing(also_kicked) == (4401, "kicked")
        with chat(port, cookie) as refused:
            assert closing(refused) == (4401, "kicked")
        speak(stays, "1: hello")
        speak(anonymous, "visitor: hello")
    presence.require_sign_in("1", by="sam", reason="test")
    with chat(port, other) as refused:
        assert closing(refused) == (4401, "sign_in_required")


def test_while_redis_is_away_open_websockets_stay_and_new_ones_are_to_come_later(
    directory: Path, server: Server, presence: Presence
) -> None:
    (directory / "strict.py").write_text("from mysettings import *\nPRESENCE_RULES = {}\n", "utf-8")
    port = free_port()
    environ = {**ENVIRON, "DJANGO_SETTINGS_MODULE": "strict", "PRESENCE_TIMEOUT": "0.5"}
    arguments = ["uvicorn", "mysite:application", "--lifespan=off", f"--port={port}"]
    with running(*arguments, directory=directory, port=port, server=server, **environ):
        cookie = sign_in(port)
        with chat(port, cookie) as stays:
            speak(stays, "1: hello")
            server.pause()
            try:
                with chat(port, cookie) as later:
                    assert closing(later) == (1013, "unavailable")
                speak(stays, "1: hello")
            finally:
                server.resume()
            wait_for("the sessions", lambda: presence.kick("1", by="sam", reason="test"))
            assert closing(stays) == (4401, "kicked")


# -- event streams -----------------------------------------------------------------------------------------------------


@contextmanager
def stream(port: int, path: str, cookie: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request("GET", path, headers={"Cookie": cookie})
        response = connection.getresponse()
        assert response.status == 200
        yield response
    finally:
        connection.close()


def test_under_asgi_an_event_stream_ends_although_its_view_waits(port: int, presence: Presence) -> None:
    cookie, stopped = sign_in(port), ask(port, "GET", "/sign-in")[2].count("stopped")
    with stream(port, "/quiet-events", cookie) as response:
        assert response.readline() == b"data: news\n"
        presence.kick("1", by="sam", reason="test")
        response.read()
    wait_for("the view", lambda: ask(port, "GET", "/sign-in")[2].count("stopped") > stopped)
    with stream(port, "/few-events", sign_in(port)) as response:
        assert response.read() == b"data: news\n\n" * 3, "it ends at its own end too"
    cookie = sign_in(port)
    with stream(port, "/quiet-events", cookie) as response:
        assert response.readline() == b"data: news\n"
    wait_for("the view, whose client has gone",
             lambda: ask(port, "GET", "/sign-in")[2].count("stopped") > stopped + 1)  # fmt: skip


def test_under_wsgi_an_event_stream_ends_at_its_next_part(directory: Path, server: Server, presence: Presence) -> None:
    with site("runserver", directory, server) as port:
        cookie = sign_in(port)
        with stream(port, "/events", cookie) as response:
            assert response.readline() == b"data: news\n"
            presence.kick("1", by="sam", reason="test")
            began = time.monotonic()
            response.read()
            assert time.monotonic() - began < 10
        wait_for("the view", lambda: "stopped" in ask(port, "GET", "/sign-in")[2])
