"""Makes the README's pictures of the dashboard, from people who do not exist: ``python docs/make_pictures.py``.

Needs Chromium on PATH and what the tests need. It signs its people in on an embedded server in a temporary directory,
serves the real dashboard over it, and takes one picture in light and one in dark.
"""

from __future__ import annotations

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

from playwright.sync_api import sync_playwright  # noqa: E402

from presence_core import Login, Presence  # noqa: E402


def _words(text: str) -> list[str]:
    return text.split()


FIRST: Final = _words(
    "Amara Ana Aylin Bo Carmen Chidi Dana Daniel Elif Elena Farah Finn Grace Hana Hugo Ines Ivan Jana João Kaito Lars "
    "Leila Linh Luca Maja Marek Mateo Mina Nadia Noah Nuri Olga Omar Paula Priya Rafael Rosa Sanna Sofía Tariq Thandi "
    "Tom Uma Viktor Wei Yara Yusuf Zoë"
)
LAST: Final = _words(
    "Abebe Andersson Becker Bianchi Chen Costa Demir Dubois Eze Fischer García Haddad Ito Jansen Jensen Kaya Khan "
    "Kowalska Larsen Lopes Martin Mbeki Moreau Müller Nakamura Nguyen Novák Okafor Olsen Papas Patel Petrov Popescu "
    "Ramos Rossi Saito Sharma Silva Singh Sørensen Tanaka Tran Virtanen Weber Wójcik Yılmaz Zhang Łukasik"
)
DEVICES: Final = (
    ("iPhone", "Shop iOS", "4.12.1", "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 "
     "(KHTML, like Gecko) Version/19.1 Mobile/15E148 Safari/604.1"),
    ("Android phone", "Shop Android", "4.11.0", "Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 "
     "(KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36"),
    ("Windows PC", "Web", "2026.11", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
     "Chrome/142.0.0.0 Safari/537.36"),
    ("Windows PC", "Web", "2026.11", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
     "Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0"),
    ("MacBook", "Web", "2026.11", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like "
     "Gecko) Version/19.1 Safari/605.1.15"),
    ("Linux PC", "Web", "2026.10", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"),
    ("iPad", "Shop iOS", "4.12.0", "Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, "
     "like Gecko) Version/18.6 Mobile/15E148 Safari/604.1"),
)  # fmt: skip
NETWORKS: Final = ("192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:4f::")


def sign_in(presence: Presence, people: int, seed: int = 7) -> list[Login]:
    """Sign people in over the last five hours, about one in six on a second device as well."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    now = time.time()
    for number in range(people):
        first, last = chance.choice(FIRST), chance.choice(LAST)
        uid = f"u{10_000 + number * 37}"
        for device, app, version, agent in chance.sample(DEVICES, 2 if chance.random() < 1 / 6 else 1):
            login_at = now - chance.expovariate(1 / 3_000) % 18_000 - 2
            rows.append(
                {
                    "uid": uid, "name": f"{first} {last}", "aliases": [f"{uid}@example.com"], "device": device,
                    "app": app, "app_version": version, "user_agent": agent,
                    "ip": chance.choice(NETWORKS) + str(chance.randint(1, 250)),
                    "login_at": login_at, "last_seen": max(login_at, now - chance.expovariate(1 / 200) % 1_500),
                }
            )  # fmt: skip
    rows.sort(key=lambda row: row["login_at"])
    return [login for login in presence.login_many(rows, imported=True) if isinstance(login, Login)]


@contextmanager
def dashboard(environ: dict[str, str]) -> Iterator[str]:
    """The dashboard as its users start it, on a free port. Answers its address."""
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
            raise RuntimeError("the dashboard ended at once")
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the dashboard did not answer within 20 s")


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise SystemExit("There is no chromium on PATH.")


CHROMIUM_ARGS: Final[Sequence[str]] = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def take(url: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGS))
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1400, "height": 960}, color_scheme=scheme)
            page.goto(url)
            page.wait_for_selector("canvas")
            page.wait_for_timeout(1_500)  # fonts, and the table's own second look at its width
            page.screenshot(path=IMAGES / f"dashboard-{scheme}.png")
            page.close()
        browser.close()


def main() -> None:
    # The embedded server leaves its directory a moment after its last user has.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        Presence.embedded(directory) as presence,
    ):
        logins = sign_in(presence, 300)
        for login in logins[:12]:
            presence.kick(login.session.uid, login.session.session_id, by="local operator", reason="Shared account")
        presence.sweep()
        with dashboard({"PRESENCE_DATA_DIR": directory, "PRESENCE_REDIS_URL": ""}) as url:
            take(url)
    print(f"{IMAGES / 'dashboard-light.png'} and dashboard-dark.png")


if __name__ == "__main__":
    main()
