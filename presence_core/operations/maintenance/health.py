"""``health``: read how the servers, the data and the worker are. ``health_rules`` and ``server_rules`` judge it.

Nothing is written. A script asks Redis which commands it has, and which of them the ACL user may run
(``redis.acl_check_cmd``), so nothing enters its log of refused commands. EVALSHA, which carries all changes, is then
run on each server: a proxy may refuse what the server would permit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import slot
from presence_core.models import Health, NodeHealth, SentinelHealth, moment, stored_number, text
from presence_core.operations.context import Context
from presence_core.operations.layout import load
from presence_core.operations.maintenance import leader
from presence_core.operations.maintenance.acl_users import recognised
from presence_core.operations.maintenance.health_rules import HealthFacts, ListLengths, judge
from presence_core.operations.maintenance.server_rules import is_too_old
from presence_core.operations.notices.report import notices
from presence_core.operations.search import live_counts
from presence_core.operations.search.rebuild import drifted
from presence_core.operations.server_info import ServerInfo
from presence_core.operations.sessions.tombstones import complete_since
from presence_core.scripts.calls import Call, Op, ask, call_of, command, pairs
from presence_core.scripts.maintenance import EXAMINE_SHARD, REQUIRE_COMMANDS
from presence_core.settings import INDEXES

COMMANDS: Final = (
    "evalsha", "evalsha_ro", "exists", "expire", "get", "getrange", "hdel", "hexists", "hget", "hgetall", "hincrby",
    "hkeys", "hlen", "hmget", "hrandfield", "hset", "hsetnx", "persist", "pexpireat", "rename", "sadd", "scard",
    "set", "setrange", "sismember", "smembers", "smismember", "srem", "ttl", "unlink", "xadd", "xdel", "xinfo",
    "xlen", "xrange", "xrevrange", "xsetid", "xtrim", "zadd", "zcard", "zcount", "zlexcount", "zmscore",
    "zrandmember", "zrange", "zrem", "zremrangebyrank", "zrevrange", "zrevrank", "zscan", "zscore", "time",
    "script load",
)  # fmt: skip
"""The commands that scripts and operations run, without trackers and reshard. INFO and CLUSTER are optional."""

PINGS: Final = 3

NO_ADDRESS_MS: Final = 86_400_000
"""A login without an address is reported for so long."""

MOST_SHARDS: Final = 8
LOOKED_AT: Final = 10
"""Records of each of so many shards that are looked for."""

SIGN_INS_LOOKED_AT: Final = 20
"""Users of each of so many shards, online and offline, whose sign-in histories are measured."""

KEY_BYTES: Final = 80
"""What a key takes next to its name and its value, about (docs/lookup/costs.md)."""

Clock = Callable[[], float]
"""Passed by the client: operations read no clock."""

SentinelState = Callable[[], SentinelHealth | None]


def health(
    ctx: Context,
    nodes: Sequence[str],
    server_of: Callable[[str], str],
    seconds: Clock,
    wall: Clock,
    sentinels: SentinelState = lambda: None,
    refused_connections: Sequence[str] = (),
) -> Op[Health]:
    """The health of every node, of the data and of the worker, with findings.

    seconds: a clock that never goes back; wall: Unix seconds; sentinels: their state, known after the first call.
    refused_connections: why servers let no new connection in. The clients run this without loading the layout first, so
    that a server that is too old for that is reported, too.
    """
    facts = HealthFacts(ctx.settings, ctx.is_cluster, refused_connections=refused_connections)
    yield from _read_nodes(facts, nodes, seconds, wall, sentinels)
    if not any(map(is_too_old, facts.nodes)):
        try:
            yield from load(ctx)
            yield from _read_data(ctx, facts, server_of)
        except CorruptData as error:
            facts.failure = error
        except Unavailable as error:
            if error.code not in ("NOPERM", "LAYOUT") and not facts.silent:
                raise
            facts.failure = error
    return judge(facts)


# -- the nodes --------------------------------------------------------------------------------------------------------


def _read_nodes(
    facts: HealthFacts, nodes: Iterable[str], seconds: Clock, wall: Clock, sentinels: SentinelState
) -> Op[None]:
    for address in nodes:
        try:
            node = yield from _read_node(address, seconds, wall)
            facts.sentinels = sentinels()
            if facts.sentinels is not None and node.is_fenced:
                node = replace(node, max_lag=(yield from _max_lag(address)))
            facts.nodes.append(node)
        except Unavailable as error:
            facts.silent[address] = error
    if facts.silent and not facts.nodes:
        raise next(reversed(facts.silent.values()))


def _read_node(address: str, seconds: Clock, wall: Clock) -> Op[NodeHealth]:
    # INFO without sections, for Redis 6 takes only one of them.
    info = ServerInfo((yield from _reply_or_none(ask(address, "INFO"))))
    latency = yield from _latency(address, seconds)
    now, clock_offset = yield from _clock(address, wall)
    aof_enabled, snapshots = info.flag("aof_enabled", "1"), None
    if aof_enabled is False:
        snapshots = yield from _takes_snapshots(address, info)
    version, saved = info.version, info.number("rdb_last_save_time")
    is_master = info.text("role") == "master"
    replicas = [value for name, value in info.fields.items() if name.startswith("slave") and "state=" in value]
    return NodeHealth(
        address=address,
        kind=version.kind if version else None,
        version=version.number if version else None,
        role={"master": "master", "slave": "replica"}.get(info.text("role") or ""),
        uptime=info.number("uptime_in_seconds"),
        latency_ms=latency,
        time=None if now is None else moment(now),
        clock_offset=clock_offset,
        used_memory=info.number("used_memory"),
        maxmemory=info.number("maxmemory"),
        maxmemory_policy=info.text("maxmemory_policy"),
        evicted_keys=info.number("evicted_keys"),
        aof_enabled=aof_enabled,
        aof_ok=info.flag("aof_last_write_status", "ok"),
        snapshots=snapshots,
        saved_at=None if saved is None else moment(saved * 1000),
        save_ok=info.flag("rdb_last_bgsave_status", "ok"),
        unsaved_changes=info.number("rdb_changes_since_last_save"),
        clients=info.number("connected_clients"),
        replicas=info.number("connected_slaves") if is_master else None,
        replicas_online=sum("state=online" in replica for replica in replicas) if is_master else None,
        link_up=info.flag("master_link_status", "up"),
        is_fenced="min_slaves_good_slaves" in info.fields if is_master else None,
    )


def _reply_or_none(call: Call) -> Op[Any]:
    """The reply; None where the user may not run this command, or a managed server does not have it."""
    try:
        [reply] = yield [call]
    except CorruptData:
        return None
    except Unavailable as error:
        if error.code != "NOPERM":
            raise
        return None
    return reply


def _latency(address: str, seconds: Clock) -> Op[float]:
    """The median round trip of some PINGs, ms."""
    trips = []
    for _ in range(PINGS):
        begin = seconds()
        yield from _reply_or_none(ask(address, "PING"))
        trips.append(seconds() - begin)
    return round(sorted(trips)[PINGS // 2] * 1000, 3)


def _clock(address: str, wall: Clock) -> Op[tuple[int | None, float | None]]:
    """The server's time, ms, and how many seconds it is ahead of this machine's."""
    before = wall()
    reply = yield from _reply_or_none(ask(address, "TIME"))
    if not reply:
        return None, None
    middle = (before + wall()) / 2
    whole_seconds, microseconds = reply
    now = int(whole_seconds) + int(microseconds) / 1e6
    return round(now * 1000), round(now - middle, 3) or 0.0


def _takes_snapshots(address: str, info: ServerInfo) -> Op[bool | None]:
    rules = yield from _setting(address, "save")
    if rules is not None:
        return bool(rules)
    return True if info.number("rdb_saves") else None


def _max_lag(address: str) -> Op[int | None]:
    seconds = yield from _setting(address, "min-replicas-max-lag")
    return int(seconds) if seconds else None


def _setting(address: str, name: str) -> Op[bytes | None]:
    """A setting of the server; None where the user may not read it."""
    reply = yield from _reply_or_none(ask(address, "CONFIG", "GET", name))
    return next((value for _, value in pairs(reply)), None) if reply else None


# -- the data and the worker ------------------------------------------------------------------------------------------


def _read_data(ctx: Context, facts: HealthFacts, server_of: Callable[[str], str]) -> Op[None]:
    """Fill in the facts step by step, so that those from before a refusal are reported."""
    shards = ctx.keys.shards
    facts.indexes = tuple(name for name in INDEXES if name in ctx.cache.complete)
    facts.served = {shard.index: server_of(shard.tag) for shard in shards}
    yield from _examine(ctx, facts)
    yield from _try_evalsha(ctx, facts)
    yield from _look_at_records(ctx, facts)
    counts = yield from live_counts.counts(ctx)
    now = facts.now = round(counts.as_of.timestamp() * 1000)
    facts.users, facts.sessions, facts.swept_at = counts.users, counts.sessions, counts.swept_at
    facts.worker, facts.knows_worker = (yield from leader.status(ctx)), True
    facts.lag = (yield from leader.lag(ctx, now)) / 1000
    with contextlib.suppress(Unavailable):  # an ACL user of an earlier version may not read that key
        facts.notices = yield from notices(ctx)
    names = ("ended_from", "no_address", "no_address_at")
    marks = yield [command(s.meta, "HMGET", s.meta, *names, lenient=True) for s in shards]
    numbers = [[stored_number(mark) for mark in of_shard or [None] * len(names)] for of_shard in marks]
    facts.ended_complete_since = complete_since(
        ctx, now, (ended_from for ended_from, _, _ in numbers if ended_from is not None)
    )
    recent = [count or 0 for _, count, at in numbers if at is not None and now - at < NO_ADDRESS_MS]
    facts.logins_without_address = sum(recent)
    yield from _measure_sign_ins(ctx, facts)
    facts.drifted = {shard.index for shard in (yield from drifted(shards))}


def _try_evalsha(ctx: Context, facts: HealthFacts) -> Op[None]:
    """Run a script that does nothing by EVALSHA, once on each server where the user may. Raises Unavailable."""
    by_server = {server: ctx.keys.shards[index] for index, server in facts.served.items()}
    shards = [shard for shard in by_server.values() if "evalsha" not in facts.refused.get(shard.tag, ())]
    if "evalsha" not in facts.missing:
        yield [
            Call(shard.meta, ("EVALSHA", REQUIRE_COMMANDS.sha, "1", shard.meta), True, REQUIRE_COMMANDS)
            for shard in shards
        ]


def _look_at_records(ctx: Context, facts: HealthFacts) -> Op[None]:
    """Whether some of the listed sessions have their records: Redis deletes these itself, by TTL or eviction."""
    shards = [s for s in ctx.keys.shards if facts.lengths[s.index].sessions > 0][:MOST_SHARDS]
    listed = yield [command(s.sessions, "ZRANDMEMBER", s.sessions, LOOKED_AT, lenient=True) for s in shards]
    keys = [s.record_prefix.encode() + ref for s, refs in zip(shards, listed, strict=True) for ref in refs or ()]
    tags = [s.tag for s, refs in zip(shards, listed, strict=True) for _ in refs or ()]
    found = yield [command(tag, "EXISTS", key) for tag, key in zip(tags, keys, strict=True)]
    facts.records_looked_at, facts.records_missing = len(found), found.count(0)


def _measure_sign_ins(ctx: Context, facts: HealthFacts) -> Op[None]:
    """Estimate what sign-in histories take in memory, from those of a few users."""
    if not ctx.settings.keep_sign_ins:
        return
    lists = [key for s in ctx.keys.shards for key in (s.users, s.people)]
    lengths = yield [command(key, "ZCARD", key, lenient=True) for key in lists]
    shards = ctx.keys.shards[:MOST_SHARDS]
    sampled = lists[: 2 * len(shards)]
    drawn = yield [command(key, "ZRANDMEMBER", key, SIGN_INS_LOOKED_AT, lenient=True) for key in sampled]
    uids = [[*(users or ()), *(people or ())] for users, people in zip(drawn[::2], drawn[1::2], strict=True)]
    keys = [s.sign_ins(text(uid)) for s, of_shard in zip(shards, uids, strict=True) for uid in of_shard]
    values = (yield [command(key, "GET", key, lenient=True) for key in keys]) if keys else []
    sizes = [len(value) + len(key.encode()) + KEY_BYTES for key, value in zip(keys, values, strict=True) if value]
    if sizes:
        facts.sign_ins_of = round(sum(length or 0 for length in lengths) * len(sizes) / len(keys))
        facts.sign_in_bytes = round(sum(sizes) / len(sizes))


def _examine(ctx: Context, facts: HealthFacts) -> Op[None]:
    """The layout, the lengths of lists, the keys of slots, and the commands that the user may not run."""
    shards, layout, common = ctx.keys.shards, ctx.keys.layout, ctx.keys.common
    lists = [(s.sessions, s.sessions, s.deadlines, s.users) for s in shards]
    slots = [slot(s.tag) if ctx.is_cluster else "" for s in shards]
    calls = [
        call_of(EXAMINE_SHARD, keys, number, s.place("?"), *COMMANDS)
        for s, keys, number in zip(shards, lists, slots, strict=True)
    ]
    calls.append(call_of(EXAMINE_SHARD, (common.worker,), "", common.viewers("?"), *COMMANDS))
    calls.append(command(layout, "HMGET", layout, "schema", "step", "shards", "begun", "lost"))
    *replies, (schema, step, stored, begun, lost) = yield calls
    facts.schema = int(schema) if schema else None
    facts.reshard_to = int(stored if step else begun or 0)
    lost_at, _, lost_shards = (lost or b"").partition(b" ")
    facts.lost_at, facts.lost_shards = stored_number(lost_at), stored_number(lost_shards) or 0
    examined = [EXAMINE_SHARD.reply(reply) for reply in replies]
    for tag, examination in zip((*(s.tag for s in shards), common.tag), examined, strict=True):
        facts.could_ask = facts.could_ask and bool(examination.could_ask)
        if examination.refused:
            facts.refused[tag] = {name.decode() for name in examination.refused}
        facts.missing |= {name.decode() for name in examination.missing}
    *of_each, of_common = examined
    facts.common_tag = common.tag
    facts.acl_users = recognised(
        writes_places=all(examination.may_write for examination in of_each),
        writes_worker=b"hset" not in of_common.refused,
        writes_viewers=bool(of_common.may_write),
        heal=ctx.settings.heal,
    )
    of_shards = dict(zip(shards, of_each, strict=True))
    facts.keys = [examination.keys for examination in of_shards.values() if examination.keys >= 0]
    facts.lengths = {s.index: ListLengths(*examination.lengths) for s, examination in of_shards.items()}
