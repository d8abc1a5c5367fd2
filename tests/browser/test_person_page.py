"""The Person page as people meet it: opened by a link, and from History."""

from __future__ import annotations

import re
import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import BrowserContext, Locator, expect

from presence_core import Presence, Session, Settings
from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, Tab, live, log_in
from tests.support.fair_clock import PATIENT
from tests.support.place_file import LYON, city, write_place_file

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]

NAME = "<script>alert(1)</script> **b** $x$ :red[z] \u202enimda"


def sign_in(dashboard: Dashboard, device: str) -> Session:
    login = dashboard.presence.login("mallory", name=NAME, aliases=["mallory@example.com"], device=device)
    dashboard.tokens.append(login.token)
    return login.session


def follow(open_tab: Open, path: str, width: int = 1400, height: int = 960) -> Tab:
    """As a link in a ticket does. Streamlit looks for itself below such an address first, and the browser notes that
    it is not there."""
    tab = open_tab(width, height, path=path)
    tab.page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
    tab.settle()
    expect(tab.page.get_by_test_id("stSkeleton")).to_have_count(0)  # in place of an element whose code is being loaded
    tab.complaints[:] = [said for said in tab.complaints if "404" not in said]
    return tab


def in_menu(tab: Tab, card: Locator, name: str) -> Locator:
    """An action in the menu of a card."""
    card.get_by_role("button", name=texts.MORE_ACTIONS).click()
    return tab.page.get_by_test_id("stPopoverBody").get_by_role("button", name=name)


def see_two_ticks(tab: Tab) -> None:
    """Wait until the watch list has surely been read after what was done before."""
    counted = tab.page.locator(".presence-connection")
    for _ in range(2):
        expect(counted).not_to_have_text(counted.text_content() or "")


def test_a_ticket_link_opens_the_person_and_a_card_kicks_its_own_session(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 1)
    phone, laptop = sign_in(dashboard, "Phone"), sign_in(dashboard, "Laptop")
    tab = follow(open_tab, "/person?q=mallory@example.com", width=320, height=900)
    expect(
        tab.page.get_by_role("heading", name="<script>alert(1)</script> **b** $x$ :red[z] ‹U+202E›nimda")
    ).to_be_visible()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 320
    card = tab.page.locator(f".st-key-card-{phone.session_id}")
    expect(card.locator("time").first).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$"))

    card.get_by_role("button", name=texts.PERSON_KICK_THIS).click()
    expect(tab.page.get_by_role("dialog")).to_contain_text("Phone")
    tab.confirm("Lost device", "Please sign in again.")
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("(Phone)")
    expect(card).to_have_count(0)
    assert [session.ref for session in dashboard.presence.sessions("mallory")] == [laptop.ref]
    expect(tab.page.locator(".st-key-timeline")).to_contain_text("Kicked by local operator: Phone")


def test_typing_finds_a_person_keys_alone_kick_all_their_sessions_and_history_leads_to_people_and_back(
    dashboard: Dashboard, open_tab: Open
) -> None:
    log_in(dashboard, 2)
    tab = open_tab()
    dashboard.presence.kick("user00", by="alex", reason="Lost device")
    tab.page.get_by_role("link", name=texts.PERSON_PAGE).click()
    tab.settle()
    # The Sessions page has a search box too, and may still be shown.
    tab.page.get_by_role("searchbox", name=texts.PERSON_SEARCH).focus()
    tab.page.keyboard.type("person 01")
    expect(tab.page.get_by_text(texts.person_hits(1, True))).to_be_visible()
    tab.page.locator(".st-key-hits").get_by_role("button", name=texts.PERSON_OPEN).press("Enter")
    expect(tab.page.get_by_role("heading", name="Person 01 user")).to_be_visible()
    expect(tab.page).to_have_url(re.compile(r"[?&]q=user01"))
    expect(tab.page.get_by_role("button", name=texts.person_kick_all(1, "1"))).to_be_enabled()
    tab.press("k")
    expect(tab.page.get_by_role("dialog")).to_contain_text("user01")
    tab.confirm("Shared account")
    expect(tab.page.get_by_text(texts.PERSON_NO_SESSION)).to_be_visible()
    assert dashboard.presence.sessions("user01") == []

    tab.page.get_by_role("link", name=texts.HISTORY_PAGE, exact=True).click()
    table = tab.page.get_by_role("table", name=texts.HISTORY_ALT["ended"])
    table.get_by_role("row").filter(has_text="user00").get_by_text("Kicked").click()
    details = tab.page.locator(".st-key-details")
    expect(details).to_contain_text("user00")
    boxes = [part.bounding_box() for part in (table, details)]
    assert boxes[0]
    assert boxes[1]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"], "next to the list"
    expect(table.locator("tr[aria-current]")).to_contain_text("user00")
    details.get_by_role("button", name=texts.CLOSE_DETAILS).click()
    expect(details).to_have_count(0)
    tab.page.set_viewport_size({"width": 390, "height": 700})
    row = table.locator("tbody tr").filter(has_text="user00")
    row.focus()
    row.press("Enter")
    expect(details).to_contain_text("user00")
    expect(details).to_be_in_viewport()
    tab.page.set_viewport_size({"width": 1400, "height": 960})
    tab.page.get_by_role("link", name=texts.HISTORY_OPEN_PERSON).click()
    expect(tab.page.get_by_role("heading", name="Person 00 user")).to_be_visible()
    expect(tab.page.locator(".st-key-timeline")).to_contain_text("Lost device")
    tab.page.get_by_role("link", name=texts.PERSON_HISTORY).click()
    expect(tab.page.get_by_label(texts.LABEL_PERSON, exact=True)).to_have_value("user00")
    expect(tab.page.get_by_role("radio", name=texts.HISTORY_VIEWS["staff"])).to_be_checked()


