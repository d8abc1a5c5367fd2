"""A dashboard whose staff sign in at an OpenID provider, and a staff member who does so without a browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from websockets.exceptions import InvalidStatus

from presence_core import Presence, Settings
from presence_dashboard import texts
from tests.dashboard.wire import Wire, serve
from tests.support.fair_clock import PATIENT
from tests.support.programs.oidc_provider import CLIENT, Provider
from tests.support.servers import Server, free_port, missing, redis_binary, valkey_binary

_SECRETS: Final = """[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "{secret}"
client_id = "{client}"
client_secret = "not so secret"
server_metadata_url = "{provider}/.well-known/openid-configuration"
"""


@dataclass
class OidcTeam:
    url: str
    server: Server
    provider: Provider
    presence: Presence
    sessions: Presence  #: where sign-ins are sessions
    number: int = 0

    @property
    def name(self) -> str:
        """The staff member of this test."""
        return f"dana{self.number}@example.com"

    def begin(self) -> None:
        """A new staff member for each test: the dashboard caches a role for a second."""
        self.number += 1
        self.claim()

    def claim(self, **others: Any) -> None:
        """Set the claims of the next sign-in: those of this test's staff member, with a role, but for ``others``."""
        own = {"sub": "4711", "email": self.name.capitalize(), "email_verified": True, "groups": ["desk", "all"]}
        self.provider.claims = own | others


@contextmanager
def oidc_team(directory: Path, **others: str) -> Iterator[OidcTeam]:
    """others: more of the environment."""
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    port, secrets = free_port(), directory / "secrets.toml"
    with ExitStack() as stack:
        provider = stack.enter_context(Provider())
        server = stack.enter_context(Server.start(binary, directory / "redis"))
        secrets.write_text(_SECRETS.format(port=port, secret="x" * 64, client=CLIENT, provider=provider.url))
        environ = {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DASHBOARD_ACCESS": "oidc",
            "PRESENCE_OIDC_ROLE_CLAIM": "groups",
            "PRESENCE_ROLE_MAP": "desk=support",
            "STREAMLIT_SECRETS_FILES": str(secrets),
            "AUTHLIB_INSECURE_TRANSPORT": "1",
        }
        url = stack.enter_context(serve(environ | others, directory / "log", port))
        presence = stack.enter_context(Presence.from_url(server.url, Settings(timeout=PATIENT)))
        staff = Settings(namespace=f"{presence.settings.namespace}-staff", timeout=PATIENT)
        sessions = stack.enter_context(Presence.from_url(server.url, staff))
        yield OidcTeam(url, server, provider, presence, sessions)


class Visitor:
    """The cookies of one browser, and its way to the provider and back."""

    def __init__(self, url: str, cookies: httpx.Cookies | None = None) -> None:
        self._url = url
        self._client = httpx.Client(base_url=url, cookies=cookies, follow_redirects=True, timeout=30)

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def cookies(self) -> httpx.Cookies:
        """A copy: what the browser has now."""
        return httpx.Cookies(self._client.cookies)

    @contextmanager
    def open_page(self) -> Iterator[Wire]:
        self._client.get("/_stcore/health").raise_for_status()  # sets the cookie that a websocket needs for a sign-in
        line = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        with ExitStack() as stack:
            until = time.monotonic() + 60
            while True:
                try:
                    wire = stack.enter_context(Wire.open(self._url, line, xsrf=self.cookies["_streamlit_xsrf"]))
                    break
                except InvalidStatus:  # many tests have opened sockets from this address: five a second may follow
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.2)
            yield wire.go()

    def read(self) -> str:
        """The text of the page."""
        with self.open_page() as wire:
            return wire.text()

    def press(self, label: str) -> str:
        """Press a button that leads to the provider or signs out. Returns the text of the page at the end."""
        with self.open_page() as wire:
            wire.ask({"id": wire.buttons()[label], "trigger_value": True})
            [path] = [frame.auth_redirect.url for frame in wire.frames if frame.WhichOneof("type") == "auth_redirect"]
        assert self._client.get(path).url == f"{self._url}/"
        return self.read()

    def follow(self, path: str, **headers: str) -> str:
        """Open an address of the dashboard. Returns the path at the end of all redirects."""
        return self._client.get(
            path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        ).url.raw_path.decode()

    def sign_in(self) -> str:
        return self.press(texts.SIGN_IN_BUTTON)
