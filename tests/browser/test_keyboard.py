"""From opening the page to a kick, without a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, live, log_in

pytestmark = pytest.mark.browser

MOST_TABS = 20


def tab_to(field: Locator) -> None:
    for _ in range(MOST_TABS):
        if field.evaluate("field => field === document.activeElement"):
            return
        field.page.keyboard.press("Tab")
    raise AssertionError("it is out of reach of the Tab key")


def tab_to_the_table(page: Page) -> None:
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "CANVAS":
            return
    raise AssertionError("the table is out of reach of the Tab key")


def test_keys_alone_find_a_person_tick_the_row_and_kick(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 12)
    tab = open_tab()
    keys = tab.page.keyboard
    tab.press("/")
    keys.type("person 0")
    expect(tab.page.get_by_role("button", name="Kick all 10 that match")).to_be_visible()
    tab.settle()

    tab_to_the_table(tab.page)
    expect(tab.page.get_by_text(texts.SELECT_HINT)).to_be_visible()  # it says which keys
    keys.press("ArrowDown")
    keys.press("Shift+Space")
    expect(tab.page.get_by_role("button", name=texts.kick_selected(1))).to_be_enabled()
    [ticked] = tab.page.locator("[data-testid=stDataFrame] tr[aria-selected=true] td:nth-child(3)").all_inner_texts()
    tab.press("k")
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text(ticked)
    reason = dialog.get_by_role("textbox", name=texts.REASON)
    tab_to(reason)
    keys.type("No mouse")
    tab_to(dialog.get_by_role("button", name=texts.confirm(1)))
    keys.press("Enter")
    expect(tab.page.get_by_test_id("stToast")).to_contain_text(f"Kicked Person {ticked[-2:]} user")
    assert [login.session.uid for login in logins if login.session.uid not in live(dashboard, logins)] == [ticked]
    assert dashboard.presence.audit(uid=ticked).items[0].reason == "No mouse"
