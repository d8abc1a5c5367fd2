"""The Live page in a real browser."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, log_in
from tests.support.samples import write_samples

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]


def test_the_chart_shows_exact_times_and_the_login_of_a_watched_person_appears_and_is_heard(
    dashboard: Dashboard, open_tab: Open, context: BrowserContext
) -> None:
    log_in(dashboard, 3)
    person: dict[str, Any] = {"uid": "dana@example.com", "name": "Dana <b>Novak</b>"}
    dashboard.presence.logout(person["uid"], dashboard.presence.login(**person).session.session_id)
    write_samples(dashboard.presence, time.time() - 1800, [(30 + n % 7, 40 + n % 5, n // 50) for n in range(170)])
    tab = open_tab(path="/person?q=dana@example.com")
    warnings: list[str] = []
    tab.page.on("console", lambda said: warnings.append(said.text) if said.type == "warning" else None)
    tab.page.get_by_role("button", name=texts.WATCH, exact=True).last.click()
    expect(tab.page.get_by_role("button", name=texts.WATCH_STOP)).to_be_visible()
    tab.page.get_by_role("button", name=texts.WATCH_MENU, exact=True).click()
    tab.page.get_by_text(texts.WATCH_SOUND, exact=True).click()
    signal = tab.page.locator(".presence-arrivals")
    expect(signal).to_have_attribute("data-sound", "1")
    expect(signal).to_have_attribute("data-count", "0")
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("link", name=texts.LIVE_PAGE).click()
    chart = tab.page.get_by_test_id("stVegaLiteChart")
    expect(chart.locator("canvas, svg").first).to_be_visible()
    dashboard.presence.login(**person)

    expect(tab.page.locator(".st-key-live-counts .presence-curve div").first).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.5)
    tip = tab.page.locator("#vg-tooltip-element")
    expect(tip).to_contain_text(texts.LIVE_AT_UTC)
    expect(tip).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"))
    expect(tip).to_contain_text(texts.USERS)

    tab.page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.5)
    logins = tab.page.locator(".st-key-login-spike")
    expect(logins).to_contain_text("0 logins between")
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.85, box["y"] + box["height"] * 0.5, steps=5)
    tab.page.mouse.up()
    expect(tab.page).to_have_url(re.compile(r"/live\?from=\d+&to=\d+$"))
    expect(tab.page.get_by_role("button", name=texts.LIVE_ZOOM_OUT)).to_be_visible()
    expect(logins).to_contain_text("0 logins between")

    tab.page.get_by_role("radio", name="24h").click()
    expect(tab.page).to_have_url(re.compile(r"/live\?range=24h$"))
    tab.settle()
    assert warnings == []
    toast = tab.page.get_by_test_id("stToast").filter(has_text="has come online")
    expect(toast).to_be_visible()
    expect(toast).to_contain_text("Dana <b>Novak</b>")
    expect(tab.page.locator("html")).to_have_attribute("data-sounds", "1")
    links = tab.page.locator(".st-key-feed").get_by_role("link", name="Dana <b>Novak</b>")
    expect(links.nth(2)).to_be_visible()  # after those of the login and logout before
    tab.page.set_viewport_size({"width": 320, "height": 640})
    tab.settle()
    assert tab.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    links.first.click()
    expect(tab.page).to_have_url(re.compile(r"/person\?.*q=dana(@|%40)example\.com"))
    context.clear_cookies()


def test_a_login_spike_is_split_by_a_click_on_its_bar_and_opened_in_sessions(
    dashboard: Dashboard, open_tab: Open
) -> None:
    begin = int(time.time()) // 60 * 60 - 600
    dashboard.presence.internal.context.now = str(begin * 1000 + 15_000)
    for number in range(5):
        device = "PC" if number else "Tablet"
        dashboard.presence.login(f"bot{number}", name=f"<b>Bot</b> {number}", device=device, app="web")
    dashboard.presence.internal.context.now = ""
    log_in(dashboard, 1)
    write_samples(dashboard.presence, begin, [(1, 1, 0), (6, 6, 5), (6, 6, 5)])
    tab = open_tab(390, 900, path="/live?split=logins")
    chart = tab.page.get_by_test_id("stVegaLiteChart").nth(1)
    expect(chart.locator("canvas, svg").first).to_be_visible()
    tab.settle()
    chart.click(position={"x": 200, "y": 80})  # the only bar is the nearest
    logins = tab.page.locator(".st-key-login-spike")
    expect(logins).to_contain_text("5 logins between")
    split = logins.locator(".st-key-span-splits").get_by_role("button")
    expect(split).to_have_text(["web · 5", "PC · 4", "Tablet · 1"])
    feed = tab.page.locator(".st-key-feed").get_by_role("link", name="<b>Bot</b>")
    expect(feed).to_have_count(5)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    split.nth(1).click()
    expect(logins).to_contain_text("4 logins between")
    expect(feed).to_have_count(4)
    logins.get_by_role("link", name=texts.LIVE_SPAN_SESSIONS).click()
    tab.expect_uids("bot4", "bot3", "bot2", "bot1")
    expect(tab.page).to_have_url(re.compile(r"\?login=\d.*Z\.\.\d.*Z&device=PC$"))
