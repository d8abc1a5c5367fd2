"""``presence mirror`` with the session stores of npm: what they write is listed, and a kick reaches their sites."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from presence_core import Presence, Settings
from presence_core.mirror.loop import Mirror
from presence_core.mirror.stores import BY_NAME
from presence_core.transport.site_store import SiteStore
from tests.partners.packages import HERE, PLACE, are_installed
from tests.partners.test_partners import _need
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary
from tests.support.servers.waiting import wait_for

pytestmark = pytest.mark.slow

STORES = ("express", "better-auth", "redis-sessions")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    _need(shutil.which("node") and are_installed(), "Express is not installed")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("mirror"), port=True) as running:
        yield running


@contextmanager
def running_site(kind: str, url: str) -> Iterator[str]:
    program = shutil.copy(HERE / "mirror_site.mjs", PLACE)  # next to its packages
    with subprocess.Popen(["node", program, kind, url], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(node.stdout.readline())}"
        finally:
            node.kill()


@contextmanager
def mirroring(presence: Presence, url: str, store: str) -> Iterator[Mirror]:
    chosen = BY_NAME[store]
    site = SiteStore(url, PATIENT, chosen.fields)
    mirror = Mirror(presence, site, chosen, bytes(32))
    mirror.start()
    thread = threading.Thread(target=mirror.run)
    thread.start()
    try:
        yield mirror
    finally:
        mirror.stop()
        thread.join()
        site.close()


@pytest.mark.parametrize("store", STORES)
def test_sessions_of_npm_stores_are_followed_and_kicked(server: Server, store: str) -> None:
    server.command("FLUSHALL")
    server.command("CONFIG", "SET", "notify-keyspace-events", "KA")
    url = server.url.removesuffix("/0") + "/1"
    settings = Settings(namespace="mirrored", timeout=PATIENT)
    with (
        Presence.from_url(server.url, settings) as presence,
        running_site(store, url) as base,
        mirroring(presence, url, store) as mirror,
        httpx.Client(base_url=base, timeout=PATIENT, headers={"User-Agent": "Firefox/140"}) as ada,
        httpx.Client(base_url=base, timeout=PATIENT) as eve,
    ):
        ada_id, eve_id = ada.post("/in/ada").text, eve.post("/in/eve").text
        wait_for("both are listed", lambda: presence.sessions(ada_id) and presence.sessions(eve_id))
        [session] = presence.sessions(ada_id)
        assert abs(session.expires_at.timestamp() - time.time()) > 1000
        eve.post("/out")
        wait_for("the logout is seen", lambda: not presence.sessions(eve_id))
        assert presence.ended(eve_id).items[0].cause == "site"

        assert ada.get("/").text == "ada"
        slow = threading.Thread(target=ada.get, args=("/slow",))
        slow.start()  # a request in flight
        time.sleep(0.05)
        presence.kick(ada_id, by="sam", reason="test")
        slow.join()
        wait_for("the site refuses it", lambda: ada.get("/").text == "")
        assert presence.sessions(ada_id) == []

        assert ada.post("/in/ada").text == ada_id
        wait_for("a new sign-in is listed", lambda: presence.sessions(ada_id))
        time.sleep(0.5)
        assert ada.get("/").text == "ada", "and stays"
        assert mirror.problem == ""
        assert not any("user" in why for why in mirror.reconciler.skipped)
