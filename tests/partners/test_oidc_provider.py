"""Back-channel logout with npm's oidc-provider: who signs out there is signed out here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import jwt
import pytest

from presence_core import Presence, Settings
from presence_core.drive_generators import drive
from presence_core.web.backchannel_logout import Issuer, LogoutReceiver
from presence_core.web.backchannel_logout.wsgi import BackchannelLogout
from tests.partners.packages import HERE, PLACE, are_installed
from tests.partners.test_partners import _need
from tests.support.fair_clock import PATIENT
from tests.support.programs.oidc_provider import CLIENT, Provider
from tests.support.servers import Server, free_port, missing, redis_binary, valkey_binary
from tests.support.servers.waiting import wait_for

pytestmark = pytest.mark.slow

SECRET = "a-secret-of-the-tests-only"
CALLBACK = "http://127.0.0.1:1/callback"


@pytest.fixture(scope="module")
def presence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Presence]:
    _need(shutil.which("node") and are_installed(), "oidc-provider is not installed")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Server.start(binary, tmp_path_factory.mktemp("oidc"), port=True) as running,
        Presence.from_url(running.url, Settings(timeout=PATIENT)) as client,
    ):
        yield client


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def receiving(presence: Presence, issuer: str) -> Iterator[str]:
    app = BackchannelLogout(presence, LogoutReceiver([Issuer(issuer, "shop", f"{issuer}/jwks", "oidc-provider")]))
    with make_server("127.0.0.1", 0, app, handler_class=_Silent) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


@contextmanager
def providing(port: int, logout: str, *others: str, callback: str = CALLBACK) -> Iterator[None]:
    program = shutil.copy(HERE / "oidc_provider.mjs", PLACE)  # next to its packages
    words = ["node", program, str(port), callback, logout, *others]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as node:
        assert node.stdout is not None
        try:
            assert any(line.startswith("listening") for line in iter(node.stdout.readline, ""))
            yield
        finally:
            node.kill()


def _sign_in(browser: httpx.Client, issuer: str, user: str) -> tuple[str, dict[str, Any]]:
    """Sign in at the provider's development pages. Returns the ID token and its claims."""
    asked = {"client_id": "shop", "response_type": "code", "scope": "openid", "redirect_uri": CALLBACK, "state": "s"}
    page = browser.get(f"{issuer}/auth", params=asked)
    while not (to := page.headers.get("location", "")).startswith(CALLBACK):
        if page.is_redirect:
            page = browser.get(urljoin(str(page.request.url), to))
            continue
        data = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', page.text))
        if 'name="login"' in page.text:
            data |= {"login": user, "password": "x"}
        page = browser.post(_action(page), data=data)
    code = parse_qs(urlsplit(to).query)["code"][0]
    given = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
    token = browser.post(f"{issuer}/token", data=given, auth=("shop", SECRET)).json()["id_token"]
    return token, jwt.decode(token, options={"verify_signature": False})


def _action(page: httpx.Response) -> str:
    found = re.search(r'action="([^"]+)"', page.text)
    assert found, page.text
    return str(urljoin(str(page.request.url), found[1]))


def test_a_sign_out_at_the_provider_ends_the_session_here_and_no_other(presence: Presence) -> None:
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    with ExitStack() as opened:
        logout = opened.enter_context(receiving(presence, issuer))
        opened.enter_context(providing(port, logout))
        logins = []
        for user in ("ada", "ada", "grace"):
            browser = opened.enter_context(httpx.Client())
            token, claims = _sign_in(browser, issuer, user)
            link = {name: claims[name] for name in ("iss", "sub", "sid")}
            logins.append((browser, token, presence.login(user, idp=link).token))
        browser, id_token, _ = logins[0]
        page = browser.get(f"{issuer}/session/end", params={"id_token_hint": id_token})
        data = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', page.text))
        browser.post(_action(page), data=data | {"logout": "yes"})
        wait_for("the logout", lambda: not presence.validate(logins[0][2]))
        assert [bool(presence.validate(token)) for _, _, token in logins] == [False, True, True]
        [ended] = presence.ended()
        assert (ended.cause, ended.by, ended.uid) == ("idp_logout", "oidc-provider", "ada")


def test_ten_thousand_hostile_tokens_that_jose_signed_end_no_session_and_give_no_5xx(presence: Presence) -> None:
    with Provider() as provider:
        receiver = LogoutReceiver([Issuer(provider.url, CLIENT, f"{provider.url}/jwks")], alert_above=10**6)
        key = jwt.algorithms.RSAAlgorithm.to_jwk(provider._key, as_dict=True) | {"kid": provider.kid}
        program = shutil.copy(HERE / "hostile_tokens.mjs", PLACE)
        words = ["node", program, provider.url, CLIENT, "10000"]
        made = subprocess.run(words, input=json.dumps(key), capture_output=True, text=True, check=True)
        right, *hostile = made.stdout.splitlines()
        assert len(hostile) == 10_000

        def send(token: str) -> int:
            body = urlencode({"logout_token": token}).encode()
            form = "application/x-www-form-urlencoded"
            return drive(receiver.answer("POST", form, body), lambda step: step(presence)).status

        login = presence.login("ada", idp={"iss": provider.url, "sub": "ada", "sid": "sid-1"}).token
        assert {send(token) for token in hostile} == {400}
        assert presence.validate(login)
        assert provider.fetches <= 3, "at most one a minute"
        assert send(right) == 200
        assert not presence.validate(login)
