"""The dashboard as people meet it: ``streamlit run dashboard.py`` in a real Chromium, over a real server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from presence_core import Login, Presence
from presence_dashboard import texts
from tests.servers import Server, free_port, missing, redis_binary, valkey_binary, wait_for

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parent.parent
ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

# The table is a canvas: what is where on it, in pixels.
ROW = 31
TICK_BOX, KICK_BUTTON, NAME = 17, 61, 140


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    """One for all tests: a page then finds Streamlit's scripts in its cache."""
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        missing("Chromium on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found[0], args=ARGS)
        context = browser.new_context()
        context.set_default_timeout(15_000)
        yield context
        browser.close()


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
            with urllib.request.urlopen(request, timeout=5) as response:
                return response.status, dict(response.headers)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, dict(refused.headers)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    directory = tmp_path_factory.mktemp("browser")
    port, log = free_port(), directory / "dashboard.log"
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, directory / "redis") as server, Presence.from_url(server.url) as presence:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(port)],
                cwd=ROOT,
                env=os.environ | {"PRESENCE_REDIS_URL": server.url, "PRESENCE_TIMEOUT": "0.5"},
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
                process.wait(15)
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


def test_a_row_kick_ends_the_session_of_that_very_person(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 8)
    tab = open_tab()
    assert tab.uids() == [f"user{n:02}" for n in reversed(range(8))]

    tab.click(KICK_BUTTON, 3)
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("user04")
    expect(dialog).to_contain_text("Person 04 user")
    tab.confirm("Shared account", "Please sign in again.")

    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Kicked Person 04 user (Mac).")
    checked = dashboard.presence.validate(logins[4].token)
    assert not checked
    assert checked.ended is not None
    assert checked.ended.public.message == "Please sign in again."
    assert len(live(dashboard, logins)) == 7
    expect(dialog).to_have_count(0)
    tab.settle()
    assert "user04" not in tab.uids()


def test_the_right_person_is_kicked_while_rows_change_under_the_pointer(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 8)
    tab = open_tab()
    late = log_in(dashboard, 30, "late")
    expect(tab.page.get_by_role("button", name=texts.newer(30, "30"))).to_be_visible()

    tab.click(KICK_BUTTON, 3)
    expect(tab.page.get_by_role("dialog")).to_contain_text("user04")
    log_in(dashboard, 1, "later")
    tab.confirm("Shared account")
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Person 04 user")
    assert live(dashboard, logins) == ["user00", "user01", "user02", "user03", "user05", "user06", "user07"]
    assert len(live(dashboard, late)) == 30
    tab.expect_first("later00")


def test_the_right_person_is_kicked_in_a_table_that_was_sorted(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 5)
    tab = open_tab()
    tab.click(NAME, -1)
    tab.expect_first("user00")
    tab.click(KICK_BUTTON, 0)
    expect(tab.page.get_by_role("dialog")).to_contain_text("user00")
    tab.confirm("Shared account")
    expect(tab.page.get_by_test_id("stToast")).to_be_visible()
    assert live(dashboard, logins) == ["user01", "user02", "user03", "user04"]


def test_ticked_rows_are_kicked_by_keyboard(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 5)
    tab = open_tab()
    for count, row in enumerate((0, 2), start=1):
        tab.click(TICK_BOX, row)
        expect(tab.page.get_by_role("button", name=texts.kick_selected(count))).to_be_enabled()
    tab.page.keyboard.press("k")
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text(texts.kick_many(2))

    tab.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    tab.settle()  # a dialog reopened within a blink shows the old one's fields, whose clicks count for nothing
    tab.page.keyboard.press("k")
    expect(dialog).to_contain_text(texts.kick_many(2))
    tab.page.get_by_role("button", name=texts.confirm(2)).click()
    expect(dialog).to_contain_text(texts.REASON_MISSING)

    reason = tab.page.get_by_role("textbox", name=texts.REASON)
    reason.press_sequentially("no kick")  # letters that are shortcuts elsewhere on the page
    reason.press("Control+Enter")
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Kicked 2 sessions")
    assert live(dashboard, logins) == ["user00", "user01", "user03"]


def test_nothing_is_wider_than_the_window_on_a_phone_or_a_large_screen_light_or_dark(
    dashboard: Dashboard, open_tab: Open
) -> None:
    log_in(dashboard, 30)
    tab = open_tab(320, 640)

    def beyond() -> int:
        """Pixels by which the page is wider than its window."""
        page = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
        pixels: int = tab.page.evaluate(f"{page} - innerWidth")
        return pixels

    surface = tab.page.locator(".stApp")
    assert beyond() <= 0
    expect(surface).to_have_css("background-color", "rgb(255, 255, 255)")
    tab.page.emulate_media(color_scheme="dark")
    expect(surface).to_have_css("background-color", "rgb(18, 23, 29)")
    tab.click(KICK_BUTTON, 8)
    expect(tab.page.get_by_role("dialog")).to_contain_text("user21")
    assert beyond() <= 0
    tab.page.set_viewport_size({"width": 1920, "height": 1080})
    expect(tab.page.get_by_role("dialog")).to_contain_text("user21")
    assert beyond() <= 0


def test_an_outage_shows_the_last_data_and_ends_by_itself(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 3)
    tab = open_tab()
    banner = tab.page.get_by_text("Redis is away.", exact=True)
    dashboard.server.pause()
    expect(banner).to_be_visible(timeout=10_000)
    refresh = tab.page.get_by_role("button", name=texts.REFRESH)
    expect(refresh).to_have_count(1)
    expect(refresh).to_be_disabled()
    expect(tab.page.get_by_text(texts.AWAY_HINT)).to_be_visible()
    assert tab.uids() == ["user02", "user01", "user00"]
    dashboard.server.resume()
    expect(banner).to_have_count(0, timeout=5_000)
    expect(refresh).to_have_count(1)
    expect(refresh).to_be_enabled()


def test_a_hostile_name_runs_nothing_and_stays_as_it_is(dashboard: Dashboard, open_tab: Open) -> None:
    hostile = (
        "<img src=x onerror=alert(1)> :red[x] $x$ :smile: :material/home: ![](http://x.invalid/y.png) -> www.x.invalid"
    )
    log_in(dashboard, 1)
    dashboard.presence.login("mallory", name=hostile, device=hostile[41:101])
    tab = open_tab()
    names = [row[1] for row in tab.rows()]  # within one millisecond either may be the newer
    assert sorted(names) == [hostile, "Person 00 user"]
    tab.click(KICK_BUTTON, names.index(hostile))
    expect(tab.page.get_by_role("dialog")).to_contain_text(hostile)
    tab.confirm("Shared account")
    expect(tab.page.get_by_test_id("stToast")).to_contain_text(f"Kicked {hostile[:39].strip()}")


def test_only_this_machine_by_its_own_name_is_answered(dashboard: Dashboard) -> None:
    status, headers = dashboard.answer("/")
    assert status == 200
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    status, headers = dashboard.answer("/", Host="rebound.example")
    assert status == 403
    assert headers["x-frame-options"] == "DENY"
