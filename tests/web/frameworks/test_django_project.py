"""The Django app in a project of its own: system checks, ``manage.py presence`` and the tests of the site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from presence_core import Presence, Settings, Worker
from tests.support.soak import size
from tests.web.framework_pages.printed import blocks
from tests.web.frameworks.test_django import presence, server
from tests.web.frameworks.test_frameworks import DJANGO, ROOT

__all__ = ["presence", "server"]  # the fixtures


def run(directory: Path, *words: str, settings: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """``manage.py`` of a site with the settings of the document and these."""
    (directory / "mysettings.py").write_text(DJANGO + blocks("django")["settings.py"] + settings, "utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRESENCE_")}
    return subprocess.run(
        [sys.executable, "-m", "django", *words],
        cwd=directory, capture_output=True, text=True, check=False,
        env=inherited | environ | {"PYTHONPATH": os.pathsep.join([str(directory), str(ROOT)]),
                                   "DJANGO_SETTINGS_MODULE": "mysettings"},
    )  # fmt: skip


CHAIN = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
OURS = "presence_core.web.django.middleware.PresenceMiddleware"

MISTAKES: dict[str, tuple[str, str, bool]] = {
    "presence.E001": ("PRESENCE_REDIS_URL = ''", "PRESENCE_REDIS_URL must be set: to the URL of your Redis", True),
    "presence.E002": (
        "PRESENCE_REDIS_URL = 'http://sam:hunter2@x'",
        "PRESENCE_REDIS_URL is wrong: url must begin with redis://",
        True,
    ),
    "presence.E003": (f"MIDDLEWARE = {CHAIN}", "PresenceMiddleware is not in MIDDLEWARE", True),
    "presence.E004": (f"MIDDLEWARE = {[OURS, *CHAIN]}", "must come after AuthenticationMiddleware", True),
    "presence.E005": (
        "PRESENCE_YOUR_DEVICES = {'key': 'short'}",
        "PRESENCE_YOUR_DEVICES: key must be text or bytes of",
        True,
    ),
    "presence.W001": ("PRESENCE_RULE = {}", "PRESENCE_RULE is not a setting of presence.", False),
    "presence.W002": ("PRESENCE_RULES = {'cookie': 'sid'}", "cookie in PRESENCE_RULES has no effect.", False),
    "presence.W004": (f"MIDDLEWARE = {[*CHAIN[:2], OURS, CHAIN[2]]}", "should come after MessageMiddleware", False),
    "presence.W006": ("PRESENCE_REDIS_URL = 'embedded'", "PRESENCE_REDIS_URL is embedded.", False),
}


TOGETHER = [
    ["presence.E001", "presence.E003", "presence.E005", "presence.W001"],
    ["presence.E002", "presence.E004", "presence.W002"],
    ["presence.W004", "presence.W006"],
]
"""Mistakes that one site can make. A soak makes each alone."""


@pytest.mark.parametrize("ids", size(TOGETHER, [[id] for id in MISTAKES]), ids=" ".join)
def test_a_system_check_reports_each_mistake_in_one_sentence(ids: list[str], tmp_path: Path) -> None:
    made = "".join(f"{MISTAKES[id][0]}\n" for id in ids)
    url = "" if "REDIS_URL" in made else "PRESENCE_REDIS_URL = 'redis://127.0.0.1:1'\n"
    done = run(tmp_path, "check", "--deploy", "--tag=presence", settings=url + made)
    for id in ids:
        [line] = [line for line in done.stderr.splitlines() if f"({id}) " in line]
        assert MISTAKES[id][1] in line
    assert done.returncode == (1 if any(MISTAKES[id][2] for id in ids) else 0), done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_every_mistake_is_made() -> None:
    assert sorted(id for ids in TOGETHER for id in ids) == sorted(MISTAKES)


def test_a_site_without_mistakes_passes_the_system_checks(tmp_path: Path) -> None:
    urls = ("redis://127.0.0.1:1", "rediss://:hunter2@127.0.0.1:1", "redis+cluster://127.0.0.1:1")
    for url in size(urls[1:2], urls):
        done = run(tmp_path, "check", "--tag=presence", PRESENCE_REDIS_URL=url)
        assert (done.returncode, done.stdout, done.stderr) == (0, NO_ISSUES, "")


NO_ISSUES = "System check identified no issues (0 silenced).\n"


def test_the_check_of_a_deployment_says_whether_a_worker_runs(presence: Presence, tmp_path: Path) -> None:
    url = presence_url(presence)
    check, settings = ("check", "--deploy", "--tag=presence"), "PRESENCE_SETTINGS = {'namespace': 'checked'}\n"
    done = run(tmp_path, *check, settings=settings, PRESENCE_REDIS_URL=url)
    assert done.returncode == 0, done.stderr
    assert "?: (presence.W007) No worker has ever run here: sessions end on time, but memory" in done.stderr
    assert "HINT: Run presence worker, or Worker(presence) in a process of your own." in done.stderr
    with Presence.from_url(url, Settings("checked")) as site:
        Worker(site)._beat()
        done = run(tmp_path, *check, settings=settings, PRESENCE_REDIS_URL=url)
    assert (done.returncode, done.stdout) == (0, NO_ISSUES), done.stderr
    done = run(tmp_path, *check, "--fail-level=WARNING", PRESENCE_REDIS_URL="redis://:hunter2@127.0.0.1:1")
    assert done.returncode == 0, done.stderr
    assert "?: (presence.I001) It is unknown whether a worker runs: Redis at 127.0.0.1:1 cannot be" in done.stderr
    assert "hunter2" not in done.stderr


def test_manage_py_presence_runs_the_command_with_the_sites_settings(presence: Presence, tmp_path: Path) -> None:
    settings = f"PRESENCE_REDIS_URL = {presence_url(presence)!r}\nPRESENCE_SETTINGS = {{'namespace': 'shop'}}\n"
    with Presence.from_url(presence_url(presence), Settings("shop")) as shop:
        shop.login("ada", name="Ada Lovelace")
        done = run(tmp_path, "presence", "list", "--json", settings=settings, PRESENCE_NAMESPACE="other")
        assert [row["name"] for row in json.loads(done.stdout)["items"]] == ["Ada Lovelace"], done.stderr
        done = run(tmp_path, "presence", "kick", "ada", "--reason", "test", "--by", "sam", settings=settings)
        assert (done.returncode, shop.sessions("ada")) == (0, []), done.stderr
    done = run(tmp_path, "presence", "no-such-command", settings=settings)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    done = run(tmp_path, "presence", "counts", settings="PRESENCE_REDIS_URL = ''\n")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "PRESENCE_REDIS_URL must be set: to the URL of your Redis" in done.stderr


def presence_url(presence: Presence) -> str:
    options: dict[str, Any] = presence.internal.redis_client.connection_pool.connection_kwargs
    return f"redis://{options['host']}:{options['port']}"


PARALLEL = ("--parallel=2",)

OVERRIDE = """
from django.test import SimpleTestCase, override_settings
from presence_core.web.django.apps import get_presence

