"""A real Chromium on a real dashboard, shared by all tests of this folder: ``streamlit run dashboard.py``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect, sync_playwright

from presence_core import Login, Presence, Settings
from presence_core.files.password_file import PasswordFile
from presence_dashboard import texts
from presence_dashboard.gate.staff_sessions import PASSWORD
from tests.dashboard.wire import serve
from tests.support.fair_clock import PATIENT
from tests.support.place_file import write_place_file
from tests.support.servers import Server, free_port, missing, redis_binary, valkey_binary, wait_for

ROOT = Path(__file__).parents[2]
ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

expect.set_options(timeout=60_000)  # five seconds by default: a busy machine may take them to draw a page


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    """A browser, and what its pages share: cookies and a cache."""
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        missing("Chromium on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found[0], args=ARGS)
        context = browser.new_context(reduced_motion="reduce")  # what moves is drawn sixty times a second
        context.set_default_timeout(60_000)
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

    def reads(self) -> bool:
        """Whether it says that Redis answers."""
        with urllib.request.urlopen(f"{self.url}/page/connection", timeout=20) as response:
            answer: dict[str, str | None] = json.load(response)
        return answer["notice"] is None

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
    places = str(write_place_file(directory / "places.mmdb"))  # for time zones: logins have a place without it
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Server.start(binary, directory / "redis") as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence,
    ):
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(port)],
                cwd=ROOT,
                env=os.environ
                | {"PRESENCE_REDIS_URL": server.url, "PRESENCE_TIMEOUT": "2", "PRESENCE_PLACE_FILE": places},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        dashboard = Dashboard(f"http://127.0.0.1:{port}", server, presence, log)
        try:
            wait_for("the dashboard", lambda: process.poll() is not None or dashboard.answer("/healthz")[0] == 200)
            assert process.poll() is None, log.read_text("utf-8")
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
    wait_for("the dashboard to read from Redis again", running.reads)


@dataclass
class Tab:
    """One open page, with all that it was sent and all that it complained of."""

    page: Page
    frames: list[bytes] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    shows: bytes = b""  #: a text that it has surely been sent

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
        """A shortcut, once its button is there: a page is drawn part by part, and a key pressed before its button
        has come does nothing."""
        self.settle()
        self.page.keyboard.press(key)

    def everything(self) -> list[bytes]:
        return [*self.frames, self.page.content().encode()]

    @property
    def table(self) -> Locator:
        """The table of sessions."""
        names = re.compile(f"{texts.TABLE_LABEL}|{texts.TABLE_LABEL_LAST_ACTIVE}")
        return self.page.get_by_role("table", name=names)

    def row(self, text: str) -> Locator:
        """The row with this text."""
        return self.table.locator("tbody").get_by_role("row").filter(has_text=text)

    def cells(self, column: str) -> list[str]:
        """The cells of a column."""
        return self.table.locator(f"tbody [data-column={column}]").all_inner_texts()

    def uids(self) -> list[str]:
        return self.cells("uid")

    def expect_first(self, uid: str) -> None:
        expect(self.table.locator("tbody [data-column=uid]").first).to_have_text(uid)

    def account(self) -> None:
        """Open the menu of the signed-in member of staff."""
        self.page.locator(".st-key-menu-account").get_by_role("button").click()

    def expect_uids(self, *uids: str) -> None:
        """Wait until these are all the rows, in this order."""
        expect(self.table.locator("tbody [data-column=uid]")).to_have_text(list(uids))

    def kick(self, text: str) -> None:
        """Press the row's own button."""
        self.row(text).get_by_role("button", name=texts.KICK).click()

    def tick(self, *names: str) -> None:
        for text in names:
            self.row(text).get_by_role("checkbox").check()

    def ticked(self) -> Locator:
        return self.table.locator("tbody").get_by_role("checkbox", checked=True)

    def confirm(self, reason: str, message: str = "", button: str = "Kick 1 session") -> None:
        self.page.get_by_role("textbox", name=texts.REASON).fill(reason)
        self.page.get_by_role("textbox", name=texts.MESSAGE).fill(message)
        self.page.get_by_role("button", name=button).click()


