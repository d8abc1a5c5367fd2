"""The gate for staff: sign-in by password or by a trusted proxy, who is refused, and attacks on the form."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import streamlit as st
from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from presence_core import Presence, Settings, Unavailable, cli
from presence_core.files.password_file import PasswordFile
from presence_dashboard import texts
from presence_dashboard.gate.headers import SecurityHeaders, security_headers
from presence_dashboard.gate.sign_in_forms import CSRF, SignInForms, safe_next
from presence_dashboard.gate.signed_in_only import SignedInOnly
from presence_dashboard.gate.staff_sessions import COOKIE, KEEP, StaffSessions
from presence_dashboard.gate_settings import Config, staff_environ
from presence_dashboard.roles import SignedOut
from tests.conftest import Servers
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary

SECRET = "correct horse battery"
HOME = "http://localhost:8501"
PAGE = {"accept": "text/html"}
PROXY = {
    "PRESENCE_DASHBOARD_ACCESS": "proxy",
    "PRESENCE_PROXY_HEADER": "X-Forwarded-Email",
    "PRESENCE_TRUSTED_PROXIES": "10.1.0.0/16",
    "PRESENCE_PROXY_ROLE_HEADER": "X-Groups",
    "PRESENCE_ROLE_MAP": "desk=support,ops=admin",
}


async def _inner(request: Request) -> Response:
    return PlainTextResponse(f"inside {request.url.path}")


async def _socket(socket: WebSocket) -> None:
    await socket.accept()
    async for heard in socket.iter_bytes():
        asked = BackMsg.FromString(heard).rerun_script
        await socket.send_text(f"run {asked.fragment_id or 'everything'}")


@dataclass
class GatedSite:
    """A gate in front of a tiny app, with a real server."""

    presence: Presence
    staff_sessions: StaffSessions
    app: Any
    environ: dict[str, str]
    peer: str = "127.0.0.1"
    open: list[TestClient] = field(default_factory=list)

    def visit(self, home: str = HOME, peer: str | None = None) -> TestClient:
        """Another browser."""
        client = TestClient(self.app, home, follow_redirects=False, client=(peer or self.peer, 5000))
        self.open.append(client.__enter__())
        return client

    def forget(self) -> None:
        """As if some time had passed for the cached staff sessions."""
        for key, known in self.staff_sessions._cache.items():
            self.staff_sessions._cache[key] = type(known)(known.value, known.at - KEEP, known.touched)

    def audit(self) -> list[tuple[str | None, str]]:
        return [(entry.by, entry.reason or "") for entry in self.presence.audit() if entry.action == "denied"]


def gated_site(
    presence: Presence, url: str, environ: dict[str, str], passwords: PasswordFile | None, peer: str
) -> GatedSite:
    environ = {
        "PRESENCE_REDIS_URL": url,
        "PRESENCE_NAMESPACE": presence.settings.namespace,
        "PRESENCE_TIMEOUT": str(PATIENT),
    } | environ
    config = Config.from_env(environ)
    staff = staff_environ(environ, config)
    staff_sessions = StaffSessions(config, lambda: presence, lambda: Presence.from_env(staff), passwords)
    forms = SignInForms(staff_sessions)
    routes: list[BaseRoute] = [
        Route("/sign-in", forms.sign_in, methods=["GET", "POST"]),
        Route("/sign-in-again", forms.sign_in_again, methods=["GET", "POST"]),
        Route("/sign-out", forms.sign_out, methods=["GET", "POST"]),
        Route("/{path:path}", _inner, methods=["GET", "POST"]),
        WebSocketRoute("/_stcore/stream", _socket),
    ]
    gates = [Middleware(SecurityHeaders, security_headers()), Middleware(SignedInOnly, staff_sessions)]
    return GatedSite(presence, staff_sessions, Starlette(routes=routes, middleware=gates), environ, peer)


@pytest.fixture(scope="module")
def passwords(tmp_path_factory: pytest.TempPathFactory) -> PasswordFile:
    file = PasswordFile(tmp_path_factory.mktemp("staff") / "passwords")
    for name in ("dana", "root"):
        file.set(name, SECRET)
    return file


@pytest.fixture
def presence(servers: Servers, request: pytest.FixtureRequest) -> Iterator[Presence]:
    namespace = f"g{os.getpid()}-{abs(hash(request.node.name)) % 10**9}"
    with Presence.from_url(servers.url("valkey"), Settings(namespace=namespace, timeout=PATIENT)) as made:
        made.set_staff("root", "admin", by="test")
        made.set_staff("dana", "viewer", by="test")
        yield made


@pytest.fixture
def by_password(presence: Presence, servers: Servers, passwords: PasswordFile, tmp_path: Path) -> Iterator[GatedSite]:
    environ = {"PRESENCE_DASHBOARD_ACCESS": "password", "PRESENCE_STAFF_FILE": str(passwords.path)}
    made = gated_site(presence, servers.url("valkey"), environ, passwords, "127.0.0.1")
    yield made
    close(made)


@pytest.fixture
def by_proxy(presence: Presence, servers: Servers) -> Iterator[GatedSite]:
    made = gated_site(presence, servers.url("valkey"), PROXY, None, "10.1.2.3")
    yield made
    close(made)


def close(made: GatedSite) -> None:
    for client in made.open:
        client.__exit__(None, None, None)
    made.staff_sessions.close()


def sign_in(client: TestClient, name: str = "dana", password: str = SECRET, **changed: Any) -> Any:
    home = str(client.base_url).rstrip("/")
    form = client.get("/sign-in").text
    token = re.search(r'name="csrf" value="([^"]+)"', form)
    assert token
    data = {"csrf": token[1], "name": name, "password": password, "next": "/person?q=ada"} | changed
    return client.post("/sign-in", data=data, headers={"origin": home})


def connect(client: TestClient, origin: str | None = HOME) -> Any:
    return client.websocket_connect(
        str(client.base_url).replace("http", "ws", 1) + "/_stcore/stream", headers={"origin": origin} if origin else {}
    )


def is_closed(client: TestClient, origin: str | None = HOME) -> bool:
    try:
        with connect(client, origin):
            return False
    except WebSocketDisconnect as closed:
        return closed.code == 1008


# -- by password ------------------------------------------------------------------------------------------------------


def test_without_a_session_only_the_form_is_shown(by_password: GatedSite) -> None:
    client = by_password.visit()
    answer = client.get("/person?q=ada&x=%26", headers=PAGE)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?next=/person%3Fq%3Dada%26x%3D%2526"
    assert [client.get(path).status_code for path in ("/", "/_stcore/host-config", "/media/x.csv")] == [401] * 3
    assert client.post("/_stcore/upload_file/x").status_code == 401
    assert is_closed(client)
    assert client.get("/healthz").text == "inside /healthz"
    assert client.get("/page/connection").text == "inside /page/connection"
    assert client.get("/static/js/index.js").text == "inside /static/js/index.js"
    assert client.post("/static/js/index.js").status_code == 401
    form = client.get("/sign-in?next=/person")
    assert 'autocomplete="current-password"' in form.text
    assert 'value="/person"' in form.text
    assert "script" not in form.headers["content-security-policy"]
    [font] = re.findall(r'url\("(.*?)"\)', form.text)
    assert client.get(font).text == f"inside {font}", "before anyone has signed in"
    assert "font-src 'self'" in form.headers["content-security-policy"]
    assert form.headers["cache-control"] == "no-store"
    assert form.headers["x-frame-options"] == "DENY"


def test_the_right_password_opens_pages_and_websockets_and_sign_out_closes_them(by_password: GatedSite) -> None:
    client = by_password.visit()
    answer = sign_in(client)
    assert (answer.status_code, answer.headers["location"]) == (303, "/person?q=ada")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie, "this machine is reached by http"
    assert client.get("/person", headers=PAGE).text == "inside /person"
    with connect(client) as socket:
        assert ask_for(socket, "rows") == "run rows"
    [session] = by_password.staff_sessions.sessions.sessions("dana")
    assert session.app == "dashboard"
    assert session.ip == "127.0.0.1"
    assert session.idle_timeout == 1800
    assert by_password.presence.counts().sessions == 0, "staff are not among those who are online"

    token = re.search(r'name="csrf" value="([^"]+)"', client.get("/sign-out").text)
    assert token
    stolen = client.cookies[COOKIE]
    assert client.post("/sign-out", data={"csrf": "x" * 43}, headers={"origin": HOME}).status_code == 200
    assert client.get("/").status_code == 200, "a form without its token signs no one out"
    assert texts.SIGN_OUT_DONE in client.post("/sign-out", data={"csrf": token[1]}, headers={"origin": HOME}).text
    assert COOKIE not in client.cookies
    client.cookies[COOKIE] = stolen
    assert client.get("/").status_code == 401
    assert client.get("/", headers=PAGE).status_code == 303


def test_a_wrong_password_and_an_unknown_name_get_the_same_answer_and_are_audited(by_password: GatedSite) -> None:
    client = by_password.visit()
    wrong, unknown = sign_in(client, password="wrong horse battery"), sign_in(client, name="my-password-by-mistake")
    assert (wrong.status_code, unknown.status_code) == (403, 403)
    for answer in (wrong, unknown):
        assert f'role="alert" id="wrong">{texts.SIGN_IN_WRONG}' in answer.text
        assert "wrong horse" not in answer.text
        assert COOKIE not in answer.cookies
    assert sorted(by_password.audit()) == [
        ("(unknown name)", "wrong password, from 127.0.0.1"),
        ("dana", "wrong password, from 127.0.0.1"),
    ]


def test_a_form_of_another_site_or_without_its_token_is_refused(by_password: GatedSite) -> None:
    client = by_password.visit()
    good = {"name": "dana", "password": SECRET}
    for origin in ("https://evil.example", "null", "http://localhost:9999", ""):
        headers = {"origin": origin} if origin else {}
        answer = client.post("/sign-in", data=good | {"csrf": "x"}, headers=headers)
        assert answer.status_code == 403
        assert COOKIE not in answer.cookies
    client.get("/sign-in")
    assert CSRF in client.cookies
    for csrf in ("", "x" * 43, client.cookies[CSRF][:-1]):
        answer = client.post("/sign-in", data=good | {"csrf": csrf}, headers={"origin": HOME})
        assert answer.status_code == 403
        assert texts.SIGN_IN_STALE in answer.text
    for body in (b"csrf=" + b"x" * 20_000, b"\xff\xfe", b"a=1&" * 50):
        assert client.post("/sign-in", content=body, headers={"origin": HOME}).status_code == 403
    assert by_password.staff_sessions.sessions.counts().sessions == 0


def test_a_sign_in_makes_a_new_session_and_ignores_an_existing_cookie(by_password: GatedSite) -> None:
    client = by_password.visit()
    sign_in(client)
    first = client.cookies[COOKIE]
    assert sign_in_again(by_password, client) != first
    [session] = by_password.staff_sessions.sessions.sessions("dana")
    assert session.session_id in client.cookies[COOKIE], "the one before has ended"
    planted = by_password.visit()
    planted.cookies[COOKIE] = "planted.by-somebody.else"
    assert sign_in_again(by_password, planted) not in ("planted.by-somebody.else", first)


def sign_in_again(made: GatedSite, client: TestClient) -> str:
    made.forget()
    client.get("/sign-out")  # a signed-in user gets no sign-in form; its token is the same
    data = {"csrf": client.cookies[CSRF], "name": "dana", "password": SECRET}
    assert client.post("/sign-in", data=data, headers={"origin": HOME}).status_code == 303
    return str(client.cookies.get(COOKIE, domain="localhost.local"))


def test_a_modified_cookie_is_invalid(by_password: GatedSite) -> None:
    client = by_password.visit()
    sign_in(client)
    token = client.cookies[COOKIE]
    uid, sid, secret = token.split(".")
    other = by_password.staff_sessions.sign_in_as("root", None, None).split(".")
    for forged in (token[:-1], token + "x", f"{other[0]}.{sid}.{secret}", f"{uid}.{other[1]}.{secret}", "", "..", "é"):
        stranger = by_password.visit()
        assert stranger.get("/", headers={b"cookie": f"{COOKIE}={forged}".encode()}).status_code == 401, forged


def test_after_five_wrong_passwords_there_is_a_waiting_time(by_password: GatedSite) -> None:
    client = by_password.visit()
    tried = [sign_in(client, password="wrong horse battery").status_code for _ in range(6)]
    assert tried == [403] * 5 + [429]
    refused = sign_in(client)
    assert refused.status_code == 429, "also with the right one"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert ("dana", "too many attempts, from 127.0.0.1") in by_password.audit()


@pytest.mark.parametrize("how", ["sign-in", "password again"])
def test_ones_own_sign_in_gives_no_more_guesses_at_the_passwords_of_others(by_password: GatedSite, how: str) -> None:
    """Seven rounds of four wrong passwords for others, and one sign-in of one's own."""
    guesses, own = [], by_password.visit()
    sign_in(own, "dana")
    for round_ in range(7):
        names = [f"other{guess}-{round_}" for guess in range(4)]
        guesses += [sign_in(by_password.visit(), name, "wrong horse battery").status_code for name in names]
        if how == "sign-in":
            sign_in(by_password.visit(), "dana")
        else:
            sign_in_again_as(own)
    assert guesses == [403] * 5 + [429] * 23