class OverrideTest(SimpleTestCase):
    def test_a_server_that_the_test_names_is_used(self):
        with override_settings(PRESENCE_REDIS_URL="redis://127.0.0.1:1", PRESENCE_SETTINGS={"namespace": "mine"}):
            self.assertEqual(get_presence().settings.namespace, "mine")
        self.assertTrue(get_presence().settings.namespace.startswith("test-"))
"""


@pytest.mark.parametrize(
    ("store", "words"),
    size([("embedded", PARALLEL), ("named", ())], [*product(("embedded", "named"), ((), PARALLEL))]),
)
def test_the_tests_of_a_site_never_touch_its_store(
    presence: Presence, server: Any, tmp_path: Path, store: str, words: tuple[str, ...]
) -> None:
    presence.login("1", name="a real visitor")
    before = sorted(server.command("KEYS", "*"))
    code = blocks("django")["tests.py"]
    for number in (1, 2):
        (tmp_path / f"test_{number}.py").write_text(code, "utf-8")
    (tmp_path / "test_3.py").write_text(OVERRIDE, "utf-8")
    (tmp_path / "url").write_text(server.url, "utf-8")
    settings, environ = (
        "PRESENCE_SETTINGS = {'namespace': 'site'}\n",
        {"PRESENCE_REDIS_URL_FILE": str(tmp_path / "url")},
    )
    if store == "named":
        environ, settings = {}, settings + f"PRESENCE_REDIS_URL = {server.url!r}\n"
        settings += f"PRESENCE_TEST_REDIS_URL = {server.url!r}\n"
    done = run(tmp_path, "test", *words, settings=settings, **environ)
    assert done.returncode == 0, done.stderr
    assert "Ran 5 tests" in done.stderr
    assert [session.name for session in presence.sessions("1")] == ["a real visitor"]
    others = [key for key in sorted(server.command("KEYS", "*")) if key not in before]
    assert all(key.startswith("{test-") for key in others)
    assert bool(others) == (store == "named")
