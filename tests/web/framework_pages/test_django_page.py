"""The project of docs/use/frameworks/django.md runs as it is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from presence_core import Presence, cli
from tests.support.servers import HOST, Server, free_port
from tests.support.soak import size
from tests.web.framework_pages.django_project import make_project, sign_in, token_of
from tests.web.framework_pages.printed import ROOT, staff_commands
from tests.web.framework_pages.test_site_pages import presence, server
from tests.web.framework_pages.walk import Browser
from tests.web.frameworks.test_frameworks import running

__all__ = ["presence", "server"]  # the fixtures

PROGRAMS = {
    "wsgi": "manage.py runserver --noreload HOST:PORT",
    "asgi": "-m uvicorn mysite.asgi:application --lifespan=off --host=HOST --port=PORT",
}


def manage(directory: Path, *words: str, answers: str | None = None) -> str:
    """Run manage.py; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "manage.py", *words], cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True, input=answers, text=True, check=True, capture_output=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("interface", size(["wsgi"], list(PROGRAMS)))
def test_the_project_of_the_page_runs_as_it_is_printed(
    interface: str, server: Server, presence: Presence, tmp_path: Path
) -> None:
    make_project(tmp_path, {})
    port = free_port()
    words = PROGRAMS[interface].replace("HOST", HOST).replace("PORT", str(port)).split()
    with running(*words, program=(sys.executable,), directory=tmp_path, port=port, server=server):
        browser = Browser(port)
        assert browser.ask("GET", "/").headers["location"] == "/sign-in?next=/"
        assert sign_in(browser, "ada", password="wrong").status_code == 200, "the form again"
        assert sign_in(browser, "ada", "//evil.example/").headers["location"] == "/"
        assert sign_in(browser, "ada", "/devices/").headers["location"] == "/devices/"
        [session] = presence.sessions("1")
        assert (session.name, session.ip, session.user_agent) == ("ada", HOST, "Firefox")
        assert "This device" in browser.ask("GET", "/devices/").text
        home = browser.ask("GET", "/")
        assert "Hello ada." in home.text
        assert browser.ask("POST", "/sign-out").status_code == 403, "a form of another site"
        assert browser.ask("POST", "/sign-out", token_of(home.text)).headers["location"] == "/sign-in"
        assert presence.sessions("1") == []

        sign_in(browser, "ada")
        new = manage(tmp_path, "changepassword", "ada", answers="battery staple\nbattery staple\n")
        assert "changed successfully" in new
        assert presence.ended("1").items[0].by == "manage.py changepassword"
        sign_in(browser, "ada", password="battery staple")
        kick, block = staff_commands("django")
        manage(tmp_path, *kick)
        refused = browser.ask("GET", "/", Accept="application/json")
        assert (refused.status_code, json.loads(refused.text)["message"]) == (401, "Please call us.")
        sign_in(browser, "ada", password="battery staple")
        assert cli.main(kick[1:]) == 0
        assert browser.ask("GET", "/").headers["location"] == "/sign-in?next=/"
        assert "Please call us." in browser.ask("GET", "/sign-in?next=/").text
        assert cli.main(block[1:]) == 0
        blocked = sign_in(browser, "ada", password="battery staple")
        assert (blocked.status_code, presence.sessions("1")) == (403, [])
        assert "Your account is on hold. Signing in is blocked until 2" in blocked.text
