"""A page with presence.js in a real Chromium: it sends beats, pauses while hidden, and says goodbye.

Also: an EventSource that is cut off before its first event misses nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

import pytest
from playwright.sync_api import BrowserContext, Page

from presence_core import Presence, Settings
from presence_core.web.service.api_keys import make_key
from tests.browser.conftest import chromium
from tests.conftest import Bed, on
from tests.support.servers import wait_for
from tests.web.service.process import served_on_thread

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    with chromium() as shared:
        yield shared


HIDE = """(hidden) => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


class _Page(BaseHTTPRequestHandler):
    """A page of the site: every address loads the script of the service named in its query."""

    def do_GET(self) -> None:
        service = self.path.partition("?")[2]
        body = (
            f"<!doctype html><script src='{service}/presence.js' data-beat=/counter data-seconds=0.2></script>".encode()
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing to the terminal."""


@pytest.fixture
def shop() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _wait(page: Page, what: str, check: Callable[[], bool]) -> None:
    """Wait without blocking the browser."""

    def look() -> bool:
        page.wait_for_timeout(20)
        return check()

    wait_for(what, look)


@on("valkey-sync")
def test_a_page_sends_beats_pauses_while_hidden_and_says_goodbye(bed: Bed, shop: str, context: BrowserContext) -> None:
    visitors = f"{{{bed.namespace}}}:visitors"

    def last() -> float:
        [(_, score)] = bed.raw.zrange(visitors, 0, -1, withscores=True)
        return float(score)

    with served_on_thread(bed.url, bed.namespace, origins=(shop,)) as at:
        page = context.new_page()
        beats: list[float] = []
        page.on("request", lambda request: beats.append(time.monotonic()) if "/counter" in request.url else None)
        page.goto(f"{shop}/?{at}")
        _wait(page, "the page to beat", lambda: len(beats) >= 3)
        assert bed.raw.zcard(visitors) == 1, "a page that beats on is one visitor"
        assert time.time() - last() < 30
        page.evaluate(HIDE, True)

        def rests() -> bool:
            seen = len(beats)
            page.wait_for_timeout(700)
            return len(beats) == seen

        _wait(page, "a hidden page to rest", rests)
        seen = len(beats)
        page.evaluate(HIDE, False)
        _wait(page, "the page to beat again", lambda: len(beats) > seen)
        page.goto("about:blank")  # while it beats: a beat on its way does not undo the goodbye
        _wait(page, "the goodbye", lambda: bed.raw.zcard(visitors) == 0)
        page.wait_for_timeout(200)
        assert bed.raw.zcard(visitors) == 0
        page.close()


class _Gateway(ThreadingHTTPServer):
    """A site that passes the events on to its own pages, and cuts the first reader off before any event."""

    key = ""
    events = ""
    came_with: list[str | None]


class _Events(BaseHTTPRequestHandler):
    server: _Gateway

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path != "/events":
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(
                b"<!doctype html><title>none</title><script>const source = new EventSource('/events');"
                b"source.addEventListener('kicked', event => {"
                b" document.title = JSON.parse(event.data).uid; });</script>"
            )
            return
        last = self.headers.get("Last-Event-ID")
        service = HTTPConnection(self.server.events.removeprefix("http://"), timeout=30)
        headers = {"Authorization": f"Bearer {self.server.key}"} | ({"Last-Event-ID": last} if last else {})
        service.request("GET", "/v1/events", headers=headers)
        answer = service.getresponse()
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"retry: 200\n")
        first = not self.server.came_with
        empty = 0
        for line in answer:
            self.wfile.write(line)
            self.wfile.flush()
            empty += line == b"\n"
            if first and empty:
                break
        service.close()
        self.server.came_with.append(last)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Logs nothing to the terminal."""


@on("valkey-sync")
def test_an_event_source_cut_off_before_its_first_event_gets_the_kick_in_between(
    bed: Bed, context: BrowserContext
) -> None:
    with Presence.from_url(bed.url, Settings(namespace=bed.namespace)) as staff:
        _, key = make_key(staff, "reader", ["read"])
        staff.login("ada")
        with served_on_thread(bed.url, bed.namespace) as at, _Gateway(("127.0.0.1", 0), _Events) as gateway:
            gateway.key, gateway.events, gateway.came_with = key, at, []
            gateway.daemon_threads = True
            threading.Thread(target=gateway.serve_forever, daemon=True).start()
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{gateway.server_port}/")
            wait_for("the first reader to be cut off", lambda: gateway.came_with)
            staff.kick("ada", by="staff", reason="test")
            page.wait_for_function("document.title === 'ada'", timeout=30_000)
            page.close()
            gateway.shutdown()
