"""Staff sign in with a password on two dashboard processes that share one Redis: forms by httpx, pages by websocket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from presence_core import Presence, Settings
from presence_core.files.password_file import PasswordFile
from presence_dashboard import texts
from presence_dashboard.format import name as in_bold
from presence_dashboard.gate.staff_sessions import COOKIE
from tests.dashboard.wire import Wire, serve
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary

SECRET = "correct horse battery"
PAGE = {"Accept": "text/html"}


@dataclass
class Team:
    urls: list[str]
    presence: Presence
    logs: list[Path]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    directory = tmp_path_factory.mktemp("team")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    file = PasswordFile(directory / "staff")
    file.set("dana", SECRET)
    with ExitStack() as stack:
        server = stack.enter_context(Server.start(binary, directory / "redis"))
        presence = stack.enter_context(Presence.from_url(server.url, Settings(timeout=PATIENT)))
        presence.set_staff("dana", "support", by="test")
        environ = {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DASHBOARD_ACCESS": "password",
            "PRESENCE_STAFF_FILE": str(file.path),
        }
        logs = [directory / "one.log", directory / "two.log"]
        yield Team([stack.enter_context(serve(environ, log)) for log in logs], presence, logs)


def send_form(client: httpx.Client, path: str, headers: dict[str, str] | None = None, **fields: str) -> httpx.Response:
    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get(path).text)
    assert csrf
    return client.post(
        path, data={"csrf": csrf[1], **fields}, headers={"Origin": str(client.base_url).rstrip("/")} | (headers or {})
    )


def test_one_sign_in_opens_both_dashboards_and_one_sign_out_closes_both(team: Team) -> None:
    first, second = team.urls
    with httpx.Client(base_url=first, timeout=30) as client:
        assert send_form(client, "/sign-in", name="Dana", password=SECRET).status_code == 303
        line = f"{COOKIE}={client.cookies[COOKIE]}"
        with Wire.open(second, line) as wire:
            assert texts.signed_in_as(in_bold("dana"), "support") in wire.go("person").text()
            assert httpx.get(second, headers=PAGE | {"Cookie": line}).status_code == 200

            assert texts.SIGN_OUT_DONE in send_form(client, "/sign-out").text
            wire.send_later(wire.wish())
            assert texts.SIGNED_OUT_TITLE.encode() in b"".join(wire.heard)
    answer = httpx.get(second, headers=PAGE | {"Cookie": line})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=/")
    assert SECRET not in "".join(log.read_text() for log in team.logs)


def test_a_spoofed_forwarded_address_is_not_believed(team: Team) -> None:
    """uvicorn would believe it of every peer on this machine."""
    with httpx.Client(base_url=team.urls[0], timeout=30) as client:
        headers = {"X-Forwarded-For": "203.0.113.9"}
        answer = send_form(client, "/sign-in", headers, name="dana", password="wrong horse battery")
        assert answer.status_code == 403
    assert team.presence.audit(by="dana").items[0].reason == "wrong password, from 127.0.0.1"