def test_a_sign_in_clears_the_typing_errors_at_its_own_name(by_password: GatedSite) -> None:
    for _ in range(3):
        tried = [sign_in(by_password.visit(), password="wrong horse battery").status_code for _ in range(4)]
        assert tried == [403] * 4
        assert sign_in(by_password.visit()).status_code == 303


def test_a_colleague_signs_in_while_thirty_addresses_send_wrong_passwords(by_password: GatedSite) -> None:
    answers: list[int] = []

    async def send(peer: str, name: str, password: str) -> int:
        transport = httpx.ASGITransport(by_password.app, client=(peer, 5000))
        async with httpx.AsyncClient(transport=transport, base_url=HOME) as browser:
            csrf = re.findall(r'name="csrf" value="([^"]+)"', (await browser.get("/sign-in")).text)[0]
            data = {"csrf": csrf, "name": name, "password": password, "next": "/"}
            answers.append((await browser.post("/sign-in", data=data, headers={"origin": HOME})).status_code)
            return answers[-1]

    async def guess(peer: str, guesser: str) -> None:
        for number in range(5):  # what the address has in a minute
            await send(peer, f"{guesser}-{number}", "wrong horse battery")

    async def attacked() -> int:
        peers = [f"198.51.100.{number}" for number in range(30)]
        attack = [asyncio.create_task(guess(peer, f"{peer}-{place}")) for peer in peers for place in range(2)]
        while len(answers) < 10:
            await asyncio.sleep(0.01)
        colleague = await send("203.0.113.7", "dana", SECRET)
        for task in attack:
            task.cancel()
        await asyncio.gather(*attack, return_exceptions=True)
        return colleague

    assert asyncio.run(attacked()) == 303
    assert 503 not in answers, "the queue has place for them"


