"""Rounds over the changes that the client holds (``held_changes``): a change that a failover has lost is applied again.

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
from itertools import islice
from typing import Any, Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Keyspace, Shard
from presence_core.models import Block, Session, stored_number
from presence_core.operations.bulk_kick.kick_call import kick_call
from presence_core.operations.context import Context, FoundSession, found_rows
from presence_core.operations.sessions.held_changes import (
    Held,
    HeldBlock,
    HeldDemand,
    HeldEnd,
    HeldEnds,
    HeldErasure,
    HeldRules,
    HeldSecret,
    HeldWatermark,
    identity_of,
    login_ms,
    read_confirmations,
    rotation,
    rules_calls,
    server_of,
    unconfirmed,
    watermark_calls,
    write_and_wait_calls,
)
from presence_core.operations.sessions.read import read_call
from presence_core.scripts.calls import Call, Op, call_of, command, pairs, server_info
from presence_core.scripts.sessions import LIVE
from presence_core.scripts.staff import BLOCK_USER, READ_BLOCKS, decode_blocks

_AT_ONCE: Final = 100  # changes in one batch
_TRACES: Final = 4  # reads for an erasure: see _trace_calls
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
        changes = [change for _, change in part]
        try:
            confirmed, servers = yield from (
                _check_everywhere(ctx, changes[0]) if shard is None else _check_shard(ctx, shard, changes)
            )
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


def _check_shard(ctx: Context, s: Shard, part: list[Held]) -> Op[tuple[bool, dict[Shard, bytes]]]:
    """Check changes of one shard, and whether enough replicas have them; apply again what was lost, for the next round
    to check."""
    # One batch, and so one master: what one master has says nothing about the replicas of the next. WAIT counts from
    # the connection's own last write, which is made here.
    replies = yield [
        *(_read_change(ctx, s, change) for change in part),
        *(call for change in part if isinstance(change, HeldErasure) for call in _trace_calls(s, change)),
        *write_and_wait_calls(ctx, [s]),
    ]
    replicas = read_confirmations(ctx, [s], replies)
    server = replicas.servers.get(s, b"")
    traces = iter(replies[len(part) :])
    lost: list[Call] = []
    blocks: list[Call] = []
    erased: list[HeldErasure] = []
    for change, reply in zip(part, replies, strict=False):
        if isinstance(change, HeldBlock):
            if not (_is_in_force(change.block, reply) or (change.seen_server and change.seen_server == server)):
                blocks.append(set_again(ctx, s, change.block))
            continue
        live = [found for found in found_rows(change.uid, reply) if found.state == LIVE]
        if not isinstance(change, HeldErasure):
            lost += [call for found in live for call in _repair(ctx, s, change, found)]
        elif _is_back(change, live, list(islice(traces, _TRACES))) or change.is_lost:
            erased.append(change)
    # A block that has ended, or that staff have changed since, is not set: 0.
    set_blocks = any((yield [*lost, *blocks])[len(lost) :]) if lost or blocks else False
    for change in part:
        if isinstance(change, HeldBlock):
            change.seen_server = server
    for person in erased:
        person.is_lost = True
        yield from person.again()
    return not (lost or set_blocks or erased) and bool(replicas.confirmed), replicas.servers


def _trace_calls(s: Shard, change: HeldErasure) -> list[Call]:
    """Read what may be left of a person: ends from before they were erased, and the times of what else they have."""
    ended, known, uid = s.ended_of(change.uid), s.known(change.uid), change.uid
    calls = [
        command(ended, "ZCOUNT", ended, "-inf", change.upto),
        command(s.people, "ZSCORE", s.people, uid),
        command(s.blocks, "ZSCORE", s.blocks, uid),
        command(known, "HGETALL", known),
    ]
    assert len(calls) == _TRACES
    return calls


def _is_back(change: HeldErasure, live: list[FoundSession], traces: list[Any]) -> bool:
    """Whether the person has anything from before they were erased."""
    ends, offline, blocked, devices = traces
    times = [float(time) for time in (offline, blocked) if time is not None]
    times += [number for _, time in pairs(devices) if (number := stored_number(time)) is not None]
    times += [found.row.login for found in live]
    return ends > 0 or any(time <= change.upto for time in times)


def _read_change(ctx: Context, s: Shard, change: Held) -> Call:
    if isinstance(change, HeldBlock):
        return call_of(READ_BLOCKS, (s.block(change.uid),), ctx.now, "strict")
    session_ids: Iterable[str] = ()
    if isinstance(change, HeldEnd | HeldSecret):
        session_ids = [change.session_id]
    elif isinstance(change, HeldDemand):
        session_ids = change.session_ids
    return read_call(ctx, s, change.uid, session_ids)


def _repair(ctx: Context, s: Shard, change: Held, live: FoundSession) -> list[Call]:
    """The calls that apply the change to this live session again; none where it is in place."""
    uid, sid, row = live.uid, live.session_id, live.row
    if isinstance(change, HeldSecret):
        if row.secret not in change.old:
            return []
        return [rotation(ctx, s, uid, sid, row.secret, change.new, change.authentication, again=True)]
    if isinstance(change, HeldDemand):
        return [change.request.call(ctx, s, [sid], change.at)] if _lacks_demand(change, live.session()) else []
    assert isinstance(change, HeldEnd | HeldEnds)
    if row.login > change.upto or (isinstance(change, HeldEnds) and sid in change.keep):
        return []
    if isinstance(change, HeldEnd) and change.job_id:
        return [kick_call(ctx, s, change.job_id, "", change.request, [(uid, sid, row.login)])]
    return [change.request.end_one(ctx, s, uid, sid, row.login)]


def _lacks_demand(change: HeldDemand, session: Session) -> bool:
    """Whether a failover has lost that this session must sign in again, and its visitor has not done so since."""
    login, authenticated = login_ms(session), _ms(session.authenticated_at.timestamp())
    demanded = session.sign_in_required_at
    has_demand = demanded is not None and _ms(demanded.timestamp()) >= change.at
    return not has_demand and login <= change.upto and (authenticated <= change.at or authenticated == login)


def _is_in_force(block: Block, reply: Any) -> bool:
    """Whether the user has this block, or a later one."""
    [found] = decode_blocks(reply)
    return bool(found.blocks) and _changed(Block.from_reply(block.uid, found.row)) >= _changed(block)


def _changed(block: Block) -> int:
    """When a block became what it is, ms."""
    return _ms((block.changed or block.at).timestamp())


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def set_again(ctx: Context, s: Shard, block: Block) -> Call:
    """Set a block again, as of when it was set, merged with the block that there is now. Changes nothing where it is
    still in force, where it has ended, or where staff have changed or removed it since."""
    end = "" if block.until is None else f"={_ms(block.until.timestamp())}"
    at = _ms(block.at.timestamp())
    return call_of(BLOCK_USER, (s.block(block.uid), s.blocks, s.audit), ctx.now, ctx.policy, block.uid, block.by,
                   block.reason, block.message or "", "\n".join(block.tickets), end, "again", at,
                   _changed(block))  # fmt: skip


def _check_everywhere(ctx: Context, change: Held) -> Op[tuple[bool, dict[Shard, bytes]]]:
    """Make a change on all shards again: it does nothing where it is in place, or where there is a later one."""
    shards = ctx.keys.shards
    if isinstance(change, HeldRules):
        calls = rules_calls(ctx, shards, change.version, change.rules)
    else:
        assert isinstance(change, HeldWatermark)
        calls = watermark_calls(ctx, shards, str(change.upto), change.by, change.note, change.message, "")
    replies = yield [*calls, *write_and_wait_calls(ctx, shards)]
    replicas = read_confirmations(ctx, shards, replies)
    return bool(replicas.confirmed), replicas.servers
