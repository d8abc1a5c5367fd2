"""Sessions that Django, django-redis, Flask-Session and starsessions write, mirrored and kicked."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import flask
import flask_session  # type: ignore[import-untyped]
import pytest
import starsessions
from redis.asyncio import Redis as AsyncRedis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starsessions.stores.redis import RedisStore

from presence_core import InvalidArgument
from presence_core.cli import main
from presence_core.mirror.stores import BY_NAME
from tests.contract.mirror.conftest import ALL, Site, scan, until

PROGRAM = Path(__file__).parents[2] / "support" / "programs" / "django_sessions.py"


class Browser(Protocol):
    """A visitor of a site."""

    def sign_in(self, who: str) -> None: ...
    def who(self) -> str: ...
    def sign_out(self) -> None: ...


class DjangoBrowser:
    def __init__(self, ask: Callable[[str], str]) -> None:
        self.ask, self.key = ask, ""

    def sign_in(self, who: str) -> None:
        self.key = self.ask(f"in {who}")

    def who(self) -> str:
        return self.ask(f"who {self.key}").replace("-", "")

    def sign_out(self) -> None:
        self.ask(f"out {self.key}")


class HttpBrowser:
    """Of Flask and of Starlette: their test clients keep cookies."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def _text(self, method: str, path: str) -> str:
        answer = getattr(self.client, method)(path)
        assert answer.status_code < 500
        return str(answer.text)

    def sign_in(self, who: str) -> None:
        self._text("post", f"/in/{who}")

    def who(self) -> str:
        return self._text("get", "/")

    def sign_out(self) -> None:
        self._text("post", "/out")


@pytest.fixture
def django_asks(request: pytest.FixtureRequest, site: Site) -> Any:
    words = [sys.executable, "-P", str(PROGRAM), site.url, *request.param]
    environ = {**os.environ, "DJANGO_SETTINGS_MODULE": ""}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        sent, answers = process.stdin, process.stdout
        assert answers.readline() == "ready\n"

        def ask(line: str) -> str:
            sent.write(line + "\n")
            sent.flush()
            return answers.readline().strip()

        yield ask
        sent.close()


def _follow(site: Site, store: str, browser: Browser, other: Browser) -> None:
    """A login, a logout, a kick and a new sign-in."""
    site.notify(ALL)
    mirror = site.mirror(store)
    scan(mirror)
    browser.sign_in("5")
    other.sign_in("6")
    until(mirror, lambda: site.presence.sessions("5") and site.presence.sessions("6"))
    assert mirror.reconciler.skipped == {}
    other.sign_out()
    until(mirror, lambda: not site.presence.sessions("6"))
    assert site.presence.ended("6").items[0].cause == "site"
    assert browser.who() == "5"
    site.presence.kick("5", by="sam", reason="test")
    until(mirror, lambda: browser.who() == "")
    until(mirror, lambda: not mirror.reconciler.pending)
    browser.sign_in("5")
    until(mirror, lambda: site.presence.sessions("5"))
    assert browser.who() == "5", "who signs in again is not signed out"


BACKENDS = ["django.core.cache.backends.redis.RedisCache", "django_redis.cache.RedisCache"]


@pytest.mark.parametrize("django_asks", [(backend, "cache") for backend in BACKENDS], indirect=True)
def test_sessions_of_django(site: Site, django_asks: Any) -> None:
    _follow(site, "django", DjangoBrowser(django_asks), DjangoBrowser(django_asks))


@pytest.mark.parametrize("django_asks", [(BACKENDS[0], "cached_db")], indirect=True)
def test_cached_db_is_refused_in_a_sentence(
    site: Site, django_asks: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", site.server.url)
    prefix = BY_NAME["django-cached-db"].prefix
    site.redis.set(f"{prefix}{'a' * 32}", pickle.dumps({"_auth_user_id": "5"}))
    for words in (["--store", "django-cached-db"], ["--store", "django"], ["--store", "django", "--once"]):
        assert main(["mirror", *words, "--from", site.url]) == 2
        assert "comes back from the database" in capsys.readouterr().err
    with pytest.raises(InvalidArgument, match="comes back"):
        site.mirror("django-cached-db")


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_sessions_of_flask_session(site: Site, form: str) -> None:
    app = flask.Flask(__name__)
    app.config.update(SESSION_TYPE="redis", SESSION_REDIS=site.redis, SESSION_SERIALIZATION_FORMAT=form)
    flask_session.Session(app)

    @app.post("/in/<who>")
    def sign_in(who: str) -> str:
        app.session_interface.regenerate(flask.session)  # type: ignore[attr-defined]
        flask.session["_user_id"] = who
        return "in"

    @app.post("/out")
    def sign_out() -> str:
        flask.session.clear()
        return "out"

    @app.get("/")
    def who() -> str:
        return str(flask.session.get("_user_id", ""))

    _follow(site, "flask", HttpBrowser(app.test_client()), HttpBrowser(app.test_client()))


async def _sign_in(request: Request) -> PlainTextResponse:
    request.session["user_id"] = request.path_params["who"]
    return PlainTextResponse("in")


async def _sign_out(request: Request) -> PlainTextResponse:
    request.session.clear()
    return PlainTextResponse("out")


async def _who(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.session.get("user_id", ""))


def test_sessions_of_starsessions(site: Site) -> None:
    """It keeps a deleted id for the next sign-in of the browser."""
    routes = [Route("/in/{who}", _sign_in, methods=["POST"]), Route("/out", _sign_out, methods=["POST"]),
              Route("/", _who)]  # fmt: skip
    connection = AsyncRedis.from_url(site.url)
    app: Any = Starlette(routes=routes)
    app.add_middleware(starsessions.SessionAutoloadMiddleware)
    app.add_middleware(
        starsessions.SessionMiddleware, store=RedisStore(connection=connection), cookie_https_only=False, lifetime=3600
    )
    with TestClient(app) as client:
        other = TestClient(app)
        other.portal = client.portal
        _follow(site, "starsessions", HttpBrowser(client), HttpBrowser(other))
        assert client.portal is not None
        client.portal.call(connection.aclose)
