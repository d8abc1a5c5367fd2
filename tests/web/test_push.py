"""Kick push: an open page of the demo site closes automatically, shows the reason, and misses nothing if connections
drop."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from presence_core import Presence, Settings
from tests.browser.conftest import chromium
from tests.project.test_demo import Browser, Site, module
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT, ends
from tests.support.faults.proxy import Proxy
from tests.support.servers import HOST, KEEPS_ALL, Server, free_port, missing, redis_binary, valkey_binary, wait_for

OUTAGE = re.compile(r" presence_\S+: (Redis at \S+ (cannot be reached|answers again) |events (cannot|are) )")
"""What the site logs if it was asked during the outage that a test makes: on a busy machine it often is."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("push")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    port = free_port()
    with (
        Server.start(binary, directory / "redis", *KEEPS_ALL) as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence,
        module(
            "presence_dashboard.demo.site", f"--port={port}", log=directory / "site.log", PRESENCE_REDIS_URL=server.url
        ),
    ):
        wait_for("the site", lambda: Browser(port).get("/sign-in").status == 200)
        yield Site(server, presence, port)
    log = (directory / "site.log").read_text().splitlines()
    unexpected = [line for line in log if not OUTAGE.search(line)]
    assert unexpected == [], "it stops without an error although streams are open"


class Stream:
    """The stream of one page, as a browser reads it."""

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


def test_a_stream_reports_the_end_at_once_with_public_fields_only(site: Site) -> None:
    login = site.presence.login("push-1")
    stream = Stream(site.port, login.token)
    assert (stream.status, stream.kind) == (200, "text/event-stream; charset=utf-8")
    assert stream.next()["id"]
    site.presence.kick("push-1", by="sam", reason="secret reason", message="<b>Please</b> call us.")
    with ends(within=5):
        received = stream.next()
    assert (received["event"], bool(received["id"])) == ("ended", True)
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


def test_a_foreign_id_and_an_invalid_cookie_are_handled(site: Site) -> None:
    login = site.presence.login("push-4")
    stream = Stream(site.port, login.token, "nonsense")
    assert stream.next()["id"]
    stream.close()
    strangers = Stream(site.port, "junk")
    assert strangers.status == 204, "so the browser does not come back"
    strangers.close()


def test_an_open_page_does_not_count_as_a_heartbeat(site: Site) -> None:
    login = site.presence.login("push-5")
    stream = Stream(site.port, login.token)
    stream.next()
    assert site.presence.sessions("push-5")[0].last_seen == login.session.last_seen
    stream.close()


def test_streams_survive_an_outage_of_redis(site: Site) -> None:
    login = site.presence.login("push-6")
    stream = Stream(site.port, login.token)
    last_id = stream.next()["id"]
    site.server.kill()
    time.sleep(0.3)
    site.server.restart()
    wait_for("Redis", lambda: site.presence.counts())
    site.presence.kick("push-6", by="sam", reason="test")
    received = stream.next()
    stream.close()
    if not received:  # the outage came before the site had validated the session: a browser comes back with the id
        stream = Stream(site.port, login.token, last_id)
        assert stream.next()["id"]
        received = stream.next()
        stream.close()
    assert received["event"] == "ended"


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
    with page.expect_response("**/live"):  # with the id to continue from in the same block
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
    page.get_by_role("link", name="Sign in again").click()
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
        with page.expect_response("**/live", timeout=30_000) as answered:
            proxy.holds = lambda source: False
        assert "last-event-id" in answered.value.request.all_headers()
        expect(page.get_by_text("Please call us.")).to_be_visible()
        page.close()


def test_a_shutdown_leaves_no_stream_open_and_another_process_continues_from_its_last_id(
    site: Site, tmp_path: Path
) -> None:
    port = free_port()
    login = site.presence.login("push-9")
    log = tmp_path / "log"
    with module(
        "presence_dashboard.demo.site", f"--port={port}", log=log, PRESENCE_REDIS_URL=site.server.url
    ) as process:
        wait_for("the site", lambda: Browser(port).get("/sign-in").status == 200)
        stream = Stream(port, login.token)
        last_id = stream.next()["id"]
        assert last_id
        process.terminate()
        with ends(within=10):
            assert stream.next() == {}
            process.wait(30)
        stream.close()
    assert log.read_text() == ""
    site.presence.kick("push-9", by="sam", reason="test")
    again = Stream(site.port, login.token, last_id)
    assert again.next()["id"]
    assert again.next()["event"] == "ended"
    again.close()
