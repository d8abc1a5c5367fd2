"""A hold on a user's logins: enforced inside the login script, written and lifted here."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from presence_core import settings as check
from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import BLOCK_FIELDS, Block, Page, moment
from presence_core.operations.context import Context
from presence_core.operations.holding import answered, asking, check_room, hold_block
from presence_core.operations.newest import Entry, Newest, Ranked, is_ranked, make_cursor, read_cursor, walk
from presence_core.scripts import BLOCK, BLOCKED, RELEASE, UNBLOCK, Call, Op, command, run

_GONE: Final = 2  # what blocked.lua answers of a block whose time is over

_LOOK: Final = 100
"""Blocks of each shard that one sweep looks at."""


def block(
    ctx: Context, uid: object, by: object, reason: object, message: object, duration: object, ticket: object
) -> Op[Block]:
    owner = check.uid(uid)
    actor, why = check.actor(by), check.prose("reason", reason)
    public = "" if message is None else check.prose("message", message)
    length = "" if duration is None else check.seconds("duration", duration)
    case = check.short("ticket", ticket, 64) or ""

    def steps() -> Op[Block]:
        check_room(ctx)
        s = ctx.shard(owner)
        keys = (s.block(owner), s.blocks, s.audit)
        set_ = run(BLOCK, keys, ctx.now, ctx.policy, owner, actor, why, public, case, length)
        (at, until), *more = yield [set_, *asking(ctx, [s])]
        told = answered(ctx, [s], more)
        made = Block.from_reply(owner, (actor.encode(), why.encode(), public.encode(), case.encode(), at, until))
        hold_block(ctx, told, made)
        return replace(made, confirmed=told.sure)

    return steps()


def unblock(ctx: Context, uid: object, by: object, reason: object) -> Op[bool]:
    owner, actor, why = check.uid(uid), check.actor(by), check.prose("reason", reason)

    def steps() -> Op[bool]:
        s = ctx.shard(owner)
        keys = (s.block(owner), s.blocks, s.audit)
        [was] = yield [run(UNBLOCK, keys, ctx.now, ctx.policy, owner, actor, why)]
        ctx.held.pop(("block", owner), None)
        return bool(was)

    return steps()


def blocked(ctx: Context, uid: object) -> Op[Block | None]:
    owner = check.uid(uid)

    def steps() -> Op[Block | None]:
        s = ctx.shard(owner)
        [(state, row)] = yield [run(BLOCKED, (s.block(owner),), ctx.now)]
        if state == _GONE:
            yield from _release(ctx, {s: [owner]})
        return Block.from_reply(owner, row) if state == 1 else None

    return steps()


def blocks(ctx: Context, limit: object, cursor: object) -> Op[Page[Block]]:
    most = check.whole("limit", limit, 1, 1000)
    seen, behind = read_cursor(cursor, "blocks", None, is_ranked)
    return _blocks(ctx, most, seen, behind)


def _blocks(ctx: Context, limit: int, seen: int, behind: list[str] | None) -> Op[Page[Block]]:
    merge = Newest(ctx, [Ranked(s, s.blocks, behind, None, None) for s in ctx.keys.shards], limit)
    gone: dict[Shard, list[str]] = {}

    def look(entries: list[Entry]) -> Op[list[Block | None]]:
        uids = [entry.member.decode("utf-8", "surrogateescape") for entry in entries]
        rows = yield [
            _read(entry.shard, entry.shard.block(uid).encode("utf-8", "surrogateescape"))
            for entry, uid in zip(entries, uids, strict=True)
        ]
        out: list[Block | None] = []
        for entry, uid, row in zip(entries, uids, rows, strict=True):
            until = row[5] if row else None
            if until is None or (until.isdigit() and int(until) <= merge.now):
                out.append(None)
                gone.setdefault(entry.shard, []).append(uid)
            else:
                out.append(Block.from_reply(uid.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), row))
        return out

    walked = yield from walk(merge, limit, 1, look)
    yield from _release(ctx, gone)
    seen += len(walked.items)
    listed = merge.total - sum(map(len, gone.values()))
    is_end = walked.behind is None
    cursor = None if is_end else make_cursor("blocks", None, seen, walked.behind)
    return Page(walked.items, cursor, seen if is_end else listed, is_end, walked.scanned, moment(merge.now))


def _read(s: Shard, key: bytes) -> Call:
    return Call(s.tag, ("HMGET", key, *BLOCK_FIELDS), True, lenient=True)


def _release(ctx: Context, gone: dict[Shard, list[str]]) -> Op[None]:
    """Let go of blocks that a read found over: best effort, and never where writes are not allowed."""
    if gone and ctx.settings.heal:
        with contextlib.suppress(Unavailable, CorruptData):
            yield release_calls(ctx, gone)


def release_calls(ctx: Context, gone: dict[Shard, list[str]]) -> list[Call]:
    """Let go of these users' blocks, where they are over."""
    calls = []
    for s, uids in gone.items():
        for first in range(0, len(uids), 200):
            part = [uid.encode("utf-8", "surrogateescape") for uid in uids[first : first + 200]]
            keys: list[str | bytes] = [s.blocks, *(s.block("").encode() + uid for uid in part)]
            calls.append(run(RELEASE, keys, ctx.now, *part))
    return calls


def prune_blocks(ctx: Context) -> Op[None]:
    """For the sweep: look at some blocks of each shard, wherever they are, and let go of those that are over."""
    some = yield [command(s.blocks, "ZRANDMEMBER", s.blocks, _LOOK, lenient=True) for s in ctx.keys.shards]
    found = {
        s: [uid.decode("utf-8", "surrogateescape") for uid in uids]
        for s, uids in zip(ctx.keys.shards, some, strict=True)
        if uids
    }
    if found:
        yield release_calls(ctx, found)
