"""Remarks: short texts that staff leave on a person for their colleagues. Each lapses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard
from presence_core.models import Remark, text
from presence_core.operations.context import Context
from presence_core.scripts import staff as scripts
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command

MAX_REMARKS: Final = 10
"""Of one person."""

MAX_PEOPLE: Final = 10_000
"""People with remarks, of all shards together."""

MAX_NAMED: Final = 1_000
"""Users in one call of ``remarks_among``."""

_ID: Final = 16


@checked_first
def add_remark(ctx: Context, uid: object, content: object, by: object) -> Op[Remark]:
    owner, body, actor = check.uid(uid), check.prose("text", content), check.actor(by)
    yield CHECKED
    remark_id = ctx.new_secret()[: _ID // 2].hex()
    change = yield from _write(ctx, owner, remark_id, body.strip(), actor)
    return Remark.new(owner, remark_id, body.strip(), actor, change.at, change.at + ctx.settings.keep_remarks * 1000)


@checked_first
def remove_remark(ctx: Context, uid: object, remark_id: object, by: object) -> Op[bool]:
    owner, actor = check.uid(uid), check.actor(by)
    if not isinstance(remark_id, str) or len(remark_id) != _ID or not remark_id.isalnum():
        raise InvalidArgument("remark_id", "must be the id of a remark", "malformed")
    yield CHECKED
    return (yield from _write(ctx, owner, remark_id, "", actor)).code == 1


def _write(ctx: Context, uid: str, remark_id: str, body: str, by: str) -> Op[scripts.RemarkChange]:
    shard = ctx.shard(uid)
    [reply] = yield [
        call_of(scripts.WRITE_REMARK, (shard.remarks(uid), shard.remarked, shard.audit), given_now=ctx.now,
                audit_cap=ctx.audit_cap, uid=uid, id=remark_id, text=body, by=by, keep=ctx.settings.keep_remarks,
                most=MAX_REMARKS, people=max(1, MAX_PEOPLE // len(ctx.keys.shards)))
    ]  # fmt: skip
    change = scripts.WRITE_REMARK.reply(reply)
    if change.code == scripts.TOO_MANY_REMARKS:
        raise InvalidArgument("uid", f"has {MAX_REMARKS} remarks, the limit: remove one first", "list_full")
    if change.code == scripts.TOO_MANY_REMARKED:
        raise InvalidArgument(
            "uid", f"cannot get a remark: the limit of {MAX_PEOPLE:,} people with remarks is reached", "list_full"
        )
    return change


@checked_first
def remarks(ctx: Context, uid: object, limit: object) -> Op[list[Remark]]:
    """Of one person, or of the people whose last remark is the newest; newest first."""
    owner, most = None if uid is None else check.uid(uid), check.whole("limit", limit, 1, 1000)
    yield CHECKED
    if owner is not None:
        users = [(ctx.shard(owner), owner)]
    else:
        shards = ctx.keys.shards
        lists = yield [command(s.remarked, "ZREVRANGE", s.remarked, 0, most - 1) for s in shards]
        users = [(s, text(raw)) for s, found in zip(shards, lists, strict=True) for raw in found]
    found = yield from _read(ctx, users)
    return sorted(found, key=lambda remark: (remark.at, remark.id), reverse=True)[:most]


@checked_first
def remarks_among(ctx: Context, uids: object) -> Op[dict[str, list[Remark]]]:
    wanted = check.uids(uids, MAX_NAMED)
    yield CHECKED
    parts = ctx.parts(wanted, str, MAX_NAMED)
    scores = yield [command(s.remarked, "ZMSCORE", s.remarked, *owners) for s, owners in parts]
    users = [
        (shard, uid)
        for (shard, owners), marks in zip(parts, scores, strict=True)
        for uid, mark in zip(owners, marks, strict=True)
        if mark is not None
    ]
    by_uid: dict[str, list[Remark]] = {}
    for remark in sorted((yield from _read(ctx, users)), key=lambda remark: remark.at, reverse=True):
        by_uid.setdefault(remark.uid, []).append(remark)
    return by_uid


def _read(ctx: Context, users: Iterable[tuple[Shard, str]]) -> Op[list[Remark]]:
    """The remarks of these users that have not lapsed."""
    known = list(users)
    if not known:
        return []
    replies = yield [
        call_of(scripts.READ_REMARKS, tuple(shard.remarks(uid) for uid in uids), ctx.now)
        for shard, uids in _by_shard(known)
    ]
    found: list[Remark] = []
    for (_, uids), reply in zip(_by_shard(known), replies, strict=True):
        read = scripts.READ_REMARKS.reply(reply)
        for uid, rows in zip(uids, read.remarks, strict=True):
            stored = (Remark.from_row(uid, text(remark_id), raw) for remark_id, raw in rows)
            found += [remark for remark in stored if remark and remark.until.timestamp() * 1000 > read.now]
    return found


def _by_shard(users: Iterable[tuple[Shard, str]]) -> list[tuple[Shard, list[str]]]:
    groups: dict[Shard, list[str]] = {}
    for shard, uid in users:
        groups.setdefault(shard, []).append(uid)
    return [(shard, uids[at : at + 100]) for shard, uids in groups.items() for at in range(0, len(uids), 100)]
