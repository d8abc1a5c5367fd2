"""Staff sign in at an OpenID provider, in a real browser: it follows the redirects, and keeps and loses the cookies."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from presence_dashboard import texts
from tests.browser.conftest import NewPage
from tests.dashboard.gate.oidc_team import OidcTeam, oidc_team

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcTeam]:
    with oidc_team(tmp_path_factory.mktemp("oidc")) as made:
        made.begin()
        yield made


@pytest.fixture
def page(context: BrowserContext, new_page: NewPage) -> Iterator[Page]:
    page = new_page()
    yield page
    page.close()
    context.clear_cookies()


def test_who_signed_in_at_the_provider_starts_again_after_staff_ended_it_or_their_sign_in_is_too_old(
    page: Page, team: OidcTeam
) -> None:
    page.goto(f"{team.url}/person")
    page.get_by_role("button", name=texts.SIGN_IN_BUTTON).click()
    expect(page.get_by_text(texts.signed_in_as(team.name, "support"))).to_be_visible()
    [session] = team.sessions.sessions(team.name)

    team.sessions.kick(team.name, session.session_id, by="root", reason="laptop stolen")
    expect(page.get_by_text(texts.signed_out_by_staff(None))).to_be_visible()
    with page.expect_navigation():  # the page shows this button until the browser is back from the provider
        page.get_by_role("button", name=texts.SIGN_IN_AGAIN).click()
    expect(page.get_by_text(texts.NOT_SIGNED_IN)).to_be_visible()
    page.get_by_role("button", name=texts.SIGN_IN_BUTTON, exact=True).click()
    expect(page.get_by_text(texts.signed_in_as(team.name, "support"))).to_be_visible()
    page.get_by_role("button", name=team.name).click()
    with page.expect_navigation():
        page.get_by_role("button", name=texts.SIGN_OUT_BUTTON).click()
    expect(page.get_by_text(texts.NOT_SIGNED_IN)).to_be_visible()
    assert team.sessions.sessions(team.name) == []

    team.begin()
    team.claim(auth_time=int(time.time()) - 1_000)
    team.presence.login("visitor-7", name="Ada Lovelace", device="Mac")
    kick_all = page.get_by_role("button", name=texts.kick_all("1", matching=True, exact=True))
    confirm = page.get_by_role("dialog").get_by_role("button", name=texts.confirm(1))
    page.goto(f"{team.url}/?device=Mac")
    page.get_by_role("button", name=texts.SIGN_IN_BUTTON).click()
    expect(page.get_by_text(texts.signed_in_as(team.name, "support"))).to_be_visible()
    page.goto(f"{team.url}/?device=Mac")
    kick_all.click()
    expect(page.get_by_role("dialog").get_by_text(texts.provider_too_old("15 min"))).to_be_visible()
    expect(confirm).to_be_disabled()

    team.claim()
    page.get_by_role("dialog").get_by_role("link", name=texts.SIGN_IN_AGAIN).click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page).to_have_url(f"{team.url}/?device=Mac")
    kick_all.click()
    expect(confirm).to_be_enabled()
    expect(page.get_by_text(texts.provider_too_old("15 min"))).to_be_hidden()
