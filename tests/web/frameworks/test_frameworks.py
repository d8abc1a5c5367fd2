"""The lines of docs/use/frameworks/jwt.md, and what the sites of the frameworks share, on real servers."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import fastapi
import flask
import httpx
import pytest
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.testclient import TestClient
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from presence_core import InvalidArgument, LoginRefused, Presence, Settings
from presence_core.web import asgi, wsgi
from presence_core.web.rules import Rules
from tests.support.fair_clock import PATIENT
from tests.support.servers import HOST, Server, free_port, missing, redis_binary, valkey_binary, wait_for
from tests.web.framework_pages.printed import blocks

ROOT = Path(__file__).parents[3]
BLOCKS = blocks("jwt")
SITES = {page: blocks(page)["mysite.py"] for page in ("fastapi", "flask")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("frameworks")) as running:
        yield running


@pytest.fixture
def presence(server: Server) -> Iterator[Presence]:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as client:
        yield client


def ask(
    port: int | str, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    """port: of this machine, or the path of a Unix socket."""
    connection = http.client.HTTPConnection(HOST, port if isinstance(port, int) else None, timeout=30)
    try:
        if isinstance(port, str):
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(port)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def is_up(port: int | str) -> bool:
    try:
        ask(port, "GET", "/sign-in")
    except OSError:
        return False
    return True


@contextmanager
def running(
    *arguments: str,
    directory: Path,
    port: int | str,
    server: Server,
    program: Sequence[str] = (sys.executable, "-m"),
    **environ: str,
) -> Iterator[None]:
    path = os.pathsep.join([str(directory), str(ROOT)])
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*program, *arguments],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": path, "PRESENCE_REDIS_URL": server.url, **environ},
            stdout=output,
            stderr=output,
        )
    try:
        wait_for("the site", lambda: is_up(port))
        yield
    finally:
        process.terminate()
        process.wait(30)
    assert "Traceback" not in log.read_text()


def test_every_block_of_the_page_is_tested_and_short() -> None:
    assert set(BLOCKS) == {"jwt", "refresh", "tabs", "webhooks", "receiver"}
    for name, block in BLOCKS.items():
        lines = [line for line in block.splitlines() if line and not line.startswith(("import ", "from "))]
        assert len(lines) <= 24, name


@pytest.mark.soak
def test_a_visitor_over_a_unix_socket_has_no_address(server: Server, presence: Presence, tmp_path: Path) -> None:
    (tmp_path / "mysite.py").write_text(SITES["fastapi"], "utf-8")
    path, form = str(tmp_path / "s"), urlencode({"who": "ada", "password": "correct horse"})
    with running(
        "uvicorn", "mysite:app", f"--uds={path}", directory=tmp_path, port=path, server=server, SITE_KEY="k" * 32
    ):
        status, headers, _ = ask(path, "POST", "/sign-in", form, content_type="application/x-www-form-urlencoded")
        assert status == 303
        assert ask(path, "GET", "/", cookie=headers["Set-Cookie"].partition(";")[0])[0] == 200
        [session] = presence.sessions("ada")
        assert (session.ip, session.last_ip) == (None, None)


def lines(framework: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    monkeypatch.setenv("SITE_KEY", "k" * 32)
    site: dict[str, Any] = {"__name__": "mysite"}
    exec(compile(SITES[framework], f"docs/use/frameworks/{framework}.md", "exec"), site)
    return site


def run_in(client: TestClient, close: Any) -> None:
    assert client.portal is not None
    client.portal.call(close)


def test_a_site_is_tested_with_the_test_client_of_its_framework(
    server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers: dict[str, Any] = {"ada": ("testclient", 1), "eve": None}  # None: of a Unix socket
    for who, peer in peers.items():
        site = lines("fastapi", server, monkeypatch)
        with TestClient(site["app"], base_url="https://testserver", client=peer) as client:
            form = {"who": who, "password": "correct horse"}
            assert f"Hello {who}." in client.post("/sign-in", data=form).text
            run_in(client, site["presence"].close)
    site = lines("flask", server, monkeypatch)
    form = {"who": "ada", "password": "correct horse"}
    answer = site["app"].test_client().post("/sign-in", data=form, environ_overrides={"REMOTE_ADDR": ""})
    assert answer.status_code == 303, "gunicorn --bind unix:"
    site["presence"].close()
    assert [session.ip for who in peers for session in presence.sessions(who)] == [None, None, None]


def test_flask_answers_a_refused_login_with_a_problem_if_the_site_asks_for_it(presence: Presence) -> None:
    app = flask.Flask("site")
    rules = Rules(public=("/sign-in",))
    app.wsgi_app = wsgi.PresenceMiddleware(app.wsgi_app, presence, rules=rules)  # type: ignore[method-assign]
    app.register_error_handler(LoginRefused, wsgi.login_refused)

    @app.post("/sign-in")
    def begin() -> flask.Response:
        response = flask.Response()
        wsgi.sign_in(response, flask.request, "finn")
        return response

    presence.block("finn", by="sam", reason="test", message="Your account is on hold.")
    answer = app.test_client().post("/sign-in")
    assert (answer.status_code, answer.headers["Content-Type"]) == (403, "application/problem+json")
    assert answer.json is not None
    assert (answer.json["code"], answer.json["block"]["until"]) == ("blocked", None)
    assert answer.json["message"] == "Your account is on hold. Signing in is blocked until our staff unblock it."


@pytest.mark.parametrize("place", ["inside", "outside"])
def test_a_page_of_another_origin_passes_its_preflight(
    server: Server, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    site = lines("fastapi", server, monkeypatch)
    cors = Middleware(CORSMiddleware, allow_origins=["https://shop.example"], allow_credentials=True)
    site["app"].user_middleware.insert(0 if place == "outside" else 1, cors)
    headers = {"Origin": "https://shop.example", "Access-Control-Request-Method": "GET"}
    with TestClient(site["app"]) as client:
        answer = client.options("/", headers=headers)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, "https://shop.example")
        refused = client.get("/", headers={"Origin": "https://shop.example"}, follow_redirects=False)
        assert (refused.status_code, "Access-Control-Allow-Origin" in refused.headers) == (303, place == "outside")
        run_in(client, site["presence"].close)


SOCKET = """
from presence_core import AsyncPresence
from presence_core.web.asgi import PresenceMiddleware