# -- the password again -----------------------------------------------------------------------------------------------


def sign_in_again_as(client: TestClient, password: str = SECRET, **changed: str) -> Any:
    """Send the form that asks a signed-in member for their password again."""
    client.get("/sign-in-again?next=/person?q=ada")
    data = {"csrf": client.cookies.get(CSRF, ""), "password": password, "next": "/person?q=ada"} | changed
    return client.post("/sign-in-again", data=data, headers={"origin": HOME})


def latest(client: TestClient, name: str) -> str:
    return [str(cookie.value) for cookie in client.cookies.jar if cookie.name == name][-1]


def test_the_password_again_replaces_the_cookie_and_returns_to_the_page(by_password: GatedSite) -> None:
    client, staff = by_password.visit(), by_password.staff_sessions
    sign_in(client)
    old = client.cookies[COOKIE]
    [begun] = staff.sessions.sessions("dana")
    form = client.get("/sign-in-again?next=/person%3Fq%3Dada")
    assert 'value="dana" autocomplete="username" readonly' in form.text
    assert form.text.count('"/person?q=ada"') == 2, "the field of the form, and the link back"
    assert "script" not in form.headers["content-security-policy"]
    with connect(client) as socket:
        assert ask_for(socket, "rows") == "run rows"
        answer = sign_in_again_as(client)
        assert ask_for(socket, "rows") == "run everything", "a page of another tab says what happened"
    assert (answer.status_code, answer.headers["location"]) == (303, "/person?q=ada")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    new = latest(client, COOKIE)
    assert new != old
    [session] = staff.sessions.sessions("dana")
    assert session.session_id == begun.session_id
    assert session.authenticated_at > begun.authenticated_at
    assert staff.by_token(new).name == "dana"
    with pytest.raises(SignedOut, match=texts.PASSWORD_AGAIN_ELSEWHERE):
        staff.by_token(old)
    assert by_password.visit().get("/", headers={b"cookie": f"{COOKIE}={old}".encode()}).status_code == 401


