"""The blocks of docs/use/frameworks/asgi_wsgi.md for WSGI and aiohttp run as printed; its site: test_site_pages."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest

from presence_core import AsyncPresence, Presence
from tests.web.framework_pages.printed import blocks
from tests.web.framework_pages.test_site_pages import presence, server

__all__ = ["presence", "server"]  # the fixtures

PAGE = "docs/use/frameworks/asgi_wsgi.md"


def run(block: str) -> dict[str, Any]:
    site: dict[str, Any] = {"__name__": "mysite"}
    exec(compile(blocks("asgi_wsgi")[block], f"{PAGE}, {block}", "exec"), site)
    return site


def test_every_block_of_the_page_is_tested() -> None:
    assert set(blocks("asgi_wsgi")) == {"mysite.py", "test_mysite.py", "wsgi", "aiohttp"}


def test_a_wsgi_application_without_a_framework_signs_in_and_out(presence: Presence) -> None:
    site = run("wsgi")
    transport = httpx.WSGITransport(app=site["app"], raise_app_exceptions=False)
    browser = httpx.Client(transport=transport, base_url="https://shop.example")
    assert browser.get("/").status_code == 401
    assert browser.post("/sign-in", data={"who": "ada"}).status_code == 204
    assert browser.get("/").text == "Hello ada"
    browser.post("/sign-in", data={"who": "eve"})
    assert (presence.sessions("ada"), len(presence.sessions("eve"))) == ([], 1)
    presence.kick("eve", by="sam", reason="test", message="Please call us.")
    assert browser.get("/").json()["message"] == "Please call us."
    presence.block("eve", by="sam", reason="test")
    assert browser.post("/sign-in", data={"who": "eve"}).status_code == 403
    browser.post("/sign-in", data={"who": "ada"})
    assert browser.post("/sign-out").status_code == 204
    assert presence.sessions("ada") == []
    site["presence"].close()


class Request(dict[str, Any]):
    """The part of aiohttp's that the page uses."""

    def __init__(self, path: str, token: str, **form: str) -> None:
        self.path, self.cookies, self.remote, self.form = path, {"presence": token}, "192.0.2.7", form
        self.headers = {"User-Agent": "Firefox"}

    async def post(self) -> dict[str, str]:
        return self.form


@pytest.fixture
def aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small module in its place."""
    web = SimpleNamespace(
        middleware=lambda function: function,
        Response=lambda **given: SimpleNamespace(**{"status": 200, "text": "", "headers": {}} | given),
        Application=lambda middlewares: SimpleNamespace(add_routes=lambda routes: None),
        get=lambda *route: route,
        post=lambda *route: route,
    )
    module: Any = ModuleType("aiohttp")
    module.web = web
    monkeypatch.setitem(sys.modules, "aiohttp", module)


@pytest.mark.usefixtures("aiohttp")
def test_aiohttp_asks_in_a_middleware_of_its_own(presence: Presence) -> None:
    site = run("aiohttp")
    client: AsyncPresence = site["presence"]

    async def ask(path: str, token: str = "", **form: str) -> Any:
        handler = {"/sign-in": site["begin"], "/sign-out": site["end"], "/": site["home"]}[path]
        return await site["check"](Request(path, token, **form), handler)

    def token_of(answer: Any) -> str:
        assert answer.status == 303
        return str(answer.headers["Set-Cookie"].partition(";")[0].partition("=")[2])

    async def visit() -> None:
        anonymous = await ask("/")
        assert (anonymous.status, anonymous.text) == (401, "Please sign in.")
        ada = token_of(await ask("/sign-in", who="ada"))
        assert (await ask("/", ada)).text == "Hello ada"
        [session] = await client.sessions("ada")
        assert (session.ip, session.user_agent) == ("192.0.2.7", "Firefox")
        eve = token_of(await ask("/sign-in", ada, who="eve"))
        assert await client.sessions("ada") == []
        await client.kick("eve", by="sam", reason="test", message="Please call us.")
        refused = await ask("/", eve)
        assert (refused.status, refused.text) == (401, "Please call us.")
        await client.block("eve", by="sam", reason="test", message="On hold.")
        blocked = await ask("/sign-in", eve, who="eve")
        assert (blocked.status, blocked.text[:8]) == (403, "On hold.")
        ada = token_of(await ask("/sign-in", who="ada"))
        assert token_of(await ask("/sign-out", ada)) == ""
        assert await client.sessions("ada") == []
        await client.close()

    asyncio.run(visit())
