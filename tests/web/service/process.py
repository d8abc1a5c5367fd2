"""Helpers of the HTTP service's tests: the app on a test's loop, and the real service on a thread or in a process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import httpx
import pytest

from presence_core import AsyncPresence, Settings
from presence_core.models import ApiKey, moment
from presence_core.web.service import server
from presence_core.web.service.api_keys import digest
from presence_core.web.service.app import create_app
from presence_core.web.service.site_pages.options import Pages
from tests.conftest import Bed
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import wait_for

ROOT = Path(__file__).parents[3]
SCOPES = ("record", "read", "failures", "kick")
HOSTILE = [
    "a/b", "/", "//", "a/sessions/12345678", "x/sessions", "block", "..", ".", "a:b", "ü/日本", "%2F", "a%", "a+b c",
    "?", "#", "a?b=c&d", "\\", "'\";--", "<script>", "🙂", "e\u0301", "x" * 256,
]  # fmt: skip


class Held:
    """API keys for a test: the secret names the scopes."""

    async def find(self, secret: str) -> ApiKey | None:
        name, _, scopes = secret.partition(".")
        return ApiKey(name, tuple(scopes.split("+")), moment(0), digest(secret)) if name == "key" else None


@dataclass
class Service:
    """The app of one test, called without a network. Actions of staff and sites next to it use ``p``."""

    bed: Bed
    p: P
    app: Any
    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": "Bearer key.record+read+failures+kick"})
    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)
    base: str = "http://localhost"
    peer: str = "127.0.0.1"

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        async def run() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=True, client=(self.peer, 1))
            async with httpx.AsyncClient(transport=transport, base_url=self.base, cookies=self.cookies) as client:
                headers = self.headers | options.pop("headers", {})
                answer = await client.request(method, path, json=body, headers=headers, **options)
                self.cookies.update(client.cookies)
                return answer

        return self.bed.loop.run(run())

    def get(self, path: str, **options: Any) -> Any:
        """The result of a GET, which must succeed."""
        answer = self.ask("GET", path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()


def service(
    bed: Bed,
    *,
    keys: Any = None,
    serves: Pages | None = None,
    local: bool = False,
    logouts: Any = None,
    **settings: Any,
) -> Service:
    """The app over a client of this test's namespace. local: without keys."""
    p = bed.connect(**settings)
    presence = cast(AsyncPresence, cast(Any, p)._target)
    app = bed.loop.call(lambda: create_app(presence, keys=None if local else keys or Held(), serves=serves,
                                            logouts=logouts))  # fmt: skip
    made = Service(bed, p, app)
    if local:
        made.headers = {}
    return made


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """A problem according to RFC 9457: one sentence, and data that are safe to send."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    said: dict[str, Any] = answer.json()
    assert said["status"] == status
    assert said["title"]
    assert said["type"] == "about:blank"
    assert said["detail"].endswith(".")
    assert "\n" not in said["detail"]
    return said


class _Stoppable(server.Server):
    """Can be stopped without a signal."""

    made: ClassVar[list[_Stoppable]] = []

    def __init__(self, config: Any, terminated: threading.Event) -> None:
        super().__init__(config, terminated)
        self.made.append(self)


@contextlib.contextmanager
def served_on_thread(url: str, namespace: str, *, port: int = 0, **options: Any) -> Iterator[str]:
    """The service for clients with a key, on a thread: its address. For tests of its clients: a process takes a second
    to start. ``options``: see ``server.Offer``."""
    settings = Settings(namespace, timeout=PATIENT)
    offer = server.Offer(**{"with_keys": True, "with_pages": "origins" in options} | options)

    def run() -> None:
        server.serve(lambda: AsyncPresence.from_url(url, settings), offer, listening, threading.Event())

    with server.listen("127.0.0.1", port) as listening, pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Server", _Stoppable)
        patch.setattr(_Stoppable, "made", [])
        thread = threading.Thread(target=run)
        thread.start()
        wait_for("the service", lambda: _Stoppable.made)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            _Stoppable.made[0].should_exit = True
            thread.join()


@contextlib.contextmanager
def served(url: str, namespace: str, *words: str, stderr: Any = None) -> Iterator[str]:
    """``presence serve`` in a process of its own: its address."""
    environ = os.environ | {"PRESENCE_REDIS_URL": url, "PRESENCE_NAMESPACE": namespace}
    command = [sys.executable, "-m", "presence_core.cli", "serve", "--port", "0", "--json", *words]
    with subprocess.Popen(command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr) as process:
        assert process.stdout
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            assert process.wait(30) == 0