def test_a_stronger_hash_of_the_same_password_ends_no_sign_in(by_password: GatedSite, passwords: PasswordFile) -> None:
    """As after an update of argon2 with a higher cost."""
    client, staff, other = by_password.visit(), by_password.staff_sessions, by_password.visit()
    sign_in(client)
    sign_in(other)
    weak = passwords.find("dana")
    assert staff.passwords is not None
    staff.passwords._hasher = PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
    answer = sign_in_again_as(client)
    assert answer.status_code == 303
    assert passwords.find("dana") != weak
    assert staff.by_token(latest(client, COOKIE), fresh=True).name == "dana"
    assert staff.by_token(latest(other, COOKIE), fresh=True).name == "dana"


def test_the_password_of_another_member_makes_no_session_fresh(by_password: GatedSite, passwords: PasswordFile) -> None:
    other = "another horse battery"
    passwords.set("eve", other)
    client = by_password.visit()
    sign_in(client)
    [begun] = by_password.staff_sessions.sessions.sessions("dana")
    for changed in ({}, {"name": "eve"}):
        answer = sign_in_again_as(client, other, **changed)
        assert answer.status_code == 403
        assert f'role="alert" id="wrong">{texts.PASSWORD_AGAIN_WRONG}' in answer.text
        assert other not in answer.text
        assert COOKIE not in answer.cookies
    [session] = by_password.staff_sessions.sessions.sessions("dana")
    assert session.authenticated_at == begun.authenticated_at
    assert by_password.audit() == [("dana", "wrong password, from 127.0.0.1")]


