"""presence.js in a real Chromium: a page beats, rests while it is hidden, and says goodbye."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import ARGS
from tests.conftest import Bed, on
from tests.servers import missing, wait_for
from tests.web_service import served

pytestmark = pytest.mark.browser


HIDE = """(hidden) => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


class _Page(BaseHTTPRequestHandler):
    """A page of the site: any address has the script of the service that its query names."""

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
        """Nothing on the terminal."""


@pytest.fixture
def shop() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _wait(page: Page, what: str, check: Callable[[], bool]) -> None:
    """The browser goes on while this waits."""

    def look() -> bool:
        page.wait_for_timeout(20)
        return check()

    wait_for(what, look)


@on("valkey-sync")
def test_a_page_beats_rests_while_hidden_and_says_goodbye(bed: Bed, shop: str) -> None:
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        missing("Chromium on PATH")
    visitors = f"{{{bed.namespace}}}:visitors"

    def last() -> float:
        [(_, score)] = bed.raw.zrange(visitors, 0, -1, withscores=True)
        return float(score)

    with served(bed.url, bed.namespace, "--origins", shop) as at, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found[0], args=ARGS)
        page = browser.new_page()
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
        page.goto("about:blank")  # while it beats: one that is on its way does not undo the goodbye
        _wait(page, "the goodbye", lambda: bed.raw.zcard(visitors) == 0)
        page.wait_for_timeout(200)
        assert bed.raw.zcard(visitors) == 0
        browser.close()
