"""Django's cache sessions, in a cache by django-redis."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from typing import Any, Final

import django
from django.conf import settings

from benchmarks.peers.python.serve import newest, serve

TTL: Final = int(os.environ.get("PEER_TTL", "21600"))
BATCH: Final = 1000


class DjangoCache:
    """With SESSION_SAVE_EVERY_REQUEST, a request saves the session that it has loaded: this is Django's way to touch
    one."""

    def __init__(self, url: str) -> None:
        settings.configure(
            CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url}},
            SESSION_ENGINE="django.contrib.sessions.backends.cache",
            SESSION_COOKIE_AGE=TTL,
            SESSION_SAVE_EVERY_REQUEST=True,
        )
        django.setup()
        backend = import_module(settings.SESSION_ENGINE)
        self.store: Any = backend.SessionStore
        self.prefix: str = backend.KEY_PREFIX
        self.cache: Any = import_module("django.core.cache").cache
        self.cache.get("nothing")  # opens the connection

    def load(self, rows: list[dict[str, Any]]) -> list[str]:
        return [self.login(row) for row in rows]

    def login(self, row: dict[str, Any]) -> str:
        """SessionStore.create: SET NX"""
        session = self.store()
        session.update({"login_at": time.time()} | row)
        session.create()
        return str(session.session_key)

    def read(self, token: str) -> str:
        """SessionStore load, then save: GET, GET, SET"""
        session = self.store(token)
        uid = session["uid"]
        session.save()
        return str(uid)

    def _keys(self) -> Iterator[str]:
        seen: set[str] = set()
        for key in self.cache.iter_keys(self.prefix + "*", itersize=BATCH):
            if key not in seen:  # SCAN may return a key twice
                seen.add(key)
                yield key

    def _every(self) -> Iterator[tuple[str, dict[str, Any]]]:
        keys = self._keys()
        while some := list(islice(keys, BATCH)):
            yield from self.cache.get_many(some).items()

    def count(self, _: object) -> int:
        """cache.iter_keys: SCAN in steps of 1000, counted"""
        return sum(1 for _ in self._keys())

    def page(self, number: int) -> list[str]:
        """cache.iter_keys, cache.get_many by the thousand, sorted by login, sliced"""
        return newest([session for _, session in self._every()], number)

    def sessions(self, uid: str) -> int:
        """cache.iter_keys, cache.get_many by the thousand, filtered"""
        return sum(session["uid"] == uid for _, session in self._every())

    def kick(self, uid: str) -> int:
        """cache.iter_keys, cache.get_many by the thousand, filtered, cache.delete_many"""
        return int(self.cache.delete_many([key for key, session in self._every() if session["uid"] == uid]))


if __name__ == "__main__":
    serve(f"django-redis {version('django-redis')}, Django {django.__version__}", DjangoCache(sys.argv[1]))
