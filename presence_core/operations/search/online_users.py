"""Which users are online: those among given users, all who were seen recently, and how many."""

from __future__ import annotations

from typing import Final

from presence_core import validation as check
from presence_core.keyspace import Shard
from presence_core.models import text
from presence_core.operations.context import Context
from presence_core.scripts.calls import Op, call_of
from presence_core.scripts.search import (
    COUNT_ACTIVE_USERS,
    FIND_ONLINE,
    READ_ONLINE_USERS,
    decode_active_users,
    decode_last_seen,
    decode_online,
)

BATCH: Final = 1_000
"""Users in one script of ``online_among``."""

MOST_READ: Final = 1_000
"""Users that one script reads of a list by last seen."""


def online_among(ctx: Context, uids: object) -> Op[set[str]]:
    return _online_among(ctx, check.uids(uids))


def _online_among(ctx: Context, uids: list[str]) -> Op[set[str]]:
    by_shard: dict[Shard, list[str]] = {}
    for uid in uids:
        by_shard.setdefault(ctx.shard(uid), []).append(uid)
    parts = [(s, some[i : i + BATCH]) for s, some in by_shard.items() for i in range(0, len(some), BATCH)]
    if not parts:
        return set()
    replies = yield [
        call_of(FIND_ONLINE, (s.users, s.sessions, s.deadlines, s.meta), ctx.now, s.user_prefix, *some)
        for s, some in parts
    ]
    return set().union(*(decode_online(some, marks) for (_, some), marks in zip(parts, replies, strict=True)))


def online_users(ctx: Context, within: object) -> Op[list[str]]:
    return _online_users(ctx, check.seconds("within", within) * 1000)


def _online_users(ctx: Context, within: int) -> Op[list[str]]:
    seen: dict[bytes, float] = {}
    todo: list[tuple[Shard, bytes, int]] = [(s, b"", MOST_READ) for s in ctx.keys.shards]
    while todo:
        replies = yield [
            call_of(
                READ_ONLINE_USERS,
                (s.users, s.sessions, s.deadlines, s.meta),
                ctx.now,
                s.user_prefix,
                within,
                begin,
                size,
            )
            for s, begin, size in todo
        ]
        pages = [decode_last_seen(reply) for reply in replies]
        for page in pages:
            seen |= page.seen  # a user seen again while this reads is on two pages: the later counts
        todo = [
            (s, page.next_begin, next_size(begin, page.next_begin, size, MOST_READ))
            for (s, begin, size), page in zip(todo, pages, strict=True)
            if page.next_begin
        ]
    return newest_first(seen)


def next_size(begin: bytes, behind: bytes, size: int, usual: int) -> int:
    """How many to read next: more, where all members of the page have the same score."""
    return 2 * size if behind == begin else usual


def newest_first(seen: dict[bytes, float]) -> list[str]:
    return [text(member) for member in sorted(seen, key=lambda member: (seen[member], member), reverse=True)]


def count_users(ctx: Context, within: object) -> Op[int]:
    return _count_users(ctx, check.seconds("within", within) * 1000)


def _count_users(ctx: Context, within: int) -> Op[int]:
    replies = yield [
        call_of(COUNT_ACTIVE_USERS, (s.users, s.sessions, s.deadlines, s.meta), ctx.now, s.user_prefix, within)
        for s in ctx.keys.shards
    ]
    return sum(map(decode_active_users, replies))