def test_guesses_at_the_password_again_count_as_those_at_a_sign_in(by_password: GatedSite) -> None:
    client = by_password.visit()
    sign_in(client)
    tried = [sign_in_again_as(client, "wrong horse battery").status_code for _ in range(6)]
    assert tried == [403] * 5 + [429]
    refused = sign_in_again_as(client)
    assert refused.status_code == 429, "also with the right one"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert sign_in(by_password.visit()).status_code == 429
    assert ("dana", "too many attempts, from 127.0.0.1") in by_password.audit()


def test_the_password_again_needs_a_session_and_a_form_of_this_site(by_password: GatedSite) -> None:
    stranger = by_password.visit()
    for answer in (stranger.get("/sign-in-again?next=/person"), sign_in_again_as(stranger, next="/person")):
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=/person")
    client = by_password.visit()
    sign_in(client)
    token = client.cookies[COOKIE]
    for origin in ("https://evil.example", "null", ""):
        headers = {"origin": origin} if origin else {}
        answer = client.post("/sign-in-again", data={"password": SECRET}, headers=headers)
        assert answer.status_code == 403
        assert COOKIE not in answer.cookies
    assert texts.SIGN_IN_STALE in sign_in_again_as(client, csrf="x" * 43).text
    assert by_password.staff_sessions.by_token(token).name == "dana"
    answer = sign_in_again_as(client, next="//evil.example")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert 'href="/"' in client.get("/sign-in-again?next=https://evil.example").text


def test_where_a_proxy_signs_in_no_password_is_asked(by_proxy: GatedSite) -> None:
    answer = by_proxy.visit().get("/sign-in-again?next=/person")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def ask_for(socket: Any, fragment: str) -> str:
    """The code that runs when a part of the page refreshes."""
    socket.send_bytes(BackMsg(rerun_script=ClientState(fragment_id=fragment, is_auto_rerun=True)).SerializeToString())
    return str(socket.receive_text())


