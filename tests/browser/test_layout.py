"""While a page loads, what is drawn stays where it is: three pages in turn wide and narrow, in a soak all in both."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from presence_dashboard import texts
from tests.browser.conftest import Dashboard, NewPage, log_in
from tests.support.samples import write_samples
from tests.support.soak import size

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]

MOST = 0.02
"""Cumulative layout shift. Browsers call 0.1 good; these loads have less than 0.006."""

WATCH = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifts.push(shift.value);
}).observe({ type: "layout-shift", buffered: true });
"""


WIDE, NARROW = (1400, 900), (390, 844)
PAGES = {
    "": ".record-table tbody tr",
    "live": '[data-testid="stVegaLiteChart"] canvas',
    "history": '[data-testid="stDataFrame"] canvas',
    "report": ".html-table td",
    "blocks": ".html-table td",
}

LARGE_COUNTS = """
const [users, sessions] = document.querySelectorAll(".st-key-status strong");
[users.textContent, sessions.textContent] = ["12,345", "123,456"];
"""
HIDDEN = """(parts) => parts.filter((part) => {
  const { left, right, top, bottom } = part.getBoundingClientRect();
  const points = [0.02, 0.5, 0.85].map((share) => left + share * (right - left));
  return points.some((x) => !part.contains(document.elementFromPoint(x, (top + bottom) / 2)));
}).map((part) => part.textContent)"""
"""The texts that something covers or cuts. A link ends with a margin."""


@pytest.mark.parametrize("width", [320, 360, 390])
def test_a_phone_shows_every_digit_of_the_counts_and_the_age_of_a_table(
    dashboard: Dashboard, new_page: NewPage, width: int
) -> None:
    log_in(dashboard, 1)
    dashboard.presence.kick("user00", by="alex", reason="Shared account")
    page = new_page()
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{dashboard.url}/history")
    expect(page.locator(PAGES["history"]).first).to_be_visible()
    page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
    page.evaluate(LARGE_COUNTS)
    assert page.locator(".st-key-status :is(strong, .presence-connection)").evaluate_all(HIDDEN) == []
    age = page.get_by_text(texts.history_as_of("")).bounding_box()
    tools = page.get_by_test_id("stElementToolbar").first.bounding_box()
    page.close()
    assert age is not None
    assert tools is not None
    assert age["y"] + age["height"] <= tools["y"], "a touch screen always shows the tools of a table"


@pytest.mark.parametrize("width", [1225, 1280, 1365])
def test_the_header_covers_no_link_to_a_page_while_redis_is_away(
    dashboard: Dashboard, new_page: NewPage, width: int
) -> None:
    log_in(dashboard, 1)
    page = new_page()
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(dashboard.url)
    expect(page.locator(PAGES[""]).first).to_be_visible()
    dashboard.server.pause()
    expect(page.locator('.presence-connection[data-lost="1"]')).to_be_visible()
    page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
    page.evaluate(LARGE_COUNTS)
    assert page.get_by_test_id("stTopNavLink").evaluate_all(HIDDEN) == []
    page.close()


@pytest.mark.parametrize(
    ("path", "width", "height"),
    [
        (path, *window)
        for number, path in enumerate(size(["", "live", "report"], list(PAGES)))
        for window in size([(WIDE, NARROW)[number % 2]], [WIDE, NARROW])
    ],
)
def test_nothing_moves_while_a_page_loads(
    dashboard: Dashboard, new_page: NewPage, path: str, width: int, height: int
) -> None:
    log_in(dashboard, 30)
    for number in range(20):
        by = "alex" if number % 2 else "sam"
        dashboard.presence.kick(f"user{number:02}", by=by, reason="Shared account", ticket=f"T-{number}", block_for=60)
    write_samples(dashboard.presence, time.time() - 1800, [(30 + n % 7, 40 + n % 5, n // 50) for n in range(170)])
    page = new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.add_init_script(WATCH)
    page.goto(f"{dashboard.url}/{path}")
    expect(page.locator(PAGES[path]).first).to_be_visible()
    expect(page.locator('.stSkeleton, [data-testid="stSkeleton"]')).to_have_count(0)
    page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
    page.wait_for_function("new Promise(done => requestAnimationFrame(() => setTimeout(() => done(true))))")
    shifts: list[float] = page.evaluate("window.shifts")
    page.close()
    assert sum(shifts) < MOST, shifts
