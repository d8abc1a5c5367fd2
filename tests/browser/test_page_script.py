"""What our own script adds to the page: a key for the search, rest for a hidden tab, a choice that is remembered."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, log_in
from tests.servers import wait_for

pytestmark = pytest.mark.browser

HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_a_slash_goes_to_the_search_box_but_is_a_letter_inside_of_it(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 1)
    tab = open_tab()
    box = tab.page.locator("input[type=search]").first
    tab.press("/")
    expect(box).to_be_focused()
    expect(box).to_have_value("")
    tab.page.keyboard.type("192.0.2.0/24")
    expect(box).to_have_value("192.0.2.0/24")


def test_a_hidden_tab_does_not_renew_itself_until_somebody_looks(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 1)
    tab = open_tab()
    tab.page.clock.install()
    tab.page.evaluate(HIDE, True)
    tab.page.clock.run_for(16_000)
    expect(tab.page.locator(".st-key-tab-hidden input")).to_be_checked()
    heard = -1

    def rests() -> bool:
        """Nothing is told for six ticks, whatever was under way before."""
        nonlocal heard
        heard = len(tab.frames)
        tab.settle()
        tab.page.clock.run_for(30_000)
        tab.page.wait_for_timeout(2_500)
        return len(tab.frames) == heard

    wait_for("it to rest", rests)
    tab.page.evaluate(HIDE, False)
    tab.page.clock.run_for(1_000)
    expect(tab.page.locator(".st-key-tab-hidden input")).not_to_be_checked()
    tab.page.clock.run_for(6_000)

    def is_renewed() -> bool:
        tab.page.wait_for_timeout(50)
        return len(tab.frames) > heard

    wait_for("it to renew itself", is_renewed)


def test_how_often_figures_renew_is_remembered(dashboard: Dashboard, open_tab: Open, context: BrowserContext) -> None:
    log_in(dashboard, 1)
    tab = open_tab()
    choice = tab.page.get_by_role("combobox", name=texts.REFRESH_EVERY)
    choice.click()
    tab.page.get_by_role("option", name=texts.refresh_every(30)).click()
    wait_for("the cookie", lambda: "presence_every=30" in tab.page.evaluate("document.cookie"))
    again = open_tab()
    expect(again.page.locator("[class*=st-key-every-30]")).to_have_count(1)
    context.clear_cookies()


def test_a_choice_by_keys_alone_is_remembered_too(
    dashboard: Dashboard, open_tab: Open, context: BrowserContext
) -> None:
    log_in(dashboard, 1)
    tab = open_tab()
    tab.page.get_by_role("combobox", name=texts.REFRESH_EVERY).focus()
    tab.page.keyboard.press("ArrowDown")
    expect(tab.page.get_by_role("option", name=texts.refresh_every(30))).to_be_visible()
    tab.page.keyboard.press("End")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("[class*=st-key-every-0]")).to_have_count(1)
    wait_for("the cookie", lambda: "presence_every=0" in tab.page.evaluate("document.cookie"))
    context.clear_cookies()


def test_a_tab_that_was_opened_behind_others_rests_until_somebody_looks(
    dashboard: Dashboard, open_tab: Open, context: BrowserContext
) -> None:
    log_in(dashboard, 1)
    open_tab()
    page = context.new_page()
    page.add_init_script("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.clock.install()
    page.goto(dashboard.url)
    expect(page.locator(".st-key-tab-hidden input")).to_be_attached()
    page.clock.run_for(16_000)
    expect(page.locator(".st-key-tab-hidden input")).to_be_checked()
    page.evaluate(HIDE, False)
    expect(page.locator(".st-key-tab-hidden input")).not_to_be_checked()
    page.close()


def test_the_first_page_is_found_by_its_name_too(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 3)
    tab = open_tab()
    tab.page.goto(f"{dashboard.url}/sessions?q=user01")
    tab.expect_first("user01")
    expect(tab.page).to_have_url(f"{dashboard.url}/?q=user01")
    expect(tab.page.get_by_text(texts.TAB_HIDDEN)).to_be_hidden()


def test_every_page_has_our_script_whatever_packing_a_browser_takes(dashboard: Dashboard) -> None:
    for path in ("/", "/live", "/person?q=user01"):
        _, headers = dashboard.answer(path, Accept="text/html", **{"Accept-Encoding": "gzip, br"})
        assert "content-encoding" not in headers, path
