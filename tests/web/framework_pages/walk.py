"""What visitors and staff do with the site of a page: the same walk for each framework."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx
from websockets.sync.client import connect

from presence_core import Presence, cli
from presence_core.web.cookies import DEVICE_COOKIE
from tests.support.servers import HOST
from tests.web.framework_pages.printed import staff_commands
from tests.web.open_connections.running import closing, speak

PASSWORD = "correct horse"
FORGED = {"Sec-Fetch-Site": "cross-site"}


@dataclass
class Browser:
    """It follows no redirect, and sends Secure cookies to this machine without HTTPS, as browsers do."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)
    set: dict[str, str] = field(default_factory=dict)  #: the Set-Cookie headers of the last answer, by name

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def ask(self, method: str, path: str, data: dict[str, str] | None = None, **headers: str) -> httpx.Response:
        sent = {"User-Agent": "Firefox", "Accept": "text/html", "Cookie": self.cookie, **headers}
        answer = httpx.request(method, f"http://{HOST}:{self.port}{path}", data=data, headers=sent, timeout=30)
        assert answer.status_code < 500, answer.text
        self.set = {line.partition("=")[0]: line for line in answer.headers.get_list("set-cookie")}
        for name, line in self.set.items():
            value = line.partition(";")[0].partition("=")[2].strip('"')
            self.cookies.pop(name, None)
            if value:
                self.cookies[name] = value
        return answer

    def sign_in(self, who: str, path: str = "/", password: str = PASSWORD, **headers: str) -> httpx.Response:
        form = {"who": who, "password": password}
        return self.ask("POST", f"/sign-in?next={path}", form, **headers)


def leads(answer: httpx.Response) -> str:
    """Where this answer sends the browser."""
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def walk(page: str, port: int, presence: Presence, *, websocket: bool) -> None:
    """The site of this page runs at the port. The commands of the page have its server in the environment."""
    anonymous, browser = Browser(port), Browser(port)
    assert leads(anonymous.ask("GET", "/")) == "/sign-in?next=/"
    assert leads(anonymous.ask("GET", "/devices/")) == "/sign-in?next=/devices/"
    assert 'type="password"' in anonymous.ask("GET", "/sign-in").text
    wrong = anonymous.sign_in("ada", password="wrong")
    assert (wrong.status_code, "Wrong name or password." in wrong.text, anonymous.cookies) == (403, True, {})

    assert anonymous.sign_in("stranger", password="").status_code in (403, 422)
    assert leads(browser.sign_in("ada", "/devices/")) == "/devices/"
    assert "HttpOnly; Secure; SameSite=Lax" in browser.set["presence"]
    assert "Max-Age=34560000; HttpOnly; Secure; SameSite=Lax" in browser.set[DEVICE_COOKIE]
    [first] = presence.sessions("ada")
    assert (first.ip, first.user_agent) == (HOST, "Firefox")
    assert "Hello ada" in browser.ask("GET", "/").text
    assert "This device" in browser.ask("GET", "/devices/").text
    token = browser.cookies["presence"]
    assert "Hello ada" in anonymous.ask("GET", "/", Authorization=f"Bearer {token}").text

    _second_sign_ins(browser, presence, first.session_id)
    for path in ("/sign-in", "/sign-out"):
        forged = browser.ask("POST", path, {"who": "ada", "password": PASSWORD}, **FORGED)
        assert (forged.status_code, len(presence.sessions("eve"))) == (403, 1), "a form of another site"
    assert leads(browser.ask("POST", "/sign-out")) == "/sign-in"
    assert (presence.sessions("eve"), "presence" in browser.cookies) == ([], False)
    for visitor in (browser, anonymous):
        assert leads(visitor.ask("POST", "/sign-out")) == "/sign-in", "nothing to end"
    _kick_and_block(page, port, presence, websocket=websocket)


def _second_sign_ins(browser: Browser, presence: Presence, first: str) -> None:
    """The same user, another one in the same browser, and the first one in another browser."""
    old = Browser(browser.port, dict(browser.cookies))
    for elsewhere in ("//evil.example/", "https://evil.example/", "/\\evil.example", "/%0d%0aX:y", "/%09/evil.example"):
        assert leads(browser.sign_in("ada", elsewhere)) == "/", elsewhere
    [second] = presence.sessions("ada")
    assert (second.session_id != first, second.new_device) == (True, False)
    assert {end.reason for end in presence.ended("ada")} == {"logout"}
    assert old.ask("GET", "/").status_code == 401
    assert leads(browser.sign_in("eve")) == "/"
    assert (presence.sessions("ada"), len(presence.sessions("eve"))) == ([], 1)


def _kick_and_block(page: str, port: int, presence: Presence, *, websocket: bool) -> None:
    kick, block = staff_commands(page)
    browser = Browser(port)
    browser.sign_in("ada")
    assert presence.sessions("ada")[0].new_device
    if websocket:
        with connect(f"ws://{HOST}:{port}/chat", additional_headers={"Cookie": browser.cookie}, proxy=None) as socket:
            speak(socket, "ada: hello")
            assert cli.main(kick) == 0
            assert closing(socket) == (4401, "kicked")
    else:
        assert cli.main(kick) == 0
    refused = browser.ask("GET", "/devices/")
    assert (refused.status_code, "Please call us." in refused.text) == (401, True)
    assert "next=/devices/" in refused.text
    assert cli.main(block) == 0
    refused = browser.sign_in("ada")
    assert (refused.status_code, presence.sessions("ada")) == (403, [])
    assert "Your account is on hold. Signing in is blocked until 2" in refused.text
