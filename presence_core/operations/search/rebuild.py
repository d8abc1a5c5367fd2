"""Rebuild indexes and facets, in small steps, while logins go on.

First every live session is put into the indexes and counted into new counters (``recount``; ``counted`` has the
sessions that are in them). Logins and ends keep the new counters right meanwhile. So it is known when every listed
session is counted, and the new counters replace the old ones in one step. Then stale entries of the indexes are
removed: those that neither a session nor a person who is offline has. A rebuild that was stopped may be begun again and
keeps its counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from presence_core.errors import CorruptData, Unavailable
from presence_core.filters import facet_members
from presence_core.keyspace import Shard, layout_key, split_ref
from presence_core.models import SweepReport, attributes_of, text
from presence_core.operations.context import Context, stored_names
from presence_core.operations.layout import refresh
from presence_core.operations.scan import ReadAhead, read_ahead, scan_call, scan_part
from presence_core.operations.sessions.settle import settle_calls
from presence_core.scripts.calls import Call, Op, call_of, command, later, pairs
from presence_core.scripts.script import AnyScript
from presence_core.scripts.search import (
    INDEX_SESSIONS,
    MEASURE_FACET_DRIFT,
    READ_HASHES,
    RECOUNT_FACETS,
    REMOVE_ADDRESSES,
    REMOVE_IDP,
    REMOVE_WORDS,
)
from presence_core.text.search_text import entries, id_digest, uid_of

BATCH: Final = 100
"""Sessions in one script: 1 to 2 ms of the server's time."""

ROUND: Final = 1_000
"""Entries that are read at once."""

HASHES: Final = 500
"""Hashes of which one script reads some fields: 1 ms of the server's time."""

ENTRIES: Final = frozenset(("uid", "name", "alias"))
KINDS: Final = {"uid": "u", "name": "n", "alias": "a"}

Progress = Callable[[int, int], object] | None
"""Called with the number of sessions visited so far, and the number of all."""


def reindex(ctx: Context, progress: Progress = None, *, restart: bool = False, is_new: bool = False) -> Op[SweepReport]:
    """Rebuild indexes and facets. ``restart``: keys may be lost, so discard the counts of an interrupted recount.
    ``is_new``: the indexes began empty, so there is nothing to clean."""
    yield from refresh(ctx)  # its first write has no fence
    shards = ctx.keys.shards
    ctx.cache.indexes = frozenset(ctx.settings.indexes)
    total = sum((yield [command(s.sessions, "ZCARD", s.sessions) for s in shards]))
    visited, put_right = 0, 0
    named, usable = stored_names(ctx.cache.indexes), stored_names(ctx.cache.indexes & ctx.cache.complete)
    yield [command(s.meta, "HSET", s.meta, "indexes", usable) for s in shards]  # before entries are removed
    for shard in shards:
        filling = Filling(ctx, shard, restart=restart)
        while not filling.done:
            yield from filling.step()
            if progress:
                progress(min(visited + filling.visited, total), total)
        visited += filling.visited
        put_right += filling.missing
        put_right += yield from _index_people(ctx, shard)
        cleaning = Cleaning(ctx, [shard])
        while cleaning.rounds == 0 and not is_new:
            put_right += yield from cleaning.step()
        yield [command(shard.meta, "HSET", shard.meta, "indexes", named)]
    key = layout_key(ctx.settings.namespace)
    yield [command(key, "HSET", key, "indexes", named)]
    ctx.know_indexes([named.encode()])
    return SweepReport(0, put_right, False)


