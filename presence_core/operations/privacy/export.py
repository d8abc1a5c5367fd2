"""Export everything that is stored about one person, for that person to read."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, TypeVar

from presence_core import validation as check
from presence_core.keyspace import Shard, split_ref
from presence_core.models import ApprovalRequest, Page, SavedItem, moment, plain, stored_number, text
from presence_core.models.places import read_place
from presence_core.operations import sign_ins
from presence_core.operations.context import Context
from presence_core.operations.failures import listing
from presence_core.operations.notices import queue
from presence_core.operations.search.live_counts import count_call
from presence_core.operations.sessions import read, tombstones
from presence_core.operations.staff import approvals, audit, blocks, remarks, saved_items
from presence_core.scripts.calls import CHECKED, Op, checked_first, command, pairs
from presence_core.scripts.search import COUNT_LIVE

MAX_ITEMS: Final = 10_000
"""Entries of each kind that an export holds."""

_ROUND: Final = 500

T = TypeVar("T")


@checked_first
def export_person(ctx: Context, uid: object) -> Op[dict[str, Any]]:
    owner = check.uid(uid)
    yield CHECKED
    s = ctx.shard(owner)
    [reply] = yield [count_call(ctx, s)]
    lists: dict[str, list[Any]] = {
        "sessions": (yield from read.sessions(ctx, owner)),
        "ended": (
            yield from _all_pages(lambda cursor: tombstones.ended(ctx, owner, None, None, None, None, 1000, cursor))
        ),
        "sign_ins": (yield from sign_ins.history(ctx, owner)),
        "failed_logins": (
            yield from _all_pages(
                lambda cursor: listing.failed_logins(ctx, owner, None, None, None, None, 1000, cursor)
            )
        ),
        "audit": (yield from _all_pages(lambda cursor: audit.audit(ctx, owner, None, None, None, 1000, cursor))),
        "events": (yield from _events(s, owner)),
        "saved": (yield from _saved(ctx, owner)),
        "remarks": (yield from remarks.remarks(ctx, owner, remarks.MAX_REMARKS)),
        "requests": (yield from _requests(ctx, owner)),
        "notices": (yield from queue.read_stored(ctx, owner)),
    }
    return {
        "uid": owner,
        "exported_at": moment(COUNT_LIVE.reply(reply).now).isoformat(),
        "person": (yield from _person(s, owner)),
        "devices": (yield from _devices(s, owner)),
        "last_place": (yield from _last_place(s, owner)),
        "block": plain((yield from blocks.blocked(ctx, owner))),
        **{name: plain(found[:MAX_ITEMS]) for name, found in lists.items()},
        "cut": [name for name, found in lists.items() if len(found) > MAX_ITEMS],
    }


def _person(s: Shard, uid: str) -> Op[dict[str, Any]]:
    """When they were last seen, the names that are kept while they are offline, and when ``update_person`` changed
    them."""
    key = s.person(uid)
    online, offline, row = yield [
        command(s.users, "ZSCORE", s.users, uid),
        command(s.people, "ZSCORE", s.people, uid),
        command(key, "HMGET", key, "n", "a", "rn", "ra", lenient=True),
    ]
    seen = offline if online is None else online
    name, aliases, *renamed = row or (None,) * 4
    changed = max((stored_number(at) or 0 for at in renamed), default=0)
    return {
        "online": online is not None,
        "last_seen": None if seen is None else moment(round(float(seen))).isoformat(),
        "name": text(name) if name else None,
        "aliases": text(aliases).split("\n") if aliases else [],
        "renamed_at": moment(changed).isoformat() if changed else None,
    }


def _devices(s: Shard, uid: str) -> Op[list[dict[str, str]]]:
    """The devices that they have logged in on: a digest each, and the last login."""
    [flat] = yield [command(s.known(uid), "HGETALL", s.known(uid), lenient=True)]
    known = [(raw.hex(), number) for raw, at in pairs(flat or ()) if (number := stored_number(at)) is not None]
    return [{"digest": name, "last_login": moment(at).isoformat()} for name, at in sorted(known, key=itemgetter(1))]


def _last_place(s: Shard, uid: str) -> Op[dict[str, Any] | None]:
    """Place and time of their last login with a known place, as long as it is kept."""
    [raw] = yield [command(s.place(uid), "GET", s.place(uid), lenient=True)]
    if not raw or len(raw) <= 8:
        return None
    return {"login_at": moment(int.from_bytes(raw[:8], "big")).isoformat(), "place": plain(read_place(raw[8:]))}


def _saved(ctx: Context, uid: str) -> Op[list[SavedItem]]:
    """The items that they saved as staff, and those by which staff watch them."""
    lists = yield from saved_items.all_lists(ctx)
    found = [
        item
        for saved in lists
        for item in saved.items()
        if item.owner == uid.lower() or (item.kind == "watch" and item.name == uid)
    ]
    return sorted(found, key=lambda item: (item.kind, item.owner or "", item.name))


def _requests(ctx: Context, uid: str) -> Op[list[ApprovalRequest]]:
    """The requests for approval that concern them, as the audit entries do: by a filter for their uid."""
    found = yield from approvals.requests(ctx)
    return [request for request in found if request.filter is not None and request.filter.uid == uid]


def _all_pages(read_page: Callable[[str | None], Op[Page[T]]]) -> Op[list[T]]:
    """The items of all pages, up to more than MAX_ITEMS."""
    found: list[T] = []
    cursor = None
    while len(found) <= MAX_ITEMS:
        page = yield from read_page(cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _events(s: Shard, uid: str) -> Op[list[dict[str, str]]]:
    found: list[dict[str, str]] = []
    begin = b"-"
    while len(found) <= MAX_ITEMS:
        [entries] = yield [command(s.events, "XRANGE", s.events, begin, "+", "COUNT", _ROUND)]
        for _, flat in entries:
            known = dict(pairs(flat))
            owner, sid = split_ref(text(known.get(b"r", b"")))
            at = stored_number(known.get(b"a"))
            if owner == uid and at is not None:
                kind = text(known.get(b"k", b""))
                found.append({"kind": kind, "session_id": sid, "at": moment(at).isoformat()})
        if len(entries) < _ROUND:
            break
        last_id, _ = entries[-1]
        begin = b"(" + last_id
    return found
