"""The rounds over what the client holds (``holding``): applied again where a failover has lost it.

A round is about a second. It asks each server once for its identity (``run_id`` and ``master_replid``, which differ
after every failover and restart). What is known to be in place on that very server costs nothing more. All else is
looked at: a session that lives again is ended again, unless it began later; a block that is gone is set again, unless
staff have changed it since; a watermark is raised again; a secret that was replaced is replaced again. WAIT is asked in
the same batch, behind a write of its own, and counts if nothing had to be applied again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Keyspace, Shard, split_ref
from presence_core.models import Block
from presence_core.operations.context import LIVE, Context, Found, found_rows
from presence_core.operations.holding import (
    Held,
    HeldBlock,
    HeldEnd,
    HeldEnds,
    HeldErasure,
    HeldMark,
    HeldSecret,
    answered,
    beats,
    identity_of,
    login_of,
    mark_calls,
    rotation,
    server_of,
    unconfirmed,
)
from presence_core.scripts import AUDIT, BLOCK, BLOCKED, READ, Call, Op, command, run, tell

_AT_ONCE: Final = 100
_TRIES: Final = 2  # of a server that does not answer; the rest of its changes wait for the next round
_LOOK: Final = 1_000  # audit entries in which a block is looked for


def confirm(ctx: Context) -> Op[int]:
    """One round over all that is held; answers how many too few replicas have. Raises Unavailable once every server was
    tried, and holds still what could not be reached."""
    looks, away = yield from _to_look_at(ctx)
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
            sure, servers = yield from (_mark(ctx, changes[0]) if shard is None else _again(ctx, shard, changes))
        except Unavailable as error:  # one master is away: the others' turn all the same
            away, sure, servers = error, False, {}
            failures[server] += 1
        except CorruptData:
            if len(part) > 1:
                parts += [(shard, [single]) for single in part]
                continue
            ctx.held.pop(part[0][0], None)  # what stands there now is no session and no block
            continue
        for name, change in part:
            _settle(ctx, name, change, sure, server_of(ctx, servers, change))
    if away is not None:
        raise away
    return unconfirmed(ctx)


def _settle(ctx: Context, name: Hashable, change: Held, sure: bool, on: bytes) -> None:
    """A change was looked at: ``sure``: it is in place, and enough replicas have it."""
    now = ctx.clock()
    if not sure:
        change.on, change.until = b"", 0.0
        return
    if on != change.on or not change.until:
        change.on, change.until = on, now + ctx.settings.confirm_hold
    if change.until <= now and ctx.held.get(name) is change:
        ctx.held.pop(name, None)


def _to_look_at(ctx: Context) -> Op[tuple[dict[Shard | None, list[tuple[Hashable, Held]]], Unavailable | None]]:
    """All but what is known to be in place on the server that serves it now. What has been so for long enough goes."""
    keys, now = ctx.keys, ctx.clock()
    known = {change.shard for change in list(ctx.held.values()) if change.on}
    servers, away = yield from _servers(ctx, keys.shards if None in known else [s for s in known if _is_of(keys, s)])
    looks: dict[Shard | None, list[tuple[Hashable, Held]]] = {}
    of_all = b"".join(sorted(set(servers.values()))) if None in known and len(servers) == len(keys.shards) else b""
    for name, change in list(ctx.held.items()):
        shard = change.shard
        if change.until > now and change.on and servers.get(shard) == change.on:  # nearly all of many
            continue
        if shard is not None and not _is_of(keys, shard):  # the sessions were moved to other shards
            change.shard = shard = keys.shard(change.uid)
            change.on = b""
        on = of_all if shard is None else servers.get(shard, b"")
        if change.on and change.on == on and change.until:
            if change.until <= now and ctx.held.get(name) is change:
                ctx.held.pop(name, None)
        elif shard is None or shard in servers or not (change.on and change.until):
            looks.setdefault(shard, []).append((name, change))
    return looks, away


def _is_of(keys: Keyspace, shard: Shard | None) -> bool:
    return shard is not None and shard.index < len(keys.shards) and keys.shards[shard.index] is shard


def _servers(ctx: Context, shards: Iterable[Shard | None]) -> Op[tuple[dict[Shard | None, bytes], Unavailable | None]]:
    """Which server serves each of these shards: one INFO a server. One that does not answer is missing; one that will
    not say which it is has b""."""
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
            *_, info = yield [*asks, tell(group[0].tag)]
        except Unavailable as error:
            away = error
            continue
        servers.update(dict.fromkeys(group, identity_of(info)))
    return servers, away


def _again(ctx: Context, s: Shard, part: list[Held]) -> Op[tuple[bool, dict[Shard, bytes]]]:
    """Look at each and ask how many replicas have all of it; apply again what was lost, to be asked for next time."""
    # One batch, and so one master: what was seen on one says nothing of what the replicas of the next have. WAIT counts
    # from the connection's own last write, which is made here.
    has_blocks = any(isinstance(change, HeldBlock) for change in part)
    (now, _, entries), *replies = yield [
        run(AUDIT, (s.audit,), ctx.now, _LOOK if has_blocks else 1, "+"),
        *(_look(ctx, s, change) for change in part),
        *(_left(s, change) for change in part if isinstance(change, HeldErasure)),
        *beats(ctx, [s]),
    ]
    told = answered(ctx, [s], replies)
    changed, left = _latest_changes(entries), iter(replies[len(part) :])
    lost: list[Call] = []
    erased: list[HeldErasure] = []
    for change, reply in zip(part, replies, strict=False):
        if isinstance(change, HeldBlock):
            lost += _lost_block(ctx, s, change.block, reply, now, changed)
            continue
        live = [found for found in found_rows(change.uid, reply) if found.state == LIVE]
        if not isinstance(change, HeldErasure):
            lost += [call for found in live for call in _lost(ctx, s, change, found)]
        elif next(left) or any(login_of(found.row) <= change.upto for found in live):
            erased.append(change)
    if lost:
        yield lost
    for person in erased:
        yield from person.again()
    return not lost and not erased and bool(told.sure), told.servers


def _left(s: Shard, change: HeldErasure) -> Call:
    """How many ended sessions of theirs are there from before they were erased."""
    return command(s.ended_of(change.uid), "ZCOUNT", s.ended_of(change.uid), "-inf", change.upto)


def _look(ctx: Context, s: Shard, change: Held) -> Call:
    uid = change.uid
    if isinstance(change, HeldBlock):
        return run(BLOCKED, (s.block(uid),), ctx.now, "strict")
    sids = [split_ref(change.ref)[1]] if isinstance(change, HeldEnd | HeldSecret) else []
    return run(READ, (s.user(uid), s.sessions, s.closing, s.labels, s.meta), ctx.now, uid, s.record_prefix, *sids)


def _lost(ctx: Context, s: Shard, change: Held, live: Found) -> list[Call]:
    """What it takes to apply the change to this live session again; nothing where it is in place."""
    uid, sid = live.uid, live.session_id
    if isinstance(change, HeldSecret):
        secret = (live.row[1] or b"")[16:32]
        return [rotation(ctx, s, uid, sid, secret, change.new)] if secret in change.old else []
    assert isinstance(change, HeldEnd | HeldEnds)
    if login_of(live.row) > change.upto or (isinstance(change, HeldEnds) and sid in change.keep):
        return []
    return [change.why.one(ctx, s, uid, sid, login_of(live.row))]


def _latest_changes(entries: list[Any]) -> dict[bytes, int]:
    """When staff last changed each user's block, by the audit, ms: a block and its entry are one write."""
    latest: dict[bytes, int] = {}
    for _, flat in entries:
        entry = dict(zip(flat[::2], flat[1::2], strict=True))
        uid, at = entry.get(b"uid"), entry.get(b"at", b"")
        is_about = entry.get(b"what") in (b"block", b"unblock") or (
            entry.get(b"what") == b"kick" and entry.get(b"until")
        )
        if uid and is_about and at.isdigit():
            latest[uid] = max(latest.get(uid, 0), int(at))
    return latest


