"""Ten people at work at once, each in a browser of their own, while others log in. In `make test` two, in tabs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from presence_core import Presence
from presence_dashboard import texts
from tests.browser.conftest import Dashboard, NewPage
from tests.support.servers import wait_for
from tests.support.soak import size

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2"), pytest.mark.slow, pytest.mark.timeout(300)]

TABS, EACH = size((2, 1), (10, 5))


@contextmanager
def others_log_in(presence: Presence) -> Iterator[None]:
    over = threading.Event()

    def log_in() -> None:
        number = 0
        while not over.wait(0.1):
            presence.login(f"other{number}", name=f"Other {number}")
            number += 1

    thread = threading.Thread(target=log_in)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def people(tab: int) -> list[str]:
    return [f"tab{tab}-person{number}" for number in range(EACH)]


def search(page: Page, text: str) -> None:
    page.get_by_label(texts.SEARCH, exact=True).fill(text)


def kick(page: Page, uid: str) -> None:
    rows = page.get_by_role("table", name=texts.TABLE_LABEL).locator("tbody").get_by_role("row")
    expect(rows).to_have_count(1)
    expect(rows.locator("[data-column=uid]")).to_have_text(uid)
    rows.get_by_role("button", name=texts.KICK).click()


def confirm(page: Page, uid: str) -> None:
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(uid)
    dialog.get_by_role("textbox", name=texts.REASON).fill("Clean-up")
    dialog.get_by_role("button", name=texts.confirm(1)).click()


NOTE_TOASTS = """() => {
  window.toasts = new Set();
  new MutationObserver(() => {
    for (const toast of document.querySelectorAll('[data-testid=stToast]')) window.toasts.add(toast.innerText);
  }).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""
"""A toast stays for some seconds, which on a busy machine are over before the others have acted."""


def toast(page: Page, uid: str) -> str:
    def found() -> list[str]:
        return [text for text in page.evaluate("[...window.toasts]") if f"Name of {uid}" in text]

    wait_for(f"the toast of {uid}", found)
    expect(page.get_by_role("dialog")).to_have_count(0)
    return found()[-1]


def all_at_work(pages: list[Page], url: str) -> list[str]:
    """Each finds their people one after the other and kicks them, all at once: no step waits for the dashboard's reply
    to the step of another. Returns the texts of the toasts."""
    shown: list[str] = []
    for page in pages:
        page.set_default_timeout(60_000)
        page.set_viewport_size({"width": 1000, "height": 640})
        page.goto(url)
        page.evaluate(NOTE_TOASTS)
    for number in range(EACH):
        wanted = [(page, people(tab)[number]) for tab, page in enumerate(pages)]
        for step in (search, kick, confirm):
            for page, uid in wanted:
                step(page, uid)
        shown += [toast(page, uid) for page, uid in wanted]
    for page in pages:
        search(page, "")
    for page in pages:
        for part in ("status", "refresh", "search", "actions", "pager"):
            expect(page.locator(f".st-key-{part}")).to_be_visible()
        expect(page.get_by_role("table", name=texts.TABLE_LABEL)).to_be_visible()
        page.close()
    return shown


def test_kicks_from_many_browsers_end_those_people_and_nothing_vanishes(
    dashboard: Dashboard, context: BrowserContext, new_page: NewPage
) -> None:
    browser = context.browser
    assert browser is not None
    open_page: NewPage = size(new_page, lambda: browser.new_page(reduced_motion="reduce"))
    presence = dashboard.presence
    wanted = [uid for tab in range(TABS) for uid in people(tab)]
    for uid in wanted:
        presence.login(uid, name=f"Name of {uid}")
    with others_log_in(presence):
        shown = all_at_work([open_page() for _ in range(TABS)], dashboard.url)
    assert ["Kicked Name of" in said for said in shown] == [True] * TABS * EACH
    kicks = [entry for entry in presence.audit(limit=200).items if entry.action == "kick"]
    assert sorted(entry.uid or "" for entry in kicks) == sorted(wanted)
    assert {entry.outcome for entry in kicks} == {"1 session ended"}
    assert [uid for uid in wanted if presence.sessions(uid)] == []
    assert presence.counts().totals["kicked"] == TABS * EACH
