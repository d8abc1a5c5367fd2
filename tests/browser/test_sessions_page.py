"""The Sessions page as people meet it."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FloatRect, expect

from presence_core import Presence, Settings
from presence_core.mirror.loop import Mirror
from presence_core.mirror.stores import BY_NAME
from presence_core.transport.site_store import SiteStore
from presence_dashboard import texts
from presence_dashboard.components import record_table
from presence_dashboard.demo import own_store, people
from tests.browser.conftest import Dashboard, NewPage, Open, live, log_in
from tests.support.fair_clock import PATIENT
from tests.support.place_file import PLACES, city, write_place_file
from tests.support.servers import wait_for

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


def test_a_kick_of_a_mirrored_session_ends_it_at_the_site(dashboard: Dashboard, open_tab: Open) -> None:
    dashboard.server.command("CONFIG", "SET", "notify-keyspace-events", "KA")
    site = own_store.OwnStore(dashboard.server.url)
    ada = site.begin(people.GUESTS[0])
    there = SiteStore(dashboard.server.url, PATIENT)
    mirror = Mirror(dashboard.presence, there, BY_NAME["express"], bytes(32))
    mirror.start()
    thread = threading.Thread(target=mirror.run)
    thread.start()
    try:
        wait_for("the session is mirrored", lambda: dashboard.presence.counts().sessions == 1)
        assert site.user(ada) == people.GUESTS[0].name
        tab = open_tab()
        tab.expect_uids(people.GUESTS[0].uid)
        tab.shows = people.GUESTS[0].uid.encode()
        notice = tab.page.get_by_text("A kick also ends the session at the site, usually within a second.")

        def is_shown() -> bool:
            """For some seconds the dashboard may know of no mirror: tests before this one had none."""
            tab.page.reload()
            tab.page.wait_for_selector("table tbody tr")
            return notice.is_visible()

        wait_for("the notice", is_shown)
        tab.kick(people.GUESTS[0].uid)
        tab.confirm("Shared account")
        wait_for("the next request is refused", lambda: site.user(ada) == "")
    finally:
        mirror.stop()
        thread.join()
        there.close()
        site.close()
        dashboard.server.command("CONFIG", "SET", "notify-keyspace-events", "")


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


def test_the_head_of_last_active_sorts_the_whole_list_by_mouse_and_keyboard(
    dashboard: Dashboard, open_tab: Open
) -> None:
    now = time.time()
    rows: list[dict[str, Any]] = [
        {"uid": f"user{n:02}", "name": f"Person 00 of {n}", "login_at": now - 600 + n, "last_seen": now - 600 + n}
        for n in range(60)
    ]
    rows[2]["last_seen"] = now - 5  # on the second page by login
    dashboard.presence.login_many(rows, imported=True)
    tab = open_tab()
    tab.expect_first("user59")
    login, seen = (
        tab.table.get_by_role("columnheader", name=label) for label in (texts.LABEL_LOGIN, texts.LABEL_LAST_ACTIVE)
    )
    button = seen.get_by_role("button", name=f"Sort the whole list by {texts.LABEL_LAST_ACTIVE}")
    button.click()
    tab.expect_first("user02")
    expect(seen).to_have_attribute("aria-sort", "descending")
    assert login.get_attribute("aria-sort") is None
    assert "sort=last_seen" in tab.page.url
    tab.press("o")
    tab.expect_first("user10")
    tab.page.reload()
    tab.expect_first("user02")
    login.get_by_role("button").press("Enter")
    tab.expect_first("user59")
    assert "sort=" not in tab.page.url


def test_enter_in_the_ticket_kicks_no_one_a_phrase_keeps_the_typed_text_and_after_it_a_key_confirms(
    dashboard: Dashboard, open_tab: Open
) -> None:
    """In a low window. The button is in view, wherever the reader is."""
    lost, shared = texts.PHRASES["Lost device"], texts.PHRASES["Shared account"]
    logins = log_in(dashboard, 3)
    tab = open_tab(1366, 650)
    tab.kick("user02")
    dialog = tab.page.get_by_role("dialog")
    reason = dialog.get_by_role("textbox", name=texts.REASON)
    reason.press_sequentially("Chargeback 4711")
    dialog.get_by_text("Lost device", exact=True).click()
    message = dialog.get_by_role("textbox", name=texts.MESSAGE)
    expect(message).to_have_value(lost[1])
    expect(reason).to_have_value(f"Chargeback 4711 {lost[0]}")

    confirm = dialog.get_by_role("button", name=texts.confirm(1))
    for width, height in ((1366, 650), (360, 640)):
        tab.page.set_viewport_size({"width": width, "height": height})
        for field in (dialog.get_by_role("heading"), message):
            field.scroll_into_view_if_needed()
            expect(confirm).to_be_in_viewport(ratio=1)
            expect(field).to_be_in_viewport(ratio=0.9)
    tab.page.set_viewport_size({"width": 1366, "height": 650})

    ticket = dialog.get_by_role("textbox", name=texts.TICKET)
    ticket.press_sequentially("FR-1")
    ticket.press("Enter")
    tab.settle()
    expect(dialog).to_be_visible()
    assert len(live(dashboard, logins)) == 3
    dialog.get_by_text("Shared account", exact=True).click()
    expect(message).to_have_value(re.compile(re.escape(shared[1])))
    tab.press("Control+Enter")
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Kicked")
    assert live(dashboard, logins) == ["user00", "user01"]
    [entry] = dashboard.presence.audit(uid="user02").items
    assert (entry.reason, entry.ticket) == (f"Chargeback 4711 {lost[0]} {shared[0]}", "FR-1")


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
    foot = tab.page.locator('[data-testid="stLayoutWrapper"]:has(> .st-key-dialog-foot)')
    expect(foot).to_have_css("background-color", "rgb(18, 23, 29)")
    tab.page.set_viewport_size({"width": 1920, "height": 1080})
    expect(tab.page.get_by_role("dialog")).to_contain_text("user21")
    assert beyond() <= 0


LONG_CITY = city("GB", "Llanfairpwllgwyngyll", (53.2, -4.2))


def test_ticks_move_no_row_and_a_click_on_a_row_shows_its_actions_next_to_the_list(
    dashboard: Dashboard, open_tab: Open
) -> None:
    """The action of a row is quiet where the reader is not, and red and outlined where the reader is."""
    dashboard.presence.login("long", name="Maximiliane of the Long Names " * 2, device="Mac")
    log_in(dashboard, 3)
    tab = open_tab(1366, 800)
    before = tab.table.bounding_box()
    tab.tick("Maximiliane")
    expect(tab.page.get_by_role("button", name=texts.SELECT_NONE)).to_be_visible()
    assert tab.table.bounding_box() == before

    acts = [tab.row(f"user0{n}").get_by_role("button", name=texts.KICK) for n in (0, 1)]
    tab.row("user00").hover()
    looks = [act.evaluate("act => getComputedStyle(act).borderColor + getComputedStyle(act).color") for act in acts]
    assert looks[0] != looks[1]
    tab.row("user01").locator("[data-column=device]").click()
    details = tab.page.locator(".st-key-details")
    expect(details).to_contain_text("Mac")
    place, table = details.bounding_box(), tab.page.locator(".record-table").bounding_box()
    assert place
    assert table
    assert table["x"] + table["width"] <= place["x"]
    expect(tab.ticked()).to_have_count(1)
    details.get_by_role("button", name=texts.PERSON_KICK_THIS).click()
    expect(tab.page.get_by_role("dialog")).to_contain_text("user01")


def test_a_long_cell_in_every_column_leaves_the_times_and_the_badges_on_the_screen_of_a_laptop(
    dashboard: Dashboard, open_tab: Open, tmp_path: Path
) -> None:
    """A column is as wide as its texts. Where the window is too narrow for all, the widest give way."""
    for number in range(3):
        dashboard.presence.login(f"u{number}", name="Li", aliases=[f"u{number}@x.example"], device="Mac", app="web")
    tab = open_tab(1366, 800)
    tab.shows = b"Maximiliane"
    cells = [tab.table.locator(f"thead [data-column={name}]") for name in ("name", "uid", "email", "device", "app")]

    def widths() -> list[float]:
        boxes = [cell.bounding_box() for cell in cells]
        return [box["width"] for box in boxes if box]

    short = widths()
    assert tab.table.evaluate(BEYOND) <= 0
    assert max(short) > 1.5 * min(short), "each follows its own texts"
    places = write_place_file(tmp_path / "places.mmdb", {**PLACES, "192.0.2.0/24": LONG_CITY})
    with Presence.from_url(dashboard.server.url, Settings(timeout=PATIENT, place_file=str(places))) as presence:
        for number, ip in enumerate(("192.0.2.1", "2001:db8:ed9d:8f56:bc90:be19:bad3:ee2f")):
            presence.login(
                "u-" + "0123456789" * 6, name="Maximiliane " * 8, ip=ip, app="web", device_id=f"device-{number}",
                aliases=["long-address@" + "sub." * 12 + "example.com"],
                device="The laptop in the room next to the kitchen",
                user_agent="Mozilla/5.0 (Linux; Android 14; K) Chrome/129.0.0.0 Mobile Safari/537.36",
            )  # fmt: skip
    dashboard.presence.require_sign_in("u1", by="sam", reason="odd login")
    tab.page.get_by_role("button", name=texts.REFRESH, exact=True).click()
    expect(tab.table.locator("thead [data-column=status]")).to_be_visible()
    newest = tab.row("Maximiliane").first
    badges = newest.locator("mark")
    expect(badges).to_have_text([texts.FLAG_NEW_DEVICE, texts.FLAG_DISTANT_SHORT])
    expect(badges.last).to_have_attribute("title", texts.FLAG_DISTANT)
    expect(newest.locator("[data-column=ip]")).to_contain_text("Tokyo, JP")
    for width in (1920, 1366, 1280):
        tab.page.set_viewport_size({"width": width, "height": 800})
        wait_for("the table to fit", lambda: tab.table.evaluate(BEYOND) <= 0)
        *_, app = widths()
        assert app < min(widths()[:4]), "a column with short texts is not made as wide as the others"
        [cell, badge] = [part.bounding_box() for part in (newest.locator("[data-column=name]"), badges.last)]
        assert cell
        assert badge
        assert badge["x"] + badge["width"] <= cell["x"] + cell["width"], "a long name gives way"
    name = newest.locator("[data-column=name] button")
    expect(name).to_have_attribute("title", "Maximiliane " * 8)


RECORD = """() => {
  window.places = new Set();
  setInterval(() => {
    const parts = [...document.querySelectorAll(".st-key-menu-filters, .st-key-actions, .st-key-table, .st-key-pager")];
    const place = (part) => `${part.className.match(/st-key-\\S+/)} ${part.getBoundingClientRect().top}`;
    places.add(parts.map(place).join());
  }, 50);
}"""
"""Remembers where the parts of the page are. A part that is there twice is another place."""


def test_an_outage_moves_nothing_and_shows_the_last_data_and_the_page_recovers(
    dashboard: Dashboard, open_tab: Open
) -> None:
    log_in(dashboard, 3)
    tab = open_tab(1366, 700)
    banner = tab.page.locator('.st-key-outage [data-testid="stAlert"]')
    tab.settle()
    tab.page.evaluate(RECORD)
    dashboard.server.pause()
    sooner = tab.page.locator("#sessions-away")  # may be gone as soon as it has been seen
    words = ""

    def says_so() -> bool:
        nonlocal words
        words = tab.page.evaluate("document.getElementById('sessions-away')?.innerText ?? ''")
        return texts.ERROR_AWAY in words

    wait_for("the notice of the script", says_so)
    expect(banner).to_be_visible()
    assert banner.inner_text().split() == words.split(), "page.js and the page say the same"
    expect(sooner).to_have_count(0)

    def expect_refresh(*, is_off: bool) -> None:
        expect(tab.page.get_by_role("button", name=texts.REFRESH, disabled=is_off)).to_have_count(1)
        expect(tab.page.get_by_role("button", name=texts.REFRESH, disabled=not is_off)).to_have_count(0)

    expect_refresh(is_off=True)
    expect(tab.page.get_by_text(texts.AWAY_HINT)).to_be_visible()
    tab.expect_uids("user02", "user01", "user00")
    dashboard.server.resume()
    expect(banner).to_have_count(0)
    expect_refresh(is_off=False)
    places = tab.page.evaluate("[...places]")
    assert len(places) == 1, places


def test_only_this_machine_by_its_own_name_is_answered(dashboard: Dashboard) -> None:
    status, headers = dashboard.answer("/")
    assert status == 200
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    status, headers = dashboard.answer("/", Host="rebound.example")
    assert status == 403
    assert headers["x-frame-options"] == "DENY"


def test_a_login_at_a_time_that_a_clock_shows_twice_has_its_offset(new_page: NewPage) -> None:
    """The script of the table alone: no session of a test begins at the end of a summer time."""
    source = Path(record_table.__file__).parents[1] / "browser_files" / "record_table" / "record_table.js"
    logins = [datetime(2026, 10, 25, hour, 30, tzinfo=UTC).timestamp() * 1000 for hour in (0, 1, 2)]
    data = {
        "list": "", "now": logins[2] + 86_400_000, "zone": "Europe/Berlin", "every": 0, "caption": "", "order": None,
        "selected": 0, "sequence": 0, "canKick": False, "canAct": False, "words": texts.TABLE_WORDS,
        "columns": [{"name": "login", "label": "Login", "kind": "time", "help": None}],
        "rows": [
            {"ref": str(at), "label": "", "cells": [at], "ended": "", "ticked": False} for at in logins
        ],
    }  # fmt: skip
    page = new_page()
    script = source.read_text("utf-8").replace("export default function", "globalThis.draw = function", 1)
    page.evaluate(f"(() => {{ {script} }})()")
    shown = page.evaluate(
        """data => {
          document.body.innerHTML = '<div class="record-table"></div>';
          draw({parentElement: document.body, data})();
          return [...document.querySelectorAll("tbody [data-column]")].map(cell => cell.textContent);
        }""",
        data,
    )
    page.close()
    assert shown == ["25 Oct, 02:30 +02:00", "25 Oct, 02:30 +01:00", "25 Oct, 03:30"]
