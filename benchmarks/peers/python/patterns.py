"""What admin kits do with sessions stored as JSON strings: find all, by KEYS or by SCAN, and GET each."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import redis

from benchmarks.peers.python.serve import newest, serve

TTL: Final = int(os.environ.get("PEER_TTL", "21600"))
PREFIX: Final = "sess:"
BATCH: Final = 1000


class _Strings:
    """Sessions as strings, as most stores keep them."""

    def __init__(self, url: str) -> None:
        self.redis: Any = redis.Redis.from_url(url, decode_responses=True)

    def load(self, rows: list[dict[str, Any]]) -> list[str]:
        made = [(secrets.token_hex(16), _value(row)) for row in rows]
        pipe = self.redis.pipeline(transaction=False)
        for token, value in made:
            pipe.set(PREFIX + token, value, ex=TTL)
        pipe.execute()
        return [token for token, _ in made]

    def login(self, row: dict[str, Any]) -> str:
        """SET with EX"""
        token = secrets.token_hex(16)
        self.redis.set(PREFIX + token, _value(row), ex=TTL)
        return token

    def read(self, token: str) -> str:
        """GET and EXPIRE in one pipeline"""
        value, _ = self.redis.pipeline(transaction=False).get(PREFIX + token).expire(PREFIX + token, TTL).execute()
        return str(json.loads(value)["uid"])

    def _every(self) -> Iterator[tuple[str, dict[str, Any]]]:
        raise NotImplementedError

    def page(self, number: int) -> list[str]:
        return newest([session for _, session in self._every()], number)

    def sessions(self, uid: str) -> int:
        return sum(session["uid"] == uid for _, session in self._every())

    def kick(self, uid: str) -> int:
        return int(self.redis.delete(*[key for key, session in self._every() if session["uid"] == uid]))


class KeysGet(_Strings):
    """The pattern in its usual form."""

    def _every(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for key in self.redis.keys(PREFIX + "*"):
            if value := self.redis.get(key):
                yield key, json.loads(value)

    def count(self, _: object) -> int:
        """KEYS, counted"""
        return len(self.redis.keys(PREFIX + "*"))

    def page(self, number: int) -> list[str]:
        """KEYS, GET of each, sorted by login, sliced"""
        return super().page(number)

    def sessions(self, uid: str) -> int:
        """KEYS, GET of each, filtered"""
        return super().sessions(uid)

    def kick(self, uid: str) -> int:
        """KEYS, GET of each, filtered, DEL"""
        return super().kick(uid)


class ScanGet(_Strings):
    """The pattern at its best: large steps, and the GETs of a step in one pipeline."""

    def _every(self) -> Iterator[tuple[str, dict[str, Any]]]:
        seen: set[str] = set()
        cursor = -1
        while cursor:
            cursor, found = self.redis.scan(max(cursor, 0), match=PREFIX + "*", count=BATCH)
            keys = [key for key in found if key not in seen]  # SCAN may return a key twice
            seen.update(keys)
            pipe = self.redis.pipeline(transaction=False)
            for key in keys:
                pipe.get(key)
            for key, value in zip(keys, pipe.execute(), strict=True):
                if value:
                    yield key, json.loads(value)

    def count(self, _: object) -> int:
        """SCAN in steps of 1000, counted"""
        return len(set(self.redis.scan_iter(PREFIX + "*", count=BATCH)))

    def page(self, number: int) -> list[str]:
        """SCAN in steps of 1000, their GETs in one pipeline, sorted by login, sliced"""
        return super().page(number)

    def sessions(self, uid: str) -> int:
        """SCAN in steps of 1000, their GETs in one pipeline, filtered"""
        return super().sessions(uid)

    def kick(self, uid: str) -> int:
        """SCAN in steps of 1000, their GETs in one pipeline, filtered, DEL"""
        return super().kick(uid)


def _value(row: dict[str, Any]) -> str:
    return json.dumps({"login_at": time.time()} | row, ensure_ascii=False)


if __name__ == "__main__":
    pattern = {"keys": KeysGet, "scan": ScanGet}[sys.argv[2]]
    serve(f"redis-py {redis.__version__}", pattern(sys.argv[1]))
