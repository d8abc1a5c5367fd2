"""The Live page in a real browser."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, log_in
from tests.support.samples import write_samples

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]


def test_the_chart_shows_exact_times_and_a_new_login_appears(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 3)
    write_samples(dashboard.presence, time.time() - 1800, [(30 + n % 7, 40 + n % 5, n // 50) for n in range(170)])
    tab = open_tab(path="/live")
    chart = tab.page.get_by_test_id("stVegaLiteChart")
    expect(chart.locator("canvas, svg").first).to_be_visible()
    dashboard.presence.login("dana@example.com", name="Dana <b>Novak</b>")

    box = chart.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.5)
    tip = tab.page.locator("#vg-tooltip-element")
    expect(tip).to_contain_text(texts.LIVE_AT_UTC)
    expect(tip).to_contain_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"))
    expect(tip).to_contain_text(texts.USERS)

    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.85, box["y"] + box["height"] * 0.5, steps=5)
    tab.page.mouse.up()
    expect(tab.page).to_have_url(re.compile(r"/live\?from=\d+&to=\d+$"))
    expect(tab.page.get_by_role("button", name=texts.LIVE_ZOOM_OUT)).to_be_visible()

    tab.page.get_by_text("24h", exact=True).click()
    expect(tab.page).to_have_url(re.compile(r"/live\?range=24h$"))
    link = tab.page.get_by_role("link", name="Dana <b>Novak</b>")
    expect(link).to_be_visible()
    tab.page.set_viewport_size({"width": 320, "height": 640})
    tab.settle()
    assert tab.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    link.click()
    expect(tab.page).to_have_url(re.compile(r"/person\?.*q=dana(@|%40)example\.com"))
