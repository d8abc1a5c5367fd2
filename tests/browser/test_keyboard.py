"""From opening the page to a kick, without a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, live, log_in

pytestmark = pytest.mark.browser

MAX_TABS = 25


def tab_to(field: Locator) -> None:
    for _ in range(MAX_TABS):
        if field.evaluate("field => field === field.getRootNode().activeElement"):
            return
        field.page.keyboard.press("Tab")
    raise AssertionError("it is out of reach of the Tab key")


def tab_to_the_rows(page: Page) -> None:
    for _ in range(MAX_TABS):
        page.keyboard.press("Tab")
        if page.locator("tbody tr:focus").count():
            return
    raise AssertionError("the rows are out of reach of the Tab key")


def test_keys_alone_find_a_person_tick_the_row_and_kick(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 12)
    tab = open_tab()
    keys = tab.page.keyboard
    tab.press("/")
    box = tab.page.locator("input[type=search]").first
    expect(box).to_be_focused()
    expect(box).to_have_value("")
    keys.type("192.0.2.0/24")  # a slash that is typed is a letter
    expect(box).to_have_value("192.0.2.0/24")
    keys.press("ControlOrMeta+a")
    keys.type("person 0")
    expect(tab.page.get_by_role("button", name="Kick all 10 that match")).to_be_visible()
    tab.settle()

    tab_to_the_rows(tab.page)
    expect(tab.page.get_by_text(texts.SELECT_HINT)).to_be_visible()  # it says which keys
    keys.press("ArrowDown")
    keys.press("Space")
    expect(tab.page.get_by_role("button", name=texts.kick_selected(1))).to_be_enabled()
    ticked = "user08"
    expect(tab.row(ticked).get_by_role("checkbox")).to_be_checked()
    expect(tab.page.locator("tbody tr:focus")).to_contain_text(ticked)
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
    expect(tab.page.locator("tbody tr:focus")).to_have_count(1)  # the row, or the next if the list has been read again


def test_k_kicks_the_row_and_enter_opens_its_person_and_a_link_shows_that_it_has_the_focus(
    dashboard: Dashboard, open_tab: Open
) -> None:
    log_in(dashboard, 4)
    dashboard.presence.block("someone", by="sam", reason="Fraud")
    tab = open_tab()
    keys, focused = tab.page.keyboard, tab.page.locator("tbody tr:focus")
    tab.row("user03").focus()
    for key, uid in (("End", "user00"), ("Home", "user03"), ("ArrowDown", "user02"), ("ArrowUp", "user03")):
        keys.press(key)
        expect(focused).to_contain_text(uid)
    keys.press("k")
    expect(tab.page.get_by_role("dialog")).to_contain_text("user03")
    keys.press("Escape")
    expect(tab.page.get_by_role("dialog")).to_have_count(0)
    expect(focused).to_contain_text("user03")
    tab.settle()
    kick = tab.row("user02").get_by_role("button", name=texts.KICK)
    kick.focus()
    keys.press("Enter")
    expect(tab.page.get_by_role("dialog")).to_contain_text("user02")
    keys.press("Escape")
    expect(kick).to_be_focused()
    tab.settle()
    tab.row("user02").focus()
    keys.press("Enter")
    expect(tab.page).to_have_url(f"{dashboard.url}/person?q=user02")
    expect(tab.page.get_by_role("heading", name="Person 02 user")).to_be_focused()

    tab.page.get_by_role("link", name=texts.BLOCKS_PAGE, exact=True).click()
    person = tab.page.get_by_role("link", name="someone")
    expect(person).to_be_visible()
    for link in (tab.page.get_by_role("link", name=texts.HISTORY_PAGE, exact=True), person):
        tab_to(link)
        expect(link).to_have_css("outline-style", "solid")
        expect(link).to_have_css("outline-width", "2px")


def test_the_next_tab_after_a_menu_is_opened_by_key_reaches_its_first_control(
    dashboard: Dashboard, open_tab: Open
) -> None:
    log_in(dashboard, 1)
    tab = open_tab()
    for key in ("menu-filters", "menu-views", "menu-columns", "menu-watch", "menu-account"):
        tab.settle()
        button = tab.page.locator(f".st-key-{key}").get_by_role("button")
        button.focus()
        tab.page.keyboard.press("Enter")
        menu = tab.page.get_by_test_id("stPopoverBody")
        expect(menu).to_be_focused()
        expect(menu.locator("button, input").first).to_be_visible()
        tab.settle()
        tab.page.keyboard.press("Tab")
        expect(menu.locator(":focus")).to_have_count(1)
        tab.page.keyboard.press("Escape")
        expect(menu).to_have_count(0)
        expect(button).to_be_focused()


def test_no_fact_of_a_session_stops_the_tab_key(dashboard: Dashboard, open_tab: Open) -> None:
    """Chromium stops at each part that scrolls, by a few hidden pixels, too."""
    log_in(dashboard, 1)
    tab = open_tab(path="/person?q=user00")
    tab.shows = b"Person 00"
    kick = tab.page.get_by_role("button", name=texts.PERSON_KICK_THIS)
    expect(kick).to_be_visible()
    tab.settle()
    tab.page.get_by_role("button", name=texts.REFRESH).focus()
    tab.page.keyboard.press("Tab")
    expect(kick).to_be_focused()
    tab.complaints[:] = [said for said in tab.complaints if "404" not in said]
