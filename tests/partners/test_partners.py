"""What browsers and a proxy send to the sites of the documents, with Express 5, Django, Flask and FastAPI."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from presence_core import Presence, Settings
from tests.partners.packages import MODULES, are_installed
from tests.partners.sites import SITES, Site, behind_a_proxy
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary
from tests.web.frameworks.test_frameworks import ROOT

pytestmark = pytest.mark.slow


def _need(there: object, what: str) -> None:
    """Skip without it; ``make partners`` fails."""
    if not there:
        (pytest.fail if os.environ.get("PRESENCE_PARTNERS") else pytest.skip)(f"{what}: see make partners")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    _need(shutil.which("nginx"), "nginx is not installed")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("partners"), port=True) as running:
        yield running


@pytest.fixture(scope="module", params=SITES)
def site(request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if request.param.startswith("express"):
        _need(shutil.which("node") and are_installed(), "Express is not installed")
    server.command("FLUSHALL")
    with behind_a_proxy(request.param, server, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def presence(server: Server, site: Site) -> Iterator[Presence]:
    """After the start of the site, which chooses the layout."""
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as client:
        yield client


PEERS = {
    "203.0.113.9": "203.0.113.9",  # the proxy adds the port
    "[2001:db8::9]": "2001:db8::9",
    "[fe80::1%eth0]": "fe80::1",
    "[::ffff:203.0.113.7]": "203.0.113.7",
    "unknown": None,
    "": "127.0.0.1",
}
"""What the proxy calls its peer → the address that is stored."""

REFUSED = (401, 302, 303)  # or sent to the sign-in

FORGED = ("198.51.100.1", "198.51.100.1, 127.0.0.1", "unknown", '"', "for=198.51.100.1", "\xff", ", ,", "1" * 3000)
"""Headers that a visitor sends itself."""


def test_behind_a_proxy_that_writes_ports_the_address_of_the_visitor_is_stored(site: Site, presence: Presence) -> None:
    ada = site.uid("ada")
    for peer, address in PEERS.items():
        browser = site.browser(peer)
        assert site.sign_in(browser, "ada").status_code < 400
        [session] = presence.sessions(ada)
        assert (session.ip, session.user_agent) == (address, "Firefox"), peer
        assert site.sign_out(browser).status_code < 400
        assert presence.sessions(ada) == []
        assert browser.ask("GET", site.page).status_code in REFUSED
    for header in FORGED:
        browser = site.browser(X_Forwarded_For=header)
        assert site.sign_in(browser, "ada").status_code < 400
        [session] = presence.sessions(ada)
        assert session.ip == "203.0.113.9", header
        browser.peer = "198.51.100.7"
        assert site.shows(browser, "ada")
        assert presence.sessions(ada)[0].last_ip == "198.51.100.7"
        site.sign_out(browser)


def test_visitors_sign_in_and_out_and_are_refused_with_the_reason(site: Site, presence: Presence) -> None:
    ada, eve = site.uid("ada"), site.uid("eve")
    anonymous = site.browser()
    assert anonymous.ask("GET", site.page).status_code in REFUSED
    assert site.sign_out(anonymous).status_code < 400
    for junk in ("", "junk", '"', "a.b.c", "x" * 3000):
        anonymous.cookies = {"presence": junk, "sessionid": junk}
        assert anonymous.ask("GET", site.page).status_code in REFUSED, junk

    browser = site.browser()
    assert site.sign_in(browser, "ada").status_code < 400
    assert site.shows(browser, "ada")
    assert site.sign_in(browser, "eve").status_code < 400
    assert (presence.sessions(ada), len(presence.sessions(eve))) == ([], 1), "the browser's second sign-in"
    assert site.sign_in(browser, "eve").status_code < 400
    assert len(presence.sessions(eve)) == 1
    other = site.browser()
    site.sign_in(other, "eve")
    assert len(presence.sessions(eve)) == 2, "another browser"

    presence.kick(eve, by="sam", reason="test", message="Please call us.")
    refused = browser.ask("GET", site.page)
    assert refused.status_code == 401
    assert "Please call us." in refused.text
    assert site.sign_in(browser, "ada").status_code < 400
    assert site.shows(browser, "ada")
    presence.block(eve, by="sam", reason="test", message="Your account is on hold.")
    refused = site.sign_in(browser, "eve")
    assert refused.status_code == 403
    assert "Your account is on hold." in refused.text
    assert presence.sessions(eve) == []


@pytest.mark.parametrize("site", ["express-session"], indirect=True)
def test_visitors_of_express_session_see_and_sign_out_their_devices(site: Site, presence: Presence) -> None:
    phone, laptop, tablet = browsers = [site.browser(f"203.0.113.{number}") for number in (1, 2, 3)]
    for browser in browsers:
        site.sign_in(browser, "ada")
    devices = laptop.ask("GET", "/devices").json()
    assert [(device["ip"], device["current"]) for device in devices] == [
        ("203.0.113.3", False), ("203.0.113.2", True), ("203.0.113.1", False),
    ]  # fmt: skip
    assert laptop.ask("POST", f"/devices/{devices[2]['session_id']}/sign-out").json() is True
    assert [phone.ask("GET", "/me").status_code, tablet.ask("GET", "/me").status_code] == [401, 200]
    assert phone.ask("GET", "/me").json() == {"code": "anonymous"}, "the site's own session is gone, too"
    assert laptop.ask("POST", "/sign-out-others").json() == 1
    refused = tablet.ask("GET", "/me")
    assert (refused.status_code, refused.json()["code"]) == (401, "logout")
    assert laptop.ask("GET", "/me").json() == {"uid": "ada"}


def test_the_types_of_the_node_client_are_those_of_its_code(tmp_path: Path) -> None:
    """After a change: copy what this test says."""
    _need(shutil.which("node") and are_installed(), "TypeScript is not installed")
    shutil.copy(ROOT / "docs/examples/presence.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(MODULES, target_is_directory=True)
    words = ["--allowJs", "--checkJs", "--strict", "--declaration", "--emitDeclarationOnly", "--target", "es2023"]
    words += ["--module", "nodenext", "--types", "node", "--skipLibCheck"]
    command = ["node", str(MODULES / "typescript/bin/tsc"), "presence.mjs", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (0, "")
    types = (tmp_path / "presence.d.mts").read_text("utf-8")
    assert types == (ROOT / "docs/examples/presence.d.mts").read_text("utf-8"), types
