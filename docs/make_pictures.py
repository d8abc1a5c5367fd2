"""Make the pictures of the dashboard with the people of the demo: ``python docs/make_pictures.py``.

Those of the README, then those of the support handbook, or with the argument ``handbook`` only the latter.

Needs Chromium on PATH and the packages of the tests. Starts an embedded server in a temporary directory, logs people
in, writes two days of samples, serves the dashboard, and takes a screenshot of each page in light and dark. Last, it
records a support call: an animated picture of one screenshot for each step.
"""

from __future__ import annotations

import io
import math
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
IMAGES: Final = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402
from playwright.sync_api import Locator, Page, sync_playwright  # noqa: E402

from docs import handbook_pictures  # noqa: E402
from presence_core import Login, Presence, Worker  # noqa: E402
from presence_dashboard.demo.people import MEMBERS  # noqa: E402
from tests.support.samples import write_samples  # noqa: E402

PEOPLE: Final = [member for member in MEMBERS if member.name == member.latin_name]
"""People with Latin names, because some machines lack fonts for other scripts."""


def sign_in(presence: Presence, people: int, seed: int = 7) -> list[Login]:
    """Log people in over the last hours, some on two devices."""
    chance, now = random.Random(seed), time.time()
    rows: list[dict[str, Any]] = []
    for member in PEOPLE[:people]:
        for device in member.devices[: 2 if chance.random() < 1 / 4 else 1]:
            login_at = now - chance.expovariate(1 / 3_000) % 18_000 - 2
            rows.append(
                {
                    "uid": member.uid,
                    "name": member.name,
                    "aliases": member.aliases,
                    "device": device.name,
                    "app": device.app,
                    "app_version": device.app_version,
                    "user_agent": device.user_agent,
                    "ip": chance.choice(member.addresses),
                    "login_at": login_at,
                    "last_seen": max(login_at, now - chance.expovariate(1 / 200) % 1_500),
                }
            )
    rows.sort(key=lambda row: float(row["login_at"]))
    return [login for login in presence.login_many(rows, imported=True) if isinstance(login, Login)]


@contextmanager
def dashboard(environ: dict[str, str]) -> Iterator[str]:
    """The dashboard on a free port. Yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | environ, stdout=subprocess.DEVNULL)
    try:
        _await(f"http://127.0.0.1:{port}/healthz", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if process.poll() is not None:
            raise RuntimeError("The dashboard ended during its start.")
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("The dashboard did not answer within 20 s.")


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise SystemExit("Chromium was not found on PATH: install it.")


CHROMIUM_ARGS: Final[Sequence[str]] = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def take_pictures(url: str, uid: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1400, "height": 960}, color_scheme=scheme)
            page.goto(url)
            for row in (2, 4):
                page.locator("tbody").get_by_role("checkbox").nth(row).check()
                page.wait_for_timeout(700)
            page.wait_for_timeout(1_000)  # for fonts
            page.screenshot(path=IMAGES / f"dashboard-{scheme}.png")
            for name, path in (("live", "live?range=24h"), ("person", f"person?q={uid}")):
                page.goto(f"{url}/{path}")
                page.locator("h2, [data-testid=stVegaLiteChart]").first.wait_for()
                page.wait_for_timeout(4_000)
                page.screenshot(path=IMAGES / f"{name}-{scheme}.png")
            page.close()
        browser.close()


def take_handbook_pictures(url: str, presence: Presence, logins: list[Login]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        handbook_pictures.take_all(browser, url, presence, logins)
        browser.close()


class Recording:
    """Screenshots of a page, for an animated picture."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []

    def add(self, seconds: float) -> None:
        """Show the page, once it has settled, for this time."""
        self.page.wait_for_timeout(900)
        frame = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.frames.append(frame.quantize(64, dither=Image.Dither.NONE))
        self.durations.append(round(seconds * 1_000))

    def click(self, target: Locator, seconds: float) -> None:
        """Click. The frame before shows the target with a frame of its own."""
        target.evaluate("element => { element.style.outline = '3px solid #d97706' }")
        self.add(1.2)
        target.evaluate("element => { element.style.outline = '' }")
        target.click()
        self.add(seconds)

    def save(self, path: Path) -> None:
        first, *others = self.frames
        first.save(path, save_all=True, append_images=others, duration=self.durations, loop=0, optimize=True)


