"""The smallest sites with "Your devices": one test body for ASGI, ASGI with threads, and WSGI."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from presence_core import AsyncPresence, Presence, Settings
from presence_core.web import asgi, wsgi
from presence_core.web.rules import Rules
from presence_core.web.your_devices import asgi as devices_asgi
from presence_core.web.your_devices import wsgi as devices_wsgi
from presence_core.web.your_devices.options import DeviceOptions
from tests.support.facade import EventLoop

KEY = "a key for tests, as long as it must be"
HOST = "http://shop.example"
KINDS = ("asgi", "asgi-threads", "wsgi")

FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


@dataclass
class DeviceSite:
    """A site with the page at /devices/."""

    send: Callable[[httpx.Request], httpx.Response]
    close: Callable[[], Any]

    def ask(
        self, path: str = "", token: str | None = None, *, method: str = "GET", headers: dict[str, str] | None = None,
        **content: Any,
    ) -> httpx.Response:  # fmt: skip
        """Send a request to this path below the page."""
        cookie = {} if token is None else {"cookie": f"presence={token}"}
        given = {**cookie, "host": "shop.example", **(headers or {})}
        return self.send(httpx.Request(method, f"{HOST}/devices/{path}", headers=given, **content))

    def forms(self, token: str, query: str = "") -> list[dict[str, str]]:
        """The fields of the forms on the page, in its order: this device first."""
        page = self.ask(query, token)
        assert page.status_code == 200, page.text
        return forms_of(page.text)

    def post(self, token: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Send a form as a browser does."""
        sent = {"origin": HOST, "sec-fetch-site": "same-origin"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return self.ask("", token, method="POST", data=fields, headers=sent)

    def api(self, token: str, path: str = "", body: Any = None, **headers: str) -> httpx.Response:
        """Call the JSON API: GET, or POST if there is a body."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is None:
            return self.ask(f"api{path}", token, headers=given)
        return self.ask(f"api{path}", token, method="POST", json=body, headers=given)


def forms_of(page: str) -> list[dict[str, str]]:
    """The hidden fields of each form of a page."""
    return [
        {name: html.unescape(value) for name, value in FIELD.findall(form)}
        for form in re.findall(r"<form.*?</form>", page, re.DOTALL)
    ]


def make_site(
    kind: str, url: str, settings: Settings, loop: EventLoop, options: DeviceOptions, rules: Rules
) -> DeviceSite:
    """A site of this kind."""
    if kind == "wsgi":
        return _wsgi_site(url, settings, options, rules)
    return _asgi_site(url, settings, loop, options, rules, use_threads=kind == "asgi-threads")


def _wsgi_site(url: str, settings: Settings, options: DeviceOptions, rules: Rules) -> DeviceSite:
    presence = Presence.from_url(url, settings)

    def rest(environ: Any, start_response: Any) -> list[bytes]:
        start_response("404 Not Found", [])
        return [b""]

    mounted = DispatcherMiddleware(rest, {"/devices": devices_wsgi.YourDevices(presence, options)})
    site = wsgi.PresenceMiddleware(mounted, presence, rules=rules)
    transport = httpx.WSGITransport(app=site)

    def send(request: httpx.Request) -> httpx.Response:
        response = transport.handle_request(request)
        response.read()
        return response

    def close() -> None:
        site.close()
        presence.close()

    return DeviceSite(send, close)


def _asgi_site(
    url: str, settings: Settings, loop: EventLoop, options: DeviceOptions, rules: Rules, *, use_threads: bool
) -> DeviceSite:
    presence: Any = loop.call(lambda: (Presence if use_threads else AsyncPresence).from_url(url, settings))
    app = Starlette(routes=[Mount("/devices", devices_asgi.YourDevices(presence, options))])
    site = asgi.PresenceMiddleware(app, presence, rules=rules)
    transport = httpx.ASGITransport(app=site)

    async def sent(request: httpx.Request) -> httpx.Response:
        response = await transport.handle_async_request(request)
        await response.aread()
        return response

    async def closing() -> None:
        await site.aclose()
        if isinstance(presence, AsyncPresence):
            await presence.close()
        else:
            presence.close()

    return DeviceSite(lambda request: loop.run(sent(request)), lambda: loop.run(closing()))
