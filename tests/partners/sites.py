"""The sites of the documents, as printed, in processes of their own; and the proxy in front of them.

The proxy is nginx. It writes the address of its peer with the port, as the gateways of some clouds do, behind what the
peer has sent. A test names the peer in a header, as it calls from one machine.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from presence_core import Presence, Settings
from presence_core.web.service.api_keys import make_key
from tests.partners.packages import MODULES
from tests.support.servers import HOST, Server, free_port
from tests.web.framework_pages import django_project
from tests.web.framework_pages.printed import blocks
from tests.web.frameworks.test_frameworks import ROOT, running
from tests.web.service.process import served
from tests.web.service.test_node import BLOCKS as NODE_BLOCKS

USERS: Final = ("ada", "eve")
PASSWORD: Final = "correct horse"
KEY: Final = "a key that only this test has"

_NGINX: Final = """
master_process off;
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  map $http_x_peer $peer { "" $remote_addr; default $http_x_peer; }
  map $http_x_forwarded_for $before { "" ""; default "$http_x_forwarded_for, "; }
  server {
    listen HOST:PORT;
    location / {
      proxy_pass http://HOST:SITE;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto https;
      proxy_set_header X-Forwarded-For "$before$peer:$remote_port";
    }
  }
}
"""


@dataclass
class Browser:
    """A browser, and the address that the proxy sees it at. It sends Secure cookies, as if the proxy had TLS."""

    base: str
    peer: str = "203.0.113.9"
    cookies: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, data: dict[str, str] | None = None) -> httpx.Response:
        """No answer may be an error of the site."""
        headers = {"Accept": "application/json", "User-Agent": "Firefox", "X-Peer": self.peer, **self.headers}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = httpx.Headers(headers, encoding="latin-1")
        answer = httpx.request(method, self.base + path, data=data, headers=sent, timeout=30)
        assert answer.status_code < 500, (path, self.peer, answer.text)
        for cookie in answer.headers.get_list("set-cookie"):
            name, _, value = cookie.partition(";")[0].partition("=")
            if value.strip('"'):
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
        return answer


@dataclass(frozen=True)
class Site:
    """A running site."""

    url: str
    by_form: bool = False  #: it has a form, passwords and a page at ``/``; others have JSON at ``/me``
    has_numbers: bool = False  #: it is Django: its user ids are numbers, and its forms have a CSRF token

    def browser(self, peer: str = "203.0.113.9", **headers: str) -> Browser:
        return Browser(self.url, peer, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def sign_in(self, browser: Browser, who: str) -> httpx.Response:
        if self.has_numbers:
            return django_project.sign_in(browser, who)
        if self.by_form:
            return browser.ask("POST", "/sign-in", {"who": who, "password": PASSWORD})
        return browser.ask("POST", f"/sign-in?who={who}")

    def uid(self, who: str) -> str:
        return str(USERS.index(who) + 1) if self.has_numbers else who

    def sign_out(self, browser: Browser) -> httpx.Response:
        return django_project.sign_out(browser) if self.has_numbers else browser.ask("POST", "/sign-out")

    @property
    def page(self) -> str:
        """The address of the page that needs a session."""
        return "/" if self.by_form else "/me"

    def shows(self, browser: Browser, who: str) -> bool:
        """Whether the page greets this user."""
        text = browser.ask("GET", self.page).text
        return f"Hello {who}." in text if self.page == "/" else json.loads(text) == {"uid": self.uid(who)}


@contextmanager
def fastapi(server: Server, directory: Path) -> Iterator[int]:
    """uvicorn itself replaces the peer by the address of the header, from proxies on this machine."""
    port = _write(directory, "mysite.py", blocks("fastapi")["mysite.py"])
    words = ["uvicorn", "mysite:app", f"--port={port}"]
    with running(*words, directory=directory, port=port, server=server, SITE_KEY=KEY):
        yield port


@contextmanager
def flask(server: Server, directory: Path) -> Iterator[int]:
    code = blocks("flask")["mysite.py"].replace("Rules(", f'Rules(trusted_proxies=("{HOST}",), ', 1)
    port = _write(directory, "mysite.py", code)
    words = ["flask", "--app", "mysite", "run", "--port", str(port)]
    with running(*words, directory=directory, port=port, server=server, SITE_KEY=KEY):
        yield port


@contextmanager
def django(server: Server, directory: Path) -> Iterator[int]:
    django_project.make_project(directory, {"PRESENCE_REDIS_URL": server.url})
    settings, port = directory / "mysite" / "settings.py", free_port()
    settings.write_text(settings.read_text("utf-8").replace("10.0.0.0/8", HOST), "utf-8")
    words = ["manage.py", "runserver", "--noreload", f"{HOST}:{port}"]
    with running(*words, program=(sys.executable,), directory=directory, port=port, server=server):
        yield port


@contextmanager
def express(server: Server, directory: Path, block: str = "express") -> Iterator[int]:
    with Presence.from_url(server.url) as presence:
        _, key = make_key(presence, "site", ("record", "read"))
    shutil.copy(ROOT / "docs/examples/presence.mjs", directory)
    (directory / "node_modules").symlink_to(MODULES, target_is_directory=True)
    port = _write(directory, "site.mjs", NODE_BLOCKS[block])
    with (
        served(server.url, Settings().namespace) as url,
        running(
            "site.mjs", program=("node",), directory=directory, port=port, server=server,
            PORT=str(port), PRESENCE_URL=url, PRESENCE_KEY=key, STORE_URL=server.url, SECRET="not a secret",
        ),
    ):  # fmt: skip
        yield port


SITES: Final[dict[str, Callable[[Server, Path], AbstractContextManager[int]]]] = {
    "express": express,
    "express-session": partial(express, block="session"),
    "django": django,
    "flask": flask,
    "fastapi": fastapi,
}


@contextmanager
def behind_a_proxy(name: str, server: Server, directory: Path) -> Iterator[Site]:
    """A site, and nginx in front of it."""
    places = [directory / part for part in ("site", "proxy")]
    for place in places:
        place.mkdir()
    with SITES[name](server, places[0]) as site:
        port = free_port()
        conf = _NGINX.replace("HOST", HOST).replace("PORT", str(port)).replace("SITE", str(site))
        (places[1] / "nginx.conf").write_text(conf, "utf-8")
        words = ["-p", str(places[1]), "-c", "nginx.conf", "-e", "stderr"]
        with running(*words, program=("nginx",), directory=places[1], port=port, server=server):
            yield Site(f"http://{HOST}:{port}", by_form=name != "express-session", has_numbers=name == "django")


def _write(directory: Path, name: str, code: str) -> int:
    """Write a module of the site; returns a free port for it."""
    (directory / name).write_text(code, "utf-8")
    return free_port()