class Filling:
    """Adds the sessions of a shard to the indexes and counts their facets again, a part at each step."""

    def __init__(self, ctx: Context, shard: Shard, *, restart: bool = False) -> None:
        self._ctx, self._shard, self._restart = ctx, shard, restart
        self._parts: ReadAhead | None = None
        self._passes = 0
        self.visited = 0
        self.missing = 0  #: entries
        self.done = False

    def step(self) -> Op[None]:
        shard = self._shard
        if self._parts is None:
            yield [_recount(shard, "restart" if self._restart else "begin")]
            self._parts = self._all_parts()
        yield from self._parts.step()
        if self._parts.done:  # all are in, but for sessions that were ending
            yield from _drain(self._ctx, shard)
            self._passes += 1
            [reply] = yield [_recount(shard, "end")]
            self.done = RECOUNT_FACETS.reply(reply) or self._passes == 100
            self._parts = self._all_parts()

    def _all_parts(self) -> ReadAhead:
        return ReadAhead(partial(scan_call, "ZSCAN", self._shard.sessions, ROUND), self._index)

    def _index(self, part: list[bytes]) -> Op[None]:
        refs = [ref for ref, _ in pairs(part)]
        missing = yield from _index(self._ctx, self._shard, refs)  # `+=` would read the sum before the part before ends
        self.missing += missing
        self.visited += len(refs)


def _recount(s: Shard, step: str) -> Call:
    return call_of(RECOUNT_FACETS, (s.sessions, s.closing, s.facets, s.recount, s.counted, s.meta), step)


def _drain(ctx: Context, shard: Shard) -> Op[None]:
    """Sessions whose tombstone is still to be written are in neither of the two counts."""
    [refs] = yield [command(shard.closing, "HKEYS", shard.closing)]
    sessions = [split_ref(text(ref)) for ref in refs]
    if sessions:
        yield settle_calls(ctx, shard, sessions)


def _index(ctx: Context, shard: Shard, refs: list[bytes]) -> Op[int]:
    rows = yield from _read_hashes(shard, shard.record_prefix, refs, ("n", "a", "x"))
    sessions = list(zip(refs, rows, strict=True))
    parts = [sessions[first : first + BATCH] for first in range(0, len(sessions), BATCH)]
    calls = [later(shard.sessions, INDEX_SESSIONS, partial(_index_call, ctx, shard, part)) for part in parts]
    return sum((yield calls)) if calls else 0


def _index_call(ctx: Context, shard: Shard, sessions: list[tuple[bytes, tuple[bytes | None, ...]]]) -> Call:
    prefix = shard.record_prefix.encode()
    keys: list[str | bytes] = [shard.sessions, shard.words, shard.addresses, shard.recount, shard.counted, shard.ids,
                              shard.idp]  # fmt: skip
    words: list[str | bytes] = [*("1" if index in ctx.cache.indexes else "0" for index in ("ip", "idp")), "1"]
    for ref, (name, aliases, given) in sessions:
        uid, session_id = split_ref(text(ref))
        found = entries(ctx.cache.indexes, uid, text(name or b""), text(aliases or b""))
        digest = id_digest(session_id, len(ctx.keys.shards)) if "uid" in ctx.cache.indexes else b""
        declared = facet_members(ctx.settings.facets, attributes_of(given)) if ctx.settings.facets else ""
        keys.append(prefix + ref)
        words += (name or b"", aliases or b"", given or b"", declared, digest, str(len(found)), *found)
    return call_of(INDEX_SESSIONS, keys, *words)


def _read_hashes(
    shard: Shard, prefix: str, ends: Sequence[str | bytes], fields: tuple[str, ...]
) -> Op[list[tuple[bytes | None, ...]]]:
    """These fields of the hashes whose keys begin with ``prefix`` and end with one of ``ends``."""
    calls = [
        call_of(READ_HASHES, (shard.meta,), prefix, len(fields), *fields, *ends[at : at + HASHES])
        for at in range(0, len(ends), HASHES)
    ]
    replies = (yield calls) if calls else []
    return [row for flat in replies for row in READ_HASHES.reply(flat, len(fields))]


def _index_people(ctx: Context, shard: Shard) -> Op[int]:
    """Index the people who are offline, and the names that online users had before."""
    missing = 0

    def index(is_online: bool, part: list[bytes]) -> Op[None]:
        nonlocal missing
        uids = [text(uid) for uid, _ in pairs(part)]
        rows = yield from _read_hashes(shard, shard.person(""), uids, ("n", "a"))
        found: list[bytes] = []
        for uid, (name, aliases) in zip(uids, rows, strict=True):
            if is_online and not (name or aliases):
                continue  # the sessions have the same entries
            found += entries(ctx.cache.indexes, uid, text(name or b""), text(aliases or b""))
        parts = [found[first : first + HASHES] for first in range(0, len(found), HASHES)]
        adds = [
            command(shard.words, "ZADD", shard.words, *(word for entry in p for word in ("0", entry))) for p in parts
        ]
        added = (yield adds) if adds else []
        missing += sum(added)

    for key in (shard.people, shard.users):
        yield from read_ahead(partial(scan_call, "ZSCAN", key, ROUND), partial(index, key == shard.users))
    return missing


