"""presence_core itself, with the same protocol as the peers."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import presence_core
from benchmarks.peers.python.serve import PAGE, serve
from benchmarks.stage import SETTINGS
from presence_core import Login, LoginRefused, Presence
from presence_core.operations.search.list_sessions import make_cursor

BY: Final = "support@example.org"
REASON: Final = "Asked by the account's owner, who does not know this device."


class Ours:
    """Uses the public methods; only the cursor of a deep page and the moved clock come from hooks for tests."""

    def __init__(self, url: str) -> None:
        self.presence = Presence.from_url(url, SETTINGS)
        self.presence.counts()
        self._cursors: dict[int, str | None] = {1: None}

    def load(self, rows: list[dict[str, Any]]) -> list[str]:
        return [_token(login) for login in self.presence.login_many(rows, imported=True)]

    def login(self, row: dict[str, Any]) -> str:
        """login"""
        return _token(self.presence.login(**row))

    def read(self, token: str) -> str:
        """validate, and its session decoded"""
        session = self.presence.validate(token).session
        assert session
        return session.uid

    def count(self, _: object) -> int:
        """counts"""
        return self.presence.counts().sessions

    def users(self, _: object) -> int:
        """count_users(600 s)"""
        return self.presence.count_users(600)

    def page(self, number: int) -> list[str]:
        """list_sessions(limit=50), by the cursor that the page before gave"""
        if number not in self._cursors:
            self._cursors[number] = self._cursor(number)
        return [session.uid for session in self.presence.list_sessions(limit=PAGE, cursor=self._cursors[number])]

    def sessions(self, uid: str) -> int:
        """sessions"""
        return len(self.presence.sessions(uid))

    def kick(self, uid: str) -> int:
        """kick, with audit entry, tombstone and event"""
        return len(self.presence.kick(uid, by=BY, reason=REASON).kicked)

    def past(self, _: object) -> None:
        self.presence.internal.context.now = str(int((time.time() + SETTINGS.idle_timeout + 3600) * 1000))

    def expire(self, _: object) -> int:
        """sweep: each with its tombstone, event and count"""
        self.presence.sweep()
        return self.presence.counts().sessions

    def _cursor(self, number: int) -> str:
        """The cursor that the page before this one would have given. Found in the untimed call."""
        from redis import Redis

        keys, place = self.presence.internal.context.keys.shards[0], (number - 1) * PAGE - 1
        with Redis.from_url(sys.argv[1]) as redis:
            entries: Any = redis.zrevrange(keys.sessions, place, place, withscores=True)
        [(ref, login)] = entries
        return make_cursor((int(login), ref.decode()))


def _token(answer: Login | LoginRefused) -> str:
    assert isinstance(answer, Login), answer
    return answer.token


if __name__ == "__main__":
    serve(f"presence-core {presence_core.__version__}", Ours(sys.argv[1]))