async def site(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": scope["presence.session"].uid})
        await receive()

app = PresenceMiddleware(site, AsyncPresence.from_env())
"""


def test_a_websocket_client_learns_the_reason_from_the_close_code(
    server: Server, presence: Presence, tmp_path: Path
) -> None:
    (tmp_path / "mysite.py").write_text(SOCKET, "utf-8")
    port, token = free_port(), presence.login("wes").token
    url, headers = f"ws://{HOST}:{port}/", {"Authorization": f"Bearer {token}"}
    arguments = ["uvicorn", "mysite:app", f"--port={port}"]
    with running(*arguments, directory=tmp_path, port=port, server=server):
        with connect(url, additional_headers=headers, proxy=None) as socket:
            assert socket.recv(timeout=20) == "wes"
        presence.kick("wes", by="sam", reason="test")
        with connect(url, additional_headers=headers, proxy=None) as socket:
            with pytest.raises(ConnectionClosedError) as closed:
                socket.recv(timeout=20)
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4401, "kicked")


DJANGO = """
SECRET_KEY = "only for this test, and as long as Django wants it to be"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "tests.web.frameworks.django_site"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                  "django.contrib.messages"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware",
              "django.contrib.auth.middleware.AuthenticationMiddleware",
              "django.contrib.messages.middleware.MessageMiddleware"]
LOGIN_URL = "/sign-in"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
"""


PREPARE = """
import django
from django.core.management import call_command

