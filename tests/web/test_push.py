"""Kick push: an open page of the demo site closes by itself, says why, and misses nothing though connections drop."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from presence_core import Presence, Settings
from tests.browser.conftest import chromium
from tests.fair_clock import PATIENT, ends
from tests.servers import HOST, Server, free_port, missing, redis_binary, valkey_binary, wait_for
from tests.test_demo import Browser, Site, module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("push")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    port = free_port()
    with (
        Server.start(binary, directory / "redis", "--appendonly", "yes", "--appendfsync", "always") as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence,
        module("demo.site", f"--port={port}", log=directory / "site.log", PRESENCE_REDIS_URL=server.url),
    ):
        wait_for("the site", lambda: Browser(port).get("/sign-in").status == 200)
        yield Site(server, presence, port)
    assert (directory / "site.log").read_text() == "", "it went down in peace, with streams open"


class Stream:
    """One page's stream, as a browser reads it."""

    def __init__(self, port: int, token: str, last_id: str = "") -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=30)
        headers = {"Cookie": f"paperboat={token}"} | ({"Last-Event-ID": last_id} if last_id else {})
        self._connection.request("GET", "/live", headers=headers)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.kind = self._answer.headers.get("Content-Type", "")

    def next(self) -> dict[str, str]:
        """The next block; empty at the end."""
        fields: dict[str, str] = {}
        while line := self._answer.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields

    def close(self) -> None:
        self._connection.close()


def test_a_stream_tells_the_end_at_once_with_only_what_is_public(site: Site) -> None:
    login = site.presence.login("push-1")
    stream = Stream(site.port, login.token)
    assert (stream.status, stream.kind) == (200, "text/event-stream; charset=utf-8")
    assert stream.next()["id"]
    site.presence.kick("push-1", by="sam", reason="secret reason", message="<b>Please</b> call us.")
    with ends(within=5):
        told = stream.next()
    assert (told["event"], bool(told["id"])) == ("ended", True)
    data = json.loads(told["data"])
    assert data["title"] == "You have been signed out · Paperboat"
    assert "&lt;b&gt;Please&lt;/b&gt; call us." in data["main"]
    assert "sam" not in told["data"]
    assert "secret reason" not in told["data"]
    assert stream.next() == {}
    stream.close()


def test_another_sessions_end_is_not_told(site: Site) -> None:
    one, other = site.presence.login("push-2"), site.presence.login("push-2")
    stream, also = Stream(site.port, one.token), Stream(site.port, other.token)
    stream.next(), also.next()
    site.presence.kick("push-2", other.session.session_id, by="sam", reason="test")
    assert also.next()["event"] == "ended"
    site.presence.logout("push-2", one.session.session_id)
    assert json.loads(stream.next()["data"])["title"] == "This device is signed out · Paperboat"
    stream.close()
    also.close()


@pytest.mark.parametrize("with_id", [True, False])
def test_a_dropped_connection_misses_no_kick(site: Site, with_id: bool) -> None:
    login = site.presence.login(f"push-3-{with_id}")
    stream = Stream(site.port, login.token)
    last_id = stream.next()["id"]
    stream.close()
    site.presence.kick(login.session.uid, by="sam", reason="test")
    again = Stream(site.port, login.token, last_id if with_id else "")
    assert again.next()["id"]
    assert again.next()["event"] == "ended"
    again.close()


def test_an_id_that_is_none_of_ours_and_a_cookie_that_opens_nothing(site: Site) -> None:
    login = site.presence.login("push-4")
    stream = Stream(site.port, login.token, "nonsense")
    assert stream.next()["id"]
    stream.close()
    nobody = Stream(site.port, "junk")
    assert nobody.status == 204, "so the browser does not come back"
    nobody.close()


def test_an_open_page_is_no_sign_of_life(site: Site) -> None:
    login = site.presence.login("push-5")
    stream = Stream(site.port, login.token)
    stream.next()
    assert site.presence.sessions("push-5")[0].last_seen == login.session.last_seen
    stream.close()


def test_streams_outlive_an_outage_of_redis(site: Site) -> None:
    login = site.presence.login("push-6")
    stream = Stream(site.port, login.token)
    stream.next()
    site.server.kill()
    time.sleep(0.3)
    site.server.restart()
    wait_for("Redis", lambda: site.presence.counts())
    site.presence.kick("push-6", by="sam", reason="test")
    assert stream.next()["event"] == "ended"
    stream.close()


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    with chromium() as own:
        yield own


def open_page(context: BrowserContext, site: Site, uid: str) -> tuple[Any, list[str]]:
    login = site.presence.login(uid, name="Ada Lovelace")
    context.clear_cookies()
    context.add_cookies([{"name": "paperboat", "value": login.token, "url": f"http://{HOST}:{site.port}"}])
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    with page.expect_response("**/live"):  # and with it, in one piece, the place to go on from
        page.goto(f"http://{HOST}:{site.port}/")
    expect(page.get_by_role("heading", name="Ada Lovelace")).to_be_visible()
    page.wait_for_timeout(200)
    return page, complaints


@pytest.mark.browser
def test_a_kicked_visitors_page_closes_by_itself_and_says_why(site: Site, context: BrowserContext) -> None:
    page, complaints = open_page(context, site, "push-7")
    site.presence.kick("push-7", by="sam", reason="stolen", message="Please call us: <img src=x onerror=alert(1)>")
    expect(page.get_by_role("heading", name="You have been signed out")).to_be_visible()
    expect(page.get_by_text("Please call us: <img src=x onerror=alert(1)>")).to_be_visible()
    assert page.title() == "You have been signed out · Paperboat"
    assert page.get_by_text("Ada Lovelace").count() == 0
    page.get_by_role("link", name="Sign in again").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert complaints == []
    page.close()


@pytest.mark.browser
def test_a_page_whose_connection_dropped_learns_of_the_kick_when_it_is_back(
    site: Site, context: BrowserContext, tmp_path: Path
) -> None:
    own = Site(site.server, site.presence, free_port())
    with module("demo.site", f"--port={own.port}", log=tmp_path / "1", PRESENCE_REDIS_URL=site.server.url) as process:
        wait_for("the site", lambda: own.browser().get("/sign-in").status == 200)
        page, _ = open_page(context, own, "push-8")
        process.kill()
    site.presence.kick("push-8", by="sam", reason="stolen", message="Please call us.")
    with module("demo.site", f"--port={own.port}", log=tmp_path / "2", PRESENCE_REDIS_URL=site.server.url):
        with page.expect_response("**/live", timeout=30_000) as answered:  # it asks before the site is up, too
            pass
        assert "last-event-id" in answered.value.request.all_headers()
        expect(page.get_by_text("Please call us.")).to_be_visible()
        page.close()


def test_going_down_leaves_no_stream_hanging(site: Site, tmp_path: Path) -> None:
    port = free_port()
    login = site.presence.login("push-9")
    log = tmp_path / "log"
    with module("demo.site", f"--port={port}", log=log, PRESENCE_REDIS_URL=site.server.url) as process:
        wait_for("the site", lambda: Browser(port).get("/sign-in").status == 200)
        stream = Stream(port, login.token)
        assert stream.next()["id"]
        process.terminate()
        with ends(within=10):
            assert stream.next() == {}
            process.wait(30)
        stream.close()
    assert log.read_text() == ""
