"""Indexes and facets made anew, in small steps, while logins go on.

First every live session is put into the indexes and counted into new counters (``recount``; ``counted`` remembers who
is in them). Logins and ends keep the new counters true meanwhile, so that the moment when every listed session is
counted can be told, and the new take the place of the old in one step. Then what indexes hold without need goes: an
entry that neither a session nor a person who left backs. Stopped anywhere it may be begun again: what is counted stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from presence_core.filters import entries, facet_members, uid_of
from presence_core.keyspace import Shard, layout_key, split_ref
from presence_core.models import SweepReport, attributes_of, text
from presence_core.operations.context import Context
from presence_core.operations.upkeep import look, tidy_calls
from presence_core.scripts import DRIFT, INDEX, RECOUNT, UNADDRESS, UNINDEX, Call, Op, command, run
from presence_core.settings import INDEXES

BATCH: Final = 100
"""Sessions in one script: 1 to 2 ms of the server's time."""

ROUND: Final = 1_000
"""Entries that are read at once."""

ENTRIES: Final = frozenset(("uid", "name", "alias"))
KINDS: Final = {"uid": "u", "name": "n", "alias": "a"}

Progress = Callable[[int, int], object] | None
"""Told how many sessions have been visited, and of how many."""


def reindex(ctx: Context, progress: Progress = None, *, anew: bool = False) -> Op[SweepReport]:
    """``anew``: where keys may have been lost, what an interrupted one has counted is not trusted."""
    yield from look(ctx)  # what it writes first is not behind a fence
    shards = ctx.keys.shards
    ctx.indexes = frozenset(ctx.settings.indexes)
    total = sum((yield [command(s.sessions, "ZCARD", s.sessions) for s in shards]))
    visited, put_right = 0, 0
    named = ",".join(one for one in INDEXES if one in ctx.indexes)
    usable = ",".join(one for one in INDEXES if one in ctx.indexes & ctx.complete)
    yield [command(s.meta, "HSET", s.meta, "indexes", usable) for s in shards]  # before any goes
    for shard in shards:
        filling = Filling(ctx, shard, anew=anew)
        while not filling.done:
            put_right += yield from filling.step()
            if progress:
                progress(min(visited + filling.visited, total), total)
        visited += filling.visited
        put_right += yield from _index_people(ctx, shard)
        cleaning = Cleaning(ctx, [shard])
        while cleaning.rounds == 0:
            put_right += yield from cleaning.step()
        yield [command(shard.meta, "HSET", shard.meta, "indexes", named)]
    key = layout_key(ctx.settings.namespace)
    yield [command(key, "HSET", key, "indexes", named)]
    ctx.know_indexes([named.encode()])
    return SweepReport(0, put_right, False)


class Filling:
    """Every session of a shard put into the indexes and counted anew, a part at each step."""

    def __init__(self, ctx: Context, shard: Shard, *, anew: bool = False) -> None:
        self._ctx, self._shard, self._anew = ctx, shard, anew
        self._cursor: bytes | None = None
        self._passes = 0
        self.visited = 0
        self.done = False

    def step(self) -> Op[int]:
        """Answers how many entries were missing."""
        shard, key = self._shard, self._shard.sessions
        if self._cursor is None:
            yield [_recount(shard, "anew" if self._anew else "begin")]
            self._cursor = b"0"
        [(self._cursor, flat)] = yield [command(key, "ZSCAN", key, self._cursor, "COUNT", ROUND)]
        missing = yield from _index(self._ctx, shard, flat[::2])
        self.visited += len(flat) // 2
        if self._cursor == b"0":  # but for sessions that were on their way out all are in
            yield from _drain(self._ctx, shard)
            self._passes += 1
            self.done = (yield [_recount(shard, "end")]) == [1] or self._passes == 100
        return missing


def _recount(s: Shard, what: str) -> Call:
    return run(RECOUNT, (s.sessions, s.closing, s.facets, s.recount, s.counted, s.meta), what)


def _drain(ctx: Context, shard: Shard) -> Op[None]:
    """Sessions whose tombstone is still to be written are in neither of the two counts."""
    [refs] = yield [command(shard.closing, "HKEYS", shard.closing)]
    pairs = [split_ref(text(ref)) for ref in refs]
    if pairs:
        yield tidy_calls(ctx, shard, pairs)


def _index(ctx: Context, shard: Shard, refs: list[bytes]) -> Op[int]:
    prefix = shard.record_prefix.encode()
    if not refs:
        return 0
    rows = yield [command(shard.tag, "HMGET", prefix + ref, "n", "a", "x", lenient=True) for ref in refs]
    calls = []
    for first in range(0, len(refs), BATCH):
        part = refs[first : first + BATCH]
        keys = [shard.sessions, shard.words, shard.addresses, shard.recount, shard.counted]
        words: list[str | bytes | int] = [1 if "ip" in ctx.indexes else 0, 1]
        for ref, row in zip(part, rows[first : first + BATCH], strict=True):
            name, aliases, given = row or (None, None, None)
            found = entries(ctx.indexes, split_ref(text(ref))[0], text(name or b""), text(aliases or b""))
            declared = facet_members(ctx.settings.facets, attributes_of(given)) if ctx.settings.facets else ""
            keys.append(prefix + ref)  # type: ignore[arg-type]  # as it stands in the list
            words += (ref, name or b"", aliases or b"", given or b"", declared, len(found), *found)
        calls.append(run(INDEX, keys, *words))
    return sum((yield calls))


