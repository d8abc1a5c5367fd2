"""The whole sites of docs/use/frameworks run as they are printed, in a process of their own, and so do their tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from presence_core import Presence, Settings
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, free_port, missing, redis_binary, valkey_binary
from tests.web.framework_pages.printed import blocks
from tests.web.framework_pages.walk import walk
from tests.web.frameworks.test_frameworks import running
from tests.web.frameworks.test_pytest_plugin import run_pytest


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("pages")) as running:
        yield running


@pytest.fixture
def presence(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Presence]:
    """Its server is that of the environment: of the site, and of the commands of staff."""
    server.command("FLUSHALL")
    for name, value in {"PRESENCE_REDIS_URL": server.url, "SITE_KEY": "k" * 32, "USER": "sam"}.items():
        monkeypatch.setenv(name, value)
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as client:
        yield client


PROGRAMS = {
    "fastapi": "uvicorn mysite:app --port=PORT",
    "asgi_wsgi": "uvicorn mysite:app --port=PORT",
    "flask": "flask --app mysite run --port=PORT",
}
"""Page → how its site is started."""


@pytest.mark.parametrize("page", PROGRAMS)
def test_the_site_of_the_page_runs_as_it_is_printed(
    page: str, server: Server, presence: Presence, tmp_path: Path
) -> None:
    (tmp_path / "mysite.py").write_text(blocks(page)["mysite.py"], "utf-8")
    port = free_port()
    words = PROGRAMS[page].replace("PORT", str(port)).split()
    with running(*words, directory=tmp_path, port=port, server=server):
        walk(page, port, presence, websocket=page != "flask")


@pytest.mark.parametrize("page", PROGRAMS)
def test_the_test_of_the_page_passes(page: str, tmp_path: Path) -> None:
    for name in ("mysite.py", "test_mysite.py"):
        (tmp_path / name).write_text(blocks(page)[name], "utf-8")
    assert "1 passed" in run_pytest(tmp_path)


CELERY = """
class Celery:
    def __init__(self, name, broker):
        pass

    def task(self, **options):
        return lambda function: function
"""
"""The part of Celery that the page uses."""


def test_the_task_of_the_page_stops_after_a_kick(tmp_path: Path) -> None:
    printed = blocks("channels_celery")
    assert set(printed) == {"asgi.py", "tasks.py", "test_tasks.py"}  # asgi.py: test_django_connections
    for name, code in (("celery.py", CELERY), *printed.items()):
        (tmp_path / name).write_text(code, "utf-8")
    assert "1 passed" in run_pytest(tmp_path)
