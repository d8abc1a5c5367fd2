"""The pictures of the support handbook, one for each job: ``python docs/make_pictures.py handbook``."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Browser, Page

from presence_core import Login, Presence

FOLDER: Final = Path(__file__).resolve().parent / "use" / "handbook"
SIZE: Final = {"width": 1180, "height": 760}


def take_all(browser: Browser, url: str, presence: Presence, logins: list[Login]) -> None:
    """Take every picture. People are blocked and kicked for some of them."""
    several = [login.session for login in logins if len(presence.sessions(login.session.uid)) > 1]
    stolen, blocked, asked = several[1], several[2], several[3]
    presence.kick(stolen.uid, stolen.session_id, by="dana", reason="Shared account", ticket="T-1093")
    presence.block(blocked.uid, by="dana", reason="Account takeover", ticket="T-1094", duration=3_600)
    presence.kick(blocked.uid, by="dana", reason="Account takeover", ticket="T-1094", message="Please call us.")
    presence.block(logins[-1].session.uid, by="sam", reason="Payment dispute", duration=86_400 * 7)
    presence.add_remark(several[4].uid, "Will call again at 15:00 about the new phone.", by="dana")
    page = browser.new_page(viewport=SIZE, color_scheme="light")
    opened = f"{url}/person?q={several[5].uid}"
    take(page, "find_a_person", f"{url}/?q={asked.name.split()[-1]}")
    take(page, "sign_someone_out", opened, _kick_dialog)
    take(page, "stolen_device", opened)
    take(page, "cannot_log_in", f"{url}/person?q={blocked.uid}")
    take(page, "many_sessions", f"{url}/?device={several[5].device}", _bulk_kick)
    take(page, "block", f"{url}/blocks")
    take(page, "last_night", f"{url}/history?view=staff")
    take(page, "hand_over", f"{url}/report")
    take(page, "privacy_requests", opened, _privacy)
    page.close()


def take(page: Page, name: str, address: str, act: Callable[[Page], None] | None = None) -> None:
    page.goto(address)
    page.locator("table, h2, h3").first.wait_for()
    page.wait_for_timeout(2_500)
    if act is not None:
        act(page)
        page.wait_for_timeout(1_500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(64, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


def _kick_dialog(page: Page) -> None:
    page.get_by_role("button", name="Kick this session").first.click()
    page.get_by_role("dialog").get_by_text("Lost device").click()


def _bulk_kick(page: Page) -> None:
    page.get_by_role("button", name=re.compile(r"Kick all .*…")).first.click()


def _privacy(page: Page) -> None:
    page.get_by_text("Privacy", exact=True).first.click()
