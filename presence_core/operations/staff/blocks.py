"""Blocks: a user may not log in. The login script enforces a block; this module sets, removes and lists them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import BLOCK_FIELDS, Block, Page, moment, stored_number
from presence_core.operations.context import Context
from presence_core.operations.cursors import make_cursor, read_cursor
from presence_core.operations.durability.held_changes import check_capacity, read_confirmations, wait_calls
from presence_core.operations.merged_lists import Entry, MergedLists, ZsetPart, is_zset_position, scan
from presence_core.operations.sessions.held_ends import hold_block
from presence_core.scripts import staff as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command

_PER_CALL: Final = 200
"""Blocks that one call of a script reads or removes."""

_PRUNE: Final = 100
"""Blocks of each shard that one sweep checks."""


@checked_first
def block(
    ctx: Context,
    uid: object,
    *,
    by: object,
    reason: object,
    message: object = None,
    duration: object = None,
    ticket: object = None,
    until: object = None,
    shorten: object = False,
) -> Op[Block]:
    """Block a user, until a time or for a duration in seconds; without either, until staff unblock them."""
    owner = check.uid(uid)
    actor, note = check.actor(by), check.prose("reason", reason)
    public = check.optional_prose("message", message)
    end = _check_end(duration, until)
    case = check.short("ticket", ticket, 64) or ""
    if not isinstance(shorten, bool):
        raise InvalidArgument("shorten", "must be True or False", "wrong_type")
    yield CHECKED
    check_capacity(ctx)
    shard = ctx.shard(owner)
    keys = (shard.block(owner), shard.blocks, shard.audit)
    mode = "shorten" if shorten else "merge"
    call = call_of(scripts.BLOCK_USER, keys, given_now=ctx.now, packed_policy=ctx.cache.policy, uid=owner, by=actor,
                   reason=note, message=public, tickets=case, given_end=end, mode=mode, given_at="",
                   given_changed="")  # fmt: skip
    reply, *replica_replies = yield [call, *wait_calls(ctx, [shard])]
    row = scripts.BLOCK_USER.reply(reply)
    if row is None:
        raise InvalidArgument("until", "must lie in the future", "in_the_past")
    replicas = read_confirmations(ctx, [shard], replica_replies)
    made = replace(Block.from_reply(owner, row), confirmed=replicas.confirmed)
    hold_block(ctx, replicas, made)
    return made


def _check_end(duration: object, until: object) -> str:
    """The end as staff/block_user.lua takes it."""
    if duration is not None and until is not None:
        raise InvalidArgument("until", "must not be given with duration: give one of them", "conflicts")
    if until is not None:
        return f"={check.time_ms('until', until)}"
    return "" if duration is None else str(check.seconds("duration", duration))


@checked_first
def unblock(ctx: Context, uid: object, by: object, reason: object) -> Op[bool]:
    owner, actor, note = check.uid(uid), check.actor(by), check.prose("reason", reason)
    yield CHECKED
    shard = ctx.shard(owner)
    keys = (shard.block(owner), shard.blocks, shard.audit)
    [reply] = yield [call_of(scripts.UNBLOCK_USER, keys, ctx.now, ctx.cache.policy, owner, actor, note)]
    ctx.held.pop(("block", owner), None)
    return scripts.UNBLOCK_USER.reply(reply)


@checked_first
def blocked(ctx: Context, uid: object) -> Op[Block | None]:
    """The block of a user; None where the user may log in."""
    owner = check.uid(uid)
    yield CHECKED
    shard = ctx.shard(owner)
    [reply] = yield [call_of(scripts.READ_BLOCKS, (shard.block(owner),), ctx.now, "strict")]
    [found] = scripts.READ_BLOCKS.reply(reply)
    if found.is_past:
        yield from _remove_past(ctx, {shard: [owner]})
    return Block.from_reply(owner, found.row) if found.blocks else None


@checked_first
def blocked_among(ctx: Context, uids: object) -> Op[dict[str, Block]]:
    """The blocks of those of these users who are blocked."""
    wanted = check.uids(uids)
    yield CHECKED
    parts = ctx.parts(wanted, str, _PER_CALL)
    if not parts:
        return {}
    replies = yield [
        call_of(scripts.READ_BLOCKS, [shard.block(uid) for uid in owners], ctx.now, "lenient")
        for shard, owners in parts
    ]
    found = {
        uid: block
        for (_, owners), reply in zip(parts, replies, strict=True)
        for uid, block in zip(owners, scripts.READ_BLOCKS.reply(reply), strict=True)
    }
    return {uid: Block.from_reply(uid, found[uid].row) for uid in wanted if found[uid].blocks}


@checked_first
def blocks(ctx: Context, limit: object, cursor: object) -> Op[Page[Block]]:
    size = check.whole("limit", limit, 1, 1000)
    seen, behind = read_cursor(cursor, "blocks", None, is_zset_position)
    yield CHECKED
    merge = MergedLists(ctx, [ZsetPart(shard, shard.blocks, behind, None, None) for shard in ctx.keys.shards], size)
    past: dict[Shard, list[str]] = {}

    def read_blocks(entries: list[Entry]) -> Op[list[Block | None]]:
        rows = yield [_read_call(entry.shard, entry.member) for entry in entries]
        found: list[Block | None] = []
        for entry, row in zip(entries, rows, strict=True):
            if _is_past(row, merge.now):
                found.append(None)
                past.setdefault(entry.shard, []).append(entry.member.decode("utf-8", "surrogateescape"))
            else:
                found.append(Block.from_reply(entry.member.decode("utf-8", "replace"), row))
        return found

    walked = yield from scan(merge, size, 1, read_blocks)
    yield from _remove_past(ctx, past)
    seen += len(walked.items)
    listed = merge.total - sum(map(len, past.values()))
    is_last = walked.behind is None
    next_cursor = None if is_last else make_cursor("blocks", None, seen, walked.behind)
    total = seen if is_last else listed
    return Page(walked.items, next_cursor, total, is_last, walked.scanned, moment(merge.now))


def _read_call(shard: Shard, uid: bytes) -> Call:
    """Read a listed block. The member of the list may be any bytes that another program wrote."""
    return command(shard.tag, "HMGET", shard.block("").encode() + uid, *BLOCK_FIELDS, lenient=True)


def _is_past(row: Any, now: int) -> bool:
    """Whether a listed block is gone or its end is in the past. ``row`` is None for another program's value."""
    until = dict(zip(BLOCK_FIELDS, row, strict=True))["until"] if row else None
    return until is None or ((end := stored_number(until)) is not None and end <= now)


