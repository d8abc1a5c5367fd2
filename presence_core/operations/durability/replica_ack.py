"""Rounds over the changes that the client holds (``held_changes``): what a failover has lost is applied again.

A round runs about once a second. It asks each server once for its identity (``run_id`` and ``master_replid``, which
differ after every failover and restart). A change that this server is known to have costs nothing more. All others are
checked: a session that is live again is ended again, unless it began later; a block that is gone is set again, unless
staff have changed it since; a watermark is raised again; block rules are copied again; a secret is replaced again; a
new sign-in is required again. WAIT is in the same batch, behind a write of its own, and counts if nothing had to be
applied again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain, islice
from typing import Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Keyspace, Shard
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import (
    Held,
    HeldEverywhere,
    HeldOfUser,
    identity_of,
    read_confirmations,
    server_of,
    unconfirmed,
    write_and_wait_calls,
)
from presence_core.scripts.calls import Op, command, server_info

_AT_ONCE: Final = 100  # changes in one batch
_TRIES: Final = 2  # of a server that does not answer; the rest of its changes wait for the next round


def confirm(ctx: Context) -> Op[int]:
    """Run one round; returns how many changes too few replicas have. Raises Unavailable after every server was tried;
    changes of a server that was not reached are still held."""
    looks, away = yield from _changes_to_check(ctx)
    parts = [
        (shard, some[first : first + size])
        for shard, some in looks.items()
        for size in (1 if shard is None else _AT_ONCE,)
        for first in range(0, len(some), size)
    ]
    failures: Counter[str] = Counter()
    while parts:
        shard, part = parts.pop()
        server = "" if shard is None else ctx.server_of(shard.tag)
        if failures[server] >= _TRIES:
            continue
        try:
            confirmed, servers = yield from _check(ctx, shard, [change for _, change in part])
        except Unavailable as error:  # one master is away; the others are checked all the same
            away, confirmed, servers = error, False, {}
            failures[server] += 1
        except CorruptData:
            if len(part) > 1:
                parts += [(shard, [single]) for single in part]
                continue
            ctx.held.pop(part[0][0], None)  # another program's value is in its place
            continue
        for name, change in part:
            _note_result(ctx, name, change, confirmed, server_of(ctx, servers, change))
    if away is not None:
        raise away
    return unconfirmed(ctx)


def _note_result(ctx: Context, name: Hashable, change: Held, confirmed: bool, server: bytes) -> None:
    """A change was checked. ``confirmed``: it is in place, and enough replicas have it."""
    if not confirmed:
        change.server, change.until = b"", 0.0
        return
    if server != change.server or not change.until:
        change.server, change.until = server, ctx.clock() + ctx.settings.confirm_hold
    _drop_if_over(ctx, name, change)


def _drop_if_over(ctx: Context, name: Hashable, change: Held) -> None:
    """Stop holding a change whose hold has ended; ``name`` may be another change by now."""
    if change.until <= ctx.clock() and ctx.held.get(name) is change:
        ctx.held.pop(name, None)


def _changes_to_check(ctx: Context) -> Op[tuple[dict[Shard | None, list[tuple[Hashable, Held]]], Unavailable | None]]:
    """The held changes that must be checked: all but those that their present server is known to have. Those that it
    has had for long enough are dropped."""
    keys, now = ctx.keys, ctx.clock()
    known = {change.shard for change in list(ctx.held.values()) if change.server}
    servers, away = yield from _servers(ctx, keys.shards if None in known else [s for s in known if _is_of(keys, s)])
    looks: dict[Shard | None, list[tuple[Hashable, Held]]] = {}
    of_all = b"".join(sorted(set(servers.values()))) if None in known and len(servers) == len(keys.shards) else b""
    for name, change in list(ctx.held.items()):
        shard = change.shard
        if change.until > now and change.server and servers.get(shard) == change.server:  # nearly all of many
            continue
        if shard is not None and not _is_of(keys, shard):  # the data were moved to another layout
            change.shard = shard = keys.shard(change.uid)
            change.server = b""
        server = of_all if shard is None else servers.get(shard, b"")
        if change.server and change.server == server and change.until:
            _drop_if_over(ctx, name, change)
        elif shard is None or shard in servers or not (change.server and change.until):
            looks.setdefault(shard, []).append((name, change))
    return looks, away


def _is_of(keys: Keyspace, shard: Shard | None) -> bool:
    return shard is not None and shard.index < len(keys.shards) and keys.shards[shard.index] is shard


def _servers(ctx: Context, shards: Iterable[Shard | None]) -> Op[tuple[dict[Shard | None, bytes], Unavailable | None]]:
    """The identity of each shard's server, by one INFO a server. A server that does not answer is missing; one that
    does not tell its identity has b""."""
    groups: dict[str, list[Shard]] = {}
    for s in shards:
        if s is not None:
            groups.setdefault(ctx.server_of(s.tag), []).append(s)
    servers: dict[Shard | None, bytes] = {}
    away: Unavailable | None = None
    for group in groups.values():
        # On a cluster a key of each shard, so that a node which does not serve it any more says so.
        asks = [command(s.meta, "EXISTS", s.meta) for s in group] if ctx.is_cluster else []
        try:
            *_, info = yield [*asks, server_info(group[0].tag)]
        except Unavailable as error:
            away = error
            continue
        servers.update(dict.fromkeys(group, identity_of(info)))
    return servers, away


def _check(ctx: Context, shard: Shard | None, part: list[Held]) -> Op[tuple[bool, dict[Shard, bytes]]]:
    """Check changes of one shard, or one that is on all. Returns whether they are in place, and on which servers."""
    if shard is not None:
        return _check_shard(ctx, shard, [change for change in part if isinstance(change, HeldOfUser)])
    [change] = part
    assert isinstance(change, HeldEverywhere)
    return _check_everywhere(ctx, change)


def _check_shard(ctx: Context, s: Shard, part: list[HeldOfUser]) -> Op[tuple[bool, dict[Shard, bytes]]]:
    """Whether enough replicas have these changes; applies again what was lost, for the next round to check."""
    # One batch, and so one master: what one master has says nothing about the replicas of the next. WAIT counts from
    # the connection's own last write, which is made here.
    reads = [change.reads(ctx, s) for change in part]
    replies = yield [*chain.from_iterable(reads), *write_and_wait_calls(ctx, [s])]
    replicas = read_confirmations(ctx, [s], replies)
    server = replicas.servers.get(s, b"")
    found = iter(replies)
    repairs = [
        (change, call)
        for change, calls in zip(part, reads, strict=True)
        for call in change.repairs(ctx, s, list(islice(found, len(calls))), server)
    ]
    results = (yield [call for _, call in repairs]) if repairs else []
    is_in_place = not any(change.was_lost(result) for (change, _), result in zip(repairs, results, strict=True))
    for steps in [change.further_steps(server) for change in part]:
        if steps is not None:
            is_in_place = False
            yield from steps
    return is_in_place and bool(replicas.confirmed), replicas.servers


def _check_everywhere(ctx: Context, change: HeldEverywhere) -> Op[tuple[bool, dict[Shard, bytes]]]:
    shards = ctx.keys.shards
    replies = yield [*change.calls(ctx), *write_and_wait_calls(ctx, shards)]
    replicas = read_confirmations(ctx, shards, replies)
    return bool(replicas.confirmed), replicas.servers