def test_a_member_who_loses_the_role_gets_no_page_and_no_refresh(by_password: GatedSite) -> None:
    client = by_password.visit()
    sign_in(client)
    with connect(client) as socket:
        assert [ask_for(socket, "rows"), ask_for(socket, "rows")] == ["run rows"] * 2
        by_password.presence.set_staff("dana", "stats", by="root")
        by_password.forget()
        assert [ask_for(socket, "rows"), ask_for(socket, "rows")] == ["run everything", "run rows"]
        by_password.presence.remove_staff("dana", by="root")
        by_password.forget()
        assert [ask_for(socket, "rows"), ask_for(socket, "rows")] == ["run everything"] * 2
        for other in (b"", b"\xff\xff", BackMsg(clear_cache=True).SerializeToString()):
            socket.send_bytes(other)
        assert ask_for(socket, "rows") == "run everything", "what is no wish for a page is not even heard"
    answer = client.get("/", headers=PAGE)
    assert answer.status_code == 403
    assert texts.no_role("dana") in answer.text
    assert client.get("/").status_code == 403
    assert is_closed(client)
    refused = sign_in(by_password.visit())
    assert refused.status_code == 403
    assert texts.no_role("dana") in refused.text
    assert ("dana", "has no role") in by_password.audit()


SAME_AGAIN = ["add", "max", "--role", "viewer", "--password-stdin"]


@pytest.mark.parametrize(
    "commands",
    [
        [["password", "max", "--one-time"]],
        [["password", "max", "--password-stdin"]],
        [["remove", "max"], SAME_AGAIN],
    ],
    ids=["reset", "new password", "removed and added again"],
)
def test_the_command_ends_the_sign_ins_of_a_member_whose_password_it_changes(
    by_password: GatedSite, passwords: PasswordFile, monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]
) -> None:
    presence = by_password.presence
    presence.set_staff("max", "viewer", by="root")
    passwords.set("max", SECRET)
    client, other = by_password.visit(), by_password.visit()
    sign_in(client, "max")
    sign_in(other)
    for name, value in by_password.environ.items():
        monkeypatch.setenv(name, value)
    with connect(client) as socket:
        assert [ask_for(socket, "rows"), ask_for(socket, "rows")] == ["run rows"] * 2
        for command in commands:
            monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\n"))
            assert cli.main(["staff", *command]) == 0
        by_password.forget()
        assert ask_for(socket, "rows") == "run everything"
    assert client.get("/", headers=PAGE).headers["location"].startswith("/sign-in")
    assert client.get("/").status_code == 401
    assert client.get("/").text == texts.PASSWORD_CHANGED
    assert is_closed(client)
    assert other.get("/").status_code == 200
    if "--password-stdin" in commands[-1]:
        assert sign_in(client, "max").status_code == 303
        assert client.get("/").status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:9999", "null", None])
def test_a_websocket_from_a_page_of_another_site_is_refused(by_password: GatedSite, origin: str | None) -> None:
    client = by_password.visit()
    sign_in(client)
    assert not is_closed(client)
    assert is_closed(client, origin)


def test_another_host_name_is_refused(by_password: GatedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("evil.example", "localhost.evil.example", "", "localhost:8501, evil.example"):
        assert by_password.visit().get("/sign-in", headers={"host": host}).status_code == 421, host
    monkeypatch.setattr(st, "get_option", {"server.allowedHosts": ["*.example.com"]}.get)
    assert by_password.visit("https://online.example.com").get("/sign-in").status_code == 200
    assert by_password.visit("https://example.com").get("/sign-in").status_code == 421


def test_on_other_hosts_passwords_and_cookies_require_https(
    by_password: GatedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(st, "get_option", {"server.allowedHosts": ["online.example.com"]}.get)
    plain = sign_in(by_password.visit("http://online.example.com"))
    assert plain.status_code == 403
    assert texts.SIGN_IN_INSECURE in plain.text
    answer = sign_in(by_password.visit("https://online.example.com"))
    assert answer.status_code == 303
    assert "; secure" in answer.headers["set-cookie"].lower()
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\/evil", "javascript:alert(1)", "", "/a\nb",
     "/\t/e", "/" + "x" * 2000],
)  # fmt: skip
def test_a_sign_in_redirects_only_to_a_page_of_this_site(path: str) -> None:
    assert safe_next(path) == "/"


def test_a_form_redirects_only_within_this_site(by_password: GatedSite) -> None:
    assert sign_in(by_password.visit(), next="//evil.example/").headers["location"] == "/"
    client = by_password.visit()
    assert "evil" not in client.get("/sign-in?next=https://evil.example").text


def test_hostile_text_is_shown_as_plain_text(by_password: GatedSite) -> None:
    answer = sign_in(by_password.visit(), name='"><script>alert(1)</script>')
    assert "<script>" not in answer.text
    assert "&lt;script&gt;" in answer.text


