"""Your devices in Chromium: without JavaScript, with the keyboard, in light and dark, on a narrow screen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from presence_core import Login, Presence, Settings
from presence_core.web.notices.link import NoticeLink
from presence_core.web.rules import Rules
from presence_core.web.wsgi import PresenceMiddleware
from presence_core.web.your_devices.options import DeviceOptions
from presence_core.web.your_devices.wsgi import YourDevices
from tests.browser.test_accessibility import SCHEMES, violations
from tests.support.fair_clock import PATIENT
from tests.support.place_file import PLACES, city, write_place_file
from tests.support.servers import Server, missing, redis_binary, valkey_binary
from tests.support.soak import size
from tests.web.your_devices.device_sites import KEY

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser 2")]

CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/141.0.0.0 Safari/537.36"
MESSAGE = "Please change your password.\nThen call us."


class Quiet(WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Threads(ThreadingMixIn, WSGIServer):
    """A browser keeps connections open."""

    daemon_threads = True


@dataclass
class Site:
    url: str
    presence: Presence
    login: Login

    def devices(self) -> set[str | None]:
        return {session.device for session in self.presence.sessions("ada")}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Ada is signed in on four devices, and was signed out on two."""
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    long_name = city("GB", "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch", (53, -4))
    places = write_place_file(tmp_path / "places.mmdb", {**PLACES, "198.51.100.0/25": long_name})
    with (
        Server.start(binary, tmp_path) as server,
        Presence.from_url(server.url, Settings(timeout=PATIENT, place_file=str(places))) as presence,
    ):
        names = ("Tablet", "Old phone", "A laptop with a name that is as long as names of devices may be")
        ips = ("203.0.113.7", "192.0.2.9", "198.51.100.7")
        logins = [
            presence.login("ada", device=name, user_agent=CHROME, ip=ip) for name, ip in zip(names, ips, strict=True)
        ]
        presence.login("ada", user_agent=CHROME)
        here = presence.login("ada", device="This laptop", user_agent=CHROME, ip="192.0.2.7")
        gone = presence.login("ada", device="Stolen phone", user_agent=CHROME)
        presence.kick("ada", gone.session.session_id, by="sam", reason="stolen", message=MESSAGE)
        presence.logout_others("ada", here.session.session_id, logins[1].session.session_id)
        options = DeviceOptions(key=KEY, sign_in_url="/sign-in?next={next}")
        app = PresenceMiddleware(
            YourDevices(presence, options), presence, rules=Rules(secure=False, public=("/notice",))
        )
        with make_server("127.0.0.1", 0, app, Threads, Quiet) as http:
            thread = threading.Thread(target=http.serve_forever, daemon=True)
            thread.start()
            yield Site(f"http://127.0.0.1:{http.server_port}", presence, here)
            http.shutdown()
            thread.join()
        app.close()


@contextmanager
def opened(context: BrowserContext, site: Site, **options: Any) -> Iterator[Page]:
    """The page, in a browser with the cookie of the session. Afterwards: the browser complained of nothing, and nothing
    was loaded from elsewhere."""
    assert context.browser is not None
    with context.browser.new_context(**options) as own:
        own.add_cookies([{"name": "presence", "value": site.login.token, "url": site.url, "httpOnly": True}])
        page = own.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("request", lambda sent: None if sent.url.startswith(site.url) else complaints.append(sent.url))
        page.goto(site.url)
        yield page
        assert [text for text in complaints if "404" not in text] == [], "a browser reports each page that is not there"


def test_devices_are_signed_out_without_javascript(site: Site, context: BrowserContext) -> None:
    with opened(context, site, java_script_enabled=False) as page:
        expect(page.get_by_role("listitem").first).to_contain_text("This laptop")
        expect(page.get_by_role("listitem").first).to_contain_text("Chrome on Windows")
        expect(page.get_by_text("Signed out by support.")).to_be_visible()
        expect(page.get_by_text("Then call us.")).to_be_visible()
        page.get_by_role("button", name="Sign out: Tablet").click()
        expect(page.get_by_role("status")).to_have_text("The device has been signed out.")
        assert "Tablet" not in site.devices()
        page.get_by_role("link", name="Sign out all other devices").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign out all other devices?")
        page.get_by_role("link", name="Cancel").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Your devices")
        assert len(site.devices()) == 3
        page.get_by_role("link", name="Sign out all other devices").click()
        page.get_by_role("button", name="Sign out all other devices").click()
        expect(page.get_by_role("status")).to_have_text("All other devices have been signed out.")
        assert site.devices() == {"This laptop"}
        page.reload()
        page.get_by_role("button", name="Sign out: This laptop").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("You are signed out")
        expect(page.get_by_role("link", name="Sign in again")).to_have_attribute("href", "/sign-in?next=/")
        assert site.devices() == set()


def test_the_keyboard_is_enough(site: Site, context: BrowserContext) -> None:
    with opened(context, site) as page:
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Sign out: This laptop")).to_be_focused()
        for _ in range(4):
            page.keyboard.press("Tab")
        link = page.get_by_role("link", name="Sign out all other devices")
        expect(link).to_be_focused()
        assert link.evaluate("link => getComputedStyle(link).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        page.wait_for_url("**/?confirm=others")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("All other devices have been signed out.")
    assert site.devices() == {"This laptop"}


def test_no_page_has_a_violation_in_light_or_dark_and_none_scrolls_sideways(
    site: Site, context: BrowserContext
) -> None:
    """In turn light and dark, in a soak each in both."""
    found: dict[str, Any] = {}
    with opened(context, site, viewport={"width": 320, "height": 640}) as page:
        for turn, locale in enumerate(("en", "de", "ja")):
            page.set_extra_http_headers({"Accept-Language": locale})
            for number, query in enumerate(("", "?confirm=others", "?done=device", "nowhere"), turn):
                page.goto(f"{site.url}/{query}")
                expect(page.locator("html")).to_have_attribute("lang", locale)
                for scheme in size(SCHEMES[number % 2 :][:1], SCHEMES):
                    page.emulate_media(color_scheme=scheme)
                    found[f"{locale} {query} {scheme}"] = violations(page)
                assert page.evaluate("document.documentElement.scrollWidth") == 320, (locale, query)
            page.goto(site.url)
            smallest = page.get_by_role("button").evaluate_all(
                "all => Math.min(...all.map(button => button.offsetHeight))"
            )
            assert smallest >= 44, "wide enough for a finger"
    assert {where: said for where, said in found.items() if said} == {}


def test_a_visitor_without_a_session_answers_a_notice_on_a_narrow_screen(site: Site, context: BrowserContext) -> None:
    about = site.login.session
    link = NoticeLink(url=f"{site.url}/notice", key=KEY).make(about.uid, about.session_id, about.login_at)
    browser = context.browser
    assert browser is not None
    narrow: Any = {"viewport": {"width": 320, "height": 640}, "locale": "de"}
    with browser.new_context(**narrow) as reader, browser.new_context(**narrow, java_script_enabled=False) as plain:
        page = reader.new_page()
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_have_text("Waren Sie das?")
        expect(page.get_by_role("listitem")).to_contain_text("This laptop")
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == []
        other = plain.new_page()
        other.goto(link)
        other.get_by_role("button", name="Das war ich nicht").click()
        expect(other.get_by_role("heading", level=1)).to_have_text("Das Gerät wurde abgemeldet")
        expect(other.get_by_role("link", name="Anmelden")).to_have_attribute("href", "/sign-in?next=/")
        assert "This laptop" not in site.devices()
        page.get_by_role("button", name="Das war ich", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Dieser Link ist nicht mehr gültig")
        assert violations(page) == []
