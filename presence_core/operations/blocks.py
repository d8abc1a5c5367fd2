"""A hold on a user's logins: enforced inside the login script, written and lifted here."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from presence_core import settings as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
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
    ctx: Context,
    uid: object,
    by: object,
    reason: object,
    message: object,
    duration: object,
    ticket: object,
    until: object = None,
    shorten: object = False,
) -> Op[Block]:
    owner = check.uid(uid)
    actor, why = check.actor(by), check.prose("reason", reason)
    public = "" if message is None else check.prose("message", message)
    if duration is not None and until is not None:
        raise InvalidArgument("until", "goes without duration: give one of them")
    end = "" if duration is None else str(check.seconds("duration", duration))
    if until is not None:
        end = f"={check.past('until', until)}"
    case = check.short("ticket", ticket, 64) or ""
    if not isinstance(shorten, bool):
        raise InvalidArgument("shorten", "must be True or False")

    def steps() -> Op[Block]:
        check_room(ctx)
        s = ctx.shard(owner)
        words = (owner, actor, why, public, case, end, "shorten" if shorten else "merge", "", "")
        set_ = run(BLOCK, (s.block(owner), s.blocks, s.audit), ctx.now, ctx.policy, *words)
        row, *more = yield [set_, *asking(ctx, [s])]
        if row == 0:
            raise InvalidArgument("until", "must lie in the future")
        told = answered(ctx, [s], more)
        made = replace(Block.from_reply(owner, row), confirmed=told.sure)
        hold_block(ctx, told, made)
        return made

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
        [[(state, row)]] = yield [run(BLOCKED, (s.block(owner),), ctx.now, "strict")]
        if state == _GONE:
            yield from _release(ctx, {s: [owner]})
        return Block.from_reply(owner, row) if state == 1 else None

    return steps()


def blocked_among(ctx: Context, uids: object) -> Op[dict[str, Block]]:
    return _blocked_among(ctx, check.uids(uids))


def _blocked_among(ctx: Context, uids: list[str]) -> Op[dict[str, Block]]:
    groups: dict[Shard, list[str]] = {}
    for uid in uids:
        groups.setdefault(ctx.shard(uid), []).append(uid)
    parts = [(s, some[first : first + 200]) for s, some in groups.items() for first in range(0, len(some), 200)]
    if not parts:
        return {}
    replies = yield [run(BLOCKED, [s.block(uid) for uid in part], ctx.now, "lenient") for s, part in parts]
    found = {
        uid: Block.from_reply(uid, row)
        for (_, part), reply in zip(parts, replies, strict=True)
        for uid, (state, row) in zip(part, reply, strict=True)
        if state == 1
    }
    return {uid: found[uid] for uid in uids if uid in found}


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
