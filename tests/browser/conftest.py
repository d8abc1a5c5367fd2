"""A real Chromium on a real dashboard, shared by all tests of this room: ``streamlit run dashboard.py``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from presence_core import Login, Presence, Settings
from presence_dashboard import texts
from tests.fair_clock import PATIENT
from tests.servers import Server, free_port, missing, redis_binary, valkey_binary, wait_for

ROOT = Path(__file__).parent.parent.parent
ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

expect.set_options(timeout=30_000)  # five seconds by default: a busy machine may take them to draw a page

# The table is a canvas: what is where on it, in pixels.
ROW = 31
TICK_BOX, KICK_BUTTON, NAME = 17, 61, 140


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    """A browser, and what its pages share: cookies and a cache."""
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        missing("Chromium on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found[0], args=ARGS)
        context = browser.new_context()
        context.set_default_timeout(30_000)
        yield context
        browser.close()


@pytest.fixture(scope="package")
def context() -> Iterator[BrowserContext]:
    """One for all tests: a page then finds Streamlit's scripts in its cache."""
    with chromium() as shared:
        yield shared


@dataclass
class Dashboard:
    """A dashboard that runs, and what stands behind it."""

    url: str
    server: Server
    presence: Presence
    log: Path
    tokens: list[str] = field(default_factory=list)  #: of all who were signed in

    def answer(self, path: str, **headers: str) -> tuple[int, dict[str, str]]:
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status, dict(response.headers)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, dict(refused.headers)


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    directory = tmp_path_factory.mktemp("browser")
    port, log = free_port(), directory / "dashboard.log"
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Server.start(binary, directory / "redis") as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence,
    ):
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(port)],
                cwd=ROOT,
                env=os.environ | {"PRESENCE_REDIS_URL": server.url, "PRESENCE_TIMEOUT": "2"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        dashboard = Dashboard(f"http://127.0.0.1:{port}", server, presence, log)
        try:
            wait_for("the dashboard", lambda: dashboard.answer("/healthz")[0] == 200)
            yield dashboard
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def dashboard(running: Dashboard) -> Iterator[Dashboard]:
    yield running
    running.server.resume()
    running.server.command("FLUSHALL")


@dataclass
class Tab:
    """One open page, with all that it was sent and all that it complained of."""

    page: Page
    frames: list[bytes] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def listen(self, home: str) -> None:
        def heard(url: str) -> None:
            if not url.startswith((home, "data:", "blob:")):
                self.outside.append(url)

        def received(frame: str | bytes) -> None:
            self.frames.append(frame.encode() if isinstance(frame, str) else frame)

        self.page.on("request", lambda request: heard(request.url))
        self.page.on("websocket", lambda socket: socket.on("framereceived", received))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)

    def settle(self) -> None:
        """Wait until the script has begun to answer the last event, and has ended."""
        self.page.wait_for_timeout(200)
        self.page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')

    def press(self, key: str) -> None:
        """A shortcut, once what it is for is there: a page is drawn part by part, and a key pressed before its button
        has come is nobody's."""
        self.settle()
        self.page.keyboard.press(key)

    def everything(self) -> list[bytes]:
        return [*self.frames, self.page.content().encode()]

    def rows(self) -> list[list[str]]:
        """The cells of the big table's rows, as a screen reader meets them."""
        rows: list[list[str]] = self.page.locator("[data-testid=stDataFrame] table").first.evaluate(
            "table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent))"
        )
        return rows

    def uids(self) -> list[str]:
        return [row[2] for row in self.rows()]

    def expect_first(self, uid: str) -> None:
        cells = self.page.locator("[data-testid=stDataFrame] table").first.locator("tbody td")
        expect(cells.nth(2)).to_have_text(uid)

    def click(self, x: int, row: int) -> None:
        """Click into the table; row -1 is its header."""
        table = self.page.locator("[data-testid=stDataFrame] .dvn-scroller").first
        table.click(position={"x": x, "y": ROW * (row + 1) + ROW // 2})

    def confirm(self, reason: str, message: str = "", button: str = "Kick 1 session") -> None:
        self.page.get_by_role("textbox", name=texts.REASON).fill(reason)
        self.page.get_by_role("textbox", name=texts.MESSAGE).fill(message)
        self.page.get_by_role("button", name=button).click()


Open = Callable[..., Tab]


@pytest.fixture
def open_tab(context: BrowserContext, dashboard: Dashboard) -> Iterator[Open]:
    """Open the dashboard. Afterwards nothing was loaded from outside, the browser complained of nothing, and no token
    was in a page, a frame or the log."""
    tabs: list[Tab] = []

    def open_one(width: int = 1400, height: int = 960) -> Tab:
        tab = Tab(context.new_page())
        tabs.append(tab)
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.page.emulate_media(color_scheme="light")
        tab.listen(dashboard.url)
        tab.page.goto(dashboard.url)
        tab.page.wait_for_selector("[data-testid=stDataFrame] table tbody tr td:nth-child(3)", state="attached")
        tab.page.wait_for_timeout(300)  # the table measures itself once more after its first paint
        return tab

    yield open_one
    seen = b"".join((dashboard.log.read_bytes(), *(part for tab in tabs for part in tab.everything())))
    for tab in tabs:
        tab.page.close()
    assert b"Person 00" in seen
    assert [token for token in dashboard.tokens if token.rpartition(".")[2].encode() in seen] == []
    assert [url for tab in tabs for url in tab.outside] == []
    assert [said for tab in tabs for said in tab.complaints] == []


def log_in(dashboard: Dashboard, count: int, prefix: str = "user") -> list[Login]:
    people = [{"uid": f"{prefix}{n:02}", "name": f"Person {n:02} {prefix}", "device": "Mac"} for n in range(count)]
    logins = [dashboard.presence.login(**person) for person in people]  # type: ignore[arg-type]
    dashboard.tokens += [login.token for login in logins]
    return logins


def live(dashboard: Dashboard, logins: list[Login]) -> list[str]:
    return [login.session.uid for login in logins if dashboard.presence.validate(login.token, touch=False)]
