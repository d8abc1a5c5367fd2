"""``python -m benchmarks.push``: the time from a kick to the closed page of the visitor, in a real browser.

Visitors of the demo site have a page open in Chromium, and are kicked one after the other at random times. The time
runs from the call of ``kick()`` to the frame in which the page says why the session ended. It includes the kick, the
event, the site's reader, the browser's stream and the drawing. Both clocks are this machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import BrowserContext, sync_playwright

from benchmarks.dashboard import await_answer, launched
from presence_core import Presence
from presence_dashboard.demo.site import running
from tests.support.servers import HOST, Server, free_port, redis_binary, valkey_binary

TARGET_MS: Final = 250

# Runs in every page before the page's own script: notes when the frame that shows the end was drawn.
WATCH: Final = """
addEventListener('DOMContentLoaded', () => {
  new MutationObserver((_, observer) => {
    if (!document.title.startsWith('You have been signed out')) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => { window.closedAt = Date.now(); }));
  }).observe(document, {subtree: true, childList: true, characterData: true});
});
"""

CLOSED: Final = "async () => { while (!window.closedAt) await new Promise(requestAnimationFrame); return closedAt; }"


def _kicks(context: BrowserContext, presence: Presence, url: str, times: int, open_pages: int) -> Iterator[float]:
    """Milliseconds of each kick."""
    pages = []
    for number in range(times + open_pages):
        login = presence.login(f"visitor-{number}", name="A visitor")
        context.clear_cookies()
        context.add_cookies([{"name": "paperboat", "value": login.token, "url": url}])
        page = context.new_page()
        with page.expect_response("**/live"):
            page.goto(url)
        pages.append((f"visitor-{number}", page))
        if number < open_pages:
            continue
        uid, page = pages.pop(0)
        page.bring_to_front()
        page.wait_for_timeout(random.uniform(50, 250))
        begun = time.time()
        presence.kick(uid, by="benchmark", reason="benchmark")
        yield page.evaluate(CLOSED) - begun * 1000
        page.close()
    for _, page in pages:
        page.close()


def main() -> int:
    """Measure, and print one line of JSON. The exit code is 1 if the p99 missed its target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.push", description=__doc__)
    parser.add_argument("--kicks", type=int, default=300)
    parser.add_argument(
        "--open", type=int, default=4, help="other pages open at the same time; a browser has six connections per site"
    )
    args = parser.parse_args()
    binary = valkey_binary() or redis_binary()
    if binary is None:
        sys.exit("No Redis server binary was found.")
    port = free_port()
    url = f"http://{HOST}:{port}"
    with (
        TemporaryDirectory() as directory,
        Server.start(binary, Path(directory)) as server,
        running({"PRESENCE_REDIS_URL": server.url}, port, 0),
        Presence.from_url(server.url) as presence,
        sync_playwright() as playwright,
    ):
        await_answer(f"{url}/sign-in")
        browser = launched(playwright)
        context = browser.new_context()
        context.add_init_script(WATCH)
        took = sorted(_kicks(context, presence, url, args.kicks, args.open))
        browser.close()
    p99 = took[int(len(took) * 0.99)]
    print(json.dumps({
        "kicks": args.kicks, "open_pages": args.open, "p50_ms": round(median(took)), "p99_ms": round(p99),
        "worst_ms": round(took[-1]), "load_average": round(os.getloadavg()[0], 1), "target_ms": TARGET_MS,
        "met": p99 <= TARGET_MS,
    }))  # fmt: skip
    return 0 if p99 <= TARGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