@pytest.mark.soak
def test_a_followed_card_keeps_its_place_and_a_watched_person_is_heard_on_another_page(
    dashboard: Dashboard, open_tab: Open, context: BrowserContext
) -> None:
    log_in(dashboard, 1)
    phone, laptop = sign_in(dashboard, "Phone"), sign_in(dashboard, "Laptop")
    tab = follow(open_tab, "/person?q=mallory")
    place = tab.page.locator(f".st-key-card-{laptop.session_id}").bounding_box()
    dashboard.presence.kick("mallory", phone.session_id, by="sam", reason="test")
    ended = tab.page.locator(f".st-key-card-{phone.session_id}")
    expect(ended.get_by_text("Kicked by sam: Phone")).to_be_visible()
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("Kick by sam")
    assert tab.page.locator(f".st-key-card-{laptop.session_id}").bounding_box() == place

    tab.page.get_by_role("button", name=texts.WATCH).last.click()
    expect(tab.page.get_by_role("button", name=texts.WATCH_STOP)).to_be_visible()
    tab.page.get_by_role("button", name=texts.WATCH_MENU, exact=True).click()
    tab.page.get_by_text(texts.WATCH_SOUND, exact=True).click()
    expect(tab.page.locator(".presence-arrivals")).to_have_attribute("data-sound", "1")
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("link", name=texts.LIVE_PAGE).click()
    tab.settle()
    dashboard.presence.kick("mallory", by="sam", reason="test")
    expect(tab.page.locator(".st-key-feed").get_by_text("kicked by sam").first).to_be_visible()
    expect(tab.page.locator(".presence-arrivals")).to_have_attribute("data-count", "0")
    expect(tab.page.get_by_test_id("stMetricValue").first).to_have_text("1")
    see_two_ticks(tab)
    sign_in(dashboard, "Tablet")
    expect(tab.page.get_by_test_id("stToast").filter(has_text="has come online")).to_be_visible()
    expect(tab.page.locator("html")).to_have_attribute("data-sounds", "1")
    context.clear_cookies()


@pytest.mark.soak
def test_the_toast_of_a_watched_person_stays_on_their_own_page(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 1)
    # Not Mallory: the dashboard may still have the watch list of the test before.
    phone = dashboard.presence.login("walter", device="Phone").session
    tab = follow(open_tab, "/person?q=walter")
    watch = tab.page.locator(".st-key-watch").get_by_role("button")
    watch.click()
    expect(watch).to_have_text(re.compile(texts.WATCH_STOP))
    dashboard.presence.kick("walter", by="sam", reason="test")
    expect(tab.page.locator(f".st-key-card-{phone.session_id}")).to_contain_text("Kicked by sam")
    see_two_ticks(tab)
    tablet = dashboard.presence.login("walter", device="Tablet").session
    card = tab.page.locator(f".st-key-card-{tablet.session_id}")
    expect(card).to_be_visible()  # Follow has drawn the page again
    arrival = tab.page.get_by_test_id("stToast").filter(has_text="has come online")
    expect(tab.page.locator(".presence-arrivals")).to_have_attribute("data-count", "1")
    tab.settle()
    expect(arrival).to_have_count(1)
    card.get_by_role("button", name=texts.PERSON_KICK_THIS).click()
    tab.confirm("Lost device")
    expect(tab.page.get_by_test_id("stToast").filter(has_text="(Tablet)")).to_be_visible()
    expect(arrival).to_have_count(1)


