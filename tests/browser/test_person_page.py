"""The Person page as people meet it: opened by a link, and from History."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from presence_core import Session
from presence_dashboard import texts
from tests.browser.conftest import TICK_BOX, Dashboard, Open, Tab, log_in

pytestmark = pytest.mark.browser

NAME = "<script>alert(1)</script> **b** $x$ :red[z] \u202enimda"


def sign_in(dashboard: Dashboard, device: str) -> Session:
    login = dashboard.presence.login("mallory", name=NAME, aliases=["mallory@example.com"], device=device)
    dashboard.tokens.append(login.token)
    return login.session


def follow(tab: Tab, dashboard: Dashboard, path: str) -> None:
    """As a link in a ticket does. Streamlit looks for itself below such an address first, and the browser notes that
    it is not there."""
    tab.page.goto(dashboard.url + path)
    tab.page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
    tab.settle()
    tab.complaints[:] = [said for said in tab.complaints if "404" not in said]


def test_a_ticket_link_opens_the_person_and_a_card_kicks_its_own_session(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 1)
    phone, laptop = sign_in(dashboard, "Phone"), sign_in(dashboard, "Laptop")
    tab = open_tab(width=320, height=900)
    follow(tab, dashboard, "/person?q=mallory@example.com")
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
    assert [one.ref for one in dashboard.presence.sessions("mallory")] == [laptop.ref]
    expect(tab.page.locator(".st-key-timeline")).to_contain_text("Kicked by local operator: Phone")


def test_typing_finds_somebody_and_keys_alone_kick_all_of_theirs(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 2)
    tab = open_tab()
    tab.page.get_by_role("link", name=texts.PERSON_PAGE).click()
    tab.settle()
    tab.page.get_by_role("searchbox").focus()
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


def test_history_leads_to_the_person_and_back(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 2)
    for uid in ("user00", "user01"):
        dashboard.presence.kick(uid, by="alex", reason="Shared account")
    log_in(dashboard, 1, "late")
    tab = open_tab()
    tab.page.get_by_role("link", name=texts.PERSON_PAGE).click()
    expect(tab.page.get_by_text(texts.PERSON_START_TITLE)).to_be_visible()
    tab.page.get_by_role("link", name=texts.HISTORY_PAGE).click()
    expect(tab.page.locator("[data-testid=stDataFrame] canvas").first).to_be_visible()
    tab.settle()
    tab.click(TICK_BOX, 1)
    expect(tab.page.locator(".st-key-details")).to_contain_text("user00")
    tab.page.get_by_role("link", name=texts.HISTORY_OPEN_PERSON).click()
    expect(tab.page.get_by_role("heading", name="Person 00 user")).to_be_visible()
    expect(tab.page.locator(".st-key-timeline")).to_contain_text("Shared account")
    tab.page.get_by_role("link", name=texts.PERSON_HISTORY).click()
    expect(tab.page.get_by_label(texts.HISTORY_PERSON, exact=True)).to_have_value("user00")
    expect(tab.page.get_by_role("radio", name=texts.HISTORY_VIEWS["staff"])).to_be_checked()
