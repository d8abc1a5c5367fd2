"""Changes of several steps ask first whether the user may run all commands of all of them.

Each script asks for itself (``scripts/script.py``). That keeps a step whole; but a step that is refused would leave
the change half done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from presence_core.keyspace import Shard
from presence_core.scripts.bulk_kick import CLAIM_JOB, CLOSE_JOB, KICK_SESSIONS, RAISE_JOB_FENCE
from presence_core.scripts.calls import Op, call_of
from presence_core.scripts.maintenance import REMOVE_OUTDATED, REQUIRE_COMMANDS, SETTLE_SESSIONS
from presence_core.scripts.notices import ANSWER_NOTICE
from presence_core.scripts.privacy import ERASE_FAILURES, ERASE_PERSON, REWRITE_HASH, REWRITE_STREAM
from presence_core.scripts.script import AnyScript
from presence_core.scripts.search import INDEX_SESSIONS, RECOUNT_FACETS, REMOVE_ADDRESSES, REMOVE_WORDS
from presence_core.scripts.sessions import END_SESSIONS, REQUIRE_SIGN_IN
from presence_core.scripts.staff import CHANGE_TIMEOUTS, WRITE_AUDIT

_READS: Final = (
    "exists", "hexists", "hget", "hgetall", "hkeys", "hlen", "hmget", "smembers", "smismember", "zcard", "zmscore",
    "zrange", "zscan", "zscore",
)  # fmt: skip


def _commands(scripts: Iterable[AnyScript], *more: str) -> tuple[str, ...]:
    return tuple(sorted({*more, *(name for script in scripts for name in script.needs)}))


REPAIR_NEEDS: Final = _commands(
    (SETTLE_SESSIONS, REMOVE_OUTDATED, INDEX_SESSIONS, RECOUNT_FACETS, REMOVE_ADDRESSES, REMOVE_WORDS),
    *_READS, "hsetnx", "sadd",
)  # fmt: skip
ERASE_NEEDS: Final = _commands(
    (END_SESSIONS, SETTLE_SESSIONS, REWRITE_STREAM, REWRITE_HASH, ERASE_FAILURES, ERASE_PERSON, WRITE_AUDIT),
    *_READS, "get", "xdel", "xrange", "xrevrange",
)  # fmt: skip

BULK_KICK_NEEDS: Final = _commands(
    (CLAIM_JOB, RAISE_JOB_FENCE, KICK_SESSIONS, CLOSE_JOB),
    "hexists", "hget", "hmget", "smembers", "smismember", "zmscore",
)  # fmt: skip

DENY_NEEDS: Final = _commands(
    (REQUIRE_SIGN_IN, END_SESSIONS, ANSWER_NOTICE),
    "get", "hdel", "hgetall", "hlen", "hmget", "scard", "set", "smembers", "xlen", "zcard", "zmscore", "zscore",
)  # fmt: skip

BULK_TIMEOUTS_NEEDS: Final = _commands((CLAIM_JOB, RAISE_JOB_FENCE, CHANGE_TIMEOUTS, CLOSE_JOB), "hget", "hmget")


def require(shards: Iterable[Shard], commands: Iterable[str]) -> Op[None]:
    """Raise Unavailable if the user may not run one of these commands on these shards. Cost: one round trip."""
    yield [call_of(REQUIRE_COMMANDS, (shard.sessions, shard.meta), *commands) for shard in shards]