django.setup()
call_command("migrate", verbosity=0)
call_command("createsuperuser", interactive=False, username="ada", email="a@example.org")
"""


ENVIRON = {"DJANGO_SETTINGS_MODULE": "mysettings", "DJANGO_SUPERUSER_PASSWORD": "secret"}


def test_the_lines_for_jwt(server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    site: dict[str, Any] = {"KEY": "a key of at least thirty-two bytes, as HS256 wants"}
    exec(compile(BLOCKS["jwt"], "docs/use/frameworks/jwt.md", "exec"), site)
    try:
        token = site["issue"]("jay")
        before = presence.sessions("jay")[0].last_seen
        assert site["check"](token)["sub"] == "jay"
        wait_for("the heartbeat", lambda: presence.sessions("jay")[0].last_seen > before)
        presence.kick("jay", by="sam", reason="test")
        [end] = presence.ended("jay")
        wait_for("the cache", lambda: site["revoked"].is_revoked(end.session_id))
        with pytest.raises(PermissionError, match="This session has ended"):
            site["check"](token)
        old = site["issue"]("jay")
        presence.revoke_before(by="sam", reason="test")
        session = presence.login("jay").session
        wait_for("the cache", lambda: site["revoked"]._ended.watermark > 0)
        with pytest.raises(PermissionError, match="This session has ended"):
            site["check"](old)
        third = site["issue"]("jay")
        assert site["check"](third)["jti"] != session.session_id
        count = len(presence.sessions("jay"))
        fourth = site["issue"]("jay", third)  # a second sign-in of the same browser
        assert len(presence.sessions("jay")) == count

        def is_refused() -> bool:  # once the cache knows of the end
            try:
                return not site["check"](third)
            except PermissionError:
                return True

        wait_for("the cache", is_refused)
        site["sign_out"](fourth)
        assert len(presence.sessions("jay")) == count - 1
        for anonymous in ("", "junk", fourth[:-3]):
            site["sign_out"](anonymous)
            with pytest.raises(PermissionError, match="Please sign in"):
                site["check"](anonymous)
        presence.block("jay", by="sam", reason="test", message="On hold.")
        with pytest.raises(LoginRefused, match="On hold"):
            site["issue"]("jay")
    finally:
        site["revoked"].close()
        site["presence"].close()


def test_the_lines_for_several_tabs(server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    monkeypatch.setenv("PRESENCE_ROTATE_GRACE", "30")
    site: dict[str, Any] = {}
    exec(compile(BLOCKS["tabs"], "docs/use/frameworks/jwt.md, tabs", "exec"), site)

    async def refresh(tokens: list[str]) -> list[str]:
        """Refresh in all tabs at once."""
        transport = httpx.ASGITransport(site["app"])
        async with httpx.AsyncClient(transport=transport, base_url="https://shop.example") as browser:
            cookies = [{"cookie": f"presence={token}"} for token in tokens]
            answers = await asyncio.gather(*(browser.post("/refresh", headers=cookie) for cookie in cookies))
        assert [answer.status_code for answer in answers] == [200] * len(tokens)
        return [answer.headers["set-cookie"].partition(";")[0].removeprefix("presence=") for answer in answers]

    async def visits(token: str) -> list[list[str]]:
        found = [await refresh([token] * 5)]
        found.append(await refresh([*found[0], found[0][0]]))
        found.append(await refresh([found[1][3]]))
        await site["presence"].close()
        return found

    login = presence.login("tab")
    for tokens in asyncio.run(visits(login.token)):
        assert len({login.token, *tokens}) == 1 + len(tokens)
        assert {presence.validate(token).code for token in tokens} == {"live"}
    assert presence.validate(login.token).code == "unknown", "two rotates reach, and this is the third"


def test_the_lines_for_refresh_tokens(server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    site: dict[str, Any] = {"KEY": "a key of at least thirty-two bytes, as HS256 wants"}
    for block in ("jwt", "refresh"):
        exec(compile(BLOCKS[block], f"docs/use/frameworks/jwt.md, {block}", "exec"), site)
    try:
        first, access = site["sign_in"]("ray")
        [session] = presence.sessions("ray")
        assert session.idle_timeout == 30 * 86_400
        second, renewed = site["refresh"](first)
        assert [site["check"](token)["jti"] for token in (access, renewed)] == [session.session_id] * 2
        assert site["check"](renewed)["auth_time"] == session.login_at.timestamp()
        tokens = [second]

        def is_seen_by_a_refresh() -> bool:  # in a later millisecond
            tokens.append(site["refresh"](tokens[-1])[0])
            return presence.sessions("ray")[0].last_seen > session.last_seen

        wait_for("the heartbeat of a refresh", is_seen_by_a_refresh)
        with pytest.raises(PermissionError, match="This session has ended"):
            site["refresh"](first)  # used before
        presence.kick("ray", by="sam", reason="test")
        with pytest.raises(PermissionError, match="This session has ended"):
            site["refresh"](tokens[-1])
        wait_for("the cache", lambda: site["revoked"].is_revoked(session.session_id))
        token, _ = site["sign_in"]("ray")
        token, _ = site["sign_in"]("ray", token)
        assert len(presence.sessions("ray")) == 1, "a second sign-in of the same browser"
        site["end"](token)
        assert presence.sessions("ray") == []
        for anonymous in ("", token):
            site["end"](anonymous)
            with pytest.raises(PermissionError, match="This session has ended"):
                site["refresh"](anonymous)
        presence.block("ray", by="sam", reason="test", message="On hold.")
        with pytest.raises(LoginRefused, match="On hold"):
            site["sign_in"]("ray")
    finally:
        site["revoked"].close()
        site["presence"].close()


def test_the_lines_for_webhooks_remove_only_the_kicked_users_token(
    server: Server, presence: Presence, tmp_path: Path
) -> None:
    did: list[tuple[str, ...]] = []
    names: dict[str, Any] = {
        "presence": presence, "secret": "a secret that only two know", "refuse": lambda: did.append(("refused",)),
        "once": lambda delivery_id, act: act(), "check_all_refresh_tokens": lambda: did.append(("check all",)),
        "drop_refresh_token": lambda uid, session_id: did.append((uid, session_id)),
    }  # fmt: skip
    receive = compile(BLOCKS["receiver"], "docs/use/frameworks/jwt.md, receiver", "exec")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                exec(receive, names | {"headers": self.headers, "body": body})
                self.send_response(204)
            except Exception as error:
                did.append((repr(error),))
                self.send_response(500)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    first, second = (presence.login("wanda").session.session_id for _ in range(2))

    def site_runs() -> None:
        presence.kick("wanda", first, by="sam", reason="test")
        presence.block("wanda", by="sam", reason="test")
        presence.unblock("wanda", by="sam", reason="test")
        presence.revoke_before(by="sam", reason="test")
        wait_for("the revocation", lambda: ("check all",) in did)
        presence.kick("wanda", presence.login("wanda", session_id="third-one").session.session_id, by="sam", reason="t")
        wait_for("the last kick", lambda: ("wanda", "third-one") in did)

    with ThreadingHTTPServer((HOST, 0), Handler) as receiver:
        threading.Thread(target=receiver.serve_forever, args=(0.05,), daemon=True).start()
        try:
            block = BLOCKS["webhooks"].replace("/var/lib/site/webhooks", str(tmp_path)).replace("...", "site_runs()")
            block = block.replace("https://tokens.example/hook", f"http://{HOST}:{receiver.server_port}/hook")
            exec(compile(block, "docs/use/frameworks/jwt.md, webhooks", "exec"), names | {"site_runs": site_runs})
        finally:
            receiver.shutdown()
    assert ("wanda", second) not in did, "the other device was not kicked"
    assert sorted(set(did)) == sorted([("wanda", first), ("check all",), ("wanda", "third-one")])


def test_the_library_needs_no_framework() -> None:
    modules = [
        "asgi",
        "wsgi",
        "middleware.request_check",
        "rules",
        "cookies",
        "jwt",
        "webhooks",
        "webhooks.signing",
        "proxies",
    ]
    code = (
        f"import sys, {', '.join(f'presence_core.web.{module}' for module in modules)}\n"
        "found = {'flask', 'django', 'fastapi', 'starlette', 'jwt', 'werkzeug', 'uvicorn'} & set(sys.modules)\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_an_application_of_the_other_kind_is_refused_at_start(presence: Presence) -> None:
    async def bare_asgi(scope: Any, receive: Any, send: Any) -> None: ...

    flask_app = flask.Flask("site")
    for app in (fastapi.FastAPI(), bare_asgi):
        with pytest.raises(InvalidArgument, match=r"^app must be a WSGI application, not an ASGI one: .*web\.asgi\.$"):
            wsgi.PresenceMiddleware(app, presence)  # type: ignore[arg-type]
        asgi.PresenceMiddleware(app, presence)
    for wsgi_app in (flask_app, flask_app.wsgi_app, lambda environ, start_response: [b""]):
        with pytest.raises(InvalidArgument, match=r"^app must be an ASGI application, not a WSGI one: .*web\.wsgi\.$"):
            asgi.PresenceMiddleware(wsgi_app, presence)  # type: ignore[arg-type]
        wsgi.PresenceMiddleware(wsgi_app, presence)