def _remove_past(ctx: Context, past: dict[Shard, list[str]]) -> Op[None]:
    """Remove blocks that a read found past their end: best effort, and never where writes are not allowed."""
    if past and ctx.settings.heal:
        with contextlib.suppress(Unavailable, CorruptData):
            yield release_calls(ctx, past)


def release_calls(ctx: Context, past: dict[Shard, list[str]]) -> list[Call]:
    """Remove these users' blocks, those that are past their end."""
    calls = []
    for shard, uids in past.items():
        for first in range(0, len(uids), _PER_CALL):
            part = [uid.encode("utf-8", "surrogateescape") for uid in uids[first : first + _PER_CALL]]
            keys: list[str | bytes] = [shard.blocks, *(shard.block("").encode() + uid for uid in part)]
            calls.append(call_of(scripts.RELEASE_BLOCKS, keys, ctx.now, *part))
    return calls


def prune_blocks(ctx: Context) -> Op[None]:
    """For the sweep: check a random part of each shard's blocks, and remove those past their end."""
    replies = yield [
        command(shard.blocks, "ZRANDMEMBER", shard.blocks, _PRUNE, lenient=True) for shard in ctx.keys.shards
    ]
    chosen = {
        shard: [uid.decode("utf-8", "surrogateescape") for uid in uids]
        for shard, uids in zip(ctx.keys.shards, replies, strict=True)
        if uids
    }
    if chosen:
        yield release_calls(ctx, chosen)
