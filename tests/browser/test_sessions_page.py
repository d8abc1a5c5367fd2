"""The Sessions page as people meet it."""

from __future__ import annotations

import pytest
from playwright.sync_api import FloatRect, expect

from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, live, log_in

pytestmark = pytest.mark.browser

BEYOND = "table => table.scrollWidth - table.parentElement.clientWidth"
"""Pixels by which the table is wider than its place."""


def test_a_row_kick_ends_the_session_of_that_very_person_also_while_rows_change(
    dashboard: Dashboard, open_tab: Open
) -> None:
    logins = log_in(dashboard, 8)
    tab = open_tab()
    tab.expect_uids(*(f"user{n:02}" for n in reversed(range(8))))

    tab.kick("user04")
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("user04")
    expect(dialog).to_contain_text("Person 04 user")
    tab.confirm("Shared account", "Please sign in again.")

    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Kicked Person 04 user (Mac).")
    checked = dashboard.presence.validate(logins[4].token)
    assert not checked
    assert checked.ended is not None
    assert checked.ended.public.message == "Please sign in again."
    assert len(live(dashboard, logins)) == 7
    expect(dialog).to_have_count(0)
    tab.expect_uids(*(f"user{n:02}" for n in reversed(range(8)) if n != 4))

    late = log_in(dashboard, 30, "late")
    expect(tab.page.get_by_role("button", name=texts.newer(30, "30"))).to_be_visible()
    tab.kick("user05")
    expect(dialog).to_contain_text("user05")
    log_in(dashboard, 1, "later")
    tab.confirm("Shared account")
    expect(tab.page.get_by_test_id("stToast").filter(has_text="Person 05 user")).to_be_visible()
    assert live(dashboard, logins) == ["user00", "user01", "user02", "user03", "user06", "user07"]
    assert len(live(dashboard, late)) == 30
    tab.expect_first("later00")


def test_a_click_that_began_on_another_row_kicks_no_one(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 2)
    log_in(dashboard, 50, "late")  # all of the first page
    tab = open_tab()
    button = tab.row("late49").get_by_role("button", name=texts.KICK).element_handle()
    button.evaluate("button => button.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))")
    tab.page.get_by_label(texts.SEARCH, exact=True).fill("user")
    tab.expect_first("user01")
    # The same button is user01's now, and a mouse button that was pressed before is released on it.
    button.evaluate("button => button.dispatchEvent(new MouseEvent('click', {bubbles: true, detail: 1}))")
    tab.settle()
    expect(tab.page.get_by_role("dialog")).to_have_count(0)
    tab.kick("user01")
    expect(tab.page.get_by_role("dialog")).to_contain_text("user01")


def test_the_right_person_is_kicked_in_a_table_that_was_sorted_and_a_hostile_name_runs_nothing(
    dashboard: Dashboard, open_tab: Open
) -> None:
    hostile = (
        "<img src=x onerror=alert(1)> :red[x] $x$ :smile: :material/home: ![](http://x.invalid/y.png) -> www.x.invalid"
    )
    logins = log_in(dashboard, 4)
    dashboard.presence.login("mallory", name=hostile, device=hostile[41:101])
    tab = open_tab()
    assert hostile in tab.cells("name")
    assert tab.table.locator("img, a").count() == 0
    tab.kick("mallory")
    expect(tab.page.get_by_role("dialog")).to_contain_text(hostile)
    tab.confirm("Shared account")
    expect(tab.page.get_by_test_id("stToast")).to_contain_text(f"Kicked {hostile[:39].strip()}")
    expect(tab.page.get_by_role("dialog")).to_have_count(0)
    tab.expect_first("user03")
    login, name = (tab.table.get_by_role("columnheader", name=label) for label in (texts.LABEL_LOGIN, texts.LABEL_NAME))
    expect(login).to_have_attribute("aria-sort", "descending")
    name.get_by_role("button").click()
    tab.expect_first("user00")
    expect(name).to_have_attribute("aria-sort", "ascending")
    assert login.get_attribute("aria-sort") is None
    expect(tab.page.get_by_text("Sorted by Name: these 4 rows only.").first).to_be_visible()
    tab.table.locator("tbody").get_by_role("row").first.get_by_role("button", name=texts.KICK).click()
    expect(tab.page.get_by_role("dialog")).to_contain_text("user00")
    tab.confirm("Shared account")
    expect(tab.page.get_by_test_id("stToast").filter(has_text="Person 00 user")).to_be_visible()
    assert live(dashboard, logins) == ["user01", "user02", "user03"]


def test_enter_in_the_ticket_kicks_no_one_and_a_phrase_keeps_the_typed_text(
    dashboard: Dashboard, open_tab: Open
) -> None:
    logins = log_in(dashboard, 3)
    tab = open_tab()
    tab.kick("user02")
    dialog = tab.page.get_by_role("dialog")
    reason = dialog.get_by_role("textbox", name=texts.REASON)
    reason.press_sequentially("Chargeback 4711")
    dialog.get_by_text("Lost device", exact=True).click()
    message = dialog.get_by_role("textbox", name=texts.MESSAGE)
    expect(message).to_have_value(texts.PHRASES["Lost device"][1])
    expect(reason).to_have_value(f"Chargeback 4711 {texts.PHRASES['Lost device'][0]}")

    ticket = dialog.get_by_role("textbox", name=texts.TICKET)
    ticket.press_sequentially("FR-1")
    ticket.press("Enter")
    tab.settle()
    expect(dialog).to_be_visible()
    assert len(live(dashboard, logins)) == 3
    dialog.get_by_role("button", name=texts.confirm(1)).click()
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Kicked")
    assert live(dashboard, logins) == ["user00", "user01"]
    [entry] = dashboard.presence.audit(uid="user02").items
    assert (entry.reason, entry.ticket) == (f"Chargeback 4711 {texts.PHRASES['Lost device'][0]}", "FR-1")