def record_takeover(url: str, login: Login) -> None:
    """Find a customer by email, kick the device that was stolen, and block new logins for an hour."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        page = browser.new_page(viewport={"width": 960, "height": 900}, color_scheme="light")
        page.goto(url)
        page.get_by_role("table").wait_for()
        recording = Recording(page)
        recording.add(1.5)
        email = login.session.aliases[0]
        page.keyboard.press("/")
        for part in (email[:6], email[6:]):
            page.keyboard.type(part)
            recording.add(1)
        page.keyboard.press("Enter")
        kick = page.get_by_role("button", name="Kick this session")
        kick.first.wait_for()
        recording.add(2.5)
        recording.click(kick.first, 1.5)
        dialog = page.get_by_role("dialog")
        recording.click(dialog.get_by_text("Lost device"), 1)
        recording.click(dialog.get_by_role("combobox"), 1)
        recording.click(page.get_by_role("option", name="For 1 hour"), 1)
        recording.click(dialog.get_by_role("button", name="Kick 1 session"), 3)
        recording.save(IMAGES / "takeover.gif")
        browser.close()


def write_history(presence: Presence) -> None:
    """Write two days of samples that end at the current counts, with the peak four hours ago."""
    now, chance, counts = time.time() // 60 * 60, random.Random(3), presence.counts()
    minutes = 48 * 60
    rows = []
    for minute in range(minutes):
        wave = 1 + 0.6 * math.cos(((minutes - minute) / 60 - 4) / 24 * 2 * math.pi)
        share = wave / (1 + 0.6 * math.cos(4 / 24 * 2 * math.pi)) * (0.94 if minute < minutes / 2 else 1)
        users = share * counts.users + chance.gauss(0, 3)
        rows.append((round(users), round(users * counts.sessions / counts.users), minute // 97))
    write_samples(presence, now - minutes * 60, rows, 60)


def live_on(presence: Presence, logins: Sequence[Login], seconds: float) -> None:
    """Let people come and go, until the worker has a whole minute of it."""
    end, leaving = time.monotonic() + seconds, iter(logins[40:])
    for member in PEOPLE[300:]:
        if time.monotonic() > end:
            return
        presence.login(**member.login(member.devices[0]))
        session = next(leaving).session
        presence.logout(session.uid, session.session_id)
        time.sleep(3)
    time.sleep(max(0, end - time.monotonic()))


@contextmanager
def scratch() -> Iterator[str]:
    directory = tempfile.mkdtemp()
    try:
        yield directory
    finally:
        time.sleep(1)  # the embedded server leaves its directory shortly after its last user
        shutil.rmtree(directory)


def main() -> None:
    with scratch() as directory, Presence.embedded(directory) as presence:
        logins = sign_in(presence, 300)
        for login in logins[:12]:
            presence.kick(login.session.uid, login.session.session_id, by="local operator", reason="Shared account")
        presence.sweep()
        write_history(presence)
        uid = next(uid for uid in (login.session.uid for login in logins[:12]) if presence.is_online(uid))
        with Worker(presence), dashboard({"PRESENCE_DATA_DIR": directory, "PRESENCE_REDIS_URL": "embedded"}) as url:
            if "handbook" not in sys.argv[1:]:
                live_on(presence, logins, 135)
                take_pictures(url, uid)
                several = (login for login in logins[12:] if len(presence.sessions(login.session.uid)) > 1)
                record_takeover(url, next(several))
                print(f"Dashboard, live and person, light and dark, and a support call, in {IMAGES}")
            take_handbook_pictures(url, presence, logins[12:])
            print(f"The handbook, in {handbook_pictures.FOLDER}")


if __name__ == "__main__":
    main()
