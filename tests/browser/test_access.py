"""Staff sign in with a password in a real browser, and the page shows when their sign-in ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from presence_dashboard import texts
from presence_dashboard.gate.staff_sessions import COOKIE
from tests.browser.conftest import SECRET, NewPage, Team, signed_in

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]


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
    expect(page.get_by_label(texts.LABEL_PASSWORD)).to_be_focused()
    page.keyboard.type(SECRET)
    page.keyboard.press("Enter")
    expect(page.get_by_text(texts.signed_in_as("dana", "support"))).to_be_visible()
    expect(page).to_have_url(f"{team.url}/person")

    page.get_by_role("button", name="dana").click()
    page.get_by_role("link", name=texts.SIGN_OUT_BUTTON).click()
    page.get_by_role("button", name=texts.SIGN_OUT_BUTTON).click()
    expect(page.get_by_text(texts.SIGN_OUT_DONE)).to_be_visible()
    page.goto(f"{team.url}/person")
    expect(page.get_by_label(texts.LABEL_PASSWORD)).to_be_visible()
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


def test_an_unfinished_kick_is_offered_again_after_a_reload(page: Page, team: Team) -> None:
    team.presence.login("vera", name="Vera Rubin", device="Mac")
    page.goto(f"{team.url}/?q=vera")
    sign_in(page, "dana")
    row = page.get_by_role("row").filter(has_text="Vera Rubin")
    expect(row).to_be_visible()
    before = page.context.new_page()
    before.goto(f"{team.url}/?q=vera")
    expect(before.get_by_role("row").filter(has_text="Vera Rubin")).to_be_visible()
    row.get_by_role("button", name="Kick").click()
    reason = page.get_by_role("dialog").get_by_role("textbox", name=texts.REASON)
    reason.fill("stolen phone")
    reason.press("Tab")
    other = page.context.new_page()
    other.goto(f"{team.url}/?q=vera")
    expect(other.get_by_role("row").filter(has_text="Vera Rubin")).to_be_visible()
    expect(other.get_by_role("button", name=texts.DRAFT_CONTINUE)).to_have_count(0)
    other.close()
    page.reload()
    expect(page.get_by_role("button", name=texts.DRAFT_CONTINUE)).to_be_visible()
    before.get_by_role("link", name=texts.PERSON_PAGE).click()
    expect(before.get_by_role("searchbox", name=texts.PERSON_SEARCH)).to_be_visible()
    expect(before.get_by_role("button", name=texts.DRAFT_CONTINUE)).to_have_count(0)
    before.close()
    page.get_by_role("button", name=texts.DRAFT_CONTINUE).click()
    expect(reason).to_have_value("stolen phone")
    page.get_by_role("dialog").get_by_role("button", name=texts.confirm(1)).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert [end.uid for end in team.presence.ended("vera")] == ["vera"]


def test_a_bulk_kick_asks_for_the_password_again_and_goes_on_on_the_same_page(
    page: Page, context: BrowserContext, team: Team
) -> None:
    """By keyboard, from the dialog to the password and back. Another tab is open meanwhile."""
    for number in range(3):
        team.presence.login(f"user{number}", name=f"Person {number}", device="Mac")
    context.add_cookies([{"name": COOKIE, "value": signed_in(team, "dana", ago=1_200), "url": team.url}])
    kick_all = page.get_by_role("button", name=texts.kick_all("3", matching=True, exact=True))
    confirm = page.get_by_role("dialog").get_by_role("button", name=texts.confirm(3))
    page.goto(f"{team.url}/?device=Mac")
    other = context.new_page()
    other.goto(f"{team.url}/person?q=user1")
    expect(other.get_by_role("heading", name="Person 1")).to_be_visible()

    kick_all.click()
    expect(page.get_by_role("dialog").get_by_text(texts.password_too_old("15 min"))).to_be_visible()
    expect(confirm).to_be_disabled()
    page.get_by_role("dialog").get_by_role("link", name=texts.PASSWORD_AGAIN).press("Enter")
    expect(page.get_by_role("heading", name=texts.PASSWORD_AGAIN)).to_be_visible()
    expect(page.get_by_label(texts.LABEL_NAME)).to_have_value("dana")
    expect(page.get_by_label(texts.LABEL_NAME)).not_to_be_editable()
    expect(page.get_by_label(texts.LABEL_PASSWORD)).to_be_focused()
    page.keyboard.type("wrong horse battery")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text(texts.PASSWORD_AGAIN_WRONG)
    page.keyboard.type(SECRET)
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{team.url}/?device=Mac")
    kick_all.click()
    page.get_by_role("dialog").get_by_role("textbox", name=texts.REASON).fill("Old version")
    page.get_by_role("dialog").get_by_role("textbox", name=texts.bulk_type("3")).fill("3")
    expect(confirm).to_be_enabled()
    confirm.click()
    expect(page.get_by_text(texts.bulk_job_result("done", "3", "3"))).to_be_visible()
    assert team.presence.counts().sessions == 0

    expect(other.get_by_role("heading", name=texts.PASSWORD_AGAIN_OLD_TAB)).to_be_visible()
    expect(other.get_by_text(texts.PASSWORD_AGAIN_ELSEWHERE)).to_be_visible()
    other.get_by_role("link", name=texts.OPEN_AGAIN).click()
    expect(other.get_by_text(texts.signed_in_as("dana", "support"))).to_be_visible()
    expect(other).to_have_url(f"{team.url}/person?q=user1")
    other.close()
