"""Staff sign in with a password in a real browser, and the page shows when their sign-in ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from presence_core import Presence, Settings
from presence_core.password_file import PasswordFile
from presence_dashboard import texts
from tests.browser.conftest import NewPage
from tests.dashboard.wire import serve
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]

SECRET = "correct horse battery"


@dataclass
class Team:
    url: str
    presence: Presence
    log: Path


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    directory = tmp_path_factory.mktemp("team")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    file = PasswordFile(directory / "staff")
    for name in ("root", "dana"):
        file.set(name, SECRET)
    with ExitStack() as stack:
        server = stack.enter_context(Server.start(binary, directory / "redis"))
        presence = stack.enter_context(Presence.from_url(server.url, Settings(timeout=PATIENT)))
        for name in ("root", "eve"):
            presence.set_staff(name, "admin", by="test")
        presence.set_staff("dana", "support", by="test")
        environ = {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DASHBOARD_ACCESS": "password",
            "PRESENCE_STAFF_FILE": str(file.path),
        }
        log = directory / "log"
        yield Team(stack.enter_context(serve(environ, log)), presence, log)


@pytest.fixture
def page(context: BrowserContext, new_page: NewPage) -> Iterator[Page]:
    """A page of a browser without a signed-in user."""
    page = new_page()
    yield page
    page.close()
    context.clear_cookies()


def sign_in(page: Page, name: str, password: str = SECRET) -> None:
    """With the keyboard alone: the field that is to be filled in has the focus."""
    expect(page.get_by_label(texts.LABEL_NAME)).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.type(password)
    page.keyboard.press("Enter")


def test_staff_sign_in_by_keyboard_and_sign_out(page: Page, team: Team) -> None:
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if "Failed to load" not in said.text else None)
    page.goto(f"{team.url}/person")
    expect(page).to_have_url(f"{team.url}/sign-in?next=/person")
    sign_in(page, "Dana", "wrong horse battery")
    expect(page.get_by_role("alert")).to_have_text(texts.SIGN_IN_WRONG)
    expect(page.get_by_label(texts.SIGN_IN_PASSWORD)).to_be_focused()
    page.keyboard.type(SECRET)
    page.keyboard.press("Enter")
    expect(page.get_by_text(texts.signed_in_as("dana", "support"))).to_be_visible()
    expect(page).to_have_url(f"{team.url}/person")

    page.get_by_role("button", name="dana").click()
    page.get_by_role("link", name=texts.SIGN_OUT_BUTTON).click()
    page.get_by_role("button", name=texts.SIGN_OUT_BUTTON).click()
    expect(page.get_by_text(texts.SIGN_OUT_DONE)).to_be_visible()
    page.goto(f"{team.url}/person")
    expect(page.get_by_label(texts.SIGN_IN_PASSWORD)).to_be_visible()
    assert complaints == []
    assert SECRET not in team.log.read_text()


def test_who_is_demoted_or_removed_while_the_page_is_open_is_refused_at_once(page: Page, team: Team) -> None:
    page.goto(f"{team.url}/staff")
    sign_in(page, "root")
    expect(page.get_by_text(texts.signed_in_as("root", "admin"))).to_be_visible()
    team.presence.set_staff("root", "viewer", by="eve")
    expect(page.get_by_text(texts.signed_in_as("root", "viewer"))).to_be_visible()
    expect(page.get_by_text(texts.NO_PERMISSION_TITLE)).to_be_visible()

    team.presence.remove_staff("root", by="eve")
    expect(page.get_by_text(texts.no_role("root"))).to_be_visible()
    page.goto(team.url)
    expect(page.get_by_text(texts.no_role("root"))).to_be_visible()