def test_a_phone_shows_five_cards_for_a_thumb_and_a_large_screen_the_first_row_near_the_top_and_none_is_too_wide(
    dashboard: Dashboard, open_tab: Open
) -> None:
    log_in(dashboard, 30)
    for number in range(6):
        dashboard.presence.login(
            f"phone{number}", name=f"Phone {number}", aliases=[f"phone{number}@example.com"], device="Android phone",
            app="android", app_version="6.9.5", ip="2001:db8:ed9d:8f56:bc90:be19:bad3:ee2f",
            user_agent="Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Chrome/129.0.0.0 Safari/537.36",
        )  # fmt: skip
    tab = open_tab(390, 844)

    def box(row: int) -> FloatRect:
        found = tab.table.locator("tbody").get_by_role("row").nth(row).bounding_box()
        assert found is not None
        return found

    fifth = box(4)
    assert fifth["y"] + fifth["height"] <= 844
    card = tab.row("user29")
    for part in (
        card.get_by_role("button", name=texts.KICK),
        card.locator("label"),
        card.get_by_role("button", name="Person 29 user", exact=True),
        tab.table.locator("thead label"),
    ):
        target = part.bounding_box()
        assert target is not None
        assert target["height"] >= 44
        assert target["x"] + target["width"] <= 390
    tab.page.set_viewport_size({"width": 1400, "height": 900})
    expect(tab.table.locator("thead [data-column=uid]")).to_be_visible()
    assert box(0)["y"] <= 200
    assert tab.table.evaluate(BEYOND) <= 0
    tab.page.set_viewport_size({"width": 320, "height": 640})
    expect(tab.table.locator("thead [data-column=uid]")).to_be_hidden()

    def beyond() -> int:
        """Pixels by which the page is wider than its window."""
        page = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
        pixels: int = tab.page.evaluate(f"{page} - innerWidth")
        return pixels

    surface = tab.page.locator(".stApp")
    assert beyond() <= 0
    expect(surface).to_have_css("background-color", "rgb(255, 255, 255)")
    tab.page.emulate_media(color_scheme="dark")
    expect(surface).to_have_css("background-color", "rgb(18, 23, 29)")
    tab.kick("user21")
    expect(tab.page.get_by_role("dialog")).to_contain_text("user21")
    assert beyond() <= 0
    tab.page.set_viewport_size({"width": 1920, "height": 1080})
    expect(tab.page.get_by_role("dialog")).to_contain_text("user21")
    assert beyond() <= 0


@pytest.mark.soak
def test_every_column_fits_on_a_laptop_also_next_to_the_status(dashboard: Dashboard, open_tab: Open) -> None:
    """On 1280 px, and on each side of the widths at which cells get shorter."""
    log_in(dashboard, 1)
    for number in range(20):
        dashboard.presence.login(
            f"u{1000 + number}", name=f"Matteo De Luca {number}", aliases=[f"matteo.de-luca{number}@example.com"],
            device="Android phone", app="desktop", app_version="3.12.0", ip="2001:db8:ed9d:8f56:bc90:be19:bad3:ee2f",
            user_agent="Mozilla/5.0 (Linux; Android 14; K) Chrome/129.0.0.0 Mobile Safari/537.36",
        )  # fmt: skip
    tab = open_tab(1280, 800)
    status = tab.table.locator("thead [data-column=status]")
    expect(tab.table.locator("thead [data-column=expires]")).to_be_visible()
    expect(status).to_have_count(0)
    widest = tab.table.locator("tbody [data-column=email] span").first.bounding_box()
    assert tab.table.evaluate(BEYOND) <= 0
    dashboard.presence.require_sign_in("u1010", by="sam", reason="odd login")
    tab.page.get_by_role("button", name=texts.REFRESH, exact=True).click()
    expect(status).to_be_visible()
    for width in (1280, 1360, 1361, 1460, 1461):
        tab.page.set_viewport_size({"width": width, "height": 800})
        assert tab.table.evaluate(BEYOND) <= 0, width
    assert widest
    tab.page.set_viewport_size({"width": 1280, "height": 800})
    narrow = tab.table.locator("tbody [data-column=email] span").first.bounding_box()
    assert narrow
    assert narrow["width"] < widest["width"], "without a status the cells are as wide as before"


def test_an_outage_shows_the_last_data_and_the_page_recovers(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 3)
    tab = open_tab()
    banner = tab.page.get_by_text("Sessions cannot be read at the moment.", exact=True)
    dashboard.server.pause()
    expect(banner).to_be_visible()
    refresh = tab.page.get_by_role("button", name=texts.REFRESH)
    expect(refresh).to_have_count(1)
    expect(refresh).to_be_disabled()
    expect(tab.page.get_by_text(texts.AWAY_HINT)).to_be_visible()
    tab.expect_uids("user02", "user01", "user00")
    dashboard.server.resume()
    expect(banner).to_have_count(0)
    expect(refresh).to_have_count(1)
    expect(refresh).to_be_enabled()


def test_only_this_machine_by_its_own_name_is_answered(dashboard: Dashboard) -> None:
    status, headers = dashboard.answer("/")
    assert status == 200
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    status, headers = dashboard.answer("/", Host="rebound.example")
    assert status == 403
    assert headers["x-frame-options"] == "DENY"