# -- by a proxy -------------------------------------------------------------------------------------------------------


def test_a_trusted_proxy_signs_in_and_its_groups_give_the_first_role(by_proxy: GatedSite) -> None:
    client = by_proxy.visit()
    said = {"X-Forwarded-Email": "Eve@Example.com", "X-Groups": "desk, all", "X-Forwarded-For": "203.0.113.9"}
    assert client.get("/").status_code == 403, "the proxy names no one"
    assert client.get("/", headers=said).status_code == 401, "a session begins with a page"
    answer = client.get("/", headers=said | PAGE)
    assert answer.text == "inside /"
    assert client.get("/", headers=said).text == "inside /", "at once"
    member = by_proxy.presence.staff_member("eve@example.com")
    assert member is not None
    assert (member.role, member.by) == ("support", "sign-in by proxy")
    assert by_proxy.staff_sessions.sessions.sessions("eve@example.com")[0].ip == "203.0.113.9"
    assert "set-cookie" not in client.get("/", headers=said | PAGE).headers, "one session, not one a page"
    by_proxy.presence.set_staff("eve@example.com", "viewer", by="root")
    other = by_proxy.visit()
    other.get("/", headers=said | PAGE | {"X-Groups": "ops"})
    known = by_proxy.staff_sessions.by_token(other.cookies[COOKIE], fresh=True)
    assert known.role == "viewer", "from then on only the record counts"


def test_a_cookie_is_valid_only_for_the_name_that_the_proxy_sends(by_proxy: GatedSite) -> None:
    client = by_proxy.visit()
    client.get("/", headers=PAGE | {"X-Forwarded-Email": "dana"})
    hers = client.cookies[COOKIE]
    assert client.get("/", headers={"X-Forwarded-Email": "root"}).status_code == 401
    assert client.get("/", headers=PAGE | {"X-Forwarded-Email": "root"}).status_code == 200
    assert by_proxy.staff_sessions.by_token(hers).name == "dana"
    tokens = [cookie.value for cookie in client.cookies.jar if cookie.name == COOKIE]
    assert by_proxy.staff_sessions.by_token(tokens[-1]).name == "root"


def test_only_the_configured_proxies_are_trusted(by_proxy: GatedSite) -> None:
    headers = PAGE | {"X-Forwarded-Email": "root"}
    for peer in ("10.2.0.1", "127.0.0.1", "203.0.113.9", "testclient"):
        stranger = by_proxy.visit(peer=peer)
        assert stranger.get("/", headers=headers).status_code == 403
        assert stranger.get("/", headers=headers | {"X-Forwarded-For": "10.1.2.3"}).status_code == 403
        assert is_closed(stranger)


@pytest.mark.parametrize(
    "twice",
    [
        [("X-Forwarded-Email", "root"), ("X-Forwarded-Email", "dana")],
        [("X-Forwarded-Email", "root"), ("x-forwarded-EMAIL", "root")],
        [("X-Forwarded-Email", "root, dana"), ("X-Groups", "ops")],
        [("X-Forwarded-Email", ",eve"), ("X-Groups", "ops")],
        [("X-Forwarded-Email", "eve"), ("X-Groups", "nope"), ("X-Groups", "ops")],
        [("X-Forwarded-Email", "eve"), ("X-Groups", "ops"), ("x-gROUPS", "nope")],
        [("X-Groups", ""), ("X-Forwarded-Email", "eve"), ("X-Groups", "ops")],
        [("X-Forwarded-Email", "eve"), ("X-Groups", "ops"), ("X-Groups", "ops")],
    ],
)
def test_a_header_of_the_proxy_that_comes_twice_is_refused(by_proxy: GatedSite, twice: list[tuple[str, str]]) -> None:
    answer = by_proxy.visit().get("/", headers=[("accept", "text/html"), *twice])
    assert answer.status_code == 403, "a line of the client's own, and the proxy's"
    assert texts.PROXY_TWICE in answer.text
    assert COOKIE not in answer.cookies
    assert by_proxy.presence.staff_member("eve") is None
    signed_in = by_proxy.visit()
    signed_in.get("/", headers=PAGE | {"X-Forwarded-Email": "dana"})
    assert signed_in.get("/media/x.csv", headers=twice).status_code == 403


