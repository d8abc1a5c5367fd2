"""How the servers, the data and the upkeep are: what is asked for `health`. What it means is judged in ``findings``.

What may not be done is found out without doing it: a script asks Redis which commands its user is permitted
(``redis.acl_check_cmd``), so nothing is written, nothing is tried, and nothing enters the log of refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import slot
from presence_core.models import Health, NodeHealth, SentinelHealth, moment
from presence_core.operations import leading, reading
from presence_core.operations.context import Context, pairs
from presence_core.operations.ended import complete_since
from presence_core.operations.findings import Known, judged
from presence_core.operations.reindex import drifted
from presence_core.operations.server_findings import is_too_old
from presence_core.operations.upkeep import handshake
from presence_core.scripts import EXAMINE, Call, Op, ask, command, run
from presence_core.settings import INDEXES

COMMANDS: Final = (
    "evalsha", "evalsha_ro", "exists", "expire", "get", "getrange", "hdel", "hexists", "hget", "hgetall", "hincrby",
    "hkeys", "hlen", "hmget", "hrandfield", "hset", "hsetnx", "persist", "pexpireat", "rename", "sadd", "scard",
    "set", "setrange", "sismember", "smembers", "smismember", "srem", "ttl", "unlink", "xadd", "xdel", "xinfo",
    "xlen", "xrange", "xrevrange", "xsetid", "xtrim", "zadd", "zcard", "zcount", "zlexcount", "zmscore",
    "zrandmember", "zrange", "zrem", "zremrangebyrank", "zrevrange", "zrevrank", "zscan", "zscore", "time",
    "script load",
)  # fmt: skip
"""What scripts and operations run, but for trackers. Without INFO, and CLUSTER on one server, all goes well."""

Clock = Callable[[], float]
"""Lent by the client: operations know no clock."""


def health(
    ctx: Context,
    nodes: Sequence[str],
    server_of: Callable[[str], str],
    seconds: Clock,
    wall: Clock,
    sentinels: Callable[[], SentinelHealth | None] = lambda: None,
) -> Op[Health]:
    """seconds: any clock that only goes forward; wall: Unix seconds; sentinels: as they are once a call was made. The
    clients run this without a handshake: a server that is too old for one is to be told of, too."""
    known = Known(ctx.settings, ctx.is_cluster)
    away: Unavailable | None = None
    for address in nodes:
        try:
            node = yield from _node(address, seconds, wall)
            known.sentinels = sentinels()
            if known.sentinels is not None and node.is_fenced:
                node = replace(node, max_lag=(yield from _max_lag(address)))
            known.nodes.append(node)
        except Unavailable as error:
            known.silent[address] = away = error
    if not known.nodes and away is not None:
        raise away
    if not any(map(is_too_old, known.nodes)):
        try:
            yield from handshake(ctx)
            yield from _namespace(ctx, known, server_of)
        except CorruptData as error:
            known.failure = error
        except Unavailable as error:
            if error.code not in ("NOPERM", "LAYOUT") and not known.silent:
                raise
            known.failure = error
    return judged(known)


# -- one server -------------------------------------------------------------------------------------------------------


def _asked(call: Call) -> Op[Any]:
    """The reply; None where the server keeps it to itself: no permission, or no such command on a managed one."""
    try:
        [reply] = yield [call]
    except CorruptData:
        return None
    except Unavailable as error:
        if error.code != "NOPERM":
            raise
        return None
    return reply


def _node(address: str, seconds: Clock, wall: Clock) -> Op[NodeHealth]:
    info = yield from _asked(ask(address, "INFO"))  # without names of sections, which Redis 6 does not take
    said = info.decode("utf-8", "replace") if isinstance(info, bytes) else str(info or "")
    facts = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    trips = []
    for _ in range(3):
        begin = seconds()
        yield from _asked(ask(address, "PING"))
        trips.append(seconds() - begin)
    before = wall()
    at = yield from _asked(ask(address, "TIME"))
    between = (before + wall()) / 2
    now = int(at[0]) + int(at[1]) / 1e6 if at else None
    number, flag = _Reader(facts).number, _Reader(facts).flag
    aof, snapshots = flag("aof_enabled", "1"), None
    if aof is False:
        snapshots = yield from _takes_snapshots(address, number("rdb_saves"))
    version, kind = facts.get("valkey_version"), "Valkey"
    if version is None:
        version, kind = facts.get("redis_version"), "Redis"
    saved = number("rdb_last_save_time")
    replicas = [value for name, value in facts.items() if name.startswith("slave") and "state=" in value]
    is_master = facts.get("role") == "master"
    return NodeHealth(
        address=address,
        kind=kind if version else None,
        version=version,
        role={"master": "master", "slave": "replica"}.get(facts.get("role", "")),
        uptime=number("uptime_in_seconds"),
        latency_ms=round(sorted(trips)[1] * 1000, 3),
        time=None if now is None else moment(round(now * 1000)),
        clock_offset=None if now is None else round(now - between, 3) or 0.0,
        used_memory=number("used_memory"),
        maxmemory=number("maxmemory"),
        maxmemory_policy=facts.get("maxmemory_policy"),
        evicted_keys=number("evicted_keys"),
        aof_enabled=aof,
        aof_ok=flag("aof_last_write_status", "ok"),
        snapshots=snapshots,
        saved_at=None if saved is None else moment(saved * 1000),
        save_ok=flag("rdb_last_bgsave_status", "ok"),
        unsaved_changes=number("rdb_changes_since_last_save"),
        clients=number("connected_clients"),
        replicas=number("connected_slaves") if is_master else None,
        replicas_online=sum("state=online" in one for one in replicas) if is_master else None,
        link_up=flag("master_link_status", "up"),
        is_fenced="min_slaves_good_slaves" in facts if is_master else None,
    )


class _Reader:
    """What INFO says, as it is meant; None for what it does not say."""

    def __init__(self, facts: dict[str, str]) -> None:
        self._facts = facts

    def number(self, name: str) -> int | None:
        value = self._facts.get(name, "")
        return int(value) if value.isdecimal() else None

    def flag(self, name: str, yes: str) -> bool | None:
        value = self._facts.get(name)
        return None if value is None else value == yes


def _takes_snapshots(address: str, taken: int | None) -> Op[bool | None]:
    reply = yield from _asked(ask(address, "CONFIG", "GET", "save"))
    if reply:
        [(_, rule)] = pairs(reply)
        return bool(rule)
    return True if taken else None


def _max_lag(address: str) -> Op[int | None]:
    reply = yield from _asked(ask(address, "CONFIG", "GET", "min-replicas-max-lag"))
    return int(pairs(reply)[0][1]) if reply else None


# -- what is kept there -----------------------------------------------------------------------------------------------


def _namespace(ctx: Context, known: Known, server_of: Callable[[str], str]) -> Op[None]:
    """Fills in what is known, step by step: what comes before a refusal is told all the same."""
    shards, layout, common = ctx.keys.shards, ctx.keys.layout, ctx.keys.common
    known.indexes = tuple(one for one in INDEXES if one in ctx.complete)
    known.served = {one.index: server_of(one.tag) for one in shards}
    calls = [
        run(EXAMINE, (s.sessions, s.sessions, s.deadlines, s.users), slot(s.tag) if ctx.is_cluster else "", *COMMANDS)
        for s in shards
    ]
    calls.append(run(EXAMINE, (common.worker,), "", *COMMANDS))
    calls.append(command(layout, "HMGET", layout, "schema", "step", "shards", "begun"))
    *examined, (schema, step, stored, begun) = yield calls
    known.schema = int(schema) if schema else None
    known.moving = int(stored if step else begun or 0)
    for tag, (_, refused, could_ask, _) in zip((*(s.tag for s in shards), common.tag), examined, strict=True):
        known.could_ask = known.could_ask and bool(could_ask)
        if refused:
            known.refused[tag] = [one.decode() for one in refused]
    lengths = [reply[0] for reply in examined[:-1]]
    known.keys = [reply[3] for reply in examined[:-1] if reply[3] >= 0]
    known.lengths = {s.index: tuple(some) for s, some in zip(shards, lengths, strict=True)}

    counts = yield from reading.counts(ctx)
    known.users, known.sessions, known.swept_at = counts.users, counts.sessions, counts.swept_at
    known.worker, known.knows_worker = (yield from leading.status(ctx)), True
    known.lag = (yield from leading.lag(ctx, round(counts.as_of.timestamp() * 1000))) / 1000
    marks = yield [command(s.meta, "HGET", s.meta, "ended_from", lenient=True) for s in shards]
    now = round(counts.as_of.timestamp() * 1000)
    known.ended_complete_since = complete_since(ctx, now, (int(mark) for mark in marks if mark and mark.isdigit()))
    known.drifted = {one.index for one in (yield from drifted(ctx, shards))}
