"""Which users are online: some of many, everybody who was seen of late, how many that are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard
from presence_core.models import text
from presence_core.operations.context import LIVE, Context, found_rows
from presence_core.operations.reading import read_call
from presence_core.scripts import ACTIVE, AMONG, ONLINE, Op, run

BATCH: Final = 1_000
"""Users in one script of ``online_among``."""

REFS_AT_MOST: Final = 1_000
"""Sessions that one ``live_among`` may name: as many as a page of the list may hold."""

ONE: Final = ord("1")

LOOK: Final = 1_000
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
        run(AMONG, (s.users, s.sessions, s.deadlines, s.meta), ctx.now, s.user_prefix, *some) for s, some in parts
    ]
    return {
        uid
        for (_, some), marks in zip(parts, replies, strict=True)
        for uid, mark in zip(some, marks, strict=True)
        if mark == ONE
    }


def live_among(ctx: Context, refs: object) -> Op[set[str]]:
    if isinstance(refs, str | bytes) or not isinstance(refs, Iterable):
        raise InvalidArgument("refs", "must be a list of refs")
    by_user: dict[str, list[str]] = {}
    for place, ref in enumerate(refs):
        if place == REFS_AT_MOST:
            raise InvalidArgument("refs", f"must be at most {REFS_AT_MOST} refs")
        uid, session_id = check.ref(ref)
        by_user.setdefault(uid, []).append(session_id)
    return _live_among(ctx, by_user)


def _live_among(ctx: Context, by_user: dict[str, list[str]]) -> Op[set[str]]:
    if not by_user:
        return set()
    replies = yield [read_call(ctx, ctx.shard(uid), uid, sids) for uid, sids in by_user.items()]
    return {
        f"{uid}:{one.session_id}"
        for uid, reply in zip(by_user, replies, strict=True)
        for one in found_rows(uid, reply)
        if one.state == LIVE
    }


def online_users(ctx: Context, within: object) -> Op[list[str]]:
    return _online_users(ctx, check.seconds("within", within) * 1000)


def _online_users(ctx: Context, within: int) -> Op[list[str]]:
    seen: dict[bytes, float] = {}
    todo: list[tuple[Shard, bytes, int]] = [(s, b"", LOOK) for s in ctx.keys.shards]
    while todo:
        replies = yield [
            run(ONLINE, (s.users, s.sessions, s.deadlines, s.meta), ctx.now, s.user_prefix, within, begin, look)
            for s, begin, look in todo
        ]
        for flat, _ in replies:
            take(flat, seen)
        todo = [
            (s, behind, next_look(begin, behind, look, LOOK))
            for (s, begin, look), (_, behind) in zip(todo, replies, strict=True)
            if behind
        ]
    return newest_first(seen)


def take(flat: list[bytes], seen: dict[bytes, float]) -> None:
    """Note a page of a list by last seen. Who was seen again while it was read stands in two pages; the later holds."""
    for member, score in zip(flat[::2], flat[1::2], strict=True):
        seen[member] = float(score)


def next_look(begin: bytes, behind: bytes, look: int, usual: int) -> int:
    """How much to read next: more, where everything so far was seen in one and the same moment."""
    return 2 * look if behind == begin else usual


def newest_first(seen: dict[bytes, float]) -> list[str]:
    return [text(member) for member in sorted(seen, key=lambda member: (seen[member], member), reverse=True)]


def count_users(ctx: Context, within: object) -> Op[int]:
    return _count_users(ctx, check.seconds("within", within) * 1000)


def _count_users(ctx: Context, within: int) -> Op[int]:
    replies = yield [
        run(ACTIVE, (s.users, s.sessions, s.deadlines, s.meta), ctx.now, s.user_prefix, within) for s in ctx.keys.shards
    ]
    return sum(replies)
