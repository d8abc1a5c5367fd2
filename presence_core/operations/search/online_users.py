"""Which users are online: those among given users, all who were seen recently, and how many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from presence_core import validation as check
from presence_core.keyspace import Shard
from presence_core.models import text
from presence_core.operations.context import Context
from presence_core.operations.search.live_counts import START, count_shards
from presence_core.scripts import search as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first

BATCH: Final = 1_000
"""Users in one script of ``online_among``."""

MAX_READ: Final = 1_000
"""Users that one script reads of a list by last seen."""


@checked_first
def online_among(ctx: Context, uids: object) -> Op[set[str]]:
    wanted = check.uids(uids)
    yield CHECKED
    parts = ctx.parts(wanted, str, BATCH)
    if not parts:
        return set()
    replies = yield [find_online_call(ctx, s, some) for s, some in parts]
    found = [scripts.FIND_ONLINE.reply(uids, marks) for (_, uids), marks in zip(parts, replies, strict=True)]
    return set().union(*found)


def find_online_call(ctx: Context, s: Shard, uids: Iterable[str]) -> Call:
    """Which of these users of a shard are online, at most BATCH."""
    keys = (s.users, s.sessions, s.deadlines, s.meta)
    return call_of(scripts.FIND_ONLINE, keys, ctx.now, s.user_prefix, *uids)


@checked_first
def online_users(ctx: Context, within: object) -> Op[list[str]]:
    window = check.seconds("within", within) * 1000
    yield CHECKED
    seen: dict[bytes, float] = {}
    todo: list[tuple[Shard, tuple[bytes, bytes]]] = [(s, START) for s in ctx.keys.shards]
    while todo:
        replies = yield [
            call_of(scripts.READ_ONLINE_USERS, (s.users, s.sessions, s.deadlines, s.meta), ctx.now, s.user_prefix,
                    window, MAX_READ, *begin)
            for s, begin in todo
        ]  # fmt: skip
        pages = [scripts.READ_ONLINE_USERS.reply(reply) for reply in replies]
        for page in pages:
            seen |= page.seen  # a user seen again while this reads is on two pages: the later counts
        todo = [(s, page.next_begin) for (s, _), page in zip(todo, pages, strict=True) if page.next_begin != START]
    return newest_first(seen)


def newest_first(seen: dict[bytes, float]) -> list[str]:
    return [text(member) for member in sorted(seen, key=lambda member: (seen[member], member), reverse=True)]


@checked_first
def count_users(ctx: Context, within: object) -> Op[int]:
    window = check.seconds("within", within) * 1000
    yield CHECKED
    shards, _ = yield from count_shards(ctx, window)
    return sum(shard.users for shard in shards)
