"""Ten people at work at once, each in a browser of their own, while others log in."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from presence_core import Presence
from presence_dashboard import texts
from tests.browser.conftest import ARGS, Dashboard
from tests.support.servers import missing
from tests.support.soak import size

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2"), pytest.mark.slow, pytest.mark.timeout(300)]

TABS, EACH = size((2, 2), (10, 5))
PATIENCE = 60_000  # ms: ten browsers share what cores there are


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


async def work(browser: Browser, url: str, tab: int) -> list[str]:
    """Find five people one after the other and kick them; answers what the toasts said."""
    context = await browser.new_context(viewport={"width": 1000, "height": 640}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    await page.goto(url)
    shown = [await kick(page, uid) for uid in people(tab)]
    await page.get_by_label(texts.SEARCH, exact=True).fill("")
    for part in ("status", "refresh", "search", "actions", "pager"):
        await expect(page.locator(f".st-key-{part}")).to_be_visible()
    await expect(page.get_by_role("table", name=texts.TABLE_LABEL)).to_be_visible()
    await context.close()
    return shown


async def kick(page: Page, uid: str) -> str:
    await page.get_by_label(texts.SEARCH, exact=True).fill(uid)
    rows = page.get_by_role("table", name=texts.TABLE_LABEL).locator("tbody").get_by_role("row")
    await expect(rows).to_have_count(1)
    await expect(rows.locator("[data-column=uid]")).to_have_text(uid)
    await rows.get_by_role("button", name=texts.KICK).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text(uid)
    await dialog.get_by_role("textbox", name=texts.REASON).fill("Clean-up")
    await dialog.get_by_role("button", name=texts.confirm(1)).click()
    toast = page.get_by_test_id("stToast").filter(has_text=f"Name of {uid}")
    await expect(toast).to_be_visible()
    await expect(dialog).to_have_count(0)
    return await toast.inner_text()


async def all_at_work(url: str) -> list[list[str]]:
    found = shutil.which("chromium") or shutil.which("google-chrome") or missing("Chromium on PATH")
    async with async_playwright() as playwright:
        expect.set_options(timeout=PATIENCE)
        browser = await playwright.chromium.launch(executable_path=found, args=ARGS)
        try:
            return await asyncio.gather(*(work(browser, url, tab) for tab in range(TABS)))
        finally:
            await browser.close()


def apart(work: Coroutine[Any, Any, list[list[str]]]) -> list[list[str]]:
    """In a thread of its own: in this one the browser of the other tests has its event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def test_kicks_from_many_browsers_end_those_people_and_nothing_vanishes(dashboard: Dashboard) -> None:
    presence = dashboard.presence
    wanted = [uid for tab in range(TABS) for uid in people(tab)]
    for uid in wanted:
        presence.login(uid, name=f"Name of {uid}")
    with others_log_in(presence):
        shown = apart(all_at_work(dashboard.url))
    assert ["Kicked Name of" in said for tab in shown for said in tab] == [True] * TABS * EACH
    kicks = [entry for entry in presence.audit(limit=200).items if entry.action == "kick"]
    assert sorted(entry.uid or "" for entry in kicks) == sorted(wanted)
    assert {entry.outcome for entry in kicks} == {"1 session ended"}
    assert [uid for uid in wanted if presence.sessions(uid)] == []
    assert presence.counts().totals["kicked"] == TABS * EACH
