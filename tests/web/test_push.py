"""Kick push: an open page of the demo site closes automatically, shows the reason, and misses nothing if connections
drop."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from presence_core import Presence, Settings
from presence_dashboard.demo.site import running
from tests.browser.conftest import chromium
from tests.project.test_demo import Browser, Site
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT, ends
from tests.support.faults.proxy import Proxy
from tests.support.servers import HOST, KEEPS_ALL, Server, free_port, missing, redis_binary, valkey_binary, wait_for


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("push")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    port = free_port()
    with (
        Server.start(binary, directory / "redis", *KEEPS_ALL) as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence,
        running({"PRESENCE_REDIS_URL": server.url, "PRESENCE_TIMEOUT": str(PATIENT)}, port, 0),
    ):
        wait_for("the site", lambda: Browser(port).get("/sign-in").status == 200)
        yield Site(server, presence, port)


class Stream:
    """The stream of one page, as a browser reads it."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=30)
        self._connection.request("GET", "/live", headers={"Cookie": f"paperboat={token}"})
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


def test_a_stream_reports_the_end_at_once_with_public_fields_only(site: Site) -> None:
    login = site.presence.login("push-1")
    stream = Stream(site.port, login.token)
    assert (stream.status, stream.kind) == (200, "text/event-stream; charset=utf-8")
    assert stream.next()["retry"]
    site.presence.kick("push-1", by="sam", reason="secret reason", message="<b>Please</b> call us.")
    with ends(within=5):
        received = stream.next()
    assert received["event"] == "ended"
    data = json.loads(received["data"])
    assert data["title"] == "You have been signed out · Paperboat"
    assert "&lt;b&gt;Please&lt;/b&gt; call us." in data["main"]
    assert "sam" not in received["data"]
    assert "secret reason" not in received["data"]
    assert stream.next() == {}
    stream.close()


def test_the_end_of_another_session_is_not_sent(site: Site) -> None:
    first, other = site.presence.login("push-2"), site.presence.login("push-2")
    stream, also = Stream(site.port, first.token), Stream(site.port, other.token)
    stream.next(), also.next()
    site.presence.kick("push-2", other.session.session_id, by="sam", reason="test")
    assert also.next()["event"] == "ended"
    site.presence.logout("push-2", first.session.session_id)
    assert json.loads(stream.next()["data"])["title"] == "This device is signed out · Paperboat"
    stream.close()
    also.close()


def test_a_dropped_connection_misses_no_kick(site: Site) -> None:
    login = site.presence.login("push-3")
    stream = Stream(site.port, login.token)
    stream.next()
    stream.close()
    site.presence.kick(login.session.uid, by="sam", reason="test")
    again = Stream(site.port, login.token)
    assert again.next()["retry"]
    assert again.next()["event"] == "ended"
    again.close()


def test_a_page_with_an_invalid_cookie_does_not_come_back(site: Site) -> None:
    strangers = Stream(site.port, "junk")
    assert strangers.status == 204
    strangers.close()


def test_an_open_page_does_not_count_as_a_heartbeat(site: Site) -> None:
    login = site.presence.login("push-5")
    stream = Stream(site.port, login.token)
    stream.next()
    assert site.presence.sessions("push-5")[0].last_seen == login.session.last_seen
    stream.close()


def test_a_page_comes_back_after_an_outage_of_redis(site: Site) -> None:
    login = site.presence.login("push-6")
    stream = Stream(site.port, login.token)
    stream.next()
    site.server.kill()
    assert stream.next() == {}, "the browser tries again"
    stream.close()
    site.server.restart()
    wait_for("Redis", lambda: site.presence.counts())
    site.presence.kick("push-6", by="sam", reason="test")
    again = Stream(site.port, login.token)
    assert again.next()["retry"]
    assert again.next()["event"] == "ended"
    again.close()


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
    with page.expect_response("**/live"):
        page.goto(f"http://{HOST}:{site.port}/")
    expect(page.get_by_role("heading", name="Ada Lovelace")).to_be_visible()
    page.wait_for_timeout(200)
    return page, complaints


@pytest.mark.browser
def test_a_kicked_visitors_page_closes_automatically_and_shows_the_reason(site: Site, context: BrowserContext) -> None:
    page, complaints = open_page(context, site, "push-7")
    site.presence.kick("push-7", by="sam", reason="stolen", message="Please call us: <img src=x onerror=alert(1)>")
    expect(page.get_by_role("heading", name="You have been signed out")).to_be_visible()
    expect(page.get_by_text("Please call us: <img src=x onerror=alert(1)>")).to_be_visible()
    assert page.title() == "You have been signed out · Paperboat"
    assert page.get_by_text("Ada Lovelace").count() == 0
    page.get_by_role("link", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert complaints == []
    page.close()


@pytest.mark.browser
def test_a_page_whose_connection_dropped_gets_the_kick_when_it_reconnects(
    site: Site, context: BrowserContext, loop: EventLoop
) -> None:
    with Proxy(site.port, loop) as proxy:
        page, _ = open_page(context, Site(site.server, site.presence, proxy.port), "push-8")
        proxy.holds = lambda source: True
        proxy.cut()
        site.presence.kick("push-8", by="sam", reason="stolen", message="Please call us.")
        proxy.holds = lambda source: False
        expect(page.get_by_text("Please call us.")).to_be_visible(timeout=30_000)
        page.close()


def test_a_shutdown_leaves_no_stream_open(site: Site) -> None:
    port = free_port()
    login = site.presence.login("push-9")
    with running({"PRESENCE_REDIS_URL": site.server.url}, port, 0):
        wait_for("the site", lambda: Browser(port).get("/sign-in").status == 200)
        stream = Stream(port, login.token)
        assert stream.next()["retry"]
    with ends(within=10):
        assert stream.next() == {}
    stream.close()
