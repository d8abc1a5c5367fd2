"""The Sessions page as people meet it: search, the way to a person and back, all that match, the file."""

from __future__ import annotations

import csv

import pytest
from playwright.sync_api import expect

from presence_core import Login
from presence_dashboard import texts
from tests.browser.conftest import Dashboard, Open, live, log_in

pytestmark = pytest.mark.browser


def test_the_list_follows_the_keys_and_a_name_leads_to_the_person_and_back(
    dashboard: Dashboard, open_tab: Open
) -> None:
    log_in(dashboard, 12)
    log_in(dashboard, 12, "other")
    tab = open_tab()
    search = tab.page.get_by_label(texts.SEARCH, exact=True)
    search.press_sequentially("person 07 o")
    tab.expect_uids("other07")
    expect(tab.page).to_have_url(f"{dashboard.url}/?q=person+07+o")
    search.fill("Person 07")
    expect(tab.page.get_by_role("button", name="Kick all 2 that match")).to_be_visible()

    tab.page.get_by_role("button", name=texts.filters_menu(0), exact=True).click()
    tab.page.get_by_test_id("stPopoverBody").get_by_role("button", name="Mac").click()
    expect(tab.page).to_have_url(f"{dashboard.url}/?q=Person+07&device=Mac")

    tab.settle()
    tab.row("user07").get_by_role("button", name="Person 07 user", exact=True).click()
    expect(tab.page).to_have_url(f"{dashboard.url}/person?q=user07")
    expect(tab.page.get_by_text("Person 07 user").first).to_be_visible()
    tab.page.go_back()
    expect(tab.page).to_have_url(f"{dashboard.url}/?q=Person+07&device=Mac")
    expect(search).to_have_value("Person 07")
    expect(tab.page.get_by_role("button", name="Kick all 2 that match")).to_be_visible()
    tab.settle()
    tab.page.go_forward()
    expect(tab.page.get_by_role("heading", name="Person 07 user")).to_be_visible()
    expect(tab.page).to_have_url(f"{dashboard.url}/person?q=user07")


def test_one_step_back_or_forward_finds_the_page_as_it_was_left(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 3)
    tab = open_tab(path="/?q=01&device=Mac")
    box = tab.page.get_by_label(texts.PERSON_SEARCH, exact=True)
    heading = tab.page.get_by_role("heading", name="Person 02 user")
    tab.expect_uids("user01")
    tab.settle()
    tab.page.get_by_role("link", name=texts.PERSON_PAGE, exact=True).click()
    box.fill("user02")
    expect(heading).to_be_visible()
    tab.settle()
    tab.page.get_by_role("link", name=texts.LIVE_PAGE, exact=True).click()
    expect(tab.page).to_have_url(f"{dashboard.url}/live")

    tab.settle()
    tab.page.go_back()
    expect(heading).to_be_visible()
    expect(tab.page).to_have_url(f"{dashboard.url}/person?q=user02")
    tab.settle()
    tab.page.go_back()
    tab.expect_uids("user01")
    expect(tab.page).to_have_url(f"{dashboard.url}/?q=01&device=Mac")
    tab.settle()
    tab.page.go_forward()
    expect(heading).to_be_visible()
    tab.settle()
    box.fill("")
    expect(tab.page.get_by_role("heading", name=texts.PERSON_START_TITLE)).to_be_visible()
    expect(tab.page).to_have_url(f"{dashboard.url}/person")


def test_enter_opens_a_single_match_and_nothing_else(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 3)
    dashboard.tokens += [
        dashboard.presence.login("u1019", name="Søren O'Neill", aliases=["so@example.com"], device=device).token
        for device in ("Mac", "iPhone")
    ]
    tab = open_tab()
    search = tab.page.get_by_label(texts.SEARCH, exact=True)
    search.fill("person")
    search.press("Enter")
    tab.expect_first("user02")
    tab.settle()
    expect(tab.page).to_have_url(f"{dashboard.url}/?q=person")
    search.fill("oneill, soren")
    search.press("Enter")  # before the list has followed
    expect(tab.page).to_have_url(f"{dashboard.url}/person?q=u1019")
    expect(tab.page.get_by_text("Søren O'Neill").first).to_be_visible()


def test_all_that_match_are_kicked_once_their_number_is_typed(dashboard: Dashboard, open_tab: Open) -> None:
    users, others = log_in(dashboard, 30), log_in(dashboard, 3, "other")
    tab = open_tab()
    tab.page.get_by_label(texts.SEARCH, exact=True).fill("user")
    tab.page.get_by_role("button", name="Kick all 30 that match").click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("30 sessions of 30 people")
    late = log_in(dashboard, 2, "user-late")
    dialog.get_by_role("textbox", name=texts.REASON).fill("Clean-up")
    dialog.get_by_role("button", name=texts.confirm(30)).click()
    expect(dialog).to_contain_text(texts.bulk_mistyped("30"))
    dialog.get_by_role("textbox", name=texts.bulk_type("30")).fill("30")
    dialog.get_by_role("button", name=texts.confirm(30)).click()
    expect(tab.page.get_by_text(texts.bulk_job_result("done", "30", "30"))).to_be_visible()
    expect(dialog).to_have_count(0)
    assert live(dashboard, users) == []
    assert len(live(dashboard, [*others, *late])) == 5
    tab.expect_first("user-late01")


def test_a_name_with_a_mistake_offers_the_right_one(dashboard: Dashboard, open_tab: Open) -> None:
    log_in(dashboard, 2)
    presence = dashboard.presence
    rows = [{"uid": "u1", "name": "John Smith", "device": "iPhone"} for _ in range(3)]
    dashboard.tokens += [login.token for login in presence.login_many(rows) if isinstance(login, Login)]
    tab = open_tab()
    search = tab.page.get_by_label(texts.SEARCH, exact=True)
    search.fill("Jonh Smtih")
    tab.page.locator(".st-key-search-hints").get_by_role("button", name="John Smith").click()
    tab.expect_uids("u1", "u1", "u1")
    expect(search).to_have_value("John Smith")


def test_the_file_is_saved_with_no_formula_and_no_token_in_it(dashboard: Dashboard, open_tab: Open) -> None:
    logins = log_in(dashboard, 2)
    logins.append(dashboard.presence.login("mallory", name="=1+1"))
    dashboard.tokens.append(logins[-1].token)
    tab = open_tab()
    tab.page.get_by_role("button", name=texts.EXPORT_LIST, exact=True).click()
    with tab.page.expect_download() as saving:
        tab.page.get_by_role("button", name=texts.EXPORT_SAVE).click()
    content = saving.value.path().read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(content.splitlines()))
    assert sorted((row["uid"], row["name"]) for row in rows) == [
        ("mallory", "'=1+1"),
        ("user00", "Person 00 user"),
        ("user01", "Person 01 user"),
    ]
    assert not [login for login in logins if login.token.rpartition(".")[2] in content]
    assert dashboard.presence.audit().items[0].outcome == "3 sessions exported"
