"""A site's own Redis, what express-session writes to it, and a mirror whose turns a test takes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from redis import Redis

from presence_core import Presence, Settings
from presence_core.mirror.loop import Mirror
from presence_core.mirror.stores import BY_NAME, Store
from presence_core.transport.site_store import SiteStore
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary

KEY = bytes(range(32))
ALL = "KA"
"""notify-keyspace-events"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Ours and the site's: in two databases."""
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("mirror"), port=True) as running:
        yield running


@dataclass
class Site:
    """The site's Redis, and its mirrors."""

    server: Server
    redis: Any
    presence: Presence
    access: str = ""  #: the URL that mirrors use; empty: ``url``
    _open: list[Callable[[], Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url.removesuffix("/0") + "/1"

    def notify(self, flags: str) -> None:
        self.server.command("CONFIG", "SET", "notify-keyspace-events", flags)

    def mirror(self, store: str | Store = "express", **options: Any) -> Mirror:
        """A mirror that has started, without a turn."""
        chosen = BY_NAME[store] if isinstance(store, str) else store
        site = SiteStore(self.access or self.url, options.pop("timeout", PATIENT), chosen.fields)
        made = Mirror(self.presence, site, chosen, options.pop("key", KEY), **{"rate": 1_000_000} | options)
        self._open.append(site.close)
        made.start()
        return made

    def sign_in(self, who: str, sid: str, *, life: int = 3600, left: int | None = None, **data: Any) -> str:
        """Write what connect-redis writes. Returns the key."""
        key = f"sess:{sid}"
        value = {"cookie": {"originalMaxAge": life * 1000, "httpOnly": True, "path": "/"}, "userId": who, **data}
        self.redis.set(key, json.dumps(value), ex=life if left is None else left)
        return key

    def close(self) -> None:
        for close in self._open:
            close()


@pytest.fixture
def site(server: Server) -> Iterator[Site]:
    server.command("FLUSHALL")
    redis = Redis.from_url(server.url.removesuffix("/0") + "/1")
    with Presence.from_url(server.url, Settings(namespace="mirrored", timeout=PATIENT)) as presence:
        made = Site(server, redis, presence)
        made.notify("")
        yield made
        made.close()
    redis.close()


def until(mirror: Mirror, is_so: Callable[[], Any], within: float = PATIENT) -> None:
    """Take turns until a condition holds."""
    end = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < end, "the condition does not hold"
        mirror.turn()
        assert mirror.problem == ""
        time.sleep(0.01)  # turns without a pause took most of the time of both servers


def scan(mirror: Mirror) -> None:
    """One whole scan from now on."""
    mirror.turn()
    began = time.monotonic()
    mirror._scan_soon()
    until(mirror, lambda: (mirror.looked_at or 0.0) >= began)
