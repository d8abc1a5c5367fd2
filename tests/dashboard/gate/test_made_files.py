"""A file that a page made, such as an export, opens only for the sign-in that made it: in each mode."""

from __future__ import annotations

import re

import httpx
import pytest

from presence_core import StaffRole
from presence_dashboard import texts
from tests.dashboard.gate.conftest import TeamInMode
from tests.dashboard.wire import KEEP, Wire
from tests.support.servers import wait_for

pytestmark = pytest.mark.xdist_group("gate")


def export(wire: Wire) -> str:
    """Make an export of the list of sessions. Returns the path of its file."""
    wire.go()
    [button] = [id_ for label, id_ in wire.buttons().items() if label == texts.EXPORT_LIST]
    wire.ask({"id": button, "trigger_value": True})
    paths = re.findall(rb"/media/[0-9a-f]+\.csv", b"".join(wire.heard))
    return str(paths[-1].decode())


def test_an_export_opens_only_for_the_sign_in_that_made_it(team: TeamInMode) -> None:
    team.presence.login("visitor-7", name="Ada Lovelace")
    maker = team.headers("desk@example.com", "support")
    with team.page(maker) as wire:
        path = export(wire)
        own = httpx.get(f"{team.url}{path}", headers=maker)
        assert own.status_code == 200
        assert "Lovelace" in own.text
        assert own.headers["cache-control"] == "no-store"
        if team.mode == "open":
            return
        roles: tuple[StaffRole, ...] = ("stats", "viewer", "support", "admin")
        others = [team.headers(f"{role}2@example.com", role) for role in roles]
        forged = {"Cookie": re.sub(r"=[^;]{8}", "=AAAAAAAA", maker["Cookie"])}
        proxied = {name: value for name, value in maker.items() if name != "Cookie"}
        for headers in ({}, *others, proxied | forged, proxied):
            for method in ("GET", "HEAD"):
                for address in (path, f"{path}?x=1", path.replace(".csv", ""), path.replace(".csv", ".json")):
                    refused = httpx.request(method, f"{team.url}{address}", headers=headers)
                    assert refused.status_code in (401, 403, 404), (headers, address)
                    assert "Lovelace" not in refused.text
        assert httpx.get(f"{team.url}{path}", headers={**maker, "Range": "bytes=0-9"}).status_code == 206

        team.sessions.kick("desk@example.com", by="root", reason="laptop stolen")
        wait_for(
            "the refusal: an answer is cached for a moment",
            lambda: httpx.get(f"{team.url}{path}", headers=maker).status_code in (401, 404),
        )


def test_counts_open_for_the_role_that_may_see_counts_only(team: TeamInMode) -> None:
    assert KEEP < 1
    stats = team.headers("stats@example.com", "stats")
    with team.page(stats) as wire:
        wire.go("live")
        paths = re.findall(rb"/media/[0-9a-f]+\.csv", b"".join(wire.heard))
        for path in paths:
            assert httpx.get(f"{team.url}{path.decode()}", headers=stats).status_code == 200
