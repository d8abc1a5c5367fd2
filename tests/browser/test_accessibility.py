"""Every page as axe-core sees it, light and dark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from presence_dashboard import texts
from presence_dashboard.gate import pages
from tests.browser.conftest import KICK_BUTTON, Dashboard, Open, Tab, log_in
from tests.samples import write_samples

pytestmark = pytest.mark.browser

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")

EXCEPTED = {
    "svg-img-alt": ('[data-testid="stMetricChart"]', "Vega draws st.metric's small line and takes no text for it; "
                    "the number beside it says what it ends on"),
}  # fmt: skip
"""Rule → where it may be broken, and why: Streamlit's own widgets, which cannot be told to do better."""

ASK = """([excepted, only]) => axe.run(document, {
  resultTypes: ['violations'], ...(only ? {runOnly: {type: 'rule', values: [only]}} : {}),
}).then(found => found.violations
  .filter(one => ['serious', 'critical'].includes(one.impact))
  .flatMap(one => one.nodes
    .filter(node => !(one.id in excepted && document.querySelector(node.target[0])?.closest(excepted[one.id])))
    .map(node => `${one.id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 160)}`)))"""


def violations(page: Page, only: str = "") -> list[str]:
    """What is serious or critical. Asked from outside of the page: its policy would let no script of ours in."""
    page.evaluate(f"window.axe || (() => {{ {AXE} }})()")
    found: list[str] = page.evaluate(ASK, [{rule: where for rule, (where, _) in EXCEPTED.items()}, only])
    return found


def walk(tab: Tab, home: str) -> Iterator[str]:
    """Every page, and on the Sessions page what opens there."""
    page = tab.page
    yield "sessions"
    page.get_by_role("button", name=texts.FACET_LABELS["device"], exact=True).click()
    expect(page.get_by_test_id("stPopoverBody").get_by_role("button", name="Mac")).to_be_visible()
    yield "sessions, a menu"
    tab.press("Escape")
    tab.settle()
    tab.click(KICK_BUTTON, 1)
    expect(page.get_by_role("dialog").get_by_role("textbox", name=texts.REASON)).to_be_visible()
    page.get_by_role("dialog").get_by_text("Lost device", exact=True).click()
    tab.settle()
    yield "sessions, the dialog"
    tab.press("Escape")
    tab.settle()
    for name, there in (
        (texts.LIVE_PAGE, "stMetricChart"),
        (texts.PERSON_PAGE, "stTextInput"),
        (texts.HISTORY_PAGE, "stDataFrame"),
        (texts.HEALTH_PAGE, "stMetric"),
        (texts.STAFF_PAGE, "stDataFrame"),
    ):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.get_by_test_id(there).first).to_be_visible()
        if name == texts.PERSON_PAGE:
            page.get_by_role("searchbox").fill("user01")
            expect(page.get_by_role("heading", name="Person 01 user")).to_be_visible()
        tab.settle()
        yield name
    page.goto(f"{home}/?app_version=9.9.9")
    expect(page.get_by_role("heading", name=texts.LINK_TITLE)).to_be_visible()
    expect(page.get_by_role("button", name=texts.LINK_SHOW_ALL)).to_be_visible()
    tab.settle()
    yield "sessions, a link that is refused"


def test_no_page_has_a_serious_violation_in_light_or_in_dark(dashboard: Dashboard, open_tab: Open) -> None:
    presence = dashboard.presence
    log_in(dashboard, 3)
    presence.kick("user02", by="alex", reason="Shared account")
    presence.set_staff("dana", "support", by="test")
    write_samples(presence, time.time() - 1800, [(30 + n % 7, 40 + n % 5, n // 50) for n in range(170)])
    tab = open_tab()
    found: dict[str, Any] = {}
    for where in walk(tab, dashboard.url):
        found[where] = violations(tab.page)
        tab.page.emulate_media(color_scheme="dark")
        expect(tab.page.locator(".stApp")).to_have_css("color-scheme", "dark")
        found[f"{where}, dark"] = violations(tab.page, "color-contrast")
        tab.page.emulate_media(color_scheme="light")
        expect(tab.page.locator(".stApp")).to_have_css("color-scheme", "light")
    tab.page.goto("about:blank")
    for answer in (pages.sign_in_form("", "/", "dana", "Wrong."), pages.sign_out_form("")):
        for scheme in ("light", "dark"):
            tab.page.emulate_media(color_scheme=scheme)
            tab.page.set_content(bytes(answer.body).decode())
            found[f"gate, {scheme}: {answer.body[:200]!r}"] = violations(tab.page)
    assert {where: said for where, said in found.items() if said} == {}