Open = Callable[..., Tab]
NewPage = Callable[[], Page]


@pytest.fixture(scope="package")
def new_page(context: BrowserContext, running: Dashboard) -> NewPage:
    """An empty page in the process of the others: it finds Streamlit's scripts compiled, which halves its way to the
    first paint."""
    home = context.new_page()
    home.goto(f"{running.url}/healthz")

    def open_page() -> Page:
        with context.expect_page() as opened:
            home.evaluate("() => { window.open('about:blank') }")
        return opened.value

    return open_page


@pytest.fixture
def open_tab(new_page: NewPage, dashboard: Dashboard) -> Iterator[Open]:
    """Open the dashboard. Afterwards nothing was loaded from outside, the browser complained of nothing, and no token
    was in a page, a frame or the log."""
    tabs: list[Tab] = []

    def open_one(width: int = 1400, height: int = 960, *, path: str = "") -> Tab:
        tab = Tab(new_page())
        tabs.append(tab)
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.page.emulate_media(color_scheme="light")
        tab.listen(dashboard.url)
        tab.page.goto(dashboard.url + path)
        if not path:
            tab.page.wait_for_selector("table tbody tr")
            tab.shows = b"Person 00"
        return tab

    yield open_one
    seen = b"".join((dashboard.log.read_bytes(), *(part for tab in tabs for part in tab.everything())))
    for tab in tabs:
        tab.page.close()
    assert all(tab.frames and tab.shows in seen for tab in tabs), "or nothing was heard"
    assert [token for token in dashboard.tokens if token.rpartition(".")[2].encode() in seen] == []
    assert [url for tab in tabs for url in tab.outside] == []
    assert [said for tab in tabs for said in tab.complaints] == []


SECRET = "correct horse battery"


@dataclass
class Team:
    """A dashboard to which staff sign in with a password."""

    url: str
    presence: Presence
    sessions: Presence  #: where sign-ins are sessions
    passwords: PasswordFile
    log: Path


@pytest.fixture(scope="package")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    directory = tmp_path_factory.mktemp("team")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    file = PasswordFile(directory / "staff")
    for name in ("root", "dana"):
        file.set(name, SECRET)
    with ExitStack() as stack:
        server = stack.enter_context(Server.start(binary, directory / "redis"))
        presence = stack.enter_context(Presence.from_url(server.url, Settings(timeout=PATIENT)))
        staff = Settings(namespace=f"{presence.settings.namespace}-staff", timeout=PATIENT)
        sessions = stack.enter_context(Presence.from_url(server.url, staff))
        for name in ("root", "eve"):
            presence.set_staff(name, "admin", by="test")
        presence.set_staff("dana", "support", by="test")
        environ = {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DASHBOARD_ACCESS": "password",
            "PRESENCE_STAFF_FILE": str(file.path),
        }
        log = directory / "log"
        yield Team(stack.enter_context(serve(environ, log)), presence, sessions, file, log)


def signed_in(team: Team, name: str, *, ago: float = 1) -> str:
    """The cookie's value of a member of staff who signed in some seconds ago."""
    stored = team.passwords.find(name)
    assert stored
    at = time.time() - ago
    row = {"uid": name, "attributes": {PASSWORD: stored.version}, "login_at": at, "last_seen": time.time() - 1}
    [login] = team.sessions.login_many([row], imported=True)
    assert isinstance(login, Login)
    return login.token


def log_in(dashboard: Dashboard, count: int, prefix: str = "user") -> list[Login]:
    people = [{"uid": f"{prefix}{n:02}", "name": f"Person {n:02} {prefix}", "device": "Mac"} for n in range(count)]
    logins = [dashboard.presence.login(**person) for person in people]  # type: ignore[arg-type]
    dashboard.tokens += [login.token for login in logins]
    return logins


def live(dashboard: Dashboard, logins: list[Login]) -> list[str]:
    return [login.session.uid for login in logins if dashboard.presence.validate(login.token, touch=False)]
