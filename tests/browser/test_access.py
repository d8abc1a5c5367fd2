"""Staff sign in with a password, in a real browser, on two dashboard processes that share one Redis."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from presence_core import Presence, Settings
from presence_core.passwords import PasswordFile
from presence_dashboard import texts
from tests.browser.conftest import ROOT
from tests.fair_clock import PATIENT
from tests.servers import Server, free_port, missing, redis_binary, valkey_binary, wait_for

pytestmark = pytest.mark.browser

SECRET = "correct horse battery"


@dataclass
class Team:
    """Two dashboards side by side, and what stands behind them."""

    urls: list[str]
    presence: Presence
    logs: list[Path]

    def said(self) -> str:
        return "".join(log.read_text() for log in self.logs)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    directory = tmp_path_factory.mktemp("team")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    file = PasswordFile(directory / "staff")
    for name in ("root", "dana", "eve"):
        file.set(name, SECRET)
    with ExitStack() as stack:
        server = stack.enter_context(Server.start(binary, directory / "redis"))
        presence = stack.enter_context(Presence.from_url(server.url, Settings(timeout=PATIENT)))
        environ = os.environ | {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DASHBOARD_ACCESS": "password",
            "PRESENCE_STAFF_FILE": str(file.path),
        }
        ports, logs = [free_port(), free_port()], [directory / "one.log", directory / "two.log"]
        for port, log in zip(ports, logs, strict=True):
            command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(port)]
            output = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT)
            stack.callback(process.wait, 15)
            stack.callback(process.terminate)
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        for url in urls:
            wait_for("the dashboard", partial(_answers, url))
        yield Team(urls, presence, logs)


@pytest.fixture
def browser(context: BrowserContext) -> Browser:
    assert context.browser is not None
    return context.browser


@pytest.fixture
def page(browser: Browser, team: Team) -> Iterator[Page]:
    """A browser of its own, in which nobody is signed in."""
    for name, role in (("root", "admin"), ("dana", "support"), ("eve", "viewer")):
        team.presence.set_staff(name, role, by="test")
    team.presence.login("ada", name="Ada Lovelace")
    own = browser.new_context()
    own.set_default_timeout(30_000)
    yield own.new_page()
    own.close()


def sign_in(page: Page, name: str, password: str = SECRET) -> None:
    """With the keyboard alone: the field that is to be filled in has the focus."""
    expect(page.get_by_label(texts.SIGN_IN_NAME)).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.type(password)
    page.keyboard.press("Enter")


def test_staff_sign_in_by_keyboard_and_one_cookie_opens_both_dashboards(page: Page, team: Team) -> None:
    one, two = team.urls
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if "Failed to load" not in said.text else None)
    page.goto(f"{one}/live")
    expect(page).to_have_url(f"{one}/sign-in?next=/live")
    expect(page.get_by_label(texts.SIGN_IN_NAME)).to_be_focused()
    sign_in(page, "Dana", "wrong horse battery")
    expect(page.get_by_role("alert")).to_have_text(texts.SIGN_IN_WRONG)
    expect(page.get_by_label(texts.SIGN_IN_PASSWORD)).to_be_focused()
    page.keyboard.type(SECRET)
    page.keyboard.press("Enter")
    expect(page.get_by_text(texts.signed_in_as("dana", "support"))).to_be_visible()
    expect(page).to_have_url(f"{one}/live")

    other = page.context.new_page()
    other.goto(two)
    expect(other.get_by_text(texts.signed_in_as("dana", "support"))).to_be_visible()

    page.get_by_role("link", name=texts.SIGN_OUT_BUTTON).click()
    page.get_by_role("button", name=texts.SIGN_OUT_BUTTON).click()
    expect(page.get_by_text(texts.SIGN_OUT_DONE)).to_be_visible()
    expect(other.get_by_text(texts.NOT_SIGNED_IN).or_(other.get_by_text(texts.SESSION_OVER))).to_be_visible()
    other.goto(two)
    expect(other.get_by_label(texts.SIGN_IN_PASSWORD)).to_be_visible()
    assert complaints == []
    assert SECRET not in team.said()


def test_who_is_demoted_or_removed_while_the_page_is_open_is_refused_at_once(page: Page, team: Team) -> None:
    page.goto(f"{team.urls[0]}/staff")
    sign_in(page, "root")
    expect(page.get_by_text(texts.signed_in_as("root", "admin"))).to_be_visible()
    team.presence.set_staff("eve", "admin", by="test")
    team.presence.set_staff("root", "viewer", by="eve")
    expect(page.get_by_text(texts.signed_in_as("root", "viewer"))).to_be_visible()
    expect(page.get_by_text(texts.NO_PERMISSION_TITLE)).to_be_visible()

    team.presence.remove_staff("root", by="eve")
    expect(page.get_by_text(texts.no_role("root"))).to_be_visible()
    page.goto(team.urls[0])
    expect(page.get_by_text(texts.no_role("root"))).to_be_visible()


def test_a_spoofed_forwarded_address_is_nobodys(team: Team) -> None:
    """uvicorn would believe it of every peer on this machine."""
    with httpx.Client(base_url=team.urls[0]) as client:
        client.get("/sign-in")
        data = {"csrf": client.cookies["presence_csrf"], "name": "dana", "password": "wrong horse battery"}
        headers = {"Origin": team.urls[0], "X-Forwarded-For": "203.0.113.9"}
        assert client.post("/sign-in", data=data, headers=headers).status_code == 403
    assert team.presence.audit(by="dana").items[0].reason == "wrong password, from 127.0.0.1"
