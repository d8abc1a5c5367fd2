"""The dashboard's own script in a page: a key for the search, a pause in a hidden tab, and a remembered choice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from presence_core import Settings
from presence_dashboard import texts
from presence_dashboard.language import in_language
from tests.browser.conftest import ROOT, Dashboard, NewPage, Open, Tab, log_in
from tests.dashboard.wire import serve
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def no_cookies(context: BrowserContext) -> Iterator[None]:
    """What a test has chosen is not chosen for the next one, also if it fails."""
    yield
    context.clear_cookies()


HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_the_report_prints_its_rows_without_the_controls_of_the_page(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 2)
    dashboard.presence.kick("user01", by="alex", reason="Shared account")
    tab = open_tab(path="/report")
    row = tab.page.get_by_role("row", name="Shared account")
    expect(row).to_be_visible()
    tab.page.evaluate("window.print = () => { window.printed = true }")
    tab.page.get_by_role("button", name=texts.REPORT_PRINT).click()
    assert tab.page.evaluate("window.printed")
    target_of = """address => {
      const table = document.querySelector('.stHtml'), link = document.createElement('a');
      link.href = address;
      link.onclick = () => false;
      table.append(link);
      link.click();
      link.remove();
      return link.target;
    }"""
    assert tab.page.evaluate(target_of, "https://tickets.example.com/HD-1") == "_blank"
    assert tab.page.evaluate(target_of, "/person?q=user01") == ""
    tab.settle()
    tab.page.emulate_media(media="print", color_scheme="dark")
    expect(row).to_be_visible()
    expect(row).to_have_css("color", "rgb(0, 0, 0)")
    expect(tab.page.get_by_role("button", name=texts.REPORT_PRINT)).to_be_hidden()
    expect(tab.page.get_by_role("link", name=texts.HISTORY_PAGE)).to_be_hidden()


def test_a_tab_opened_in_the_background_or_hidden_later_rests_until_it_is_visible(
    dashboard: Dashboard, new_page: NewPage
) -> None:
    log_in(dashboard, 1)
    page = new_page()
    tab = Tab(page)
    tab.listen(dashboard.url)
    hidden = page.locator(".st-key-tab-hidden input")
    page.add_init_script("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.clock.install()
    page.goto(dashboard.url)
    expect(hidden).to_be_attached()
    page.clock.run_for(16_000)
    expect(hidden).to_be_checked()
    page.evaluate(HIDE, False)
    expect(hidden).not_to_be_checked()

    page.evaluate(HIDE, True)
    page.clock.run_for(16_000)
    expect(hidden).to_be_checked()
    heard = -1

    def rests() -> bool:
        """No request is sent for six refreshes, even if one was in progress before."""
        nonlocal heard
        heard = len(tab.frames)
        tab.settle()
        page.clock.run_for(30_000)
        page.wait_for_timeout(2_500)
        return len(tab.frames) == heard

    wait_for("it to rest", rests)
    page.evaluate(HIDE, False)
    page.clock.run_for(1_000)
    expect(hidden).not_to_be_checked()
    page.clock.run_for(6_000)

    def is_renewed() -> bool:
        page.wait_for_timeout(50)
        return len(tab.frames) > heard

    wait_for("it to renew itself", is_renewed)
    page.close()


def test_how_often_figures_renew_the_density_and_the_language_are_remembered(
    dashboard: Dashboard, open_tab: Open, context: BrowserContext
) -> None:
    log_in(dashboard, 1)
    tab = open_tab()
    tab.account()
    tab.page.get_by_role("combobox", name=texts.REFRESH_EVERY).click()
    tab.page.get_by_role("option", name=texts.refresh_every(30)).click()
    tab.page.get_by_role("radio", name=texts.DENSITIES["compact"]).click()
    wait_for("the cookie", lambda: "presence_every=30" in tab.page.evaluate("document.cookie"))
    wait_for("the cookie", lambda: "presence_density=compact" in tab.page.evaluate("document.cookie"))
    tab.page.get_by_role("combobox", name=texts.LANGUAGE).click()
    tab.page.get_by_role("option", name="Deutsch").click()
    wait_for("the cookie", lambda: "presence_language=de" in tab.page.evaluate("document.cookie"))
    again = open_tab()
    expect(again.page.locator("html")).to_have_attribute("lang", "de")
    expect(again.page.locator("[class*=st-key-every-30]")).to_have_count(1)
    with in_language("de"):
        expect(again.table.get_by_role("columnheader", name=texts.LABEL_EXPIRES)).to_be_visible()
        expect(again.row("user00").locator("td").first).to_have_css("height", "28px")


def test_a_page_whose_dashboard_does_not_answer_or_has_stopped_says_so_and_how_old_its_data_is(
    dashboard: Dashboard, new_page: NewPage, context: BrowserContext, tmp_path: Path
) -> None:
    log_in(dashboard, 1)
    context.add_cookies([{"name": "presence_every", "value": "30", "url": dashboard.url}])  # a refresh is an answer
    page = new_page()
    page.clock.install()
    with serve({"PRESENCE_REDIS_URL": dashboard.server.url}, tmp_path / "log") as url:
        page.goto(url)
        expect(page.get_by_role("table", name=texts.TABLE_LABEL)).to_contain_text("user00")
        page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
        assert page.locator("#connection-lost").count() == 0
        page.route("**/page/connection*", lambda route: route.abort())
        page.clock.run_for(11_000)
        expect(page.locator("#connection-lost")).to_be_visible()
        page.unroute("**/page/connection*")
        page.clock.run_for(11_000)
        expect(page.locator("#connection-lost")).to_have_count(0)
    sentence = re.escape(texts.CONNECTION_LOST).replace(r"\{0\}", r"\d\d:\d\d:\d\d").replace(r"\{1\}", r"\d+ s")
    expect(page.get_by_role("alert").filter(has_text=re.compile(sentence))).to_be_visible()
    page.clock.fast_forward(120_000)
    seen = page.get_by_role("row").filter(has_text="user00").locator("[data-column=seen]")
    expect(seen).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))  # no age, which would no longer be true
    page.close()


def test_an_outage_is_said_within_five_seconds_also_by_a_page_that_does_not_refresh(
    dashboard: Dashboard, new_page: NewPage, context: BrowserContext
) -> None:
    script, app = (
        (ROOT / name).read_text("utf-8") for name in ("presence_dashboard/browser_files/page.js", "dashboard.py")
    )
    looks = int(re.findall(r"ASK_EVERY = ([\d_]+);", script)[0])
    shared = float(re.findall(r"KEEP_CONNECTION = ([\d.]+)", app)[0])
    assert looks / 1_000 + shared + Settings().timeout < 5
    log_in(dashboard, 1)
    context.add_cookies([{"name": "presence_every", "value": "0", "url": dashboard.url}])
    page = new_page()
    value = page.get_by_test_id("stMetricValue").first

    def shows_the_login() -> bool:
        page.goto(f"{dashboard.url}/live")
        expect(value).to_be_visible()
        return value.inner_text() == "1"

    wait_for("the login", shows_the_login)  # all pages share counts for some seconds
    notice = page.locator("#sessions-away")
    dashboard.server.pause()
    expect(notice).to_contain_text("Sessions cannot be read at the moment. This page shows data from ")
    expect(notice).to_contain_text(texts.ERROR_AWAY)
    expect(notice).not_to_contain_text(texts.TRY_LATER)  # the page does so itself
    page.get_by_role("link", name=texts.HEALTH_PAGE, exact=True).click()
    expect(page).to_have_url(f"{dashboard.url}/health")
    page.get_by_role("link", name=texts.LIVE_PAGE, exact=True).click()
    expect(value).to_have_text("1")  # data, as the notice says
    expect(page.locator('.st-key-outage [data-testid="stAlert"]')).to_be_visible()
    dashboard.server.resume()
    expect(notice).to_have_count(0)
    page.close()


def test_the_first_page_is_found_by_its_name_too(dashboard: Dashboard, new_page: NewPage) -> None:
    log_in(dashboard, 3)
    tab = Tab(new_page())
    tab.page.goto(f"{dashboard.url}/sessions?q=user01")
    tab.expect_first("user01")
    expect(tab.page).to_have_url(f"{dashboard.url}/?q=user01")
    expect(tab.page.get_by_text(texts.TAB_HIDDEN)).to_be_hidden()
    tab.page.close()


def test_every_page_has_our_script_with_any_content_encoding(dashboard: Dashboard) -> None:
    for path in ("/", "/live", "/person?q=user01"):
        _, headers = dashboard.answer(path, Accept="text/html", **{"Accept-Encoding": "gzip, br"})
        assert "content-encoding" not in headers, path


def test_in_a_hidden_tab_the_title_the_icon_and_the_system_say_who_has_come_online(
    dashboard: Dashboard, open_tab: Open, context: BrowserContext
) -> None:
    dashboard.presence.logout("dana", dashboard.presence.login("dana", name="Dana Novak").session.session_id)
    context.grant_permissions(["notifications"], origin=dashboard.url)
    tab = open_tab(path="/person?q=dana")
    tab.page.evaluate("() => { Notification.requestPermission = () => { window.asked = true } }")
    tab.settle()
    tab.page.get_by_role("button", name=texts.WATCH, exact=True).last.click()
    expect(tab.page.get_by_role("button", name=texts.WATCH_STOP)).to_be_visible()
    assert tab.page.evaluate("window.asked") is None, "nothing is asked when a page opens"
    tab.page.get_by_role("button", name=texts.WATCH_MENU, exact=True).click()
    tab.page.get_by_text(texts.WATCH_NOTIFY, exact=True).click()
    signal, root = tab.page.locator(".presence-arrivals"), tab.page.locator("html")
    expect(signal).to_have_attribute("data-notify", "1")
    tab.page.keyboard.press("Escape")
    icon = tab.page.locator('link[rel="icon"]')
    own = icon.get_attribute("href")
    tab.page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    dashboard.presence.login("dana", name="Dana Novak")
    expect(root).to_have_attribute("data-notified", texts.watch_said("Dana Novak"))
    expect(tab.page).to_have_title(re.compile(r"^\(1\) "))
    expect(icon).to_have_attribute("href", re.compile("^data:image/png"))
    tab.page.evaluate(HIDE, False)
    expect(tab.page).not_to_have_title(re.compile(r"^\("))
    assert own is not None
    expect(icon).to_have_attribute("href", re.compile(re.escape(own.rpartition("/")[2]) + "$"))
    context.clear_permissions()
