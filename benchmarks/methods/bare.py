"""The same work in bare Redis commands, as a site would write them by hand, for comparison.

The commands use the keys of the library, so both sides work on lists of one size. Their changes are undone, untimed,
before the library could see them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.data import Row
from benchmarks.measure import Side
from benchmarks.stage import Stage

DAY_MS: Final = 86_400_000
_ids = itertools.count()


@dataclass(frozen=True, slots=True)
class BareSession:
    """A session that only bare commands have written."""

    uid: str
    sid: str
    row: Row

    @property
    def ref(self) -> str:
        return f"{self.uid}:{self.sid}"


class Bare:
    """Runs the bare commands on one stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.redis = stage.redis
        self.keys = stage.keys
        self.sha: str = self.redis.script_load("return 1")

    # -- a script's round trip ----------------------------------------------------------------------------------------

    def script(self, keys: Sequence[str]) -> Side:
        """EVALSHA of ``return 1`` with these keys, by redis.Redis.evalsha: the minimum cost of any script."""
        return Side(lambda _: self.redis.evalsha(self.sha, len(keys), *keys))

    # -- login --------------------------------------------------------------------------------------------------------

    def sessions(self, rows: Iterable[Row]) -> list[BareSession]:
        return [BareSession(row["uid"], f"bare{next(_ids):018d}", row) for row in rows]

    def log_in(self, sessions: Iterable[BareSession]) -> None:
        """Per session ZADD ×3, SADD, HSET of ten plain fields, PEXPIRE; all in one pipeline."""
        keys, now = self.keys, int(time.time() * 1000)
        pipe = self.redis.pipeline(transaction=False)
        for session in sessions:
            row = session.row
            record = keys.record(session.uid, session.sid)
            fields = {
                "login": now, "seen": now, "name": row["name"], "alias": row["aliases"][0], "device": row["device"],
                "app": row["app"], "version": row["app_version"], "ip": row["ip"], "agent": row["user_agent"],
                "digest": "0123456789abcdef",
            }  # fmt: skip
            pipe.zadd(keys.sessions, {session.ref: now})
            pipe.zadd(keys.deadlines, {session.ref: now + DAY_MS})
            pipe.zadd(keys.users, {session.uid: now})
            pipe.sadd(keys.user(session.uid), session.sid)
            pipe.hset(record, mapping=fields)
            pipe.pexpire(record, DAY_MS)
        pipe.execute()

    def take_away(self, sessions: Iterable[BareSession]) -> None:
        """Remove these sessions from every key (not timed)."""
        keys = self.keys
        pipe = self.redis.pipeline(transaction=False)
        for session in sessions:
            for key in (keys.sessions, keys.deadlines, keys.ended):
                pipe.zrem(key, session.ref)
            pipe.zrem(keys.users, session.uid)
            pipe.unlink(keys.user(session.uid), keys.record(session.uid, session.sid))
        pipe.execute()

    # -- seen ---------------------------------------------------------------------------------------------------------

    def heartbeats(self, refs: Iterable[str]) -> None:
        """Per ref ZADD XX of its deadline and HSET of its last-seen time; all in one pipeline."""
        keys, now = self.keys, int(time.time() * 1000)
        deadline = now + self.stage.presence.settings.idle_timeout * 1000
        pipe = self.redis.pipeline(transaction=False)
        for ref in refs:
            pipe.zadd(keys.deadlines, {ref: deadline}, xx=True)
            pipe.hset(keys.record_prefix + ref, "s", now)
        pipe.execute()

    # -- reads --------------------------------------------------------------------------------------------------------

    def page(self, _: Any = None) -> list[Any]:
        """ZREVRANGE of 50 with scores, then 50 HGETALLs of those records in one pipeline."""
        refs = self.redis.zrevrange(self.keys.sessions, 0, 49, withscores=True)
        prefix = self.keys.record_prefix.encode()
        return self._records([prefix + ref for ref, _ in refs])

    def sessions_of(self, uid: str) -> list[Any]:
        """SMEMBERS, then an HGETALL for each in one pipeline."""
        sids = self.redis.smembers(self.keys.user(uid))
        return self._records([self.keys.record(uid, sid.decode()).encode() for sid in sids])

    def _records(self, keys: list[bytes]) -> list[Any]:
        pipe = self.redis.pipeline(transaction=False)
        for key in keys:
            pipe.hgetall(key)
        records: list[Any] = pipe.execute()
        return records

    def counts(self, _: Any = None) -> None:
        """ZCARD of both lists and HGETALL of the totals in one pipeline."""
        pipe = self.redis.pipeline(transaction=False)
        pipe.zcard(self.keys.sessions)
        pipe.zcard(self.keys.users)
        pipe.hgetall(self.keys.totals)
        pipe.execute()

    def seen(self, uids: list[str]) -> list[float | None]:
        """ZMSCORE of these users."""
        return list(self.redis.zmscore(self.keys.users, uids))

    def count_users(self, _: Any = None) -> None:
        """ZCOUNT of the last ten minutes."""
        self.redis.zcount(self.keys.users, int(time.time() * 1000) - 600_000, "+inf")

    # -- ends ---------------------------------------------------------------------------------------------------------

    def end(self, refs: Iterable[str]) -> None:
        """Per ref ZREM ×2, SREM, HSET and EXPIRE of a tombstone, ZADD to the list of ends; all in one pipeline."""
        keys, now = self.keys, int(time.time() * 1000)
        pipe = self.redis.pipeline(transaction=False)
        for ref in refs:
            uid, _, sid = ref.rpartition(":")
            record = keys.record_prefix + ref
            pipe.zrem(keys.sessions, ref)
            pipe.zrem(keys.deadlines, ref)
            pipe.srem(keys.user(uid), sid)
            pipe.hset(record, mapping={"e": "kicked", "ea": now, "ec": "staff", "eb": "support@example.org"})
            pipe.expire(record, 86_400)
            pipe.zadd(keys.ended, {ref: now})
        pipe.execute()
