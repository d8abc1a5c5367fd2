"""The Sessions page that is left open, as a browser draws it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, live, log_in
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser


def test_a_row_that_ends_is_struck_through_in_its_place_and_ticks_stay(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 6)
    tab = open_tab()
    before = tab.uids()
    tab.tick("user05", "user01")
    expect(tab.page.get_by_role("button", name=texts.kick_selected(2))).to_be_enabled()
    dashboard.presence.kick("user03", by="alex", reason="test")
    dashboard.presence.logout("user02", logins[2].session.session_id)
    log_in(dashboard, 3, "late")

    ended = tab.row("user03")
    expect(ended).to_contain_text(re.compile(r"Kicked by alex, \d\d:\d\d"))  # a tick later, with no key or click
    expect(ended.get_by_role("button", name="Person 03 user", exact=True)).to_have_css(
        "text-decoration-line", "line-through"
    )
    expect(ended.get_by_role("button", name=texts.KICK)).to_have_count(0)
    expect(ended.get_by_role("checkbox")).to_be_disabled()
    expect(tab.row("user02")).to_contain_text("Signed out")
    expect(tab.page.locator(".record-table").get_by_role("status")).to_contain_text(re.compile("Person 0[23] user: "))
    tab.settle()
    tab.expect_uids(*before)
    expect(tab.ticked()).to_have_count(2)
    expect(tab.page.get_by_role("button", name=texts.kick_selected(2))).to_be_enabled()
    tab.kick("user04")
    expect(tab.page.get_by_role("dialog")).to_contain_text("user04")


def test_times_tick_in_the_browser_until_refreshes_are_turned_off_by_keys_and_this_is_remembered(
    dashboard: Dashboard, open_tab: Open
) -> None:
    [login] = log_in(dashboard, 1)
    tab = open_tab()
    seen = tab.row("user00").locator("[data-column=seen] time")
    expect(seen).to_have_text(re.compile(r"^\d+ s ago$"))
    frames, first = len(tab.frames), seen.inner_text()
    expect(seen).not_to_have_text(first)
    assert len(tab.frames) <= frames + 8, "without asking for it"
    utc = f"{login.session.last_seen:%Y-%m-%d %H:%M:%S} UTC"
    expect(seen).to_have_attribute("title", re.compile(re.escape(utc)))
    expect(tab.row("user00").locator("[data-column=expires] time")).to_have_text(re.compile(r"^in \d+ min$"))

    tab.account()
    tab.page.get_by_role("combobox", name=texts.REFRESH_EVERY).focus()
    tab.page.keyboard.press("ArrowDown")
    expect(tab.page.get_by_role("option", name=texts.refresh_every(30))).to_be_visible()
    tab.page.keyboard.press("End")
    tab.page.keyboard.press("Enter")
    expect(seen).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))  # an age would not stay true
    wait_for("the cookie", lambda: "presence_every=0" in tab.page.evaluate("document.cookie"))
    tab.page.context.clear_cookies()


def test_ticked_rows_and_those_of_the_box_in_the_header_are_kicked_by_keyboard(
    dashboard: Dashboard, open_tab: Open
) -> None:
    logins = log_in(dashboard, 8)
    tab = open_tab()
    for count, uid in enumerate(("user04", "user02"), start=1):
        tab.tick(uid)
        expect(tab.page.get_by_role("button", name=texts.kick_selected(count))).to_be_enabled()
    tab.press("k")
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text(texts.kick_many(2))
    tab.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    # A dialog reopened within a blink shows the old one's fields, whose clicks count for nothing: press() settles.
    tab.press("k")
    expect(dialog).to_contain_text(texts.kick_many(2))
    tab.page.get_by_role("button", name=texts.confirm(2)).click()
    expect(dialog).to_contain_text(texts.REASON_MISSING)
    reason = tab.page.get_by_role("textbox", name=texts.REASON)
    reason.press_sequentially("no kick")  # letters that are shortcuts elsewhere on the page
    reason.press("Tab")  # this takes the text over
    tab.page.get_by_role("button", name=texts.confirm(2)).click()
    toast = tab.page.get_by_test_id("stToast")
    expect(toast.filter(has_text="Kicked 2 sessions")).to_be_visible()
    assert live(dashboard, logins) == ["user00", "user01", "user03", "user05", "user06", "user07"]
    expect(dialog).to_have_count(0)

    box = tab.table.locator("thead").get_by_role("checkbox")
    expect(box).to_have_accessible_name("Select the 6 live rows shown")
    box.focus()
    tab.press("Space")
    expect(tab.page.get_by_text(texts.selected_hint(6, 6, 0, 0))).to_be_visible()
    expect(tab.ticked()).to_have_count(6)
    tab.row("user05").get_by_role("checkbox").uncheck()  # and one is spared
    expect(tab.page.get_by_text(texts.selected_hint(5, 5, 0, 0))).to_be_visible()
    expect(box).to_be_checked(indeterminate=True)
    tab.page.get_by_role("button", name=texts.kick_selected(5)).click()
    expect(dialog).to_contain_text(texts.kick_many(5))
    tab.confirm("Clean-up", button=texts.confirm(5))
    expect(toast.filter(has_text="Kicked 5 sessions")).to_be_visible()
    assert live(dashboard, logins) == ["user05"]


def test_a_selection_survives_paging_and_a_refresh_and_all_of_it_is_kicked(
    dashboard: Dashboard, open_tab: Open
) -> None:
    logins = log_in(dashboard, 53)
    tab = open_tab()
    tab.tick("user52", "user20")
    expect(tab.page.get_by_text(texts.selected_hint(2, 2, 0, 0))).to_be_visible()
    tab.page.get_by_role("button", name=texts.OLDER).click()
    tab.expect_first("user02")
    tab.tick("user01")
    expect(tab.page.get_by_text(texts.selected_hint(3, 3, 2, 0))).to_be_visible()
    tab.page.get_by_role("button", name=texts.REFRESH, exact=True).click()
    tab.settle()
    expect(tab.ticked()).to_have_count(1)
    tab.page.get_by_role("button", name=texts.NEWEST, exact=True).click()
    tab.expect_first("user52")
    expect(tab.ticked()).to_have_count(2)
    tab.press("k")
    tab.confirm("Clean-up", button=texts.confirm(3))
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Kicked 3 sessions")
    assert sorted({login.session.uid for login in logins} - set(live(dashboard, logins))) == [
        "user01", "user20", "user52",
    ]  # fmt: skip
    expect(tab.page.get_by_text(texts.SELECT_HINT)).to_be_visible()
