"""The Sessions page that is left open, as a browser draws it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from presence_dashboard import texts
from tests.browser.conftest import KICK_BUTTON, TICK_BOX, Dashboard, Open, live, log_in

pytestmark = pytest.mark.browser


def test_a_row_that_ends_is_marked_in_its_place_and_ticks_stay(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 6)
    tab = open_tab()
    before = tab.uids()
    tab.click(TICK_BOX, 0)
    tab.click(TICK_BOX, 4)
    expect(tab.page.get_by_role("button", name=texts.kick_selected(2))).to_be_enabled()
    dashboard.presence.kick("user03", by="alex", reason="test")
    log_in(dashboard, 3, "late")

    ended = tab.page.locator("[data-testid=stDataFrame] tbody tr", has_text=texts.ENDED_ROW)
    expect(ended).to_have_count(1)  # a tick later, with no key or click
    expect(ended).to_contain_text("user03")
    tab.settle()
    assert [next(cell for cell in row if cell.startswith("user")) for row in tab.rows()] == before
    selected = tab.page.locator("[data-testid=stDataFrame] tr[aria-selected=true]")
    expect(selected).to_have_count(2)
    expect(tab.page.get_by_role("button", name=texts.kick_selected(2))).to_be_enabled()
    cells = " | ".join(cell for row in tab.rows() for cell in row)
    assert "ago" not in cells, cells

    tab.click(KICK_BUTTON, before.index("user03"))
    tab.settle()
    expect(tab.page.get_by_role("dialog")).to_have_count(0)
    tab.click(KICK_BUTTON, before.index("user04"))
    expect(tab.page.get_by_role("dialog")).to_contain_text("user04")


def test_one_button_ticks_all_rows_by_keyboard_and_they_are_kicked(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 8)
    tab = open_tab()
    tab.page.get_by_role("button", name=texts.select_rows(8, 0)).focus()
    tab.press("Enter")
    expect(tab.page.get_by_text(texts.selected_hint(8, 8, 0))).to_be_visible()
    selected = tab.page.locator("[data-testid=stDataFrame] tr[aria-selected=true]")
    expect(selected).to_have_count(8)
    tab.click(TICK_BOX, 2)  # and one is spared
    expect(tab.page.get_by_text(texts.selected_hint(7, 7, 0))).to_be_visible()
    tab.page.get_by_role("button", name=texts.kick_selected(7)).click()
    expect(tab.page.get_by_role("dialog")).to_contain_text(texts.kick_many(7))
    tab.confirm("Clean-up", button=texts.confirm(7))
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Kicked 7 sessions")
    assert live(dashboard, logins) == ["user05"]
