"""A page of another origin, also one on this machine, in an extension or in an app, acts on nothing: in each mode."""

from __future__ import annotations

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from presence_dashboard import texts
from tests.dashboard.gate.conftest import TeamInMode
from tests.dashboard.wire import Wire

pytestmark = pytest.mark.xdist_group("gate")


def foreign(team: TeamInMode) -> list[str]:
    host = team.url.partition("://")[2]
    name, _, port = host.partition(":")
    return [
        "http://localhost:3000",
        "http://127.0.0.1:3000",
        f"http://{name}",
        f"http://localhost:{port}",
        f"http://[::1]:{port}",
        f"http://{name}.:{port}",
        f"http://{host}/",
        f"http://user@{host}",
        f"http://{host}.evil.example",
        "null",
        "file://",
        *(f"{scheme}://{host}" for scheme in ("chrome-extension", "moz-extension", "app", "tauri", "ws", "ftp")),
        host,
        f"//{host}",
    ]


def test_a_page_of_another_origin_acts_on_nothing(team: TeamInMode) -> None:
    session = team.presence.login("visitor-7", name="Ada Lovelace").session
    headers = team.headers("root@example.com", "admin")
    others = {name: value for name, value in headers.items() if name != "Cookie"}
    for origin in foreign(team):
        with (
            pytest.raises((InvalidStatus, ConnectionClosed)),
            Wire.open(team.url, headers.get("Cookie", ""), Origin=origin, **others) as wire,
        ):
            wire.go()
        assert httpx.get(team.url, headers=headers | {"Origin": origin}).status_code == 403, origin
    twice = [*headers.items(), ("Origin", team.url), ("Origin", "http://localhost:3000")]
    assert httpx.get(team.url, headers=twice).status_code == 403
    assert team.presence.validate_session(session.uid, session.session_id, touch=False)


def test_a_page_of_this_dashboard_kicks(team: TeamInMode) -> None:
    session = team.presence.login("visitor-8", name="Grace Hopper").session
    headers = team.headers("desk@example.com", "support")
    with team.page(headers) as wire:
        wire.ask(wire.go(query="q=visitor-8").kick(), query="q=visitor-8")
        confirm = {"id": wire.buttons()[texts.confirm(1)], "trigger_value": True}
        wire.ask(wire.fill(), confirm, query="q=visitor-8")
    assert not team.presence.validate_session(session.uid, session.session_id, touch=False)
