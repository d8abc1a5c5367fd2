"""What is kept of one person, for that person to read."""

from __future__ import annotations

from typing import Any, Final

from presence_core import settings as check
from presence_core.keyspace import Shard, split_ref
from presence_core.models import AuditEntry, Ended, moment, plain, text
from presence_core.operations import audit, blocks, ended, reading
from presence_core.operations.context import Context
from presence_core.scripts import COUNT, Op, command, run

MOST: Final = 10_000
"""Entries of each kind that an export holds."""

_ROUND: Final = 500


def export_person(ctx: Context, uid: object) -> Op[dict[str, Any]]:
    return _export(ctx, check.uid(uid))


def _export(ctx: Context, uid: str) -> Op[dict[str, Any]]:
    s = ctx.shard(uid)
    [(now, *_)] = yield [run(COUNT, (s.deadlines, s.users, s.meta, s.totals, s.sessions), ctx.now)]
    lists: dict[str, list[Any]] = {
        "sessions": (yield from reading.sessions(ctx, uid)),
        "ended": (yield from _ends(ctx, uid)),
        "audit": (yield from _acts(ctx, uid)),
        "events": (yield from _events(s, uid)),
    }
    return {
        "uid": uid,
        "exported_at": moment(now).isoformat(),
        "person": (yield from _person(s, uid)),
        "block": plain((yield from blocks.blocked(ctx, uid))),
        **{name: plain(found[:MOST]) for name, found in lists.items()},
        "cut": [name for name, found in lists.items() if len(found) > MOST],
    }


def _person(s: Shard, uid: str) -> Op[dict[str, Any]]:
    """When they were last seen, and what is kept of somebody who is offline."""
    key = s.person(uid)
    online, offline, row = yield [
        command(s.users, "ZSCORE", s.users, uid),
        command(s.people, "ZSCORE", s.people, uid),
        command(key, "HMGET", key, "n", "a", lenient=True),
    ]
    seen = offline if online is None else online
    name, aliases = row or (None, None)
    return {
        "online": online is not None,
        "last_seen": None if seen is None else moment(round(float(seen))).isoformat(),
        "name": text(name) if name else None,
        "aliases": text(aliases).split("\n") if aliases else [],
    }


def _ends(ctx: Context, uid: str) -> Op[list[Ended]]:
    found: list[Ended] = []
    cursor = None
    while len(found) <= MOST:
        page = yield from ended.ended(ctx, uid, None, None, None, None, 1000, cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _acts(ctx: Context, uid: str) -> Op[list[AuditEntry]]:
    found: list[AuditEntry] = []
    cursor = None
    while len(found) <= MOST:
        page = yield from audit.audit(ctx, uid, None, None, None, 1000, cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _events(s: Shard, uid: str) -> Op[list[dict[str, str]]]:
    found: list[dict[str, str]] = []
    begin = b"-"
    while len(found) <= MOST:
        [entries] = yield [command(s.events, "XRANGE", s.events, begin, "+", "COUNT", _ROUND)]
        for _, flat in entries:
            known = dict(zip(flat[::2], flat[1::2], strict=True))
            owner, sid = split_ref(text(known.get(b"r", b"")))
            at = known.get(b"a", b"")
            if owner == uid and at.isdigit():
                kind = text(known.get(b"k", b""))
                found.append({"kind": kind, "session_id": sid, "at": moment(int(at)).isoformat()})
        if len(entries) < _ROUND:
            break
        begin = b"(" + entries[-1][0]
    return found
