"""Every page as axe-core sees it: in turn light and dark, in a soak each in both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final, Literal

import pytest
from playwright.sync_api import Page, expect

from presence_dashboard import texts
from presence_dashboard.data.saved_views import view_text
from presence_dashboard.gate import html_pages
from tests.browser.conftest import Dashboard, Open, Tab, log_in
from tests.support.samples import write_samples
from tests.support.soak import size

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]

OPENED: Final = dict.fromkeys(
    ("sessions, a menu", "sessions, the views", "sessions, the account"), '[data-testid="stPopoverBody"]'
)
"""What opens above a page that was looked at before: only this part is looked at, in a soak all of it again."""

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
SCHEMES: Final[list[Literal["light", "dark"]]] = ["light", "dark"]

ORDERED: Final = (texts.BLOCKS_PAGE, texts.REPORT_PAGE)
"""Pages whose headings must skip no level: others have a box with a title where a page has no other heading."""

ASK = """([also, part]) => {
const fades = element => {
  const container = element.closest('[data-testid="stElementContainer"]');
  return container !== null && getComputedStyle(container).opacity !== '1';
};
return axe.run(part || document, {resultTypes: ['violations']}).then(result => {
  const nodes = result.violations
    .filter(rule => ['serious', 'critical'].includes(rule.impact) || also.includes(rule.id))
    .flatMap(rule => rule.nodes.map(node => ({id: rule.id, node, element: document.querySelector(node.target[0])})));
  return {
    gone: nodes.filter(({element}) => !element || fades(element)).length,
    found: nodes.map(({id, node}) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 160)}`),
  };
});
}"""


def violations(page: Page, part: str = "", *also: str) -> list[str]:
    """What is serious or critical, or breaks one of the rules ``also``, in the page or in the part with this selector.
    Asked from outside of the page: its policy would let no script of ours in."""
    if not page.evaluate("!!window.axe"):  # half a megabyte: once for each load of a page
        page.evaluate(f"(() => {{ {AXE} }})()")
    while (answer := page.evaluate(ASK, [also, part]))["gone"]:
        pass  # the page was drawn again meanwhile, or fades where Streamlit is about to draw: what is there now?
    found: list[str] = answer["found"]
    return found


def walk(tab: Tab, home: str) -> Iterator[str]:
    """Every page, and on the Sessions page what opens there."""
    page = tab.page
    page.get_by_role("columnheader", name=texts.LABEL_NAME).get_by_role("button").click()
    yield "sessions"
    page.get_by_role("button", name=texts.filters_menu(0), exact=True).click()
    expect(page.get_by_test_id("stPopoverBody").get_by_role("button", name="Mac")).to_be_visible()
    yield "sessions, a menu"
    tab.press("Escape")
    tab.settle()
    page.get_by_role("button", name=texts.VIEWS_MENU, exact=True).click()
    expect(page.get_by_test_id("stPopoverBody").get_by_role("button", name="Macs", exact=True)).to_be_visible()
    yield "sessions, the views"
    tab.press("Escape")
    tab.settle()
    tab.account()
    expect(page.get_by_test_id("stPopoverBody").get_by_text(texts.DENSITY)).to_be_visible()
    yield "sessions, the account"
    tab.press("Escape")
    tab.settle()
    tab.kick("user00")
    expect(page.get_by_role("dialog").get_by_role("textbox", name=texts.REASON)).to_be_visible()
    page.get_by_role("dialog").get_by_text("Lost device", exact=True).click()
    tab.settle()
    yield "sessions, the dialog"
    tab.press("Escape")
    tab.settle()
    for name, there in (
        (texts.LIVE_PAGE, '[data-testid="stMetric"]'),
        (texts.PERSON_PAGE, '[data-testid="stTextInput"]'),
        (texts.BLOCKS_PAGE, ".record-table tbody tr"),
        (texts.HISTORY_PAGE, ".record-table tbody tr"),
        (texts.REPORT_PAGE, '[data-testid="stHtml"]'),
        (texts.HEALTH_PAGE, '[data-testid="stMetric"]'),
        (texts.STAFF_PAGE, ".record-table tbody tr"),
    ):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator(f"{there} >> visible=true").first).to_be_visible()
        if name == texts.LIVE_PAGE:
            page.get_by_text(texts.LIVE_SPLITS["reason"], exact=True).click()
            expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(2)
            page.get_by_test_id("stVegaLiteChart").first.click(position={"x": 300, "y": 100})
            expect(page.locator(".st-key-login-spike")).to_be_visible()
        if name == texts.PERSON_PAGE:
            page.get_by_role("searchbox").fill("user01")
            expect(page.get_by_role("heading", name="Person 01 user")).to_be_visible()
        if name == texts.BLOCKS_PAGE:
            page.get_by_role("button", name=texts.RULE_ADD).click()
            page.get_by_role("textbox", name=texts.RULE_NETWORK_FIELD).fill("0.0.0.0/0")
            page.get_by_role("button", name=texts.RULE_PREVIEW).click()
            expect(page.get_by_role("textbox", name=texts.REASON)).to_be_visible()
        tab.settle()
        yield name
    tab.account()
    page.get_by_role("link", name=texts.HANDBOOK_PAGE, exact=True).click()
    page.get_by_role("button", name="Block someone", exact=True).click()
    expect(page.get_by_role("img")).to_be_visible()
    tab.settle()
    yield texts.HANDBOOK_PAGE
    page.goto(f"{home}/?version=9.9.9")
    expect(page.get_by_role("heading", name=texts.LINK_TITLE)).to_be_visible()
    expect(page.get_by_role("button", name=texts.LINK_SHOW_ALL)).to_be_visible()
    tab.settle()
    yield "sessions, a link that is refused"


def test_no_page_has_a_serious_violation_in_light_or_in_dark(dashboard: Dashboard, open_tab: Open) -> None:
    presence = dashboard.presence
    log_in(dashboard, 3)
    presence.set_staff("dana", "support", by="test")
    presence.add_block_rule(network="198.51.100.0/24", by="alex", reason="Attack", expected=9)
    presence.save_item("view", "Macs", view_text({"device": "Mac"}, []), by="dana", shared=True)
    write_samples(presence, time.time() - 1800, [(30 + n % 7, 40 + n % 5, n // 50) for n in range(170)])
    tab = open_tab()
    presence.kick("user02", by="alex", reason="Shared account")
    expect(tab.row("user02")).to_contain_text("Kicked by alex")
    found: dict[str, Any] = {}
    for number, where in enumerate(walk(tab, dashboard.url)):
        for scheme in size(SCHEMES[number % 2 :][:1], SCHEMES):
            tab.page.emulate_media(color_scheme=scheme)
            expect(tab.page.locator(".stApp")).to_have_css("color-scheme", scheme)
            also = ["heading-order"] if where in ORDERED else []
            found[f"{where}, {scheme}"] = violations(tab.page, size(OPENED.get(where, ""), ""), *also)
        if where not in OPENED:
            tab.page.set_viewport_size({"width": 390, "height": 844})
            found[f"{where}, 390 px"] = violations(tab.page, "", *also)
            tab.page.set_viewport_size({"width": 1400, "height": 960})
    tab.page.goto("about:blank")
    gate_pages = (
        html_pages.sign_in_form("", "/", "dana", "Wrong."),
        html_pages.password_again_form("", "/", "dana", "Wrong."),
        html_pages.sign_out_form(""),
    )
    for number, answer in enumerate(gate_pages):
        for scheme in size(SCHEMES[number % 2 :][:1], SCHEMES):
            tab.page.emulate_media(color_scheme=scheme)
            tab.page.set_content(bytes(answer.body).decode())
            found[f"gate, {scheme}: {answer.body[:200]!r}"] = violations(tab.page)
    assert {where: said for where, said in found.items() if said} == {}
