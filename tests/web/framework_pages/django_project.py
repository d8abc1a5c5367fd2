"""The project of docs/use/frameworks/django.md, made as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.web.framework_pages.printed import ROOT, blocks
from tests.web.framework_pages.walk import PASSWORD

USERS = ("ada", "eve")
"""Their ids are 1 and 2."""

_QUICK = 'PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]\n'
"""Else each sign-in takes a third of a second."""

_PREPARE = f"""
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.contrib.auth.models import User
for who in {USERS}:
    User.objects.create_superuser(who, password="{PASSWORD}")
"""


def make_project(directory: Path, environ: Mapping[str, str]) -> None:
    """Start the project, write ``mysite/settings.py`` and ``mysite/urls.py`` as printed, and make tables and users."""
    environ = {**os.environ, **environ, "PYTHONPATH": str(ROOT)}

    def run(*words: str, **more: str) -> None:
        subprocess.run(
            [sys.executable, *words], cwd=directory, env=environ | more, check=True, capture_output=True
        )  # fmt: skip

    run("-m", "django", "startproject", "mysite", ".")
    printed, site = blocks("django"), directory / "mysite"
    with (site / "settings.py").open("a", encoding="utf-8") as settings:
        settings.write(printed["settings.py"] + _QUICK)
    (site / "urls.py").write_text(printed["urls.py"], "utf-8")
    run("-c", _PREPARE, DJANGO_SETTINGS_MODULE="mysite.settings")


def sign_in(browser: Any, who: str, path: str = "/", password: str = PASSWORD) -> httpx.Response:
    """By the form of the page, with its CSRF token."""
    address = f"/sign-in?next={path}"
    form = browser.ask("GET", address)
    if form.status_code == 302:  # the session that this browser had was kicked
        address = form.headers["location"]
        form = browser.ask("GET", address)
    fields = {"username": who, "password": password, **token_of(form.text)}
    answer: httpx.Response = browser.ask("POST", address, fields)
    return answer


def sign_out(browser: Any) -> httpx.Response:
    """By the form of the page; a visitor who is signed out has the token of the sign-in."""
    shown = browser.ask("GET", "/")
    form = shown if shown.status_code == 200 else browser.ask("GET", "/sign-in")
    answer: httpx.Response = browser.ask("POST", "/sign-out", token_of(form.text))
    return answer


def token_of(form: str) -> dict[str, str]:
    """The CSRF token of a form, as a field."""
    return dict(re.findall(r'name="(csrfmiddlewaretoken)" value="(\w+)"', form)[:1])
