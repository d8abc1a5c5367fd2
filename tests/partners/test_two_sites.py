"""Two sites of one identity provider in Chromium: who signs out of the other site sees our open page close.

The provider is npm's oidc-provider, the other site Apache with mod_auth_openidc.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import jwt
import pytest
import uvicorn
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket

from presence_core import AsyncPresence, Presence, Settings
from presence_core.web.asgi import PresenceMiddleware
from presence_core.web.backchannel_logout import Issuer, LogoutReceiver
from presence_core.web.backchannel_logout.asgi import BackchannelLogout
from presence_core.web.rules import Rules
from tests.browser.conftest import chromium
from tests.partners.test_oidc_provider import SECRET, presence, providing
from tests.partners.test_partners import _need
from tests.support.fair_clock import PATIENT
from tests.support.servers import free_port, wait_for

pytestmark = pytest.mark.slow
_ = presence

MODULES = Path("/usr/lib/apache2/modules")
APACHE = """
ServerName 127.0.0.1
ServerRoot {place}
PidFile {place}/pid
ErrorLog {place}/error
Listen 127.0.0.1:{port}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authz_user_module {modules}/mod_authz_user.so
LoadModule auth_openidc_module {modules}/mod_auth_openidc.so
DocumentRoot {place}/pages
OIDCProviderMetadataURL {issuer}/.well-known/openid-configuration
OIDCClientID other
OIDCClientSecret {secret}
OIDCRedirectURI http://127.0.0.1:{port}/private/back
OIDCCryptoPassphrase a-passphrase-of-the-tests-only
<Location /private>
  AuthType openid-connect
  Require valid-user
</Location>
<Location /bye>
  Require all granted
</Location>
"""
PAGE = """<title>Ours</title><p id=state>open</p><script>
new WebSocket(`ws://${location.host}/ws`).onclose = ({ code }) => {
  window.closedAt = Date.now();
  state.textContent = `closed ${code}`;
};
</script>"""


@contextmanager
def other_site(place: Path, port: int, issuer: str) -> Iterator[None]:
    for page in ("private", "bye"):
        (place / "pages" / page).mkdir(parents=True)
        (place / "pages" / page / "index.html").write_text(f"<title>Other</title>{page}")
    config = APACHE.format(place=place, port=port, issuer=issuer, secret=SECRET, modules=MODULES)
    (place / "apache.conf").write_text(config)
    apache = subprocess.Popen(["apache2", "-X", "-f", str(place / "apache.conf")])
    try:
        wait_for("Apache", lambda: _answers(f"http://127.0.0.1:{port}/bye/index.html"))
        yield
    finally:
        apache.terminate()
        apache.wait()


def _answers(address: str) -> bool:
    try:
        return httpx.get(address).is_success
    except httpx.TransportError:
        return False


def _site(client: AsyncPresence, issuer: str, own: str) -> Starlette:
    callback = f"{own}/callback"

    async def sign_in(_: Request) -> Response:
        asked = {"client_id": "shop", "response_type": "code", "scope": "openid", "redirect_uri": callback}
        return RedirectResponse(str(httpx.URL(f"{issuer}/auth", params=asked)))

    async def come_back(request: Request) -> Response:
        given = {"grant_type": "authorization_code", "code": request.query_params["code"], "redirect_uri": callback}
        async with httpx.AsyncClient() as web:
            token = (await web.post(f"{issuer}/token", data=given, auth=("shop", SECRET))).json()["id_token"]
        claims = jwt.decode(token, options={"verify_signature": False})
        link = {name: claims[name] for name in ("iss", "sub", "sid")}
        login = await client.login(claims["sub"], idp=link)
        response = RedirectResponse("/")
        response.set_cookie("presence", login.token)
        return response

    async def home(_: Request) -> Response:
        return HTMLResponse(PAGE)

    async def stay(socket: WebSocket) -> None:
        await socket.accept()
        await socket.receive()

    signed_in = Starlette(routes=[Route("/", home), WebSocketRoute("/ws", stay)])
    receiver = LogoutReceiver([Issuer(issuer, "shop", f"{issuer}/jwks", "oidc-provider")])
    return Starlette(
        routes=[
            Route("/sign-in", sign_in),
            Route("/callback", come_back),
            Route("/backchannel-logout", BackchannelLogout(client, receiver)),
            Mount("/", PresenceMiddleware(signed_in, client, rules=Rules(secure=False))),
        ]
    )


@contextmanager
def our_site(redis: str, port: int, issuer: str) -> Iterator[None]:
    """In a thread, on an event loop of its own."""

    async def serve() -> None:
        async with AsyncPresence.from_url(redis, Settings(timeout=PATIENT)) as client:
            config.app = _site(client, issuer, f"http://127.0.0.1:{port}")
            await server.serve()

    config = uvicorn.Config(Starlette(), port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        wait_for("our site", lambda: server.started)
        yield
    finally:
        server.should_exit = True
        thread.join()


def test_who_signs_out_of_the_other_site_sees_our_open_page_close(presence: Presence, tmp_path: Path) -> None:
    _need(shutil.which("apache2") and (MODULES / "mod_auth_openidc.so").exists(), "mod_auth_openidc is not installed")
    provider, ours, others = free_port(), free_port(), free_port()
    issuer, site, other = (f"http://127.0.0.1:{port}" for port in (provider, ours, others))
    back, bye = f"{other}/private/back", f"{other}/bye/index.html"
    redis = presence.internal.redis_client.connection_pool.connection_kwargs
    with (
        providing(provider, f"{site}/backchannel-logout", back, bye, callback=f"{site}/callback"),
        our_site(f"redis://{redis['host']}:{redis['port']}", ours, issuer),
        other_site(tmp_path, others, issuer),
        chromium() as context,
    ):
        took = []
        for _round in range(5):
            page, second = context.new_page(), context.new_page()
            page.goto(f"{site}/sign-in")
            page.locator("input[name=login]").fill("ada")
            page.locator("input[name=password]").fill("x")
            page.locator("button[type=submit]").click()
            page.locator("button[type=submit]").click()  # consent
            expect(page.locator("#state")).to_have_text("open")
            second.goto(f"{other}/private/index.html")
            second.locator("button[type=submit]").click()
            expect(second).to_have_title("Other")
            second.goto(f"{back}?logout={bye}")
            begun = time.time()
            second.locator("button[value=yes]").click()
            expect(page.locator("#state")).to_have_text("closed 4401")
            took.append(page.evaluate("window.closedAt") - begun * 1000)
            expect(second).to_have_url(bye)
            page.close()
            second.close()
            context.clear_cookies()
    print("from the click to the closed page, ms:", [round(ms) for ms in took])  # a figure, no promise
    assert [ended.cause for ended in presence.ended("ada")][:5] == ["idp_logout"] * 5
