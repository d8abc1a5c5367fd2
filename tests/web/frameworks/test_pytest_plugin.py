"""The pytest plugin: docs/use/testing.md runs as printed, and a run without it imports nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from presence_core import InvalidArgument, Presence
from presence_core.testing import Clock, new_namespace
from tests.conftest import Bed, on
from tests.support.facade import P

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/use/testing.md"
BLOCKS = dict(re.findall(r"^```python (\S+)\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S))

DJANGO = """
import pytest
from django.conf import settings
from django.http import HttpResponse
from django.urls import path

urlpatterns = [path("me", lambda request: HttpResponse(request.presence_session.uid))]
settings.configure(
    SECRET_KEY="only for this test", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], USE_TZ=True, LOGIN_URL="/sign-in",
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                    "presence_core.web.django"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "presence_core.web.django.middleware.PresenceMiddleware"],
)
import django
django.setup()

@pytest.fixture
def db():
    "Stands in for the fixture of pytest-django."
    from django.core.management import call_command
    call_command("migrate", verbosity=0)
"""


def run_pytest(directory: Path, *arguments: str, plugin: str = "pytest_presence") -> str:
    """Run the tests in this directory in a process of its own, as a site does. Returns what it printed."""
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:schemathesis", "-p", "no:valkey", "-v"]
    path = os.pathsep.join([str(directory), str(ROOT)])
    done = subprocess.run(
        [*command, *arguments], cwd=directory, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(directory: Path, *names: str) -> Path:
    directory.mkdir()
    for name in names:
        (directory / name).write_text(BLOCKS[name], "utf-8")
    return directory


def test_the_page_on_testing_runs_as_it_is_printed(tmp_path: Path) -> None:
    plain = ("test_login.py", "test_time.py", "shop.py", "test_shop.py", "test_unittest.py")
    for_django = ("conftest.py", "test_accounts.py")
    assert BLOCKS.keys() == {*plain, *for_django}
    tests = sum(len(re.findall(r"def test_", BLOCKS[name])) for name in plain)
    assert f"{tests} passed" in run_pytest(write(tmp_path / "plain", *plain))
    directory = write(tmp_path / "django", *for_django)
    (directory / "mysite.py").write_text(DJANGO, "utf-8")
    assert "1 passed" in run_pytest(directory, "-p", "mysite")


USES = """
import anyio, asyncio, os, pytest
from presence_core import AsyncPresence, Presence, Settings

seen = set()

@pytest.fixture
def presence_settings():
    return Settings(namespace="ignored", idle_timeout=60, facets=("plan",))

@pytest.mark.parametrize("turn", range(3))
def test_a_namespace_is_empty_and_has_the_settings(presence, turn):
    assert presence.counts().sessions == 0
    assert presence.settings.facets == ("plan",)
    assert presence.login("ada").session.idle_timeout == 60
    seen.add(presence.settings.namespace)
    assert len(seen) == turn + 1

def test_one_client_serves_several_event_loops(presence, async_presence):
    async def visits():
        logins = await asyncio.gather(*(async_presence.login(f"u{n}") for n in range(20)))
        return await asyncio.gather(*(async_presence.validate(login.token) for login in logins))

    for _ in range(3):
        assert all(asyncio.run(visits()))
    assert presence.counts().sessions == 60

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_asyncio_plugin_awaits_it(async_presence, presence_clock, anyio_backend):
    token = (await async_presence.login("ada")).token
    presence_clock.advance(59)
    assert await async_presence.validate(token, touch=False)
    presence_clock.advance(1)
    assert not await async_presence.validate(token)

def test_a_site_reads_the_environment(presence, presence_environ):
    with Presence.from_env() as site:
        site.login("ada")
    assert presence.is_online("ada")
    assert os.environ["PRESENCE_NAMESPACE"] == presence.settings.namespace

def test_the_environment_is_as_before():
    assert "PRESENCE_NAMESPACE" not in os.environ
"""


def test_each_test_has_an_empty_namespace_also_in_parallel(tmp_path: Path) -> None:
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(USES, "utf-8")
    assert "14 passed" in run_pytest(tmp_path, "-n", "2", "--dist", "loadfile")


UNUSED = """
import sys

def test_nothing_is_imported():
    assert "pytest_presence" in sys.modules
    assert not [name for name in sys.modules if name.partition(".")[0] in ("presence_core", "redis")]
"""


def test_a_run_that_uses_no_fixture_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_unused.py").write_text(UNUSED, "utf-8")
    assert "1 passed" in run_pytest(tmp_path)


def test_the_entry_point_names_the_plugin_and_the_page_its_fixtures() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    [name] = project["project"]["entry-points"]["pytest11"].values()
    plugin = import_module(name)
    assert plugin.__file__ == str(ROOT / "pytest_presence.py")
    fixtures = {name for name in vars(plugin) if name.endswith("presence") or name.startswith("presence_")}
    rows = re.findall(r"^- `.+$", PAGE.read_text("utf-8"), re.M)
    assert fixtures == {name for row in rows for name in re.findall(r"`(\w*presence|presence_\w+)`", row)}
    targets = project["tool"]["hatch"]["build"]["targets"]
    assert "pytest_presence.py" in targets["wheel"]["force-include"]
    assert "pytest_presence.py" in targets["sdist"]["only-include"]


# -- the clock --------------------------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-sync", "cluster-sync")
def test_the_clock_stops_and_moves_for_the_clients_that_follow_it(p: P, bed: Bed) -> None:
    clock, other = Clock(p), bed.connect()
    running = p.login("ada").session.login_at
    at = clock.freeze()
    assert abs(at - running) < timedelta(minutes=1)
    assert [p.login("ada").session.login_at for _ in range(2)] == [at, at]
    token = p.login("ada").token
    assert clock.advance(1800) == clock.now == at + timedelta(minutes=30)
    assert other.validate(token, touch=False), "the other one has the time of the server"
    ended = p.validate(token).ended
    assert ended is not None
    assert (ended.at, ended.cause) == (at + timedelta(minutes=30), "idle")
    clock.follow(other)
    assert not other.validate(token)


def test_a_running_clock_can_always_be_stopped() -> None:
    for _ in range(20_000):  # one in some thousands fell between two milliseconds
        Clock().freeze()
        Clock().advance(0)


def test_the_clock_goes_forward_only(p: P) -> None:
    clock = Clock(p)
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=400)
    assert clock.freeze(later) == later
    assert p.login("ada").session.login_at == later
    for at in (later - timedelta(milliseconds=1), 1.0):
        with pytest.raises(InvalidArgument, match="at must not be before the time that the clock shows"):
            clock.freeze(at)
    bad: list[Any] = [-1, "1", True]
    for seconds in bad:
        with pytest.raises(InvalidArgument, match="seconds must be 0 to"):
            clock.advance(seconds)
    assert clock.now == later


def test_namespaces_of_tests_differ_and_are_valid() -> None:
    with Presence.from_url("redis://127.0.0.1:1") as presence:
        assert presence.settings.namespace == "online"
    assert len({new_namespace() for _ in range(100)}) == 100