def _lost_block(ctx: Context, s: Shard, block: Block, reply: Any, now: int, changed: dict[bytes, int]) -> list[Call]:
    """Set it again where it is not there and staff have not changed it since."""
    [(state, row)] = reply
    there = state == 1 and _changed(Block.from_reply(block.uid, row)) >= _changed(block)
    has_ended = block.until is not None and _ms(block.until.timestamp()) <= now
    if there or has_ended or changed.get(block.uid.encode(), -1) >= _changed(block):
        return []
    return [set_again(ctx, s, block)]


def _changed(block: Block) -> int:
    """When a block became what it is, ms."""
    return _ms((block.changed or block.at).timestamp())


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def set_again(ctx: Context, s: Shard, block: Block) -> Call:
    """Block a user as ``block`` says, as of when it was set: merged with the block that there is now. Changes nothing
    where it is still there, where it has ended, or where staff have changed or lifted it since."""
    end = "" if block.until is None else f"={_ms(block.until.timestamp())}"
    at = _ms(block.at.timestamp())
    return run(BLOCK, (s.block(block.uid), s.blocks, s.audit), ctx.now, ctx.policy, block.uid, block.by, block.reason,
               block.message or "", "\n".join(block.tickets), end, "again", at, _changed(block))  # fmt: skip


def _mark(ctx: Context, change: Held) -> Op[tuple[bool, dict[Shard, bytes]]]:
    assert isinstance(change, HeldMark)
    shards = ctx.keys.shards
    calls = mark_calls(ctx, shards, str(change.upto), change.by, change.note, change.message, 0)
    replies = yield [*calls, *beats(ctx, shards)]
    told = answered(ctx, shards, replies)
    return bool(told.sure), told.servers
