"""Two people in two browsers: support asks for a large kick, an admin approves or refuses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from presence_core import Presence, SessionFilter
from presence_dashboard import texts
from presence_dashboard.gate.staff_sessions import COOKIE
from tests.browser.conftest import SECRET, NewPage, Team, signed_in

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]

MANY = 101
"""One more than support may kick alone."""


@pytest.fixture
def dana(context: BrowserContext, new_page: NewPage, team: Team) -> Iterator[Page]:
    """The page of dana, who has the role support."""
    context.add_cookies([{"name": COOKIE, "value": signed_in(team, "dana"), "url": team.url}])
    page = new_page()
    yield page
    page.close()
    context.clear_cookies()


@pytest.fixture
def root(context: BrowserContext, team: Team) -> Iterator[Page]:
    """The page of root, an admin, in another browser. Their password was entered 20 minutes ago."""
    assert context.browser
    team.presence.set_staff("root", "admin", by="eve")
    other = context.browser.new_context(reduced_motion="reduce")
    other.set_default_timeout(60_000)
    other.add_cookies([{"name": COOKIE, "value": signed_in(team, "root", ago=1_200), "url": team.url}])
    yield other.new_page()
    other.close()


def log_in_many(presence: Presence, device: str) -> None:
    presence.login_many([{"uid": f"{device}{n:03}", "name": f"Person {n:03}", "device": device} for n in range(MANY)])


def ask(page: Page, team: Team, device: str) -> None:
    page.goto(f"{team.url}/?device={device}")
    page.get_by_role("button", name=texts.ask_all(str(MANY), matching=True, exact=True)).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name=texts.REASON).fill("Stolen cards")
    dialog.get_by_role("button", name=texts.ASK_ADMIN).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("Waits for an admin").first).to_be_visible()


def test_support_asks_an_admin_sees_it_at_once_and_approves_with_a_fresh_authentication(
    dana: Page, root: Page, team: Team
) -> None:
    log_in_many(team.presence, "Kiosk")
    root.goto(f"{team.url}/live")
    expect(root.get_by_text(texts.signed_in_as("root", "admin"))).to_be_visible()
    ask(dana, team, "Kiosk")
    assert team.presence.counts().sessions >= MANY

    badge = root.locator(".st-key-waiting-requests").get_by_role("link", name="1 request waits for you")
    expect(badge).to_be_visible()
    badge.click()
    root.get_by_role("button", name=texts.REQUEST_REVIEW).click()
    dialog = root.get_by_role("dialog")
    approve = dialog.get_by_role("button", name=texts.review_kick(MANY, str(MANY)))
    expect(approve).to_be_disabled()
    expect(dialog.get_by_text(texts.password_too_old("15 min"))).to_be_visible()
    dialog.get_by_role("link", name=texts.PASSWORD_AGAIN).click()
    expect(root.get_by_label(texts.LABEL_PASSWORD)).to_be_focused()
    root.keyboard.type(SECRET)
    root.keyboard.press("Enter")
    root.get_by_role("button", name=texts.REQUEST_REVIEW).click()
    expect(dialog.get_by_role("textbox", name=texts.REASON)).to_have_value("Stolen cards")
    dialog.get_by_role("textbox", name=texts.MESSAGE).fill("Please sign in again.")
    dialog.get_by_role("textbox", name=texts.bulk_type(str(MANY))).fill(str(MANY))
    expect(approve).to_be_enabled()
    approve.click()
    expect(dialog).to_have_count(0)
    expect(dana.get_by_text("and it has started.")).to_be_visible()
    expect(root.get_by_text(texts.bulk_job_result("done", str(MANY), str(MANY)))).to_be_visible()
    assert team.presence.ended("Kiosk000").items[0].message == "Please sign in again."
    assert [(entry.action, entry.by) for entry in team.presence.audit() if "request" in entry.outcome][:2] == [
        ("approve_request", "root"), ("ask_approval", "dana"),
    ]  # fmt: skip
    expect(root.locator(".st-key-waiting-requests").get_by_role("link")).to_have_count(0)


def test_an_admin_refuses_with_a_word_that_the_asker_reads_without_a_reload(dana: Page, root: Page, team: Team) -> None:
    log_in_many(team.presence, "Till")
    ask(dana, team, "Till")
    root.goto(team.url)
    root.get_by_role("button", name=texts.REQUEST_REVIEW).click()
    dialog = root.get_by_role("dialog")
    dialog.get_by_role("textbox", name=texts.review_word("root")[:20]).fill("Only <b>the</b> new ones.")
    dialog.get_by_role("button", name=texts.REVIEW_REFUSE).click()
    expect(dialog).to_have_count(0)
    expect(dana.get_by_text("Only <b>the</b> new ones.")).to_be_visible()
    dana.get_by_role("button", name=texts.BULK_JOB_HIDE).first.click()
    expect(dana.get_by_text("Only <b>the</b> new ones.")).to_have_count(0)
    assert team.presence.counts().sessions >= MANY
    team.presence.kick_where(SessionFilter(device="Till"), by="test", reason="over", expected=MANY)
