"""The blocks of docs/use/your_devices.md run as they are printed, on a real server."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from presence_core import Presence, Settings
from presence_core.web.your_devices.device_list import DevicesPage
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary
from tests.web.your_devices.device_sites import KEY

PAGE = (Path(__file__).parents[3] / "docs/use/your_devices.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```python (\w+)\n(.*?)^```", PAGE, re.M | re.S))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("devices")) as running:
        yield running


@pytest.fixture
def token(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        yield presence.login("ada", device="phone").token
        presence.kick("ada", by="test", reason="test")


def run(name: str) -> dict[str, Any]:
    known: dict[str, Any] = {"__name__": "mysite", "KEY": KEY}
    exec(compile(BLOCKS[name], "docs/use/your_devices.md", "exec"), known)
    return known


def test_every_block_is_tested_and_has_five_lines_at_most() -> None:
    assert set(BLOCKS) == {
        "asgi",
        "wsgi",
        "django",
        "template",
    }  # django: tests/web/your_devices/test_django_devices.py
    for name in ("asgi", "wsgi", "django"):
        lines = [line for line in BLOCKS[name].splitlines() if line and not line.startswith("from ")]
        assert len(lines) <= 5, name


def test_the_lines_for_fastapi(token: str) -> None:
    site = run("asgi")
    with TestClient(site["app"]) as client:
        assert client.get("/devices/").status_code == 401
        page = client.get("/devices/", headers={"cookie": f"presence={token}"})
        assert (page.status_code, "<bdi>phone</bdi>" in page.text) == (200, True)
        assert client.portal is not None
        client.portal.call(site["presence"].close)


def test_the_lines_for_flask(token: str) -> None:
    site = run("wsgi")
    with httpx.Client(transport=httpx.WSGITransport(app=site["app"], wsgi_errors=io.StringIO())) as client:
        assert client.get("http://shop.example/devices/").status_code == 401
        page = client.get("http://shop.example/devices/", headers={"cookie": f"presence={token}"})
        assert (page.status_code, "<bdi>phone</bdi>" in page.text) == (200, True)
    site["presence"].close()


def test_the_template_draws_a_page() -> None:
    page = DevicesPage(title="<A>", body="<p>B</p>", style="p {}", language="de", status=200, csrf="")
    drawn = run("template")["draw"](page)
    assert '<html lang="de"><title>&lt;A&gt;</title>' in drawn
    assert "<main><p>B</p></main>" in drawn
