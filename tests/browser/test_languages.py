"""The dashboard in German, whose words are long, and in Japanese, each in a browser of that language."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from presence_core.text.languages import match, tag_of
from presence_dashboard import texts
from presence_dashboard.language import in_language
from tests.browser.conftest import Dashboard, Tab, log_in
from tests.browser.test_accessibility import violations
from tests.support.servers import wait_for
from tests.support.soak import SOAK, size

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]

WIDTHS = (1280, 390)


@pytest.fixture
def browser(context: BrowserContext) -> Browser:
    assert context.browser is not None
    return context.browser


@pytest.fixture(params=size(["de-DE"], ["de-DE", "ja-JP"]))
def page(browser: Browser, dashboard: Dashboard, request: pytest.FixtureRequest) -> Iterator[Page]:
    speaking = browser.new_context(reduced_motion="reduce", locale=request.param)
    speaking.set_default_timeout(60_000)
    with in_language(match(request.param) or ""):
        yield speaking.new_page()
    speaking.close()


def overflow(page: Page) -> int:
    width: int = page.evaluate("document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth")
    return width


def test_pages_and_the_bulk_kick_are_in_the_language_of_the_browser_and_none_is_wider_than_the_window(
    page: Page, dashboard: Dashboard
) -> None:
    log_in(dashboard, 3)
    dashboard.presence.kick("user02", by="dana", reason="test")
    tab = Tab(page)
    for path, first in {"history": texts.HISTORY_BY, "person?q=user00": texts.PERSON_KICK_THIS, "": ""}.items():
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(f"{dashboard.url}/{path}")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if path:
                expect(page.get_by_text(first, exact=True).first).to_be_visible()
            else:
                expect(page.locator("table tbody tr").first).to_be_visible()
            tab.settle()
            assert overflow(page) == 0, (path, width)
            cut = page.locator(".act").evaluate_all("all => all.filter(it => it.scrollWidth > it.clientWidth).length")
            assert cut == 0, f"the text of a button is wider than the button: {path}, {width}"

    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    expect(tab.table.get_by_role("columnheader", name=texts.LABEL_LAST_ACTIVE)).to_be_visible()
    expect(page.get_by_role("link", name=texts.HISTORY_PAGE, exact=True)).to_be_visible()
    assert page.locator("html").get_attribute("lang") == tag_of(match(page.evaluate("navigator.language")) or "")
    assert page.locator("script[data-lost]").get_attribute("data-lost") == texts.CONNECTION_LOST
    if SOAK:
        assert violations(page) == []

    page.get_by_role("button", name=texts.kick_all("2", matching=False, exact=True)).click()
    expect(page.get_by_role("dialog")).to_contain_text(texts.BULK_TITLE_EVERYONE)
    page.set_viewport_size({"width": WIDTHS[0], "height": 500})
    expect(page.get_by_role("dialog").get_by_role("button", name=texts.confirm(2))).to_be_in_viewport(ratio=1)
    page.get_by_role("textbox", name=texts.bulk_type("2")).fill("2")
    page.get_by_role("textbox", name=texts.REASON).fill("test")
    if SOAK:
        assert violations(page) == []
    page.get_by_role("dialog").get_by_role("button", name=texts.confirm(2)).click()
    expect(page.get_by_text(texts.EMPTIED_TITLE)).to_be_visible()


@pytest.mark.soak
def test_two_browsers_each_show_their_own_language_and_one_keeps_another_that_was_chosen_in_the_account_menu(
    browser: Browser, dashboard: Dashboard
) -> None:
    log_in(dashboard, 1)
    contexts = {
        language: browser.new_context(locale=language) for language in size(("ja", "en-GB"), ("ja", "fr", "en-GB"))
    }
    pages = {language: context.new_page() for language, context in contexts.items()}
    for language, page in pages.items():
        page.set_default_timeout(60_000)
        page.goto(dashboard.url)
        with in_language(match(language) or ""):
            expect(Tab(page).table).to_be_visible(timeout=60_000)
    tab = Tab(pages["ja"])
    chosen = {language: match(language) or "" for language in contexts}
    for turn in range(2):
        for language, page in pages.items():  # the others have been drawn since
            with in_language(chosen[language]):
                page.get_by_role("button", name=texts.REFRESH, exact=True).click()
                expect(page.get_by_role("columnheader", name=texts.LABEL_EXPIRES)).to_be_visible()
                expect(Tab(page).row("Person 00").get_by_role("button", name=texts.KICK)).to_be_visible()
        if turn == 0:
            with in_language("ja"):
                tab.account()
                tab.page.get_by_role("combobox", name=texts.LANGUAGE).click()
            tab.page.get_by_role("option", name="Deutsch").click()
            chosen["ja"] = "de"
            with in_language("de"):
                expect(tab.table.get_by_role("columnheader", name=texts.LABEL_EXPIRES)).to_be_visible()
    wait_for("the cookie", lambda: "presence_language=de" in tab.page.evaluate("document.cookie"))
    tab.page.reload()
    with in_language("de"):
        expect(tab.table.get_by_role("columnheader", name=texts.LABEL_EXPIRES)).to_be_visible()
    assert tab.page.locator("html").get_attribute("lang") == "de"
    for context in contexts.values():
        context.close()