@pytest.mark.parametrize(
    "sent",
    [
        *(name.encode() for name in ("\u212aelvin@example.com", "kelvin@example.com\xa0", "\u3000kelvin@example.com")),
        b"kelvin@example.com\xa0",
        b"kelvin@example.com\x85",
        "\u0130".encode(),
    ],
)
def test_no_other_name_of_a_proxy_becomes_a_member_by_folding(by_proxy: GatedSite, sent: bytes) -> None:
    by_proxy.presence.set_staff("kelvin@example.com", "admin", by="root")
    headers = [(b"accept", b"text/html"), (b"x-forwarded-email", sent), (b"x-groups", b"ops")]
    assert by_proxy.visit().get("/", headers=headers).status_code in (400, 403)
    assert by_proxy.staff_sessions.sessions.counts().sessions == 0


def test_a_proxy_sends_names_in_utf_8(by_proxy: GatedSite) -> None:
    headers = [
        (b"accept", b"text/html"),
        (b"x-forwarded-email", "\xe9mile@Example.com".encode()),
        (b"x-groups", b"ops"),
    ]
    assert by_proxy.visit().get("/", headers=headers).status_code == 200
    assert by_proxy.presence.staff_member("\xe9mile@example.com") is not None


def test_a_person_without_a_role_or_removed_is_refused_and_audited(by_proxy: GatedSite) -> None:
    by_proxy.presence.remove_staff("dana", by="root")
    for name, groups in (("stranger", "all"), ("dana", "ops")):
        answer = by_proxy.visit().get("/", headers=PAGE | {"X-Forwarded-Email": name, "X-Groups": groups})
        assert answer.status_code == 403
        assert texts.no_role(name) in answer.text
    assert sorted(by_proxy.audit()) == [("dana", "has no role"), ("stranger", "has no role")]
    assert by_proxy.presence.staff_member("stranger") is None


# -- Redis away -------------------------------------------------------------------------------------------------------


def test_while_redis_is_down_sign_ins_are_refused_and_signed_in_staff_stay(
    tmp_path: Path, passwords: PasswordFile
) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    environ = {"PRESENCE_DASHBOARD_ACCESS": "password", "PRESENCE_STAFF_FILE": str(passwords.path)}
    with Server.start(binary, tmp_path) as server, Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        presence.set_staff("dana", "viewer", by="test")
        made = gated_site(presence, server.url, environ, passwords, "127.0.0.1")
        client = made.visit()
        sign_in(client)
        forms = [client.get("/sign-in-again?next=/person?q=ada"), made.visit().get("/sign-in?next=/person?q=ada")]
        with connect(client) as socket:
            server.kill()
            made.forget()
            assert ask_for(socket, "rows") == "run rows"
            assert client.get("/", headers=PAGE).status_code == 200, "known from a moment ago"
            with pytest.raises(Unavailable):
                made.staff_sessions.by_token(
                    client.cookies[COOKIE], fresh=True
                )  # an action is never allowed from the cache
            stranger = made.visit()
            stranger.cookies[COOKIE] = "never.seen-before.x" + "x" * 40
            away = stranger.get("/", headers=PAGE)
            assert (away.status_code, away.headers["refresh"]) == (503, "5")
            assert texts.AWAY_LEAD in away.text
            refused = stranger.post("/sign-in", data={}, headers={"origin": HOME})
            assert refused.status_code == 403
            assert sign_in_away(made) == 503
            for form in forms:
                address = re.search(r'action="([^"]+)"', form.text)
                assert address
                data = {"csrf": form.cookies[CSRF], "name": "dana", "password": SECRET}
                away = client.post(
                    address[1],
                    data=data,
                    headers={"origin": HOME, "cookie": f"{CSRF}={data['csrf']}; {COOKIE}={client.cookies[COOKIE]}"},
                )
                assert (away.status_code, away.headers["refresh"]) == (503, "5")
                assert away.url.params["next"] == "/person?q=ada", "a retry knows only the address"
        close(made)


def sign_in_away(made: GatedSite) -> int:
    client = made.visit()
    client.cookies[CSRF] = "x" * 43
    data = {"csrf": "x" * 43, "name": "dana", "password": SECRET}
    status: int = client.post("/sign-in", data=data, headers={"origin": HOME}).status_code
    return status