# -- stale entries of the indexes -------------------------------------------------------------------------------------


class Cleaning:
    """Cleans the indexes of these shards, round after round, a part at each step."""

    def __init__(self, ctx: Context, shards: Sequence[Shard]) -> None:
        self._ctx = ctx
        self._places = [(shard, clean) for shard in shards for clean in (clean_words, clean_addresses, clean_idp)]
        self._at = 0
        self._cursor = b"0"
        self.rounds = 0  #: how often it has come to the end

    def step(self) -> Op[int]:
        """Returns how many entries were removed."""
        shard, clean = self._places[self._at]
        self._cursor, gone = yield from clean(self._ctx, shard, self._cursor)
        if self._cursor == b"0":
            self._at = (self._at + 1) % len(self._places)
            self.rounds += self._at == 0
        return gone


def drifted(shards: Sequence[Shard]) -> Op[list[Shard]]:
    """Shards whose facets count another number of sessions than there are (a key or a record was lost), or where a
    recount was begun and has not ended."""
    differences = yield [call_of(MEASURE_FACET_DRIFT, (s.facets, s.sessions, s.closing, s.recount)) for s in shards]
    return [shard for shard, number in zip(shards, differences, strict=True) if number]


def clean_words(ctx: Context, shard: Shard, cursor: bytes) -> Op[tuple[bytes, int]]:
    """Remove stale entries from a part of the index of words. Returns the next cursor, and how many were removed."""
    cursor, words = yield from scan_part("ZSCAN", shard.words, cursor, ROUND)
    by_user: dict[str, list[bytes]] = {}
    for entry, _ in words:
        by_user.setdefault(uid_of(entry), []).append(entry)
    users = yield from read_users(shard, list(by_user))
    calls = []
    for user in users:
        stale, backed = stale_words(ctx.cache.indexes, user, by_user[user.uid])
        if stale:
            calls.append(_remove_words(shard, user, stale, backed))
    return cursor, sum((yield calls)) if calls else 0


class Names(NamedTuple):
    """Name and aliases, one a line, of a session or a person."""

    name: bytes = b""
    aliases: bytes = b""

    @classmethod
    def decode(cls, row: Sequence[bytes | None]) -> Names:
        name, aliases = row
        return cls(name or b"", aliases or b"")


@dataclass(slots=True)
class IndexedUser:
    """All names that the index of words may have of a user."""

    uid: str
    is_online: bool
    offline_since: int | None  #: last seen, ms, of a user who is in `people`
    person: Names
    sessions: dict[str, Names]


def read_users(shard: Shard, uids: list[str]) -> Op[list[IndexedUser]]:
    """All that the index of words may have of these users. Cost: O(sessions), four round trips."""
    if not uids:
        return []
    online, offline = yield [
        command(shard.users, "ZMSCORE", shard.users, *uids),
        command(shard.people, "ZMSCORE", shard.people, *uids),
    ]
    people = yield from _read_hashes(shard, shard.person(""), uids, ("n", "a"))
    live = yield [command(shard.user(uid), "SMEMBERS", shard.user(uid), lenient=True) for uid in uids]
    users = [
        IndexedUser(uid, seen is not None, None if left is None else int(float(left)), Names.decode(person),
                    {text(session_id): Names() for session_id in session_ids or ()})
        for uid, seen, left, person, session_ids in zip(uids, online, offline, people, live, strict=True)
    ]  # fmt: skip
    pairs = [(user, session_id) for user in users for session_id in user.sessions]
    refs = [f"{user.uid}:{session_id}" for user, session_id in pairs]
    rows = yield from _read_hashes(shard, shard.record_prefix, refs, ("n", "a"))
    for (user, session_id), row in zip(pairs, rows, strict=True):
        user.sessions[session_id] = Names.decode(row)
    return users


