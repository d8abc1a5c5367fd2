"""At the widths of phones and screens nothing is covered or cut, and nothing moves while a page loads.

``make layout`` walks every page in every language and role."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from presence_core import SessionFilter
from presence_core.text.languages import LANGUAGES
from presence_dashboard.gate.staff_sessions import COOKIE
from presence_dashboard.roles import ROLES, Role
from tests.browser.conftest import SECRET, Dashboard, NewPage, Tab, Team, log_in, signed_in
from tests.support.samples import write_samples
from tests.support.soak import size

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]

MOST = 0.02
"""Cumulative layout shift. Browsers call 0.1 good; these loads have less than 0.006."""

WATCH = """
window.shifts = [];
const place = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(" ");
const moved = ({ node, previousRect, currentRect }) =>
  `${node?.outerHTML?.slice(0, 300)}: ${place(previousRect)} → ${place(currentRect)}`;
new PerformanceObserver((list) => {
  for (const shift of list.getEntries())
    if (!shift.hadRecentInput) window.shifts.push([shift.value, shift.sources.map(moved)]);
}).observe({ type: "layout-shift", buffered: true });
"""


WIDE, NARROW = (1400, 900), (390, 844)
PAGES = {
    "": ".record-table tbody tr",
    "live": '[data-testid="stVegaLiteChart"] canvas',
    "history": ".record-table tbody tr",
    "report": ".html-table td",
    "blocks": ".record-table tbody tr",
}

LARGE_COUNTS = """
{ const [users, sessions] = document.querySelectorAll(".st-key-status strong:not(.st-key-waiting-requests *)");
[users.textContent, sessions.textContent] = ["12,345", "123,456"]; }
"""
HIDDEN = """(parts) => parts.filter((part) => {
  const { left, right, top, bottom } = part.getBoundingClientRect();
  const points = [0.02, 0.5, 0.85].map((share) => left + share * (right - left));
  return points.some((x) => !part.contains(document.elementFromPoint(x, (top + bottom) / 2)));
}).map((part) => part.textContent)"""
"""The texts that something covers or cuts. A link ends with a margin."""

WIDTHS = size([1366, 768, 360], [1920, 1440, 1366, 1280, 1024, 768, 360])
FAULTS = Path(__file__).with_name("layout_faults.js").read_text("utf-8").partition("() => {")
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true)))))"


def faults(page: Page) -> list[str]:
    """What a reader cannot read, once the page has followed a change of its width."""
    found: list[str] = []
    for _ in range(20):
        page.evaluate(FRAMES)
        found = page.evaluate("".join(FAULTS[1:]))
        if not found:
            break
        page.wait_for_timeout(100)
    return found


@pytest.fixture(scope="module")
def long_names(team: Team) -> Iterator[Team]:
    """Staff of each role, and people some of whom have long names of everything."""
    for role in ROLES:
        team.passwords.set(f"alexandra.{role}", SECRET)
        team.presence.set_staff(f"alexandra.{role}", role, by="test")
    people: list[dict[str, Any]] = [
        {"uid": f"guest{n}", "name": f"Guest {n}", "aliases": [f"guest{n}@x.example"], "device": "Phone", "app": "shop"}
        for n in range(4)
    ]
    people.append({
        "uid": "u-" + "long" * 20, "name": "Maximiliane " * 8, "aliases": ["long-address@" + "sub." * 12 + "x.example"],
        "device": "The laptop in the room next to the kitchen", "app": "shop",
        "ip": "2001:db8:ed9d:8f56:bc90:be19:bad3:ee2f",
        "user_agent": "Mozilla/5.0 (Linux; Android 14; K) Chrome/129.0.0.0 Mobile Safari/537.36",
    })  # fmt: skip
    for person in people:
        team.presence.login(**person)
    flagged: dict[str, Any] = {
        "uid": "guest0", "name": "Maximiliane Guest",
        "user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0",
    }  # fmt: skip
    team.presence.login(**flagged, device="Mac", device_id="device-mac")
    for _ in range(5):
        team.presence.login_failed("guest0", why="wrong_password")
    token = team.presence.login(**flagged, device="Phone", device_id="device-phone", ip="192.0.2.7").token
    assert team.presence.validate(token, ip="198.51.100.7", user_agent=people[-1]["user_agent"]).moved
    team.presence.kick("guest1", by="alexandra.admin", reason="Shared account", ticket="T-1", block_for=3_600)
    write_samples(team.presence, time.time() - 1800, [(30 + n % 7, 40 + n % 5, n // 50) for n in range(170)])
    asked = SessionFilter(text="Maximiliane " * 8, device="The laptop in the room next to the kitchen")
    request = team.presence.ask_approval(
        by="alexandra.support", reason="Stolen " * 40, filter=asked, network="2001:db8:ed9d:8f56:bc90:be19:bad3:ee2f",
        sessions=123_456,
    )  # fmt: skip
    yield team
    team.presence.answer_request(request.id, "withdraw", by="alexandra.support")
    for person in people:
        team.presence.kick(person["uid"], by="test", reason="Clean-up")


@pytest.mark.parametrize("language", size(["de", "ja"], [*LANGUAGES]))
@pytest.mark.parametrize("role", size(["admin"], [*ROLES]))
def test_on_no_page_is_a_text_covered_or_cut_and_none_scrolls_sideways_at_any_width(
    long_names: Team, context: BrowserContext, new_page: NewPage, role: Role, language: str
) -> None:
    """A window is resized without a reload. With so many users as a large site has."""
    staff = {COOKIE: signed_in(long_names, f"alexandra.{role}"), "presence_language": language, "presence_every": "0"}
    context.add_cookies([{"name": name, "value": value, "url": long_names.url} for name, value in staff.items()])
    page = new_page()
    page.set_viewport_size({"width": 1920, "height": 1600})
    page.goto(f"{long_names.url}/{'live' if role == 'stats' else ''}")
    links = page.get_by_test_id("stTopNavLink")
    expect(links.first).to_be_attached()
    found, seen = {}, set()
    paths = [link.get_attribute("href") or "" for link in links.all()]
    for path in paths:
        if path.endswith("/person"):
            page.goto(f"{long_names.url}/person?q=guest1")
        else:
            page.locator(f'[data-testid="stTopNavLink"][href="{path}"]').click()
            expect(page).to_have_url(re.compile(rf"{re.escape(path)}(\?.*)?$"))
        expect(page.locator('.stSkeleton, [data-testid="stSkeleton"]')).to_have_count(0)
        Tab(page).settle()
        seen.add(page.url)
        page.mouse.move(0, 1590)  # not where a narrower header comes under the pointer, and shows a tooltip
        page.evaluate(LARGE_COUNTS)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1600})
            if what := faults(page):
                found[page.url.removeprefix(long_names.url), width] = what
        page.set_viewport_size({"width": 1920, "height": 1600})
    page.close()
    context.clear_cookies()
    assert found == {}
    assert len(seen) == {"stats": 2, "viewer": 7, "support": 7, "admin": 8}[role], "or a page was not opened"


@pytest.mark.parametrize("width", [320, 360, 390])
def test_a_phone_shows_every_digit_of_the_counts(dashboard: Dashboard, new_page: NewPage, width: int) -> None:
    log_in(dashboard, 1)
    dashboard.presence.kick("user00", by="alex", reason="Shared account")
    dashboard.presence.ask_approval(by="sam", reason="Stolen cards", filter=SessionFilter(device="Mac"), sessions=500)
    page = new_page()
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{dashboard.url}/history")
    expect(page.locator(PAGES["history"]).first).to_be_visible()
    page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
    page.evaluate(LARGE_COUNTS)
    assert page.locator(".st-key-status :is(strong, .presence-connection) >> visible=true").evaluate_all(HIDDEN) == []
    badge = page.locator(".st-key-waiting-requests a strong >> visible=true")
    expect(badge).to_have_text("1")
    assert badge.evaluate_all(HIDDEN) == []
    page.close()


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
    page.evaluate(FRAMES)
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
    shifts: list[tuple[float, list[str]]] = page.evaluate("window.shifts")
    page.close()
    assert sum(value for value, _ in shifts) < MOST, "\n".join(map(str, shifts))