def _index_people(ctx: Context, shard: Shard) -> Op[int]:
    """Those who are offline are found, too; or will be, by the name that they left earlier."""
    missing = 0
    for key in (shard.people, shard.users):
        missing += yield from _index_left(ctx, shard, key)
    return missing


def _index_left(ctx: Context, shard: Shard, everybody: str) -> Op[int]:
    cursor, missing = b"0", 0
    while True:
        [(cursor, flat)] = yield [command(everybody, "ZSCAN", everybody, cursor, "COUNT", ROUND)]
        uids = [text(uid) for uid in flat[::2]]
        keys = [shard.person(uid) for uid in uids]
        rows = (yield [command(key, "HMGET", key, "n", "a", lenient=True) for key in keys]) if keys else []
        members: list[bytes | int] = []
        for uid, row in zip(uids, rows, strict=True):
            name, aliases = row or (None, None)
            for entry in entries(ctx.indexes, uid, text(name or b""), text(aliases or b"")):
                members += (0, entry)
        for first in range(0, len(members), ROUND):
            [added] = yield [command(shard.words, "ZADD", shard.words, *members[first : first + ROUND])]
            missing += added
        if cursor == b"0":
            return missing


# -- what is in the indexes without need ------------------------------------------------------------------------------


class Cleaning:
    """Both indexes of these shards, round after round, a part at each step."""

    def __init__(self, ctx: Context, shards: Sequence[Shard]) -> None:
        self._ctx = ctx
        self._places = [(shard, clean) for shard in shards for clean in (clean_words, clean_addresses)]
        self._at = 0
        self._cursor = b"0"
        self.rounds = 0  #: how often it has come to the end

    def step(self) -> Op[int]:
        """Answers how many entries went."""
        shard, clean = self._places[self._at]
        self._cursor, gone = yield from clean(self._ctx, shard, self._cursor)
        if self._cursor == b"0":
            self._at = (self._at + 1) % len(self._places)
            self.rounds += self._at == 0
        return gone


def drifted(ctx: Context, shards: Sequence[Shard]) -> Op[list[Shard]]:
    """Shards whose facets do not count as many sessions as there are (a key was lost, or a record), or that somebody
    began to count anew and perhaps left."""
    off = yield [run(DRIFT, (s.facets, s.sessions, s.closing, s.recount)) for s in shards]
    return [shard for shard, number in zip(shards, off, strict=True) if number]


def clean_words(ctx: Context, shard: Shard, cursor: bytes) -> Op[tuple[bytes, int]]:
    """A part of the index of words: entries that nobody backs go."""
    [(cursor, flat)] = yield [command(shard.words, "ZSCAN", shard.words, cursor, "COUNT", ROUND)]
    by_user: dict[str, list[bytes]] = {}
    for entry in flat[::2]:
        by_user.setdefault(uid_of(entry), []).append(entry)
    if not by_user:
        return cursor, 0
    uids = list(by_user)
    [online] = yield [command(shard.users, "ZMSCORE", shard.users, *uids)]
    [offline] = yield [command(shard.people, "ZMSCORE", shard.people, *uids)]
    asked: list[Call] = []
    for uid in uids:
        asked.append(command(shard.person(uid), "HMGET", shard.person(uid), "n", "a", lenient=True))
        asked.append(command(shard.user(uid), "SMEMBERS", shard.user(uid), lenient=True))
    replies = yield asked
    held = {uid: [text(sid) for sid in replies[2 * i + 1] or ()] for i, uid in enumerate(uids)}
    records = [(uid, sid) for uid in uids for sid in held[uid]]
    keys = [shard.record(*pair) for pair in records]
    rows = (yield [command(key, "HMGET", key, "n", "a", lenient=True) for key in keys]) if keys else []
    names = dict(zip(records, rows, strict=True))
    calls = []
    for i, uid in enumerate(uids):
        person = replies[2 * i] or (None, None)
        sessions = [(sid, *(names[uid, sid] or (None, None))) for sid in held[uid]]
        backed: set[bytes] = set()
        known = [row[1:] for row in sessions] + ([person] if offline[i] is not None or online[i] is not None else [])
        for name, aliases in known:
            backed.update(entries(ctx.indexes, uid, text(name or b""), text(aliases or b"")))
        stale = [entry for entry in by_user[uid] if entry not in backed]
        if stale:
            where = (shard.words, shard.user(uid), shard.person(uid), shard.people, shard.closing,
                     *(shard.record(uid, sid) for sid in held[uid]))  # fmt: skip
            seen = "" if offline[i] is None else int(float(offline[i]))
            facts = [part or b"" for row in sessions for part in row]
            left = (part or b"" for part in person)
            calls.append(run(UNINDEX, where, uid, seen, *left, len(sessions), *facts, *stale))
    return cursor, sum((yield calls)) if calls else 0


def clean_addresses(ctx: Context, shard: Shard, cursor: bytes) -> Op[tuple[bytes, int]]:
    """A part of the index of addresses: entries of sessions that have ended, or moved unheard, go."""
    [(cursor, flat)] = yield [command(shard.addresses, "ZSCAN", shard.addresses, cursor, "COUNT", ROUND)]
    found = flat[::2]
    if not found:
        return cursor, 0
    if "ip" not in ctx.indexes:
        return cursor, sum((yield [command(shard.addresses, "ZREM", shard.addresses, *found)]))
    records = [shard.record_prefix.encode() + entry[5 if entry[:1] == b"4" else 17 :] for entry in found]
    calls = [
        run(UNADDRESS, (shard.addresses, shard.sessions, *records[at : at + BATCH]), *found[at : at + BATCH])
        for at in range(0, len(found), BATCH)
    ]
    return cursor, sum((yield calls))