def stale_words(indexes: frozenset[str], user: IndexedUser, found: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Those entries that neither a session of the user has nor, while they are known, the person; and all that they
    have."""
    names = list(user.sessions.values())
    if user.is_online or user.offline_since is not None:
        names.append(user.person)
    backed = {entry for name, aliases in names for entry in entries(indexes, user.uid, text(name), text(aliases))}
    return [entry for entry in found if entry not in backed], sorted(backed)


def _remove_words(shard: Shard, user: IndexedUser, stale: list[bytes], backed: list[bytes]) -> Call:
    uid = user.uid
    keys = (shard.words, shard.user(uid), shard.person(uid), shard.people, shard.closing,
            *(shard.record(uid, session_id) for session_id in user.sessions))  # fmt: skip
    seen = "" if user.offline_since is None else user.offline_since
    facts = [part for session_id, names in user.sessions.items() for part in (session_id, *names)]
    return call_of(
        REMOVE_WORDS, keys, uid, seen, *user.person, len(user.sessions), *facts, len(backed), *backed, *stale
    )


def remove_stale_words(ctx: Context, shard: Shard, uid: str, found: Iterable[bytes]) -> Op[None]:
    """Remove those of a user's entries in the index of words that nothing of the user has: best effort. What is left
    ``clean_words`` removes later; no search finds anyone by it meanwhile. Cost: five round trips."""
    with contextlib.suppress(Unavailable, CorruptData):
        [user] = yield from read_users(shard, [uid])
        stale, backed = stale_words(ctx.cache.indexes, user, list(dict.fromkeys(found)))
        if stale:
            yield [_remove_words(shard, user, stale, backed)]


def clean_addresses(ctx: Context, shard: Shard, cursor: bytes) -> Op[tuple[bytes, int]]:
    """Remove entries from a part of the index of addresses whose session has ended or has another address."""
    cursor, addresses = yield from scan_part("ZSCAN", shard.addresses, cursor, ROUND)
    found = [entry for entry, _ in addresses]
    if not found:
        return cursor, 0
    if "ip" not in ctx.cache.indexes:
        return cursor, sum((yield [command(shard.addresses, "ZREM", shard.addresses, *found)]))
    return cursor, sum((yield _remove_refs(REMOVE_ADDRESSES, shard, shard.addresses, found, address_ref)))


def clean_idp(ctx: Context, shard: Shard, cursor: bytes) -> Op[tuple[bytes, int]]:
    """Remove entries from a part of the index of identity providers whose session has ended or has another link."""
    cursor, entries = yield from scan_part("ZSCAN", shard.idp, cursor, ROUND)
    found = [entry for entry, _ in entries]
    if found and "idp" not in ctx.cache.indexes:
        return cursor, sum((yield [command(shard.idp, "ZREM", shard.idp, *found)]))
    calls = remove_idp_calls(shard, found)
    return cursor, sum((yield calls)) if calls else 0


def remove_idp_calls(shard: Shard, entries: list[bytes]) -> list[Call]:
    """Calls that remove those of these entries that no live session has."""
    return _remove_refs(REMOVE_IDP, shard, shard.idp, entries, idp_ref)


def address_ref(entry: bytes) -> bytes:
    """The ref in an entry of the index of addresses."""
    return entry[5 if entry[:1] == b"4" else 17 :]


def idp_ref(entry: bytes) -> bytes:
    """The ref in an entry of the index of identity providers."""
    return entry[17:]


def _remove_refs(
    script: AnyScript, shard: Shard, index: str, entries: list[bytes], ref_of: Callable[[bytes], bytes]
) -> list[Call]:
    records = [shard.record_prefix.encode() + ref_of(entry) for entry in entries]
    return [
        call_of(script, (index, shard.sessions, *records[at : at + BATCH]), *entries[at : at + BATCH])
        for at in range(0, len(entries), BATCH)
    ]