def test_a_card_shows_what_is_special_and_staff_require_a_new_sign_in_until_the_visitor_has_done_so(
    dashboard: Dashboard, open_tab: Open, tmp_path: Path
) -> None:
    """A new device, a place as text that is far from the last one, and a session that staff use."""
    log_in(dashboard, 1)
    hostile = city("JP", "<b>東京</b> **x** $y$", (35, 139), 64510, "[Net](http://x.example)")
    networks = {"192.0.2.0/24": LYON, "203.0.113.0/24": hostile}
    places = str(write_place_file(tmp_path / "places.mmdb", networks))
    with Presence.from_url(dashboard.server.url, Settings(place_file=places, timeout=PATIENT)) as presence:
        phone = presence.login("ada", name="Ada", device="Phone", device_id="device-Phone", ip="192.0.2.7")
        time.sleep(0.01)  # the time zone is that of the latest activity
        laptop = presence.login("ada", name="Ada", device="Laptop", device_id="device-Laptop", ip="203.0.113.7")
    dashboard.tokens += [phone.token, laptop.token]
    staff = dashboard.presence.login("ada", device="Desktop", on_behalf_by="sam *x*", reason="ticket 7").session
    tab = follow(open_tab, "/person?q=ada", width=390, height=900)
    far = tab.page.locator(f".st-key-card-{laptop.session.session_id}")
    for words in (
        "Laptop", texts.FLAG_NEW_DEVICE, texts.FLAG_DISTANT, "<b>東京</b> **x** $y$, JP", "[Net](http:/", "Lyon, FR, ",
        "Asia/Tokyo (UTC+9)",
    ):  # fmt: skip
        expect(far).to_contain_text(words)
    at = laptop.session.login_at.astimezone(ZoneInfo("Asia/Tokyo"))
    login = far.locator("small").first
    expect(login).to_contain_text(f"{at:%H:%M} there")
    expect(tab.page.locator(".st-key-changes")).to_contain_text("Asia/Tokyo (UTC+9), now ")
    assert not far.locator("b, a[href], .katex").count()
    cards = tab.page.locator(".st-key-cards")
    expect(cards.get_by_text(texts.FLAG_DISTANT)).to_have_count(1)
    expect(cards.get_by_text(texts.FLAG_NEW_DEVICE)).to_have_count(1)
    of_staff = tab.page.locator(f".st-key-card-{staff.session_id}")
    expect(of_staff).to_contain_text(texts.FLAG_ON_BEHALF)
    expect(of_staff).to_contain_text("sam *x*")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390

    card = tab.page.locator(f".st-key-card-{phone.session.session_id}")
    button = in_menu(tab, card, texts.require_sign_in(1))
    button.click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text(texts.SIGN_IN_EXPLAINED)
    dialog.get_by_role("textbox", name=texts.REASON).fill("Odd login")
    dialog.get_by_role("button", name=texts.require_sign_in(1)).click()
    expect(card).to_contain_text(f"{texts.FLAG_SIGN_IN} (by local operator, ")
    expect(button).to_have_count(0)
    assert live(dashboard, [phone, laptop]) == ["ada"]
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390

    dashboard.tokens.append(dashboard.presence.reauthenticated(phone.token, methods=["pwd"]).token)
    expect(card).not_to_contain_text(texts.FLAG_SIGN_IN)
    expect(in_menu(tab, card, texts.require_sign_in(1))).to_be_visible()


def test_a_card_changes_the_timeouts_of_its_session(dashboard: Dashboard, open_tab: Open) -> None:
    phone, laptop = sign_in(dashboard, "Phone"), sign_in(dashboard, "Laptop")
    tab = follow(open_tab, "/person?q=mallory", width=1400, height=900)
    card = tab.page.locator(f".st-key-card-{phone.session_id}")
    in_menu(tab, card, texts.CHANGE_TIMEOUTS).click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text(texts.TIMEOUTS_EXPLAINED)
    dialog.get_by_role("combobox", name=texts.TIMEOUT_IDLE).click()
    tab.page.get_by_role("option", name="5 min", exact=True).click()
    cell = dialog.locator(f'td[data-label="{texts.TIMEOUTS_NEW_END}"]')
    expect(cell).not_to_have_text(dialog.locator(f'td[data-label="{texts.LABEL_EXPIRES}"]').text_content() or "")
    dialog.get_by_role("textbox", name=texts.REASON).fill("Shared device")
    dialog.get_by_role("button", name=texts.CHANGE_TIMEOUTS).click()
    expect(tab.page.get_by_test_id("stToast")).to_contain_text("(Phone)")
    idle = {session.session_id: session.idle_timeout for session in dashboard.presence.sessions("mallory")}
    assert idle == {phone.session_id: 300, laptop.session_id: 1800}
